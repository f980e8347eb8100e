"""Asks a model again, within the same ask, if its answer has no valid exit command.

| After an answer                                              | The model gets                                           |
| ------------------------------------------------------------ | -------------------------------------------------------- |
| that is not valid, of a model that may call tools            | one last turn, in which the provider enforces the form   |
| that was cut at the output limit, with `answers.reask`       | the same request once more, with a higher output limit   |
| that is not valid, up to `answers.reask` times               | what was wrong, and the question to answer again         |

Each of these is an exchange like any other: recorded before it is sent, paid, and limited. If a limit or the deadline
doesn't allow it, or if it fails, the answer before it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from logist.agents.courier.ask_files import RecordedAsk
from logist.agents.protocol import Ask
from logist.core.answer import questions
from logist.core.answer.thinking import remove_thinking
from logist.core.model import ExitAction, JsonObject, Phase, Reply
from logist.quick_tuple import NamedTuple
from logist.resources import load_schema
from logist.store import Exchange

Why = Literal["form", "invalid", "longer"]

ASK_FOR_FORM = (
    "Now write only the exit command of this answer, as described under `How to answer`, and nothing else."
)
_ASK_AGAIN = (
    "Your answer can't be used: {fault}. Answer again, completely, and end with a valid exit command, as described "
    "under `How to answer`."
)
_LONGEST_FAULT = 1000
CUT_AT_LIMIT = "length"


class FollowUp(NamedTuple):
    """What a model gets after an answer that is not valid."""

    why: Why
    text: str
    """The message to the model; "" for the same request once more."""
    fault: str

    def to_request(self) -> JsonObject:
        """Return what the record of the exchange contains."""
        return {"follow_up": {"why": self.why, "text": self.text, "fault": self.fault}}


def read_follow_ups(exchanges: Sequence[Exchange]) -> list[FollowUp]:
    """Return the follow-ups that these exchanges were begun with."""
    found = [(each.request or {}).get("follow_up") for each in exchanges]
    return [FollowUp(each["why"], each["text"], each["fault"]) for each in found if each]


def choose_follow_up(
    ask: Ask, reply: Reply, earlier: Sequence[FollowUp], *, has_form: bool
) -> FollowUp | None:
    """Return what the model gets after an answer; None if the answer is valid, or counts as it is.

    `has_form`: the provider can be asked to enforce the form, and has not refused it.
    """
    reasons = [each.why for each in earlier]
    wants_form = has_form and bool(ask.work.tools) and "form" not in reasons
    if not (wants_form or ask.reask) or reply.finish == "content_filter":
        return None
    fault = find_fault(ask, reply)[:_LONGEST_FAULT]
    if not fault:
        return None
    is_cut = reply.finish == CUT_AT_LIMIT
    if is_cut and ask.reask and ask.longest_output_tokens and "longer" not in reasons:
        return FollowUp("longer", "", fault)
    if wants_form:
        return FollowUp("form", ASK_FOR_FORM, fault)
    if is_cut:
        return None
    if reasons.count("invalid") < ask.reask:
        return FollowUp("invalid", _ASK_AGAIN.format(fault=fault.rstrip(".")), fault)
    return None


def find_fault(ask: Ask, reply: Reply) -> str:
    """Return why an answer has no valid exit command, as the step will judge it; "" if it has one."""
    if not isinstance(ask, RecordedAsk):
        return ""
    from logist.core.answer import output_schema  # noqa: PLC0415 - slow, and few answers need it
    from logist.core.step import step, step_instructions  # noqa: PLC0415

    if cut := step.CUT_SHORT.get(reply.finish or ""):
        return cut
    text = remove_thinking(reply.text)
    verdict = step_instructions.judge_step_answer(ask.spec, ask.step, text, load_schema("llm-chat-schema"))
    command = verdict.command
    if command is None:
        return verdict.reason
    is_done = ask.phase is Phase.DOER and command.action is ExitAction.COMPLETED
    if ask.output_schema is None or not is_done or questions.is_question(command.output):
        return ""
    return output_schema.output_fault(command.output, ask.output_schema, ask.role)
