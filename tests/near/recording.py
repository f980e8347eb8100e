"""Prepares a recorded run of pytest, and takes what it reached into the record."""

from __future__ import annotations

import json
import marshal
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.near.graph import Graph
from tests.near.record import (
    BELOW,
    CONTENT,
    LISTING,
    NEEDED,
    OUTSIDE,
    Reached,
    Record,
    Unit,
    as_mask,
    bits,
    is_current,
    tree_units,
)
from tests.near.sources import LEVEL, mark
from tests.near.tree import Tree, is_test_file, write

HOOK = Path(__file__).with_name("hook.py")
PTH = Path(sysconfig.get_path("purelib"), "logist_near.pth")

_LINE = (
    "import os, sys; os.path.isfile({hook!r}) and os.path.isdir({run!r}) and "
    "exec(compile(open({hook!r}, encoding='utf-8').read(), {hook!r}, 'exec'), {{'RUN': {run!r}}})\n"
)


@dataclass(frozen=True)
class Recording:
    """A run of pytest whose tests are recorded."""

    tree: Tree
    units: Sequence[Unit]
    run: Path
    """Where it keeps its marks, and what its tests reached."""

    def take_into(self, record: Record) -> None:
        """Adds what was recorded."""
        numbers = record.number(self.units)
        masks: dict[str, int] = {}
        collected: dict[str, int] = {}
        # Which of several tests is the first to import a module says nothing of the others.
        first = ~as_mask(number for number, unit in enumerate(record.units) if unit.name == LEVEL)
        tests = []
        for line in self._lines():
            if "deep" in line:
                record.deep.update(line["deep"])
                continue
            mask = masks.get(line["units"])
            if mask is None:
                mask = masks[line["units"]] = as_mask(numbers[bit] for bit in bits(int(line["units"], 16)))
            if "import" in line:
                record.imports[line["import"]] = mask & first
            elif "file" in line:
                collected[line["file"]] = collected.get(line["file"], 0) | mask & first
            else:
                tests.append((line["test"], mask, line["seconds"], line["complete"]))
        completing = _Completing(Graph(self.tree), record, self.tree)
        for name, mask, seconds, is_complete in tests:
            path = name.partition("::")[0]
            mask = completing.complete(path, mask | collected.get(path, 0))
            before = record.tests.get(name)
            if is_complete:
                record.doubtful.discard(name)
            else:
                record.doubtful.add(name)
                mask |= before.units if before else 0
            record.tests[name] = Reached(mask, seconds)
        record.deep -= record.tests.keys()

    def _lines(self) -> Iterator[Any]:
        for file in sorted(self.run.glob("*.reached")):
            for line in file.read_text(encoding="utf-8").splitlines():
                try:
                    yield json.loads(line)
                except ValueError:  # the last line of a process that was killed
                    continue


class _Completing:
    """Adds to what a test ran what it depends on without running it: modules that were imported before it began."""

    def __init__(self, graph: Graph, record: Record, tree: Tree) -> None:
        self._graph, self._imports = graph, record.imports
        self._levels: dict[str, int] = {}
        self._needed: dict[str, int] = {}
        self._contents: dict[str, int] = {}
        self._later: list[tuple[int, frozenset[str]]] = []
        self._masks: dict[frozenset[str], int] = {}
        later: dict[str, dict[str, set[str]]] = {}
        functions: dict[str, list[int]] = {}
        for number, unit in enumerate(record.units):
            if unit.name in (LISTING, BELOW, OUTSIDE) or not is_current(unit, tree):
                continue
            if unit.name == LEVEL:
                self._levels[unit.path] = 1 << number
            elif unit.name == NEEDED:
                self._needed[unit.path] = 1 << number
            elif unit.name == CONTENT:
                self._contents[unit.path] = 1 << number
            else:
                functions.setdefault(unit.path, []).append(number)
                if unit.path not in later:
                    later[unit.path] = graph.imported_later(unit.path)
                if modules := later[unit.path].get(unit.name):
                    self._later.append((1 << number, self._loaded(modules)))
        self._functions = {path: as_mask(each) for path, each in functions.items()}

    def complete(self, path: str, mask: int) -> int:
        """`mask` of a test in the file `path`, with all that."""
        loaded = [self._graph.loaded_by(module) for module, level in self._levels.items() if mask & level]
        loaded += [self._graph.loaded_by(module) for module, units in self._functions.items() if mask & units]
        loaded += [modules for function, modules in self._later if mask & function]
        loaded += [self._graph.loaded_by(path), *map(self._loaded, self._graph.imported_later(path).values())]
        return (
            mask | self._mask(frozenset().union(*loaded)) | self._mask(frozenset(self._graph.helpers(path)))
        )

    def _loaded(self, modules: Iterable[str]) -> frozenset[str]:
        return frozenset().union(*map(self._graph.loaded_by, modules))

    def _mask(self, modules: frozenset[str]) -> int:
        if modules not in self._masks:
            mask = 0
            for module in modules:
                mask |= self._imports.get(module, 0) | self._needed.get(module, 0)
                if module.startswith("tests/"):
                    mask |= self._contents.get(module, 0)
            self._masks[modules] = mask
        return self._masks[modules]


@contextmanager
def recording(tree: Tree, cache: Path) -> Iterator[Recording]:
    """Every Python process of this environment that starts inside, below this one, notes what it reaches."""
    with tempfile.TemporaryDirectory(prefix="logist-near-") as directory:
        run = Path(directory)
        run.chmod(0o755)
        units = tree_units(tree)
        (run / "layout").write_bytes(marshal.dumps(_layout(tree, cache, units)))
        PTH.write_text(_LINE.format(hook=str(HOOK), run=directory), encoding="utf-8")
        try:
            yield Recording(tree, units, run)
        finally:
            PTH.unlink(missing_ok=True)


def _layout(tree: Tree, cache: Path, units: Sequence[Unit]) -> dict[str, Any]:
    places = {path: str(tree.root / path) for path in {unit.path for unit in units}}
    numbered = list(enumerate(units))
    return {
        "runner": os.getpid(),
        "size": len(units),
        "units": {unit.path: number for number, unit in numbered if unit.name == LEVEL},
        "files": {
            places[unit.path]: number
            for number, unit in numbered
            if unit.name in (CONTENT, BELOW) and not unit.path.startswith("tests/near/")
        },
        "listings": {places[unit.path]: number for number, unit in numbered if unit.name == LISTING},
        "outside": next(number for number, unit in numbered if unit.name == OUTSIDE),
        "code": dict(_marked_code(tree, cache)),
    }


def _marked_code(tree: Tree, cache: Path) -> Iterator[tuple[str, str]]:
    cache.mkdir(parents=True, exist_ok=True)
    old = {file.name for file in cache.iterdir()}
    used = set()
    for path, _, _ in tree.modules():
        if not path.startswith("logist/"):
            continue
        source, file = tree.root / path, tree.files[path]
        name = f"{path.replace('/', '.')}-{file.digest}-{sys.implementation.cache_tag}"
        if name not in old:
            try:
                code = mark(source.read_text(encoding="utf-8"), path, str(source))
            except (SyntaxError, ValueError):
                continue
            write(cache / name, marshal.dumps(code))
        used.add(name)
        yield str(source), str(cache / name)
    for name in old - used:
        (cache / name).unlink(missing_ok=True)


def stale_imports(tree: Tree, record: Record) -> list[str]:
    """The modules of which it is not known, or no longer, what runs when they are imported."""
    current = as_mask(number for number, unit in enumerate(record.units) if is_current(unit, tree))
    return [
        path
        for path, _, _ in tree.modules()
        if not is_test_file(path)
        and not path.endswith("/__main__.py")
        and ((known := record.imports.get(path)) is None or known & ~current)
    ]


def watch_imports(tree: Tree, modules: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts a process that imports these modules and notes what runs."""
    command = [sys.executable, "-m", "tests.near.importing", *modules]
    return subprocess.Popen(command, cwd=tree.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
