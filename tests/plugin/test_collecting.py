"""Which histories become tests, what they are called, and that nothing else of a job is looked at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.plugin.conftest import MAIN, Run, recorded
from tests.support import ROOT

HOSTILE = "raise SystemExit('the code of an agent was run')\n"


def ids(result: pytest.RunResult) -> list[str]:
    """What a run with --collect-only names."""
    return [line for line in result.outlines if "::" in line]


def test_nothing_is_collected_unasked(pytester: pytest.Pytester, run: Run) -> None:
    recorded(pytester.path / "rec")
    assert run("--collect-only").ret is pytest.ExitCode.NO_TESTS_COLLECTED


def test_each_history_is_one_test_that_its_id_runs_again(pytester: pytest.Pytester, run: Run) -> None:
    shutil.copytree(ROOT / "fixtures" / "jobs", pytester.path / "rec")
    found = ids(run("--collect-only", "--logist-fixtures", "rec"))
    names = sorted(path.name for path in (ROOT / "fixtures" / "jobs").iterdir())
    assert found == [f"rec/{name}/jobHistory.json::replay" for name in names]
    run("--logist-fixtures", "rec", "-k", "main-job or restep").assert_outcomes(passed=2, deselected=3)
    run("--logist-fixtures", "rec", "-m", "not logist").assert_outcomes(deselected=5)
    run(found[0]).assert_outcomes(passed=1)  # without the option too
    run("-v", found[0], "--logist-fixtures", "rec").assert_outcomes(passed=5)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--logist-fixtures", "."], [".logist/jobs/main-job", "rec/main-job", "rec/other"]),
        (["--logist-fixtures", ".logist"], [".logist/jobs/main-job"]),
        (["--logist-fixtures", ".logist/jobs", ".logist"], [".logist/jobs/main-job"]),
        (["--logist-fixtures", "rec/o*"], ["rec/other"]),
        (["--logist-fixtures", "rec/../rec/other"], ["rec/other"]),
        (["--logist-fixtures", "rec", "--ignore", "rec/other"], ["rec/main-job"]),
        (
            ["--logist-fixtures", "rec", "--logist-fixtures", "rec/other", "rec"],
            ["rec/main-job", "rec/other"],
        ),
        (["--logist-fixtures", "rec/other/jobHistory.json"], ["rec/other"]),
        (
            ["--logist-fixtures", "rec/other", "--logist-fixtures", ".logist"],
            [".logist/jobs/main-job", "rec/other"],
        ),
    ],
    ids=" ".join,
)
def test_what_is_named_is_found(
    pytester: pytest.Pytester, run: Run, arguments: list[str], found: list[str]
) -> None:
    recorded(pytester.path / "rec")
    recorded(pytester.path / ".logist" / "jobs")
    other = pytester.path / "rec" / "other"
    shutil.copytree(pytester.path / "rec" / MAIN, other)
    (other / "workspace").mkdir()
    (other / "conftest.py").write_text(HOSTILE)
    for path in (other, other / "workspace"):
        (path / "test_of_an_agent.py").write_text(HOSTILE)
    named = ids(run("--collect-only", *arguments))
    assert named == [f"{path}/jobHistory.json::replay" for path in found]


@pytest.mark.parametrize(
    "arguments",
    [
        ["rec/test-it/jobHistory.json::replay"],
        ["rec/test-it", "--logist-fixtures", "rec/test-it"],
        ["rec", "--logist-fixtures", "rec/test-it"],
        ["rec/test-it/jobHistory.json", "rec/mine", "--logist-fixtures", "rec/test-it"],
    ],
    ids=" ".join,
)
def test_no_code_of_a_fixture_is_run_however_it_is_named(
    pytester: pytest.Pytester, run: Run, arguments: list[str]
) -> None:
    """pytest itself would look for conftest.py in what is named, and in directories that are called `test...`."""
    recorded(pytester.path / "rec", MAIN).parent.rename(pytester.path / "rec" / "test-it")
    (pytester.path / "rec" / "test-it" / "conftest.py").write_text(HOSTILE)
    (pytester.path / "rec" / "mine").mkdir()
    (pytester.path / "rec" / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef mine(): pass\n")
    (pytester.path / "rec" / "mine" / "test_mine.py").write_text("def test_mine(mine): pass\n")
    is_whole = arguments[0] == "rec" or "rec/mine" in arguments
    run(*arguments).assert_outcomes(passed=1 + is_whole)


@pytest.mark.deep
def test_a_history_of_another_name_and_place(pytester: pytest.Pytester, run: Run, tmp_path: Path) -> None:
    path = recorded(tmp_path / "elsewhere").rename(tmp_path / "elsewhere" / "once.json")
    name = f"../{tmp_path.name}/elsewhere/once.json::replay"
    run("-v", "--logist-fixtures", path, quiet=False).stdout.fnmatch_lines([f"{name} PASSED*"])
    run(name, "--logist-fixtures", path).assert_outcomes(passed=1)


def test_the_ini_file_lists_what_belongs_to_a_whole_run(pytester: pytest.Pytester, run: Run) -> None:
    recorded(pytester.path / "rec")
    pytester.makeini("[pytest]\nlogist_fixtures =\n    rec\naddopts = --strict-config --strict-markers\n")
    pytester.makepyfile("def test_of_a_person(): pass")
    run().assert_outcomes(passed=2)
    run("test_the_ini_file_lists_what_belongs_to_a_whole_run.py").assert_outcomes(passed=1)
    run("rec").assert_outcomes(passed=1)
    run("rec/main-job/jobHistory.json::replay").assert_outcomes(passed=1)


def test_what_the_ini_file_lists_is_not_looked_for_in_vain(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeini("[pytest]\nlogist_fixtures =\n    gone\n")
    pytester.makepyfile("def test_of_a_person(): pass")
    run("test_what_the_ini_file_lists_is_not_looked_for_in_vain.py").assert_outcomes(passed=1)
    assert run().ret is pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("place", ["empty", "nothing-there", "notes.txt", "empty/*"])
def test_a_place_without_a_history_is_an_error_of_usage(
    pytester: pytest.Pytester, run: Run, place: str
) -> None:
    (pytester.path / "empty").mkdir()
    result = run("--logist-fixtures", place)
    assert result.ret is pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: logist: no history found at *{place}*use a job directory*"])


def test_a_path_that_pytest_reads_otherwise(pytester: pytest.Pytester, run: Run) -> None:
    recorded(pytester.path / "rec[1]")
    result = run("--logist-fixtures", "rec[1]")
    assert result.ret is pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: logist: pytest doesn't support paths with *use a parent folder*"])
    run("--logist-fixtures", ".").assert_outcomes(passed=1)


def test_the_tests_of_a_person_lie_beside(pytester: pytest.Pytester, run: Run) -> None:
    recorded(pytester.path / "rec")
    (pytester.path / "rec" / "test_mine.py").write_text("def test_mine(): pass\n")
    run("--logist-fixtures", "rec").assert_outcomes(passed=2)
    workspace = pytester.path / "rec" / MAIN / "workspace"
    workspace.mkdir()
    (workspace / "test_made.py").write_text("def test_made(): pass\n")
    run("--logist-fixtures", "rec").assert_outcomes(passed=2)
    run("--logist-fixtures", "rec/main-job/jobHistory.json", "rec/main-job/workspace").assert_outcomes(
        passed=2
    )
