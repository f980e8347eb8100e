"""What a client returns for one exchange with a model: its answer and tokens, or why it failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from logist.agents.protocol import Ask, Sending
from logist.core.model import Call, ErrorKind, Model, TransportError
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

MAX_TEXT = 16 * 1024 * 1024
"""Maximum characters of an answer, to limit memory; a step treats answers above 10 MB as invalid anyway."""
MAX_CALLS = 1024
"""Maximum calls of an answer that are kept; far fewer are run."""
MAX_EXTRA_CONTENT = 65_536
"""Characters of what a provider wants back with a call; longer ones are left out."""
MAX_COUNT = 1_000_000_000
"""Tokens of one exchange; a provider that reports more reports nothing of use."""
CALL_COST = 64
"""Characters that each call counts for in addition to its text: its overhead in memory and in files."""

PIECE_COST = 64
"""Characters that each piece of the arguments of a call counts for, while the answer arrives."""

LONGEST_RETRY_AFTER = 366 * 86400.0
"""Seconds of a `Retry-After` that are kept; it may be infinite."""

# The table at the top of `courier/exchange.py` says which statuses may be billed.
TIMED_OUT = frozenset({408, 504, 524})
"""A server in front of the model stopped waiting: the model may have answered, and the answer may be billed."""
TRY_AGAIN = frozenset({425, 429, 500, 502, 503, 529})
"""Rejected or failed before the answer began: nothing is billed, and a retry may work."""
NO_ACCESS = frozenset({401, 402, 403})


@dataclass(frozen=True)
class ExchangeFailure:
    """Why an exchange brought no complete answer."""

    error: TransportError
    billed: bool
    """The provider may bill it."""
    again: bool = False
    """A retry costs nothing and may work."""
    retry_after: float | None = None
    """Seconds the provider asks to wait."""


class Tokens(NamedTuple):
    """What the provider reported for one exchange."""

    read: int
    """All input tokens, including cached ones."""
    written: int
    """All output tokens, including those of reasoning."""
    cached: int = 0
    """The part of the input that was read from the provider's cache."""
    cache_written: int = 0
    """The part of the input that was written to the provider's cache."""
    reasoning: int = 0
    """The part of the output that is not in the answer."""
    reported_microcents: int | None = None
    """The cost that the provider reported; None if it reports none."""


@dataclass(frozen=True)
class ModelAnswer:
    """The end of one exchange; the pieces of its text arrived before."""

    tokens: Tokens | None = None
    """None if the provider did not report them."""
    finish: str | None = None
    failure: ExchangeFailure | None = None
    calls: tuple[Call, ...] = ()


class Client(Protocol):
    """Makes one exchange at a time, in the courier's process."""

    def call_model(
        self, ask: Ask, sending: Sending, api_key: str | None, timeout: float, on_text: Callable[[str], None]
    ) -> ModelAnswer:
        """Make one exchange, without retries; each piece of text is passed to `on_text` as it arrives.

        Never raises. `timeout` (seconds) limits a single read; the caller enforces the deadline.
        """
        ...


class CallPieces:
    """The tools that a model calls, joined from the pieces of a stream; the first `MAX_CALLS` are kept."""

    def __init__(self, most: int | None = None) -> None:
        """`most`: the characters of all arguments that are kept, for a record of them; None: all."""
        self._room = most
        self._named: dict[int, tuple[str, str]] = {}
        self._arguments: dict[int, list[str]] = {}
        self._extra_contents: dict[int, str] = {}

    def add(self, index: int, id_: str, name: str, arguments: str) -> int:
        """Add a piece of the call at `index`; return how many characters it counts for."""
        known = self._named.get(index)
        before = known or ("", "")  # some providers repeat id and name with every piece
        id_and_name = (before[0] or id_, before[1] or name)
        size = len(arguments) + sum(map(len, id_and_name)) - sum(map(len, before))
        if known is not None or len(self._named) < MAX_CALLS:
            self._named[index] = id_and_name
            pieces = self._arguments.setdefault(index, [])
            if kept := self._limit(arguments):
                pieces.append(kept)
        return size if known is not None else size + CALL_COST

    def _limit(self, arguments: str) -> str:
        if self._room is None:
            return arguments
        kept = arguments[: self._room]
        self._room = max(0, self._room - len(arguments) - PIECE_COST)
        return kept

    def add_extra_content(self, index: int, content: str) -> int:
        """Add what the provider wants back with the call at `index`, once; return how many characters it counts for."""
        is_kept = (
            index in self._named and index not in self._extra_contents and len(content) <= MAX_EXTRA_CONTENT
        )
        if is_kept:
            self._extra_contents[index] = content
        return len(content) if is_kept else 0

    def get_id(self, index: int) -> str:
        """Return the id of the call at `index`, "" if it has none."""
        return self._named.get(index, ("", ""))[0]

    def count(self) -> int:
        """Return the number of calls so far."""
        return len(self._named)

    def list_calls(self) -> tuple[Call, ...]:
        """Return the calls, in the order the model made them."""
        return tuple(
            Call(
                id=name[0],
                name=name[1],
                arguments="".join(self._arguments[index]),
                extra_content=self._extra_contents.get(index),
            )
            for index, name in sorted(self._named.items())
        )


class AnswerState:
    """What the readers of all protocols keep of an answer; `direct.AnswerReader` explains the fields."""

    def __init__(self, longest_calls: int | None = None) -> None:
        """`longest_calls`: the characters of the arguments of calls that are kept; None: all."""
        self.finish: str | None = None
        self.is_over = False
        self.error: str | None = None
        self.is_recognized = False
        self._calls = CallPieces(longest_calls)
        self._calls_size = 0

    def count_calls(self) -> int:
        """Return how many characters the tool calls so far count for."""
        return self._calls_size

    def list_calls(self) -> tuple[Call, ...]:
        """Return the calls, in the order the model made them."""
        return self._calls.list_calls()

    def _add_call_piece(self, index: int, id_: str, name: str, arguments: str) -> None:
        self._calls_size += self._calls.add(index, id_, name, arguments)

    def _keep_error(self, error: Any) -> None:
        """Keep the message of an error: a text, or an object that has one."""
        message = error.get("message") if isinstance(error, dict) else error
        self.error = str(message or "no message")


class UnknownProvider(Exception):
    """No client knows the provider of a model."""


def describe_missing_key(model: Model, api_key: str | None) -> str:
    """Return what to do if the key can't be sent, or the provider needs one that is not set.

    A model with an endpoint may need none.
    """
    wanted = model.api_key_env
    if api_key and not (api_key.isascii() and api_key.isprintable()):
        return f"the key in {wanted} has characters that can't be sent; set it again"
    if api_key or model.endpoint or not wanted:
        return ""
    return f"no API key for {model.name}: set the environment variable {wanted}"


def find_missing_key(ask: Ask, api_key: str | None) -> ExchangeFailure | None:
    """Return the failure if the provider needs a key that is not set."""
    message = describe_missing_key(ask.model, api_key)
    if not message:
        return None
    return ExchangeFailure(TransportError(kind=ErrorKind.AUTH, message=message), billed=False)


def classify_status(status: int, message: str, retry_after: float | None = None) -> ExchangeFailure:
    """Return the failure for a response that is not 200; `retry_after`: the seconds it asks to wait."""
    if status in TRY_AGAIN:
        wanted = None if retry_after is None else min(retry_after, LONGEST_RETRY_AFTER)
        error = TransportError(kind=ErrorKind.OUTAGE, message=message, http_status=status, retry_after=wanted)
        return ExchangeFailure(error, billed=False, again=True, retry_after=retry_after)
    if status in TIMED_OUT:
        return make_failure(ErrorKind.TIMEOUT, message, status, billed=True)
    if status >= 500:
        return make_failure(ErrorKind.TRANSIENT, message, status, billed=True)
    kind = ErrorKind.AUTH if status in NO_ACCESS else ErrorKind.BAD_REQUEST
    return make_failure(kind, message, status, billed=False)


def make_cut_failure(message: str) -> ExchangeFailure:
    """Return the failure for an answer that began and did not end."""
    return make_failure(ErrorKind.TRANSIENT, message, billed=True)


def make_failure(
    kind: ErrorKind, message: str, status: int | None = None, *, billed: bool
) -> ExchangeFailure:
    """Return a failure that is not tried again."""
    return ExchangeFailure(TransportError(kind=kind, message=message, http_status=status), billed=billed)


def parse_count(value: Any) -> int:
    """Return a number of tokens. Raises ValueError for what can't be one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_COUNT:
        raise ValueError("not a number of tokens")
    return int(value)


def require_text(value: Any) -> str:
    """Return a text that a provider sent. Raises TypeError if it is none."""
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value


def parse_seconds(header: str | None, sent: str | None = None) -> float | None:
    """Return the seconds that a `Retry-After` header asks to wait; None if it says nothing of use.

    `sent`: the `Date` header of the same answer. A `Retry-After` that is a date is compared with it, because the
    clocks of the two machines may differ.
    """
    try:
        return max(0.0, float(header or ""))
    except ValueError:
        until = _parse_date(header)
    now = _parse_date(sent)
    return None if until is None else max(0.0, until - (time.time() if now is None else now))


def _parse_date(header: str | None) -> float | None:
    """Return a date of HTTP in seconds since 1970, None if it is none."""
    from email.utils import mktime_tz, parsedate_tz

    parsed = parsedate_tz(header or "")
    try:
        return None if parsed is None else float(mktime_tz(parsed))
    except (ValueError, OverflowError):
        return None
