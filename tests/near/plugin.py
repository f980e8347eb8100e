"""The part of it within pytest: takes the tests that were chosen, the nearest first, and notes what each reaches."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

# pytest would warn that it can't rewrite the asserts of marked modules, which is an error in tests that run pytest.
AssertionRewritingHook._warn_already_imported = lambda self, name: None  # type: ignore[method-assign]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--near-choice", metavar="FILE", help="the tests to run, as tests/near has chosen them")


def pytest_configure(config: pytest.Config) -> None:
    if choice := config.getoption("near_choice"):
        config.pluginmanager.register(Choosing(json.loads(Path(choice).read_text(encoding="utf-8"))))
    if near := getattr(sys, "near", None):
        config.pluginmanager.register(Noting(near))


class Choosing:
    """Leaves the tests that were chosen, in the order of their files."""

    def __init__(self, choice: dict[str, Any]) -> None:
        self.places = {path: place for place, path in enumerate(choice["files"])}
        self.spared = set(choice["spared"])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        # A test that the record does not know is new, so it runs.
        spared = [item for item in items if item.nodeid in self.spared]
        if spared:
            config.hook.pytest_deselected(items=spared)
        items[:] = [item for item in items if item.nodeid not in self.spared]
        items.sort(key=lambda item: self.places.get(_file(item.nodeid), 0))


class Noting:
    """Writes what each test, each collection of a file and each wide fixture reached."""

    def __init__(self, near: Any) -> None:
        self.near = near
        self.file: TextIO = open(os.path.join(near.run, f"{os.getpid()}.reached"), "w", encoding="utf-8")  # noqa: SIM115
        self.wide: dict[Any, int] = {}
        self.outcomes: list[tuple[bool, float]] = []
        self.caches = _Caches()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        self.near.clear()
        report = yield
        if isinstance(collector, pytest.Module | pytest.Class):
            self._write({"file": _file(collector.nodeid), "units": f"{self.near.take():x}"})
        return report

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        deep = [item.nodeid for item in items if item.get_closest_marker("deep")]
        self._write({"deep": deep})

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.caches.clear()
        self.near.clear()
        self.outcomes = []
        result = yield
        mask = self.near.take() | self._of_wide_fixtures(item)
        seconds = sum(each for _, each in self.outcomes)
        is_complete = all(passed for passed, _ in self.outcomes)
        self._write({"test": item.nodeid, "units": f"{mask:x}", "seconds": seconds, "complete": is_complete})
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self.outcomes.append((report.passed, report.duration))
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        before = self.near.take()
        self.near.clear()
        try:
            return (yield)
        finally:
            own = self.wide[fixturedef] = self.near.take()
            self.near.put(before | own)

    def _of_wide_fixtures(self, item: pytest.Item) -> int:
        known = getattr(item, "_fixtureinfo", None)
        mask = 0
        for definitions in known.name2fixturedefs.values() if known else ():
            for definition in definitions:
                mask |= self.wide.get(definition, 0)
        return mask

    def _write(self, line: dict[str, Any]) -> None:
        print(json.dumps(line), file=self.file, flush=True)


class _Caches:
    """The caches of functions. What they hold was made by an earlier test, and the next one depends on it too."""

    def __init__(self) -> None:
        self.caches: list[Any] = []
        self.scanned: set[str] = set()

    def clear(self) -> None:
        new = [
            name for name in sys.modules if name.startswith(("logist", "tests")) and name not in self.scanned
        ]
        for name in new:
            self.scanned.add(name)
            self.caches += _caches_of(sys.modules[name])
        for cache in self.caches:
            cache.cache_clear()


def _caches_of(module: Any) -> Iterator[Any]:
    for value in vars(module).values():
        if isinstance(value, functools._lru_cache_wrapper):
            yield value
        elif isinstance(value, type):
            yield from (
                each for each in vars(value).values() if isinstance(each, functools._lru_cache_wrapper)
            )


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
