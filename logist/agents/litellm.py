"""One exchange with a model through litellm; only the courier calls it,
and only `load_litellm` imports litellm.
"""

from __future__ import annotations

import gc
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from logist.agents.protocol import Ask, Sending
from logist.core.model import Call, ErrorKind, TransportError

INSTALL = "install Logist with the extra `litellm`: see Install in its README"
"""Not a `pip install` command: on PyPI, the name `logist` belongs to another project."""
PLACEHOLDER_KEY = "none"
"""Key for an endpoint that needs none, so that no client looks for a key elsewhere."""
MAX_TEXT = 16 * 1024 * 1024
"""Maximum characters of an answer, to limit memory; a step treats answers above 10 MB as invalid anyway."""
MAX_CALLS = 1024
"""Maximum calls of an answer that are kept; far fewer are run."""
CALL_COST = 64
"""Characters that each call counts for in addition to its text: its overhead in memory and in files."""

COUNTS = ("prompt_tokens", "completion_tokens")

# The table at the top of `courier/exchange.py` says which statuses may be billed.
TIMED_OUT = frozenset({408, 504, 524})
"""A server in front of the model stopped waiting: the model may have answered, and the answer may be billed."""
TRY_AGAIN = frozenset({425, 429, 500, 502, 503, 529})
"""Rejected or failed before the answer began: nothing is billed, and a retry may work."""
NO_ACCESS = frozenset({401, 402, 403})

# As in `litellm.RateLimitError: RateLimitError: OpenAIException - slow down`.
_PREFIX = re.compile(r"\Alitellm\.(?:[\w.]+: )+(?:\w+ - )?")
_TRAILER = re.compile(r" (?:Original exception|Error_str): .*\Z", re.DOTALL)

_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # otherwise the import downloads prices
    "LITELLM_MODE": "PRODUCTION",  # otherwise the import searches parent directories for a .env file
    "LITELLM_TELEMETRY": "False",
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}


_FIRST_CALL_IMPORTS = ("openai.resources.chat", "httpcore", "litellm.proxy._types")
"""Modules that the first call would import, which takes half a second: import them before `sent` is written, so that
a kill is less likely to leave a call in doubt."""


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
    """Token counts of the provider."""

    read: int
    """All input tokens, including cached ones."""
    written: int
    cached: int = 0


@dataclass(frozen=True)
class ModelAnswer:
    """The end of one exchange; the pieces of its text arrived before."""

    tokens: Tokens | None = None
    """None if the provider did not report them."""
    finish: str | None = None
    failure: ExchangeFailure | None = None
    calls: tuple[Call, ...] = ()


def load_litellm() -> Any:
    """Return the litellm package, silenced: no telemetry, no callbacks, no .env files, no price downloads.

    Takes seconds. Raises ImportError if it is not installed.
    """
    os.environ.update(_ENVIRONMENT)
    gc.disable()  # garbage collection takes a tenth of the time of importing thousands of modules
    try:
        import litellm

        for name in _FIRST_CALL_IMPORTS:
            with suppress(ImportError):
                import_module(name)
    finally:
        gc.enable()
        gc.freeze()
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.disable_streaming_logging = True
    litellm.callbacks = []
    return litellm


def explain_missing(error: ImportError) -> ExchangeFailure:
    """Return the failure for a missing or broken litellm, with how to install it; nothing was sent."""
    message = f"can't import litellm ({error}); {INSTALL}"
    return ExchangeFailure(TransportError(kind=ErrorKind.BAD_REQUEST, message=message), billed=False)


def find_missing_key(ask: Ask, api_key: str | None) -> ExchangeFailure | None:
    """Return the failure if the provider needs a key that is not set; None for a model with an endpoint."""
    wanted = ask.model.api_key_env
    if api_key or ask.model.endpoint or not wanted:
        return None
    message = f"no API key for {ask.model.name}: set the environment variable {wanted}"
    return ExchangeFailure(TransportError(kind=ErrorKind.AUTH, message=message), billed=False)


def call_model(
    litellm: Any,
    ask: Ask,
    sending: Sending,
    api_key: str | None,
    timeout: float,
    on_text: Callable[[str], None],
) -> ModelAnswer:
    """Make one exchange, without retries; each piece of text is passed to `on_text` as it arrives. Never
    raises.

    `timeout` (seconds) limits a single read: litellm has no limit for the exchange, so the caller enforces the
    deadline.
    """
    stream = None
    try:
        stream = litellm.completion(**_build_arguments(ask, sending, api_key, timeout))
        calls = StreamedCalls()
        for text in _iter_text(stream, calls):
            on_text(text)
        return _build_answer(stream, calls.list_calls())
    except Exception as error:  # noqa: BLE001  its clients raise any exception, even bare Exception
        return ModelAnswer(failure=classify_failure(error, started=stream is not None))


def classify_failure(error: BaseException, *, started: bool) -> ExchangeFailure:
    """Return what an exception of litellm means. `started`: the stream had been opened."""
    chain = list(_iter_causes(error))
    message = _clean_message(error)
    if started:
        timed_out = any(_is_instance_named(link, "TimeoutException", "TimeoutError") for link in chain)
        return (
            _make_failure(ErrorKind.TIMEOUT, message, billed=True)
            if timed_out
            else _make_cut_failure(message)
        )
    response = next(filter(None, (_get_response(link) for link in chain)), None)
    if response is not None:
        return _classify_status(response, message)
    return _classify_without_response(error, chain, message)


def _build_arguments(ask: Ask, sending: Sending, api_key: str | None, timeout: float) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": ask.model.provider_model,
        "messages": list(sending.messages),
        "max_tokens": sending.max_output_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "timeout": timeout,
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,
    }
    if sending.tools:
        arguments["tools"] = list(sending.tools)
        arguments["tool_choice"] = "auto" if sending.may_call else "none"
        arguments["_skip_mcp_handler"] = (
            True  # the locked release needs a package for this that it does not install
        )
    if ask.temperature is not None:
        arguments["temperature"] = ask.temperature
    if ask.model.endpoint is not None:
        arguments["api_base"] = ask.model.endpoint
        arguments["api_key"] = api_key or PLACEHOLDER_KEY
    elif api_key:
        arguments["api_key"] = api_key
    return arguments


class StreamedCalls:
    """The tools that a model calls, joined from the pieces of a stream; the first `MAX_CALLS` are kept."""

    def __init__(self) -> None:
        self._named: dict[int, tuple[str, str]] = {}
        self._arguments: dict[int, list[str]] = {}

    def add_delta(self, delta: Any) -> int:
        """Add the calls of one piece of the stream; return how many characters they count for."""
        return sum(self._add_piece(piece) for piece in getattr(delta, "tool_calls", None) or ())

    def _add_piece(self, piece: Any) -> int:
        index, function = piece.index or 0, piece.function
        arguments = function.arguments or ""
        known = self._named.get(index)
        before = known or ("", "")  # some providers repeat id and name with every piece
        id_and_name = (before[0] or piece.id or "", before[1] or function.name or "")
        size = len(arguments) + sum(map(len, id_and_name)) - sum(map(len, before))
        if known is not None or len(self._named) < MAX_CALLS:
            self._named[index] = id_and_name
            self._arguments.setdefault(index, []).append(arguments)
        return size if known is not None else size + CALL_COST

    def list_calls(self) -> tuple[Call, ...]:
        """Return the calls, in the order the model made them."""
        return tuple(
            Call(id=name[0], name=name[1], arguments="".join(self._arguments[index]))
            for index, name in sorted(self._named.items())
        )


def _iter_text(stream: Any, calls: StreamedCalls) -> Iterator[str]:
    size = 0
    for chunk in stream:
        for choice in chunk.choices:
            text = choice.delta.content
            size += calls.add_delta(choice.delta)
            if text:
                yield text
                size += len(text)
        if size > MAX_TEXT:
            raise OverflowError(f"the answer is longer than {MAX_TEXT:,} characters")


def _build_answer(stream: Any, calls: tuple[Call, ...]) -> ModelAnswer:
    # litellm invents a `stop` if the provider sent no reason, and token counts if it sent none.
    finish = stream.received_finish_reason
    if not finish:
        return ModelAnswer(failure=_make_cut_failure("the answer ended without a finish reason"))
    return ModelAnswer(tokens=_read_tokens(stream.chunks), finish=str(finish), calls=calls)


def _read_tokens(chunks: Iterable[Any]) -> Tokens | None:
    """Return the highest counts the provider sent: some report the input at
    the start and the output at the end.
    """
    usages = [usage for usage in (getattr(chunk, "usage", None) for chunk in chunks) if usage is not None]
    if not usages:
        return None
    read, written = ([int(getattr(usage, name) or 0) for usage in usages] for name in COUNTS)
    cached = [_read_cached(usage) for usage in usages]
    return Tokens(max(read), max(written), max(cached))


def _read_cached(usage: Any) -> int:
    details = getattr(usage, "prompt_tokens_details", None)
    return int(getattr(details, "cached_tokens", None) or 0)


def _iter_causes(error: BaseException | None) -> Iterator[BaseException]:
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_instance_named(error: BaseException, *names: str) -> bool:
    """Whether the error's class, or a base of it, has one of these names:
    its module can't be imported here.
    """
    return any(kind.__name__ in names for kind in type(error).__mro__)


def _get_response(error: BaseException) -> Any:
    """Return the HTTP response of a client library's error; the responses in litellm's own exceptions are invented."""
    if not _is_instance_named(error, "HTTPStatusError"):
        return None
    return getattr(error, "response", None)


def _classify_status(response: Any, message: str) -> ExchangeFailure:
    status = int(response.status_code)
    if status in TRY_AGAIN:
        wait = _parse_seconds(response.headers.get("retry-after"))
        error = TransportError(kind=ErrorKind.TRANSIENT, message=message, http_status=status)
        return ExchangeFailure(error, billed=False, again=True, retry_after=wait)
    if status in TIMED_OUT:
        return _make_failure(ErrorKind.TIMEOUT, message, status, billed=True)
    if status >= 500:
        return _make_failure(ErrorKind.TRANSIENT, message, status, billed=True)
    kind = ErrorKind.AUTH if status in NO_ACCESS else ErrorKind.BAD_REQUEST
    return _make_failure(kind, message, status, billed=False)


def _classify_without_response(
    error: BaseException, chain: list[BaseException], message: str
) -> ExchangeFailure:
    unreached = next((link for link in chain if _never_connected(link)), None)
    if unreached is not None:
        return _make_failure(ErrorKind.REFUSED, f"can't connect: {unreached}", billed=False)
    if any(_is_instance_named(link, "TimeoutException", "TimeoutError", "Timeout") for link in chain):
        return _make_failure(ErrorKind.TIMEOUT, message, billed=True)
    if _is_instance_named(error, "AuthenticationError"):
        return _make_failure(ErrorKind.AUTH, message, billed=False)
    if _is_instance_named(
        error, "BadRequestError", "NotFoundError"
    ):  # litellm doesn't know the provider or parameter
        return _make_failure(ErrorKind.BAD_REQUEST, message, billed=False)
    return _make_cut_failure(message)


def _never_connected(error: BaseException) -> bool:
    return isinstance(error, (ConnectionRefusedError, socket.gaierror)) or _is_instance_named(
        error, "ConnectError", "ConnectTimeout", "UnsupportedProtocol"
    )


def _make_cut_failure(message: str) -> ExchangeFailure:
    return _make_failure(ErrorKind.TRANSIENT, message, billed=True)


def _make_failure(
    kind: ErrorKind, message: str, status: int | None = None, *, billed: bool
) -> ExchangeFailure:
    return ExchangeFailure(TransportError(kind=kind, message=message, http_status=status), billed=billed)


def _clean_message(error: BaseException) -> str:
    """Return the provider's message, without the text that litellm adds before and after it."""
    text = _TRAILER.sub("", str(error))
    return _PREFIX.sub("", text).strip() or type(error).__name__


def _parse_seconds(header: str | None) -> float | None:
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None
