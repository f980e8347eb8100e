"""Forbids network access while recorded answers replace a model: creating a socket fails the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import pytest

_OFFLINE: ContextVar[bool] = ContextVar("logist_offline", default=False)
"""Of the thread that replays: what a test's other threads do, a server say, is its own business."""


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
    """Add the audit hook. It can't be removed, so there is only one, and only if it is needed."""
    sys.addaudithook(_refuse_network)


def _refuse_network(event: str, _arguments: tuple[object, ...]) -> None:
    if event.startswith("socket.") and _OFFLINE.get():
        # Not an Exception: no handler on the way takes it for a failure of its own.
        raise pytest.fail.Exception(f"the network was used ({event}), and a recorded answer needs none")
