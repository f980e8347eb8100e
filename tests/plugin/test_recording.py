"""`--logist-record rewrite`: the configured agent is asked again; what can't be recorded stays as it was."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logist.jobs.archive import job_fixture
from logist.jobs.archive.recorded_jobs import find_history
from logist.testing import LogistJob, answer, recording
from logist.testing.job import make_job, to_script_answer
from tests.plugin.conftest import Run, changed, recorded

Make = Callable[..., LogistJob]
FLOW = {"name": "two", "steps": [{"id": "a", "prompt": "Do A."}, {"id": "b", "prompt": "Do B."}]}
TOLD = "not changed: "


def speaks(pytester: pytest.Pytester, *answers: Any) -> None:
    """The agent of the project, and what it says from now on."""
    script = pytester.path / "answers.json"
    script.write_text(json.dumps({"answers": [*map(to_script_answer, answers)]}))
    (pytester.path / ".logist").mkdir(exist_ok=True)
    (pytester.path / ".logist" / "config.yaml").write_text(
        f"agent: scripted:{script}\nlimits: {{max_attempts: 2}}\n"
    )


def statuses(fixture: Path) -> list[str]:
    return [entry.state_after for entry in find_history(fixture).read_interactions()]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fixture of a job whose first answer was none, and that went well after a person had said so."""
    place = tmp_path_factory.mktemp("exported")
    answers: list[Any] = ["nothing", answer(evidence=["x"], files={"x": "old"}), answer()]
    job = make_job(place / "project", answers=answers, limits={"cost_threshold": 5})
    job.step()
    job.resubmit("Answer.")
    job.poststep(answer("RETRY", "again"))
    job.run()
    job.approve("good")
    return job.export(place / "answered").path


@pytest.fixture
def answered(pytester: pytest.Pytester, exported: Path) -> Path:
    return shutil.copytree(exported, pytester.path / "rec" / "answered")


def test_what_was_asked_is_asked_again(pytester: pytest.Pytester, run: Run, answered: Path) -> None:
    before = content(answered)
    speaks(pytester, "no", answer("COMPLETED", "New.", ["x"], files={"x": "new"}), answer())
    result = run("--logist-fixtures", "rec", "--logist-record", "rewrite")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["answered: recorded again with 3 requests ($0.00)*jobHistory.before.json"])
    after = content(answered)
    assert after.pop("jobHistory.before.json") == before["jobHistory.json"]
    assert after["jobHistory.json"] != before["jobHistory.json"]
    assert job_fixture.find_disagreements(answered) == ()
    entries = [*find_history(answered).read_interactions()]
    assert [entry.simulated for entry in entries if entry.kind == "ask"][:2] == [False, True]
    assert entries[-1].kind == "approve"
    assert entries[-1].after.status == "SUCCESS"
    assert entries[4].response.summary_for_supervisor == "New."
    assert all(str(pytester.path) not in path.decode() for path in after.values())
    run("--logist-fixtures", "rec", "--logist-record", "rewrite").assert_outcomes(passed=1)
    assert content(answered)["jobHistory.before-2.json"] == before["jobHistory.json"]
    assert content(answered)["jobHistory.before.json"] == after["jobHistory.json"]
    run("--logist-fixtures", "rec", "--logist-prompts", "fail").assert_outcomes(passed=1)


def test_what_leads_elsewhere_is_told(pytester: pytest.Pytester, run: Run, logist_job: Make) -> None:
    job = logist_job(answers=["nothing", answer(), answer()])
    job.step()
    folder = job.export(pytester.path / "rec" / "stuck").path
    speaks(pytester, answer())
    result = run("--logist-fixtures", "rec", "--logist-record", "rewrite")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["  interaction 2: was STUCK, now REVIEW_REQUIRED"])
    assert statuses(folder) == ["PENDING", "REVIEW_REQUIRED"]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (
            [answer(), answer()],
            f"{TOLD}can't repeat interaction 3 (resubmit): the job was STUCK, and now*",
        ),
        ([{"error": {"kind": "auth", "message": "no key"}}], f"{TOLD}no answer for interaction 2: no key*"),
        ([], f"{TOLD}no answer for interaction 2: not enough answers in the script: * has 0, needed 1*"),
    ],
    ids=["a decision", "no answer", "no script"],
)
def test_what_cannot_be_recorded_stays(
    pytester: pytest.Pytester, run: Run, answered: Path, answers: list[Any], said: str
) -> None:
    before = content(answered)
    speaks(pytester, *answers)
    result = run("--logist-fixtures", "rec", "--logist-record", "rewrite")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"answered {said}the new answers (* $0.00) are kept in *"])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert content(answered) == before


def test_one_that_its_manifest_does_not_vouch_for_fails(run: Run, answered: Path) -> None:
    run("--logist-fixtures", "rec").assert_outcomes(passed=1)
    changed(answered / "jobHistory.json", lambda entries: entries.__delitem__(-1))
    result = run("--logist-fixtures", "rec")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["answered: does not match its manifest (*"])


def test_a_run_that_is_stopped_says_where_its_answers_are(
    pytester: pytest.Pytester, run: Run, answered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(answered)
    speaks(pytester, "no")
    monkeypatch.setattr(recording, "_repeat_decision", interrupted)
    result = run("--logist-fixtures", "rec", "--logist-record", "rewrite")
    assert result.ret is pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [f"answered {TOLD}the run was interrupted; the new answers (1 request, $0.00) are kept in *"]
    )
    assert content(answered) == before


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_job_itself_is_not_recorded_again(pytester: pytest.Pytester, run: Run, logist_job: Make) -> None:
    job = logist_job(answers=[answer()])
    job.step()
    speaks(pytester, answer())
    result = run("--logist-fixtures", job.folder, "--logist-record", "rewrite")
    result.stdout.fnmatch_lines(
        ["job is not a fixture, and only fixtures can be recorded again; *logist job export*"]
    )


def test_nothing_is_left_where_nothing_was_answered(
    pytester: pytest.Pytester, run: Run, answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    speaks(pytester)
    (pytester.path / "answers.json").write_text("[]")
    result = run("--logist-fixtures", "rec", "--logist-record", "rewrite")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"answered {TOLD}*answers.json*"])
    assert [*tmp_path.iterdir()] == []


def test_a_workflow_and_the_files_it_began_with(
    pytester: pytest.Pytester, run: Run, logist_job: Make
) -> None:
    job = logist_job(
        workflow=FLOW,
        steps={"a": [answer()], "b": [answer()]},
        files={"a.txt": "A"},
        review=False,
        approval="none",
    )
    job.run()
    folder = job.export(pytester.path / "rec" / "flow").path
    speaks(pytester, answer(evidence=["a.txt"]), answer())
    result = run("--logist-fixtures", "rec", "--logist-record", "rewrite")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"flow {TOLD}its workspace had files at the start (a.txt); put them into */flow/workspace"]
    )
    (folder / "workspace").mkdir()
    (folder / "workspace" / "a.txt").write_text("A")
    run("--logist-fixtures", "rec", "--logist-record", "rewrite").assert_outcomes(passed=1)
    assert statuses(folder)[-1] == "SUCCESS"
    assert [*find_history(folder).read_interactions()][1].response.evidence_files == ["a.txt"]


def test_one_that_nobody_has_certified(pytester: pytest.Pytester, run: Run) -> None:
    """It gets a manifest; the limit that a person raised on the way is raised again."""
    folder = recorded(pytester.path / "rec", "halted-raised-and-resumed").parent
    old = statuses(folder)
    speaks(pytester, answer(), answer())
    result = run("--logist-fixtures", "rec", "--logist-record", "rewrite")
    result.assert_outcomes(passed=1)
    assert job_fixture.read_manifest(folder) is not None
    assert statuses(folder) == old


def test_nobody_asks_twice_at_a_time(run: Run) -> None:
    result = run("--logist-record", "rewrite", "-pxdist", "-n2")
    assert result.ret is pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: logist: --logist-record rewrite doesn't work with xdist*"])


def test_nothing_to_record_is_an_error(run: Run) -> None:
    result = run("--logist-record", "rewrite")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*no histories selected (use --logist-fixtures PATH)*")
