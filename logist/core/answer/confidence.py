"""The agent's confidence: a number from 0 to 1 in the metadata of its answer, which a step may require."""

from __future__ import annotations

from typing import Any

from logist.core.answer.answer_faults import describe_value
from logist.core.model import JsonObject, Step

FIELD = "confidence"

_IN_JSON = f'Add it to the exit command: `"metadata": {{"{FIELD}": NUMBER}}`, where NUMBER is one number'
_IN_SECTIONS = f"In the section Metadata, `{FIELD}` is required: one number"
_INSTRUCTION = """\
## Your confidence

This step requires your confidence in your result. {where} from 0 (a guess) to 1 (certain). If it is missing or \
not a number from 0 to 1, a person must approve your work."""


def is_confidence(value: Any) -> bool:
    """Whether a value is a number from 0 to 1; `true` is not a number here."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def render_confidence_instruction(step: Step | None, *, sections: bool) -> str:
    """Render the part of the prompt that asks for the confidence; empty if the step has no threshold."""
    if step is None or step.confidence is None:
        return ""
    return _INSTRUCTION.format(where=_IN_SECTIONS if sections else _IN_JSON)


def reason_for_approval(threshold: float, metadata: JsonObject, *, strict: bool) -> str:
    """Why an answer needs approval because of the confidence threshold; empty if it doesn't.

    If `strict` is off, the rule of earlier versions applies: an answer without a confidence, or with one that
    is not a number, passes.
    """
    value = metadata.get(FIELD)
    needed = f"this step requires at least {threshold:g}"
    if not strict:
        low = isinstance(value, int | float) and value < threshold
        return f"the agent's confidence is {value}; {needed}" if low else ""
    if value is None:
        return f"the answer has no confidence; {needed}"
    if not is_confidence(value):
        return (
            f"the agent's confidence is {describe_value(value)}, which is not a number from 0 to 1; {needed}"
        )
    return f"the agent's confidence is {value}; {needed}" if value < threshold else ""
