"""The interface between the gate, which forwards requests, and what records them and reserves their cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from logist.agents.clients.answers import ModelAnswer
from logist.quick_dataclass import dataclass

Format = Literal["chat", "responses", "messages", "gemini"]
"""OpenAI's chat completions and responses, Anthropic's messages, Gemini's `generateContent`."""

Reason = Literal["limit", "shared_limit", "budget", "busy", "model", "request", "stopped"]
"""Why a request is not forwarded: the job's limit, a limit that jobs share, a budget, calls of other jobs that have reserved
what is left for now, another model than that of the step, a request whose cost can't be bounded or that the gate doesn't
know, a gate that ends."""


@dataclass(frozen=True)
class GateRequest:
    """What decides whether one request may be forwarded."""

    format: Format
    input_tokens: int
    """An upper bound of its input tokens, for `money.compute_highest_cost` and `money.fit_output_to_tokens`."""
    max_output_tokens: int
    """The limit of the answer that the program set, at most that of the model."""
    stream: bool


@dataclass(frozen=True)
class Admission:
    """A request that is recorded and reserved, and may be forwarded after `mark_sent`."""

    k: int
    """The number of the exchange, among those of the gate."""
    max_output_tokens: int
    """The limit of the answer that the request was recorded with: what the program asked for, or less."""
    stream_file: Path
    """Where the gate appends the answer, byte by byte as it arrives."""


@dataclass(frozen=True)
class GateRefusal:
    """A request that must not be forwarded."""

    reason: Reason
    message: str
    """One line for the program: what is the matter, and what to do next."""
    retry_after: float | None = None
    """For `busy`: seconds after which the program may ask again, if that is known."""


@dataclass(frozen=True)
class GateEnd:
    """How an exchange ended, as a client returns it: for `booking.build_reply`, which prices and redacts it."""

    answer: ModelAnswer
    """With a failure that may be billed and without tokens: book the worst case."""
    text: str
    """The text of the answer. A long one is cut: the stream file has all of it."""
    seconds: float


class GateRecorder(Protocol):
    """Records the requests of one run of a program. The gate calls all methods from several threads at once.

    The order for each exchange: `admit`, `mark_sent`, `end`. If one of them raises, the gate forwards nothing more of this
    exchange, admits no other, and keeps the exception in `SpendGate.fault`.
    """

    def admit(self, request: GateRequest, build: Callable[[int], bytes]) -> Admission | GateRefusal:
        """Reserve the highest possible cost durably and record the request, or refuse it.

        `build` returns the body as it will be forwarded, with a limit of the answer in tokens: the limit must be what
        the request asks for, or less. It may be called several times.
        """
        ...

    def mark_sent(self, k: int) -> None:
        """Record durably the request, and that it is about to be sent."""
        ...

    def end(self, k: int, end: GateEnd) -> None:
        """Record the end durably, and settle what it cost. The program gets the end of its answer after that."""
        ...

    def count_refusal(self, refusal: GateRefusal) -> None:
        """Learn of a request that was refused: by `admit`, or by the gate itself before `admit`."""
        ...
