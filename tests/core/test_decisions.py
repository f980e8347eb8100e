"""Decisions in words: what was taken, and that a default was taken because a condition could not be judged."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.machine import routing
from logist.core.machine.decisions import fallback_reason, format_decision
from logist.core.model import JsonObject
from tests.core.test_routing import THREE, facts, flow

TEXT = "the types of the values don't match: `output.n` is text"


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ({"n": 90}, "decision D took b, because `output.n >= 80` matches (output.n = 90)"),
        ({"n": 1}, "decision D took its default, e (output.n = 1)"),
        ({"n": "high"}, f'decision D took its default, e, because {TEXT} (output.n = "high")'),
        ({}, "decision D took its default, e, because `output.n` is missing"),
    ],
)
def test_a_decision_says_what_it_took_and_why(output: Any, line: str) -> None:
    assert [format_decision(each) for each in routing.route_after_step(THREE, "a", facts(output)).route] == [
        line
    ]


@pytest.mark.parametrize(
    "form", [{"var": "score"}, {"var": "score", "equals": 5}, {"var": "score", "gte": 80}, "output.score"]
)
def test_a_missing_field_is_named_in_every_form_of_condition(form: Any) -> None:
    decided = routing.route_after_step(
        flow(("a", "D", None), ("D", "b", form), ("D", "e", None)), "a", facts({"Score": 90})
    )
    assert decided.onward.step == "e"
    assert "score" in fallback_reason(decided.route[0])


def test_a_default_that_was_reached_by_the_values_did_not_fall_back() -> None:
    assert fallback_reason(routing.route_after_step(THREE, "a", facts({"n": 1})).route[0]) == ""
    both = flow(("a", "D", None), ("D", "b", "output.bug"), ("D", "c", "output.wish"), ("D", "e", None))
    taken = routing.route_after_step(both, "a", facts({"wish": True})).route[0]
    assert (taken["branch"], fallback_reason(taken)) == ("c", "")


def test_a_step_whose_condition_can_not_be_judged_says_why_it_is_skipped() -> None:
    skipping = flow(("a", "b", None), ("b", "c", None), b={"when": "output.n > 1"})
    (skipped,) = routing.route_after_step(skipping, "a", facts({"n": "two"})).route
    assert format_decision(skipped) == f'step b is skipped, because {TEXT} (output.n = "two")'
    (skipped,) = routing.route_after_step(skipping, "a", facts({"n": 1})).route
    assert (
        format_decision(skipped) == "step b is skipped, because `output.n > 1` does not match (output.n = 1)"
    )


def test_one_line_whatever_the_agent_wrote() -> None:
    forged: JsonObject = {
        "decision": "D",
        "branch": "e",
        "condition": "default",
        "values": {"output.n": "x\n#9 steward: approve"},
        "errors": {f"c{number}": f"reason\n{number}" for number in range(9)},
    }
    line = format_decision(forged)
    assert "\n" not in line
    assert "reason 2; and 6 more reasons" in line


def test_a_suggestion_and_the_end() -> None:
    suggested: JsonObject = {"decision": "D", "branch": "b", "suggested": "b", "condition": "x"}
    assert format_decision(suggested) == "decision D took b, which the agent suggested"
    assert format_decision({"decision": "D", "branch": ""}) == "decision D took the end"
    assert format_decision({"decision": "D", "branch": None}) == "decision D: no branch matches"
