"""Reads a request for a paid answer: refuses what can't be bounded, and builds what is forwarded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from logist.agents.clients import chat
from logist.agents.clients.answers import MAX_COUNT
from logist.agents.gate.prompt_bounds import UnboundedRequest, bound_input
from logist.agents.gate.recorder import Format, GateRefusal, GateRequest
from logist.agents.gate.targets import RequestTarget
from logist.agents.programs.reach import strip_provider
from logist.agents.protocol import Ask
from logist.core.model import JsonObject

_REFUSED_FIELDS: dict[Format, dict[str, str]] = {
    "chat": {
        **dict.fromkeys(("models", "fallbacks", "route", "preset"), "other models may answer"),
        **dict.fromkeys(
            ("web_search_options", "search_parameters", "enable_search", "plugins"), "it is billed per use"
        ),
        **dict.fromkeys(("audio", "prediction"), "its tokens have other prices or no limit"),
    },
    "responses": {
        "background": "its answer is billed even if the program doesn't read it",
        "context_management": "the provider would compact the conversation, which is billed in addition",
        **dict.fromkeys(("models", "fallbacks", "route", "preset"), "other models may answer"),
        "plugins": "it is billed per use",
        "prompt": "a stored prompt may have tools that are billed per use",
    },
    "messages": {
        **dict.fromkeys(("mcp_servers", "container"), "the provider would run tools, which may be billed per use"),
        **dict.fromkeys(("speed", "inference_geo"), "the price is another one"),
        **dict.fromkeys(("models", "fallbacks"), "other models may answer"),
    },
    "gemini": {},
}  # fmt: skip
"""Fields with which a request could cost more than its tokens at the prices of the model."""
_OWN_TOOLS: dict[Format, frozenset[str]] = {
    "chat": frozenset({"function", "custom"}),
    "responses": frozenset(
        {
            *("function", "custom", "local_shell", "apply_patch", "namespace", "tool_search"),
            *("computer", "computer_use_preview", "shell"),
        }
    ),
    "messages": frozenset({"custom"}),
    "gemini": frozenset({"functionDeclarations", "computerUse"}),
}
"""Tools that the program runs, by type. What the provider runs may be billed per use."""
_ANTHROPIC_TOOLS = re.compile(r"(bash|text_editor|computer|memory)_\d{8}\Z")
_HOST_LIMITS = frozenset(
    {
        "allow_fallbacks",
        "data_collection",
        "enforce_distillable_text",
        "max_price",
        "require_parameters",
        "zdr",
    }
)
"""What a request may say in OpenRouter's `provider`: it leaves out hosts, and chooses none."""
_CHEAP_TIERS = frozenset({"auto", "default", "flex", "standard", "standard_only", "batch"})
_LIMITS: dict[Format, tuple[str, ...]] = {
    "chat": ("max_tokens", "max_completion_tokens"),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
    "gemini": ("maxOutputTokens",),
}
MOST_VALUES = 2_000_000
"""Values in the JSON of a request: each takes far more memory than its bytes."""
_LEAST_THINKING = 1024
"""The lowest `budget_tokens` that Anthropic accepts."""
_LONGEST_NAME = 100
_SNAKE = re.compile(r"_([a-z])")
_MODALITIES = {"chat": "modalities", "gemini": "responseModalities"}


class RequestRefused(Exception):
    """A request that is not forwarded."""

    def __init__(self, message: str, reason: str = "request") -> None:
        super().__init__(message)
        self.refusal = GateRefusal("model" if reason == "model" else "request", message)


class PaidRequest:
    """A request that may be forwarded, if the limits allow its cost."""

    def __init__(self, ask: Ask, target: RequestTarget, data: bytes) -> None:
        """Raises RequestRefused."""
        self.ask, self.target = ask, target
        self.max_output_tokens = 0
        self.hides_usage = False
        """Whether the program didn't ask for the usage in the stream, so it doesn't get it."""
        self._built: tuple[int, bytes] | None = None
        with _refuse_odd_forms():
            self._read(data)

    def _read(self, data: bytes) -> None:
        target = self.target
        self._body = parse_body(data)
        if target.format == "gemini":
            self._body = _normalize_gemini(self._body)
        if not isinstance(self._body.get("stream"), bool | None):
            raise RequestRefused("`stream` must be true or false")
        self.stream = target.stream or self._body.get("stream") is True
        self._check_model()
        _check_fields(target.format, self._body)
        _check_tools(target.format, self._body)
        self._shorten_caching()
        self._choose_usual_tier()
        if target.format == "chat" and self.stream:
            self._ask_for_usage()
        self.max_output_tokens = self._read_limit()

    def describe(self) -> GateRequest:
        """Return what decides whether it may be forwarded. Raises RequestRefused if nothing bounds its cost."""
        model, size = self.ask.model, self.measure()
        try:
            with _refuse_odd_forms():
                tokens = bound_input(self.target.format, self._body, size, model.context_window)
        except UnboundedRequest as error:
            advice = f"; set models.{model.name}.context_window" if "context window" in str(error) else ""
            raise RequestRefused(f"the cost of this request can't be bounded: {error}{advice}") from None
        return GateRequest(self.target.format, tokens, self.max_output_tokens, self.stream)

    def build(self, max_output_tokens: int) -> bytes:
        """Return the body to forward, with this limit of the answer."""
        limit = min(max_output_tokens, self.max_output_tokens)
        if self._built is None or self._built[0] != limit:
            self._built = limit, encode_body(self._body | self._build_limits(limit))
        return self._built[1]

    def take_body(self, max_output_tokens: int) -> bytes:
        """Return the body to forward, and forget the request: it may be large, and its answer may take long."""
        body = self.build(max_output_tokens)
        self._body, self._built = {}, None
        return body

    def measure(self) -> int:
        """Return how many bytes are forwarded, as the program asked for them."""
        return len(self.build(self.max_output_tokens))

    def _choose_usual_tier(self) -> None:
        """Ask OpenAI for the usual prices: without a tier, or with `auto`, it uses that of the settings of the account, which may
        cost more.
        """
        assert self.ask.provider is not None
        if self.target.format not in ("chat", "responses") or self.ask.provider.name != "openai":
            return
        tier = self._body.get("service_tier")
        # A server that imitates OpenAI may not know the field.
        if tier == "auto" or (tier is None and self.ask.model.endpoint is None):
            self._body["service_tier"] = "default"

    def _check_model(self) -> None:
        assert self.ask.provider is not None
        wanted = self.target.model or self._body.get("model")
        check_model(self.ask, wanted)
        if not self.target.model:
            self._body["model"] = self.ask.provider.model

    def _ask_for_usage(self) -> None:
        assert self.ask.provider is not None
        fields = chat.ask_for_usage(self.ask.provider)
        if wanted := fields.get("stream_options"):
            options = self._body.get("stream_options")
            options = options if isinstance(options, dict) else {}
            self.hides_usage = options.get("include_usage") is not True
            fields["stream_options"] = options | wanted
        self._body |= fields

    def _read_limit(self) -> int:
        fields = self._get_limit_fields()
        limits = [self._check_limit(name, fields[name]) for name in self._list_limits()]
        return min(limits) if limits else self.ask.model.max_output_tokens

    def _check_limit(self, name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
            raise RequestRefused(f"`{name}` must be a whole number from 1 to {MAX_COUNT:,}")
        return value

    def _get_limit_fields(self) -> JsonObject:
        """Return the object with the limit."""
        if self.target.format != "gemini":
            return self._body
        config: JsonObject = self._body.get("generationConfig") or {}
        return config

    def _list_limits(self) -> list[str]:
        """Return the fields with a limit that the request has."""
        fields = self._get_limit_fields()
        return [name for name in _LIMITS[self.target.format] if fields.get(name) is not None]

    def _build_limits(self, limit: int) -> JsonObject:
        default = (
            chat.get_limit_field(self.ask) if self.target.format == "chat" else _LIMITS[self.target.format][0]
        )
        limits: JsonObject = dict.fromkeys(self._list_limits() or [default], limit)
        if self.target.format == "gemini":
            return {"generationConfig": self._get_limit_fields() | limits}
        thinking = self._body.get("thinking")
        if self.target.format == "messages" and isinstance(thinking, dict):
            budget = thinking.get("budget_tokens")
            if isinstance(budget, int) and budget >= limit:  # Anthropic wants less than the limit
                limits["thinking"] = thinking | {"budget_tokens": max(_LEAST_THINKING, limit // 2)}
        return limits

    def _shorten_caching(self) -> None:
        """Let the provider cache for the usual time: a longer one costs more than the price in the config."""
        if self.target.format != "gemini":
            for control in _find_cache_controls(self._body):
                control.pop("ttl", None)


@contextmanager
def _refuse_odd_forms() -> Iterator[None]:
    """Refuse a request with a text where a list belongs, and so on: the provider would refuse it, too."""
    try:
        yield
    except (TypeError, AttributeError, KeyError, RecursionError) as error:
        raise RequestRefused(f"the request has an unexpected form: {error}") from None


def parse_body(data: bytes) -> JsonObject:
    """Return the JSON object in the body of a request. Raises RequestRefused for anything else."""
    if sum(map(data.count, (b"[", b"{", b","))) > MOST_VALUES:
        raise RequestRefused(f"the request has more than {MOST_VALUES:,} values")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(f"the request is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise RequestRefused("the request must be a JSON object")
    return body


def encode_body(body: JsonObject) -> bytes:
    """Return a body as it is sent: what was read from it is what the provider reads, also if names were repeated."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
    except (ValueError, RecursionError) as error:
        raise RequestRefused(f"the request is not valid JSON: {error}") from None


def check_model(ask: Ask, wanted: Any) -> None:
    """Raise RequestRefused if a request is for another model than that of the step."""
    model, provider = ask.model, ask.provider
    assert provider is not None
    allowed = {provider.model, model.name, model.provider_model, strip_provider(model)}
    if not isinstance(wanted, str) or wanted not in allowed:
        shown = f"`{wanted[:_LONGEST_NAME]}`" if isinstance(wanted, str) else "no model"
        raise RequestRefused(f"this step may only call the model `{provider.model}`, not {shown}", "model")


def _check_fields(form: Format, body: JsonObject) -> None:
    for name, why in _REFUSED_FIELDS[form].items():
        # An empty object is not nothing: `web_search_options: {}` turns the search on.
        if body.get(name) not in (None, False, "", []):
            raise RequestRefused(f"`{name}` is not possible here: {why}")
    config = body.get("generationConfig") if form == "gemini" else body
    config = {} if config is None else config
    if not isinstance(config, dict):
        raise RequestRefused("`generationConfig` must be an object")
    for name in ("n", "best_of", "candidateCount"):
        if config.get(name) not in (None, 1):
            raise RequestRefused(f"`{name}` must be 1: each further answer is billed")
    modalities = config.get(_MODALITIES.get(form, ""))
    if modalities and [str(each).lower() for each in modalities] != ["text"]:
        raise RequestRefused("only text is possible here: other answers have other prices")
    tier = body.get("service_tier", body.get("serviceTier"))
    if tier is not None and tier not in _CHEAP_TIERS:
        raise RequestRefused("`service_tier` is not possible here: the price is another one")
    if _chooses_host(body.get("provider")):
        raise RequestRefused("`provider` can't choose hosts here: other hosts of the model have other prices")
    management = body.get("context_management")
    if form == "messages" and management is not None and "compact" in json.dumps(management):
        raise RequestRefused(
            f"`context_management` is not possible here: {_REFUSED_FIELDS['responses']['context_management']}"
        )


def _chooses_host(provider: Any) -> bool:
    """Whether a request says which hosts of a model may answer, by what matters more than their price."""
    if not isinstance(provider, dict):
        return bool(provider)
    wishes = {name: value for name, value in provider.items() if name not in _HOST_LIMITS and value}
    return bool(wishes) and wishes != {"sort": "price"}


def _check_tools(form: Format, body: JsonObject) -> None:
    tools = body.get("tools")
    if tools is None:
        return
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise RequestRefused("`tools` must be a list of objects")
    for tool in tools:
        for kind in tool if form == "gemini" else _list_tool_types(form, tool):
            if kind not in _OWN_TOOLS[form] and not (form == "messages" and _ANTHROPIC_TOOLS.match(kind)):
                raise RequestRefused(
                    f"the tool `{kind[:_LONGEST_NAME]}` runs at the provider, which may bill each use: turn it off in the program"
                )


def _list_tool_types(form: Format, tool: JsonObject) -> Iterator[str]:
    kind = tool.get("type")
    environment = tool.get("environment")
    is_hosted = isinstance(environment, dict) and environment.get("type") not in (None, "local")
    yield (
        f"{kind} in a container"
        if is_hosted
        else str(kind or ("custom" if form == "messages" else "function"))
    )
    inner = tool.get("tools") if kind == "namespace" else None
    for each in inner if isinstance(inner, list) else ():
        if isinstance(each, dict):
            yield from _list_tool_types(form, each)


def _find_cache_controls(value: Any, depth: int = 8) -> Iterator[JsonObject]:
    """Yield the settings of the cache in a body; they are near its root."""
    if isinstance(value, dict):
        control = value.get("cache_control")
        if isinstance(control, dict):
            yield control
    if depth:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for each in inner:
            yield from _find_cache_controls(each, depth - 1)


def _normalize_gemini(body: JsonObject) -> JsonObject:
    """Return the body with the names that Gemini prefers: it also reads `generation_config`, and so on."""
    body = _camelize(body)
    for name in ("generationConfig", "systemInstruction"):
        if isinstance(body.get(name), dict):
            body[name] = _camelize(body[name])
    if isinstance(body.get("tools"), list):
        body["tools"] = [_camelize(tool) if isinstance(tool, dict) else tool for tool in body["tools"]]
    contents = body.get("contents")
    for entry in [*(contents if isinstance(contents, list) else [contents]), body.get("systemInstruction")]:
        if isinstance(entry, dict):
            _normalize_parts(entry)
    return body


def _normalize_parts(holder: JsonObject) -> None:
    parts = holder.get("parts")
    if isinstance(parts, dict):  # Gemini reads a single part as a list
        parts = [parts]
    if isinstance(parts, list):
        holder["parts"] = [_normalize_part(part) for part in parts]


def _normalize_part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    part = _camelize(part)
    for name in ("inlineData", "fileData", "functionResponse"):
        if isinstance(part.get(name), dict):
            part[name] = _camelize(part[name])
    if isinstance(part.get("functionResponse"), dict):
        _normalize_parts(part["functionResponse"])
    return part


def _camelize(fields: JsonObject) -> JsonObject:
    return {_SNAKE.sub(lambda match: match[1].upper(), name): value for name, value in fields.items()}
