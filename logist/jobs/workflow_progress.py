"""The progress of a job's workflow for display, read from the history and the children. Writes nothing.

Imports only what a listing may load: a history is read as plain JSON, and nothing is judged again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from logist.core import template
from logist.core.drawing.marks import DrawnChild, Mark, Standing
from logist.core.machine import decisions
from logist.core.model import (
    END,
    HALTED,
    TERMINAL,
    Edge,
    EffectiveSpec,
    JsonObject,
    Kind,
    Phase,
    State,
    Status,
    Step,
    StepType,
    StuckKind,
    Workflow,
)
from logist.core.model.commands import SpawnCommand
from logist.core.template import data
from logist.core.workflow.item_names import name_item
from logist.quick_dataclass import dataclass

LONGEST = 60
"""Maximum length of the text next to a step or a child, in characters."""
NOT_MADE = "not created yet"


@dataclass(frozen=True)
class SeenChild:
    """A child as a listing shows it."""

    id: str
    status: str
    """A Status; RUNNING or REVIEWING while an agent works; else why the status is unknown."""
    awaiting: str | None = None
    stuck_kind: str | None = None
    reason: str = ""
    children: tuple[SeenChild, ...] = ()
    """Its own child jobs, if it waits for some."""
    next_command: str = ""
    """The command to run in this status; empty if the status is unknown."""
    name: str = ""
    """What names its item; empty if nothing does, and for a subflow."""

    @property
    def status_text(self) -> str:
        """The status, with the kind of approval or of STUCK."""
        why = self.stuck_kind or self.awaiting
        return f"{self.status} ({why})" if why else self.status

    @property
    def is_open(self) -> bool:
        """True if an agent may be called for it, or for a job below it."""
        if self.status == Status.WAITING:
            return (
                not self.children
                or any(child.is_open for child in self.children)
                or not self.waiting_for_steward
            )
        return _classify_status(self.status) in ("next", "running")

    @property
    def waiting_for_steward(self) -> tuple[SeenChild, ...]:
        """The jobs that wait for a steward: this one, or jobs that it waits for."""
        if needs_steward(self.status):
            return (self,)
        return tuple(waiting for child in self.children for waiting in child.waiting_for_steward)


@dataclass(frozen=True)
class Way:
    """The path a job took through its workflow, without what a restep or a rerun has reverted."""

    decisions: Mapping[str, JsonObject] = field(default_factory=dict)
    """The last result of each decision, by its step."""
    skipped: Mapping[str, JsonObject] = field(default_factory=dict)
    """The steps that were skipped when they were last reached."""
    gathered: Mapping[str, tuple[JsonObject, ...]] = field(default_factory=dict)
    """By step: the children whose work it has gathered, as they were then."""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Those of them whose work was not merged into the parent's."""
    lost: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """By step and child: the files that no checkpoint contains, so they were not copied."""
    times: Mapping[str, int] = field(default_factory=dict)
    """How often each step was done."""
    conflicts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By child: the files that had conflicts when its work was last gathered."""


@dataclass(frozen=True)
class ProgressRecord:
    """A history, reduced to the path taken and the spec."""

    spec: EffectiveSpec
    way: Way
    names: Mapping[str, str] = field(default_factory=dict)
    """By child: what names its item."""


def read_progress(entries: Iterable[JsonObject]) -> ProgressRecord | None:
    """Read the progress from a history; None if it contains no spec."""
    spec: JsonObject | None = None
    way, place = Way(), JsonObject()
    before: dict[int, Way] = {}
    names: dict[str, str] = {}
    for entry in entries:
        before[entry["sequence"]] = way
        spec = entry.get("spec") or spec
        if entry.get("kind") == Kind.RERUN:
            way = Way()
        elif entry.get("kind") == Kind.RESTEP:
            way = before.get(_get_command(entry).get("to", 0), way)
        elif entry.get("kind") == Kind.COLLECT:
            way = replace(way, conflicts=_get_command(entry).get("left_out") or {})
        elif entry.get("kind") == Kind.SPAWN:
            planned = SpawnCommand.read(_get_command(entry)).children
            names |= {child.id: child.name for child in planned if child.name}
        way = _apply_decisions(_apply_step_end(way, entry, place), entry)
        place = entry.get("after") or place
    return ProgressRecord(EffectiveSpec.model_validate(spec), way, names) if spec is not None else None


def _get_command(entry: JsonObject) -> JsonObject:
    command = entry.get("command")
    return command if isinstance(command, dict) else {}


def _apply_step_end(way: Way, entry: JsonObject, place: JsonObject) -> Way:
    """The path after an entry that completes a step; `place` is the job's place before the entry."""
    if not _is_step_end(entry, place):
        return way
    step = str(place.get("step"))
    skipped = {name: said for name, said in way.skipped.items() if name != step}
    gathered = {name: children for name, children in way.gathered.items() if name != step}
    left_out = {**way.left_out, step: tuple(_get_command(entry).get("left_out") or ())}
    lost = {name: found for name, found in way.lost.items() if name != step}
    if entry.get("kind") == Kind.COLLECT:
        gathered[step] = tuple(_get_command(entry).get("children") or ())
        lost |= {step: _get_command(entry)["lost"]} if _get_command(entry).get("lost") else {}
    times = {**way.times, step: way.times.get(step, 0) + 1}
    return replace(way, skipped=skipped, gathered=gathered, left_out=left_out, lost=lost, times=times)


def _is_step_end(entry: JsonObject, place: JsonObject) -> bool:
    """True if the entry completes the work of the step; its review or approval comes later."""
    kind, command = entry.get("kind"), _get_command(entry)
    if kind == Kind.ASK:
        by_doer = (entry.get("observed") or {}).get("phase") == Phase.DOER
        return by_doer and (entry.get("response") or {}).get("actions") == ["COMPLETED"]
    if kind == Kind.APPROVE:
        return place.get("awaiting") == "manual"
    if kind == Kind.SPAWN:
        return not command.get("children") and not command.get("fault")
    return kind == Kind.COLLECT and command.get("gathered") == "reached"


def _apply_decisions(way: Way, entry: JsonObject) -> Way:
    """The path after the decisions that an entry records."""
    route = [said for said in entry.get("route") or () if isinstance(said, dict)]
    if not route:
        return way
    decisions = {said["decision"]: said for said in route if isinstance(said.get("decision"), str)}
    skipped = {said["skipped"]: said for said in route if isinstance(said.get("skipped"), str)}
    before = {name: said for name, said in way.skipped.items() if name not in decisions}
    return replace(way, decisions={**way.decisions, **decisions}, skipped={**before, **skipped})


def mark_steps(
    flow: Workflow, state: State, way: Way, children: Sequence[SeenChild] = (), *, running: bool = False
) -> dict[str, Mark]:
    """The mark of each step that was reached, or is next. `children`: those of the current step."""
    if state.status is Status.DRAFT:
        return {}
    passed_steps = {*way.times, *way.decisions, *way.skipped}
    marks_by_step = {step.id: _mark_past_step(step, way) for step in flow.steps if step.id in passed_steps}
    current_step = flow.find_step(state.step)
    if current_step is not None and not _has_left_step(state):
        marks_by_step[current_step.id] = _mark_current_step(current_step, state, way, children, running)
    decision = find_decision_without_branch(state, way)
    if decision is not None and flow.find_step(decision) is not None:
        marks_by_step[decision] = Mark("stuck", "no branch matches")
    return {step.id: marks_by_step[step.id] for step in flow.steps if step.id in marks_by_step}


def _mark_past_step(step: Step, way: Way) -> Mark:
    """The mark of a step that the job has left."""
    times = way.times.get(step.id, 0)
    count_text = f"{times} times" if times > 1 else ""
    if step.id in way.skipped:
        return Mark("skipped", _shorten_text(decisions.fallback_reason(way.skipped[step.id])))
    if step.id in way.gathered:
        left_out, lost = way.left_out.get(step.id, ()), way.lost.get(step.id, {})
        gathered = tuple(_mark_gathered_child(child, left_out, lost) for child in way.gathered[step.id])
        return Mark("done", count_text, children=gathered)
    if step.id in way.decisions:
        return Mark("done", " ".join(filter(None, [count_text, _describe_branch(way.decisions[step.id])])))
    return Mark("done", count_text)


def _describe_branch(said: JsonObject) -> str:
    """Describe the branch that a decision took."""
    branch = said.get("branch")
    if not isinstance(branch, str):
        return ""
    target = "the end" if branch == END else branch
    reason = decisions.fallback_reason(said)
    return f"took its default, {target}: {_shorten_text(reason)}" if reason else f"took {target}"


def _mark_gathered_child(
    child: JsonObject, left_out: Collection[str], lost: Mapping[str, Sequence[str]]
) -> DrawnChild:
    name, status, item = str(child.get("id")), str(child.get("status")), name_item(child.get("item"))
    if name in left_out:
        return DrawnChild(name, "skipped", "not merged", item)
    if name in lost:
        return DrawnChild(name, "done", _shorten_text(f"not copied: {', '.join(map(str, lost[name]))}"), item)
    is_successful = status == Status.SUCCESS
    return DrawnChild(name, "done" if is_successful else "failed", "" if is_successful else status, item)


def list_fallbacks(way: Way) -> list[str]:
    """The last decisions of a job that could not evaluate a condition, one line each."""
    return decisions.format_fallbacks([*way.decisions.values(), *way.skipped.values()])


def _has_left_step(state: State) -> bool:
    """True if the step that the state names is done, and the job is at the point after it."""
    return (
        state.status is Status.SUCCESS
        or state.place.awaiting == "end"
        or (state.place.stuck is not None and state.place.stuck.kind is StuckKind.NO_BRANCH)
    )


def find_decision_without_branch(state: State, way: Way) -> str | None:
    """The decision that has no matching branch; None if there is none."""
    if state.place.stuck is None or state.place.stuck.kind is not StuckKind.NO_BRANCH:
        return None
    return next((name for name, said in way.decisions.items() if said.get("branch") is None), None)


def _mark_current_step(
    step: Step, state: State, way: Way, children: Sequence[SeenChild], running: bool
) -> Mark:
    """The mark of the current step."""
    child_marks = tuple(map(mark_child, children))
    standing, text = _describe_standing(state, running)
    if state.place.awaiting == "manual" and step.role:
        text = f"for {step.role}"
    return Mark(standing, _shorten_text(text), children=child_marks)


def _describe_standing(state: State, running: bool) -> tuple[Standing, str]:
    attempts = (
        f"attempt {state.place.attempts + 1} of {state.limits.max_attempts}" if state.place.attempts else ""
    )
    if running:
        return "running", "review" if state.status is Status.REVIEW_REQUIRED else attempts
    if state.status is Status.STUCK:
        return "stuck", state.place.stuck.kind.value if state.place.stuck else ""
    if state.status is Status.PENDING:
        return "next", attempts
    if state.status is Status.REVIEW_REQUIRED:
        return "next", "review"
    if state.status is Status.WAITING:
        return "waiting", ""
    if state.status is Status.APPROVAL_REQUIRED:
        return "waiting", "for a person" if state.place.awaiting == "manual" else "for approval"
    if state.status in TERMINAL:
        return "failed", "" if state.status is Status.FAILED else state.status.value
    return "waiting", state.status.value


def mark_child(child: SeenChild) -> DrawnChild:
    """The mark of a child."""
    waiting = child.waiting_for_steward if child.children else ()
    if waiting:
        text = ", ".join(f"{found.id} is {found.status}" for found in waiting)
        return DrawnChild(child.id, "waiting", _shorten_text(text), child.name)
    standing = _classify_status(child.status)
    plain_standings = {"done", "running", "next"}
    reason = child.reason if child.status == Status.STUCK else ""
    text = reason or ("" if standing in plain_standings and child.status != NOT_MADE else child.status_text)
    return DrawnChild(child.id, standing, _shorten_text(text), child.name)


def _classify_status(status: str) -> Standing:
    if status in ("RUNNING", "REVIEWING"):
        return "running"
    if status == Status.SUCCESS:
        return "done"
    if status == Status.STUCK:
        return "stuck"
    if status in TERMINAL:
        return "failed"
    if status in (Status.PENDING, Status.REVIEW_REQUIRED, NOT_MADE):
        return "next"
    return "waiting"


def needs_steward(status: str) -> bool:
    """True if a job in this status continues only after a person has acted."""
    return status in {Status.STUCK, Status.APPROVAL_REQUIRED, Status.SUSPENDED, Status.DRAFT} | HALTED


def _shorten_text(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"


@dataclass(frozen=True)
class Asked:
    """The task of a manual step, for the person who does it."""

    prompt: str
    inputs: JsonObject
    """The data that the step can use, by name."""
    notes: tuple[str, ...] = ()
    """The placeholders of the prompt that could not be filled."""


def describe_manual_step(spec: EffectiveSpec, state: State) -> Asked | None:
    """The task of the current step; None if the job has no workflow with that step."""
    step = spec.workflow.find_step(state.step) if spec.workflow else None
    if step is None:
        return None
    step_data = data.build_step_data(spec, state)
    job_input, output = step_data["input"], step_data["output"]
    inputs = {"input": job_input} if _has_content(job_input) else {}
    if _has_content(output) and not _is_within(output, job_input):
        inputs["output"] = output
    text, notes = _render_prompt(step, step_data)
    return Asked(text, inputs, notes)


def _has_content(value: Any) -> bool:
    return value not in (None, {}, [], "")


def _is_within(output: Any, given: Any) -> bool:
    """True if the input contains the last output completely, because the output was merged into it."""
    return output == given or (isinstance(output, dict) and isinstance(given, dict))


def _render_prompt(step: Step, found: JsonObject) -> tuple[str, tuple[str, ...]]:
    if step.rendered:
        return step.prompt, ()
    try:
        filled = template.render(step.prompt, found)
    except template.TemplateError as error:
        return step.prompt, (str(error),)
    return filled.text, tuple(filled.warnings)


def find_step_number(flow: Workflow, step_id: str) -> int | None:
    """The position of a step in its workflow, from 1."""
    return next((place for place, step in enumerate(flow.steps, 1) if step.id == step_id), None)


def list_next_branches(flow: Workflow, step_id: str) -> list[Edge]:
    """The branches that a step's output chooses between: its own, or those of the decision after it."""
    edges = flow.find_edges_from(step_id)
    if len(edges) == 1 and edges[0].condition is None:
        following = flow.find_step(edges[0].target)
        is_decision = following is not None and following.step_type is StepType.DECISION
        return flow.find_edges_from(edges[0].target) if is_decision else []
    return edges
