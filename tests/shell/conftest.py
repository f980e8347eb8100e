"""What tests of the shell need: the rights of an ordinary owner, whoever runs the tests, and an authority for TLS."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.raw_server import Authority, make_authority
from tests.shell.sandbox_bench import Bench, open_bench

VERSION = 0x20080522
OVERRIDING = (1 << 1) | (1 << 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with them root reads what is locked, and notices nothing."""


@pytest.fixture
def ordinary_owner() -> Iterator[None]:
    """Modes of files hold for this thread too, as they do for one who is not root."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(VERSION, 0)
    before, without = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    for rights in (before, without):
        assert libc.capget(header, rights) == 0
    without[
        0
    ] &= ~OVERRIDING  # of effective, permitted, inheritable, and then the higher half of each: the first
    assert libc.capset(header, without) == 0
    yield
    assert libc.capset(header, before) == 0


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A place for programs under the sandbox of the parameter, without one under bubblewrap."""
    yield from open_bench(getattr(request, "param", "bubblewrap"), tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that signs the certificates of servers on 127.0.0.1."""
    return make_authority(tmp_path_factory.mktemp("authority"))
