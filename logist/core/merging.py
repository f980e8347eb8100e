"""What is to become of the work of a job that has succeeded: whether it goes into the repository it came from."""

from __future__ import annotations

from typing import Any

from logist.core.model import EffectiveSpec, Interaction, Kind, State, Status


def by_itself(spec: EffectiveSpec, source: str | None) -> bool:
    """Whether it goes there without being asked to; what a child did is its parent's to merge."""
    return bool(spec.auto_merge) and source is not None and spec.parent is None


def apply(base: State, after: State, entry: Interaction) -> State:
    """`after`, an entry applied, with what that makes of the merge."""
    changes: dict[str, Any] = {}
    source = entry.command.get("source") if entry.kind is Kind.CREATE else after.source
    if source != after.source:
        changes["source"] = source if isinstance(source, str) else None
    if entry.spec is not None:
        changes["merges"] = True if by_itself(entry.spec, source) else None
    merge = _merge(base, changes.get("merges", after.merges), entry)
    if merge != after.merge:
        changes["merge"] = merge
    return after.model_copy(update=changes) if changes else after


def _merge(base: State, merges: bool | None, entry: Interaction) -> str | None:
    if entry.after.status is not Status.SUCCESS:
        return None
    if entry.kind is Kind.MERGE:
        return "merged"
    if base.status is Status.SUCCESS:
        return base.merge
    return "due" if merges else None
