"""What the files of an ask say: how far it came, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from logist.agents.courier import booking
from logist.agents.protocol import AgentWork, Ask, CodePaths
from logist.agents.tools import commands
from logist.config.working import SandboxRules, ToolRules
from logist.core.answer.exit_command import clean
from logist.core.model import (
    EVERYTHING,
    Call,
    EffectiveSpec,
    ErrorKind,
    JsonObject,
    Model,
    Permissions,
    Phase,
    Reply,
    Request,
    TransportError,
)
from logist.store import Exchange, Exchanges, inflight

EMPTY = Reply()
LONGEST_NAME = 64
"""Characters of the name of a tool; a model may make one up."""


class Ending(StrEnum):
    """Why an ask ended although the model called for tools."""

    REFUSED = "refused"
    TURNS = "turns"
    UNKNOWN_TOOLS = "unknown_tools"
    COST = "cost"
    SHARED_COST = "shared_cost"
    """The same, of a limit that the job shares with others."""
    TIME = "time"
    FAULT = "fault"


ERRORS = {
    Ending.COST: ErrorKind.LIMIT,
    Ending.SHARED_COST: ErrorKind.SHARED_LIMIT,
    Ending.TIME: ErrorKind.TIMEOUT,
    Ending.FAULT: ErrorKind.BAD_REQUEST,
}


@dataclass(frozen=True)
class Collected:
    """What is on disk of an ask."""

    kind: Literal["none", "not_sent", "unfinished", "answered", "in_doubt"]
    """`unfinished`: the model called for tools, and the courier ended before it could go on."""
    envelope: JsonObject | None = None
    """The content of `1.request`."""
    reply: Reply = EMPTY
    """The last response, with the usage of all exchanges; in doubt, the last one at its worst case."""


def _known(phase: Phase) -> Phase:
    if not phase.known:
        raise ValueError("only a newer Logist knows this phase: use that one")
    return phase


class ToolResult(BaseModel):
    """What one tool gave back."""

    id: str
    name: str
    content: str
    error: bool


class End(BaseModel):
    """What ended the ask although tools were called for."""

    kind: Ending
    message: str = ""


class Worked(BaseModel):
    """What the tools came to that one answer called for."""

    results: list[ToolResult]
    refusals: list[JsonObject]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    redactions: Annotated[int, Field(ge=0)]
    running: str | None = None
    """The call that is at work; found later, it was interrupted."""
    end: End | None = None


class Concluding(BaseModel):
    """What concluding needs of an envelope, beside the ask."""

    sequence: Annotated[int, Field(ge=1, strict=True)]
    spec: EffectiveSpec
    phase: Annotated[Phase, AfterValidator(_known)]
    role: str
    step: str
    attempt: Annotated[int, Field(ge=0, strict=True)]
    checkpoint_before: str | None


def ask_from(envelope: JsonObject) -> Ask:
    """The ask an envelope describes."""
    return Ask(
        request=Request.model_validate(envelope["request"]),
        model=Model.model_validate(envelope["model"]),
        role=envelope["role"],
        index=envelope.get("index", 0),
        visit=envelope.get("visit", 0),
        temperature=envelope.get("temperature"),
        max_output_tokens=envelope["max_output_tokens"],
        deadline_seconds=envelope["deadline_seconds"],
        max_tries=envelope["max_tries"],
        backoff_seconds=envelope["backoff_seconds"],
        reserved_microcents=envelope.get("reserved_microcents"),
        allowance_microcents=envelope.get("allowance_microcents"),
        shares_limits_of=envelope.get("shares_limits_of"),
        min_output_tokens=envelope.get("min_output_tokens", 2048),
        agent=envelope.get("agent", "litellm"),
        work=_work(envelope.get("work") or {}),
    )


def _work(said: JsonObject) -> AgentWork:
    return AgentWork(
        permissions=Permissions.of(said.get("permissions", EVERYTHING.names())),
        network=said.get("network", False),
        tools=tuple(said.get("tools", ())),
        approved=tuple(said.get("approved", ())),
        rules=ToolRules.model_validate(said.get("rules", {})),
        sandbox=SandboxRules.model_validate(said.get("sandbox", {})),
        marker=said.get("marker", ""),
        program=said.get("program"),
        code=CodePaths.read(said.get("code") or {}),
    )


def collect(exchanges: Sequence[Exchange]) -> Collected:
    """What the files of an ask say; only to be believed while its lock is free, or held by us alone.

    Damaged if they could not have been written by an ask.
    """
    if not exchanges:
        return Collected("none")
    try:
        envelope = _sound_envelope(exchanges)
        replies = [Reply.model_validate(each.response) for each in exchanges if each.response is not None]
        _require_sound_tools(exchanges, replies)
        return _collected(exchanges[-1], envelope, replies, exchanges)
    except (KeyError, ValueError, TypeError) as error:
        folder = exchanges.folder if isinstance(exchanges, Exchanges) else None
        message = f"the record of an exchange makes no sense: {_in_short(error)}"
        raise inflight.damaged(folder, message) from error


def _collected(
    last: Exchange, envelope: JsonObject, replies: list[Reply], exchanges: Sequence[Exchange]
) -> Collected:
    whole = _summed(replies, exchanges) if replies else EMPTY
    if last.response is None:
        if last.sent:
            return Collected("in_doubt", envelope, _in_doubt(last, envelope, whole))
        if not replies:
            return Collected("not_sent", envelope)
        return Collected("unfinished" if replies[-1].calls else "answered", envelope, whole)
    if not replies[-1].calls:
        return Collected("answered", envelope, whole)
    end = last.tools.get("end") if last.tools else None
    if last.tools and last.tools.get("refusals"):  # also where the courier was killed before it could say so
        end = end or {"kind": Ending.REFUSED}
    return (
        Collected("answered", envelope, _ended(whole, end))
        if end
        else Collected("unfinished", envelope, whole)
    )


def _ended(reply: Reply, end: JsonObject) -> Reply:
    """What it comes to that the ask ended with tools that were called for."""
    kind, message = end["kind"], str(end.get("message", ""))
    if kind in (Ending.TURNS, Ending.UNKNOWN_TOOLS):
        return reply.model_copy(update={"finish": kind})
    if kind == Ending.REFUSED:
        return reply
    return reply.model_copy(update={"error": TransportError(kind=ERRORS[Ending(kind)], message=message)})


def _sound_envelope(exchanges: Sequence[Exchange]) -> JsonObject:
    """What was asked; KeyError, ValueError or TypeError if that, or the order of the calls, is not as we write it."""
    for place, exchange in enumerate(exchanges, 1):
        if exchange.k != place or exchange.request is None:
            raise ValueError(f"the request of call {place} is missing")
    if any(earlier.response is None for earlier in exchanges[:-1]):
        raise ValueError("a call without an answer is followed by another")
    envelope = exchanges[0].request
    assert envelope is not None
    ask_from(envelope)
    Concluding.model_validate(envelope)
    booking.worst_case(envelope.get("reserved_microcents"))
    return envelope


def _require_sound_tools(exchanges: Sequence[Exchange], replies: Sequence[Reply]) -> None:
    """ValueError if what the tools came to is not as we write it, or does not fit the calls."""
    for place, exchange in enumerate(exchanges):
        calls = replies[place].calls if exchange.response is not None else ()
        if exchange.tools is not None:
            _require_fitting(calls, Worked.model_validate(exchange.tools), is_over="end" in exchange.tools)
        goes_on = exchange.tools is not None and exchange.tools.get("end", 0) is None
        if calls and not goes_on and exchange is not exchanges[-1]:
            raise ValueError(f"the tools of call {exchange.k} were not all used, and another follows")


def _require_fitting(calls: Sequence[Call], worked: Worked, *, is_over: bool) -> None:
    count = len(worked.results) + (worked.running is not None)
    if not calls or count > len(calls) or (is_over and len(worked.results) != len(calls)):
        raise ValueError(f"{count} results of {len(calls)} calls")


def _in_short(error: Exception) -> str:
    """Without what was in the files: that may be long, or private."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return ".".join(map(str, first["loc"])) + f": {first['msg']}"
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _in_doubt(last: Exchange, envelope: JsonObject, before: Reply) -> Reply:
    message = "the request was sent, and no answer reached the disk: it may have been paid"
    usage = booking.total([before.usage, booking.worst_case(reserved(last, envelope))])
    error = TransportError(kind=ErrorKind.TRANSIENT, message=message)
    return before.model_copy(update={"text": "", "calls": (), "finish": None, "error": error, "usage": usage})


def reserved(last: Exchange, envelope: JsonObject) -> int | None:
    """The worst case of an exchange, in microcents, as it was written before it was sent."""
    said = last.request or {}
    return (
        said["reserved_microcents"] if "reserved_microcents" in said else envelope.get("reserved_microcents")
    )


def _failed(worked: Sequence[JsonObject]) -> JsonObject | None:
    """How many calls of each tool failed; None if none did."""
    results = [result for each in worked for result in each.get("results", ())]
    counts = Counter(result["name"] for result in results if _has_failed(result))
    return {clean(name)[0][:LONGEST_NAME]: count for name, count in sorted(counts.items())} or None


def _has_failed(result: JsonObject) -> bool:
    command = result["name"] == commands.NAME
    return bool(result["error"]) or (command and not result["content"].startswith(commands.SUCCEEDED))


def _summed(replies: list[Reply], exchanges: Sequence[Exchange]) -> Reply:
    """The last answer, with what all of them used, and what their tools came to."""
    worked = [each.tools for each in exchanges if each.tools is not None]
    counts = Counter(call.name for reply in replies for call in reply.calls)
    usage = booking.total([reply.usage for reply in replies])
    seconds = round(usage.seconds + sum(float(each.get("seconds", 0)) for each in worked), 3)
    redactions = sum(reply.redactions for reply in replies)
    return replies[-1].model_copy(
        update={
            "usage": usage.model_copy(update={"seconds": seconds}),
            "refusals": (
                *replies[-1].refusals,
                *(one for each in worked for one in each.get("refusals", ())),
            ),
            "tools": {clean(name)[0][:LONGEST_NAME]: count for name, count in sorted(counts.items())}
            or replies[-1].tools,
            "tools_failed": _failed(worked) or replies[-1].tools_failed,
            "redactions": redactions + sum(int(each.get("redactions", 0)) for each in worked),
            "warnings": tuple(dict.fromkeys(text for reply in replies for text in reply.warnings)),
        }
    )
