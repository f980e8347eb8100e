"""Every recorded job under fixtures/jobs goes the same way today: to add a case, add a directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logist.jobs import looking
from logist.resources import resource
from tests import support

RECORDED = sorted(path.parent for path in (support.ROOT / "fixtures" / "jobs").glob("*/jobHistory.json"))
SCHEMA = json.loads(resource("schemas", "llm-chat-schema.json").read_text("utf-8"))


def test_there_are_recorded_jobs() -> None:
    assert len(RECORDED) >= 5


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_it_replays(path: Path) -> None:
    replayed = looking.replay_file(SCHEMA, path)
    assert replayed.interactions > 3
    assert replayed.differences == ()


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_its_lines_chain(path: Path) -> None:
    job = looking.archived(path)
    assert [problem for problem in job.verify() if "state.json" not in problem.message] == []


def test_a_changed_rule_is_found() -> None:
    stricter = json.loads(json.dumps(SCHEMA))
    properties = (
        stricter["$defs"]["response"]["properties"]
        if "$defs" in stricter
        else stricter["properties"]["response"]["properties"]
    )
    properties["summary_for_supervisor"]["maxLength"] = 10
    main = next(path for path in RECORDED if path.name == "main-job")
    differences = looking.replay_file(stricter, main).differences
    assert differences[0].sequence == 2
    assert (differences[0].recorded, differences[0].today) == ("REVIEW_REQUIRED", "STUCK")
