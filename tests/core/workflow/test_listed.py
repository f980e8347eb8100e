"""Lists of steps: what each spelling and each order of steps means."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.model import END, Step, Workflow
from logist.core.workflow.listed import read_step_list
from logist.core.workflow.places import Read
from logist.core.workflow.written import dump_step


def read(*steps: Any, **top: Any) -> Read:
    return read_step_list({"name": "W", **top, "steps": list(steps)}, {}, "file")


def flow(*steps: Any, **top: Any) -> Workflow:
    found = read(*steps, **top)
    assert found.workflow is not None
    return found.workflow


def edges(workflow: Workflow) -> list[tuple[str, str, Any]]:
    return [(edge.source, edge.target, edge.condition) for edge in workflow.edges]


def errors(found: Read) -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in found.problems if problem.severity == "error"]


def one(**fields: Any) -> Step:
    return flow({"id": "a", **fields}).steps[0]


ORDERS: dict[str, tuple[list[Any], list[tuple[str, str, Any]]]] = {
    "one after the other": ([{"id": "a"}, {"id": "b"}, {"id": "c"}], [("a", "b", None), ("b", "c", None)]),
    "another next": (
        [{"id": "a", "next": "c"}, {"id": "b"}, {"id": "c"}],
        [("a", "c", None), ("b", "c", None)],
    ),
    "null is the end": ([{"id": "a", "next": None}, {"id": "b"}], []),
    "so is an empty list": ([{"id": "a", "next": []}, {"id": "b"}], []),
    "and the word": ([{"id": "a", "next": "end"}, {"id": "b"}], []),
    "unless a step has that id": (
        [{"id": "a", "next": "end"}, {"id": "b"}, {"id": "end"}],
        [("a", "end", None), ("b", "end", None)],
    ),
    "a list of one": ([{"id": "a", "next": ["c"]}, {"id": "c"}], [("a", "c", None)]),
    "a decision goes only where it says, its default last": (
        [
            {
                "id": "a",
                "stepType": "decision",
                "branches": [{"condition": None, "to": "b"}, {"condition": "output.x", "to": "end"}],
            },
            {"id": "b"},
        ],
        [("a", END, "output.x"), ("a", "b", None)],
    ),
}


@pytest.mark.parametrize(("steps", "wanted"), ORDERS.values(), ids=ORDERS)
def test_where_a_step_goes_on(steps: list[Any], wanted: list[tuple[str, str, Any]]) -> None:
    assert edges(flow(*steps)) == wanted


STARTS: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "the first": ([{"id": "a"}, {"id": "b"}], {}, "a"),
    "also if another leads to it": ([{"id": "a"}, {"id": "b", "next": "a"}], {}, "a"),
    "the one that is named": ([{"id": "a"}, {"id": "b"}], {"start": "b"}, "b"),
    "the one that says it": ([{"id": "a"}, {"id": "b", "start": True}], {}, "b"),
}


@pytest.mark.parametrize(("steps", "top", "wanted"), STARTS.values(), ids=STARTS)
def test_where_a_workflow_begins(steps: list[Any], top: dict[str, Any], wanted: str) -> None:
    assert flow(*steps, **top).start == wanted


SPELLINGS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "camel": ({"agentRole": "Be brief, please."}, "agent_role", "Be brief, please."),
    "snake": ({"agent_role": "Be brief, please."}, "agent_role", "Be brief, please."),
    "title": ({"title": "Look"}, "name", "Look"),
    "assignee": ({"defaultAssigneeId": "Worker"}, "role", "Worker"),
    "runCondition": ({"runCondition": {"var": "x"}, "stepType": "task"}, "when", {"var": "x"}),
    "requireConfirmation": ({"require_confirmation": True, "stepType": "task"}, "confirm", True),
    "flow": ({"stepType": "flow", "subflowId": "x"}, "step_type", "subflow"),
    "type as a step type": ({"type": "join"}, "step_type", "join"),
    "type as an execution": ({"type": "manual"}, "execution", "manual"),
    "both": ({"type": "manual", "execution": "automated"}, "execution", "automated"),
    "input mapping, turned": (
        {"stepType": "subflow", "subflowId": "x", "inputMapping": {"output.a": "b"}},
        "input_mapping",
        {"b": "output.a"},
    ),
    "what is not known is kept": (
        {"hitlPhase": "x", "config": {"a": 1}},
        "config",
        {"hitlPhase": "x", "config": {"a": 1}},
    ),
    "no name": ({}, "name", "a"),
    "10 characters": ({"agentRole": "ä" * 10}, "agent_role", "ä" * 10),
    "1024 characters": ({"agentRole": "ä" * 1024}, "agent_role", "ä" * 1024),
}


@pytest.mark.parametrize(("fields", "name", "value"), SPELLINGS.values(), ids=SPELLINGS)
def test_what_a_field_means(fields: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(one(**fields), name) == value


ROLES: dict[str, Any] = {
    "9 characters": "ä" * 9,
    "1025 characters": "ä" * 1025,
    "empty": "",
    "a number": 12345678901,
    "a list": ["be", "kind"],
    "null": None,
}


@pytest.mark.parametrize("foreign", [False, True], ids=["our own", "foreign"])
@pytest.mark.parametrize("role", ROLES.values(), ids=ROLES)
def test_an_agent_role_is_strict_in_every_format_and_its_text_is_never_shown(
    role: Any, foreign: bool
) -> None:
    top: dict[str, Any] = {"metaGuidance": []} if foreign else {}
    found = read({"id": "x"}, {"id": "y"}, {"id": "z", "agentRole": role}, **top)
    assert [path for _, path in errors(found)] == ["steps[2].agentRole"]
    assert found.is_broken
    shown = " ".join(problem.message for problem in found.problems)
    assert not (isinstance(role, str) and role and role in shown)


def test_an_unknown_key_gets_the_one_that_was_meant() -> None:
    found = read({"id": "a", "agentrole": "Be brief, please."})
    assert [(problem.code, problem.fix) for problem in found.problems] == [
        ("unknown_field", "did you mean `agentRole` or `role`?")
    ]


def test_one_wrong_field_hides_no_other() -> None:
    found = read(
        {"id": "a", "review": "yes", "confidence": 2, "next": "nowhere"},
        {"id": "b", "itemsPath": "output.x"},
        {"id": "b"},
    )
    assert errors(found) == [
        ("invalid", "steps[0].review"),
        ("invalid", "steps[0].confidence"),
        ("other_type", "steps[1].itemsPath"),
        ("duplicate_id", "steps[2]"),
    ]


OTHER_TYPE = {
    "execution": ("join", "manual"),
    "branches": ("task", []),
    "defaultBranch": ("task", "a"),
    "maxVisits": ("foreach", 2),
    "itemsPath": ("task", "output.x"),
    "itemVariable": ("join", "x"),
    "maxItems": ("task", 2),
    "minSuccessPercent": ("task", 50),
    "awaitTag": ("task", "x"),
    "subflowId": ("task", "x"),
    "inputMapping": ("join", {}),
    "external": ("decision", True),
}


@pytest.mark.parametrize(("field", "kind", "value"), [(name, *told) for name, told in OTHER_TYPE.items()])
def test_a_field_of_another_type_is_an_error(field: str, kind: str, value: Any) -> None:
    assert errors(read({"id": "a", "stepType": kind, field: value})) == [("other_type", f"steps[0].{field}")]


def test_what_is_written_of_a_step_reads_back_to_it() -> None:
    step = one(
        name="All of it",
        stepType="foreach",
        prompt="p",
        agentRole="Be brief, please.",
        guidance=["a", "b"],
        role="Worker",
        review=True,
        reviewRole="Supervisor",
        confirm={"var": "x"},
        itemsPath="output.x",
        itemVariable="file",
        maxItems=7,
        minSuccessPercent=12.5,
        subflowId="other",
        inputMapping={"output.a": "b"},
        responseFormat="sections",
        confidence=0.5,
        when="output.y",
        description="for readers",
        config={"a": 1},
        more=[1, {"b": None}],
    )
    assert one(**dump_step(step)) == step
    assert (dump_step(step)["description"], "kept" in dump_step(step)) == ("for readers", False)


def test_what_was_kept_under_a_name_of_ours_reads_back_too() -> None:
    step = flow(
        {"id": "a", "title": "A", "type": "parallel", "confidence": "high", "kept": 3}, tags=[]
    ).steps[0]
    assert step.config == {"type": "parallel", "confidence": "high", "kept": 3}
    assert one(**dump_step(step)).config == step.config


def test_too_many_steps_are_not_read() -> None:
    found = read(*({"id": f"s{number}"} for number in range(10_001)))
    assert (found.workflow, [problem.code for problem in found.problems]) == (None, ["too_large"])
