"""SHA-256 and SHA-1 without OpenSSL, as long as there is little to hash.

`hashlib` loads OpenSSL, which takes a quarter of the time that Python needs to start. Python's own implementation is
there at once, but is five times as slow; so `hashlib` is loaded when it pays.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Literal, Protocol

_QUICKLY_HASHED = 1 << 19
"""Bytes that Python's own implementation hashes in the time that loading OpenSSL takes."""

_hashed = 0
"""Bytes hashed so far."""


class Hash(Protocol):
    """A hash that is being computed, as `hashlib` has it."""

    def update(self, data: bytes | memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


def compute_sha256(*parts: bytes | memoryview) -> str:
    """Return the SHA-256 of all parts together, in hexadecimal digits."""
    digest = start_hash("sha256", sum(map(len, parts)))
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def start_hash(algorithm: Literal["sha1", "sha256"], size: int) -> Hash:
    """Return a new hash for about `size` bytes. SHA-1 only serves to name objects, as git does."""
    global _hashed  # noqa: PLW0603 - what pays depends on all that a command hashes
    _hashed += size
    is_long = _hashed > _QUICKLY_HASHED
    return _find_hash(algorithm, is_long=is_long)(usedforsecurity=algorithm != "sha1")


@cache
def _find_hash(algorithm: str, *, is_long: bool) -> Callable[..., Hash]:
    """Return what starts a hash: Python's own implementation, unless it is too slow, or this Python has none."""
    own = () if is_long else (f"_{algorithm}", "_sha2")  # _sha2 has SHA-256 since Python 3.12
    for module in own:
        with suppress(ImportError, AttributeError):
            new_hash: Callable[..., Hash] = getattr(import_module(module), algorithm)
            return new_hash
    import hashlib  # noqa: PLC0415 - see above

    return getattr(hashlib, algorithm)  # type: ignore[no-any-return]
