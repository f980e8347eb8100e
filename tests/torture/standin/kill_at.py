"""Kills the courier just before, or just after, it gives a file of `inflight/` its name, or writes a line of the gate's log.

A line is named like the file of another exchange: `gate/2.sent`.

Loaded at the start of every process of a prepared interpreter (see `pay_tools.killing_python`). The order
is the file `kill_at` of the world; it is carried out once.
"""

from __future__ import annotations

import json
import os
import re
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

    def watch_log(self) -> None:
        """Strike at a line of the gate's log, too, in the thread that writes it: that one does nothing more."""
        write = os.write

        def write_line(fd: int, data: Any) -> int:
            line = re.match(rb'\{"k":(\d+),"(request|sent|response)":', data)
            is_named = line is not None and f"gate/{int(line[1])}.{line[2].decode()}" == self.name
            if is_named and not self.after:
                self._strike()
            count = write(fd, data)
            if is_named:
                self._strike()
            return count

        os.write = write_line

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
    killer = _Killer(path, order)
    sys.addaudithook(killer)
    killer.watch_log()


_obey()
