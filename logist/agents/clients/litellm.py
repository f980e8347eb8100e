"""Calls models through litellm; only `load_litellm` imports it."""

from __future__ import annotations

import gc
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from logist.agents.clients.answers import (
    MAX_TEXT,
    CallPieces,
    ExchangeFailure,
    ModelAnswer,
    Tokens,
    UnknownProvider,
    classify_status,
    make_cut_failure,
    make_failure,
    parse_seconds,
)
from logist.agents.protocol import Ask, Sending
from logist.core.model import Call, ErrorKind
from logist.quick_dataclass import dataclass

PLACEHOLDER_KEY = "none"
"""Key for an endpoint that needs none, so that no client looks for a key elsewhere."""
COUNTS = ("prompt_tokens", "completion_tokens")

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


_LATE_IMPORTS = (
    "litellm.litellm_core_utils.default_encoding",
    "litellm.llms.litellm_proxy.chat.transformation",
    "litellm.llms.openai.chat.gpt_audio_transformation",
    "litellm.llms.openai_like.dynamic_config",
    "litellm.llms.vertex_ai.vertex_ai_partner_models.anthropic.transformation",
    "litellm.proxy.openai_files_endpoints.common_utils",
    "litellm.types.litellm_core_utils.streaming_chunk_builder_utils",
    "litellm._service_logger",
    "tiktoken_ext.openai_public",
)
"""More modules that the first call imports; these take a quarter of a second. To find those of another release,
compare `sys.modules` before and after a call."""
_LATE_MODELS = {
    "litellm.types.router": ("GenericLiteLLMParams", "LiteLLM_Params"),
    "litellm.types.services": ("ServiceLoggerPayload",),
    "litellm.types.utils": (
        "Message",
        "Choices",
        "ModelResponse",
        "Usage",
        "ModelResponseStream",
        "StreamingChoices",
        "Delta",
        "CompletionTokensDetailsWrapper",
        "PromptTokensDetailsWrapper",
    ),
    "openai.types.chat.chat_completion_chunk": ("ChatCompletionChunk", "Choice", "ChoiceDelta"),
    "openai.types.completion_usage": ("CompletionUsage",),
}
"""Pydantic models that the first call would complete, which takes a tenth of a second."""


def load_litellm(*, late_too: bool = False) -> Any:
    """Return the litellm package, silenced: no telemetry, no callbacks, no .env files, no price downloads.

    `late_too`: also load what it would load in its first call, for a process that forks couriers.

    Takes seconds. Raises ImportError if it is not installed.
    """
    os.environ.update(_ENVIRONMENT)
    gc.disable()  # garbage collection takes a tenth of the time of importing thousands of modules
    try:
        import litellm

        for name in (*_FIRST_CALL_IMPORTS, *(_LATE_IMPORTS if late_too else ())):
            with suppress(ImportError):
                import_module(name)
        if late_too:
            _complete_models()
    finally:
        gc.enable()
        gc.freeze()
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.disable_streaming_logging = True
    litellm.callbacks = []
    return litellm


def require_provider(litellm: Any, ask: Ask) -> None:
    """Raise UnknownProvider if litellm doesn't know the provider of a model: nothing is sent for that."""
    name = ask.model.provider_model
    try:
        litellm.get_llm_provider(model=name, api_base=ask.model.endpoint)
    except litellm.BadRequestError as error:
        provider = name.partition("/")[0]
        raise UnknownProvider(
            f"unknown provider `{provider}` of the model {name}: neither Logist nor litellm knows it; check the name, or "
            f"describe the provider: providers.{provider}"
        ) from error


def _complete_models() -> None:
    for module, names in _LATE_MODELS.items():
        for name in names:
            with suppress(ImportError, AttributeError):  # another release: a call completes it
                getattr(import_module(module), name).model_rebuild()


@dataclass(frozen=True)
class LitellmClient:
    """Calls models through litellm."""

    litellm: Any
    """The loaded package."""

    def call_model(
        self, ask: Ask, sending: Sending, api_key: str | None, timeout: float, on_text: Callable[[str], None]
    ) -> ModelAnswer:
        """Make one exchange; see `answers.Client`."""
        stream = None
        try:
            stream = self.litellm.completion(**_build_arguments(ask, sending, api_key, timeout))
            calls = CallPieces()
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
            make_failure(ErrorKind.TIMEOUT, message, billed=True) if timed_out else make_cut_failure(message)
        )
    response = next(filter(None, (_get_response(link) for link in chain)), None)
    if response is not None:
        wait = parse_seconds(response.headers.get("retry-after"), response.headers.get("date"))
        return classify_status(int(response.status_code), message, wait)
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
    if sending.form:
        arguments["response_format"] = {"type": "json_schema", "json_schema": dict(sending.form)}
    if ask.temperature is not None:
        arguments["temperature"] = ask.temperature
    if ask.model.endpoint is not None:
        arguments["api_base"] = ask.model.endpoint
        arguments["api_key"] = api_key or PLACEHOLDER_KEY
    elif api_key:
        arguments["api_key"] = api_key
    return arguments


def _add_pieces(calls: CallPieces, delta: Any) -> int:
    """Add the calls of one piece of the stream; return how many characters they count for."""
    return sum(
        calls.add(piece.index or 0, piece.id or "", piece.function.name or "", piece.function.arguments or "")
        for piece in getattr(delta, "tool_calls", None) or ()
    )


def _iter_text(stream: Any, calls: CallPieces) -> Iterator[str]:
    size = 0
    for chunk in stream:
        for choice in chunk.choices:
            text = choice.delta.content
            size += _add_pieces(calls, choice.delta)
            if text:
                yield text
                size += len(text)
        if size > MAX_TEXT:
            raise OverflowError(f"the answer is longer than {MAX_TEXT:,} characters")


def _build_answer(stream: Any, calls: tuple[Call, ...]) -> ModelAnswer:
    # litellm invents a `stop` if the provider sent no reason, and token counts if it sent none.
    finish = stream.received_finish_reason
    if not finish:
        return ModelAnswer(failure=make_cut_failure("the answer ended without a finish reason"))
    return ModelAnswer(tokens=_read_tokens(stream.chunks), finish=str(finish), calls=calls)


def _read_tokens(chunks: Iterable[Any]) -> Tokens | None:
    """Return the highest counts the provider sent: some report the input at
    the start and the output at the end.
    """
    usages = [usage for usage in (getattr(chunk, "usage", None) for chunk in chunks) if usage is not None]
    if not usages:
        return None
    read, written = ([int(getattr(usage, name) or 0) for usage in usages] for name in COUNTS)
    return Tokens(
        max(read),
        max(written),
        cached=max(_read_detail(usage, "prompt_tokens_details", "cached_tokens") for usage in usages),
        cache_written=max(
            _read_detail(usage, "prompt_tokens_details", "cache_creation_tokens") for usage in usages
        ),
        reasoning=max(
            _read_detail(usage, "completion_tokens_details", "reasoning_tokens") for usage in usages
        ),
    )


def _read_detail(usage: Any, part: str, name: str) -> int:
    return int(getattr(getattr(usage, part, None), name, None) or 0)


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


def _classify_without_response(
    error: BaseException, chain: list[BaseException], message: str
) -> ExchangeFailure:
    unreached = next((link for link in chain if _never_connected(link)), None)
    if unreached is not None:
        is_config = "CERTIFICATE_VERIFY_FAILED" in str(unreached) or _is_instance_named(
            unreached, "UnsupportedProtocol"
        )
        kind = ErrorKind.REFUSED if is_config else ErrorKind.OUTAGE
        return make_failure(kind, f"can't connect: {unreached}", billed=False)
    if any(_is_instance_named(link, "TimeoutException", "TimeoutError", "Timeout") for link in chain):
        return make_failure(ErrorKind.TIMEOUT, message, billed=True)
    if _is_instance_named(error, "AuthenticationError"):
        return make_failure(ErrorKind.AUTH, message, billed=False)
    if _is_instance_named(
        error, "BadRequestError", "NotFoundError"
    ):  # litellm doesn't know the provider or parameter
        return make_failure(ErrorKind.BAD_REQUEST, message, billed=False)
    return make_cut_failure(message)


def _never_connected(error: BaseException) -> bool:
    return isinstance(error, (ConnectionRefusedError, socket.gaierror)) or _is_instance_named(
        error, "ConnectError", "ConnectTimeout", "UnsupportedProtocol"
    )


def _clean_message(error: BaseException) -> str:
    """Return the provider's message, without the text that litellm adds before and after it."""
    text = _TRAILER.sub("", str(error))
    return _PREFIX.sub("", text).strip() or type(error).__name__
