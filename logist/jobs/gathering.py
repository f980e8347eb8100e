"""Taking together what the children of a step did: their outputs, what they used, their work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logist.core import money, steward
from logist.core.model import (
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
from logist.jobs.family import Kin, standing
from logist.jobs.project import Project
from logist.jobs.session import Session
from logist.workspace.merging import Merged, Theirs


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
    merged = Merged(before, {}) if lack else workspace.merge(before, _work(session.project, good, spawned))
    if merged.conflicts and not state.forced:
        lack = f"their work does not fit together: {_conflicts(merged)}"
    gathered = "conflict" if merged.conflicts and not state.forced else "share" if lack else "reached"
    command: JsonObject = {
        "gathered": gathered,
        **({"single": True} if step.step_type is StepType.SUBFLOW else {}),
        **({"lack": lack} if lack else {}),
        **({"left_out": merged.conflicts} if merged.conflicts else {}),
        "children": [_archived(child) for child in kin],
        "runs": _runs(kin) - spawned.booked.current_action_count,
    }
    routed = steward.routed(Kind.COLLECT, state, command, spec)
    after = steward.decide(Kind.COLLECT, state.place(), command, spec, routed=routed)
    if gathered == "reached" and merged.commit != before:
        session.job.begin_restore(state.revision + 1, before)
        workspace.restore(merged.commit)
    entry = session.entry(
        Kind.COLLECT,
        after,
        actor=Actor.SYSTEM,
        step=step.id,
        reason=after.stuck.reason if after.stuck else "",
        command=command,
        route=routed.route if routed else [],
        usage=_usage(kin, spawned.booked),
        checkpoint_before=before,
        checkpoint_after=merged.commit if gathered == "reached" else before,
    )
    recorded = session.record(entry)
    session.job.end_restore()
    return recorded


def _lack(spec: EffectiveSpec, step: Step, kin: Sequence[Kin], good: int) -> str:
    """Why it is not enough, "" where it is."""
    percent = _share(spec, step)
    if 100 * good >= percent * len(kin):
        return ""
    failed = ", ".join(f"{child.id} ({standing(child)})" for child in kin if not child.succeeded)
    return f"{good} of {len(kin)} succeeded, and {percent:g} % have to: {failed}"


def _share(spec: EffectiveSpec, step: Step) -> float:
    """Percent of the children that have to succeed: the step says so, or the join that follows it."""
    flow = spec.workflow
    if flow is None or step.step_type is StepType.SUBFLOW:
        return 100.0
    following = [flow.step(edge.target) for edge in flow.leaving(step.id)]
    joins = [each for each in following if each is not None and each.step_type is StepType.JOIN]
    return min(each.min_success_percent for each in (step, *joins))


def _work(project: Project, good: Sequence[Kin], spawned: Spawned) -> list[Theirs]:
    found = []
    for child in good:
        commit = child.state.checkpoint if child.state else None
        if commit and commit != spawned.checkpoint:
            found.append(Theirs(child.id, project.job(child.id).git_dir, commit))
    return found


def _conflicts(merged: Merged) -> str:
    return "; ".join(f"{child}: {', '.join(files)}" for child, files in merged.conflicts.items())


def _archived(child: Kin) -> JsonObject:
    """What the history keeps of a child, so that the parent replays without it."""
    state = child.state
    if state is None:
        return {"id": child.id, "status": "missing"}
    return {
        "id": child.id,
        "status": state.status.value,
        "output": output_of(state),
        "summary": state.last.summary if state.last else "",
        "checkpoint": state.checkpoint,
        "evidence_files": state.artefacts,
    }


def output_of(state: State) -> Any:
    """What a job gave in the end: the output of its last step."""
    return state.outputs.get(state.output_of or state.step)


def _runs(kin: Sequence[Kin]) -> int:
    return sum(child.state.usage.current_action_count for child in kin if child.state)


def _usage(kin: Sequence[Kin], booked: Totals) -> Usage:
    """What the children have used, as far as it is not booked yet."""
    used = [child.state.usage for child in kin if child.state]
    micro = sum(money.join(each.cumulative_cost, each.cumulative_cost_microcents) for each in used)
    cents, fraction = money.split(
        max(0, micro - money.join(booked.cumulative_cost, booked.cumulative_cost_microcents))
    )
    return Usage(
        input_tokens=sum(each.input_tokens for each in used) - booked.input_tokens,
        output_tokens=sum(each.output_tokens for each in used) - booked.output_tokens,
        cost_cents=cents,
        cost_microcents=fraction,
        seconds=round(sum(each.cumulative_time_seconds for each in used) - booked.cumulative_time_seconds, 3),
    )
