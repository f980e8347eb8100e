"""A project at which a person sits: runs commands, with scripted answers, and looks at what they left."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import support
from tests.support import Ran, RunLogist

Json = dict[str, Any]


def command(action: str = "COMPLETED", summary: str = "Done.", **more: Any) -> str:
    """An exit command as an agent writes it."""
    return json.dumps({"action": action, "evidence_files": [], "summary_for_supervisor": summary, **more})


def answer(text: str | None = None, **more: Any) -> Json:
    """One scripted answer; without a text it is COMPLETED."""
    return {"text": command() if text is None else text, **more}


class Desk:
    """A directory with `.logist` in it, and no repository around it."""

    def __init__(self, place: Path, run: RunLogist) -> None:
        self.place = place
        self.home = place / ".logist"
        self.jobs = self.home / "jobs"
        self.jobs.mkdir(parents=True)
        self._run = run
        self.script(answer(), answer())

    def script(self, *answers: Json) -> None:
        """What the scripted agent says, to every job from its first ask on."""
        (self.place / "answers.json").write_text(json.dumps({"answers": answers}), "utf-8")

    def settings(self, text: str) -> None:
        (self.home / "config.yaml").write_text(text, "utf-8")

    @property
    def env(self) -> dict[str, str]:
        return {"LOGIST_AGENT": f"scripted:{self.place / 'answers.json'}", "LOGIST_STEWARD": "ada"}

    def __call__(self, *args: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
        return self._run(*args, stdin=stdin, env=self.env | dict(env or {}), cwd=self.place)

    def process(self, *args: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
        """The same as a process of its own."""
        return support.run_as_process(*args, stdin=stdin, env=self.env | dict(env or {}), cwd=self.place)

    def started(
        self, *args: str, env: Mapping[str, str] | None = None, **pipes: Any
    ) -> subprocess.Popen[bytes]:
        """A process that goes on by itself."""
        environment = support.process_environment() | self.env | dict(env or {})
        return subprocess.Popen([*support.logist_command(), *args], cwd=self.place, env=environment, **pipes)

    def on_terminal(
        self,
        *args: str,
        columns: int = 80,
        env: Mapping[str, str] | None = None,
        stdin_too: bool = False,
        encoding: str = "utf-8",
    ) -> str:
        """What a person sees on a terminal of that width; `stdin_too`: they could also type."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = support.process_environment() | self.env | {"TERM": "xterm"} | dict(env or {})
        started = subprocess.Popen(
            [*support.logist_command(), *args],
            cwd=self.place,
            env=environment,
            stdin=slave if stdin_too else subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        seen = b"".join(_everything(master))
        os.close(master)
        started.wait(support.CRASHED)
        return seen.decode(encoding).replace("\r\n", "\n")

    def create(self, job_id: str = "j1", *options: str, prompt: str = "Do it.") -> None:
        made = self("job", "create", "--id", job_id, "--prompt", prompt, *options)
        assert made.code == 0, made.err

    def job(self, job_id: str = "j1") -> Path:
        return self.jobs / job_id

    def state(self, job_id: str = "j1") -> Json:
        loaded: Json = json.loads((self.job(job_id) / "state.json").read_bytes())
        return loaded

    def history(self, job_id: str = "j1") -> list[Json]:
        loaded: Json = json.loads((self.job(job_id) / "jobHistory.json").read_bytes())
        entries: list[Json] = loaded["interactions"]
        return entries

    def tree(self) -> dict[str, bytes | None]:
        """Every byte of the project, to compare before and after."""
        return support.tree(self.home)

    def shown(self, ran: Ran) -> str:
        """A run as a snapshot keeps it: places and times made the same everywhere."""
        return f"exit {ran.code}\n--- stdout\n{self.plain(ran.out)}--- stderr\n{self.plain(ran.err)}"

    def plain(self, text: str) -> str:
        text = text.replace(str(self.place), "<project>").replace(str(support.ROOT), "<logist>")
        text = re.sub(
            r"run \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d-[0-9a-f]{4}(: \S+,) [0-9ms]+", r"run <id>\1 <seconds>", text
        )
        text = re.sub(r"(\t\$[0-9.]+\t)[0-9ms]+\t", r"\1<seconds>\t", text)
        return re.sub(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ| \d\d:\d\d(:\d\d)?\b)", "<time>", text)


def _everything(master: int) -> list[bytes]:
    chunks: list[bytes] = []
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the other end is closed
            return chunks
        if not chunk:
            return chunks
        chunks.append(chunk)
