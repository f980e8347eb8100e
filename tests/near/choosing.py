"""Which tests reach what changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch

from tests.near.graph import Graph
from tests.near.record import BELOW, CONTENT, LISTING, NEEDED, OUTSIDE, Record, as_mask, is_current, parents
from tests.near.sources import LEVEL, compare
from tests.near.tree import Change, Tree, is_test_file

EVERYWHERE = (
    "pyproject.toml",
    "requirements/*",
    "scripts/environment",
    "scripts/test",
    "tests/__init__.py",
    "tests/conftest.py",
    "tests/guarded/*",
    "tests/support.py",
    "logist/pytest_plugin.py",
)
"""A change of one of these may change any test."""


_WORD = re.compile(r"\w+")


@dataclass
class Choice:
    """The tests that reach the change."""

    everywhere: list[str] = field(default_factory=list)
    """Files that changed and reach all tests; then nothing else is here."""
    files: list[str] = field(default_factory=list)
    """Files to collect, the nearest first."""
    chosen: list[str] = field(default_factory=list)
    """Ids of recorded tests; tests of `files` that the record does not know run as well."""
    spared: list[str] = field(default_factory=list)
    """Ids of the other recorded tests of `files`."""
    seconds: float = 0.0
    """What the recorded tests took, one after the other."""
    unknown: list[str] = field(default_factory=list)
    """Test files without a record that import what changed."""
    deep: int = 0
    """Tests marked `deep` that import what changed, and are left out."""
    put_off: int = 0
    """Recorded tests that reach the change and are left out, since nearer ones fill the seconds that there are."""
    put_off_seconds: float = 0.0
    """What those took, one after the other."""
    in_doubt: int = 0
    """Tests chosen only since what is known of them is old, or they failed or were skipped, or start another Python."""
    unreached: list[str] = field(default_factory=list)
    """Files that changed and that no test is known to reach."""


def choose(
    tree: Tree,
    record: Record,
    changes: Mapping[str, Change],
    sources: Mapping[str, str],
    *,
    with_deep: bool = False,
    within: float | None = None,
) -> Choice:
    """The tests that reach `changes`, nearest first, as many as take `within` seconds of work; None for all of them.

    `sources` has the texts of all modules.
    """
    everywhere = [path for path in changes if any(fnmatch(path, each) for each in EVERYWHERE)]
    if everywhere:
        return Choice(everywhere)
    graph = Graph(
        tree, gone=[path for path, change in changes.items() if change.is_gone and _is_module(path)]
    )
    importers = graph.importers([path for path in changes if _is_module(path)])
    masks = _changed_units(tree, record, changes, sources, graph)
    changed = as_mask(number for numbers in masks.values() for number in numbers)
    drifted = as_mask(_drifted_units(tree, tree.before(changes), record, importers))
    outside = as_mask(number for number, unit in enumerate(record.units) if unit.name == OUTSIDE)

    choice = Choice()
    reaching: list[str] = []
    in_doubt: set[str] = set()
    files = record.files()
    for path, names in files.items():
        if path not in tree.files:
            continue
        for name in names:
            units = record.tests[name].units
            may_reach_more = name in record.doubtful or units & outside
            is_in_doubt = units & drifted or (may_reach_more and path in importers)
            if units & changed or is_in_doubt:
                reaching.append(name)
                if not units & changed:
                    in_doubt.add(name)
    collected = _take_nearest(choice, reaching, in_doubt, record, changes, within)
    deep = {} if with_deep else Counter(name.partition("::")[0] for name in record.deep)
    choice.deep = sum(count for path, count in deep.items() if path in importers)
    for path in tree.files:
        if is_test_file(path) and path not in files and path not in deep and path in importers:
            choice.unknown.append(path)
    _note_unreached(choice, collected, changes, masks, record, tree, sources, graph)
    changed_tests = [path for path in changes if is_test_file(path) and path in tree.files]
    choice.files = sorted(
        {*collected, *choice.unknown, *changed_tests},
        key=lambda path: (_distance(path, changes), min(collected.get(path, [0])), path),
    )
    taken = {
        *choice.chosen,
        *(name for path in {*changed_tests, *choice.unknown} for name in files.get(path, ())),
    }
    choice.spared = [name for path in choice.files for name in files.get(path, ()) if name not in taken]
    return choice


def _take_nearest(
    choice: Choice,
    reaching: list[str],
    in_doubt: set[str],
    record: Record,
    changes: Mapping[str, Change],
    within: float | None,
) -> dict[str, list[int]]:
    """Puts the tests into `choice`; gives how much each of them reaches, by file."""
    collected: dict[str, list[int]] = {}
    for name in sorted(reaching, key=lambda name: _remoteness(name, record, changes, in_doubt)):
        units, seconds = record.tests[name]
        path = name.partition("::")[0]
        if within is not None and choice.seconds + seconds > within and _distance(path, changes) > _MIRRORS:
            choice.put_off += 1
            choice.put_off_seconds += seconds
            continue
        choice.chosen.append(name)
        choice.seconds += seconds
        choice.in_doubt += name in in_doubt
        collected.setdefault(path, []).append(units.bit_count())
    return collected


def _remoteness(
    name: str, record: Record, changes: Mapping[str, Change], in_doubt: set[str]
) -> tuple[bool, int, int]:
    """Sorts tests: those known to reach the change first, then by the names of files, then by how much they reach."""
    return name in in_doubt, _distance(name.partition("::")[0], changes), record.tests[name].units.bit_count()


def _is_module(path: str) -> bool:
    return path.endswith(".py") and path.startswith(("logist/", "tests/"))


def _changed_units(
    tree: Tree, record: Record, changes: Mapping[str, Change], sources: Mapping[str, str], graph: Graph
) -> dict[str, list[int]]:
    """The numbers of the recorded units that changed with each file, in all their versions."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for number, unit in enumerate(record.units):
        numbers.setdefault((unit.path, unit.name), []).append(number)
    changed = {}
    for path, change in changes.items():
        keys = {(path, CONTENT), *((folder, BELOW) for folder in parents(path))}
        if change.is_new or change.is_gone:
            keys.add(
                (next(each for each in parents(path) if each == "" or (each, LISTING) in numbers), LISTING)
            )
        if path.startswith("logist/") and path.endswith(".py"):
            names, importers = graph.uses_of(path)
            text = "\n".join(sources[each] for each in importers if each in sources)
            words = names | set(_WORD.findall(text))
            difference = compare(change.text, sources.get(path), words.__contains__)
            keys |= {(path, unit) for unit in difference.units}
            keys |= {(path, NEEDED)} if difference.level else set()
            keys |= {(path, LEVEL)} if difference.loading else set()
        changed[path] = [number for key in keys for number in numbers.get(key, ())]
    return changed


def _drifted_units(tree: Tree, before: Tree, record: Record, importers: set[str]) -> Iterator[int]:
    """The recorded units that were different before the change already; so their tests may reach the change today."""
    for number, unit in enumerate(record.units):
        is_known = is_current(unit, before) or is_current(unit, tree)
        if not is_known and (not _is_module(unit.path) or unit.path in importers):
            yield number


def _note_unreached(
    choice: Choice,
    collected: Mapping[str, object],
    changes: Mapping[str, Change],
    masks: Mapping[str, list[int]],
    record: Record,
    tree: Tree,
    sources: Mapping[str, str],
    graph: Graph,
) -> None:
    """Takes test files that mention a changed file which no test reaches; else the file is `unreached`."""
    for path in changes:
        if _is_reached(path, record, masks[path], choice, collected):
            continue
        if mentioning := _mentioning(path, tree, sources, graph):
            choice.unknown += [each for each in mentioning if each not in choice.unknown]
        else:
            choice.unreached.append(path)


def _is_reached(
    path: str, record: Record, units: Iterable[int], choice: Choice, collected: Mapping[str, object]
) -> bool:
    if path in collected or is_test_file(path):
        return True
    mask = as_mask(units)
    return any(reached.units & mask for reached in record.tests.values())


def _mentioning(path: str, tree: Tree, sources: Mapping[str, str], graph: Graph) -> list[str]:
    """The test files that, or whose helpers, have the file's name in their text; else those of its directory."""
    name = path.rpartition("/")[2]
    mentions = {each for each, text in sources.items() if name in text and each.startswith("tests/")}
    tests = [each for each in tree.files if is_test_file(each)]
    if name.endswith(".ambr"):  # a snapshot
        folder = path.rpartition("/__snapshots__/")[0]
        mentions.add(f"{folder}/{name.removesuffix('.ambr')}.py")
    mentioning = [each for each in tests if each in mentions or graph.helpers(each) & mentions]
    if mentioning or not path.startswith("tests/"):
        return mentioning
    folder = next(folder for folder in parents(path) if any(each.startswith(f"{folder}/") for each in tests))
    return [each for each in tests if each.startswith(f"{folder}/")]


_MIRRORS = 1
"""The distance of a test file that mirrors a module that changed."""


def _distance(path: str, changes: Iterable[str]) -> int:
    """0 of a test file that changed, 1 of one that mirrors a module that changed, 2 of one with its name, else 3."""
    stem = path.rpartition("/")[2].removesuffix(".py").removeprefix("test_")
    nearest = 3
    for changed in changes:
        parts = changed.removesuffix(".py").removesuffix("/__init__").split("/")[1:]
        if changed == path:
            return 0
        if not parts:
            continue
        if stem == "_".join(parts) or (stem == parts[-1] and path.startswith(f"tests/{parts[0]}/")):
            nearest = min(nearest, 1)
        elif stem.startswith(parts[-1]) or parts[-1].startswith(stem):
            nearest = min(nearest, 2)
    return nearest
