"""Decides whether the work of a successful job is merged into its source repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logist.core.model.command_kinds import is_create
from logist.core.model.words import Kind, Phase, Status

if TYPE_CHECKING:
    from logist.core.model import EffectiveSpec, Interaction, State
    from logist.core.model.commands import RecordedCommand

HELD = (
    "not merged automatically: no review of the complete final work has accepted it; "
    "to merge it, run: logist job merge --job {job}"
)
"""The warning if automatic merging is on, but the work was not accepted."""


def is_merged_automatically(spec: EffectiveSpec, source: str | None) -> bool:
    """Whether the work is merged without a command.

    A child is never merged automatically: its parent merges it.
    """
    return bool(spec.auto_merge) and source is not None and spec.parent is None


def concerns_merge(state: State) -> bool:
    """Whether successful work has a merge that is due, was made, or is held; the work of most jobs has none."""
    return state.status is Status.SUCCESS and (bool(state.merges) or state.merge is not None)


def is_merge_held(state: State) -> bool:
    """Whether automatic merging is on, but neither a reviewer nor a person has accepted the work."""
    return state.status is Status.SUCCESS and bool(state.merges) and state.merge is None


def apply_merge_policy(base: State, after: State, entry: Interaction, command: RecordedCommand) -> State:
    """Return `after`, the state after an entry, with updated merge fields."""
    changes: dict[str, Any] = {}
    source = command.source if is_create(command) else after.source
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
    """Whether the entry accepts the work: an approval, or a final review that saw the complete change.

    After a step without a review, or after work of child jobs, the current content is not reviewed.
    """
    if entry.kind is Kind.APPROVE:
        return base.place.awaiting != "manual"
    observed = entry.observed
    return observed is not None and observed.phase is Phase.REVIEWER and not observed.partial
