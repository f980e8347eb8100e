"""The log of the requests that an agent program makes through the gate: one file of a run, in `inflight/gate/`.

Each line is one step of a request: `{"k":1,"request":{...}}`, `{"k":1,"sent":{}}`, `{"k":1,"response":{...}}`, as the files of
other exchanges are. Several requests may be open at once. Only the courier of the run writes, at the end, so a flush makes
all earlier lines durable, too: those of other requests, and those that were not flushed by themselves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from logist.core.text.json_object import JsonObject
from logist.errors import Damaged, StorageError
from logist.quick_tuple import NamedTuple
from logist.store import files

LOG = "requests.jsonl"
"""The name of the log, in the directory of the gate."""
Part = Literal["request", "sent", "response"]

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_ORDER: tuple[Part, ...] = ("request", "sent", "response")


class GateLine(NamedTuple):
    """One line of the log."""

    k: int
    part: Part
    value: JsonObject


class GateLog:
    """The log of one run, for writing; its methods may be called from several threads."""

    def __init__(self, folder: Path) -> None:
        """Create it, durably. Raises StorageError if there is one with requests."""
        self.path = folder / LOG
        files.require_trust(self.path)
        files.make_directory(folder)
        with files.convert_os_errors(self.path):
            self._file: int | None = os.open(self.path, _APPEND, 0o600)
            os.fchmod(self._file, 0o600)  # whatever the umask is
        self._written = self._flushed = os.fstat(self._file).st_size
        self._broken = False
        self._writing, self._flushing = Lock(), Lock()
        if self._written:
            self.close()
            raise StorageError("another run has written it", where=str(self.path), fix=_describe_fix(folder))
        # Both names, even if they existed: who made them may have been killed before they were durable.
        files.sync_directory(folder)
        files.sync_directory(folder.parent)

    def append(self, k: int, part: Part, value: JsonObject) -> None:
        """Write a line; `flush` makes it durable. If it fails, the log is as it was before."""
        line = b'{"k":%d,"%s":%s}\n' % (k, part.encode(), files.dump_json(value).strip())
        with self._writing:
            files.require_trust(self.path)
            if self._file is None or self._broken:
                raise self._closed_error()
            with files.convert_os_errors(self.path):
                try:
                    files.write_all(self._file, line)
                except OSError:
                    # Half a line must not come before another one: that would be damage.
                    self._broken = True
                    os.ftruncate(self._file, self._written)
                    self._broken = False
                    raise
            self._written += len(line)

    def flush(self) -> None:
        """Make all lines durable that were appended before: with one flush for all threads that wait at the same time."""
        wanted = self._written
        with self._flushing:
            if self._flushed >= wanted:
                return
            written = self._written
            if self._file is None:
                raise self._closed_error()
            with files.convert_os_errors(self.path):
                files.fsync(self._file, self.path)
            self._flushed = written

    def close(self) -> None:
        """Close it; nothing can be written any more."""
        with self._writing, self._flushing:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _closed_error(self) -> StorageError:
        message = "the log of the gate is closed, or an earlier write has failed"
        return StorageError(message, where=str(self.path), fix="check the disk, then run the command again")


def read_gate_log(folder: Path) -> dict[int, dict[Part, JsonObject]] | None:
    """Return what is recorded of each request, by its number; None if there is no log.

    Raises Damaged for a line that the courier can't have written, and FileNotFoundError if the directory is gone.
    """
    requests: dict[int, dict[Part, JsonObject]] = {}
    if not os.path.lexists(folder / LOG):
        os.stat(folder)  # its stepper may have removed it meanwhile
        return None
    for line in _read_lines(folder):
        requests.setdefault(line.k, {})[line.part] = line.value
    return requests


def _read_lines(folder: Path) -> Iterator[GateLine]:
    path, parts = folder / LOG, {0: list(_ORDER)}
    with files.open_required_file(path, "the log of the gate", lambda: _describe_fix(folder)) as file:
        for number, data in enumerate(file, 1):
            if not data.endswith(b"\n"):
                return  # it is being written, or was cut off before it was durable
            line = _parse_line(data)
            if line is None or not _is_next(parts, line):
                # After a power cut, a page of the last line may have no content.
                if b"\0" in data and not file.read(1):
                    return
                message = f"line {number} of the log of the gate is damaged"
                raise Damaged(message, where=str(path), fix=_describe_fix(folder))
            yield line


def _is_next(parts: dict[int, list[Part]], line: GateLine) -> bool:
    """Whether a line may follow those before it, and keep it in `parts`: each request's parts are in their order."""
    seen = parts.setdefault(line.k, []) if line.k - 1 in parts else list(_ORDER)
    if line.part == "response" and seen == ["request"]:
        seen.append("sent")  # it was given up before it was sent
    if seen != list(_ORDER[: _ORDER.index(line.part)]):
        return False
    seen.append(line.part)
    return True


def _parse_line(data: bytes) -> GateLine | None:
    try:
        record: Any = json.loads(data)
        [(name, k), (part, value)] = record.items()
    except (ValueError, RecursionError, AttributeError):
        return None
    is_valid = name == "k" and type(k) is int and part in _ORDER and isinstance(value, dict)
    return GateLine(k, part, value) if is_valid else None


def _describe_fix(folder: Path) -> str:
    move = files.format_move_command(folder.parent)
    return f"check it, then move it away: {move} (its exchange then counts as not recorded)"
