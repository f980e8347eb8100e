"""The environment variables that hold the keys of providers. Has no imports, because commands that only read a job remove
keys from what they show.
"""

from __future__ import annotations

from collections.abc import Iterable

SHIPPED_KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "xai": "XAI_API_KEY",
}
"""The variable of each shipped provider that needs a key."""


def list_key_names(named: Iterable[str | None]) -> frozenset[str]:
    """Return the environment variables with keys: those of the shipped providers, and those that a config names."""
    return frozenset(name for name in (*SHIPPED_KEYS.values(), *named) if name)
