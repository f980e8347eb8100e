"""Gathers the results of the children of a step: their outputs, their usage, their work."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from logist.agents.courier import shared_limits
from logist.core.machine import kinds, steward
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
from logist.jobs.base import family
from logist.quick_dataclass import dataclass
from logist.workspace.merge import children as merge_children

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.session import Session
    from logist.workspace import Workspace

Booking = TypeVar("Booking", bound=BookingCommand)

SHOWN = 20
"""How many files of a child, and how many children, a reason lists."""


def gather_children(session: Session, spec: EffectiveSpec, kin: Sequence[family.Kin]) -> list[Interaction]:
    """Gather the results of the children, all of which have ended or run out of attempts.

    If too few succeeded, or their work conflicts, the job becomes STUCK and the workspace is unchanged.
    """
    state = session.state
    spawned, flow = state.spawned, spec.workflow
    step = flow.find_step(state.step) if flow else None
    assert spawned is not None
    assert step is not None
    successful = [child for child in kin if child.has_succeeded]
    shortfall = "" if state.forced else _explain_shortfall(spec, step, kin, len(successful))
    workspace = session.project.open_workspace(session.job)
    before = workspace.create_checkpoint(f"before gathering the work for {step.id}").commit
    merged = (
        merge_children.MergedChildren(before, {})
        if shortfall
        else workspace.merge_children(before, _list_child_work(session.project, successful, spawned))
    )
    if merged.conflicts and not state.forced:
        shortfall = f"the child jobs have conflicting changes: {_format_by_child(merged.conflicts)}"
    outcome: Literal["conflict", "share", "reached"]
    outcome = "conflict" if merged.conflicts and not state.forced else "share" if shortfall else "reached"
    usage = compute_unrecorded_usage(session)
    items = _load_child_items(session, spawned, step)
    command = usage.book(
        CollectCommand(
            gathered=outcome,
            single=step.step_type is StepType.SUBFLOW or None,
            lack=shortfall or None,
            left_out=_lists(merged.conflicts) or None,
            lost=_redact_names(session.project, merged.lost) or None,
            children=[_build_child_record(child, items) for child in kin],
        )
    )
    if outcome == "reached" and not any(map(_has_used_anything, kin)):
        command = command.model_copy(update={"runs": 1})
    route = steward.route_command(Kind.COLLECT, state, command, spec)
    after = steward.apply_command(Kind.COLLECT, state.place, command, spec, routed=route, job=session.job.id)
    if outcome == "reached" and merged.commit != before:
        session.job.begin_restore(state.revision + 1, before)
        workspace.restore(merged.commit)
    if outcome == "reached":
        left_out = merged.conflicts
        children = [_split_evidence(workspace, child, left_out) for child in command.children]
        command = command.model_copy(update={"children": children})
    entry = session.build_interaction(
        Kind.COLLECT,
        after,
        actor=Actor.SYSTEM,
        step=step.id,
        reason=after.stuck.reason if after.stuck else _describe_missing_work(merged, command),
        command=command,
        route=route.route if route else [],
        usage=usage.usage,
        checkpoint_before=before,
        checkpoint_after=merged.commit if outcome == "reached" else before,
    )
    recorded = session.record(entry)
    session.job.end_restore()
    return recorded


def _explain_shortfall(spec: EffectiveSpec, step: Step, kin: Sequence[family.Kin], good: int) -> str:
    """Why not enough children succeeded; empty if enough did."""
    percent = steward.required_success_percent(spec.workflow, step)
    if 100 * good >= percent * len(kin):
        return ""
    failed = ", ".join(
        f"{child.id} ({family.describe_child_status(child)})" for child in kin if not child.has_succeeded
    )
    return f"only {good} of {len(kin)} child jobs succeeded, but {percent:g} % must: {failed}"


def _list_child_work(
    project: ProjectContext, good: Sequence[family.Kin], spawned: Spawned
) -> list[merge_children.Theirs]:
    works = []
    for child in good:
        commit = child.state.checkpoint if child.state else None
        if commit and commit != spawned.checkpoint:
            works.append(merge_children.Theirs(child.id, project.open_job(child.id).git_dir, commit))
    return works


def _split_evidence(workspace: Workspace, child: GatheredChild, left_out: Container[str]) -> GatheredChild:
    """Separate the evidence files of a gathered child that do not exist in the workspace."""
    if not child.succeeded or child.id in left_out:
        return child
    missing = [path for path in child.evidence_files if not workspace.check_evidence(path).exists]
    existing = [path for path in child.evidence_files if path not in missing]
    return child.model_copy(update={"evidence_files": existing, "missing": missing}) if missing else child


def _describe_missing_work(merged: merge_children.MergedChildren, command: CollectCommand) -> str:
    """Describe which work of successful children is not in the workspace."""
    missing = {child.id: child.missing for child in command.children if child.missing}
    parts = (
        ("not merged because of conflicts", merged.conflicts),
        ("not copied because no checkpoint contains it", command.lost or {}),
        ("evidence files not found", missing),
    )
    return "; ".join(f"{what}: {_format_by_child(files)}" for what, files in parts if files)


def _format_by_child(found: Mapping[str, Sequence[str]]) -> str:
    lines = [
        f"{child}: {', '.join(files[:SHOWN])}{_format_remainder(files)}" for child, files in found.items()
    ]
    return "; ".join(lines[:SHOWN]) + _format_remainder(lines)


def _format_remainder(found: Sequence[object]) -> str:
    return f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""


def _lists(found: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {child: list(named) for child, named in found.items()}


def _redact_names(project: ProjectContext, found: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {child: [project.redact_text(name) for name in named] for child, named in found.items()}


def _load_child_items(session: Session, spawned: Spawned, step: Step) -> dict[str, JsonObject]:
    """The item and the index of each child of a foreach, by the child's id."""
    if step.step_type is not StepType.FOREACH:
        return {}
    entry = next(entry for entry in session.load_history() if entry.sequence == spawned.sequence)
    inputs = {child.id: child.input for child in SpawnCommand.read(entry.command).children}
    return {
        name: {"item": given.get(step.item_variable), "index": given["index"]}
        for name, given in inputs.items()
        if isinstance(given, dict) and "index" in given
    }


def _build_child_record(child: family.Kin, items: Mapping[str, JsonObject]) -> GatheredChild:
    """What the history keeps of a child, so that the parent can be replayed without it."""
    state = child.state
    item = items.get(child.id, {})
    if state is None:
        return GatheredChild(id=child.id, status="missing", **item)
    return GatheredChild(
        id=child.id,
        status=state.status.value,
        output=final_output(state),
        summary=state.last.summary if state.last else "",
        checkpoint=state.checkpoint,
        evidence_files=state.artefacts,
        **item,
    )


def final_output(state: State) -> Any:
    """The final output of a job: that of its last step."""
    return state.outputs.get(state.output_of or state.step)


def find_unended_children(entries: Sequence[Interaction]) -> list[str]:
    """The ids of gathered children that have not ended."""
    return [
        child.id
        for command in map(kinds.command_of, entries)
        if isinstance(command, CollectCommand) and command.gathered == "reached"
        for child in command.children
        if child.status not in TERMINAL
    ]


@dataclass(frozen=True)
class ChildrenUsage:
    """What the children of a job have used and the job has not recorded yet."""

    usage: Usage = field(default_factory=Usage)
    spawn: int = 0
    """The interaction that created them; 0 if there are none."""
    used: Mapping[str, Totals] = field(default_factory=dict)
    """What each child has used so far."""
    totals: Totals = Totals()
    """What to book now."""

    def book(self, command: Booking) -> Booking:
        """Add the usage to the command of the booking interaction, so that the next one books nothing twice."""
        if not self.spawn:
            return command
        booked = {"spawn": self.spawn, "runs": self.totals.current_action_count, "used": dict(self.used)}
        return command.model_copy(update=booked)


def compute_unrecorded_usage(session: Session) -> ChildrenUsage:
    """The usage to record now. Correct however often it is called, even if a
    child was started over meanwhile.
    """
    spawned = session.state.spawned
    kin = family.load_children(session.project, session.state) if spawned else []
    if spawned is None or not kin:
        return ChildrenUsage()
    recorded: dict[str, Totals] = {}
    for entry in session.load_history():
        command = kinds.command_of(entry)
        if isinstance(command, BookingCommand) and command.spawn == spawned.sequence:
            recorded |= command.used or {}
    jobs_dir = session.project.jobs_dir
    current = {child.id: shared_limits.read_ever_used(jobs_dir, child.id) for child in kin if child.state}
    unrecorded = totals.add_totals(
        totals.used_since(recorded.get(name, Totals()), used) for name, used in current.items()
    )
    usage = Usage(
        input_tokens=unrecorded.input_tokens,
        output_tokens=unrecorded.output_tokens,
        cost_cents=unrecorded.cumulative_cost,
        cost_microcents=unrecorded.cumulative_cost_microcents,
        seconds=unrecorded.cumulative_time_seconds,
    )
    return ChildrenUsage(usage, spawned.sequence, current, unrecorded)


def _has_used_anything(child: family.Kin) -> bool:
    """True if the child used anything: a cycle of workflows that skip all their steps must end too."""
    return child.state is not None and child.state.usage.current_action_count > 0
