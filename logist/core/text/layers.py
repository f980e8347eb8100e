"""Build the prompt layers of a workflow step: the base, the agent, the step, the task. Every byte counts, because
a replay compares prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from logist.quick_tuple import NamedTuple

SEPARATOR = "\n\n---\n\n"
"""The separator between the layers."""

BASE = """\
## How to answer

You do one task of an automated workflow. A program reads your answer and decides what happens next. Your answer \
consists of the five sections below: each section once, in this order, with these headings, and without other text \
around them. If a line has alternatives in [square brackets], write one of them, without the brackets. Replace each \
description in [square brackets] with your own text.

## Status
[SUCCESS | PARTIAL | BLOCKED | FAILED]

## Summary
[Two to five sentences for the next agent and for people: what you did and what the result is, the most important \
first. At most 1000 characters.]

## Output
[The result itself. If the task asks for data, write only JSON here.]

## Next Action
[COMPLETE | CONTINUE | ESCALATE | HOLD]
- If CONTINUE: what must be done next
- If ESCALATE: what a person must decide, and why
- If HOLD: what you are waiting for

## Metadata
```json
{
  "confidence": [a number from 0 to 1],
  "suggested_tags": ["tag"],
  "suggested_next_stage": "id of a step, or null"
}
```

The words for Status:

- SUCCESS: the task is done.
- PARTIAL: a part of the task is done.
- BLOCKED: you need something that you can't get.
- FAILED: the task is impossible.

PARTIAL with CONTINUE starts another attempt. If you have to answer PASS or FAIL, never use PARTIAL with CONTINUE: \
it sends the work back. Use SUCCESS with COMPLETE, or BLOCKED with ESCALATE if you need a person.

BLOCKED, FAILED, ESCALATE and HOLD stop the job for a person.

`confidence` is one number from 0 (a guess) to 1 (certain).

If you created, changed or examined files, add a sixth section at the end, `## Evidence`. It lists those of these \
files that exist when you end: one line `- path` for each file, relative to the workspace. Name deleted files in the \
Summary.

If Status or Next Action is missing or unclear, the job stops and waits for a person."""
"""The instructions for every agent that must answer in sections. A copy of them is not a valid answer."""


class Layer(NamedTuple):
    """A layer before it has a position in the prompt; it has the fields of `prompt_parts.UnplacedPart`."""

    source: str
    kind: Literal["rule", "given"]
    text: str


def build_layers(
    base: str = BASE,
    *,
    agent_context: str | None = None,
    step_name: str = "",
    step_prompt: str | None = None,
    instructions: str | None = None,
    title: str,
    summary: str | None = None,
    tags: Sequence[str] = (),
    additional: str | None = None,
) -> list[Layer]:
    """Return the layers in order: base, agent, step, task instructions, task context.

    Empty layers are left out; the task context is always included.
    """
    context = "\n".join(
        [
            f"**Title:** {title}",
            f"**Summary:** {summary or 'N/A'}",
            f"**Tags:** {', '.join(tags) or 'None'}",
            f"**Additional Info:** {additional or 'None'}",
        ]
    )
    layers = [
        Layer("base", "rule", base),
        Layer("agent", "rule", _add_heading("Agent Context", agent_context)),
        Layer("step", "rule", _add_heading(f"Workflow Step: {step_name}", step_prompt)),
        Layer("instructions", "given", _add_heading("Task Instructions", instructions)),
        Layer("context", "given", _add_heading("Task Context", context)),
    ]
    return [layer for layer in layers if layer.text]


def join_layers(layers: Sequence[Layer]) -> str:
    """Return the layers as one prompt."""
    return SEPARATOR.join(layer.text for layer in layers)


def build_role_block(agent_role: str | None) -> str:
    """Return how the agent should behave, for the system half of a prompt; empty without a role."""
    return f"## Agent Role\n{agent_role}\n\n" if agent_role else ""


def build_step_layer(agent_role: str | None, guidance: Sequence[str], prompt: str) -> str:
    """Return the instructions of a step: how to behave, the hints, the prompt; empty parts get no heading."""
    hints = "\n".join(f"- {hint}" for hint in guidance)
    guided = f"## Step Guidance\n{hints}\n\n" if guidance else ""
    return f"{build_role_block(agent_role)}{guided}{prompt}"


def _add_heading(heading: str, text: str | None) -> str:
    return f"## {heading}\n{text}" if text else ""
