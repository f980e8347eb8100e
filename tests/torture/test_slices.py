"""A slice of every case of the torture suite, short enough for the ordinary check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.suite import Case, Run, every_case, run_case

ALIKE = {"disk-paid", "kill-given-up", "kill-undone", "pay-both", "pay-tools"}
"""Cases with the longest preparation, which other cases here cover too: only scripts/torture runs them."""
NAMED = [(f"{part}-{case.name}", part, case) for part, case in every_case()]
ALL = [pytest.param(part, case, id=name) for name, part, case in NAMED if name not in ALIKE]


def test_what_is_left_out_is_there() -> None:
    assert {name for name, _, _ in NAMED} >= ALIKE


@pytest.mark.parametrize(("part", "case"), ALL)
def test_slice(part: str, case: Case, tmp_path: Path) -> None:
    result = run_case(part, case, Run(tmp_path, full=False))
    assert result.failures == ()
    if result.skipped:
        pytest.skip(result.skipped)
    assert result.checked > 0
