"""The providers that Logist can call without another package: their addresses, keys and protocols."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from logist.config.key_names import SHIPPED_KEYS
from logist.config.sections import THIS_MACHINE, Endpoint, Name
from logist.core.model import Frozen, Model, Provider

Protocol = Literal["openai", "anthropic"]


class ProviderEntry(Frozen):
    """A provider in a config: `providers.NAME`."""

    base_url: Endpoint
    """The address before `/chat/completions`, or before `/v1/messages` for the protocol `anthropic`."""
    api_key_env: Name | None = None
    """The environment variable that holds the key; None: the provider needs no key."""
    protocol: Protocol = "openai"
    """`openai`: chat completions, which most providers offer; `anthropic`: Anthropic's messages."""


class _EntriesOnUse(Mapping[str, ProviderEntry]):
    """Providers whose models are made when they are used: a command uses one or none of them."""

    def __init__(self, written: Mapping[str, dict[str, Any]]) -> None:
        self._written = written
        self._made: dict[str, ProviderEntry] = {}

    def __getitem__(self, name: str) -> ProviderEntry:
        if name not in self._made:
            self._made[name] = ProviderEntry(**self._written[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)


SHIPPED_PROVIDERS: Mapping[str, ProviderEntry] = _EntriesOnUse(
    {
        "anthropic": {
            "base_url": "https://api.anthropic.com",
            "api_key_env": SHIPPED_KEYS["anthropic"],
            "protocol": "anthropic",
        },
        "deepseek": {"base_url": "https://api.deepseek.com/v1", "api_key_env": SHIPPED_KEYS["deepseek"]},
        "gemini": {
            "base_url": "https://generativelanguage.googleapis.com/v1beta/openai",
            "api_key_env": SHIPPED_KEYS["gemini"],
        },
        "groq": {"base_url": "https://api.groq.com/openai/v1", "api_key_env": SHIPPED_KEYS["groq"]},
        "llamacpp": {"base_url": "http://127.0.0.1:8080/v1"},
        "lmstudio": {"base_url": "http://127.0.0.1:1234/v1"},
        "mistral": {"base_url": "https://api.mistral.ai/v1", "api_key_env": SHIPPED_KEYS["mistral"]},
        "ollama": {"base_url": "http://127.0.0.1:11434/v1"},
        "openai": {"base_url": "https://api.openai.com/v1", "api_key_env": SHIPPED_KEYS["openai"]},
        "openrouter": {"base_url": "https://openrouter.ai/api/v1", "api_key_env": SHIPPED_KEYS["openrouter"]},
        "vllm": {"base_url": "http://127.0.0.1:8000/v1"},
        "xai": {"base_url": "https://api.x.ai/v1", "api_key_env": SHIPPED_KEYS["xai"]},
    }
)
OTHER_NAMES = {"hosted_vllm": "vllm", "lm_studio": "lmstudio", "ollama_chat": "ollama"}
"""Names that litellm uses for some of them."""

LOCAL = frozenset({"llamacpp", "lmstudio", "ollama", "vllm"})
"""Shipped providers that run on the user's own machine."""

_ENFORCES_FORMS = {
    **dict.fromkeys(("anthropic", "gemini", "mistral", "xai", "llamacpp", "lmstudio", "ollama", "vllm"), ""),
    "openai": r"(?!gpt-3|gpt-4$|gpt-4-)",
    "groq": r"openai/gpt-oss|moonshotai/kimi|meta-llama/llama-4",
}
"""The providers whose servers can force an answer to match a JSON Schema. The value is a regular expression for the
beginning of the names of the models that support it; it is empty if all of them do.
"""


def enforces_answer_forms(configured: Mapping[str, ProviderEntry], model: Model, agent: str) -> bool:
    """Whether the server of a model is known to force its answers to match a JSON Schema.

    An address that the user has set may belong to any server, except for servers on this machine.
    """
    name, _, wire_model = model.provider_model.partition("/")
    name = OTHER_NAMES.get(name, name)
    is_elsewhere = model.endpoint is not None or (name in configured and name not in LOCAL)
    pattern = _ENFORCES_FORMS.get(name)
    return (
        agent == "model" and not is_elsewhere and pattern is not None and bool(re.match(pattern, wire_model))
    )


def is_local_server(provider_model: str) -> bool:
    """Whether the provider of a model is a program that people run themselves, with a key or without."""
    name = provider_model.partition("/")[0]
    return OTHER_NAMES.get(name, name) in LOCAL


def is_local_without_key(configured: Mapping[str, ProviderEntry], provider_model: str) -> bool:
    """Whether a server on this machine, which needs no key, runs the model."""
    entry = find_entry(configured, provider_model)
    if entry is None or entry.api_key_env or not is_local_server(provider_model):
        return False
    return urlsplit(entry.base_url).hostname in THIS_MACHINE


def find_entry(configured: Mapping[str, ProviderEntry], provider_model: str) -> ProviderEntry | None:
    """Return the provider of `PROVIDER/MODEL`, first from the config; None if neither knows it."""
    name = provider_model.partition("/")[0] if "/" in provider_model else ""
    return configured.get(name) or SHIPPED_PROVIDERS.get(OTHER_NAMES.get(name, name))


def find_provider(configured: Mapping[str, ProviderEntry], model: Model) -> Provider | None:
    """Return where and how the built-in client calls a model; None if only litellm can call it.

    An `endpoint` of the model overrides the provider's address.
    """
    entry = find_entry(configured, model.provider_model)
    if entry is None:
        return None
    name, _, wire_model = model.provider_model.partition("/")
    base_url = (model.endpoint or entry.base_url).rstrip("/")
    return Provider(
        name=OTHER_NAMES.get(name, name), base_url=base_url, protocol=entry.protocol, model=wire_model
    )
