"""Which changes of the code the tests notice: mutants, made by cosmic-ray, of the modules that matter most.

Both packages are needed here only, so they are in no lock file:

    .venv/bin/pip install cosmic-ray==8.7.0 pytest-cov==7.1.0
    .venv/bin/pytest -n 2 --cov=logist --cov-context=test --cov-report= tests      # once: which test reaches what
    .venv/bin/python benchmarks/mutants.py --count 100 --seed 16 --default         # without --default: deep tests too

Each mutant is written into this checkout, and taken back; use a clone. Only the tests that reach its line run, up
to the first failure and for at most --limit seconds. It prints a line for each, and how many were noticed by area.
"""

from __future__ import annotations

import argparse
import ast
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
AREAS = {
    "state machine": [
        "core/machine/machine.py",
        "core/machine/targets.py",
        "core/machine/routing.py",
        "core/machine/steward.py",
        "core/history/fold.py",
    ],
    "answers": [
        "core/answer/exit_command.py",
        "core/text/outermost_json.py",
        "core/sections/*.py",
        "core/step/step.py",
    ],
    "replay": [
        "core/replay/replay.py",
        "core/replay/replay_checks.py",
        "core/replay/old_entry.py",
        "core/replay/drift.py",
    ],
    "store": [
        "store/history.py",
        "store/entries.py",
        "store/segments.py",
        "store/verification.py",
        "store/lock.py",
    ],
    "permissions": ["core/permissions/permissions.py", "core/permissions/tools.py"],
    "limits": ["core/machine/limits.py", "core/step/plan.py", "core/money/money.py", "core/prompt/budget.py"],
    "conditions": ["core/condition/*.py"],
}


class Mutant(NamedTuple):
    """One change of one line."""

    area: str
    path: Path
    line: int
    operator: str
    source: str


def list_mutants(area: str, rng: random.Random) -> Iterator[Mutant]:
    """The mutants of an area in random order, one of each line."""
    found: dict[tuple[Path, int], tuple[str, int]] = {}
    paths = [path for pattern in AREAS[area] for path in sorted((ROOT / "logist").glob(pattern))]
    for path in paths:
        tree, skipped = get_ast_from_path(path), annotation_lines(path.read_text("utf-8"))
        for name in sorted(cosmic_ray.plugins.operator_names()):
            operator = cosmic_ray.plugins.get_operator(name)
            if operator.arguments():
                continue
            starts = [start for node in ast_nodes(tree) for start, _ in operator().mutation_positions(node)]
            places = [(line, number) for number, (line, _) in enumerate(starts) if line not in skipped]
            for line, number in places:
                # Of the changes of a line any one will do; without this, long expressions would be drawn most.
                if (path, line) not in found or rng.random() < 0.3:
                    found[path, line] = name, number
    lines = sorted(found)
    rng.shuffle(lines)
    for path, line in lines:
        name, number = found[path, line]
        source = mutate_code(path.read_text("utf-8"), cosmic_ray.plugins.get_operator(name)(), number)
        if source:
            yield Mutant(area, path, line, name.rpartition("/")[2], source)


def annotation_lines(source: str) -> set[int]:
    """Lines with annotations, which are never evaluated: `int | None` would give mutants that change nothing."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        notes = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        lines |= {line for note in notes if note for line in range(note.lineno, note.end_lineno + 1)}
    return lines


def find_tests(coverage: CoverageData, mutant: Mutant) -> list[str]:
    """The tests that reach the mutant's line; for a line that runs at import, those that reach the module."""
    by_line = coverage.contexts_by_lineno(str(mutant.path))
    for contexts in (by_line.get(mutant.line, ()), [each for line in by_line.values() for each in line]):
        if tests := sorted({context.rpartition("|")[0] for context in contexts if "|" in context}):
            return tests
    return []


def try_mutant(mutant: Mutant, tests: list[str], arguments: argparse.Namespace) -> str:
    """How the tests took it: noticed, survived or over the limit."""
    original = mutant.path.read_text("utf-8")
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["-m", "not deep"] if arguments.default else []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(tests))
        names.flush()
        try:
            mutant.path.write_text(mutant.source, "utf-8")
            done = subprocess.run(
                [*command, f"@{names.name}"],
                cwd=ROOT,
                capture_output=True,
                timeout=arguments.limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "over the limit"
        finally:
            mutant.path.write_text(original, "utf-8")
    return "survived" if done.returncode in (0, 5) else "noticed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each mutant")
    parser.add_argument("--default", action="store_true", help="only the tests of the default run")
    parser.add_argument("--coverage", default=str(ROOT / ".coverage"))
    arguments = parser.parse_args()
    coverage = CoverageData(arguments.coverage)
    coverage.read()
    rng, results = random.Random(arguments.seed), Counter[tuple[str, str]]()
    shares = [
        (area, arguments.count // len(AREAS) + (place < arguments.count % len(AREAS)))
        for place, area in enumerate(AREAS)
    ]
    for area, share in shares:
        for mutant, _ in zip(list_mutants(area, rng), range(share), strict=False):
            tests = find_tests(coverage, mutant)
            result = try_mutant(mutant, tests, arguments) if tests else "reached by no test"
            results[area, result] += 1
            print(
                f"{result:18} {len(tests):5} tests  {mutant.path.relative_to(ROOT)}:{mutant.line} {mutant.operator}",
                flush=True,
            )
    for (area, result), count in sorted(results.items()):
        print(f"{area:14} {result:18} {count}")


if __name__ == "__main__":
    main()
