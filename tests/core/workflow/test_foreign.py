"""Workflows of agent-guidance servers as graphs of ours."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.model import END, Step, Workflow
from logist.core.workflow.following import find_next_step
from logist.core.workflow.foreign import is_foreign
from logist.core.workflow.listed import read_step_list


def flow(*steps: dict[str, Any]) -> Workflow:
    data = {"name": "W", "metaGuidance": [], "steps": list(steps)}
    found = read_step_list(data, {}, "w")
    assert found.workflow is not None
    assert not found.is_broken, found.problems
    return found.workflow


def step(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "title": name.upper(), "prompt": f"Do {name}.", **more}


def loop(body: Any, **told: Any) -> dict[str, Any]:
    return {"id": "l", "type": "loop", "title": "L", "loop": {"maxIterations": 4, **told}, "body": body}


def edges(workflow: Workflow) -> list[tuple[str, str, Any]]:
    return [(edge.source, edge.target, edge.condition) for edge in workflow.edges]


OPEN = {"var": "open", "gt": 0}
ARTIFACT = {"kind": "artifact_contract", "contractRef": "x", "loopId": "l"}
GOES_ON = {"var": "output.decision", "equals": "continue"}
LOOPS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str, Any]], str, int | None]] = {
    "while, between two steps": (
        [step("a"), loop([step("x"), step("y")], type="while", condition=OPEN), step("b")],
        [("x", "y", None), ("y", "l", None), ("l", "x", OPEN), ("a", "l", None), ("l", "b", None)],
        "a",
        4,
    ),
    "while, first and last": (
        [loop([step("x")], type="while", condition=OPEN)],
        [("x", "l", None), ("l", "x", OPEN), ("l", END, None)],
        "l",
        4,
    ),
    "until": (
        [loop([step("x")], type="until", condition=OPEN)],
        [("x", "l", None), ("l", "x", {"unless": OPEN}), ("l", END, None)],
        "l",
        4,
    ),
    "for": (
        [loop([step("x")], type="for", count=3)],
        [("x", "l", None), ("l", "x", True), ("l", END, None)],
        "l",
        3,
    ),
    "for a variable": (
        [loop([step("x")], type="for", count="tries")],
        [("x", "l", None), ("l", "x", True), ("l", END, None)],
        "l",
        4,
    ),
    "a condition from its source": (
        [loop([step("x")], type="while", conditionSource={"kind": "context_variable", "condition": OPEN})],
        [("x", "l", None), ("l", "x", OPEN), ("l", END, None)],
        "l",
        4,
    ),
    "ended by an agent: asked after the first round": (
        [loop([step("x"), step("y")], type="while", conditionSource=ARTIFACT), step("b")],
        [("x", "y", None), ("y", "l", None), ("l", "x", GOES_ON), ("l", "b", None)],
        "x",
        3,
    ),
    "ended by an agent, one round": (
        [loop([step("x")], type="while", conditionSource=ARTIFACT, maxIterations=1)],
        [("x", "l", None), ("l", END, None)],
        "x",
        None,
    ),
    "the body is another step": (
        [loop("x", type="while", condition=OPEN), step("x"), step("b")],
        [("x", "l", None), ("l", "x", OPEN), ("l", "b", None)],
        "l",
        4,
    ),
    "a loop in a loop": (
        [
            loop(
                [step("x"), {**loop([step("y")], type="for", count=2), "id": "inner"}],
                type="while",
                condition=OPEN,
            )
        ],
        [
            ("y", "inner", None),
            ("inner", "y", True),
            ("x", "inner", None),
            ("inner", "l", None),
            ("l", "x", OPEN),
            ("l", END, None),
        ],
        "l",
        4,
    ),
}


@pytest.mark.parametrize(("steps", "wanted", "start", "visits"), LOOPS.values(), ids=LOOPS)
def test_a_loop_is_a_decision_with_a_way_back(
    steps: list[dict[str, Any]], wanted: list[tuple[str, str, Any]], start: str, visits: int | None
) -> None:
    workflow = flow(*steps)
    assert edges(workflow) == wanted
    assert workflow.start == start
    decision = workflow.find_step("l")
    assert decision is not None
    assert (decision.step_type, decision.max_visits) == ("decision", visits)


def test_a_loop_over_items_is_a_foreach_done_by_a_workflow_of_its_body() -> None:
    workflow = flow(
        step("a"), loop([step("x"), step("y")], type="forEach", items="parts", itemVar="part"), step("b")
    )
    each = workflow.find_step("l")
    assert each is not None
    assert (each.step_type, each.items_path, each.item_variable, each.max_items, each.subflow) == (
        "foreach",
        "input.parts",
        "part",
        4,
        "W#l",
    )
    assert edges(workflow) == [("a", "l", None), ("l", "b", None)]
    inner = workflow.subflows["W#l"]
    assert ([one.id for one in inner.steps], edges(inner)) == (["x", "y"], [("x", "y", None)])
    assert inner.foreign


def test_items_of_a_step_are_looked_for_there() -> None:
    each = flow(loop([step("x")], type="forEach", items="steps.a.output.parts")).find_step("l")
    assert each is not None
    assert (each.items_path, each.item_variable) == ("steps.a.output.parts", "currentItem")


def one(**more: Any) -> Step:
    return flow(step("a", **more)).steps[0]


FIELDS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "title": ({}, "name", "A"),
    "confirmed": ({"requireConfirmation": True}, "confirm", True),
    "not confirmed": ({"requireConfirmation": False}, "confirm", False),
    "confirmed on a condition": ({"requireConfirmation": OPEN}, "confirm", OPEN),
    "by a person": ({"requireConfirmation": {"kind": "human_approval"}}, "confirm", True),
    "by a person on a condition": (
        {"requireConfirmation": {"kind": "human_approval", "condition": OPEN}},
        "confirm",
        OPEN,
    ),
    "on a condition without a kind": ({"requireConfirmation": {"condition": OPEN}}, "confirm", OPEN),
    "by a program": ({"requireConfirmation": {"kind": "coordinator_eval"}}, "review", True),
    "runCondition": ({"runCondition": OPEN}, "when", OPEN),
    "an agent role": ({"agentRole": "Be brief, please."}, "agent_role", "Be brief, please."),
    "unknown keys": ({"askForFiles": True, "x": {"y": 1}}, "config", {"askForFiles": True, "x": {"y": 1}}),
    "a flag that is an object": ({"review": {"deep": True}}, "config", {"review": {"deep": True}}),
    "a prompt in blocks": (
        {
            "prompt": "",
            "promptBlocks": {"verify": ["so"], "goal": "This.", "constraints": [["a ", {"text": "b"}]]},
        },
        "prompt",
        "## Goal\nThis.\n\n## Constraints\n- a b\n\n## Verify\n- so",
    ),
    "blocks beside a prompt": ({"promptBlocks": {"goal": "x"}}, "prompt", "Do a."),
    "no prompt at all": ({"prompt": None}, "prompt", ""),
}


@pytest.mark.parametrize(("fields", "name", "value"), FIELDS.values(), ids=FIELDS)
def test_what_a_field_means(fields: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(one(**fields), name) == value


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ({"steps": [{"id": "a", "title": "A"}]}, True),
        ({"steps": [{"id": "a"}], "preconditions": []}, True),
        ({"steps": [{"id": "a", "name": "A"}]}, False),
        ({"steps": [{"id": "a", "title": "A", "stepType": "task"}]}, False),
        ({"steps": [{"id": "a", "title": "A", "next": "end"}], "metaGuidance": []}, False),
        ({"steps": ["a"]}, False),
    ],
)
def test_one_word_of_ours_makes_a_list_our_own(data: dict[str, Any], wanted: bool) -> None:
    assert is_foreign(data) is wanted


def test_a_loop_of_which_all_is_passed_over_ends() -> None:
    workflow = flow(loop([step("x", runCondition=OPEN)], type="for", count=3), step("b"))
    assert find_next_step(workflow, [], {"open": 0})["step"]["id"] == "b"
    assert find_next_step(workflow, ["x", "x"], {"open": 1})["step"]["id"] == "x"
    assert find_next_step(workflow, ["x", "x", "x"], {"open": 1})["step"]["id"] == "b"


@pytest.mark.parametrize("body", [None, [], 3])
def test_a_loop_that_cannot_be_followed_is_a_step_like_others(body: Any) -> None:
    found = flow({**loop(body, type="while", condition=OPEN), "prompt": "x"})
    assert [one.step_type for one in found.steps] == ["task"]
    assert found.steps[0].config["type"] == "loop"
