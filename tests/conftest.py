"""The autouse guard: each test has a world of its own, and one that leaves it fails."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

from tests import support
from tests.guarded.sitecustomize import Fence

pytest_plugins = ["pytester"]
FENCE = Fence()
KEPT = {"LANG", "PATH", "VIRTUAL_ENV"}
HYPOTHESIS = Path(tempfile.gettempdir(), f"logist-hypothesis-{os.getuid()}")

set_hypothesis_home_dir(HYPOTHESIS)
# No wall-clock assertion, and a run on one machine is the run on every machine.
settings.register_profile("logist", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("logist")


@pytest.fixture(autouse=True)
def own_world(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A HOME, a working directory and an environment of its own; no network but loopback, no write outside."""
    home = tmp_path_factory.mktemp("home")
    roots = [str(tmp_path_factory.getbasetemp()), str(HYPOTHESIS)]
    _clean_environment(monkeypatch, home, roots)
    monkeypatch.chdir(tmp_path)
    umask = os.umask(0o022)
    FENCE.close(roots)
    yield
    trespasses = FENCE.open()
    os.umask(umask)
    assert not trespasses


def _clean_environment(monkeypatch: pytest.MonkeyPatch, home: Path, roots: list[str]) -> None:
    """Only what is named here is left: no provider's key, no setting of the person who runs the tests."""
    for name in list(os.environ):
        if name not in KEPT and not name.startswith("PYTEST_"):
            monkeypatch.delenv(name)
    for kind in ("cache", "config", "data", "state"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(home / "xdg" / kind))
    (home / "tmp").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("TEST_FENCE", os.pathsep.join(roots))


@pytest.fixture
def git_repo(tmp_path: Path) -> Path:
    """A real git repository with two commits: README.md, src/app.py, run.sh."""
    return support.make_repository(tmp_path / "repo")


@pytest.fixture
def run_logist() -> support.RunLogist:
    """Runs logist as a process: returns exit code, standard output and standard error."""
    return support.run_as_process


@pytest.fixture
def cli() -> support.RunLogist:
    """The same interface in this process: quicker."""
    return support.run_in_process
