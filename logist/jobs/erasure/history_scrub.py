"""Replaces texts in the history of a job: a new chain with the same interactions, and its state."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from logist.core.history import fold, newer_versions
from logist.core.history.fold import Folding
from logist.core.model import Interaction, JsonObject, Kind, State
from logist.core.prompt.redaction_marks import MARKED, read_redaction_marks
from logist.core.replay.replay import Difference, replay
from logist.core.secrets.erasing import Eraser
from logist.digests import compute_sha256
from logist.errors import LogistError
from logist.jobs.archive.recorded_jobs import NONSENSE, Archive
from logist.jobs.base.stored_records import parse_interaction
from logist.quick_dataclass import dataclass
from logist.store import JobDir, Position, history_copy

_KEPT = frozenset(
    (
        *(
            "version",
            "sequence",
            "timestamp",
            "kind",
            "actor",
            "state_before",
            "state_after",
            "rules",
            "usage",
        ),
        *("checkpoint_before", "checkpoint_after", "exchange", "previous", "checksum"),
    )
)
"""Fields that Logist computes. A value that equals a part of one is there by chance."""
_SETTINGS = ("model", "provider_model", "endpoint", "permissions", "tools", "agent")
"""Metadata of a request that a replay compares with the current config."""


@dataclass
class ScrubbedHistory:
    """A history without the values."""

    end: Position = Position(0, None, 0)
    state: State | None = None
    places: int = 0
    heads: dict[str, str] = field(default_factory=dict)
    """The new checksums of the interactions by their old ones."""


def rewrite_history(
    old: JobDir, new: Path, eraser: Eraser, renames: Mapping[str, str], targets: set[int]
) -> ScrubbedHistory:
    """Write the history of a job without the values as `new`, and fold it; one interaction is in memory at a time.

    `renames` has new names of objects of the checkpoints, new digests of files, and new checksums of the interactions
    of other jobs.
    """
    done, folding = ScrubbedHistory(), Folding(targets)
    current: list[str] = []

    def change(entry: JsonObject) -> JsonObject:
        current[:] = [str(entry.get("checksum"))]
        changed, places = erase_entry(entry, eraser, {**renames, **_pick(entry, done.heads)})
        done.places += places
        return changed

    def look(complete: JsonObject) -> None:
        done.heads[current[0]] = complete["checksum"]
        folding.take(parse_interaction(complete))

    done.end = history_copy.rewrite_history(old.history_file, new, change, look)
    state = folding.state
    if state is not None:
        done.state = state.model_copy(update=newer_versions.find_newer_fields(old.read_state() or {}, state))
    return done


def _pick(entry: JsonObject, heads: Mapping[str, str]) -> dict[str, str]:
    """Return the checksums of earlier interactions that this one can refer to."""
    command = entry.get("command")
    named = (entry.get("exchange"), command.get("head") if isinstance(command, dict) else None)
    return {name: heads[name] for name in named if isinstance(name, str) and name in heads}


def erase_entry(entry: JsonObject, eraser: Eraser, renames: Mapping[str, str]) -> tuple[JsonObject, int]:
    """Return an interaction without the values and with the new names, and the number of replacements."""
    if entry.get("kind") == Kind.MERGE:
        renames = {}  # its commits are those of the user's repository
    kept = {name: value for name, value in entry.items() if name in _KEPT}
    others = {name: value for name, value in entry.items() if name not in _KEPT and name != "request"}
    done, places = eraser.replace_json(others)
    done = {**_rename(kept, renames), **_rename(done, renames)}
    if isinstance(request := entry.get("request"), dict):
        done["request"], in_request = _erase_request(request, eraser, renames)
        places += in_request
    elif "request" in entry:
        done["request"] = request
    return {name: done[name] for name in entry if name in done} | done, places


def _rename(value: Any, renames: Mapping[str, str]) -> Any:
    """Replace texts that are exactly the name of something that has a new one."""
    if isinstance(value, str):
        return renames.get(value, value)
    if isinstance(value, dict):
        return {key: _rename(member, renames) for key, member in value.items()}
    if isinstance(value, list):
        return [_rename(member, renames) for member in value]
    return value


def _erase_request(request: JsonObject, eraser: Eraser, renames: Mapping[str, str]) -> tuple[JsonObject, int]:
    """Do the same for a request: the parts of its prompt get new positions and hashes."""
    prompt = request.get("prompt")
    others = {name: value for name, value in request.items() if name != "prompt"}
    replaced, places = eraser.replace_json(others)
    done: JsonObject = _rename(replaced, renames)
    if not isinstance(prompt, str):
        return done, places
    parts = [part for part in done.get("parts") or [] if isinstance(part, dict)]
    metadata = done.get("metadata")
    start = metadata.get("user_start") if isinstance(metadata, dict) else None
    places_of_parts = [place for part in parts for place in (part.get("start"), part.get("end"))]
    marks = [place for place in places_of_parts if isinstance(place, int)]
    if len(marks) < len(places_of_parts) or not isinstance(start, int | None):
        parts, marks, start = [], [], None
    done["prompt"], moved, in_prompt = eraser.replace_marked(prompt, [*marks, start or 0])
    if start is not None and isinstance(metadata, dict):
        metadata["user_start"] = moved[-1]
    changed: set[Any] = set()
    for number, part in enumerate(parts):
        begin, end = marks[2 * number : 2 * number + 2]
        part["start"], part["end"] = moved[2 * number : 2 * number + 2]
        text = done["prompt"][part["start"] : part["end"]]
        if text != prompt[begin:end]:
            part["sha256"] = compute_sha256(text.encode("utf-8", "surrogatepass"))
            changed.add(number)
    before = request.get("metadata")
    if isinstance(metadata, dict) and isinstance(before, dict):
        # A replay does not compare these with the current roles and settings.
        changed |= {name for name in _SETTINGS if before.get(name) != metadata.get(name)}
        if changed:
            metadata[MARKED] = sorted({*read_redaction_marks(before), *changed}, key=str)
    return {name: done[name] for name in request if name in done} | done, places + in_prompt


def find_differing(archive: Archive, schema: JsonObject) -> set[int]:
    """Return the interactions that replay with another result than the recorded one."""
    beforehand = archive.look_ahead()
    found: set[int] = set()
    try:
        for each in replay(_read(archive), schema, beforehand.targets):
            if isinstance(each, Difference):
                found.add(each.sequence)
    except (LogistError, *NONSENSE):
        pass  # `job replay` reports it
    return found


def _read(archive: Archive) -> Iterator[Interaction]:
    return archive.read_interactions()


def read_restep_targets(old: JobDir) -> set[int]:
    """Return the interactions that a restep returns to the state before."""
    return {to for entry in old.read_entries() for to in fold.restep_to(entry)}


def erase_json(data: bytes, eraser: Eraser) -> tuple[bytes, int] | None:
    """Return a JSON text without the values, or None if it is not JSON or has none of them inside its texts."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    replaced, places = eraser.replace_json(value)
    if not places:
        return None
    return json.dumps(replaced, ensure_ascii=False).encode("utf-8", "surrogatepass"), places
