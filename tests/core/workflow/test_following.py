"""The next step for an agent that follows a workflow by itself."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.workflow.following import find_next_step
from logist.core.workflow.listed import read_step_list
from logist.errors import InvalidFile, Refused, UsageError

LINE: dict[str, Any] = {
    "name": "Line",
    "steps": [
        {"id": "a", "name": "First", "prompt": "Do a.", "agentRole": "Be brief and kind.", "guidance": ["x"]},
        {"id": "b", "prompt": "Do b.", "when": {"var": "size", "equals": "large"}},
        {"id": "c", "prompt": "Do c."},
    ],
}
FORK: dict[str, Any] = {
    "name": "Fork",
    "steps": [
        {"id": "a", "prompt": "Do a."},
        {
            "id": "d",
            "stepType": "decision",
            "maxVisits": 2,
            "branches": [
                {"condition": "output.score >= 80", "to": "good"},
                {"condition": "output.again", "to": "a"},
            ],
            "defaultBranch": "bad",
        },
        {"id": "good", "prompt": "Keep it.", "next": "end"},
        {"id": "bad", "prompt": "Drop it."},
    ],
}
LOOPS: dict[str, Any] = {
    "name": "Loops",
    "metaGuidance": [],
    "steps": [
        {
            "id": "each",
            "type": "loop",
            "title": "Each",
            "loop": {"type": "forEach", "items": "parts", "maxIterations": 3},
            "body": [{"id": "x", "title": "X", "prompt": "x"}, {"id": "y", "title": "Y", "prompt": "y"}],
        },
        {
            "id": "while",
            "type": "loop",
            "title": "While",
            "loop": {"type": "while", "condition": {"var": "open", "gt": 0}, "maxIterations": 2},
            "body": [{"id": "z", "title": "Z", "prompt": "z"}],
        },
        {"id": "last", "title": "Last", "prompt": "last"},
    ],
}
COUNTED: dict[str, Any] = {
    "name": "Counted",
    "metaGuidance": [],
    "steps": [
        {"id": "begin", "title": "Begin", "prompt": "b"},
        {
            "id": "l",
            "type": "loop",
            "title": "L",
            "loop": {"type": "for", "count": 2, "iterationVar": "n"},
            "body": [
                {"id": "one", "title": "1", "prompt": "1", "runCondition": {"var": "n", "equals": 1}},
                {"id": "two", "title": "2", "prompt": "2", "runCondition": {"var": "n", "equals": 2}},
            ],
        },
        {
            "id": "u",
            "type": "loop",
            "title": "U",
            "loop": {"type": "until", "condition": {"var": "score", "gte": 3}, "maxIterations": 2},
            "body": [{"id": "try", "title": "T", "prompt": "t"}],
        },
    ],
}
ITEMS: dict[str, Any] = {
    "name": "Items",
    "metaGuidance": [],
    "steps": [
        {
            "id": "each",
            "type": "loop",
            "title": "Each",
            "loop": {"type": "forEach", "items": "parts", "indexVar": "i"},
            "body": [
                {"id": "x", "title": "X", "prompt": "x"},
                {"id": "second", "title": "Y", "prompt": "y", "runCondition": {"var": "i", "equals": 1}},
            ],
        }
    ],
}


def flow(data: dict[str, Any]) -> Any:
    workflow = read_step_list(data, {}, "w").workflow
    assert workflow is not None
    return workflow


def test_the_first_step_as_the_agent_gets_it() -> None:
    assert find_next_step(flow(LINE), [], {}) == {
        "step": {
            "id": "a",
            "title": "First",
            "prompt": "Do a.",
            "agentRole": "Be brief and kind.",
            "guidance": ["x"],
        },
        "guidance": {"prompt": "## Agent Role\nBe brief and kind.\n\n## Step Guidance\n- x\n\nDo a."},
        "isComplete": False,
    }


def test_without_an_agent_role_the_key_is_absent() -> None:
    found = find_next_step(flow(LINE), ["a"], {"size": "large"})
    assert found["step"] == {"id": "b", "title": "b", "prompt": "Do b.", "guidance": []}
    assert found["guidance"] == {"prompt": "Do b."}


def test_after_the_last_step_all_is_complete() -> None:
    assert find_next_step(flow(LINE), ["a", "c"], {}) == {
        "step": None,
        "guidance": {"prompt": "Workflow complete."},
        "isComplete": True,
    }


WAYS = {
    "a step whose condition does not match is skipped": (LINE, ["a"], {}, "c"),
    "one that was done in between is not asked again": (LINE, ["c", "a"], {}, None),
    "a step that was left out comes first": (LINE, ["c"], {}, "a"),
    "a branch that holds": (FORK, ["a"], {"score": 80}, "good"),
    "none that holds": (FORK, ["a"], {"score": 79}, "bad"),
    "a field that is missing is a branch not taken": (FORK, ["a"], {}, "bad"),
    "back through the circle": (FORK, ["a"], {"again": True}, "a"),
    "a second time": (FORK, ["a", "a"], {"again": True}, "a"),
    "and no third time": (FORK, ["a", "a", "a"], {"again": True}, "bad"),
    "the end of a branch": (FORK, ["a", "good"], {"score": 99}, None),
    "data by its roots": (FORK, ["a"], {"output": {"score": 90}}, "good"),
    "the body of a loop": (LOOPS, [], {}, "x"),
    "its second step": (LOOPS, ["x"], {}, "y"),
    "a loop that is done whole": (LOOPS, ["each"], {}, "last"),
    "a loop whose condition holds": (LOOPS, ["x", "y"], {"open": 1}, "z"),
    "another round": (LOOPS, ["x", "y", "z"], {"open": 1}, "z"),
    "no more rounds than allowed": (LOOPS, ["x", "y", "z", "z"], {"open": 1}, "last"),
    "the first round": (COUNTED, ["begin"], {}, "one"),
    "the second round": (COUNTED, ["begin", "one"], {}, "two"),
    "a loop until what is not known": (COUNTED, ["begin", "one", "two"], {}, "try"),
    "until it holds": (COUNTED, ["begin", "one", "two"], {"score": 3}, None),
    "until the rounds are used up": (COUNTED, ["begin", "one", "two", "try", "try"], {}, None),
    "the first of the items": (ITEMS, ["x"], {"parts": ["a", "b"]}, "x"),
    "the second of the items": (ITEMS, ["x", "x"], {"parts": ["a", "b"]}, "second"),
    "everything": (LOOPS, ["x", "y", "last"], {}, None),
}


@pytest.mark.parametrize(("data", "done", "context", "wanted"), WAYS.values(), ids=WAYS)
def test_the_way_goes_on(
    data: dict[str, Any], done: list[str], context: dict[str, Any], wanted: str | None
) -> None:
    found = find_next_step(flow(data), done, context)
    assert (found["step"] or {}).get("id") == wanted
    assert found["isComplete"] is (wanted is None)


def test_a_step_that_is_none_is_named_with_the_one_meant() -> None:
    with pytest.raises(UsageError, match="`frist` is not a step of `Line`") as caught:
        find_next_step(flow({**LINE, "steps": [{"id": "first", "prompt": "x"}]}), ["frist"], {})
    assert caught.value.fix == "did you mean `first`?"


def test_a_decision_without_a_branch_that_holds_is_refused() -> None:
    steps = [
        {"id": "d", "stepType": "decision", "branches": [{"condition": "output.x", "to": "end"}]},
    ]
    with pytest.raises(Refused, match="no condition of `d` is true"):
        find_next_step(flow({"name": "W", "steps": steps}), [], {})


def test_going_round_in_circles_ends() -> None:
    steps = [
        {"id": "d", "stepType": "decision", "branches": [], "defaultBranch": "e"},
        {"id": "e", "stepType": "decision", "branches": [], "defaultBranch": "d"},
    ]
    with pytest.raises(Refused, match="loops forever from `d`: the loop has no step left to do"):
        find_next_step(flow({"name": "W", "steps": steps}), [], {})


def test_a_condition_that_cannot_be_read_is_an_invalid_file() -> None:
    steps = [{"id": "a", "prompt": "x", "when": "nope.x > 1"}]
    with pytest.raises(InvalidFile, match="unknown name `nope`"):
        find_next_step(flow({"name": "W", "steps": steps}), [], {})
