"""A state.json that is behind its history: its writer was killed after the append, before the state was written."""

from __future__ import annotations

import pytest

from tests.cli.desk import Desk, answer, command


def killed_before_the_state(desk: Desk, *args: str) -> None:
    """Runs a command on j1, and leaves what a kill between its append and its write of state.json leaves."""
    old = (desk.job() / "state.json").read_bytes()
    ran = desk(*args)
    assert ran.code == 0, ran.err
    (desk.job() / "state.json").write_bytes(old)


@pytest.fixture
def resubmitted(desk: Desk) -> Desk:
    """j1 was STUCK; its history says PENDING, and its state.json does not."""
    desk.script(answer("no JSON here"), answer(), answer())
    desk.create("j1", "--no-review", "--approval", "none")
    assert desk("job", "step", "j1").code == 3
    killed_before_the_state(desk, "job", "resubmit", "j1", "--note", "Again.")
    assert desk.state()["status"] == "STUCK"
    return desk


def test_the_queue_runs_the_job(resubmitted: Desk) -> None:
    ran = resubmitted("run")
    assert (ran.code, resubmitted.state()["status"]) == (0, "SUCCESS")
    assert "no ready jobs" not in ran.out


def test_a_command_that_is_refused_writes_the_state(resubmitted: Desk) -> None:
    before = len(resubmitted.history())
    ran = resubmitted("job", "resubmit", "j1", "--note", "Again.")
    assert (ran.code, len(resubmitted.history())) == (8, before)
    assert resubmitted.state()["status"] == "PENDING"
    assert resubmitted.state()["head"]["sequence"] == before


def test_a_command_that_has_nothing_to_do_writes_the_state(resubmitted: Desk) -> None:
    assert resubmitted("job", "config", "j1", "--set", "rank=0").code == 0
    assert resubmitted.state()["status"] == "PENDING"


def test_the_list_shows_what_the_history_says_and_warns(resubmitted: Desk) -> None:
    resubmitted.create("other")
    before = resubmitted.tree()
    ran = resubmitted("job", "list")
    assert [line.split("\t")[:2] for line in ran.out.splitlines()] == [
        ["j1", "PENDING"],
        ["other", "PENDING"],
    ]
    assert ran.err.count("warning") == 1
    assert "j1: state.json lacks the last 1 interaction: the state was rebuilt from the history" in ran.err
    assert resubmitted("job", "list", "--stuck").out == ""
    read = resubmitted("job", "list", "--json").json
    assert [each["status"] for each in read["data"]] == ["PENDING", "PENDING"]
    assert [each["code"] for each in read["diagnostics"]] == ["state_rebuilt"]
    assert resubmitted.tree() == before


def test_where_the_history_can_not_be_read_the_list_says_so(desk: Desk) -> None:
    desk.create()
    (desk.job() / "jobHistory.json").unlink()
    ran = desk("job", "list")
    assert (ran.code, ran.out.split("\t")[:2]) == (0, ["j1", "PENDING"])
    assert "j1: the history is missing" in ran.err


def test_a_missing_state_is_not_taken_for_a_job_that_is_ready(desk: Desk) -> None:
    desk.script(answer(command()))
    desk.create("j1", "--no-review", "--approval", "none")
    assert desk("job", "step", "j1").code == 0
    (desk.job() / "state.json").unlink()
    ran = desk("run")
    assert (ran.code, ran.out) == (0, "no ready jobs\n")
