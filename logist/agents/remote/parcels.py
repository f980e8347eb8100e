"""Calls as bytes, for an engine that is to see nothing of them. Workers load this module, so it imports nothing of an engine."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

DONE, RAISED, UNFIT = "done", "raised", "unfit"
"""How a call has ended; the last one: a worker does not have the function."""


class _PackedCall:
    """Pickled, it is a call of `run_parcel`."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __reduce__(self) -> tuple[Callable[[bytes], bytes], tuple[bytes]]:
        return run_parcel, (self._content,)


def pack_parcel(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return a call as bytes: `pickle.loads` makes it.

    So all that Dask itself sees is of the standard library. It ends a worker that can't load the function of a task, as one
    without Logist couldn't, and its scheduler needs no Logist.
    """
    return pickle.dumps(_PackedCall(pickle.dumps((function, args, kwargs), protocol=5)), protocol=5)


def run_parcel(content: bytes) -> bytes:
    """Make a call on a worker; return its result, or what it raised: Dask would log that with the arguments."""
    try:
        function, args, kwargs = pickle.loads(content)  # noqa: S301 - who can send it could run any function anyway
    except (ModuleNotFoundError, AttributeError) as error:
        return pickle.dumps((UNFIT, str(error)))
    try:
        return pickle.dumps((DONE, function(*args, **kwargs)), protocol=5)
    except Exception as error:  # noqa: BLE001 - it is the caller's
        return pickle.dumps((RAISED, error))
