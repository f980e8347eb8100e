"""Kills the courier just before, or just after, it gives a file of `inflight/` its name.

Loaded at the start of every process of a prepared interpreter (see `pay_tools.killing_python`). The order
is the file `kill_at` of the world; it is carried out once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

COURIER = "logist.agents.courier"


class _Killer:
    def __init__(self, path: str, order: dict[str, Any]) -> None:
        self.path, self.name, self.after = path, order["name"], order["after"]
        self.left = int(order["time"])
        self.struck = False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if self.struck or self.left < 0:
            return
        if self.left == 0:  # the file has its name, and nothing else was done yet
            self._strike()
        if _given_a_name(event, args) == self.name:
            self.left -= 1
            if self.left == 0 and not self.after:
                self._strike()

    def _strike(self) -> None:
        self.struck = True
        os.unlink(self.path)
        os.kill(os.getpid(), signal.SIGKILL)


def _given_a_name(event: str, args: tuple[Any, ...]) -> str | None:
    if event == "os.rename":
        return os.path.basename(os.fsdecode(args[1]))
    if event == "open" and isinstance(args[2], int) and args[2] & os.O_CREAT and not isinstance(args[0], int):
        return os.path.basename(os.fsdecode(args[0]))
    return None


def _obey() -> None:
    if COURIER not in sys.orig_argv:
        return
    job = sys.orig_argv[sys.orig_argv.index(COURIER) + 1]
    path = os.path.normpath(os.path.join(job, "../../../kill_at"))
    try:
        with open(path, encoding="utf-8") as file:
            order = json.load(file)
    except FileNotFoundError:
        return
    sys.addaudithook(_Killer(path, order))


_obey()
