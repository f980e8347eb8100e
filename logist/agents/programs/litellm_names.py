"""Model names and environment variables for the programs that are built on litellm."""

from __future__ import annotations

from logist.agents.programs import reach
from logist.agents.programs.protocol import Run
from logist.core.model import Model, PriceTier

_ADDRESS = "OPENAI_API_BASE"
# The variables from which litellm reads a provider's address; set, so that no file of a workspace sets another.
_ADDRESSES = {
    "openai": (_ADDRESS, "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
}
ADDRESSES = (
    *(name for names in _ADDRESSES.values() for name in names),
    *(
        f"{name}_API_BASE"
        for name in ("XAI", "GEMINI", "OPENROUTER", "MISTRAL", "DEEPSEEK", "GROQ", "LITELLM_PROXY")
    ),
)
"""All variables of `_ADDRESSES`."""
_KEYS = {"together_ai": "TOGETHERAI_API_KEY"}


def model_name(run: Run, program: str) -> str:
    """Return `openai/MODEL` for an endpoint, so that litellm uses OpenAI's format; otherwise the name
    unchanged.
    """
    if run.model.endpoint:
        if reach.get_provider(run.model) == "anthropic":
            return run.model.provider_model
        reach.resolve_openai_address(run, program)
        return f"openai/{reach.strip_provider(run.model)}"
    if not reach.get_provider(run.model):
        raise reach.make_unreachable_error(run.model, program, "it needs `PROVIDER/MODEL` or an `endpoint`")
    return run.model.provider_model


def build_environment(run: Run, program: str) -> dict[str, str]:
    """Return the variables that set the model's address and key, and keep litellm from other network use."""
    provider = model_name(run, program).partition("/")[0]
    values = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
    values[key_variable(provider)] = reach.resolve_key(run, program)
    if run.model.endpoint:
        values |= dict.fromkeys(_ADDRESSES[provider], run.model.endpoint.rstrip("/"))
    return values


def key_variable(provider: str) -> str:
    """Return the variable from which litellm reads the key of a provider."""
    return _KEYS.get(provider, f"{provider.upper().replace('-', '_')}_API_KEY")


def build_litellm_prices(model: Model) -> dict[str, float] | None:
    """Return the prices of a model in the form of litellm's table, per token; None if they are unknown."""
    if model.input_price is None or model.output_price is None:
        return None
    prices = _convert_prices(model, "")
    for tier in model.tiers:
        prices |= _convert_prices(tier, f"_above_{tier.above / 1000:g}k_tokens")
    return prices


def _convert_prices(prices: Model | PriceTier, suffix: str) -> dict[str, float]:
    cached = prices.input_price if prices.cached_price is None else prices.cached_price
    named = {
        "input_cost_per_token": prices.input_price,
        "cache_read_input_token_cost": cached,
        "cache_creation_input_token_cost": prices.cache_write_price,
        "output_cost_per_token": prices.output_price,
        "output_cost_per_reasoning_token": prices.reasoning_price,
    }
    return {f"{name}{suffix}": price / 1_000_000 for name, price in named.items() if price is not None}
