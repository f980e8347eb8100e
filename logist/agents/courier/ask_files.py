"""What the files of an ask mean: how far it progressed, and its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, fields
from enum import StrEnum
from typing import Annotated, Any, Literal

from logist.agents.courier import booking
from logist.agents.protocol import LITELLM, MODEL_AGENTS, AgentWork, Ask
from logist.core.answer import failed_calls
from logist.core.model import (
    Call,
    EffectiveSpec,
    ErrorKind,
    JsonObject,
    Model,
    Phase,
    Provider,
    Refusal,
    Reply,
    Request,
    TransportError,
)
from logist.core.money.budgets import Cost
from logist.core.text.surrogates import replace_surrogates
from logist.quick_dataclass import dataclass
from logist.quick_model import BaseModel, Field, ValidationError
from logist.quick_tuple import NamedTuple
from logist.store import Exchange, Exchanges, inflight

EMPTY = Reply()
LONGEST_NAME = 64
"""Maximum characters of a tool name; a model may invent one."""


class Ending(StrEnum):
    """Why an ask ended although the model still called tools."""

    REFUSED = "refused"
    TURNS = "turns"
    UNKNOWN_TOOLS = "unknown_tools"
    COST = "cost"
    SHARED_COST = "shared_cost"
    """The cost limit that the job shares with other jobs."""
    TIME = "time"
    FAULT = "fault"


ERRORS = {
    Ending.COST: ErrorKind.LIMIT,
    Ending.SHARED_COST: ErrorKind.SHARED_LIMIT,
    Ending.TIME: ErrorKind.TIMEOUT,
    Ending.FAULT: ErrorKind.BAD_REQUEST,
}


@dataclass(frozen=True, kw_only=True)
class AwayErrand:
    """How an ask was sent to a worker on another machine: on disk before it is sent, so that it is never sent twice."""

    number: int = 1
    """How often the ask was sent, with this time: a model that was not finished is sent again, with its turns so far."""
    cost_microcents: int | None = None
    """What the worker may spend, and what is reserved; None: no limit. Like the three below, it is set before a worker is chosen."""
    cost_tokens: int | None = None
    cost_calls: int | None = None
    limit: str = ""
    """The budget, or the job above, of which this is all that was left; empty if there was more."""
    kept: int = 0
    """How many exchanges were complete before."""
    ticket: str = ""
    """Names the task; empty until it is sent."""
    machine: str = ""
    """Names the machine to which it was sent, and to no other."""
    worker: str = ""
    """The worker, as people know it."""
    scheduler: str = ""
    sent_at: str = ""
    is_accepted: bool = False
    """Whether what came back is on disk, so that the other files are complete."""

    @classmethod
    def read(cls, data: JsonObject | None) -> AwayErrand | None:
        """Read what `data()` wrote. Raises TypeError for a field that this version doesn't know."""
        return None if data is None else cls(**data)

    def data(self) -> JsonObject:
        """Return it as JSON without fields that have their default."""
        return {
            each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default
        }

    @property
    def cost(self) -> Cost:
        """What is reserved."""
        return Cost(self.cost_microcents or 0, self.cost_tokens or 0, self.cost_calls or 0)

    @property
    def is_away(self) -> bool:
        """Whether a worker may be at work on it."""
        return bool(self.ticket) and not self.is_accepted


@dataclass(frozen=True, kw_only=True)
class RecordedAsk(Ask):
    """What `1.request` holds: an ask, and what is needed to judge and record its answer without planning it again.

    Agents get this too, but use only the fields of `Ask`.
    """

    sequence: int
    """The number of the interaction that this ask is for."""
    after: str | None = None
    """The checksum of the history entry before it; None if an earlier Logist wrote the file."""
    started: str | None = None
    phase: Phase
    output_schema: JsonObject | None = None
    """The JSON Schema for the output, from the role of a doer."""
    step: str
    attempt: int
    checkpoint_before: str
    spec: EffectiveSpec
    restored_from: str | None = None
    """For an ask that continues the turns of another: the checkpoint of the workspace before it was restored."""
    errand: AwayErrand | None = None
    """For an ask that is sent to a worker on another machine."""
    newer: JsonObject = field(default_factory=dict)
    """Fields that only a newer Logist knows."""

    @property
    def is_away(self) -> bool:
        """Whether a worker on another machine may be at work on it."""
        return self.errand is not None and self.errand.is_away

    @classmethod
    def read(cls, data: JsonObject) -> RecordedAsk:
        """Read what `data()` of this or an earlier version wrote.

        Raises KeyError, ValueError or TypeError for invalid data.
        """
        known = {each.name for each in fields(cls)}
        return cls(
            request=Request.model_validate(data["request"]),
            model=Model.model_validate(data["model"]),
            role=_text(data, "role"),
            index=data.get("index", 0),
            visit=data.get("visit", 0),
            temperature=data.get("temperature"),
            max_output_tokens=data["max_output_tokens"],
            deadline_seconds=data["deadline_seconds"],
            max_tries=data["max_tries"],
            backoff_seconds=data["backoff_seconds"],
            reserved_microcents=data.get("reserved_microcents"),
            allowance_microcents=data.get("allowance_microcents"),
            shares_limits_of=data.get("shares_limits_of"),
            min_output_tokens=data.get("min_output_tokens", 2048),
            agent=data.get("agent", LITELLM),
            provider=_provider(data),
            work=AgentWork.read(_optional(data, "work", dict) or {}),
            form=_optional(data, "form", dict),
            reask=data.get("reask", 0),
            longest_output_tokens=data.get("longest_output_tokens"),
            sequence=_number(data, "sequence", least=1),
            after=_optional(data, "after", str),
            started=_optional(data, "started", str),
            phase=_phase(data),
            output_schema=_optional(data, "output_schema", dict),
            step=_text(data, "step"),
            attempt=_number(data, "attempt", least=0),
            checkpoint_before=_text(data, "checkpoint_before"),
            spec=_spec(data),
            restored_from=_optional(data, "restored_from", str),
            errand=AwayErrand.read(_optional(data, "errand", dict)),
            newer={name: value for name, value in data.items() if name not in known},
        )

    def data(self) -> JsonObject:
        """Return the ask as JSON."""
        return {
            "sequence": self.sequence,
            "after": self.after,
            "started": self.started,
            "agent": self.agent,
            "phase": self.phase.value,
            "role": self.role,
            "output_schema": self.output_schema,
            "step": self.step,
            "attempt": self.attempt,
            "checkpoint_before": self.checkpoint_before,
            "request": self.request.model_dump(mode="json", exclude_none=True),
            "model": self.model.model_dump(mode="json"),
            **({"provider": self.provider.model_dump(mode="json")} if self.provider else {}),
            "temperature": self.temperature,
            "max_output_tokens": self.max_output_tokens,
            "deadline_seconds": self.deadline_seconds,
            "max_tries": self.max_tries,
            "backoff_seconds": self.backoff_seconds,
            "reserved_microcents": self.reserved_microcents,
            "allowance_microcents": self.allowance_microcents,
            "shares_limits_of": self.shares_limits_of,
            "min_output_tokens": self.min_output_tokens,
            "index": self.index,
            "visit": self.visit,
            "work": self.work.data(),
            **({"form": self.form} if self.form else {}),
            **({"reask": self.reask} if self.reask else {}),
            **({"longest_output_tokens": self.longest_output_tokens} if self.longest_output_tokens else {}),
            "spec": self.spec.model_dump(mode="json"),
            **({} if self.restored_from is None else {"restored_from": self.restored_from}),
            **({} if self.errand is None else {"errand": self.errand.data()}),
            **self.newer,
        }


def _text(data: JsonObject, name: str) -> str:
    if not isinstance(data[name], str):
        raise TypeError(f"{name}: expected text")
    return str(data[name])


def _optional(data: JsonObject, name: str, kind: type) -> Any:
    """Return the value of `kind`, or None; raise TypeError for anything else."""
    value = data.get(name)
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name}: expected the type {kind.__name__}")
    return value


def _spec(data: JsonObject) -> EffectiveSpec:
    try:
        return EffectiveSpec.model_validate(data["spec"])
    except ValidationError as error:
        raise ValueError(f"spec.{_summarize_error(error)}") from error


def _provider(data: JsonObject) -> Provider | None:
    stored = _optional(data, "provider", dict)
    return None if stored is None else Provider.model_validate(stored)


def _number(data: JsonObject, name: str, *, least: int) -> int:
    number = data[name]
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ValueError(f"{name}: expected an integer of at least {least}")
    return number


def _phase(data: JsonObject) -> Phase:
    phase = Phase(data["phase"])
    if not phase.is_known:
        raise ValueError("phase: unknown phase; use the newer version of Logist that wrote it")
    return phase


class AskPosition(NamedTuple):
    """The place of an ask in the history, read from files that may be invalid."""

    sequence: int | None = None
    after: object = None
    restored_from: object = None


@dataclass(frozen=True)
class Collected:
    """The files of an ask, interpreted."""

    kind: Literal["none", "not_sent", "unavailable", "unfinished", "answered", "in_doubt"]
    """`not_sent`: also if the courier knew before that it would fail, and why is in the reply. `unavailable`: the provider is not available, and nothing was answered or charged.
    `unfinished`: the model called tools, and the courier ended before it could continue.
    """
    ask: RecordedAsk | None = None
    reply: Reply = EMPTY
    """The last response, with the usage of all exchanges; if in doubt, the last exchange has its worst-case cost."""

    @property
    def outage(self) -> TransportError | None:
        """Why the provider was not available, if that is how the courier ended."""
        error = self.reply.error
        is_outage = self.kind in ("unavailable", "unfinished") and error is not None
        return error if is_outage and error is not None and error.kind is ErrorKind.OUTAGE else None


class ToolResult(BaseModel):
    """The result of one tool."""

    id: str
    name: str
    content: str
    error: bool


class End(BaseModel):
    """Why the ask ended although the model called tools."""

    kind: Ending
    message: str = ""


class Worked(BaseModel):
    """The results of the tools that one answer called."""

    results: list[ToolResult]
    refusals: list[Refusal]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    redactions: Annotated[int, Field(ge=0)]
    running: str | None = None
    """The call that is running; if set after the courier has ended, the call was interrupted."""
    end: End | None = None


def position_of(exchanges: Sequence[Exchange]) -> AskPosition:
    """Return the place in the history of the ask with these files."""
    said = (exchanges[0].request if exchanges else None) or {}
    number = said.get("sequence")
    return AskPosition(
        number if isinstance(number, int) else None, said.get("after"), said.get("restored_from")
    )


def collect_ask(exchanges: Sequence[Exchange]) -> Collected:
    """Interpret the files of an ask; only reliable while no other process holds the lock of the job.

    Raises Damaged if no ask could have written them.
    """
    if not exchanges:
        return Collected("none")
    try:
        ask = _read_ask(exchanges)
        replies = [Reply.model_validate(each.response) for each in exchanges if each.response is not None]
        _require_sound_tools(exchanges, replies)
        return _classify_exchanges(exchanges[-1], ask, replies, exchanges)
    except (KeyError, ValueError, TypeError) as error:
        folder = exchanges.folder if isinstance(exchanges, Exchanges) else None
        message = f"the record of an exchange is invalid: {_summarize_error(error)}"
        raise inflight.damaged_exchange_error(folder, message) from error


def _classify_exchanges(
    last: Exchange, ask: RecordedAsk, replies: list[Reply], exchanges: Sequence[Exchange]
) -> Collected:
    summed = _sum_replies(replies, exchanges) if replies else EMPTY
    if is_away(exchanges):
        return Collected("in_doubt", ask, _make_doubtful_reply(exchanges, summed))
    if has_gate(exchanges) and last.sent:
        # Whatever ended the run, what it has cost is recorded; the program can't continue where it was.
        return Collected("answered", ask, summed) if replies else _collect_cut_off_run(ask, exchanges)
    if last.response is None and last.sent:
        return Collected("in_doubt", ask, _make_doubtful_reply(exchanges, summed))
    if summed.error is not None and summed.error.kind is ErrorKind.OUTAGE:
        # Turns that were paid for stay in flight until the provider is available; without them, nothing is lost.
        has_paid_turns = any(each.error is None for each in replies)
        return Collected("unfinished" if has_paid_turns else "unavailable", ask, summed)
    if last.response is None:
        if not replies:
            return Collected("not_sent", ask)
        return Collected("unfinished" if replies[-1].calls else "answered", ask, summed)
    if not last.sent and last.k == 1 and summed.error is not None and ask.agent in MODEL_AGENTS:
        return Collected("not_sent", ask, summed)  # known before anything was sent
    if not replies[-1].calls:
        return Collected("answered", ask, summed)
    end = last.tools.get("end") if last.tools else None
    if last.tools and last.tools.get(
        "refusals"
    ):  # also if the courier was killed before it could write `end`
        end = end or {"kind": Ending.REFUSED}
    return (
        Collected("answered", ask, _apply_end(summed, end)) if end else Collected("unfinished", ask, summed)
    )


def has_gate(exchanges: Sequence[Exchange]) -> bool:
    """Whether these are the files of an agent program whose requests go through the gate of this machine."""
    first = (exchanges[0].request if exchanges else None) or {}
    return (
        not is_away(exchanges)
        and first.get("provider") is not None
        and first.get("agent", LITELLM) not in MODEL_AGENTS
    )


def read_errand(exchanges: Sequence[Exchange]) -> AwayErrand | None:
    """Return how these exchanges were sent to a worker; None if they were not, or can't be read."""
    first = (exchanges[0].request if exchanges else None) or {}
    try:
        return AwayErrand.read(_optional(first, "errand", dict))
    except TypeError:
        return None


def is_away(exchanges: Sequence[Exchange]) -> bool:
    """Whether a worker on another machine may be at work on the ask."""
    errand = read_errand(exchanges)
    return errand is not None and errand.is_away


def is_gate_lost(exchanges: Sequence[Exchange]) -> bool:
    """Whether a program was started with a gate, and the log of its requests is gone: it is written before the start."""
    was_started = has_gate(exchanges) and exchanges[-1].sent and exchanges[-1].response is None
    return was_started and not (isinstance(exchanges, Exchanges) and exchanges.has_gate_log)


def list_gate_requests(exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
    """Return the requests of an agent program that went through the gate."""
    return exchanges.gate if isinstance(exchanges, Exchanges) and has_gate(exchanges) else ()


def _collect_cut_off_run(ask: RecordedAsk, exchanges: Sequence[Exchange]) -> Collected:
    """Return what is known about a run of a program whose courier was killed: the cost of all requests with an answer.

    Requests that were sent and have no answer are in doubt. Without such a request, only the work of the program is cut
    off.
    """
    requests = list_gate_requests(exchanges)
    replies = [Reply.model_validate(each.response) for each in requests if each.response is not None]
    usages = [reply.usage for reply in replies]
    is_lost = is_gate_lost(exchanges)
    is_doubtful = is_lost or any(each.sent and each.response is None for each in requests)
    if is_doubtful:
        usages.append(booking.book_worst_case(read_reserved(exchanges)))
        message = "requests of the program were sent, but no answer was saved: they may have been billed"
        if is_lost:
            message = "the log of the program's requests is missing: they may have been billed"
    else:
        message = "the run was cut off; no request was open then, so its cost is known"
    reply = Reply(
        usage=booking.sum_gate_usages(usages),
        error=TransportError(kind=ErrorKind.TRANSIENT, message=message),
        redactions=sum(reply.redactions for reply in replies),
    )
    return Collected("in_doubt" if is_doubtful else "answered", ask, reply)


def _apply_end(reply: Reply, end: JsonObject) -> Reply:
    """Return the reply of an ask that ended although the model called tools."""
    kind, message = end["kind"], str(end.get("message", ""))
    if kind in (Ending.TURNS, Ending.UNKNOWN_TOOLS):
        return reply.model_copy(update={"finish": kind})
    if kind == Ending.REFUSED:
        return reply
    return reply.model_copy(update={"error": TransportError(kind=ERRORS[Ending(kind)], message=message)})


def _read_ask(exchanges: Sequence[Exchange]) -> RecordedAsk:
    """Return the ask.

    Raises KeyError, ValueError or TypeError if it, or the order of the calls, is not as Logist writes it.
    """
    for place, exchange in enumerate(exchanges, 1):
        if exchange.k != place or exchange.request is None:
            raise ValueError(f"missing the request of call {place}")
    if any(earlier.response is None for earlier in exchanges[:-1]):
        raise ValueError("a call has no answer, but another call follows it")
    ask = RecordedAsk.read(exchanges[0].request or {})
    booking.book_worst_case(ask.reserved_microcents)
    sum_reserved(list_gate_requests(exchanges))
    return ask


def _require_sound_tools(exchanges: Sequence[Exchange], replies: Sequence[Reply]) -> None:
    """Raise ValueError if the tool results are not as Logist writes them, or don't match the calls."""
    for place, exchange in enumerate(exchanges):
        calls = replies[place].calls if exchange.response is not None else ()
        if exchange.tools is not None:
            _require_fitting(calls, Worked.model_validate(exchange.tools), is_over="end" in exchange.tools)
        continues = exchange.tools is not None and exchange.tools.get("end", 0) is None
        if calls and not continues and exchange is not exchanges[-1]:
            raise ValueError(f"call {exchange.k} has tool calls without results, but another call follows it")


def _require_fitting(calls: Sequence[Call], worked: Worked, *, is_over: bool) -> None:
    count = len(worked.results) + (worked.running is not None)
    if not calls or count > len(calls) or (is_over and len(worked.results) != len(calls)):
        raise ValueError(f"{count} results for {len(calls)} tool calls")


def _summarize_error(error: Exception) -> str:
    """Summarize the error without the content of the files: that may be long, or private."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return ".".join(map(str, first["loc"])) + f": {first['msg']}"
    return f"missing {error.args[0]}" if isinstance(error, KeyError) else str(error)


def _make_doubtful_reply(exchanges: Sequence[Exchange], before: Reply) -> Reply:
    message = "the request was sent, but no answer was saved: it may have been billed"
    usage = booking.sum_usages([before.usage, booking.book_worst_case(read_reserved(exchanges))])
    error = TransportError(kind=ErrorKind.TRANSIENT, message=message)
    return before.model_copy(update={"text": "", "calls": (), "finish": None, "error": error, "usage": usage})


def read_reserved(exchanges: Sequence[Exchange]) -> int | None:
    """Return the worst-case cost of an exchange in microcents, as recorded before the exchange was sent.

    For a program with a gate, that of all requests that were sent and have no answer; without their log, all that the
    program was allowed to spend. For an ask that a worker gets, all that it may spend.
    """
    errand = read_errand(exchanges)
    if errand is not None and not errand.is_accepted:
        return errand.cost_microcents
    if is_gate_lost(exchanges):
        return (exchanges[0].request or {}).get("allowance_microcents")
    if has_gate(exchanges):
        requests = list_gate_requests(exchanges)
        return sum_reserved(each for each in requests if each.sent and each.response is None)
    last, first = exchanges[-1].request or {}, exchanges[0].request or {}
    return last.get("reserved_microcents", first.get("reserved_microcents"))


def sum_reserved(exchanges: Iterable[Exchange]) -> int:
    """Sum the worst-case costs of exchanges in microcents; unknown ones are left out."""
    return sum(int((each.request or {}).get("reserved_microcents") or 0) for each in exchanges)


def _count_failures(worked: Sequence[JsonObject]) -> JsonObject | None:
    """Count the failed calls of each tool; None if none failed."""
    results = [result for each in worked for result in each.get("results", ())]
    counts = Counter(result["name"] for result in results if failed_calls.has_failed(result))
    return {
        replace_surrogates(name)[0][:LONGEST_NAME]: count for name, count in sorted(counts.items())
    } or None


def _find_counting_reply(replies: list[Reply], exchanges: Sequence[Exchange]) -> Reply:
    """Return the last reply; the answer before it, if asking the model again has failed."""
    last = replies[-1]
    is_followed_up = any((each.request or {}).get("follow_up") for each in exchanges)
    if last.error is None or last.error.kind is ErrorKind.OUTAGE or not is_followed_up:
        return last
    answers = [reply for reply in replies if reply.error is None]
    return answers[-1] if answers and not answers[-1].calls else last


def _describe_follow_ups(exchanges: Sequence[Exchange]) -> Iterator[str]:
    """Yield what happened between the first request and the answer that counts."""
    if any((each.request or {}).get("form") is False for each in exchanges):
        yield "the provider refused the schema of the answer: asked again without it"
    for each in exchanges:
        if follow_up := (each.request or {}).get("follow_up"):
            yield f"asked again: {follow_up['fault']}"
            if error := (each.response or {}).get("error"):
                yield f"asked again without success: {error['message']}"


def _sum_replies(replies: list[Reply], exchanges: Sequence[Exchange]) -> Reply:
    """Return the last answer with the usage of all answers, and the results of their tools."""
    worked = [each.tools for each in exchanges if each.tools is not None]
    counts = Counter(call.name for reply in replies for call in reply.calls)
    usage = booking.sum_usages([reply.usage for reply in replies])
    seconds = round(usage.seconds + sum(float(each.get("seconds", 0)) for each in worked), 3)
    redactions = sum(reply.redactions for reply in replies)
    return _find_counting_reply(replies, exchanges).model_copy(
        update={
            "usage": usage.model_copy(update={"seconds": seconds}),
            "refusals": (
                *replies[-1].refusals,
                *(Refusal.model_validate(one) for each in worked for one in each.get("refusals", ())),
            ),
            "tools": {
                replace_surrogates(name)[0][:LONGEST_NAME]: count for name, count in sorted(counts.items())
            }
            or replies[-1].tools,
            "tools_failed": _count_failures(worked) or replies[-1].tools_failed,
            "redactions": redactions + sum(int(each.get("redactions", 0)) for each in worked),
            "warnings": tuple(
                dict.fromkeys(
                    [
                        *(text for reply in replies for text in reply.warnings),
                        *_describe_follow_ups(exchanges),
                    ]
                )
            ),
        }
    )
