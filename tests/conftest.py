"""The autouse guard: each test has a world of its own, and one that leaves it fails."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Generator, Iterator
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings
from hypothesis.configuration import set_hypothesis_home_dir

from tests import support
from tests.guarded.sitecustomize import Fence

pytest_plugins = ["pytester"]
FENCE = Fence()
KEPT = {"LANG", "PATH", "VIRTUAL_ENV"}
HYPOTHESIS = Path(tempfile.gettempdir(), f"logist-hypothesis-{os.getuid()}")
TORTURE = support.ROOT / "tests" / "torture"
"""Kills, cuts and floods, and the tests of what makes them: all are `deep`, and on a disk."""
DISK = os.environ.get("LOGIST_TEST_DISK", "")
"""A directory on a disk, where TMPDIR is in memory; scripts/test sets it."""
LONGEST_ID = 60
"""Characters of one parameter in the name of a test."""

set_hypothesis_home_dir(HYPOTHESIS)
# No wall-clock assertion; and the default run has the same examples on every machine.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True, max_examples=20)
# scripts/test --deep: other examples each time, from the one seed that it prints. A database of earlier
# failures would make two runs with the same seed differ.
settings.register_profile("random", deadline=None, derandomize=False, database=None)
settings.load_profile("repeatable")

_homes = itertools.count()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a parameter by its value where pytest would only number it, and shorten what fills a screen."""
    if val is None or isinstance(val, bool | float | Enum | type) or callable(val):
        return None
    # Unlike what pytest derives itself, an id from this hook isn't escaped.
    if isinstance(val, str | bytes | int):
        text = val.encode("unicode_escape").decode() if isinstance(val, str) else str(val)
        return None if len(text) <= LONGEST_ID else _shorten(text)
    try:
        text = json.dumps(val)
    except RecursionError:
        return None
    except (TypeError, ValueError):
        text = ascii(val)
        # xdist needs the same ids in each worker: no address, and no set, whose order differs.
        if " at 0x" in text or "set(" in text or re.search(r"\{[^{}:]+\}", text):
            return None
    return _shorten(text)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_ID else text[: LONGEST_ID - 3] + "..."


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests `deep` that say so in another way, before pytest selects by marks."""
    products: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.path.is_relative_to(TORTURE):
            item.add_marker("deep")
            item.add_marker("disk")
        if item.get_closest_marker("deep_beyond"):
            products.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for product in products.values():
        marker = product[0].get_closest_marker("deep_beyond")
        assert marker
        kept = {index * len(product) // marker.args[0] for index in range(marker.args[0])}
        for index, item in enumerate(product):
            if index not in kept:
                item.add_marker("deep")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure with random examples the command that repeats them."""
    report = yield
    seed = item.config.getoption("--hypothesis-seed", None)
    if report.failed and seed is not None and is_hypothesis_test(getattr(item, "obj", None)):
        command = f"scripts/test --deep --seed {seed} {shlex.quote(item.nodeid)}"
        report.sections.append(("The same random examples again", command))
    return report


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Pytest's own, or on a disk for a test that is marked `disk`."""
    if not DISK or request.node.get_closest_marker("disk") is None:
        yield tmp_path
        return
    on_disk = Path(tempfile.mkdtemp(prefix=f"{tmp_path.name}-", dir=DISK))
    yield on_disk
    shutil.rmtree(on_disk, ignore_errors=True)


@pytest.fixture(autouse=True)
def own_world(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A HOME, a working directory and an environment of its own; no network but loopback, no write outside."""
    base = tmp_path_factory.getbasetemp()
    # Not by mktemp: it reads the whole directory for the next number, and nobody removes what it made.
    home = base / f"home-{next(_homes)}"
    home.mkdir()
    roots = [str(base), str(HYPOTHESIS), *filter(None, [DISK])]
    _clean_environment(monkeypatch, home, roots)
    monkeypatch.chdir(tmp_path)
    umask = os.umask(0o022)
    FENCE.close(roots)
    yield
    trespasses = FENCE.open()
    os.umask(umask)
    shutil.rmtree(home, ignore_errors=True)
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
