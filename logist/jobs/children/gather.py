"""Taking together what the children of a step did: their outputs, what they used, their work."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from logist.agents.courier import shared_limits
from logist.core.machine import limits, steward
from logist.core.model import (
    TERMINAL,
    Actor,
    EffectiveSpec,
    Interaction,
    JsonObject,
    Kind,
    Spawned,
    State,
    Status,
    Step,
    StepType,
    Totals,
    Usage,
)
from logist.core.money import totals
from logist.jobs.base.family import Kin, children_of, standing
from logist.jobs.base.project import Project
from logist.jobs.base.session import Session
from logist.workspace import Workspace
from logist.workspace.merge.children import MergedChildren, Theirs

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
    gathered = "conflict" if merged.conflicts and not state.forced else "share" if lack else "reached"
    used = used_since(session)
    items = _items(session, spawned, step)
    command: JsonObject = {
        "gathered": gathered,
        **({"single": True} if step.step_type is StepType.SUBFLOW else {}),
        **({"lack": lack} if lack else {}),
        **({"left_out": merged.conflicts} if merged.conflicts else {}),
        **({"lost": _redacted(session.project, merged.lost)} if merged.lost else {}),
        "children": [{**_archived(child), **items.get(child.id, {})} for child in kin],
        **used.command,
        **({"runs": 1} if gathered == "reached" and not any(map(_was_at_work, kin)) else {}),
    }
    routed = steward.routed(Kind.COLLECT, state, command, spec)
    after = steward.decide(Kind.COLLECT, state.place, command, spec, routed=routed, job=session.job.id)
    if gathered == "reached" and merged.commit != before:
        session.job.begin_restore(state.revision + 1, before)
        workspace.restore(merged.commit)
    if gathered == "reached":
        left_out = merged.conflicts
        command["children"] = [_looked_at(workspace, child, left_out) for child in command["children"]]
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


def _looked_at(workspace: Workspace, child: JsonObject, left_out: Container[str]) -> JsonObject:
    """A child whose work is there now; what it named as evidence, and is not there, is told apart."""
    if child["status"] != Status.SUCCESS or child["id"] in left_out:
        return child
    missing = [path for path in child["evidence_files"] if not workspace.evidence(path).exists]
    there = [path for path in child["evidence_files"] if path not in missing]
    return {**child, "evidence_files": there, "missing": missing} if missing else child


def _told(merged: MergedChildren, command: JsonObject) -> str:
    """What did not come over of the work of those that succeeded."""
    missing = {child["id"]: child["missing"] for child in command["children"] if "missing" in child}
    said = (
        ("left out, for it does not fit to the rest", merged.conflicts),
        ("not brought over, for no checkpoint holds it", command.get("lost") or {}),
        ("named as evidence, but not there", missing),
    )
    return "; ".join(f"{what}: {_by_child(files)}" for what, files in said if files)


def _by_child(found: Mapping[str, Sequence[str]]) -> str:
    shown = [f"{child}: {', '.join(files[:SHOWN])}{_more(files)}" for child, files in found.items()]
    return "; ".join(shown[:SHOWN]) + _more(shown)


def _more(found: Sequence[object]) -> str:
    return f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""


def _redacted(project: Project, found: Mapping[str, Sequence[str]]) -> JsonObject:
    return {child: [project.redacted(name) for name in named] for child, named in found.items()}


def _items(session: Session, spawned: Spawned, step: Step) -> dict[str, JsonObject]:
    """The item and the index of each child of a foreach, by the child's id."""
    if step.step_type is not StepType.FOREACH:
        return {}
    entry = next(entry for entry in session.history() if entry.sequence == spawned.sequence)
    inputs = {child["id"]: child["input"] for child in entry.command["children"]}
    return {
        name: {"item": given.get(step.item_variable), "index": given["index"]}
        for name, given in inputs.items()
        if isinstance(given, dict) and "index" in given
    }


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


def left_over(entries: Sequence[Interaction]) -> list[str]:
    """Children that have not ended, though their parent goes on."""
    return [
        child["id"]
        for entry in entries
        if entry.kind is Kind.COLLECT and entry.command.get("gathered") == "reached"
        for child in entry.command["children"]
        if child["status"] not in TERMINAL
    ]


@dataclass(frozen=True)
class ChildrenUsage:
    """What the children of a job have used, as far as it has not booked that before."""

    usage: Usage = field(default_factory=Usage)
    command: JsonObject = field(default_factory=dict)
    """What the booking interaction records, so that the next one books nothing twice."""
    totals: Totals = limits.NOTHING


def used_since(session: Session) -> ChildrenUsage:
    """What is to be booked now; it does not matter how often, or whether a child was started over meanwhile."""
    spawned = session.state.spawned
    kin = children_of(session.project, session.state) if spawned else []
    if spawned is None or not kin:
        return ChildrenUsage()
    booked: dict[str, Totals] = {}
    for entry in session.history():
        if entry.command.get("spawn") == spawned.sequence:
            booked |= {name: Totals.model_validate(used) for name, used in entry.command["used"].items()}
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
    command: JsonObject = {
        "spawn": spawned.sequence,
        "runs": fresh.current_action_count,
        "used": {name: used.model_dump(mode="json") for name, used in now.items()},
    }
    return ChildrenUsage(usage, command, fresh)


def _was_at_work(child: Kin) -> bool:
    """Whether it has used anything: a circle of workflows that pass over all their steps is to end too."""
    return child.state is not None and child.state.usage.current_action_count > 0
