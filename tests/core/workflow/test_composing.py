"""The text of a step, to the byte."""

from __future__ import annotations

import pytest

from logist.core.model import Step
from logist.core.workflow.composing import composed

ROLE = "Act as a code reviewer."
PARTS = {
    "all": (
        ROLE,
        ("a", "b"),
        "## Agent Role\nAct as a code reviewer.\n\n## Step Guidance\n- a\n- b\n\nDo it.",
    ),
    "role only": (ROLE, (), "## Agent Role\nAct as a code reviewer.\n\nDo it."),
    "guidance only": (None, ("a", "b"), "## Step Guidance\n- a\n- b\n\nDo it."),
    "one hint": (None, ("a",), "## Step Guidance\n- a\n\nDo it."),
    "neither": (None, (), "Do it."),
    "lines and letters": (
        "Be kind.\n\nЖдите, 終 🙂",
        (),
        "## Agent Role\nBe kind.\n\nЖдите, 終 🙂\n\nDo it.",
    ),
}


@pytest.mark.parametrize(("role", "guidance", "text"), PARTS.values(), ids=PARTS)
def test_role_guidance_and_prompt_stand_in_this_order(
    role: str | None, guidance: tuple[str, ...], text: str
) -> None:
    step = Step(id="a", name="A", prompt="Do it.", agent_role=role, guidance=guidance)
    assert composed(step) == text


def test_an_empty_role_met_at_run_time_adds_no_header() -> None:
    step = Step(id="a", name="A", prompt="Do it.").model_copy(update={"agent_role": ""})
    assert composed(step) == "Do it."
