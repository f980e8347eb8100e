"""The layers of a step's prompt, to the byte."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.text.layers import (
    BASE,
    SEPARATOR,
    Layer,
    build_layers,
    build_role_block,
    build_step_layer,
    join_layers,
)

CONTEXT = "## Task Context\n**Title:** T\n**Summary:** N/A\n**Tags:** None\n**Additional Info:** None"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, f"B\n\n---\n\n{CONTEXT}"),
        ({"agent_context": "You review."}, f"B\n\n---\n\n## Agent Context\nYou review.\n\n---\n\n{CONTEXT}"),
        (
            {"step_name": "Fetch PR", "step_prompt": "Fetch it."},
            f"B\n\n---\n\n## Workflow Step: Fetch PR\nFetch it.\n\n---\n\n{CONTEXT}",
        ),
        ({"instructions": "Be quick."}, f"B\n\n---\n\n## Task Instructions\nBe quick.\n\n---\n\n{CONTEXT}"),
        (
            {
                "additional": '{"a": 1}',
                "tags": ["x", "y z"],
                "summary": "S\nS2",
                "instructions": "I",
                "step_prompt": "P",
                "step_name": "N",
                "agent_context": "A",
            },
            (
                "B\n\n---\n\n## Agent Context\nA\n\n---\n\n## Workflow Step: N\nP\n\n---\n\n"
                "## Task Instructions\nI\n\n---\n\n## Task Context\n**Title:** T\n**Summary:** S\nS2\n"
                '**Tags:** x, y z\n**Additional Info:** {"a": 1}'
            ),
        ),
        ({"step_name": "No prompt"}, f"B\n\n---\n\n{CONTEXT}"),
        (
            {"agent_context": "", "step_prompt": "", "instructions": "", "summary": "", "additional": ""},
            f"B\n\n---\n\n{CONTEXT}",
        ),
        ({"base": ""}, CONTEXT),
        ({"base": "", "agent_context": "  ünï\n\n  "}, f"## Agent Context\n  ünï\n\n  \n\n---\n\n{CONTEXT}"),
    ],
)
def test_flat(given: dict[str, Any], expected: str) -> None:
    assert join_layers(build_layers(**{"base": "B", "title": "T", **given})) == expected


def test_the_sources_in_their_order() -> None:
    layers = build_layers(agent_context="A", step_name="N", step_prompt="P", instructions="I", title="T")
    assert [(layer.source, layer.kind) for layer in layers] == [
        ("base", "rule"),
        ("agent", "rule"),
        ("step", "rule"),
        ("instructions", "given"),
        ("context", "given"),
    ]
    assert layers[0] == Layer("base", "rule", BASE)
    assert SEPARATOR == "\n\n---\n\n"


@pytest.mark.parametrize(
    ("role", "guidance", "prompt", "expected"),
    [
        (None, (), "Do it.", "Do it."),
        (None, ("a", "b"), "Do it.", "## Step Guidance\n- a\n- b\n\nDo it."),
        ("Act as a reviewer.", (), "Do it.", "## Agent Role\nAct as a reviewer.\n\nDo it."),
        (
            "Act as a reviewer.",
            ("a", "b"),
            "Do it.",
            "## Agent Role\nAct as a reviewer.\n\n## Step Guidance\n- a\n- b\n\nDo it.",
        ),
        ("", ["a"], "Do it.", "## Step Guidance\n- a\n\nDo it."),
        (
            "Zwei\n\nZeilen: ü 你 🙂",
            ["x\ny", ""],
            "",
            "## Agent Role\nZwei\n\nZeilen: ü 你 🙂\n\n## Step Guidance\n- x\ny\n- \n\n",
        ),
        ("", (), "", ""),
    ],
)
def test_step_layer(role: str | None, guidance: list[str], prompt: str, expected: str) -> None:
    assert build_step_layer(role, guidance, prompt) == expected
    assert build_step_layer(role, guidance, prompt).startswith(build_role_block(role))


@pytest.mark.parametrize(
    "words",
    [
        "## Status\n[SUCCESS | PARTIAL | BLOCKED | FAILED]\n",
        "\n\n## Summary\n[",
        "\n\n## Output\n[",
        "\n\n## Next Action\n[COMPLETE | CONTINUE | ESCALATE | HOLD]\n",
        '\n\n## Metadata\n```json\n{\n  "confidence": [a number from 0 to 1],\n',
    ],
)
def test_the_base_names_every_section_once(words: str) -> None:
    assert BASE.count(words) == 1
