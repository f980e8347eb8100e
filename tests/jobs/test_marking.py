"""How the steps of a job stand, from a history and from children as a listing sees them."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.drawing import DrawnChild, Mark
from logist.core.model import (
    Edge,
    EffectiveSpec,
    Execution,
    Phase,
    State,
    Status,
    Step,
    StepType,
    Stuck,
    StuckKind,
    Workflow,
)
from logist.jobs import workflow_progress
from logist.jobs.workflow_progress import SeenChild, Way

Json = dict[str, Any]

FLOW = Workflow(
    name="flow",
    start="a",
    steps=(
        Step(id="a", name="Begin"),
        Step(id="gate", name="Good?", step_type=StepType.DECISION),
        Step(id="each", name="Each", step_type=StepType.FOREACH, items_path="output.files"),
        Step(
            id="person",
            name="Person",
            execution=Execution.MANUAL,
            prompt="Look at {{input.n}}, {{gone}}.",
            agent_role="Never shown to anyone.",
        ),
        Step(id="last", name="Last"),
    ),
    edges=(
        Edge(source="a", target="gate"),
        Edge(source="gate", target="each", condition="output.ok"),
        Edge(source="gate", target="", condition="output.stop"),
        Edge(source="gate", target="a", label="default"),
        Edge(source="each", target="person"),
        Edge(source="person", target="last"),
    ),
)
SPEC = EffectiveSpec(title="T", workflow=FLOW, input={"n": 3}).model_dump(mode="json")


def entries(*more: Json) -> list[Json]:
    """A history: the creation, then these, numbered; each knows its `after`."""
    created: Json = {"kind": "create", "spec": SPEC, "after": {"step": "a"}}
    return [{"sequence": number, **entry} for number, entry in enumerate([created, *more], 1)]


def asked(after: str, *route: Json, phase: str = "doer", action: str = "COMPLETED", **place: Any) -> Json:
    return {
        "kind": "ask",
        "after": {"step": after, **place},
        "route": list(route),
        "observed": {"phase": phase},
        "response": {"actions": [action]},
    }


def other(kind: str, after: str, *route: Json, command: Json | None = None, **place: Any) -> Json:
    return {"kind": kind, "after": {"step": after, **place}, "route": list(route), "command": command or {}}


TO_EACH = {"decision": "gate", "branch": "each", "values": {"output.ok": True}}
BACK = {"decision": "gate", "branch": "a"}
ENDED = {"decision": "gate", "branch": ""}
LOST = {"decision": "gate", "branch": None, "values": {"output.ok": 0}}
SKIPPED = {"skipped": "person", "condition": "output.risky"}
GATHERED = {
    "gathered": "reached",
    "children": [
        {"id": "j--3-1", "status": "SUCCESS"},
        {"id": "j--3-2", "status": "CANCELED"},
        {"id": "j--3-3", "status": "SUCCESS"},
    ],
    "left_out": {"j--3-3": ["x.txt"]},
}
COLLECTED = other("collect", "person", command=GATHERED, awaiting="manual")


def way(*more: Json) -> Way:
    found = workflow_progress.read_progress(entries(*more))
    assert found is not None
    return found.way


def at(step: str, status: Status = Status.PENDING, kind: StuckKind | None = None, **fields: Any) -> State:
    stuck = Stuck(kind=kind, step=step, role="Worker", phase=Phase.DOER, reason="why") if kind else None
    return State.model_validate(
        {"status": status, "step": step, "stuck": stuck, "workflow": "flow", **fields}
    )


STUCK = Status.STUCK


@pytest.mark.parametrize(
    ("history", "state", "expected"),
    [
        pytest.param([], at("a", Status.DRAFT), {}, id="draft"),
        pytest.param([], at("a"), {"a": Mark("next")}, id="new"),
        pytest.param([], at("a", attempts=1), {"a": Mark("next", "attempt 2 of 3")}, id="again"),
        pytest.param([], at("a", Status.REVIEW_REQUIRED), {"a": Mark("next", "review")}, id="review"),
        pytest.param([], at("a", STUCK, StuckKind.AGENT), {"a": Mark("stuck", "agent")}, id="stuck"),
        pytest.param([], at("a", Status.FAILED), {"a": Mark("failed")}, id="failed"),
        pytest.param([], at("a", Status.CANCELED), {"a": Mark("failed", "CANCELED")}, id="canceled"),
        pytest.param([], at("a", Status.SUSPENDED), {"a": Mark("waiting", "SUSPENDED")}, id="suspended"),
        pytest.param(
            [], at("a", Status.HALTED_COST), {"a": Mark("waiting", "HALTED_COST")}, id="halted"
        ),
        pytest.param(
            [asked("a", action="RETRY"), asked("a", phase="reviewer")], at("a"), {"a": Mark("next")}, id="not done"
        ),
        pytest.param(
            [asked("each", TO_EACH)],
            at("each"),
            {"a": Mark("done"), "gate": Mark("done", "took each"), "each": Mark("next")},
            id="decided",
        ),
        pytest.param(
            [asked("a", BACK), asked("each", TO_EACH)],
            at("each", Status.WAITING),
            {"a": Mark("done", "2 times"), "gate": Mark("done", "took each"), "each": Mark("waiting")},
            id="the branch that was taken last",
        ),
        pytest.param(
            [asked("a", ENDED)],
            at("a", Status.SUCCESS),
            {"a": Mark("done"), "gate": Mark("done", "took the end")},
            id="the end",
        ),
        pytest.param(
            [asked("a", LOST)],
            at("a", STUCK, StuckKind.NO_BRANCH),
            {"a": Mark("done"), "gate": Mark("stuck", "no branch matches")},
            id="no branch",
        ),
        pytest.param(
            [asked("each", TO_EACH), other("spawn", "each"), COLLECTED],
            at("person", Status.APPROVAL_REQUIRED, awaiting="manual"),
            {
                "a": Mark("done"),
                "gate": Mark("done", "took each"),
                "each": Mark(
                    "done", "2 times", children=(DrawnChild("j--3-1", "done"), DrawnChild("j--3-2", "failed", "CANCELED"), DrawnChild("j--3-3", "skipped", "not merged"))
                ),
                "person": Mark("waiting", "for a person"),
            },
            id="gathered",
        ),
        pytest.param(
            [asked("each", TO_EACH), other("spawn", "last", SKIPPED), asked("last", awaiting="end")],
            at("last", Status.APPROVAL_REQUIRED, awaiting="end"),
            {
                "a": Mark("done"),
                "gate": Mark("done", "took each"),
                "each": Mark("done"),
                "person": Mark("skipped"),
                "last": Mark("done"),
            },
            id="passed over, and the last word",
        ),
        pytest.param(
            [asked("last", SKIPPED), other("restep", "person", command={"to": 2}, awaiting="manual")],
            at("a"),
            {"a": Mark("next")},
            id="a restep takes it back",
        ),
        pytest.param(
            [asked("a", BACK), asked("each", TO_EACH), other("restep", "a", command={"to": 3})],
            at("a"),
            {"a": Mark("next"), "gate": Mark("done", "took a")},
            id="a restep takes back what came after",
        ),
        pytest.param([asked("each", TO_EACH), other("rerun", "a")], at("a"), {"a": Mark("next")}, id="rerun"),
        pytest.param(
            [other("approve", "last", SKIPPED), other("resubmit", "person", awaiting="manual"), other("approve", "last")],
            at("last"),
            {"person": Mark("done"), "last": Mark("next")},
            id="done by a person after it was skipped",
        ),
    ],
)  # fmt: skip
def test_how_each_step_stands(history: list[Json], state: State, expected: dict[str, Mark]) -> None:
    assert workflow_progress.mark_steps(FLOW, state, way(*history)) == expected


@pytest.mark.parametrize(
    ("status", "mark"),
    [(Status.PENDING, Mark("running")), (Status.REVIEW_REQUIRED, Mark("running", "review"))],
)
def test_an_agent_is_out(status: Status, mark: Mark) -> None:
    assert workflow_progress.mark_steps(FLOW, at("a", status), Way(), running=True) == {"a": mark}


DEEP = SeenChild(
    "c", "WAITING", children=(SeenChild("c--1", "SUCCESS"), SeenChild("c--2", "STUCK", stuck_kind="agent"))
)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (SeenChild("c", "SUCCESS"), DrawnChild("c", "done")),
        (SeenChild("c", "PENDING"), DrawnChild("c", "next")),
        (SeenChild("c", "not created yet"), DrawnChild("c", "next", "not created yet")),
        (SeenChild("c", "RUNNING"), DrawnChild("c", "running")),
        (
            SeenChild("c", "STUCK", stuck_kind="agent", reason="Which\none?"),
            DrawnChild("c", "stuck", "Which one?"),
        ),
        (SeenChild("c", "CANCELED"), DrawnChild("c", "failed", "CANCELED")),
        (
            SeenChild("c", "APPROVAL_REQUIRED", awaiting="manual"),
            DrawnChild("c", "waiting", "APPROVAL_REQUIRED (manual)"),
        ),
        (SeenChild("c", "HALTED_COST"), DrawnChild("c", "waiting", "HALTED_COST")),
        (SeenChild("c", "?"), DrawnChild("c", "waiting", "?")),
        (DEEP, DrawnChild("c", "waiting", "c--2 is STUCK")),
        (SeenChild("c", "STUCK", reason="x" * 200), DrawnChild("c", "stuck", "x" * 59 + "…")),
    ],
)
def test_how_a_child_stands(seen: SeenChild, expected: DrawnChild) -> None:
    assert workflow_progress.mark_child(seen) == expected


def test_the_children_are_counted_at_the_step_that_waits_for_them() -> None:
    seen = [SeenChild("j--3-1", "SUCCESS"), SeenChild("j--3-2", "PENDING"), DEEP]
    mark = workflow_progress.mark_steps(FLOW, at("each", Status.WAITING), Way(), seen)["each"]
    assert (mark.state, mark.count_children(), [child.name for child in mark.children]) == (
        "waiting",
        (1, 3),
        ["j--3-1", "j--3-2", "c"],
    )


@pytest.mark.parametrize(
    ("seen", "goes_on"),
    [
        (SeenChild("c", "PENDING"), True),
        (SeenChild("c", "RUNNING"), True),
        (SeenChild("c", "STUCK"), False),
        (SeenChild("c", "SUCCESS"), False),
        (DEEP, False),
        (SeenChild("c", "WAITING", children=(SeenChild("c--1", "SUCCESS"),)), True),
        (
            SeenChild("c", "WAITING", children=(SeenChild("c--1", "STUCK"), SeenChild("c--2", "PENDING"))),
            True,
        ),
    ],
)
def test_whether_an_agent_may_be_asked_for_a_child(seen: SeenChild, goes_on: bool) -> None:
    assert seen.is_open is goes_on


def test_what_a_lost_decision_saw_and_files_that_do_not_fit() -> None:
    lost = way(asked("a", LOST))
    assert workflow_progress.find_decision_without_branch(at("a", STUCK, StuckKind.NO_BRANCH), lost) == "gate"
    assert workflow_progress.find_decision_without_branch(at("a", STUCK, StuckKind.AGENT), lost) is None
    assert lost.decisions["gate"]["values"] == {"output.ok": 0}
    conflict = {"gathered": "conflict", "children": [], "left_out": {"j--3-2": ["x.txt"]}}
    assert way(other("collect", "each", command=conflict)).conflicts == {"j--3-2": ["x.txt"]}
    fits = {name: value for name, value in GATHERED.items() if name != "left_out"}
    assert (
        way(other("collect", "each", command=conflict), other("collect", "person", command=fits)).conflicts
        == {}
    )


@pytest.mark.parametrize(
    ("outputs", "inputs"),
    [
        ({}, {"input": {"n": 3}}),
        ({"a": {"ok": 1}}, {"input": {"n": 3, "ok": 1}}),
        ({"a": [1, 2]}, {"input": {"n": 3}, "output": [1, 2]}),
        ({"a": "text"}, {"input": {"n": 3}, "output": "text"}),
    ],
)
def test_what_a_person_is_asked(outputs: Json, inputs: Json) -> None:
    spec = EffectiveSpec.model_validate(SPEC)
    state = at("person", Status.APPROVAL_REQUIRED, outputs=outputs, output_of="a")
    found = workflow_progress.describe_manual_step(spec, state)
    assert found is not None
    assert (found.prompt, found.inputs) == ("Look at 3, {{gone}}.", inputs)
    assert len(found.notes) == 1
    assert "gone" in found.notes[0]


@pytest.mark.parametrize(("prompt", "shown"), [("{{if x}}broken", "{{if x}}broken"), ("{{input.n}}", "3")])
def test_a_prompt_that_does_not_fill_is_shown_as_it_is(prompt: str, shown: str) -> None:
    step = Step(id="a", name="A", execution=Execution.MANUAL, prompt=prompt)
    spec = EffectiveSpec(title="T", workflow=Workflow(name="f", start="a", steps=(step,)), input={"n": 3})
    found = workflow_progress.describe_manual_step(spec, at("a"))
    assert found is not None
    assert found.prompt == shown
    done = spec.model_copy(
        update={"workflow": FLOW.model_copy(update={"steps": (step.model_copy(update={"rendered": True}),)})}
    )
    assert (kept := workflow_progress.describe_manual_step(done, at("a"))) is not None
    assert kept.prompt == prompt


@pytest.mark.parametrize(
    ("step", "targets"), [("a", ["each", "", "a"]), ("gate", ["each", "", "a"]), ("each", []), ("last", [])]
)
def test_between_what_an_output_chooses(step: str, targets: list[str]) -> None:
    assert [edge.target for edge in workflow_progress.list_next_branches(FLOW, step)] == targets


def test_a_history_without_a_spec_says_nothing() -> None:
    assert workflow_progress.read_progress([]) is None
    assert workflow_progress.find_step_number(FLOW, "each") == 3
    assert workflow_progress.find_step_number(FLOW, "gone") is None
