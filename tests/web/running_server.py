"""`logist serve` as a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
from types import TracebackType
from typing import IO

from tests import support
from tests.cli.desk import Desk


class RunningServer:
    """The server of a project, at a port that was free. Inside `with`; ended at its end, and it must have had no errors."""

    def __init__(self, desk: Desk, port: int = 0) -> None:
        self._desk = desk
        self._wanted = port
        self.link = ""
        self.port = 0
        self._said = 0

    def __enter__(self) -> RunningServer:
        self._errors = (self._desk.place / "serve-errors.txt").open("w+b")
        options = ("serve", "--port", str(self._wanted))
        self.process = self._desk.started(
            *options, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors
        )
        assert self.process.stdout is not None
        self.link = self._read_link(self.process.stdout)
        self.port = int(self.link.partition("127.0.0.1:")[2].partition("/")[0])
        return self

    def _read_link(self, output: IO[bytes]) -> str:
        for line in output:
            if found := re.search(rb"http://127\.0\.0\.1:\d+/enter\?key=\S+", line):
                return found[0].decode()
        raise AssertionError(f"no link: {self.read_errors()}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(support.CRASHED)
        assert self.process.stdout is not None
        self.process.stdout.close()
        errors = "\n".join(self.read_errors().splitlines()[self._said :])
        self._errors.close()
        if kind is None:
            assert errors == "", errors

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def create_link(self, *options: str) -> str:
        """Return a further one-time link, as `logist serve --link` prints it."""
        return self._desk.process("serve", "--link", *options).out.strip()

    def read_errors(self) -> str:
        """Return what the server has written to standard error."""
        self._errors.seek(0)
        return self._errors.read().decode()

    def expect_said(self, text: str) -> None:
        """Accept a line on standard error that begins so: it is no error. It must be all there is."""
        (line,) = self.read_errors().splitlines()
        assert line.startswith(text), line
        self._said = 1

    def kill(self) -> None:
        """End the server as a crash does."""
        self.process.kill()
        self.process.wait(support.CRASHED)
