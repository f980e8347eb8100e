"""The prices that Logist ships: what each provider asks for its current models, in US dollars per million tokens.

The figures were taken from the table in litellm 1.106.2, and a test compares them with the table of the litellm that
the tests use. `page` is where the provider publishes its prices.
"""

from __future__ import annotations

from collections.abc import Mapping

from logist.core.model import PriceTier
from logist.quick_tuple import NamedTuple


class KnownModel(NamedTuple):
    """What is known about a model; the fields mean the same as in `core.model.Model`."""

    input_price: float
    output_price: float
    cached_price: float | None = None
    cache_write_price: float | None = None
    reasoning_price: float | None = None
    tiers: tuple[PriceTier, ...] = ()
    context_window: int | None = None
    max_output_tokens: int | None = None
    """The most output tokens that the provider allows; None: unknown."""


class PriceList(NamedTuple):
    """The models of one provider."""

    page: str
    date: str
    """When the prices were taken."""
    models: Mapping[str, KnownModel]
    """By the name that the provider knows the model by."""


def _model(
    input_price: float,
    output_price: float,
    *,
    cached: float | None = None,
    cache_write: float | None = None,
    tiers: tuple[PriceTier, ...] = (),
    window: int,
    most: int,
) -> KnownModel:
    return KnownModel(input_price, output_price, cached, cache_write, None, tiers, window, most)


def _tier(
    above: int, input_price: float, output_price: float, *, cached: float, cache_write: float | None = None
) -> PriceTier:
    return PriceTier(
        above=above,
        input_price=input_price,
        output_price=output_price,
        cached_price=cached,
        cache_write_price=cache_write,
    )


PRICE_LISTS: Mapping[str, PriceList] = {
    "anthropic": PriceList(
        "https://docs.claude.com/en/docs/about-claude/pricing",
        "2026-11-24",
        {
            "claude-fable-5": _model(10, 50, cached=1, cache_write=12.5, window=1_000_000, most=128_000),
            "claude-fable-5-1": _model(10, 50, cached=0.25, cache_write=12.5, window=1_000_000, most=128_000),
            "claude-haiku-4-5": _model(1, 5, cached=0.1, cache_write=1.25, window=200_000, most=64_000),
            "claude-haiku-5-5": _model(
                0.1,
                0.5,
                cached=0.01,
                cache_write=0.125,
                window=1_000_000,
                most=128_000,
                tiers=(_tier(100_000, 0.5, 2.5, cached=0.05, cache_write=0.625),),
            ),
            "claude-opus-4-5": _model(5, 25, cached=0.5, cache_write=6.25, window=200_000, most=64_000),
            "claude-opus-4-6": _model(5, 25, cached=0.5, cache_write=6.25, window=1_000_000, most=128_000),
            "claude-opus-4-7": _model(5, 25, cached=0.5, cache_write=6.25, window=1_000_000, most=128_000),
            "claude-opus-4-8": _model(5, 25, cached=0.5, cache_write=6.25, window=1_000_000, most=128_000),
            "claude-opus-5": _model(5, 25, cached=0.5, cache_write=6.25, window=1_000_000, most=128_000),
            "claude-opus-5-5": _model(4, 20, cached=0.2, cache_write=5, window=1_000_000, most=128_000),
            "claude-sonnet-4-6": _model(3, 15, cached=0.3, cache_write=3.75, window=1_000_000, most=128_000),
            "claude-sonnet-5": _model(2, 10, cached=0.2, cache_write=2.5, window=1_000_000, most=128_000),
            "claude-sonnet-5-5": _model(2, 10, cached=0.1, cache_write=2.5, window=1_000_000, most=128_000),
        },
    ),
    "deepseek": PriceList(
        "https://api-docs.deepseek.com/quick_start/pricing",
        "2026-11-24",
        {
            "deepseek-v4-flash": _model(0.3, 1.2, cached=0.006, window=1_000_000, most=393_216),
            "deepseek-v4-pro": _model(1.32, 3.96, cached=0.044, window=1_000_000, most=393_216),
        },
    ),
    "gemini": PriceList(
        "https://ai.google.dev/gemini-api/docs/pricing",
        "2026-11-24",
        {
            "gemini-2.5-flash": _model(0.3, 2.5, cached=0.03, window=1_048_576, most=65_536),
            "gemini-2.5-flash-lite": _model(0.1, 0.4, cached=0.01, window=1_048_576, most=65_536),
            "gemini-2.5-pro": _model(
                1.25,
                10,
                cached=0.125,
                window=1_048_576,
                most=65_536,
                tiers=(_tier(200_000, 2.5, 15, cached=0.25),),
            ),
            "gemini-3-flash-preview": _model(0.5, 3, cached=0.05, window=1_048_576, most=65_536),
            "gemini-3.1-flash-lite": _model(0.25, 1.5, cached=0.025, window=1_048_576, most=65_536),
            "gemini-3.1-pro-preview": _model(
                2, 12, cached=0.2, window=1_048_576, most=65_536, tiers=(_tier(200_000, 4, 18, cached=0.4),)
            ),
            "gemini-3.5-flash": _model(1.5, 9, cached=0.15, window=1_048_576, most=65_536),
            "gemini-3.5-flash-lite": _model(0.3, 2.5, cached=0.03, window=1_048_576, most=65_536),
            "gemini-3.6-flash": _model(0.75, 3.75, cached=0.075, window=1_048_576, most=65_536),
            "gemini-3.7-flash": _model(0.75, 3.75, cached=0.075, window=1_048_576, most=65_536),
            "gemini-3.8-flash": _model(0.75, 3.75, cached=0.075, window=1_048_576, most=65_536),
            "gemini-4-argon": _model(2, 10, cached=0.1, window=1_048_576, most=1_048_576),
            "gemini-flash-latest": _model(0.75, 3.75, cached=0.075, window=1_048_576, most=65_536),
            "gemini-flash-lite-latest": _model(0.3, 2.5, cached=0.03, window=1_048_576, most=65_536),
            "gemini-pro-latest": _model(
                2, 12, cached=0.2, window=1_048_576, most=65_536, tiers=(_tier(200_000, 4, 18, cached=0.4),)
            ),
        },
    ),
    "groq": PriceList(
        "https://groq.com/pricing",
        "2026-11-24",
        {
            "openai/gpt-oss-120b": _model(0.15, 0.6, cached=0.075, window=131_072, most=65_536),
            "openai/gpt-oss-20b": _model(0.075, 0.3, cached=0.0375, window=131_072, most=65_536),
            "qwen/qwen3.8-27b": _model(0.8, 4, window=131_072, most=16_384),
        },
    ),
    "mistral": PriceList(
        "https://mistral.ai/pricing",
        "2026-11-24",
        {
            "codestral-latest": _model(0.3, 0.9, cached=0.03, window=128_000, most=128_000),
            "devstral-latest": _model(0.4, 2, cached=0.04, window=256_000, most=256_000),
            "devstral-medium-latest": _model(0.4, 2, cached=0.04, window=256_000, most=256_000),
            "devstral-small-latest": _model(0.1, 0.3, cached=0.01, window=256_000, most=256_000),
            "magistral-medium-latest": _model(1.5, 7.5, cached=0.15, window=262_144, most=262_144),
            "magistral-small-latest": _model(0.15, 0.6, cached=0.015, window=262_144, most=262_144),
            "ministral-14b-latest": _model(0.2, 0.2, cached=0.02, window=262_144, most=262_144),
            "ministral-3b-latest": _model(0.1, 0.1, cached=0.01, window=131_072, most=131_072),
            "ministral-8b-latest": _model(0.15, 0.15, cached=0.015, window=262_144, most=262_144),
            "mistral-large-latest": _model(0.5, 1.5, cached=0.05, window=262_144, most=262_144),
            "mistral-medium-latest": _model(1.5, 7.5, cached=0.15, window=262_144, most=262_144),
            "mistral-small-latest": _model(0.15, 0.6, cached=0.015, window=262_144, most=262_144),
        },
    ),
    "openai": PriceList(
        "https://developers.openai.com/api/docs/pricing",
        "2026-11-24",
        {
            "gpt-4.1": _model(2, 8, cached=0.5, window=1_047_576, most=32_768),
            "gpt-4.1-mini": _model(0.4, 1.6, cached=0.1, window=1_047_576, most=32_768),
            "gpt-4o": _model(2.5, 10, cached=1.25, window=128_000, most=16_384),
            "gpt-4o-mini": _model(0.15, 0.6, cached=0.075, window=128_000, most=16_384),
            "gpt-5": _model(1.25, 10, cached=0.125, window=272_000, most=128_000),
            "gpt-5-mini": _model(0.25, 2, cached=0.025, window=272_000, most=128_000),
            "gpt-5-nano": _model(0.05, 0.4, cached=0.005, window=272_000, most=128_000),
            "gpt-5.1": _model(1.25, 10, cached=0.125, window=272_000, most=128_000),
            "gpt-5.2": _model(1.75, 14, cached=0.175, window=272_000, most=128_000),
            "gpt-5.4": _model(
                2.5,
                15,
                cached=0.25,
                window=1_050_000,
                most=128_000,
                tiers=(_tier(272_000, 5, 22.5, cached=0.5),),
            ),
            "gpt-5.4-mini": _model(0.75, 4.5, cached=0.075, window=272_000, most=128_000),
            "gpt-5.4-nano": _model(0.2, 1.25, cached=0.02, window=272_000, most=128_000),
            "gpt-5.5": _model(
                5, 30, cached=0.5, window=1_050_000, most=128_000, tiers=(_tier(272_000, 10, 45, cached=1),)
            ),
            "gpt-5.6": _model(
                4,
                20,
                cached=0.4,
                cache_write=5,
                window=922_000,
                most=128_000,
                tiers=(_tier(272_000, 8, 30, cached=0.8, cache_write=10),),
            ),
            "gpt-5.6-luna": _model(
                0.2,
                1.2,
                cached=0.02,
                cache_write=0.25,
                window=922_000,
                most=128_000,
                tiers=(_tier(272_000, 0.4, 1.8, cached=0.04, cache_write=0.5),),
            ),
            "gpt-5.6-sol": _model(
                4,
                20,
                cached=0.4,
                cache_write=5,
                window=922_000,
                most=128_000,
                tiers=(_tier(272_000, 8, 30, cached=0.8, cache_write=10),),
            ),
            "gpt-5.6-terra": _model(
                2,
                12,
                cached=0.2,
                cache_write=2.5,
                window=922_000,
                most=128_000,
                tiers=(_tier(272_000, 4, 18, cached=0.4, cache_write=5),),
            ),
            "gpt-6-astra": _model(
                10,
                50,
                cached=1,
                cache_write=12.5,
                window=922_000,
                most=128_000,
                tiers=(_tier(272_000, 20, 75, cached=2, cache_write=25),),
            ),
            "gpt-6-luna": _model(
                0.1,
                0.5,
                cached=0.01,
                cache_write=0.125,
                window=922_000,
                most=128_000,
                tiers=(_tier(272_000, 0.2, 0.75, cached=0.02, cache_write=0.25),),
            ),
            "gpt-6-sol": _model(
                2,
                10,
                cached=0.2,
                cache_write=2.5,
                window=922_000,
                most=128_000,
                tiers=(_tier(272_000, 4, 15, cached=0.4, cache_write=5),),
            ),
            "gpt-6.1-sol": _model(
                2,
                10,
                cached=0.1,
                cache_write=2.5,
                window=922_000,
                most=128_000,
                tiers=(_tier(272_000, 4, 15, cached=0.2, cache_write=5),),
            ),
            "o3": _model(2, 8, cached=0.5, window=200_000, most=100_000),
        },
    ),
    "xai": PriceList(
        "https://docs.x.ai/docs/models",
        "2026-11-24",
        {
            "grok-4.20": _model(
                1.25,
                2.5,
                cached=0.2,
                window=1_000_000,
                most=1_000_000,
                tiers=(_tier(200_000, 2.5, 5, cached=0.4),),
            ),
            "grok-4.3": _model(
                1.25,
                2.5,
                cached=0.2,
                window=1_000_000,
                most=1_000_000,
                tiers=(_tier(200_000, 2.5, 5, cached=0.4),),
            ),
            "grok-4.5": _model(
                2, 6, cached=0.3, window=500_000, most=500_000, tiers=(_tier(200_000, 4, 12, cached=0.6),)
            ),
            "grok-4.6": _model(
                2, 6, cached=0.5, window=500_000, most=500_000, tiers=(_tier(200_000, 4, 12, cached=1),)
            ),
            "grok-4.7": _model(
                2, 6, cached=0.5, window=500_000, most=500_000, tiers=(_tier(200_000, 4, 12, cached=1),)
            ),
            "grok-build-0.1": _model(
                1, 2, cached=0.2, window=256_000, most=256_000, tiers=(_tier(200_000, 2, 4, cached=0.4),)
            ),
            "grok-code-fast-1": _model(
                1, 2, cached=0.2, window=256_000, most=256_000, tiers=(_tier(200_000, 2, 4, cached=0.4),)
            ),
        },
    ),
}
