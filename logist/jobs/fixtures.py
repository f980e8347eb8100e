"""A fixture: a recorded history made fit to share, and the manifest beside it that says what it must give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints, ValidationError

from logist.core.model import JsonObject, Recorded
from logist.errors import Damaged, Refused
from logist.store import JobDir, files

MANIFEST = "fixture.json"
HISTORY = "jobHistory.json"
FORMAT = 1
"""The version of manifests that this Logist writes; it reads no other."""
LARGEST = 256 << 20
"""Bytes of a manifest that are read; a million interactions need about 100 MB."""
TOLD = 10
"""Transitions that are named one by one where they differ."""
AGAIN = "write it again: logist job export JOB --fixture DIR --force"

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Transition(NamedTuple):
    """How one interaction moved the job."""

    sequence: int
    kind: str
    before: str
    """The status before it."""
    after: str


class Moved(Recorded):
    """The same, as a manifest has it."""

    sequence: int
    kind: str
    before: str
    after: str


class Manifest(Recorded):
    """fixture.json."""

    fixture: int = FORMAT
    logist: str
    """The version that wrote the fixture."""
    job: str
    """The job that it was made of; without its name where that was taken out."""
    head: Digest
    """The hash of the last interaction of the original history."""
    fixture_head: Digest
    """The hash of the last interaction of the history beside the manifest."""
    interactions: Annotated[int, Field(ge=1)]
    redacted: bool
    replaced: dict[str, int] = Field(default_factory=dict)
    """How many values of each kind were replaced, each value counted once."""
    transitions: list[Moved]
    certified: Literal[True]
    """The history was replayed when it was written, with the transitions and responses of the original."""

    def moves(self) -> Iterator[Transition]:
        """The transitions, as `transition` tells them."""
        return (Transition(each.sequence, each.kind, each.before, each.after) for each in self.transitions)


def transition(entry: JsonObject) -> Transition:
    """How an interaction moved the job, as it stands in a history."""
    number, words = entry.get("sequence"), ("kind", "state_before", "state_after")
    kind, before, after = (str(entry.get(word, "")) for word in words)
    return Transition(number if isinstance(number, int) else 0, kind, before, after)


def read(folder: Path) -> Manifest | None:
    """The manifest in `folder`; None if there is none, so that the history is one that nobody vouches for.

    Raises Damaged for one that does not read, Refused for one of a newer Logist.
    """
    path = folder / MANIFEST
    try:
        if path.stat().st_size > LARGEST:
            raise Damaged(f"the manifest is larger than {LARGEST:,} bytes", where=str(path), fix=AGAIN)
    except OSError:
        pass  # said by the reading, if there is something to say
    data = files.read_bytes(path)
    if data is None:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged("the manifest is not JSON", where=str(path), fix=AGAIN) from error
    version = value.get("fixture") if isinstance(value, dict) else None
    if isinstance(version, int) and version > FORMAT:
        message = f"the fixture has version {version}, this Logist reads {FORMAT}"
        raise Refused(message, where=str(path), fix="use the Logist that wrote it, or a newer one")
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the whole"
        message = f"the manifest does not read: {field}: {first['msg']}"
        raise Damaged(message, where=str(path), fix=AGAIN) from error


def write(folder: Path, manifest: Manifest) -> None:
    """Puts the manifest into `folder`, durably and all or nothing: a transition a line, so that a diff of two reads."""
    data = manifest.model_dump(mode="json")
    moves = data.pop("transitions")
    certified = {"certified": data.pop("certified")}
    lines = [
        f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)},\n" for name, value in data.items()
    ]
    rows = ",\n".join("  " + json.dumps(move, ensure_ascii=False) for move in moves)
    ends = [f" {json.dumps(name)}: {json.dumps(value)}\n" for name, value in certified.items()]
    text = "".join(["{\n", *lines, ' "transitions": [\n', rows, "\n ],\n", *ends, "}\n"])
    files.replace_file(folder / MANIFEST, text.encode())


def check(folder: Path) -> tuple[str, ...]:
    """Where the history in `folder` is not the one that its manifest vouches for; () also without a manifest.

    One interaction is in memory at a time. Raises Damaged as `read` and JobDir.entries do.
    """
    manifest = read(folder)
    if manifest is None:
        return ()
    return tuple(_disagreements(manifest, JobDir(folder, folder.name).entries()))


def _disagreements(manifest: Manifest, entries: Iterable[JsonObject]) -> Iterator[str]:
    count = differ = 0
    head: object = None
    for wanted, entry in zip_longest(manifest.moves(), entries):
        found = None if entry is None else transition(entry)
        if entry is not None:
            count, head = count + 1, entry.get("checksum")
        if wanted != found:
            differ += 1
            if differ <= TOLD:
                yield f"{MANIFEST} says {_told(wanted)}, the history {_told(found)}"
    if differ > TOLD:
        yield f"{differ - TOLD} more interactions differ"
    if count != manifest.interactions:
        yield f"{MANIFEST} says {manifest.interactions} interactions, the history has {count}"
    if not differ and head != manifest.fixture_head:
        yield f"the history is not the one that {MANIFEST} was written for: its last hash is another"


def _told(move: Transition | None) -> str:
    if move is None:
        return "nothing more"
    return f"{move.sequence} {move.kind}: {move.before} -> {move.after}"
