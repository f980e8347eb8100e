"""Taking together what the children of a step did: their outputs, what they used, their work."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from logist.agents.courier import shared_limits
from logist.core.machine import kinds, limits, steward
from logist.core.model import (
    TERMINAL,
    Actor,
    EffectiveSpec,
    Interaction,
    JsonObject,
    Kind,
    Spawned,
    State,
    Step,
    StepType,
    Totals,
    Usage,
)
from logist.core.model.commands import BookingCommand, CollectCommand, GatheredChild, SpawnCommand
from logist.core.money import totals
from logist.jobs.base.family import Kin, children_of, standing
from logist.jobs.base.project import Project
from logist.jobs.base.session import Session
from logist.workspace import Workspace
from logist.workspace.merge.children import MergedChildren, Theirs

Booking = TypeVar("Booking", bound=BookingCommand)

SHOWN = 20
"""Files of a child, and children, that a reason names."""


def collect(session: Session, spec: EffectiveSpec, kin: Sequence[Kin]) -> list[Interaction]:
    """Gathers what the children did, all of which have settled: their outputs, their cost, their work.

    Where too few succeeded, or their work does not fit together, the job is STUCK, and the workspace as it was.
    """
    state = session.state
    spawned, flow = state.spawned, spec.workflow
    step = flow.step(state.step) if flow else None
    assert spawned is not None
    assert step is not None
    good = [child for child in kin if child.succeeded]
    lack = "" if state.forced else _lack(spec, step, kin, len(good))
    workspace = session.project.workspace(session.job)
    before = workspace.checkpoint(f"before the work for {step.id} is gathered").commit
    merged = (
        MergedChildren(before, {}) if lack else workspace.merge(before, _work(session.project, good, spawned))
    )
    if merged.conflicts and not state.forced:
        lack = f"their work does not fit together: {_by_child(merged.conflicts)}"
    gathered: Literal["conflict", "share", "reached"]
    gathered = "conflict" if merged.conflicts and not state.forced else "share" if lack else "reached"
    used = used_since(session)
    items = _items(session, spawned, step)
    command = used.book(
        CollectCommand(
            gathered=gathered,
            single=step.step_type is StepType.SUBFLOW or None,
            lack=lack or None,
            left_out=_lists(merged.conflicts) or None,
            lost=_redacted(session.project, merged.lost) or None,
            children=[_archived(child, items) for child in kin],
        )
    )
    if gathered == "reached" and not any(map(_was_at_work, kin)):
        command = command.model_copy(update={"runs": 1})
    routed = steward.routed(Kind.COLLECT, state, command, spec)
    after = steward.decide(Kind.COLLECT, state.place, command, spec, routed=routed, job=session.job.id)
    if gathered == "reached" and merged.commit != before:
        session.job.begin_restore(state.revision + 1, before)
        workspace.restore(merged.commit)
    if gathered == "reached":
        left_out = merged.conflicts
        children = [_looked_at(workspace, child, left_out) for child in command.children]
        command = command.model_copy(update={"children": children})
    entry = session.entry(
        Kind.COLLECT,
        after,
        actor=Actor.SYSTEM,
        step=step.id,
        reason=after.stuck.reason if after.stuck else _told(merged, command),
        command=command,
        route=routed.route if routed else [],
        usage=used.usage,
        checkpoint_before=before,
        checkpoint_after=merged.commit if gathered == "reached" else before,
    )
    recorded = session.record(entry)
    session.job.end_restore()
    return recorded


def _lack(spec: EffectiveSpec, step: Step, kin: Sequence[Kin], good: int) -> str:
    """Why it is not enough, "" where it is."""
    percent = steward.share_wanted(spec.workflow, step)
    if 100 * good >= percent * len(kin):
        return ""
    failed = ", ".join(f"{child.id} ({standing(child)})" for child in kin if not child.succeeded)
    return f"{good} of {len(kin)} succeeded, and {percent:g} % have to: {failed}"


def _work(project: Project, good: Sequence[Kin], spawned: Spawned) -> list[Theirs]:
    found = []
    for child in good:
        commit = child.state.checkpoint if child.state else None
        if commit and commit != spawned.checkpoint:
            found.append(Theirs(child.id, project.job(child.id).git_dir, commit))
    return found


def _looked_at(workspace: Workspace, child: GatheredChild, left_out: Container[str]) -> GatheredChild:
    """A child whose work is there now; what it named as evidence, and is not there, is told apart."""
    if not child.succeeded or child.id in left_out:
        return child
    missing = [path for path in child.evidence_files if not workspace.evidence(path).exists]
    there = [path for path in child.evidence_files if path not in missing]
    return child.model_copy(update={"evidence_files": there, "missing": missing}) if missing else child


def _told(merged: MergedChildren, command: CollectCommand) -> str:
    """What did not come over of the work of those that succeeded."""
    missing = {child.id: child.missing for child in command.children if child.missing}
    said = (
        ("left out, for it does not fit to the rest", merged.conflicts),
        ("not brought over, for no checkpoint holds it", command.lost or {}),
        ("named as evidence, but not there", missing),
    )
    return "; ".join(f"{what}: {_by_child(files)}" for what, files in said if files)


def _by_child(found: Mapping[str, Sequence[str]]) -> str:
    shown = [f"{child}: {', '.join(files[:SHOWN])}{_more(files)}" for child, files in found.items()]
    return "; ".join(shown[:SHOWN]) + _more(shown)


def _more(found: Sequence[object]) -> str:
    return f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""


def _lists(found: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {child: list(named) for child, named in found.items()}


def _redacted(project: Project, found: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {child: [project.redacted(name) for name in named] for child, named in found.items()}


def _items(session: Session, spawned: Spawned, step: Step) -> dict[str, JsonObject]:
    """The item and the index of each child of a foreach, by the child's id."""
    if step.step_type is not StepType.FOREACH:
        return {}
    entry = next(entry for entry in session.history() if entry.sequence == spawned.sequence)
    inputs = {child.id: child.input for child in SpawnCommand.read(entry.command).children}
    return {
        name: {"item": given.get(step.item_variable), "index": given["index"]}
        for name, given in inputs.items()
        if isinstance(given, dict) and "index" in given
    }


def _archived(child: Kin, items: Mapping[str, JsonObject]) -> GatheredChild:
    """What the history keeps of a child, so that the parent replays without it."""
    state = child.state
    item = items.get(child.id, {})
    if state is None:
        return GatheredChild(id=child.id, status="missing", **item)
    return GatheredChild(
        id=child.id,
        status=state.status.value,
        output=output_of(state),
        summary=state.last.summary if state.last else "",
        checkpoint=state.checkpoint,
        evidence_files=state.artefacts,
        **item,
    )


def output_of(state: State) -> Any:
    """What a job gave in the end: the output of its last step."""
    return state.outputs.get(state.output_of or state.step)


def left_over(entries: Sequence[Interaction]) -> list[str]:
    """Children that have not ended, though their parent goes on."""
    return [
        child.id
        for command in map(kinds.command_of, entries)
        if isinstance(command, CollectCommand) and command.gathered == "reached"
        for child in command.children
        if child.status not in TERMINAL
    ]


@dataclass(frozen=True)
class ChildrenUsage:
    """What the children of a job have used, as far as it has not booked that before."""

    usage: Usage = field(default_factory=Usage)
    spawn: int = 0
    """The interaction that made them; 0 where there are none."""
    used: Mapping[str, Totals] = field(default_factory=dict)
    """What each has used so far."""
    totals: Totals = limits.NOTHING
    """What is to be booked now."""

    def book(self, command: Booking) -> Booking:
        """The command of the booking interaction, so that the next one books nothing twice."""
        if not self.spawn:
            return command
        booked = {"spawn": self.spawn, "runs": self.totals.current_action_count, "used": dict(self.used)}
        return command.model_copy(update=booked)


def used_since(session: Session) -> ChildrenUsage:
    """What is to be booked now; it does not matter how often, or whether a child was started over meanwhile."""
    spawned = session.state.spawned
    kin = children_of(session.project, session.state) if spawned else []
    if spawned is None or not kin:
        return ChildrenUsage()
    booked: dict[str, Totals] = {}
    for entry in session.history():
        command = kinds.command_of(entry)
        if isinstance(command, BookingCommand) and command.spawn == spawned.sequence:
            booked |= command.used or {}
    jobs_dir = session.project.jobs_dir
    now = {child.id: shared_limits.ever_used(jobs_dir, child.id) for child in kin if child.state}
    fresh = totals.total(totals.used_since(booked.get(name, Totals()), used) for name, used in now.items())
    usage = Usage(
        input_tokens=fresh.input_tokens,
        output_tokens=fresh.output_tokens,
        cost_cents=fresh.cumulative_cost,
        cost_microcents=fresh.cumulative_cost_microcents,
        seconds=fresh.cumulative_time_seconds,
    )
    return ChildrenUsage(usage, spawned.sequence, now, fresh)


def _was_at_work(child: Kin) -> bool:
    """Whether it has used anything: a circle of workflows that pass over all their steps is to end too."""
    return child.state is not None and child.state.usage.current_action_count > 0
