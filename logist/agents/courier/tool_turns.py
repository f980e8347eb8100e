"""The turns of a model that works with tools: the next exchange, and its worst-case cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field

from logist.agents.courier import booking
from logist.agents.courier.follow_ups import FollowUp, read_follow_ups
from logist.agents.protocol import Ask, Sending, ToolTurn, build_conversation
from logist.core.model import ErrorKind, JsonObject, Reply, Usage
from logist.core.money import money
from logist.core.permissions.tools import to_function_schema
from logist.quick_dataclass import dataclass
from logist.store import Exchange


@dataclass(frozen=True)
class Next:
    """The next exchange."""

    sending: Sending
    reserved_microcents: int | None
    """Its worst-case cost; None if the price is unknown."""


def plan_next_exchange(
    ask: Ask,
    turns: Sequence[ToolTurn],
    spent: int,
    room: int | None = None,
    *,
    form: JsonObject | None = None,
    is_longer: bool = False,
) -> Next | None:
    """Return what to send to the model after these turns; None if the cost limit doesn't allow it.

    `form`: what the provider is asked to enforce for this answer. `is_longer`: the last answer was cut, so the output
    limit is as high as the provider allows.

    `spent`: the cost of the exchanges so far, in microcents. `room`: what is left of the limits that the job
    shares with other jobs, for all exchanges of this ask; None if it shares none.
    """
    tools: list[JsonObject] = [
        to_function_schema(tool) for name in ask.work.tools if (tool := ask.work.find_tool(name))
    ]
    has_turns_left = len(turns) + 1 < ask.work.rules.max_turns
    may_call = has_turns_left and form is None
    messages = build_conversation(ask, turns, last=bool(turns) and not has_turns_left)
    most, reserved = ask.max_output_tokens, ask.reserved_microcents
    if is_longer:
        most = ask.longest_output_tokens or most
    shared = None if reserved is None else room  # without a price, nothing is reserved
    bounds = [bound for bound in (ask.allowance_microcents, shared) if bound is not None]
    if (turns or is_longer) and bounds:
        text = json.dumps([messages, tools, *([form] if form else [])], ensure_ascii=False)
        left = min(bounds) - spent
        fitted = money.fit_output(ask.model, text, most, left, ask.min_output_tokens, len(messages))
        if fitted is None:
            return None
        most, reserved = fitted, money.compute_worst_case(ask.model, text, fitted, len(messages))
    elif shared is not None and reserved is not None and reserved > shared - spent:
        return None
    return Next(Sending(messages, tools, most, may_call, form), reserved)


@dataclass
class AskProgress:
    """How far an ask has progressed, according to its files."""

    turns: list[ToolTurn]
    """Answers that called tools, with the results."""
    spent: int
    """The cost of all exchanges, in microcents."""
    seconds: float
    """Seconds used by the model and the tools."""
    k: int
    """The number of the current exchange."""
    reply: Reply | None
    """The answer of the current exchange; None if it has none yet."""
    done: JsonObject | None
    """The tool results of the current exchange so far."""
    usage: Usage = field(default_factory=Usage)
    """What the exchanges of earlier couriers of this ask used."""
    follow_ups: list[FollowUp] = field(default_factory=list)
    """How the model was asked again after an answer without a valid exit command."""
    is_form_refused: bool = False
    """Whether the provider refused a request with a form."""

    def get_form(self, ask: Ask) -> JsonObject | None:
        """Return what the provider is asked to enforce for the next answer.

        While a model may call tools, nothing: a form would keep it from calling them.
        """
        may_call_tools = ask.work.tools and all(each.why != "form" for each in self.follow_ups)
        return None if self.is_form_refused or may_call_tools else ask.form

    def plan_next(self, ask: Ask, room: int | None = None) -> Next | None:
        """Return what to send next; None if the cost limit doesn't allow it."""
        is_longer = any(each.why == "longer" for each in self.follow_ups)
        return plan_next_exchange(
            ask, self.turns, self.spent, room, form=self.get_form(ask), is_longer=is_longer
        )

    def has_outage(self) -> bool:
        """Whether an earlier courier of this ask ended because the provider was not available."""
        error = self.reply.error if self.reply else None
        return error is not None and error.kind is ErrorKind.OUTAGE

    @classmethod
    def from_exchanges(cls, exchanges: Sequence[Exchange]) -> AskProgress:
        """Read the progress of an ask whose courier may have been killed;
        without files, the ask has not begun.
        """
        replies = [Reply.model_validate(each.response) for each in exchanges if each.response is not None]
        done = [each.tools for each in exchanges if each.tools is not None]
        usage = booking.sum_usages([reply.usage for reply in replies])
        last = exchanges[-1] if exchanges else None
        return cls(
            turns=list_turns(exchanges),
            spent=money.join_cents(usage.cost_cents, usage.cost_microcents),
            seconds=usage.seconds + sum(float(each["seconds"]) for each in done),
            k=max(1, len(exchanges)),
            reply=replies[-1] if last and last.response is not None else None,
            done=last.tools if last else None,
            usage=usage,
            follow_ups=read_follow_ups(exchanges),
            is_form_refused=any((each.request or {}).get("form") is False for each in exchanges),
        )


def list_turns(exchanges: Sequence[Exchange]) -> list[ToolTurn]:
    """Return the answers whose tools have all been run or refused, and those after which the model was asked again;
    failed tries are left out.
    """
    turns: list[ToolTurn] = []
    answer = ""
    for each in exchanges:
        follow_up = (each.request or {}).get("follow_up")
        if follow_up and follow_up["text"]:
            turns.append(ToolTurn(answer, (), (), follow_up["text"]))
        if each.response is not None and not each.response.get("error"):
            answer = str(each.response.get("text") or "")
        if each.response is not None and each.tools is not None and "end" in each.tools:
            reply = Reply.model_validate(each.response)
            turns.append(ToolTurn(reply.text, reply.calls, each.tools["results"]))
    return turns
