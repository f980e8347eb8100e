"""Finds what a model costs: in the table that Logist ships, else in the one of litellm, if that is installed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from logist.config.price_table import PRICE_LISTS, KnownModel
from logist.config.providers import OTHER_NAMES
from logist.core.model import PriceTier
from logist.lazy_patterns import compile_on_use

LITELLM_FILE = "model_prices_and_context_window_backup.json"
_TIER = compile_on_use(r"input_cost_per_token_above_(\d{1,6})k_tokens")


def find_known_model(provider_model: str) -> KnownModel | None:
    """Return prices and limits of `PROVIDER/MODEL`; None if neither table has the model."""
    written, _, model = provider_model.partition("/")
    provider = OTHER_NAMES.get(written, written)
    known = PRICE_LISTS[provider].models.get(model) if provider in PRICE_LISTS else None
    return known or _read_entry(_load_litellm_table(), provider_model)


def suggest_providers(model: str) -> list[str]:
    """Return `PROVIDER/MODEL` for each provider of the shipped table that has a model with this name."""
    return [f"{provider}/{model}" for provider, prices in PRICE_LISTS.items() if model in prices.models]


def has_provider(name: str) -> bool:
    """Whether a table of prices has models of a provider."""
    return name in PRICE_LISTS or any(
        isinstance(entry, dict) and _is_of_provider(entry, name) for entry in _load_litellm_table().values()
    )


@cache
def _load_litellm_table() -> Mapping[str, Any]:
    """Return litellm's table, read as a file: importing the package takes seconds. {} if there is none."""
    try:
        package = find_spec("litellm")
        folders = list(package.submodule_search_locations or ()) if package else []
        table = json.loads(Path(folders[0], LITELLM_FILE).read_bytes()) if folders else {}
    except (OSError, ValueError, ImportError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _read_entry(table: Mapping[str, Any], provider_model: str) -> KnownModel | None:
    """Return the model of litellm's table; None if it is not there, or without a price.

    The table has some models only by the name without the provider. It has the price 0 for models without a
    known price.
    """
    provider, _, model = provider_model.partition("/")
    entry = table.get(provider_model)
    if not isinstance(entry, dict):
        entry = table.get(model)
        if not isinstance(entry, dict) or not _is_of_provider(entry, provider):
            return None
    prices = _read_prices(entry, "")
    if prices is None or not any(prices.values()):
        return None
    tiers = []
    for threshold in sorted({int(match[1]) for match in map(_TIER.fullmatch, entry) if match}):
        tier_prices = _read_prices(entry, f"_above_{threshold}k_tokens")
        if tier_prices is None or threshold == 0:
            return None
        tiers.append(PriceTier(above=threshold * 1000, **tier_prices))
    window, output = (_read_count(entry, name) for name in ("max_input_tokens", "max_output_tokens"))
    return KnownModel(**prices, tiers=tuple(tiers), context_window=window, max_output_tokens=output)


def _is_of_provider(entry: Mapping[str, Any], provider: str) -> bool:
    """Whether litellm calls the model by `provider/`; it knows `vertex_ai` by names like `vertex_ai-language-models`."""
    name = str(entry.get("litellm_provider"))
    return bool(provider) and (name == provider or name.startswith((f"{provider}-", f"{provider}_")))


def _read_prices(entry: Mapping[str, Any], suffix: str) -> dict[str, Any] | None:
    """Return the prices of a tier in dollars per million tokens; None if input or output has none."""
    fresh = _read_price(entry, f"input_cost_per_token{suffix}")
    output = _read_price(entry, f"output_cost_per_token{suffix}")
    if fresh is None or output is None:
        return None
    optional = {
        "cached_price": _read_price(entry, f"cache_read_input_token_cost{suffix}"),
        # It has 0 for providers that don't charge for this separately.
        "cache_write_price": _read_price(entry, f"cache_creation_input_token_cost{suffix}") or None,
        "reasoning_price": _read_price(entry, f"output_cost_per_reasoning_token{suffix}"),
    }
    return {"input_price": fresh, "output_price": output, **optional}


def _read_price(entry: Mapping[str, Any], name: str) -> float | None:
    value = entry.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        return None
    return round(value * 1_000_000, 9)


def _read_count(entry: Mapping[str, Any], name: str) -> int | None:
    value = entry.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
