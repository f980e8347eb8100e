"""What templates and conditions may look at."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.model import Step, StepStart, Workflow
from logist.core.template import data
from tests.core.builders import spec, state


def test_before_anything_was_done() -> None:
    found = data.build_step_data(spec(title="T", tags=("a", "b"), input={"pr": 7}), None)
    assert found == {
        "pr": 7,
        "title": "T",
        "prompt": "Write hello.txt.",
        "description": None,
        "acceptance_criteria": [],
        "task_type": None,
        "tags": ["a", "b"],
        "input": {"pr": 7},
        "output": None,
        "steps": {},
    }


@pytest.mark.parametrize(
    ("given", "output", "overlaid"),
    [
        ({"a": 1, "b": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, [1], {"a": 1}),
        ({"a": 1}, None, {"a": 1}),
        (None, {"b": 2}, {"b": 2}),
        (None, "text", {}),
        ([1], {"b": 2}, {"b": 2}),
        ([1], "text", [1]),
        ("x", None, "x"),
    ],
)
def test_the_last_output_is_laid_over_the_input(given: Any, output: Any, overlaid: Any) -> None:
    found = data.build_step_data(spec(input=given), state(outputs={"s": output}, output_of="s"))
    assert (found["input"], found["output"]) == (overlaid, output)


def test_the_output_of_a_step_that_has_just_ended_is_the_last() -> None:
    before = state(outputs={"a": 1, "b": 2}, output_of="b")
    found = data.build_data_after_step(spec(), before, "a", {"n": 3})
    assert (found["output"], found["steps"]) == ({"n": 3}, {"a": {"output": {"n": 3}}, "b": {"output": 2}})
    assert data.build_data_after_step(spec(), before, "c", None)["output"] is None
    assert data.build_data_after_step(spec(), before, "c")["output"] == 2
    assert before.outputs == {"a": 1, "b": 2}


def test_the_data_of_a_step_with_its_own_output_are_those_that_it_began_with() -> None:
    starts = {"a": StepStart(), "b": StepStart(output_of="a"), "c": StepStart(output_of="c", own_output=3)}
    before = state(step="b", outputs={"a": 1, "b": 2, "c": 4}, output_of="b", step_starts=starts)
    one = spec(input={"i": 0})
    assert [data.build_step_data(one, before, step)["output"] for step in ("", "b", "a", "c", "d")] == [
        *(1, 1, None, 3, 2)
    ]
    assert data.build_step_data(one, before)["steps"]["b"] == {"output": 2}
    assert data.build_data_after_step(one, before, "b")["output"] == 2


def test_variables_of_other_programs_are_as_they_were_when_the_step_began() -> None:
    flow = Workflow(name="w", steps=(Step(id="a", name="a"), Step(id="b", name="b")), start="a", foreign=True)
    outputs = {"a": {"x": 1, "y": 1}, "b": {"y": 2}}
    before = state(step="b", outputs=outputs, output_of="b", step_starts={"b": StepStart(output_of="a")})
    assert data.build_step_data(spec(workflow=flow), before)["input"] == {"x": 1, "y": 1}
    assert data.build_data_after_step(spec(workflow=flow), before, "b")["input"] == {"x": 1, "y": 2}


def test_results_of_children_are_in_their_order() -> None:
    assert data.build_step_data(spec(), state(results=[1, {"x": 2}]))["aggregatedResults"] == [
        {"output": 1},
        {"output": {"x": 2}},
    ]
    assert data.build_data_after_step(spec(), state(results=[1]), "s", [2], [2])["aggregatedResults"] == [
        {"output": 2}
    ]
    assert data.build_step_data(spec(), state(results=[]))["aggregatedResults"] == []
    assert "aggregatedResults" not in data.build_step_data(spec(), state())


def test_names_that_mean_something_are_not_hidden_by_the_input() -> None:
    given = {"title": "other", "output": 1, "steps": 2, "input": 3, "parentId": "x", "item": 4}
    found = data.build_step_data(spec(title="T", input=given, parent="p"), None)
    assert (found["title"], found["output"], found["steps"], found["parentId"], found["item"]) == (
        "T",
        None,
        {},
        "p",
        4,
    )
    assert found["input"] == given
