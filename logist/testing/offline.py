"""Forbids network access while recorded answers are used: creating a socket fails the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import pytest

_OFFLINE: ContextVar[bool] = ContextVar("logist_offline", default=False)
"""Set for the thread that replays; other threads of a test, such as a server, may use the network."""


@contextmanager
def forbid_network() -> Iterator[None]:
    """Inside the block, this thread must not create a socket or look up a host: the test fails at once."""
    _add_audit_hook()
    before = _OFFLINE.set(True)
    try:
        yield
    finally:
        _OFFLINE.reset(before)


@cache
def _add_audit_hook() -> None:
    """Add the audit hook. It can't be removed, so it is added only once, and only when needed."""
    sys.addaudithook(_refuse_network)


def _refuse_network(event: str, _arguments: tuple[object, ...]) -> None:
    if event.startswith("socket.") and _OFFLINE.get():
        # This is not a subclass of Exception, so no `except Exception` on the way catches it.
        raise pytest.fail.Exception(
            f"unexpected network access ({event}): recorded answers don't need the network"
        )
