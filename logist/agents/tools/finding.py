"""Finds lines of a text: a literal in this process, a regular expression in a process that can be killed.

The time to find a literal grows only with the text. A Python regular expression may take forever and can't be
interrupted in its process, so it runs in a child process with limits (see `matching`) that is killed at the
deadline. The child gets texts instead of paths: it opens no files, so the rules for opening files stay in one
place.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from logist.agents.tools import matching
from logist.agents.tools.context import Context, ToolError

MAX_PATTERN = 1000
POLL_SECONDS = 0.1
CHUNK = 1 << 16

Place = tuple[int, int]
"""Line and column, from 0."""


class SlowError(Exception):
    """The expression took too long or too much memory. Never leaves this package."""


class TextFinder(Protocol):
    """Finds the first match in each line of a text."""

    def find_places(self, data: bytes) -> list[Place]:
        """Return at most `matching.MOST` of them. Raises SlowError if it takes too long."""
        ...


@contextmanager
def open_finder(
    pattern: str, context: Context, deadline: float, *, regex: bool, ignore_case: bool
) -> Iterator[TextFinder]:
    """Open a finder for one search. Raises ToolError for an invalid pattern."""
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"the pattern has {len(pattern):,} characters; the limit is {MAX_PATTERN:,}")
    if not regex:
        yield LiteralText(pattern, ignore_case=ignore_case)
        return
    expression = Expression(context, deadline)
    try:
        expression.send_pattern(pattern, ignore_case=ignore_case)
        yield expression
    finally:
        expression.kill_child()


class LiteralText:
    """A literal text."""

    def __init__(self, wanted: str, *, ignore_case: bool) -> None:
        if "\n" in wanted or "\r" in wanted:
            raise ToolError("the pattern contains a line break; search finds only text within one line")
        self.wanted = wanted.lower() if ignore_case else wanted
        self.ignore_case = ignore_case
        try:
            self.raw = wanted.encode()
        except UnicodeEncodeError:
            raise ToolError("the pattern is not valid Unicode text") from None

    def find_places(self, data: bytes) -> list[Place]:
        if not self.ignore_case and self.raw not in data:
            return []
        text = data.decode("utf-8", "surrogateescape")
        # Lowering may change the length of a line, but not which line it is.
        return self._find_in(text.lower() if self.ignore_case else text)

    def _find_in(self, text: str) -> list[Place]:
        places: list[Place] = []
        number = counted = 0
        place = text.find(self.wanted)
        while place >= 0 and len(places) < matching.MOST:
            number += text.count("\n", counted, place)
            counted = place
            places.append((number, place - (text.rfind("\n", 0, place) + 1)))
            end = text.find("\n", place)
            place = text.find(self.wanted, end) if end >= 0 else -1
        return places


class Expression:
    """A regular expression, matched in a child process."""

    def __init__(self, context: Context, deadline: float) -> None:
        self.context = context
        self.deadline = deadline
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", matching.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
        )

    def send_pattern(self, pattern: str, *, ignore_case: bool) -> None:
        """Send the pattern to the child. Raises ToolError for an invalid regular expression."""
        try:
            fault = self._ask_child(json.dumps([pattern, ignore_case]).encode() + b"\n")
        except SlowError as error:
            raise ToolError(f"the regular expression {error}") from None
        if fault is not None:
            raise ToolError(f"the pattern is not a valid Python regular expression: {fault}")

    def find_places(self, data: bytes) -> list[Place]:
        matches = self._ask_child(b"%d\n%b" % (len(data), data))
        return [(number, column) for number, column in matches]

    def kill_child(self) -> None:
        """Kill the child, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()

    def _ask_child(self, question: bytes) -> Any:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(question)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SlowError("took too much memory") from None
        return json.loads(self._read_line())

    def _read_line(self) -> bytes:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        line = b""
        while not line.endswith(b"\n"):
            self.context.require_time_left()
            if time.monotonic() >= self.deadline:
                raise SlowError("took too long")
            if not select.select([descriptor], [], [], POLL_SECONDS)[0]:
                continue
            data = os.read(descriptor, CHUNK)
            if not data:
                raise SlowError("took too much memory or time")
            line += data
        return line
