"""`logist workflow next`: the protocol of agents that follow a workflow by themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.desk import Desk
from tests.support import ROOT, Ran

PR_REVIEW = str(ROOT / "fixtures" / "workflows" / "files" / "positive" / "pr-review.mmd")
ROLE = "Act as a technical architect and guide the user."
FLOW = {
    "name": "Feature",
    "steps": [
        {
            "id": "one",
            "name": "Example Step",
            "prompt": "Tell what it should do.",
            "agentRole": ROLE,
            "guidance": ["ask", "wait"],
        },
        {"id": "two", "prompt": "Plan it."},
        {"id": "bare"},
    ],
}


@pytest.fixture
def file(desk: Desk) -> str:
    (desk.place / "flow.json").write_text(json.dumps(FLOW), "utf-8")
    return "flow.json"


def asked(desk: Desk, *args: str) -> Ran:
    return desk("workflow", "next", *args)


def step_of(ran: Ran) -> Any:
    return ran.json["step"]


def test_it_returns_exactly_the_step_what_an_agent_gets_and_whether_it_is_over(desk: Desk, file: str) -> None:
    ran = asked(desk, file, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json == {
        "step": {
            "id": "one",
            "title": "Example Step",
            "prompt": "Tell what it should do.",
            "agentRole": ROLE,
            "guidance": ["ask", "wait"],
        },
        "guidance": {
            "prompt": f"## Agent Role\n{ROLE}\n\n## Step Guidance\n- ask\n- wait\n\nTell what it should do."
        },
        "isComplete": False,
    }


LOOP = {
    "name": "loop",
    "steps": [
        {"id": "part", "stepType": "subflow", "subflowId": "inner.json", "rounds": {"n": "again"}},
        {
            "id": "again",
            "stepType": "decision",
            "asksAfter": True,
            "maxVisits": 1,
            "branches": [{"condition": True, "targetStepId": "part"}, {"targetStepId": "end"}],
        },
    ],
}
INNER = {"name": "inner", "steps": [{"id": "x"}, {"id": "later", "when": "n >= 2"}]}


def test_a_subflow_in_a_loop_knows_the_number_of_the_round(desk: Desk) -> None:
    (desk.place / "loop.json").write_text(json.dumps(LOOP), "utf-8")
    (desk.place / "inner.json").write_text(json.dumps(INNER), "utf-8")
    second = asked(desk, "loop.json", "--completed", "x", "--completed", "x", "--json")
    assert step_of(second)["id"] == "later"


@pytest.mark.parametrize(
    "done",
    [["--completed", "one"], ["--completed=one"]],
    ids=" ".join,
)
def test_what_a_step_has_not_is_not_there(desk: Desk, file: str, done: list[str]) -> None:
    assert asked(desk, file, *done, "--json").json == {
        "step": {"id": "two", "title": "two", "prompt": "Plan it.", "guidance": []},
        "guidance": {"prompt": "Plan it."},
        "isComplete": False,
    }


@pytest.mark.parametrize(
    "done",
    [
        ["--completed", "one", "two", "bare"],
        ["--completed", "one", "--completed", "two", "--completed", "bare"],
        ["--completed", "bare", "two", "--json", "one"],
    ],
    ids=" ".join,
)
def test_after_the_last_step_it_is_complete(desk: Desk, file: str, done: list[str]) -> None:
    found = asked(desk, file, *done, "--json").json
    assert (found["step"], found["isComplete"]) == (None, True)
    if "--json" not in done:
        assert asked(desk, file, *done) == (0, "Workflow complete.\n", "")


def test_a_person_gets_title_guidance_and_prompt_and_the_next_command(desk: Desk, file: str) -> None:
    assert asked(desk, file).out == (
        "one  Example Step\n\n  - ask\n  - wait\n\n  Tell what it should do.\n\n"
        "when the step is done, run: logist workflow next flow.json --completed one\n"
    )
    assert asked(desk, file, "--completed", "one", "two").out == (
        "bare\n\nwhen the step is done, run: logist workflow next flow.json --completed one two bare\n"
    )


@pytest.mark.parametrize(
    ("done", "context", "step"),
    [
        ("", {}, "A"),
        ("A B C D", {"output": {"score": 90}}, "F"),
        ("A B C D", {"score": 90}, "F"),
        ("A B C D", {"output": {"score": 60}}, "G"),
        ("A B C D", {"output": {"score": 10}}, "H"),
        ("A B C D F", {"output": {"score": 90}}, "I"),
        ("A B C D F I", {"output": {"score": 90}}, None),
        ("A B C D H", {"output": {"score": 1}}, "K"),
        ("A B C D H", {"output": {"score": 1, "shouldRetry": True}}, "A"),
        ("A B C D H A", {"output": {"score": 1, "shouldRetry": True}}, "B"),
    ],
)
def test_the_branches_of_the_review_are_taken_by_what_is_known(
    desk: Desk, done: str, context: dict[str, Any], step: str | None
) -> None:
    args = ["--completed", *done.split()] if done else []
    ran = asked(desk, PR_REVIEW, *args, "--context", json.dumps(context), "--json")
    assert (ran.code, ran.err) == (0, "")
    assert (step_of(ran) or {"id": None})["id"] == step


def test_the_context_may_come_from_standard_input(desk: Desk) -> None:
    args = ["--completed", "A", "B", "C", "D", "--context", "-", "--json"]
    ran = desk("workflow", "next", PR_REVIEW, *args, stdin='{"score": 60}')
    assert step_of(ran)["id"] == "G"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--completed", "onne"], 2, "`onne` is not a step of `Feature` (did you mean `one`?)"),
        (["--completed", "x"], 2, "`x` is not a step of `Feature` (known: bare, one, two)"),
        (["one"], 2, "unexpected argument `one` (put --completed before completed steps)"),
        (["--context", "{"], 2, "--context: 1:2: invalid JSON: "),
        (["--context", "[1]"], 2, "--context: 1: must be a mapping"),
        (["--context", '{"a": NaN}'], 2, "`a` must be a finite number"),
        (["--context", "[" * 100_000], 2, "nested more than 64 levels deep"),
        (["--context"], 2, "requires an argument"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_is_told_as_by_every_command(
    desk: Desk, file: str, args: list[str], code: int, message: str
) -> None:
    ran = asked(desk, file, *args)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    document = asked(desk, "flow.json", "--json", *args).json
    assert document["data"] is None
    assert [found["severity"] for found in document["diagnostics"]] == ["error"]


def test_a_decision_that_nobody_can_take_is_refused(desk: Desk) -> None:
    (desk.place / "w.mmd").write_text("graph TD\nA{Which?} -->|output.a| B\nA -->|output.b| C\n", "utf-8")
    ran = asked(desk, "w.mmd", "--json")
    assert (ran.code, ran.json["data"]) == (8, None)
    assert "no condition of `A` is true: `output.a`; `output.b`" in ran.json["diagnostics"][0]["message"]
