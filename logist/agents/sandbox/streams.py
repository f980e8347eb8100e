"""Standard input, output and error of a program: input from bytes, output into two files up to a limit.

Or only the ends of the outputs are kept, without a limit for the program.
"""

from __future__ import annotations

import os
import select
import selectors
import subprocess
import time
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import IO, Protocol

from logist.quick_dataclass import dataclass
from logist.store.files import write_all

PIECE = 1 << 16


def create_output_file(path: Path) -> int:
    """Create an empty file that only its owner can read; return its descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


class Dialogue(Protocol):
    """The other side of a program that answers line by line."""

    def read_output(self, data: bytes) -> bytes:
        """Take a piece of the program's standard output; return what to send to it."""
        ...

    def is_over(self) -> bool:
        """Whether nothing more will be sent, so that the program's input is closed."""
        ...


@dataclass
class Streams:
    """The pipes of one program; use it in `with`, so that they are closed."""

    stdin: bytes
    files: tuple[int, int]
    """Descriptors for output and error; closed together with the pipes."""
    room: int
    """Bytes that can still be kept."""
    tail: int | None = None
    """If set: only this many bytes from the end of each output are kept, and output is unlimited."""
    cut: bool = False
    heard: int = 0
    """The number of bytes received, kept or not."""
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    dialogue: Dialogue | None = None
    """If set, writes to the program after each piece of its output."""
    _input: IO[bytes] | None = None
    _fed: int = 0
    _outputs: dict[int, int] = field(default_factory=dict)
    """The output file for each pipe, by descriptor."""
    _pipes: list[IO[bytes]] = field(default_factory=list)
    _ends: dict[int, bytearray] = field(default_factory=dict)
    """The kept ends, by output file."""

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *_: object) -> None:
        self.selector.close()
        for pipe in (*self._pipes, *([self._input] if self._input else [])):
            with suppress(OSError):
                pipe.close()
        for number in self.files:
            try:
                write_all(number, self._ends.get(number, b"")[-(self.tail or 1) :])
            finally:
                os.close(number)

    def attach_pipes(self, process: subprocess.Popen[bytes]) -> None:
        """Take over the pipes of a process that was started unbuffered, with
        `choose_stdin()` as its input.
        """
        assert process.stdout is not None
        assert process.stderr is not None
        for pipe, file in zip((process.stdout, process.stderr), self.files, strict=True):
            # A leftover process that keeps the pipe open must not block a read.
            os.set_blocking(pipe.fileno(), False)
            self._pipes.append(pipe)
            self._outputs[pipe.fileno()] = file
            self.selector.register(pipe, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._input = process.stdin
            self.selector.register(process.stdin, selectors.EVENT_WRITE)

    def wake_for(self, number: int) -> None:
        """Make `pump_pipes` return early when this descriptor is ready."""
        self.selector.register(number, selectors.EVENT_READ)

    def choose_stdin(self) -> int:
        """Return what to give Popen as `stdin`."""
        return subprocess.PIPE if self.stdin else subprocess.DEVNULL

    def pump_pipes(self, seconds: float) -> None:
        """Copy available input and output; return after at most `seconds`, or
        when another descriptor is ready.
        """
        for key, _ in self.selector.select(seconds):
            if self._input is not None and key.fd == self._input.fileno():
                self._feed_input()
            elif key.fd in self._outputs:
                self._read_output(key.fd)

    def drain_pipes(self) -> None:
        """Read what is left in the pipes, without waiting."""
        for number in list(self._outputs):
            while self._read_output(number):
                pass

    def _feed_input(self) -> None:
        assert self._input is not None
        try:
            self._fed += os.write(self._input.fileno(), self.stdin[self._fed : self._fed + PIECE])
        except BlockingIOError:
            return
        except OSError:  # the program doesn't read its input
            self._fed = len(self.stdin)
        if self._fed == len(self.stdin):
            self.selector.unregister(self._input)
            if self.dialogue is None or self.dialogue.is_over():
                self._input.close()
                self._input = None

    def _answer_output(self, data: bytes) -> None:
        assert self.dialogue is not None
        more = self.dialogue.read_output(data)
        if self._input is None:
            return
        self.stdin, self._fed = self.stdin[self._fed :] + more, 0
        is_watched = self._input.fileno() in self.selector.get_map()
        if not is_watched and (more or self.dialogue.is_over()):
            self.selector.register(self._input, selectors.EVENT_WRITE)

    def _read_output(self, number: int) -> bool:
        """Read one piece of output; return whether there may be more."""
        try:
            data = os.read(number, PIECE)
        except BlockingIOError:
            return False
        if not data:
            self.selector.unregister(number)
            del self._outputs[number]
            return False
        self.heard += len(data)
        if self.dialogue is not None and self._outputs[number] == self.files[0]:
            self._answer_output(data)
        if self.tail is not None:
            self._keep_end(self._outputs[number], data, self.tail)
            return True
        kept = memoryview(data)[: self.room]
        self.cut = self.cut or len(kept) < len(data)
        self.room -= len(kept)
        write_all(self._outputs[number], kept)
        return not self.cut

    def _keep_end(self, file: int, data: bytes, most: int) -> None:
        end = self._ends.setdefault(file, bytearray())
        end += data
        if len(end) > most + PIECE:
            del end[:-most]


def read_pipe(number: int, seconds: float, *, line: bool = False) -> tuple[bytes, bool]:
    """Read a pipe up to its end, or up to a newline.

    Returns the bytes, and whether the end was reached in time.
    """
    until = time.monotonic() + seconds
    data = b""
    while wait_readable(number, until - time.monotonic()):
        # Byte by byte for a line: the rest of the pipe belongs to a later reader.
        piece = os.read(number, 1 if line else PIECE)
        data += piece
        if not piece or (line and piece == b"\n"):
            return data, True
    return data, False


def wait_readable(number: int, seconds: float) -> bool:
    """Whether data or the end of the file is available within this number of seconds."""
    poll = select.poll()  # not select.select, which doesn't support descriptors above 1023
    poll.register(number, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))
