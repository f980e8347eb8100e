"""inflight/progress: what an agent does at the moment, for people who watch. One JSON object a line.

Nothing depends on this file: no command needs it, it is not flushed to the disk, and deleting it is harmless. It is
removed with `inflight/`. Has few imports, because `job status` reads it.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from logist.quick_tuple import NamedTuple
from logist.regular_files import open_regular

NAME = "progress"
MOST_BYTES = 1 << 18
"""The writer empties a file that would become larger than this; a reader reads no more of its end."""
LONGEST_TEXT = 200
"""Characters of a text in a record."""
_LONGEST_LINE = 1 << 13
_LAST_BYTES = 1 << 14
"""How much of the end is read to find the last record."""
_MOST_NUMBER = 1 << 62


class Activity(StrEnum):
    """What an agent does."""

    BEGUN = "begun"
    """The courier runs; nothing was sent yet."""
    ASKED = "asked"
    """A request was sent to the model."""
    ANSWERING = "answering"
    """The answer arrives; `words` has its last words."""
    ANSWERED = "answered"
    """The answer is saved, and its cost counts."""
    FAILED = "failed"
    """The call brought no answer; this is saved, and its cost counts."""
    TOOL = "tool"
    """A tool runs."""
    RETRYING = "retrying"
    """A call failed without cost, and is made again after a pause."""
    WORKING = "working"
    """An agent program runs; `tool` or `words` is from its output."""
    WAITING = "waiting"
    """For a limit that is shared with other jobs; `words` says for what."""


class ActivityRecord(NamedTuple):
    """One line of the file. Amounts are those of the current request so far, with all its turns."""

    activity: str
    """An Activity; a newer Logist may have more of them."""
    run: str = ""
    """Which courier wrote it; a random text."""
    number: int = 0
    """Counts the records of a courier, from 1."""
    at: float = 0.0
    """Seconds since 1970."""
    seconds: float = 0.0
    """Seconds since the courier began; a clock that is set does not change them."""
    role: str = ""
    turn: int = 0
    """The current turn of the model, from 1; 0 for an agent program."""
    tool: str = ""
    target: str = ""
    """The file, the pattern or the command that the tool is about."""
    words: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microcents: int = 0
    in_flight_microcents: int = 0
    """The highest possible cost of a call that was sent and has no answer yet."""

    def count_elapsed(self, now: float) -> float:
        """Return the seconds that the agent has worked; `now` is in seconds since 1970."""
        return self.seconds + max(0.0, now - self.at)


_DEFAULTS = ActivityRecord("")


def parse_record(line: bytes) -> ActivityRecord | None:
    """Return the record of a line; None if it is damaged. Fields that only a newer Logist knows are ignored."""
    try:
        data = json.loads(line)
        known = {name: _check_value(data[name], default) for name, default in _defaults(data).items()}
        return _DEFAULTS._replace(**known)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return None


def _defaults(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict) or not isinstance(data.get("activity"), str):
        raise TypeError("expected an object with an activity")
    return {name: default for name, default in _DEFAULTS._asdict().items() if name in data}


def _check_value(value: Any, default: Any) -> Any:
    if isinstance(default, str) and isinstance(value, str):
        return value[:LONGEST_TEXT]
    if isinstance(value, bool) or not isinstance(value, int | float) or isinstance(default, str):
        raise TypeError("wrong type")
    if not math.isfinite(value) or not 0 <= value < _MOST_NUMBER:
        raise ValueError("out of range")
    return value if isinstance(default, float) else int(value)


class ProgressWriter:
    """Appends records to the file of one ask. Without the file (no space, no permission), it does nothing."""

    def __init__(
        self, inflight: Path, now: Callable[[], float], monotonic: Callable[[], float], *, run: str = ""
    ) -> None:
        """Begin a new file. `now`: seconds since 1970."""
        self._now, self._monotonic, self._began = now, monotonic, monotonic()
        self._run = run or os.urandom(6).hex()
        self._number = 0
        self._file: int | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            # The job may come from another person: a pipe or a second name of another file is removed, not opened.
            with suppress(FileNotFoundError):
                os.unlink(inflight / NAME)
            self._file = os.open(inflight / NAME, flags, 0o600)

    def write(self, record: ActivityRecord) -> None:
        """Append a record; its texts must not contain secrets. `run`, `number` and the times are filled in."""
        if self._file is None:
            return
        self._number += 1
        filled = record._replace(
            run=self._run,
            number=self._number,
            at=round(self._now(), 3),
            seconds=round(self._monotonic() - self._began, 3),
            tool=record.tool[:LONGEST_TEXT],
            target=record.target[:LONGEST_TEXT],
            words=record.words[:LONGEST_TEXT],
        )
        changed = {name: value for name, value in filled._asdict().items() if value or name == "activity"}
        line = json.dumps(changed, separators=(",", ":")).encode() + b"\n"
        with suppress(OSError):
            if os.fstat(self._file).st_size + len(line) > MOST_BYTES:
                os.ftruncate(self._file, 0)  # each record is complete: only older activities are lost
            os.write(self._file, line)


class ProgressReader:
    """Reads the records that are new since the last call; never waits, and opens only a regular file."""

    def __init__(self, inflight: Path) -> None:
        self._path = inflight / NAME
        self._descriptor: int | None = None
        self._file = (0, 0)
        self._offset = 0
        self._run = ""
        self._number = 0

    def read_new(self) -> list[ActivityRecord]:
        """Return new records in order, without damaged lines."""
        lines: list[bytes] = []
        file = self._find_file()
        if self._descriptor is not None:
            # Kept open: the last records of a courier are written shortly before its file is removed.
            lines += self._read_lines(self._descriptor)
            if file != self._file:
                self.close()
        if self._descriptor is None and file is not None:
            with suppress(OSError):
                self._descriptor, _ = open_regular(self._path)
                self._file, self._offset = file, 0
                lines += self._read_lines(self._descriptor)
        return [record for record in map(parse_record, lines) if record and self._is_new(record)]

    def close(self) -> None:
        """Close the file; the next `read_new` opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _find_file(self) -> tuple[int, int] | None:
        """Return what identifies the file; None if there is no regular file."""
        try:
            status = os.lstat(self._path)
        except OSError:
            return None
        return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None

    def _read_lines(self, descriptor: int) -> list[bytes]:
        try:
            size = os.fstat(descriptor).st_size
            if size < self._offset:
                self._offset = 0
            self._offset = max(self._offset, size - MOST_BYTES)
            data = os.pread(descriptor, MOST_BYTES, self._offset)
        except OSError:
            return []
        complete = data.rfind(b"\n") + 1
        # The end of a line that is being written is read with the next call; no line is that long.
        self._offset += complete if complete or len(data) < _LONGEST_LINE else len(data)
        return data[:complete].splitlines()

    def _is_new(self, record: ActivityRecord) -> bool:
        """Whether the record was not returned before: the writer may have emptied the file meanwhile."""
        if record.run != self._run:
            self._run, self._number = record.run, 0
        is_new = record.number > self._number
        self._number = max(self._number, record.number)
        return is_new


def read_last_record(inflight: Path) -> ActivityRecord | None:
    """Return the last complete record; None without one."""
    try:
        descriptor, size = open_regular(inflight / NAME)
    except OSError:
        return None
    try:
        data = os.pread(descriptor, _LAST_BYTES, max(0, size - _LAST_BYTES))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return next(filter(None, map(parse_record, reversed(lines))), None)
