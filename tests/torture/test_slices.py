"""A slice of every case of the torture suite, short enough for the ordinary check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.suite import Case, Run, every_case, run_case

ALL = [pytest.param(part, case, id=f"{part}-{case.name}") for part, case in every_case()]


@pytest.mark.parametrize(("part", "case"), ALL)
def test_slice(part: str, case: Case, tmp_path: Path) -> None:
    result = run_case(part, case, Run(tmp_path, full=False))
    assert result.failures == ()
    if result.skipped:
        pytest.skip(result.skipped)
    assert result.checked > 0
