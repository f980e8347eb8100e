"""Jobs that wait for others, as a person sees them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.desk import Desk, answer
from tests.cli.test_create_batch import left, write_lines

ALONE = ("--no-review", "--approval", "none", "--no-repo")


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """Two jobs, of which `second` waits for `first-job`."""
    desk.script(answer())
    assert desk("job", "create", "Do it.", "--id", "first-job", *ALONE).code == 0
    assert desk("job", "create", "Do more.", "--id", "second", "--after", "first", *ALONE).code == 0
    return desk


def test_create_takes_the_beginning_of_an_id_and_says_what_the_job_waits_for(desk: Desk) -> None:
    ran = desk("job", "create", "Do all.", "--id", "third", "--after", "sec", "--after", "first", *ALONE)
    assert ran.out.splitlines()[0] == "third is PENDING"
    assert ran.out.splitlines()[1] == "waits for second (PENDING) and first-job (PENDING)"
    assert ran.out.splitlines()[-1] == "next: logist run"
    text = (desk.job("third") / "job.yaml").read_text("utf-8")
    assert "after:\n- second\n- first-job\n" in text


def test_a_run_continues_with_what_waited_in_the_same_run(desk: Desk) -> None:
    ran = desk("run", "--json")
    assert (ran.code, [row["job"] for row in ran.json["data"]["jobs"]]) == (0, ["first-job", "second"])


def test_a_step_of_a_waiting_job_says_so_and_ends_with_7(desk: Desk) -> None:
    ran = desk("job", "step", "second")
    assert (ran.code, ran.err) == (7, "waits for first-job (PENDING); nothing was sent\n")
    assert ran.out == "second is PENDING\nnext: logist run\n"
    assert desk("job", "run", "second").code == 7


def test_status_list_inbox_and_run_name_the_predecessor_and_the_next_command(desk: Desk) -> None:
    assert desk("job", "cancel", "first-job", "--yes").code == 0
    next_command = (
        "logist job rerun --job first-job to try it again, "
        "or: logist job config --job second --unset after to continue without it"
    )
    status = desk("job", "status", "second").out
    assert "  waits for first-job (CANCELED)\n" in status
    assert status.endswith(f"next: {next_command}\n")
    [row] = [row for row in desk("job", "list", "--json").json["data"] if row["id"] == "second"]
    assert row["waits_for"] == [{"job": "first-job", "status": "CANCELED"}]
    assert row["next_command"] == next_command
    assert "waits for first-job (CANCELED)" in desk.on_terminal("job", "list")
    inbox = desk("inbox", "--kind", "predecessor", "--json")
    [row] = inbox.json["data"]
    assert (inbox.code, row["job"], row["reason"]) == (7, "second", "waits for first-job (CANCELED)")
    assert (row["command"], row["next_command"]) == ("logist job rerun --job first-job", next_command)
    ran = desk("run")
    assert (ran.code, ran.out) == (7, "no ready jobs: 1 job waiting (1 PENDING)\n")
    assert ran.err == f"warning: second: PENDING, waits for first-job (CANCELED) ({next_command})\n"
    assert desk("job", "config", "second", "--unset", "after").code == 0
    assert desk("run").code == 0


def test_a_batch_may_name_its_own_lines_and_is_refused_as_a_whole(desk: Desk) -> None:
    lines: list[dict[str, Any]] = [
        {"id": "a", "prompt": "x", "after": ["b", "first-job"]},
        {"id": "b", "prompt": "x", "after": ["c"]},
        {"id": "c", "prompt": "x"},
    ]
    before = left(desk)
    for changed, message in (
        (["a"], "jobs would wait for each other: a waits for b, b waits for c, c waits for a"),
        (["c"], "c can't wait for itself"),
        (["gone"], "job 'gone' not found"),
        (["firs"], "job 'firs' not found"),
    ):
        lines[2]["after"] = changed
        ran = desk("job", "create", "--batch", write_lines(desk, *lines))
        number = 1 if changed == ["a"] else 3
        assert ran.code == 2
        assert ran.err.startswith(f"error: batch.jsonl:{number}: after: {message}; no job was created (")
        assert left(desk) == before
    lines[2]["after"] = []
    rows = desk("job", "create", "--batch", write_lines(desk, *lines), *ALONE, "--json").json["data"]["jobs"]
    assert [row["next_command"] for row in rows] == ["logist run", "logist run", "logist job step --job c"]
    ran = desk("run", "--parallel", "1", "--json")
    order = [row["job"] for row in ran.json["data"]["jobs"]]
    assert sorted(order) == ["a", "b", "c", "first-job", "second"]
    # Jobs of the same rank and second run in the order of their ids, so only the order that `after` asks for is certain.
    for earlier, later in (("first-job", "second"), ("c", "b"), ("b", "a"), ("first-job", "a")):
        assert order.index(earlier) < order.index(later)


def test_a_list_is_needed(desk: Desk) -> None:
    ran = desk("job", "config", "second", "--set", "after=first-job")
    assert (ran.code, ran.err) == (5, 'error: job.yaml:6: `after` must be a list, not "first-job"\n')


def test_gc_keeps_a_job_for_which_another_one_waits(desk: Desk) -> None:
    assert desk("job", "cancel", "first-job", "--yes").code == 0
    data = desk("gc", "--older-than", "0d", "--dry-run", "--json").json["data"]
    assert data["removed"] == []
    [kept] = [each for each in data["kept"] if each["job"] == "first-job"]
    assert (kept["reason"], kept["message"]) == ("awaited", "second waits for it")
