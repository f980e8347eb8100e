"""Fixtures: recorded histories prepared for sharing, each with a manifest of the results expected from it.

Reads, writes and compares the manifest, fixture.json; `fixture_export.py` writes the history next to it.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile, zip_longest
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from logist.core.model import JsonObject, Recorded
from logist.core.text.counts import format_count
from logist.errors import Damaged, NewerFormat
from logist.formats import FIXTURE, UPGRADE, describe_newer, is_newer
from logist.quick_model import ConfigDict, Field, StringConstraints, ValidationError
from logist.quick_tuple import NamedTuple
from logist.store import JobDir, files

MANIFEST = "fixture.json"
LARGEST = 256 << 20
"""Maximum size of a manifest in bytes; a million interactions need about 100 MB."""
MOST = 2**62
"""The greatest sequence number allowed."""
AT_ONCE = 1000
"""Lines that are written at once."""
BEGIN = b' "transitions": [\n'
END = b" ],\n"
TOLD = 10
"""How many differing transitions are listed one by one."""
AGAIN = "to write it again: logist job export JOB --fixture DIR --force"

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Transition(NamedTuple):
    """The change of state by one interaction."""

    sequence: int
    kind: str
    before: str
    """The status before it."""
    after: str


class Moved(Recorded):
    """A Transition as a manifest has it."""

    sequence: Annotated[int, Field(ge=-MOST, le=MOST)]
    kind: str
    before: str
    after: str


class Moves:
    """The transitions of a history in order, in a few bytes each: there may be a million."""

    def __init__(self) -> None:
        self._sequences = array("q")
        self._ways = array("q")
        self._known: dict[tuple[str, str, str], int] = {}
        """The number of each `(kind, before, after)` so far."""

    def append(self, move: Transition) -> None:
        """Add a transition."""
        self._ways.append(self._known.setdefault(move[1:], len(self._known)))
        self._sequences.append(move.sequence)

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Transition]:
        ways = list(self._known)
        return (
            Transition(number, *ways[way]) for number, way in zip(self._sequences, self._ways, strict=True)
        )


class Manifest(Recorded):
    """The content of fixture.json."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    fixture: int = FIXTURE.version
    logist: str
    """The version that wrote the fixture."""
    job: str
    """The job that it was made from; the name may be redacted."""
    head: Digest
    """The hash of the last interaction of the original history."""
    fixture_head: Digest
    """The hash of the last interaction of the history next to the manifest."""
    interactions: Annotated[int, Field(ge=1)]
    redacted: bool
    replaced: dict[str, int] = Field(default_factory=dict)
    """How many values of each kind were replaced, each value counted once."""
    transitions: Moves
    certified: Literal[True]
    """The history was replayed when it was written, with the transitions and responses of the original."""


def read_transition(entry: JsonObject) -> Transition:
    """The transition that an entry of a history records."""
    number, words = entry.get("sequence"), ("kind", "state_before", "state_after")
    kind, before, after = (str(entry.get(word, "")) for word in words)
    return Transition(number if isinstance(number, int) else 0, kind, before, after)


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest in `folder`; None if there is none, so that nothing certifies the history.

    Raises Damaged if it can't be read, Refused for one of a newer Logist.
    """
    path = folder / MANIFEST
    if not os.path.lexists(path):
        return None
    with files.open_required_file(path, "the manifest", lambda: AGAIN) as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise Damaged(f"the manifest is larger than {LARGEST:,} bytes", where=str(path), fix=AGAIN)
        try:
            value = _load_manifest(file)
        except ValidationError as error:
            raise _unreadable_error(path, error, "transitions.") from error
        except (ValueError, RecursionError) as error:
            raise Damaged("the manifest is not valid JSON", where=str(path), fix=AGAIN) from error
    version = value.get("fixture") if isinstance(value, dict) else None
    if isinstance(version, int) and is_newer(version, FIXTURE):
        message = describe_newer("the fixture", version, value.get("logist"), FIXTURE)
        raise NewerFormat(message, where=str(path), fix=UPGRADE)
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        raise _unreadable_error(path, error) from error


def _unreadable_error(path: Path, error: ValidationError, place: str = "") -> Damaged:
    first = error.errors()[0]
    field = place + ".".join(map(str, first["loc"])) or "top level"
    return Damaged(f"the manifest is invalid: {field}: {first['msg']}", where=str(path), fix=AGAIN)


def _load_manifest(file: BinaryIO) -> Any:
    """The value of a manifest; raises ValueError if it is not JSON.

    If Logist wrote it, few transitions are in memory at a time.
    """
    rest: list[bytes] = []
    moves = Moves()
    for line in file:
        rest.append(line)
        if line == BEGIN:
            break
    lines = iter(file.readline, b"")
    rows = takewhile(END.__ne__, lines)
    while chunk := b"".join(islice(rows, AT_ONCE)).strip():
        for row in json.loads(b"[%b]" % chunk.removesuffix(b",")):
            moves.append(_parse_transition(row))
    if moves or rest[-1:] == [BEGIN]:
        rest.append(END)
    value = json.loads(b"".join([*rest, *file]))
    if isinstance(value, dict) and isinstance(transitions := value.get("transitions"), list):
        for row in transitions:
            moves.append(_parse_transition(row))
        value["transitions"] = moves
    return value


def _parse_transition(row: Any) -> Transition:
    """Parse a transition of a manifest; raises ValidationError if it is not one."""
    match row:
        case {"sequence": int(number), "kind": str(kind), "before": str(before), "after": str(after)}:
            if abs(number) < MOST:
                return Transition(number, kind, before, after)
    return Transition(**Moved.model_validate(row).model_dump())


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest into `folder`, durably and all or nothing; one
    transition a line, for readable diffs.
    """
    files.replace_chunks(folder / MANIFEST, _format_manifest(manifest))


def _format_manifest(manifest: Manifest) -> Iterator[bytes]:
    data = manifest.model_dump(mode="json", exclude={"transitions", "certified"})
    yield b"{\n"
    for name, value in data.items():
        yield f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)},\n".encode()
    yield BEGIN
    remaining = len(manifest.transitions)
    rows = (json.dumps(move._asdict(), ensure_ascii=False) for move in manifest.transitions)
    while chunk := [*islice(rows, AT_ONCE)]:
        remaining -= len(chunk)
        yield ("  " + ",\n  ".join(chunk) + (",\n" if remaining else "\n")).encode()
    yield END
    yield b' "certified": %b\n}\n' % json.dumps(manifest.certified).encode()


def find_disagreements(folder: Path) -> tuple[str, ...]:
    """Where the history in `folder` differs from the one that its manifest certifies; () also without a
    manifest.

    One interaction is in memory at a time. Raises Damaged as read_manifest and JobDir.read_entries do.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return ()
    return tuple(_compare_with_manifest(manifest, JobDir(folder, folder.name).read_entries()))


def _compare_with_manifest(manifest: Manifest, entries: Iterable[JsonObject]) -> Iterator[str]:
    count = differ = 0
    head: object = None
    for expected, entry in zip_longest(manifest.transitions, entries):
        actual = None if entry is None else read_transition(entry)
        if entry is not None:
            count, head = count + 1, entry.get("checksum")
        if expected != actual:
            differ += 1
            if differ <= TOLD:
                yield f"{MANIFEST} expects {_describe_transition(expected)}, the history has {_describe_transition(actual)}"
    if differ > TOLD:
        yield f"and {format_count(differ - TOLD, 'more interaction')} with differences"
    if count != manifest.interactions:
        yield f"{MANIFEST} expects {format_count(manifest.interactions, 'interaction')}, the history has {count}"
    if not differ and head != manifest.fixture_head:
        yield f"the history does not match {MANIFEST}: the hash of its last interaction differs"


def _describe_transition(move: Transition | None) -> str:
    if move is None:
        return "no more interactions"
    return f"interaction {move.sequence} ({move.kind}): {move.before} -> {move.after}"
