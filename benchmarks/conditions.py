"""What conditions cost: loading and judging one, and `logist workflow next` on a workflow with decisions.

Run: python benchmarks/conditions.py [--runs 20]
"""

from __future__ import annotations

import argparse
import tempfile
import timeit
from pathlib import Path
from typing import Any

from measure import LOGIST, cpu_ms, table

from logist.core.condition import ROOTS, compile_condition

FORMS: list[Any] = [
    "output.score >= 80 && output.status === 'approved'",
    "output.items.length > 0 || output.retry",
    "(output.score || 0) + 5 >= 80 ? output.yes : !output.no",
    "output.tags.includes('x') && 'k' in output.map",
    "Needs Fix",
    "verdict:pass,skip",
    {"var": "output.score", "gte": 80, "and": ["output.status === 'approved'", {"not": {"var": "gone"}}]},
]
OUTPUT = {
    "score": 85,
    "status": "approved",
    "items": [1],
    "yes": True,
    "no": False,
    "tags": ["a", "x"],
    "map": {"k": 1},
    "choice": "needs fix",
    "verdict": "pass",
}
LARGE = {"output": {"list": [{"a": number, "b": str(number)} for number in range(3_000)]}}
WORKFLOW = Path(__file__).parent.parent / "fixtures" / "workflows" / "files" / "positive" / "pr-review.mmd"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    data = {"output": OUTPUT, "input": {}}
    conditions = [compile_condition(form, ROOTS) for form in FORMS]
    large = compile_condition("output.list === output.list", ROOTS)
    each = len(FORMS) / 1e6
    loading = best_seconds(lambda: [compile_condition(form, ROOTS) for form in FORMS], 200, runs) / each
    judging = best_seconds(lambda: [condition.judge_data(data) for condition in conditions], 200, runs) / each
    comparing = best_seconds(lambda: large.judge_data(LARGE), 3, runs) * 1e3
    with tempfile.TemporaryDirectory() as folder:
        following = cpu_ms([*LOGIST, "workflow", "next", str(WORKFLOW), "--json"], Path(folder), runs)
    table(
        [
            ["what", "time", "unit"],
            ["load a condition", loading, "us"],
            ["judge a condition", judging, "us"],
            ["compare two lists of 3,000 objects", comparing, "ms"],
            ["logist workflow next", following, "ms CPU"],
        ]
    )


def best_seconds(run: Any, number: int, runs: int) -> float:
    """Seconds of one run, the least of `runs` measurements."""
    return min(timeit.repeat(run, number=number, repeat=runs)) / number


if __name__ == "__main__":
    main()
