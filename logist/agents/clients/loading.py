"""Loads the client for an ask: the built-in one, or litellm for a provider that only litellm knows."""

from __future__ import annotations

from logist.agents.clients.answers import Client, ExchangeFailure, UnknownProvider, make_failure
from logist.agents.protocol import Ask
from logist.core.model import ErrorKind

INSTALL = "install Logist with the extra `litellm`: see Install in its README"
"""Not a `pip install` command: on PyPI, the name `logist` belongs to another project."""


def load_client(ask: Ask) -> Client:
    """Return the client for an ask. Raises any exception if litellm is needed and can't be loaded, or
    doesn't know the provider.
    """
    if ask.provider is not None:
        from logist.agents.clients.direct import DirectClient

        return DirectClient()
    from logist.agents.clients import litellm

    loaded = litellm.load_litellm()
    litellm.require_provider(loaded, ask)
    return litellm.LitellmClient(loaded)


def preload_litellm() -> None:
    """Import litellm in a process that forks couriers. Raises any exception if it can't be loaded."""
    from logist.agents.clients import litellm

    litellm.load_litellm(late_too=True)


def explain_missing(error: Exception) -> ExchangeFailure:
    """Return the failure for a client that can't be loaded, with how to install it; nothing was sent."""
    if isinstance(error, UnknownProvider):
        return make_failure(ErrorKind.BAD_REQUEST, str(error), billed=False)
    why = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    return make_failure(ErrorKind.BAD_REQUEST, f"can't import litellm ({why}); {INSTALL}", billed=False)
