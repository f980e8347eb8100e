"""The bytes of jobHistory.json: its first line, its entries, and the checksums that chain them.

    {"version":1,"segment":1,"first_sequence":1,"previous":null,"interactions": [
    {"sequence":1, ... ,"previous":null,"checksum":"<64 hex>"}
    ,{"sequence":2, ... ,"previous":"<64 hex>","checksum":"<64 hex>"}
    ]}

The comma leads, so that an append never changes a finished line: it only overwrites the closing bytes.
`checksum` is the sha256 of the line without its comma and without the checksum member; `previous` is the
checksum of the entry before. Only a newline byte ends a line: U+2028 and similar characters may occur inside
values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from logist.core.text.json_object import JsonObject
from logist.digests import compute_sha256
from logist.errors import Damaged, NewerFormat, StorageError
from logist.formats import JOB, UPGRADE, describe_newer, is_newer
from logist.lazy_patterns import compile_on_use
from logist.quick_tuple import NamedTuple
from logist.regular_files import MOST
from logist.store import files

CLOSING = b"]}\n"
LONGEST = MOST
"""The maximum number of bytes of a line, including comma and newline: longer lines are neither written nor read in one piece.

The longest answer has 16 Mi characters, and JSON writes a control character as six bytes; the rest is for the
prompt and the other fields."""
NOT_YET = (b"]", b"\0")
"""How a line begins if its page did not reach the disk: with the old closing, or with zeros. Even if the rest of
the entry is complete, its append was interrupted."""

CLOSINGS = (b"", b"]", b"]}")
"""The closing line, complete or in part, without whitespace."""
MOST_TORN = LONGEST + len(b"\n" + CLOSING)
"""The maximum number of bytes of an interrupted append: only one entry at a time is written in place."""

_SHORT = 1000
"""The maximum number of bytes of a closing line, including whitespace."""
_HEADER = compile_on_use(
    rb'\{"version":(\d{1,9}),"segment":([1-9]\d{0,9}),"first_sequence":([1-9]\d{0,18}),'
    rb'"previous":(?:null|"([0-9a-f]{64})"),"interactions": \[\n'
)
_LONGEST_HEADER = 300
_MEMBER = b',"checksum":"'
_SEAL = len(_MEMBER) + 64 + len(b'"}')


class Position(NamedTuple):
    """Where an entry is; for an empty history: sequence 0, no hash, and the
    offset of the first entry to come.
    """

    sequence: int
    hash: str | None
    offset: int
    """Byte where the entry's line begins."""


class Header(NamedTuple):
    """The first line of a history file; a later segment continues from the
    hash `previous` with `first_sequence`.
    """

    segment: int
    first_sequence: int
    previous: str | None
    size: int

    def start_position(self) -> Position:
        """The position before the first entry of this file."""
        return Position(self.first_sequence - 1, self.previous, self.size)


def suggest_restore(path: Path, name: str | None = None) -> str:
    """How to fix a damaged history: restore `name` (by default the file itself) from a backup."""
    advice = f"restore {name or path.name} from a backup"
    # Archives and fixtures are not jobs, so `job verify` can't read them: only a job has a lock.
    if not os.path.lexists(path.with_name("lock")):
        return advice
    return f"{advice}; to see what is damaged, run: logist job verify --job {path.parent.name}"


def format_header(segment: int = 1, first_sequence: int = 1, previous: str | None = None) -> bytes:
    """The first line of a history file."""
    quoted = f'"{previous}"' if previous else "null"
    return (
        f'{{"version":{JOB.version},"segment":{segment},"first_sequence":{first_sequence},'
        f'"previous":{quoted},"interactions": [\n'
    ).encode()


def read_header(file: BinaryIO, path: Path) -> Header:
    """Read and check the first line.

    Raises Damaged unless it is exactly as Logist writes it, Refused if a newer Logist wrote it.
    """
    line = file.readline(_LONGEST_HEADER)
    match = _HEADER.fullmatch(line)
    if match is None:
        raise Damaged("the first line of the history is damaged", where=str(path), fix=suggest_restore(path))
    version, segment, first = (int(match[n]) for n in (1, 2, 3))
    if is_newer(version):
        raise NewerFormat(describe_newer("the history", version), where=str(path), fix=UPGRADE)
    previous = match[4].decode() if match[4] else None
    if version < 1 or not (segment == 1) == (first == 1) == (previous is None):
        raise Damaged(
            "the first line of the history is inconsistent", where=str(path), fix=suggest_restore(path)
        )
    return Header(segment, first, previous, len(line))


def seal_entry(entry: JsonObject, sequence: int, previous: str | None) -> tuple[JsonObject, bytes]:
    """Complete an entry with its sequence, link and checksum; return it and its line, without comma and newline.

    Raises StorageError if the line would be too long to read back.
    """
    own = ("sequence", "previous", "checksum")
    kept = {key: value for key, value in entry.items() if key not in own}
    complete: JsonObject = {"sequence": sequence, **kept, "previous": previous}
    body = files.dump_json(complete)
    complete["checksum"] = compute_sha256(body)
    if len(body) + _SEAL + len(b",\n") > LONGEST:
        message = f"interaction {sequence} is too large: {len(body):,} bytes, the limit is {LONGEST:,} bytes"
        raise StorageError(message, fix="nothing was written; try again with a shorter answer")
    return complete, b'%b%b%b"}' % (body[:-1], _MEMBER, complete["checksum"].encode())


def verify_line(line: bytes) -> str | None:
    """Return the checksum of a complete line (no comma, no newline); None if the line does not verify."""
    ending = line[-_SEAL:]
    if not ending.startswith(_MEMBER):
        return None
    digest = compute_sha256(memoryview(line)[:-_SEAL], b"}")  # a line may be long: it is not copied
    return digest if ending == b'%b%b"}' % (_MEMBER, digest.encode()) else None


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines from the current position on; a line longer than LONGEST comes in pieces."""
    while line := file.readline(LONGEST):
        yield line


def seek_afresh(file: BinaryIO, offset: int) -> None:
    """Seek to `offset` so that the next read comes from the file itself.

    A plain seek within the buffer would return old data even if another process has appended since.
    """
    file.seek(0, os.SEEK_END)
    file.seek(offset)


def read_closing(file: BinaryIO, end: int) -> bytes | None:
    """Read what follows the last entry, if that is no more than the closing,
    complete or partial; else None.
    """
    seek_afresh(file, end)
    rest = file.read(_SHORT + 1)
    return rest if len(rest) <= _SHORT and rest.strip() in CLOSINGS else None


def describe_excess(size: int) -> str | None:
    """Why so many bytes can't be one interrupted append; None if they can be."""
    return f"{size:,} more bytes follow, too many for one interrupted write" if size > MOST_TORN else None


def is_complete_entry(line: bytes, *, next_one: bool) -> bool:
    """True if a line after the last good entry is a complete entry, whatever its number; then the middle is
    damaged.

    `next_one`: it is the first such line. If that begins as NOT_YET describes, its append was
    interrupted.
    """
    if next_one and line.startswith(NOT_YET):
        return False
    return verify_line(line[max(line.find(b"{"), 0) :].removesuffix(b"\n")) is not None


def extract_sealed_bytes(line: bytes, sequence: int, first_sequence: int) -> bytes | None:
    """The part of a line that `verify_line` takes; None if its comma or its number is wrong."""
    comma = b"" if sequence == first_sequence else b","
    if not line.startswith(b'%b{"sequence":%d,' % (comma, sequence)):
        return None
    return line[len(comma) : len(line) - line.endswith(b"\n")]  # it may be long: it is copied once


def read_entry(line: bytes, before: Position, first_sequence: int) -> JsonObject | None:
    """Parse the entry of a line that verifies and follows `before`; None if anything about it is wrong."""
    line = extract_sealed_bytes(line, before.sequence + 1, first_sequence) or b""
    if verify_line(line) is None:
        return None
    try:
        entry: JsonObject = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if entry.get("previous") == before.hash else None
