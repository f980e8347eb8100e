"""Interactions and states as models, to and from the JSON that the store reads and writes."""

from __future__ import annotations

from typing import TypeVar

from logist.core.history import fold, newer_versions
from logist.core.model import Interaction, JsonObject, Kind, State
from logist.core.text.field_problems import describe_first
from logist.errors import Damaged, LogistError
from logist.quick_model import ValidationError
from logist.store import JobDir, LoadedJob, Position
from logist.store.listing import REBUILD

Value = TypeVar("Value", Interaction, State)

STORED_ONLY = frozenset({"head", "logist", "checksum"})
"""Fields of state.json that the store adds to the fold."""


def read_current_state(job: JobDir) -> JsonObject:
    """Read the state of a job as JSON: state.json, or the fold of the history if that is missing or behind.

    Writes nothing. If the history can't be read, state.json is returned unchanged; a run of the job reports
    the damage.
    """
    state = job.read_state()
    if state is not None and not job.is_behind(state):
        return state
    try:
        loaded = job.load()
        return dump_state(build_current_state(job, loaded), loaded.position)
    except LogistError:
        if state is None:
            raise
        return state


def build_current_state(job: JobDir, loaded: LoadedJob) -> State:
    """Bring state.json up to the end of the history; fields of a newer Logist in it are kept."""
    tail = [parse_interaction(entry) for entry in loaded.entries]
    if loaded.state is None and not tail:
        raise Damaged("the history is empty", where=str(job.history_file), fix="restore it from a backup")
    state = _parse_state(job, loaded.state)
    if state is None or any(entry.kind is Kind.RESTEP for entry in tail):
        folded = fold.fold(parse_interaction(entry) for entry in job.read_entries())
        return folded.model_copy(update=newer_versions.find_newer_fields(loaded.state or {}, folded))
    for entry in tail:
        state = fold.apply_interaction(state, entry)
    return state


def _parse_state(job: JobDir, state: JsonObject | None) -> State | None:
    """Parse state.json; None if it is missing, or has a newer format that can't be read."""
    if state is None:
        return None
    own = {name: value for name, value in state.items() if name not in STORED_ONLY}
    try:
        return _validate_stored(State, own, "state.json")
    except Damaged as error:
        if newer_versions.is_newer(state):
            return None
        raise Damaged(error.message, where=str(job.state_file), fix=REBUILD) from error


def parse_interaction(entry: JsonObject) -> Interaction:
    """Parse an entry of a history; one from a newer Logist as far as possible.

    Raises Damaged for an entry of a known version that can't be read.
    """
    return newer_versions.read_newer_interaction(entry) or _validate_stored(
        Interaction, entry, f"interaction {entry.get('sequence')}"
    )


def _validate_stored(model: type[Value], data: JsonObject, what: str) -> Value:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        # state.json has the fields of `place` at the top level.
        problem = describe_first(error.errors()).removeprefix("place.")
        fix = "restore jobHistory.json from a backup"
        raise Damaged(f"{what} is invalid: {problem}", fix=fix) from error


def dump_interaction(entry: Interaction) -> JsonObject:
    """An interaction as it is written to the history, before the store numbers and chains it."""
    return entry.model_dump(mode="json", exclude_none=True, exclude={"previous", "checksum"})


def dump_state(state: State, position: Position) -> JsonObject:
    """Build state.json from the fold of the history and the head it covers."""
    if position.hash is None:
        raise Damaged("can't build a state: the history has no interactions")
    head = {"sequence": position.sequence, "hash": position.hash, "offset": position.offset}
    dumped = state.model_dump(mode="json", exclude={"head"})
    return {"version": dumped.pop("version"), "revision": dumped.pop("revision"), "head": head, **dumped}
