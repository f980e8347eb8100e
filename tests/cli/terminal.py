"""A terminal at which a person watches a command and types, while it runs."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from types import TracebackType

from tests import support
from tests.cli.desk import Desk

_OWN_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
"""Makes the terminal that of the process, so that Ctrl-C arrives as a signal."""
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[@-~]")
CTRL_C = b"\x03"


class Terminal:
    """One command on a terminal; use it in `with`."""

    def __init__(
        self, desk: Desk, *args: str, env: Mapping[str, str] | None = None, columns: int = 160
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = support.process_environment() | desk.env | {"TERM": "xterm"} | dict(env or {})
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OWN_TERMINAL, *support.logist_command(), *args],
            cwd=desk.place,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end inside a character
        self.raw = ""
        """Everything that was written, with its control sequences."""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def seen(self) -> str:
        """Everything that was written, without control sequences."""
        return _SEQUENCE.sub("", self.raw)

    @property
    def screen(self) -> str:
        """The lines that stay: what was drawn over is left out. Knows only what live lines use."""
        lines = [""]
        for part in re.findall(r"\x1b\[[0-?]*[@-~]|\r|\n|[^\x1b\r\n]+", self.raw.replace("\r\n", "\n")):
            if part == "\n":
                lines.append("")
            elif re.fullmatch(r"\x1b\[[0-9]*A", part):  # the cursor goes up: the lines below are drawn again
                del lines[len(lines) - int(part[2:-1] or "1") :]
            elif part in ("\r", "\x1b[2K"):
                lines[-1] = ""
            elif not part.startswith("\x1b"):
                lines[-1] += part
        return "\n".join(lines)

    def type(self, keys: bytes) -> None:
        """What the person types."""
        os.write(self._master, keys)

    def wait_for(self, text: str, start: int = 0) -> None:
        """Read until the text was written, after as many characters as `start`."""
        self._read_until(lambda: text in self.seen[start:])
        assert text in self.seen[start:], self.seen[start:]

    def wait(self) -> int:
        """Read until the command has ended; return its exit code."""
        self._read_until(lambda: False)
        return self.process.wait(support.CRASHED)

    def _read_until(self, done: object) -> None:
        assert callable(done)
        until = time.monotonic() + support.CRASHED
        while not done() and time.monotonic() < until:
            if not select.select([self._master], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the command has ended
                return
            self.raw += self._decoder.decode(data)
