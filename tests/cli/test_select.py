"""The current job: `logist job select`, and which one a command takes. And `logist job rank`."""

from __future__ import annotations

import pytest

from tests.cli.desk import Desk


@pytest.fixture
def two(desk: Desk) -> Desk:
    desk.create("one")
    desk.create("two")
    return desk


def chosen(desk: Desk, *args: str, env: dict[str, str] | None = None) -> str:
    ran = desk("job", "status", *args, "--json", env=env or {})
    assert ran.code == 0
    return str(ran.json["data"]["id"])


def test_argument_then_option_then_environment_then_selected(two: Desk) -> None:
    named = {"LOGIST_JOB_ID": "two"}
    assert two("job", "select", "one").code == 0
    assert chosen(two) == "one"
    assert chosen(two, env=named) == "two"
    assert chosen(two, "--job", "one", env=named) == "one"
    assert chosen(two, "one", env=named) == "one"
    assert chosen(two, "one", "--job", "one") == "one"


def test_two_names_are_refused(two: Desk) -> None:
    ran = two("job", "status", "one", "--job", "two")
    assert (ran.code, ran.err) == (
        2,
        "error: --job: two different jobs: one and two (use the argument or --job, not both)\n",
    )


def test_no_name_at_all(two: Desk) -> None:
    for args in (["status"], ["select"], ["step"]):
        ran = two("job", *args)
        assert (ran.code, ran.err) == (
            2,
            "error: missing job (pass a job id, or run: logist job select JOB)\n",
        )


def test_selecting_writes_one_line_and_forgets_it(two: Desk) -> None:
    assert two("job", "select", "one") == (0, "one is the current job\n", "")
    assert (two.home / "current_job").read_text("utf-8") == "one\n"
    assert two("job", "select") == (0, "one\n", "")
    assert two("job", "select", "--clear") == (0, "selection cleared\n", "")
    assert not (two.home / "current_job").exists()
    assert two("job", "select", "--clear").code == 0


def test_a_choice_that_the_environment_hides_is_told(two: Desk) -> None:
    ran = two("job", "select", "one", env={"LOGIST_JOB_ID": "two"})
    assert (ran.code, ran.err) == (0, "LOGIST_JOB_ID overrides this selection: two\n")


@pytest.mark.parametrize("job_id", ["nope", "../one", "ONE"])
def test_only_a_job_that_exists_is_selected(two: Desk, job_id: str) -> None:
    two("job", "select", "one")
    before = two.tree()
    ran = two("job", "select", job_id)
    assert (ran.code, ran.out) == (2, "")
    assert two.tree() == before


def test_clear_takes_no_job(two: Desk) -> None:
    assert two("job", "select", "one", "--clear").code == 2


def test_a_selected_job_that_is_gone(two: Desk) -> None:
    (two.home / "current_job").write_text("gone\n", "utf-8")
    ran = two("job", "status")
    assert (ran.code, ran.out) == (2, "")
    assert "job 'gone' not found" in ran.err


def test_a_selection_that_is_no_text(two: Desk) -> None:
    (two.home / "current_job").write_bytes(b"\xff\xfe")
    assert two("job", "status").code == 2


@pytest.mark.parametrize(
    ("args", "value"), [(["two", "-5"], -5), (["--job", "two", "7"], 7), (["two", "0"], 0)]
)
def test_rank(two: Desk, args: list[str], value: int) -> None:
    assert two("job", "rank", *args).code == 0
    assert two.state("two")["rank"] == value


def test_rank_of_the_current_job(two: Desk) -> None:
    two("job", "select", "two")
    assert two("job", "rank", "-1").code == 0
    assert two("job", "list").out.startswith("two\t")


@pytest.mark.parametrize(
    "args", [["two", "first"], ["two", "1.5"], ["two", "1", "2"], ["two"], ["--", "two", "--1"]]
)
def test_rank_is_a_whole_number(two: Desk, args: list[str]) -> None:
    ran = two("job", "rank", *args)
    assert (ran.code, ran.out) == (2, "")
    assert "expected a job and an integer, got: " in ran.err
