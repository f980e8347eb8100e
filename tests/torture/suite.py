"""Parts and cases of the torture suite, and how to run a case."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")

PARTS = ("kill", "torn", "power", "disk", "crowd", "pay", "flip", "agents", "hostile")
"""In the order they run; each is a module `tests.torture.part_<name>` with `CASES`."""

SHOWN = 5
"""How many failures of a case are printed."""


class Skip(Exception):
    """This machine can't run the case; the text says why."""


@dataclass
class Run:
    """One run of one case."""

    scratch: Path
    """An empty separate directory, on a memory file system if there is one."""
    full: bool
    """Whether to run everything; else only the slice for the ordinary tests, which takes seconds."""
    seed: int = 0
    count: int = 0
    """How many points, states or reads were checked."""
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """More numbers to print next to the count, e.g. "charges 1,000, interactions 1,000"."""
    say: Callable[[str], None] = lambda text: None
    """Prints progress for a person who waits."""

    def random(self, name: str = "") -> random.Random:
        """A random source that is the same in every run with this seed."""
        return random.Random(f"{self.seed}-{name}")

    def some(self, items: Sequence[Item], most: int) -> list[Item]:
        """Return all items in a full run; else at most `most`: the first, the last, and random ones."""
        if self.full or len(items) <= most:
            return list(items)
        inner = self.random("some").sample(range(1, len(items) - 1), max(0, most - 2))
        return [items[0], *(items[index] for index in sorted(inner)), items[-1]]

    def check(self, problems: Sequence[str], where: object) -> None:
        """Count one check and its problems."""
        self.count += 1
        self.failures += [f"{where}: {problem}" for problem in problems]


class Case(NamedTuple):
    """One named case; `run` counts what it checks."""

    name: str
    unit: str
    """What is counted: "kill points", "disk states", ..."""
    at_least: int
    """The minimum number of checks in a full run."""
    run: Callable[[Run], None]


class Result(NamedTuple):
    """The result of a case."""

    part: str
    case: str
    unit: str
    checked: int
    failures: tuple[str, ...]
    skipped: str
    notes: tuple[str, ...]
    seconds: float


def cases(part: str) -> tuple[Case, ...]:
    """Return the cases of a part."""
    found: tuple[Case, ...] = import_module(f"tests.torture.part_{part}").CASES
    return found


def every_case(parts: Sequence[str] = PARTS) -> Iterator[tuple[str, Case]]:
    """`(part, case)` of all parts named."""
    return ((part, case) for part in parts for case in cases(part))


def run_case(part: str, case: Case, run: Run) -> Result:
    """Run one case; an exception is a failure, and so is a full run with too few checks."""
    began = time.monotonic()
    skipped = ""
    try:
        case.run(run)
    except Skip as reason:
        skipped = str(reason)
    except Exception:  # noqa: BLE001  the other cases continue
        run.failures.append(traceback.format_exc())
    least = case.at_least if run.full else 1
    if not skipped and run.count < least:
        run.failures.append(f"only {run.count:,} {case.unit} were checked, of at least {least:,}")
    seconds = round(time.monotonic() - began, 1)
    return Result(
        part, case.name, case.unit, run.count, tuple(run.failures), skipped, tuple(run.notes), seconds
    )
