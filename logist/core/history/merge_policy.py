"""What is to become of the work of a job that has succeeded: whether it goes into the repository it came from."""

from __future__ import annotations

from typing import Any

from logist.core.model import EffectiveSpec, Interaction, Kind, Phase, State, Status
from logist.core.model.commands import CreateCommand, RecordedCommand

HELD = (
    "not merged by itself, since no review that saw all of the work had the last word on it; "
    "'logist job merge --job {job}' does it"
)
"""Of work that would go there by itself, had somebody accepted it."""


def is_merged_automatically(spec: EffectiveSpec, source: str | None) -> bool:
    """Whether it goes there without being asked to; what a child did is its parent's to merge."""
    return bool(spec.auto_merge) and source is not None and spec.parent is None


def is_merge_held(state: State) -> bool:
    """Whether its work would go there by itself, but nobody has had the last word on it who could accept it."""
    return state.status is Status.SUCCESS and bool(state.merges) and state.merge is None


def apply_merge_policy(base: State, after: State, entry: Interaction, command: RecordedCommand) -> State:
    """`after`, an entry applied, with what that makes of the merge."""
    changes: dict[str, Any] = {}
    source = command.source if isinstance(command, CreateCommand) else after.source
    if source != after.source:
        changes["source"] = source
    if entry.spec is not None:
        changes["merges"] = True if is_merged_automatically(entry.spec, source) else None
    merge = _next_merge_state(base, changes.get("merges", after.merges), entry)
    if merge != after.merge:
        changes["merge"] = merge
    return after.model_copy(update=changes) if changes else after


def _next_merge_state(base: State, merges: bool | None, entry: Interaction) -> str | None:
    if entry.after.status is not Status.SUCCESS:
        return None
    if entry.kind is Kind.MERGE:
        return "merged"
    if base.status is Status.SUCCESS:
        return None if entry.kind is Kind.FORK and base.merge == "due" else base.merge
    return "due" if merges and _is_accepted(base, entry) else None


def _is_accepted(base: State, entry: Interaction) -> bool:
    """Whether it is a review that ends the job, one that was shown the whole change, or a person who accepts it.

    After a step that nobody reviews, or work that other jobs did, nobody has judged what is there now.
    """
    if entry.kind is Kind.APPROVE:
        return base.place.awaiting != "manual"
    observed = entry.observed
    return observed is not None and observed.phase is Phase.REVIEWER and not observed.partial
