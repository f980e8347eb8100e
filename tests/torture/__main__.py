"""`scripts/torture [PART | PART/CASE ...]`: runs the suite, one table at the end; not 0 if anything failed."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.torture import page
from tests.torture.suite import PARTS, SHOWN, Case, Result, Run, every_case, run_case

MEMORY = Path("/dev/shm")


def main() -> int:
    """Exit code 0 if every case held or was skipped with a reason, else 1."""
    options = _options()
    chosen = [(part, case) for part, case in every_case() if _wanted(part, case, options.name)]
    if not chosen:
        _say(f"nothing is called {' '.join(options.name)}; there is: {' '.join(_names())}")
        return 2
    results = [_one(part, case, options) for part, case in chosen]
    print(table(results))
    if options.record:
        page.record(results)
    return int(any(result.failures for result in results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/torture", description="Tries what Logist promises.")
    parser.add_argument(
        "name", nargs="*", metavar="PART[/CASE]", help=f"of {', '.join(PARTS)}  [default: all]"
    )
    parser.add_argument("--slice", action="store_true", help="only what the ordinary tests run")
    parser.add_argument("--seed", type=int, default=0, help="another choice of random moments")
    parser.add_argument("--record", action="store_true", help="put the figures into docs/reliability.md")
    return parser.parse_args()


def _wanted(part: str, case: Case, names: Sequence[str]) -> bool:
    return not names or part in names or f"{part}/{case.name}" in names


def _names() -> Iterator[str]:
    return (f"{part}/{case.name}" for part, case in every_case())


def _one(part: str, case: Case, options: argparse.Namespace) -> Result:
    _say(f"{part}/{case.name} ...")
    with _scratch() as scratch:
        run = Run(scratch, full=not options.slice, seed=options.seed, say=_say)
        result = run_case(part, case, run)
    for failure in result.failures[:SHOWN]:
        _say(f"  {failure}")
    return result


@contextmanager
def _scratch() -> Iterator[Path]:
    place = MEMORY if MEMORY.is_dir() else None
    scratch = Path(tempfile.mkdtemp(prefix="logist-torture-", dir=place))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def table(results: Sequence[Result]) -> str:
    """One line per case: what was checked, how many, what failed."""
    rows = [("part", "case", "checked", "failed", "seconds", "")]
    for r in results:
        note = f"skipped: {r.skipped}" if r.skipped else "; ".join(r.notes)
        rows.append(
            (r.part, r.case, f"{r.checked:,} {r.unit}", f"{len(r.failures):,}", f"{r.seconds:g}", note)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ("  ".join([*map(str.ljust, row[:5], widths), row[5]]).rstrip() for row in rows)
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
