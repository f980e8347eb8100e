"""Plans: which output is one, how it reads, and who carries it out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.core.answer import plans

PLAN = {
    "goal": "The parser refuses\na second Host line.",
    "steps": [
        {"step_number": 1, "action": "Look.", "reason": "To know.", "tools_needed": ["read", "execute"]},
        {"action": "Write it.", "files": {"a.py": 1}},
        "Check it.",
    ],
    "risks": ["It may break callers."],
    "time": 5,
}


def test_a_plan_reads_as_a_text() -> None:
    assert plans.render_plan_lines(PLAN) == [
        "goal: The parser refuses a second Host line.",
        "1. Look.",
        "   reason: To know.",
        "   tools needed: read, execute",
        "2. Write it.",
        '   files: {"a.py": 1}',
        "3. Check it.",
        "risks:",
        "- It may break callers.",
        "time: 5",
    ]


@pytest.mark.parametrize(
    ("output", "is_plan"),
    [
        (PLAN, True),
        ({"steps": ["a"]}, True),
        ({"steps": []}, False),
        ({"steps": [1]}, False),
        ({"steps": "a"}, False),
        ({"goal": "a"}, False),
        (["a"], False),
        ("a", False),
        (None, False),
    ],
)
def test_what_is_a_plan(output: Any, is_plan: bool) -> None:
    assert plans.is_plan(output) is is_plan


def test_what_has_another_form_is_shown_as_it_is() -> None:
    assert plans.render_plan_lines("First this.\n\nThen that.\n") == ["First this.", "", "Then that."]
    assert plans.render_plan_lines({"a": [1]}) == ["{", '  "a": [', "    1", "  ]", "}"]


@pytest.mark.parametrize(
    ("maker", "approved", "doer", "carrier"),
    [
        ("Planner", False, "Actor", "Actor"),
        ("Planner", False, "Planner", None),
        ("Planner", True, "Actor", None),
    ],
)
def test_another_role_carries_it_out(maker: str, approved: bool, doer: str, carrier: str | None) -> None:
    assert plans.find_plan_carrier(maker, approved=approved, doer=doer) == carrier


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["goal", "steps", "risks", "x"]), JSON) | JSON)
def test_whatever_an_agent_writes_can_be_shown(output: Any) -> None:
    for line in plans.render_plan_lines(output):
        assert "\n" not in line
