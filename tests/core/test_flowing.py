"""What the history of a job with a workflow makes of its state."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.history import fold, workflow_state
from logist.core.machine.rules import LATEST
from logist.core.model import (
    Actor,
    Doer,
    Interaction,
    JsonObject,
    Kind,
    Observed,
    Phase,
    Place,
    Response,
    State,
    Status,
    Step,
    StepStart,
    Steward,
    Totals,
    Usage,
    Workflow,
)
from tests.core.builders import spec

FLOW = Workflow(name="w", steps=(Step(id="a", name="a"), Step(id="b", name="b", role="Actor")), start="a")
SPEC = spec(workflow=FLOW, doers={"b": Doer(role="Actor", source="step", badge="!")})


def entry(kind: Kind, after: Place, sequence: int = 5, **fields: Any) -> Interaction:
    return Interaction(
        sequence=sequence,
        timestamp="2026-01-02T03:04:05Z",
        kind=kind,
        actor=Actor.SYSTEM,
        state_before=Status.PENDING,
        state_after=after.status,
        workspace_path="/w",
        after=after,
        **fields,
    )


def at(step: str, status: Status = Status.PENDING, **fields: Any) -> Place:
    return Place(status=status, step=step, **fields)


def begun(**fields: Any) -> State:
    """A job of this workflow that stands at `a`."""
    state = fold.apply_interaction(None, entry(Kind.CREATE, at("a"), 1, spec=SPEC, checkpoint_after="c1"))
    return state.model_copy(update=fields)


def asked(
    step: str, phase: Phase = Phase.DOER, actions: tuple[str, ...] = ("COMPLETED",), **response: Any
) -> JsonObject:
    told = {"actions": list(actions), "summary_for_supervisor": "Done.", **response}
    return {"step": step, "response": Response(**told), "observed": Observed(phase=phase, role="Worker")}


def test_what_a_step_gave_is_the_last_output() -> None:
    after = fold.apply_interaction(begun(), entry(Kind.ASK, at("b"), **asked("a", output={"x": 1})))
    assert (after.outputs, after.output_of, after.summaries) == ({"a": {"x": 1}}, "a", {"a": "Done."})
    assert (after.agent_role, after.agent_role_source, after.badge) == ("Actor", "step", "!")
    nothing = fold.apply_interaction(after, entry(Kind.ASK, at("b"), 6, **asked("b")))
    assert (nothing.outputs, nothing.output_of) == ({"a": {"x": 1}, "b": None}, "b")


def test_what_a_step_began_with_is_kept_until_the_workflow_leads_to_it_again() -> None:
    def answer(state: State, after: Place, output: int) -> State:
        made = entry(Kind.ASK, after, rules=LATEST, **asked(state.step, output=output))
        return fold.apply_interaction(state, made)

    review = at("b", Status.REVIEW_REQUIRED)
    first = answer(begun(), at("b"), 1)
    assert first.step_starts == {"a": StepStart()}
    started = {"a": StepStart(), "b": StepStart(output_of="a")}
    done = answer(first, review, 2)
    assert done.step_starts == started
    reworked = answer(fold.apply_interaction(done, entry(Kind.REJECT, at("b"))), review, 3)
    assert reworked.step_starts == started
    repeated = fold.apply_interaction(reworked, entry(Kind.RESUBMIT, at("a")))
    assert repeated.step_starts == started
    led_back = fold.apply_interaction(reworked, entry(Kind.APPROVE, at("a")))
    assert led_back.step_starts == {"b": StepStart(output_of="a")}
    second = answer(led_back, at("a", Status.REVIEW_REQUIRED), 4)
    assert second.step_starts == {"a": StepStart(output_of="b", own_output=1), "b": StepStart(output_of="a")}


def test_in_histories_of_earlier_versions_what_a_step_began_with_is_lost() -> None:
    for rules in (None, 4):
        made = entry(Kind.ASK, at("b"), rules=rules, **asked("a", output=1))
        assert fold.apply_interaction(begun(), made).step_starts is None


@pytest.mark.parametrize(
    "made", [asked("a", Phase.REVIEWER, output=1), asked("a", actions=("RETRY",)), asked("a", actions=())]
)
def test_what_completes_nothing_is_no_output(made: JsonObject) -> None:
    after = fold.apply_interaction(begun(output_of="z"), entry(Kind.ASK, at("a"), **made))
    assert (after.output_of, after.summaries) == ("z", None)


def test_a_step_that_is_done_again_is_the_last_in_the_order() -> None:
    state = begun(summaries={"a": "one", "b": "two"})
    after = fold.apply_interaction(
        state, entry(Kind.ASK, at("b"), **asked("a", summary_for_supervisor="x" * 500))
    )
    assert list(after.summaries or {}) == ["b", "a"]
    assert len((after.summaries or {})["a"]) == workflow_state.LONGEST_SUMMARY


def test_asks_are_counted_at_their_step() -> None:
    state = begun()
    for number, step in enumerate(["a", "a", "b"]):
        state = fold.apply_interaction(state, entry(Kind.ASK, at("b"), number + 2, **asked(step)))
    assert (state.asked_at, state.asked) == ({"a": 2, "b": 1}, 3)
    simulated = fold.apply_interaction(state, entry(Kind.ASK, at("b"), 9, simulated=True, **asked("b")))
    assert simulated.asked_at == {"a": 2, "b": 1}


def test_what_was_asked_stays_counted_after_a_restep() -> None:
    back = begun()
    state = fold.apply_interaction(back, entry(Kind.ASK, at("b"), 2, **asked("a")))
    returned = fold.apply_interaction(state, entry(Kind.RESTEP, at("a"), 3, command={"to": 2}), back)
    assert (returned.asked_at, returned.asked) == ({"a": 1}, 1)
    assert returned.visits is None


def test_visits_of_decisions_are_counted_and_skipped_steps_are_not() -> None:
    route: list[JsonObject] = [
        {"decision": "D", "branch": "E"},
        {"skipped": "s"},
        {"decision": "D", "branch": "b"},
    ]
    after = fold.apply_interaction(begun(visits={"D": 1, "E": 1}), entry(Kind.COLLECT, at("b"), route=route))
    assert after.visits == {"D": 3, "E": 1}


def test_what_a_steward_gives_is_the_output_of_a_manual_step() -> None:
    state = begun(place=at("a", Status.APPROVAL_REQUIRED, awaiting="manual"))
    said: JsonObject = {"command": {"output": {"ok": 1}}, "steward": Steward(name="ada", note="Fine.")}
    after = fold.apply_interaction(state, entry(Kind.APPROVE, at("b"), **said))
    assert (after.outputs, after.output_of, after.summaries) == ({"a": {"ok": 1}}, "a", {"a": "Fine."})
    assert after.last is not None
    assert (after.last.role, after.last.summary, after.last.output) == ("ada", "Fine.", {"ok": 1})
    silent = fold.apply_interaction(state, entry(Kind.APPROVE, at("b"), steward=Steward(name="ada")))
    assert (silent.outputs, silent.summaries) == ({"a": None}, {"a": "done by ada"})


CHILDREN: list[JsonObject] = [
    {"id": "j--5-1", "status": "SUCCESS", "output": 1, "evidence_files": ["x", "y"]},
    {"id": "j--5-2", "status": "STUCK", "output": 2, "evidence_files": ["z"]},
    {"id": "j--5-3", "status": "SUCCESS", "output": None, "evidence_files": ["y"]},
]


def waiting(**fields: Any) -> State:
    command = {"children": CHILDREN, "tag": "foreach:j"}
    spawned = entry(Kind.SPAWN, at("a", Status.WAITING), command=command, checkpoint_after="c5")
    return fold.apply_interaction(begun(), spawned).model_copy(update=fields)


def test_a_spawn_names_the_children_and_where_they_come_from() -> None:
    state = waiting()
    assert state.children == ["j--5-1", "j--5-2", "j--5-3"]
    assert state.spawned is not None
    assert state.spawned.model_dump() == {
        "sequence": 5,
        "step": "a",
        "tag": "foreach:j",
        "total": 3,
        "checkpoint": "c5",
        "output_of": None,
    }
    assert state.results is None


def test_a_spawn_without_items_is_an_empty_result() -> None:
    after = fold.apply_interaction(begun(results=[9]), entry(Kind.SPAWN, at("b"), command={"children": []}))
    assert (after.results, after.outputs, after.output_of, after.children) == ([], {"a": []}, "a", [])


def test_a_step_that_is_given_away_anew_has_the_items_of_the_step_before() -> None:
    done = waiting().model_copy(update={"output_of": "a", "spawned": waiting(output_of=None).spawned})
    assert done.spawned is not None
    done = done.model_copy(update={"spawned": done.spawned.model_copy(update={"output_of": "z"})})
    again = fold.apply_interaction(done, entry(Kind.REJECT, at("a", spawns=True), 7))
    assert again.output_of == "z"
    assert fold.apply_interaction(done, entry(Kind.REJECT, at("a"), 7)).output_of == "a"


def test_a_spawn_that_failed_changes_no_output() -> None:
    state = begun(results=[9], outputs={"z": 1}, output_of="z")
    stuck = at("a", Status.STUCK)
    after = fold.apply_interaction(
        state, entry(Kind.SPAWN, stuck, command={"children": [], "fault": "too many"})
    )
    assert (after.results, after.outputs, after.output_of) == (None, {"z": 1}, "z")


def test_a_collect_takes_what_succeeded() -> None:
    command = {"gathered": "reached", "children": CHILDREN, "runs": 4}
    usage = Usage(cost_cents=7, input_tokens=3)
    after = fold.apply_interaction(
        waiting(forced=True), entry(Kind.COLLECT, at("b"), 6, command=command, usage=usage)
    )
    assert (after.results, after.outputs["a"], after.output_of) == ([1, None], [1, None], "a")
    assert (after.children, after.forced, after.artefacts) == ([], None, ["x", "y"])
    assert after.summaries == {"a": "2 of 3 jobs succeeded"}
    assert after.usage == Totals(cumulative_cost=7, current_action_count=4, input_tokens=3)
    assert after.last is not None
    assert (after.last.role, after.last.evidence_files, after.last.output) == ("3 jobs", ["x", "y"], None)


def test_a_collect_of_a_subflow_gives_its_output() -> None:
    command = {"gathered": "reached", "single": True, "children": [{**CHILDREN[0], "output": {"n": 1}}]}
    after = fold.apply_interaction(waiting(), entry(Kind.COLLECT, at("b"), 6, command=command))
    assert (after.results, after.outputs["a"]) == ([{"n": 1}], {"n": 1})
    assert after.last is not None
    assert (after.last.role, after.last.output) == ("one job", {"n": 1})


@pytest.mark.parametrize("gathered", ["share", "conflict"])
def test_a_collect_that_was_not_enough_still_waits_for_the_children(gathered: str) -> None:
    command = {"gathered": gathered, "children": CHILDREN, "runs": 4}
    after = fold.apply_interaction(waiting(), entry(Kind.COLLECT, at("a", Status.STUCK), 6, command=command))
    assert (after.children, after.results, after.output_of) == (["j--5-1", "j--5-2", "j--5-3"], None, None)
    assert after.usage.current_action_count == 4
    forced = fold.apply_interaction(
        after, entry(Kind.RESUBMIT, at("a", Status.WAITING), 7, command={"force": True})
    )
    assert (forced.forced, len(forced.children)) == (True, 3)
    elsewhere = fold.apply_interaction(after, entry(Kind.RESUBMIT, at("b"), 7, command={"step": "b"}))
    assert (elsewhere.forced, elsewhere.children) == (None, [])


def test_a_role_that_was_switched_stays_at_every_step() -> None:
    command = {"from": "Worker", "to": "Planner", "source": "switch"}
    state = fold.apply_interaction(begun(), entry(Kind.ROLE, at("a"), command=command))
    moved = fold.apply_interaction(state, entry(Kind.ASK, at("b"), 6, **asked("a")))
    assert (moved.agent_role, moved.agent_role_source) == ("Planner", "switch")
    taken_back = {"from": "Planner", "to": "Worker", "source": "default"}
    back = fold.apply_interaction(moved, entry(Kind.ROLE, at("b"), 7, command=taken_back))
    assert (back.agent_role, back.agent_role_source) == ("Actor", "step")


def test_a_job_without_a_workflow_has_nothing_of_this() -> None:
    state = fold.apply_interaction(None, entry(Kind.CREATE, Place(status=Status.PENDING), 1, spec=spec()))
    after = fold.apply_interaction(
        state, entry(Kind.ASK, Place(status=Status.SUCCESS), 2, **asked("task", output=1))
    )
    assert (after.outputs, after.output_of, after.summaries, after.asked_at) == (
        {"task": 1},
        None,
        None,
        None,
    )
