"""Jobs that an earlier version recorded, under rules that have changed since: each replays as it was judged then.

`fixtures/upgrades/NAME` has the history and the state.json of a job as that version left them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logist.core import newer
from logist.core.fold import fold
from logist.jobs import archives
from logist.jobs.looking import interactions
from logist.jobs.replaying import replay_file
from tests import support
from tests.replay.test_fixtures import SCHEMA

JOBS = sorted(path.parent for path in (support.ROOT / "fixtures" / "upgrades").glob("*/jobHistory.json"))


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_an_old_job_loads_verifies_and_replays(path: Path) -> None:
    job = archives.one(path).job
    assert job.verify() == []
    state = fold(interactions(job)).model_dump(mode="json", exclude={"head"})
    recorded = json.loads(job.state_file.read_bytes())
    assert [name for name, value in state.items() if not newer.holds(recorded.get(name), value)] == []
    replayed = replay_file(SCHEMA, path)
    assert (replayed.differences, replayed.disagreements) == ((), ())


def test_each_gate_was_passed_without_a_number() -> None:
    entries = [
        *interactions(
            archives.one(support.ROOT / "fixtures/upgrades/gates-that-a-missing-confidence-opened").job
        )
    ]
    passed = [entry.step for entry in entries if entry.observed and entry.state_after == "PENDING"]
    assert passed == ["missing", "word", "above", "sections", "condition"]
