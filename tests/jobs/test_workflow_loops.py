"""Whole jobs through the loops of agent-guidance servers: the names that a loop sets, and when it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Kind, Status
from logist.core.replay.replay import find_differences
from logist.workflows.reading import read_workflow_file
from tests.jobs.bench import Bench, Json, gave
from tests.jobs.conftest import MakeBench


def step(name: str, prompt: str = "", **more: Any) -> Json:
    return {"id": name, "title": name, "prompt": prompt or f"Do {name}.", **more}


def loop(name: str, body: list[Json], **fields: Any) -> Json:
    return {"id": name, "type": "loop", "title": name, "loop": fields, "body": body}


def prompts(b: Bench, job_id: str = "j") -> list[tuple[str, str]]:
    """The steps that an agent did, each with the last line of the workflow's own prompt for it."""
    asked = [entry for entry in b.history(job_id) if entry.kind is Kind.ASK]
    return [(str(entry.step), own_line(entry.request.prompt)) for entry in asked]


def own_line(prompt: str) -> str:
    return next((line for line in prompt.splitlines() if line.startswith("Now ")), "")


def run(b: Bench, tmp_path: Path, steps: list[Json], answers: dict[str, list[Json]], **more: Any) -> Status:
    path = tmp_path / "loops.json"
    path.write_text(json.dumps({"name": "Loops", "metaGuidance": [], "steps": steps}))
    b.follow(path, steps=answers, **more)
    b.run()
    return b.state().status


def test_steps_of_a_loop_know_the_number_of_the_round(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    body = [
        step("first", "Now round {{n}} ({{currentIteration}}).", runCondition={"var": "n", "equals": 1}),
        step("each", "Now each {{n}}."),
        step("later", "Now later {{n}}.", runCondition={"var": "currentIteration", "gte": 2}),
    ]
    steps = [step("begin"), loop("l", body, type="for", count=3, iterationVar="n"), step("last")]
    answers = {name: [gave()] * 3 for name in ("begin", "first", "each", "later", "last")}
    assert run(b, tmp_path, steps, answers) is Status.SUCCESS
    assert prompts(b) == [
        ("begin", ""),
        ("first", "Now round 1 (1)."),
        ("each", "Now each 1."),
        ("each", "Now each 2."),
        ("later", "Now later 2."),
        ("each", "Now each 3."),
        ("later", "Now later 3."),
        ("last", ""),
    ]
    assert not list(find_differences(b.history(), b.project.schema))


def test_a_loop_within_a_loop_starts_over_and_keeps_the_number_of_the_outer_one(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = bench()
    inner = loop(
        "in", [step("x", "Now {{n}}.{{m}} {{currentIteration}}")], type="for", count=2, iterationVar="m"
    )
    steps = [loop("out", [inner], type="for", count=2, iterationVar="n")]
    assert run(b, tmp_path, steps, {"x": [gave()] * 4}) is Status.SUCCESS
    assert [line for _, line in prompts(b)] == ["Now 1.1 1", "Now 1.2 2", "Now 2.1 1", "Now 2.2 2"]


def test_a_loop_that_an_agent_ends_counts_the_round_before_its_first_question(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = bench()
    source = {"kind": "artifact_contract", "contractRef": "loop_control", "loopId": "l"}
    steps = [loop("l", [step("x", "Now {{n}}.")], type="while", conditionSource=source, iterationVar="n")]
    answers = {"x": [gave({"decision": "continue"}), gave({"decision": "stop"})]}
    assert run(b, tmp_path, steps, answers) is Status.SUCCESS
    assert [line for _, line in prompts(b)] == ["Now 1.", "Now 2."]


def test_the_items_of_a_loop_know_their_index_and_their_number(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    body = [
        step("one", "Now {{part}}, {{partIndex}}, {{n}}."),
        step("two", "Now second {{part}}.", runCondition={"var": "partIndex", "equals": 1}),
    ]
    each = loop(
        "l", body, type="forEach", items="parts", itemVar="part", indexVar="partIndex", iterationVar="n"
    )
    answers = {"one": [gave()] * 2, "two": [gave()]}
    assert run(b, tmp_path, [each], answers, input={"parts": ["a", "b"]}) is Status.SUCCESS
    first, second = b.children()
    assert prompts(b, first) == [("one", "Now a, 0, 1.")]
    assert prompts(b, second) == [("one", "Now b, 1, 2."), ("two", "Now second b.")]


INNER = """\
name: inner
steps:
  - {id: x, prompt: "Now round {{n}}, {{input.n}}."}
  - {id: y, prompt: "Now later.", when: n >= 2}
"""
OUTER = """\
name: outer
steps:
  - {id: part, stepType: subflow, subflowId: inner.yaml, rounds: {n: again}, MAPPING}
  - id: again
    stepType: decision
    asksAfter: true
    maxVisits: 1
    branches: [{condition: true, targetStepId: part}, {targetStepId: end}]
"""


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        ("", (1, 2)),
        ("inputMapping: {input.about: about}", (1, 2)),
        ("inputMapping: {input.about: n}", (7, 7)),
    ],
)
def test_a_subflow_in_a_loop_knows_the_number_of_the_round(
    bench: MakeBench, tmp_path: Path, mapping: str, told: tuple[int, int]
) -> None:
    b = bench()
    (tmp_path / "inner.yaml").write_text(INNER, "utf-8")
    (tmp_path / "outer.yaml").write_text(
        OUTER.replace(", MAPPING", f", {mapping}" if mapping else ""), "utf-8"
    )
    b.follow(tmp_path / "outer.yaml", steps={"x": [gave()] * 2, "y": [gave()] * 2}, input={"about": 7})
    b.run()
    assert b.state().status is Status.SUCCESS
    first, second = b.children()
    one, two = told
    later = [("y", "Now later.")]
    assert prompts(b, first) == [("x", f"Now round {one}, {one}."), *(later if one >= 2 else [])]
    assert prompts(b, second) == [("x", f"Now round {two}, {two}."), *later]
    assert not list(find_differences(b.history(), b.project.schema))


def test_until_goes_on_while_its_condition_cannot_be_judged(bench: MakeBench, tmp_path: Path) -> None:
    for number, condition in enumerate(
        (
            {"var": "score", "gte": 3},
            {"or": [{"var": "score", "gte": 3}, {"var": "notes", "contains": "done"}]},
            {"not": {"not": {"var": "score", "gte": 3}}},
        )
    ):
        b = bench()
        steps = [loop("l", [step("x")], type="until", condition=condition, maxIterations=5), step("last")]
        place = tmp_path / str(number)
        place.mkdir()
        answers = {"x": [gave(), gave({"score": 1}), gave({"score": 3})], "last": [gave()]}
        assert run(b, place, steps, answers) is Status.SUCCESS
        assert [name for name, _ in prompts(b)] == ["x", "x", "x", "last"]
        assert not list(find_differences(b.history(), b.project.schema))


def test_a_loop_field_without_a_counterpart_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    body = [step("x")]
    unset = {"var": "n", "equals": 1}
    steps = [
        loop("l", body, type="for", count=2, iterationVar="n", resultVar="r"),
        loop("m", [step("y")], type="for", count=2, iterationVar="prompt"),
        step("z", runCondition=unset),
    ]
    path.write_text(json.dumps({"name": "W", "metaGuidance": [], "steps": steps}))
    warnings = [found.message for found in read_workflow_file(path)[0].problems if found.code == "loop"]
    assert warnings == [
        "unknown field `resultVar` of the loop: it is kept but has no effect",
        '`iterationVar` can\'t be "prompt": the variable is called `currentIteration` instead',
        "a condition of `z` reads `n`, which a loop sets only for its own steps",
    ]
