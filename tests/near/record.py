"""The record: what each test reached when it last ran, and how long it took."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.near.sources import LEVEL
from tests.near.tree import Tree, write

_FORMAT = (4, sys.version_info[:2])

CONTENT = ""
"""The unit of a file as it is on disk: of who reads it, and of the tests in it."""
LISTING = "/"
"""The unit of a directory: of who lists it."""
NEEDED = "<needed>"
"""The unit of a module: of whom it was imported for, in whichever process and test that happened first."""
OUTSIDE = "<outside>"
"""The unit of a process that runs modules of the checkout and notes nothing, with another Python say."""
BELOW = "/*"
"""The unit of a directory: of who opens it, or hands it to another program."""


class Unit(NamedTuple):
    """Something that a test can reach, in one version."""

    path: str
    name: str
    """Of a function or method, `sources.LEVEL`, or one of those above."""
    digest: str


class Reached(NamedTuple):
    """What one test reached."""

    units: int
    """Bit n is set for unit n of the record."""
    seconds: float


@dataclass
class Record:
    """Everything known of the tests, by their pytest ids."""

    units: list[Unit] = field(default_factory=list)
    tests: dict[str, Reached] = field(default_factory=dict)
    imports: dict[str, int] = field(default_factory=dict)
    """What runs when a module, by its path, is imported."""
    deep: set[str] = field(default_factory=set)
    """Ids of tests that did not run since they are marked `deep`."""
    doubtful: set[str] = field(default_factory=set)
    """Ids of tests that were skipped or failed when they last ran, so they may reach more than is known."""

    @classmethod
    def load(cls, path: Path) -> Record:
        """The record in this file; an empty one if it is missing, damaged or of another version."""
        try:
            stored = marshal.loads(path.read_bytes())
            if stored["format"] != _FORMAT:
                return cls()
            tests = {name: Reached(*fields) for name, fields in stored["tests"].items()}
            units = [Unit(*each) for each in stored["units"]]
            return cls(units, tests, stored["imports"], set(stored["deep"]), set(stored["doubtful"]))
        except (OSError, EOFError, ValueError, TypeError, KeyError):
            return cls()

    def save(self, path: Path) -> None:
        """Replaces the file."""
        tests = {name: tuple(reached) for name, reached in self.tests.items()}
        units = [tuple(unit) for unit in self.units]
        stored = {
            "format": _FORMAT,
            "units": units,
            "tests": tests,
            "imports": self.imports,
            "deep": self.deep,
            "doubtful": self.doubtful,
        }
        write(path, marshal.dumps(stored))

    def number(self, units: Sequence[Unit]) -> list[int]:
        """The numbers of these units; adds those that are new."""
        numbers = {unit: number for number, unit in enumerate(self.units)}
        for unit in units:
            numbers.setdefault(unit, len(numbers))
        self.units = list(numbers)
        return [numbers[unit] for unit in units]

    def files(self) -> dict[str, list[str]]:
        """The tests of each file that has some."""
        files: dict[str, list[str]] = {}
        for name in self.tests:
            files.setdefault(name.partition("::")[0], []).append(name)
        return files


def tree_units(tree: Tree) -> list[Unit]:
    """All that a test can reach in this tree."""
    units = [Unit(path, CONTENT, file.digest) for path, file in tree.files.items()]
    for path, file in tree.files.items():
        if file.outline and path.startswith("logist/"):
            units += [Unit(path, name, digest) for name, digest in file.outline.units.items()]
    folders = {parent for path in tree.files for parent in parents(path)}
    units += [Unit(folder, LISTING, "") for folder in sorted(folders)]
    units += [Unit(folder, BELOW, "") for folder in sorted(folders - {""})]
    units.append(Unit("", OUTSIDE, ""))
    units += [Unit(unit.path, NEEDED, unit.digest) for unit in units if unit.name == LEVEL]
    return units


def parents(path: str) -> list[str]:
    """The directories around a file, the nearest first; the root is ""."""
    folders = path.split("/")[:-1]
    return ["/".join(folders[:end]) for end in range(len(folders), -1, -1)]


def is_current(unit: Unit, tree: Tree) -> bool:
    """Whether the unit is in this tree as it was when it was recorded."""
    if unit.name in (LISTING, BELOW, OUTSIDE):
        return True
    file = tree.files.get(unit.path)
    if file is None:
        return False
    if unit.name == CONTENT:
        return file.digest == unit.digest
    name = LEVEL if unit.name == NEEDED else unit.name
    return file.outline is not None and file.outline.units.get(name) == unit.digest


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    text = bin(mask)[:1:-1]
    number = text.find("1")
    while number >= 0:
        yield number
        number = text.find("1", number + 1)


def as_mask(numbers: Iterable[int]) -> int:
    """These bits, set."""
    content = bytearray(b"0")
    for number in numbers:
        if number >= len(content):
            content.extend(b"0" * (number + 1 - len(content)))
        content[number] = 49
    return int(content[::-1], 2)
