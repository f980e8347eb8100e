"""How sure an agent is: the number from 0 to 1 in the metadata of its answer that a step may ask for."""

from __future__ import annotations

from typing import Any

from logist.core.answer.answer_faults import describe_value
from logist.core.model import JsonObject, Step

FIELD = "confidence"

_IN_JSON = f'Add it to the exit command: `"metadata": {{"{FIELD}": NUMBER}}`, where NUMBER is one number'
_IN_SECTIONS = f"In the section Metadata, `{FIELD}` has to be one number"
_INSTRUCTION = """\
## How sure you are

This step asks for your confidence. {where} from 0 (a guess) to 1 (certain). If it is missing, or not such a \
number, a person has to approve your work."""


def is_confidence(value: Any) -> bool:
    """Whether a value is a number from 0 to 1; `true` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def render_confidence_instruction(step: Step | None, *, sections: bool) -> str:
    """What a prompt says where the step has a threshold; empty where it has none."""
    if step is None or step.confidence is None:
        return ""
    return _INSTRUCTION.format(where=_IN_SECTIONS if sections else _IN_JSON)


def reason_for_approval(threshold: float, metadata: JsonObject, *, strict: bool) -> str:
    """Why an answer is not sure enough for a threshold; empty where it is.

    Not `strict` is the rule of earlier versions: a missing confidence, and what is no number, is sure enough.
    """
    value = metadata.get(FIELD)
    needed = f"this step needs at least {threshold:g}"
    if not strict:
        low = isinstance(value, int | float) and value < threshold
        return f"the agent's confidence is {value}; {needed}" if low else ""
    if value is None:
        return f"the agent gave no confidence; {needed}"
    if not is_confidence(value):
        return (
            f"the agent's confidence is {describe_value(value)}, which is not a number from 0 to 1; {needed}"
        )
    return f"the agent's confidence is {value}; {needed}" if value < threshold else ""
