"""Digests are those of hashlib, whichever implementation computes them."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from logist import digests

SIZES = [0, 1, 63, 64, 1000, 1 << 20]


@pytest.mark.parametrize("hashed", [0, 1 << 30], ids=["little", "much"])
@pytest.mark.parametrize("size", SIZES)
def test_digests_are_those_of_hashlib(monkeypatch: pytest.MonkeyPatch, hashed: int, size: int) -> None:
    monkeypatch.setattr(digests, "_hashed", hashed)
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert digests.compute_sha256(memoryview(data), b"}") == hashlib.sha256(data + b"}").hexdigest()
    started = digests.start_hash("sha1", size)
    started.update(data)
    assert started.hexdigest() == hashlib.sha1(data, usedforsecurity=False).hexdigest()


def test_a_python_without_implementations_of_its_own_uses_openssl(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_sha1", "_sha256", "_sha2"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(digests, "_find_hash", digests._find_hash.__wrapped__)
    assert digests.compute_sha256(b"a") == hashlib.sha256(b"a").hexdigest()
    assert digests.start_hash("sha1", 1).hexdigest() == hashlib.sha1(usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(("size", "loads"), [(1000, False), (1 << 20, True)])
def test_openssl_is_loaded_when_it_pays(size: int, loads: bool) -> None:
    code = (
        f"import sys; from logist.digests import compute_sha256; compute_sha256(bytes({size})); "
        "print('hashlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{loads}\n"
