"""What a completed step of a workflow leads to, and whether a person has to confirm it first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from logist.core.machine import routing
from logist.core.machine.rules import TODAY, Rules
from logist.core.model import Edge, JsonObject, Phase, Status, Step, StepType, StuckKind, Workflow
from logist.core.prompt import prompt
from logist.core.step import step
from tests.core.builders import command, conclude, observed, reply, spec, state


def flow(**fields: Any) -> Workflow:
    """`a`, then a decision between `b` and the end; `fields` are more of `a`."""
    return Workflow(
        name="w",
        steps=(
            Step(id="a", name="a", **fields),
            Step(id="D", name="D", step_type=StepType.DECISION),
            Step(id="b", name="b"),
        ),
        edges=(
            Edge(source="a", target="D"),
            Edge(source="D", target="b", condition="output.more"),
            Edge(source="D", target="", condition="output.more === false"),
        ),
        start="a",
    )


def concluded(
    workflow: Workflow,
    output: Any = None,
    *,
    phase: Phase = Phase.DOER,
    action: str = "COMPLETED",
    metadata: JsonObject | None = None,
    before: JsonObject | None = None,
    rules: Rules = frozenset(),
    **asked: Any,
) -> step.Outcome:
    status = Status.PENDING if phase is Phase.DOER else Status.REVIEW_REQUIRED
    more: JsonObject = {"metadata": metadata} if metadata else {}
    text = command(action, output=output, **more)
    here = state(status, **{"step": "a", "workflow": "w", **(before or {})})
    return conclude(spec(workflow=workflow, **asked), here, reply(text), observed(phase), rules)


def test_a_step_leads_on_by_its_output() -> None:
    outcome = concluded(flow(), {"more": True})
    assert (outcome.place.status, outcome.place.step, bool(outcome.why_unsure)) == (
        Status.PENDING,
        "b",
        False,
    )
    assert outcome.route == [
        {"decision": "D", "branch": "b", "condition": "output.more", "values": {"output.more": True}}
    ]


@pytest.mark.parametrize(("approval", "ends"), [("none", Status.SUCCESS), ("end", Status.APPROVAL_REQUIRED)])
def test_the_end_of_a_workflow_is_approved_if_that_is_wanted(approval: str, ends: Status) -> None:
    outcome = concluded(flow(), {"more": False}, approval=approval)
    assert (outcome.place.status, outcome.place.awaiting) == (ends, "end" if approval == "end" else None)


def test_no_branch_is_stuck_at_the_step_whose_output_has_to_choose_one() -> None:
    outcome = concluded(flow(), {"more": None})
    stuck = outcome.place.stuck
    assert stuck is not None
    assert (stuck.kind, stuck.step, stuck.reason) == (StuckKind.NO_BRANCH, "a", outcome.reason)
    assert "output.more = None" in outcome.reason
    assert outcome.route[0]["branch"] is None


@pytest.mark.parametrize(("action", "leads"), [("RETRY", Status.PENDING), ("STUCK", Status.STUCK)])
def test_nothing_is_routed_before_a_step_is_done(action: str, leads: Status) -> None:
    outcome = concluded(flow(), {"more": True}, action=action)
    assert (outcome.place.status, outcome.place.step, outcome.route) == (leads, "a", [])


@pytest.mark.parametrize(
    ("fields", "metadata", "asks"),
    [
        ({}, {"confidence": 0}, False),
        ({"confidence": 0.5}, {"confidence": 0.49}, True),
        ({"confidence": 0.5}, {"confidence": 0.5}, False),
        ({"confidence": 0.5}, {"confidence": "low"}, False),
        ({"confidence": 0.5}, None, False),
        ({"confirm": True}, None, True),
        ({"confirm": "output.more"}, None, True),
        ({"confirm": "output.more === false"}, None, False),
        ({"confirm": "output.missing"}, None, False),
        ({"confirm": "output.size > 3"}, None, False),
        ({"confirm": {"var": "output.more", "equals": True}}, None, True),
    ],
)
def test_a_steward_confirms_where_the_step_or_the_agent_wants_it(
    fields: JsonObject, metadata: JsonObject | None, asks: bool
) -> None:
    outcome = concluded(flow(**fields), {"more": True}, metadata=metadata)
    assert bool(outcome.why_unsure) is asks
    assert (outcome.place.awaiting == "review") is asks
    assert (outcome.place.step, outcome.route == []) == ("a" if asks else "b", asks)


NEEDS = "; this step requires at least 0.5"


@pytest.mark.parametrize(
    ("fields", "metadata", "why"),
    [
        ({"confidence": 0.5}, {"confidence": 0.5}, ""),
        ({"confidence": 0.5}, {"confidence": 1}, ""),
        ({"confidence": 0}, {"confidence": 0}, ""),
        ({"confidence": 0.5}, {"confidence": 0.49}, f"the agent's confidence is 0.49{NEEDS}"),
        ({"confidence": 0.5}, None, f"the answer has no confidence{NEEDS}"),
        ({"confidence": 0.5}, {"Confidence": 0.9}, f"the answer has no confidence{NEEDS}"),
        *(
            ({"confidence": 0.5}, {"confidence": value}, f"{shown}, which is not a number from 0 to 1{NEEDS}")
            for value, shown in (
                (1.5, "1.5"),
                (-1, "-1"),
                ("high", '"high"'),
                ("0.9", '"0.9"'),
                (True, "true"),
            )
        ),
        ({"confidence": 0.5}, {"confidence": [0.9]}, f"an array, which is not a number from 0 to 1{NEEDS}"),
        (
            {"confirm": "output.missing"},
            None,
            "can't evaluate whether this step requires confirmation: `output.missing` is missing",
        ),
        ({"confirm": "output.more > 3"}, None, ""),  # true counts as 1, as in JavaScript
        ({"confirm": "output.more === false"}, None, ""),
        ({"confirm": "output.more"}, None, "this step requires confirmation because `output.more` matches"),
    ],
)
def test_a_gate_that_can_not_be_judged_stays_closed(
    fields: JsonObject, metadata: JsonObject | None, why: str
) -> None:
    outcome = concluded(flow(**fields), {"more": True}, metadata=metadata, rules=TODAY)
    assert bool(outcome.why_unsure) is bool(why)
    assert why in outcome.why_unsure
    assert outcome.reason == outcome.why_unsure
    assert (outcome.place.awaiting == "review") is bool(why)


def test_the_reason_is_kept_until_the_reviewer_has_seen_the_work() -> None:
    reviewed = flow(review=True, confidence=0.5)
    done = concluded(reviewed, {"more": True}, rules=TODAY)
    assert (done.place.status, done.reason) == (Status.REVIEW_REQUIRED, "")
    before = {"unsure": True, "why_unsure": done.why_unsure, "outputs": {"a": {"more": True}}}
    seen = concluded(reviewed, phase=Phase.REVIEWER, before=before)
    assert (seen.place.awaiting, seen.reason) == ("review", f"the answer has no confidence{NEEDS}")


def test_a_reviewed_step_is_confirmed_after_its_review() -> None:
    reviewed = flow(review=True, confirm=True)
    done = concluded(reviewed, {"more": True})
    assert (done.place.status, bool(done.why_unsure), done.route) == (Status.REVIEW_REQUIRED, True, [])
    before = {"unsure": True, "outputs": {"a": {"more": True}}, "output_of": "a"}
    seen = concluded(reviewed, phase=Phase.REVIEWER, before=before)
    assert (seen.place.status, seen.place.awaiting) == (Status.APPROVAL_REQUIRED, "review")
    sure = concluded(reviewed, {"more": False}, phase=Phase.REVIEWER, before=before | {"unsure": None})
    assert (sure.place.step, sure.place.status) == ("b", Status.PENDING)  # by the output of the doer


@pytest.mark.parametrize(
    ("approval", "status"), [("each", Status.APPROVAL_REQUIRED), ("end", Status.PENDING)]
)
def test_approval_of_each_step_comes_after_its_review(approval: str, status: Status) -> None:
    before = {"outputs": {"a": {"more": True}}, "output_of": "a"}
    outcome = concluded(flow(review=True), phase=Phase.REVIEWER, before=before, approval=approval)
    assert outcome.place.status is status


def test_a_suggestion_that_is_no_text_is_none() -> None:
    assert (
        concluded(flow(), {"more": None}, metadata={"suggested_next_stage": ["b"]}).place.status
        is Status.STUCK
    )
    assert concluded(flow(), {"more": None}, metadata={"suggested_next_stage": "b"}).place.step == "b"


# --- the agent's own choice ---


def test_m25_the_steps_that_can_follow_are_those_behind_the_decisions() -> None:
    assert [each.id for each in routing.list_choices(flow(), "a")] == ["b"]
    assert routing.list_choices(flow(), "b") == []


def test_m25_decisions_after_decisions_count_and_a_circle_ends() -> None:
    nested = Workflow(
        name="w",
        steps=tuple(
            Step(id=name, name=name.upper(), step_type=StepType.DECISION if name in "DE" else StepType.TASK)
            for name in ("a", "D", "E", "b", "c")
        ),
        edges=(
            Edge(source="a", target="D"),
            Edge(source="D", target="b", condition="output.x"),
            Edge(source="D", target="E"),
            Edge(source="E", target="c", condition="output.y"),
            Edge(source="E", target="D"),
        ),
        start="a",
    )
    assert [each.id for each in routing.list_choices(nested, "a")] == ["b", "E", "c", "D"]


@pytest.mark.parametrize(
    ("suggestion", "warned"),
    [
        ("b", False),
        (" B ", False),
        (None, False),
        ("", False),
        ("zz", True),
        (7, True),
    ],
)
def test_m25_an_unknown_choice_is_a_warning(suggestion: object, warned: bool) -> None:
    told: JsonObject = {"suggested_next_stage": suggestion}
    outcome = concluded(flow(), {"more": True}, metadata=told)
    assert outcome.place.step == "b"
    warning = f"`suggested_next_stage` is {json.dumps(suggestion)}; expected one of b"
    assert (warning in outcome.response.warnings) is warned


def test_m25_where_nothing_can_be_chosen_a_choice_says_so() -> None:
    outcome = concluded(flow(), metadata={"suggested_next_stage": "a"}, before={"step": "b"})
    assert any("this step has no branches to choose from" in each for each in outcome.response.warnings)


@pytest.mark.parametrize(
    ("sections", "place"),
    [(False, "into the `metadata` of the exit command"), (True, "in the section Metadata")],
)
def test_m25_the_prompt_lists_ids_and_titles(sections: bool, place: str) -> None:
    named = flow().model_copy(
        update={"steps": tuple(each.model_copy(update={"name": f"Step {each.id}"}) for each in flow().steps)}
    )
    here = state(Status.PENDING, step="a", workflow="w")
    for phase, listed in ((Phase.DOER, True), (Phase.REVIEWER, False)):
        pieces = prompt.user_pieces(spec(workflow=named), here, phase, prompt.Given(), sections=sections)
        told = {each.source: each.text for each in pieces}
        assert ("choices" in told) is listed
        if listed:
            assert told["choices"].endswith("The possible steps are:\n\n- b: Step b")
            assert place in told["choices"]
            assert "It is used only if no condition is true." in told["choices"]
    other = state(Status.PENDING, step="b", workflow="w")
    pieces = prompt.user_pieces(spec(workflow=named), other, Phase.DOER, prompt.Given())
    assert "choices" not in {each.source for each in pieces}
