"""A job is named by any part of its id that begins no other id."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.desk import Desk, answer


@pytest.fixture
def jobs(desk: Desk) -> Desk:
    for job_id in ("fix", "fix-2", "fix-3", "zeta"):
        desk.create(job_id)
    return desk


def run_json(desk: Desk, *args: str, env: dict[str, str] | None = None) -> dict[str, object]:
    ran = desk(*args, "--json", env=env)
    assert ran.code == 0, ran.err
    data: dict[str, object] = json.loads(ran.out)["data"]
    return data


def test_every_way_to_name_a_job_takes_the_beginning_of_its_id(jobs: Desk) -> None:
    assert run_json(jobs, "job", "status", "z")["id"] == "zeta"
    assert run_json(jobs, "job", "status", "--job", "fix-3")["id"] == "fix-3"
    assert run_json(jobs, "job", "status", env={"LOGIST_JOB_ID": "ze"})["id"] == "zeta"
    assert run_json(jobs, "job", "select", "zet")["job"] == "zeta"
    assert (jobs.home / "current_job").read_text() == "zeta\n"
    assert run_json(jobs, "job", "status", "--job", "zeta", "z")["id"] == "zeta"
    assert run_json(jobs, "job", "rank", "z", "7")["job"] == "zeta"
    assert run_json(jobs, "job", "diff", "z")["job"] == "zeta"
    assert "fix-2" in jobs("job", "diff", "z", "fix-2", "--stat").out
    assert run_json(jobs, "job", "du", "z", "zeta")["jobs"][0]["job"] == "zeta"  # type: ignore[index]
    assert "history of fix" not in jobs("job", "history", "z", "--with", "fix-2").err
    assert run_json(jobs, "inbox", "note", "z", "hello")["job"] == "zeta"
    jobs.script(answer())
    assert run_json(jobs, "job", "step", "z")["job"] == "zeta"


def test_an_exact_id_wins_and_lists_no_jobs(jobs: Desk) -> None:
    scanned: list[str] = []
    watching = ["os.scandir"]
    sys.addaudithook(lambda name, args: scanned.append(str(args[0])) if name in watching else None)
    assert run_json(jobs, "job", "status", "fix")["id"] == "fix"
    listed = [jobs_dir for jobs_dir in scanned if jobs_dir.endswith("/jobs")]
    assert listed == []
    assert run_json(jobs, "job", "status", "ze")["id"] == "zeta"
    watching.clear()  # a hook can't be removed
    assert any(jobs_dir.endswith("/jobs") for jobs_dir in scanned)


def test_an_ambiguous_beginning_names_the_candidates(jobs: Desk) -> None:
    for number in range(4, 9):
        jobs.create(f"fix-{number}")
    ran = jobs("job", "status", "fi")
    assert ran.code == 2
    assert "'fi' is not unique: 8 jobs have ids that begin with it" in ran.err
    assert "type more of the id: fix, fix-2, fix-3, fix-4, fix-5 and 3 more" in ran.err
    assert jobs("job", "status", "nothing").code == 2


def test_an_unknown_id_names_similar_ones(jobs: Desk) -> None:
    for words in (("job", "status", "zeat"), ("job", "du", "zeat")):
        ran = jobs(*words)
        assert ran.code == 2
        assert "job 'zeat' not found (did you mean `zeta`? to see all jobs, run: logist job list)" in ran.err
    assert "job 'ZETA' not found (did you mean `zeta`? " in jobs("job", "status", "ZETA").err


def test_a_directory_without_jobs_is_likely_the_wrong_one(desk: Desk) -> None:
    ran = desk("job", "status", "zeta")
    assert (ran.code, "run the command in the directory of the project" in ran.err) == (2, True)


def test_a_job_that_ends_or_is_deleted_is_named_in_full(jobs: Desk) -> None:
    assert "zeta" in jobs("job", "cancel", "z", "--note", "no").out
    refused = jobs("job", "delete", "z")
    assert refused.code == 8
    assert jobs("job", "delete", "zeta", "--yes").out == "zeta was deleted\n"


def test_a_deletion_that_is_repeated_deletes_no_other_job(jobs: Desk) -> None:
    jobs("job", "cancel", "fix", "fix-2")
    jobs("job", "cancel", "zeta")
    assert jobs("job", "delete", "fix-3", "--yes").code == 8
    assert jobs("job", "delete", "fix-2", "--yes").code == 0
    assert jobs("job", "delete", "fix", "--yes").code == 0
    ran = jobs("job", "delete", "fix", "--yes")
    assert (ran.code, ran.out) == (2, "")
    assert (
        "job 'fix' not found, and --yes needs complete ids (if you mean fix-3, use its complete id" in ran.err
    )
    assert jobs("job", "delete", "zeta", "--job", "fix", "--yes").code == 2
    assert {"fix-3", "zeta"} <= {path.name for path in jobs.jobs.iterdir()}


def test_several_jobs_and_standard_input(jobs: Desk) -> None:
    ran = jobs("job", "suspend", "z", "fix-2", "zeta", "--json")
    assert [each["job"] for each in json.loads(ran.out)["data"]] == ["zeta", "fix-2"]
    ran = jobs("job", "resume", "--stdin", "--json", stdin="z\nfix-2\n")
    assert [each["job"] for each in json.loads(ran.out)["data"]] == ["zeta", "fix-2"]


def test_a_selection_never_means_another_job(jobs: Desk) -> None:
    jobs("job", "select", "fix")
    jobs("job", "cancel", "fix", "--note", "no")
    jobs("job", "delete", "fix", "--yes")
    Path(jobs.home, "current_job").write_text("fix\n")
    ran = jobs("job", "status")
    assert ran.code == 2
    assert "job 'fix' not found" in ran.err
