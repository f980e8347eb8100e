"""How a program reaches a model: its name, its address and its key, in the form the program expects."""

from __future__ import annotations

from urllib.parse import urlsplit

from logist.agents.programs.protocol import Run
from logist.core.model import Model
from logist.errors import InvalidFile

NO_KEY = "none"
"""Key for an endpoint that needs none: without a key, programs ask for a login or search for a key elsewhere."""

# The providers' own endpoints for OpenAI's chat format.
CHAT = {
    "openai": "https://api.openai.com/v1",
    "xai": "https://api.x.ai/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "openrouter": "https://openrouter.ai/api/v1",
    "mistral": "https://api.mistral.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "groq": "https://api.groq.com/openai/v1",
}
RESPONSES = {"openai": CHAT["openai"], "xai": CHAT["xai"]}
ANTHROPIC = {"anthropic": "https://api.anthropic.com"}
GEMINI = {"gemini": "https://generativelanguage.googleapis.com"}
OTHER_FORMATS = frozenset({"anthropic", "gemini", "vertex_ai", "bedrock", "sagemaker", "cohere", "azure"})
"""Providers whose own endpoints, as litellm uses them, don't use OpenAI's formats."""
_VERSIONS = ("/v1", "/v1beta", "/v1beta/openai")


def get_provider(model: Model) -> str:
    """Return the provider of a model, as litellm spells it; "" without one."""
    return model.provider_model.partition("/")[0] if "/" in model.provider_model else ""


def strip_provider(model: Model) -> str:
    """Return the name of a model without its provider."""
    return model.provider_model.partition("/")[2] or model.provider_model


def resolve_openai_address(run: Run, program: str, public: dict[str, str] = CHAT) -> str:
    """Return the address for OpenAI's format, including `/v1`.

    Raises InvalidFile if this model doesn't support it.
    """
    if run.model.endpoint and get_provider(run.model) in OTHER_FORMATS:
        raise make_unreachable_error(
            run.model, program, "it uses OpenAI's format, but this endpoint uses another"
        )
    return resolve_address(run, program, public)


def resolve_address(run: Run, program: str, public: dict[str, str]) -> str:
    """Return the model's endpoint, or the provider's own. Raises InvalidFile
    if the program supports neither.
    """
    if run.model.endpoint:
        return run.model.endpoint.rstrip("/")
    if get_provider(run.model) not in public:
        known = ", ".join(sorted(public))
        raise make_unreachable_error(
            run.model, program, f"without an `endpoint`, it supports only the providers {known}"
        )
    return public[get_provider(run.model)]


def resolve_key(run: Run, program: str) -> str:
    """Return the API key; a placeholder for an endpoint without a key.

    Raises InvalidFile if the provider needs a key and none is set.
    """
    if run.api_key:
        return run.api_key
    if run.model.endpoint:
        return NO_KEY
    wanted = run.model.api_key_env
    fix = (
        f"set the environment variable {wanted}"
        if wanted
        else "set `api_key_env` to the name of its environment variable"
    )
    raise InvalidFile(
        f"missing API key for {run.model.name}, needed by {program}",
        where=locate_in_config(run.model),
        fix=fix,
    )


def strip_version(base: str) -> str:
    """Return an address without the version at its end, for programs that add it themselves."""
    for version in sorted(_VERSIONS, key=len, reverse=True):
        if base.endswith(version):
            return base.removesuffix(version)
    return base


def split_host_and_path(base: str) -> tuple[str, str]:
    """Split `https://host:1/api/v1` into `https://host:1` and `api/v1`."""
    parts = urlsplit(base)
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def locate_in_config(model: Model) -> str:
    """Return where a model is configured, for errors."""
    return f"config.yaml: models.{model.name}"


def make_unreachable_error(model: Model, program: str, why: str) -> InvalidFile:
    """Return the error for a program that can't work with a model."""
    fix = "set an `endpoint` that the agent supports, or choose another agent or model"
    message = f"{program} can't use `{model.provider_model}`: {why}"
    return InvalidFile(message, where=locate_in_config(model), fix=fix)


def format_dollars(microcents: int) -> str:
    """Format an amount as US dollars, for a limit: rounded down, and never 0."""
    return f"{max(1, microcents // 100) / 1_000_000:.6f}"
