"""Build the prompt layers of a workflow's step: the base, the agent, the
step, the task; exact to the byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

SEPARATOR = "\n\n---\n\n"
"""Between the layers of the flat form."""

BASE = """\
You do one task of an automated workflow. A program reads your answer and decides by it what happens next, \
so the answer must have the five sections below, under these headings, each once, in this order, with no \
other text around them. Where a line offers alternatives in brackets, \
write one of them alone, without the brackets.

## Status
[SUCCESS | PARTIAL | BLOCKED | FAILED]

## Summary
[One or two sentences for a person: what was done and how things stand. At most 1000 characters.]

## Output
[The result itself. If the task asks for data, write JSON here and nothing else.]

## Next Action
[COMPLETE | CONTINUE | ESCALATE | HOLD]
- If CONTINUE: what has to be done next
- If ESCALATE: what a person has to decide, and why
- If HOLD: what you are waiting for

## Metadata
```json
{
  "confidence": 0.0-1.0,
  "suggested_tags": ["tag"],
  "suggested_next_stage": "id of a step, or null"
}
```

SUCCESS: the task is done. PARTIAL: a part of it is. BLOCKED: something outside your reach is missing. \
FAILED: it cannot be done. PARTIAL with CONTINUE asks for another attempt; BLOCKED, FAILED, ESCALATE and \
HOLD stop the job for a person. `confidence` is one number from 0 (a guess) to 1 (certain). If you made, \
changed or examined files, end with a sixth section `## Evidence` that lists them, one `- path` a line, each \
relative to the workspace. An answer whose status or next action cannot be read stops the job for a person."""
"""What every agent is told that has to answer in sections."""


class Layer(NamedTuple):
    """A layer before it has a place in the prompt; the fields are those of `prompt.Piece`."""

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
    """Return the layers in their order: base, agent, step, task instructions, task context.

    A layer that is empty or None is left out; only the task context is always there, with its defaults.
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
    """Return what a step tells its agent: how to behave, the hints, the
    prompt; empty parts get no heading.
    """
    hints = "\n".join(f"- {hint}" for hint in guidance)
    guided = f"## Step Guidance\n{hints}\n\n" if guidance else ""
    return f"{build_role_block(agent_role)}{guided}{prompt}"


def _add_heading(heading: str, text: str | None) -> str:
    return f"## {heading}\n{text}" if text else ""
