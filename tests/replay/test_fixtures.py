"""Every recorded job under fixtures/jobs goes the same way today: to add a case, add a directory.

In a whole run each is a test of its own, `fixtures/jobs/NAME/jobHistory.json::replay`: pyproject.toml lists them
for the plugin that Logist has for everybody.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from logist.jobs.archive import archive_replay, recorded_jobs
from logist.lazy_modules import load_all
from logist.resources import find_resource
from tests import support

RECORDED = sorted(path.parent for path in (support.ROOT / "fixtures" / "jobs").glob("*/jobHistory.json"))
TODAY = sorted((support.ROOT / "fixtures" / "today").glob("*/fixture.json"))
SCHEMA = json.loads(find_resource("schemas", "llm-chat-schema.json").read_text("utf-8"))


def test_there_are_recorded_jobs() -> None:
    assert len(RECORDED) >= 5
    assert len(TODAY) >= 3


def test_each_is_a_test_that_passes(pytester: pytest.Pytester) -> None:
    place = support.ROOT / "fixtures" / "jobs"
    run = pytester.runpytest_inprocess(
        "-pno:cacheprovider", "--logist-prompts=accept", "--logist-fixtures", place
    )
    run.assert_outcomes(passed=len(RECORDED))


def test_what_agents_are_told_is_what_they_were_told(pytester: pytest.Pytester) -> None:
    """Recorded with the prompts of today: a change of any role or wording fails here, and has to be meant."""
    place = support.ROOT / "fixtures" / "today"
    run = pytester.runpytest_inprocess(
        "-pno:cacheprovider", "-ologist_fixtures=", "--logist-prompts=fail", "--logist-fixtures", place
    )
    run.assert_outcomes(passed=len(TODAY))


@pytest.mark.deep
def test_they_are_recorded_anew_from_their_answers(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_all()  # a module that a run in this process loads first is forgotten after it, but other modules still use it
    place = support.ROOT / "fixtures" / "today"
    for path in TODAY:
        name = path.parent.name
        folder = pytester.path / name
        shutil.copytree(path.parent, folder)
        monkeypatch.setenv("LOGIST_AGENT", f"scripted:{folder / 'answers.json'}")
        run = pytester.runpytest_inprocess(
            "-pno:cacheprovider", "--logist-record=rewrite", "--logist-fixtures", folder
        )
        run.assert_outcomes(passed=1)
        before, after = (json.loads((each / "fixture.json").read_text()) for each in (place / name, folder))
        assert after["transitions"] == before["transitions"]
        assert after["fixture_head"] != before["fixture_head"]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_it_has_something_to_tell(path: Path) -> None:
    assert sum(1 for _ in recorded_jobs.find_history(path).read_entries()) > 3


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_its_lines_chain(path: Path) -> None:
    job = recorded_jobs.find_history(path).job
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
    differences = archive_replay.replay_file(stricter, main).differences
    assert differences[0].sequence == 2
    assert (differences[0].recorded, differences[0].today) == ("REVIEW_REQUIRED", "STUCK")
