"""The diagram with the state of its steps: a block at its end, and not a byte changed before it."""

from __future__ import annotations

import pytest

from logist.core.drawing import Mark, add_state_to_mermaid

DIAGRAM = """\
graph TD
    A[Fetch] --> B{Good?}
    classDef done fill:#000

%% === WORKFLOW_CONFIG ===
%% @A: {
%%   "prompt": "a \\n  b"
%% }
%% === END_CONFIG ===
"""


def test_the_classes() -> None:
    text = add_state_to_mermaid(
        DIAGRAM, {"A": Mark("done"), "B": Mark("stuck", "no branch"), "C": Mark("done")}
    )
    assert text == DIAGRAM + (
        "%% === STATE ===\n"
        "classDef logist_done fill:#d5f5dd,stroke:#1a7f37,color:#0b3d1a\n"
        "class A,C logist_done\n"
        "classDef logist_stuck fill:#ffe0cc,stroke:#bc4c00,color:#5c2500,stroke-width:3px\n"
        "class B logist_stuck\n"
        "%% === END_STATE ===\n"
    )


@pytest.mark.parametrize("end", ["\n", "", "\n\n", "\r\n"])
def test_a_later_state_replaces_the_earlier(end: str) -> None:
    diagram = DIAGRAM.rstrip() + end
    once = add_state_to_mermaid(diagram, {"A": Mark("running")})
    twice = add_state_to_mermaid(once, {"A": Mark("done")})
    assert once.startswith(diagram.removesuffix("\n"))
    assert twice == add_state_to_mermaid(diagram, {"A": Mark("done")})
    assert add_state_to_mermaid(once, {}) == diagram


@pytest.mark.parametrize("step", ["a b", "a;b", 'a"', "a[b]", "x\ny", "a,b", "%%", ""])
def test_an_id_that_would_break_the_line_gets_no_class(step: str) -> None:
    assert add_state_to_mermaid(DIAGRAM, {step: Mark("done")}) == DIAGRAM
    assert "class ü.1-x logist_next" in add_state_to_mermaid(
        DIAGRAM, {step: Mark("next"), "ü.1-x": Mark("next")}
    )


def test_an_unfinished_block_is_left() -> None:
    diagram = "graph TD\n" + "%% === STATE ===\n" * 20_000
    assert add_state_to_mermaid(diagram, {}) == diagram
