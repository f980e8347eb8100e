r"""The bytes of jobHistory.json: its first line, its entries, and what makes them verify.

    {"version":1,"segment":1,"first_sequence":1,"previous":null,"interactions": [
    {"sequence":1, ... ,"previous":null,"checksum":"<64 hex>"}
    ,{"sequence":2, ... ,"previous":"<64 hex>","checksum":"<64 hex>"}
    ]}

The comma leads, so that an append never changes a finished line: it writes over the closing bytes
only. `checksum` is the sha256 of the line without its comma and without the checksum member;
`previous` is the checksum of the entry before. Lines end at b"\n" and nowhere else: U+2028 and its
like may stand inside values.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from logist.errors import Damaged, Refused
from logist.store import files

JsonObject = dict[str, Any]

CLOSING = b"]}\n"
RESTORE = "restore jobHistory.json from a backup; 'logist job verify' lists what does not verify"

_HEADER = re.compile(
    rb'\{"version":(\d{1,9}),"segment":([1-9]\d{0,9}),"first_sequence":([1-9]\d{0,18}),'
    rb'"previous":(?:null|"([0-9a-f]{64})"),"interactions": \[\n'
)
_LONGEST_HEADER = 300
_MEMBER = b',"checksum":"'
_SEAL = len(_MEMBER) + 64 + len(b'"}')


class Position(NamedTuple):
    """An entry's place; of an empty history, sequence 0, no hash, and where the first entry will begin."""

    sequence: int
    hash: str | None
    offset: int
    """Byte where the entry's line begins."""


class Header(NamedTuple):
    """What the first line says; a later segment goes on from `previous` at `first_sequence`."""

    segment: int
    first_sequence: int
    previous: str | None
    size: int

    def start(self) -> Position:
        """Before the first entry of this file."""
        return Position(self.first_sequence - 1, self.previous, self.size)


def header_line(segment: int = 1, first_sequence: int = 1, previous: str | None = None) -> bytes:
    """The first line of a history file."""
    quoted = f'"{previous}"' if previous else "null"
    return (
        f'{{"version":1,"segment":{segment},"first_sequence":{first_sequence},'
        f'"previous":{quoted},"interactions": [\n'
    ).encode()


def read_header(file: BinaryIO, path: Path) -> Header:
    """The first line; Damaged unless it is exactly as written, Refused if a newer Logist wrote it."""
    line = file.readline(_LONGEST_HEADER)
    match = _HEADER.fullmatch(line)
    if match is None:
        raise Damaged("the first line of the history is damaged", where=str(path), fix=RESTORE)
    version, segment, first = (int(match[n]) for n in (1, 2, 3))
    if version > 1:
        fix = "use the Logist that wrote it, or a newer one"
        raise Refused(f"the history has version {version}, this Logist reads 1", where=str(path), fix=fix)
    previous = match[4].decode() if match[4] else None
    if version < 1 or not (segment == 1) == (first == 1) == (previous is None):
        raise Damaged("the first line of the history contradicts itself", where=str(path), fix=RESTORE)
    return Header(segment, first, previous, len(line))


def seal(entry: JsonObject, sequence: int, previous: str | None) -> tuple[JsonObject, bytes]:
    """The completed entry and its line, without comma and newline."""
    own = ("sequence", "previous", "checksum")
    kept = {key: value for key, value in entry.items() if key not in own}
    complete: JsonObject = {"sequence": sequence, **kept, "previous": previous}
    body = files.dump_json(complete)
    complete["checksum"] = hashlib.sha256(body).hexdigest()
    return complete, b'%b%b%b"}' % (body[:-1], _MEMBER, complete["checksum"].encode())


def checksum_of(line: bytes) -> str | None:
    """The checksum of a complete line (no comma, no newline); None if the line does not verify."""
    ending = line[-_SEAL:]
    if not ending.startswith(_MEMBER):
        return None
    hashed = hashlib.sha256(memoryview(line)[:-_SEAL])  # a line may be long: it is not copied
    hashed.update(b"}")
    digest = hashed.hexdigest()
    return digest if ending == b'%b%b"}' % (_MEMBER, digest.encode()) else None


def content(line: bytes, sequence: int, first_sequence: int) -> bytes | None:
    """The line as `checksum_of` wants it; None if its comma or its number is wrong."""
    if sequence != first_sequence:
        if not line.startswith(b","):
            return None
        line = line[1:]
    return line.removesuffix(b"\n") if line.startswith(b'{"sequence":%d,' % sequence) else None


def read_entry(line: bytes, before: Position, first_sequence: int) -> JsonObject | None:
    """The entry of a line that verifies and follows `before`; None if anything about it is wrong."""
    line = content(line, before.sequence + 1, first_sequence) or b""
    if checksum_of(line) is None:
        return None
    try:
        entry: JsonObject = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if entry.get("previous") == before.hash else None
