"""`logist job status`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from logist.store import JobDir
from logist.store.settled_state import compute_checksum
from tests.cli.desk import Desk, answer, command


def data(desk: Desk, job_id: str = "j1") -> dict[str, Any]:
    ran = desk("job", "status", job_id, "--json")
    assert ran.code == 0
    shown: dict[str, Any] = ran.json["data"]
    return shown


@pytest.fixture
def stuck(desk: Desk) -> Desk:
    summary = "Wrote it.\nTwice."
    desk.script(
        answer(command(summary=summary, evidence_files=["a.txt"]), files={"a.txt": "A"}), answer("Well...")
    )
    desk.create("j1", "--title", "Write a")
    desk("job", "run", "j1")
    return desk


@pytest.mark.parametrize("more", [[], ["-v"]])
def test_stuck(stuck: Desk, more: list[str], snapshot: SnapshotAssertion) -> None:
    before = stuck.tree()
    ran = stuck("job", "status", "j1", *more)
    assert ran.code == 0
    assert stuck.shown(ran) == snapshot
    assert stuck.tree() == before


def test_every_state_names_the_command_that_answers_it(desk: Desk) -> None:
    desk.create("j1", "--draft")
    assert data(desk)["next_command"] == "logist job activate --job j1"
    desk("job", "activate", "j1")
    assert data(desk)["next_command"] == "logist job step --job j1"
    desk("job", "suspend", "j1")
    assert data(desk)["next_command"] == "logist job resume --job j1"
    desk("job", "cancel", "j1")
    assert data(desk)["next_command"] == "logist job rerun --job j1"


def test_a_note_waits_for_the_next_agent(stuck: Desk) -> None:
    stuck("job", "resubmit", "j1", "--note", "Keep it short.")
    shown = stuck("job", "status", "j1").out
    assert "  note for the next agent: Keep it short.\n" in shown
    assert "reason:" not in shown  # it would be the note again


@pytest.mark.parametrize(
    ("charge", "level", "style"),
    [
        ("749", "ok", ""),
        ("750", "near", "\x1b[33m"),
        ("999", "near", "\x1b[33m"),
        ("1000", "reached", "\x1b[31m"),
    ],
)
def test_limits_are_yellow_from_75_percent_and_red_from_100(
    desk: Desk, charge: str, level: str, style: str
) -> None:
    desk.create()
    desk("job", "poststep", "j1", "--response-string", command("RETRY"), "--charge", charge)
    assert data(desk)["limits"][0]["level"] == level
    out = desk("job", "status", "j1", env={"FORCE_COLOR": "1"}).out
    line = next(line for line in out.splitlines() if "cost: " in line)
    assert line.startswith(f"  {style}cost: ${float(charge) / 100:.2f} of $10.00 (")
    advised = "raise it: logist job config --job j1 --set limits.cost_threshold=..." in out
    assert advised is (level == "reached")


def test_a_limit_of_nothing_is_reached(desk: Desk) -> None:
    desk.create("j1", "--max-allowed-iterations", "0")
    assert data(desk)["limits"][2] == {
        "name": "max_allowed_iterations",
        "used": 0,
        "limit": 0,
        "unit": "runs",
        "percent": 100,
        "level": "reached",
    }


def test_who_is_at_work(desk: Desk) -> None:
    desk.create()
    job = JobDir.open(desk.jobs, "j1")
    job.begin_exchange(1, {})
    with job.hold_lock(command="job step", since="2026-01-02T03:04:05Z"):
        shown = data(desk)
        assert (shown["status"], shown["resting"]) == ("RUNNING", "PENDING")
        assert shown["held_by"]["since"] == "2026-01-02T03:04:05Z"
        assert shown["next_command"] == (  # a step would be refused
            "logist job tail --job j1 to wait and watch the agent, "
            "or: logist job cancel --job j1 --yes to stop it and end the job"
        )
        assert desk("job", "list", "--json").json["data"][0]["next_command"] == shown["next_command"]
        out = desk("job", "status", "j1").out
    assert "j1 is RUNNING\n" in out
    assert "  running: job step (pid " in out


def test_an_exchange_that_was_left_in_flight(desk: Desk) -> None:
    desk.create()
    JobDir.open(desk.jobs, "j1").begin_exchange(1, {})
    ran = desk("job", "status", "j1")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "j1 is PENDING")
    assert "a command was killed while an agent was working" in ran.err


def test_a_missing_state_is_told_from_the_history(stuck: Desk) -> None:
    as_it_is = data(stuck)
    (stuck.job() / "state.json").unlink()
    before = stuck.tree()
    ran = stuck("job", "status", "j1")
    assert ran.code == 0
    assert "state.json is missing: the state was rebuilt from the history" in ran.err
    assert data(stuck) == as_it_is
    assert stuck.tree() == before


def test_a_state_that_is_behind_is_told_from_the_history(stuck: Desk) -> None:
    old = (stuck.job() / "state.json").read_bytes()
    stuck("job", "suspend", "j1")
    as_it_is = data(stuck)
    (stuck.job() / "state.json").write_bytes(old)
    ran = stuck("job", "status", "j1")
    assert "state.json lacks the last 1 interaction: the state was rebuilt from the history" in ran.err
    assert data(stuck) == as_it_is
    assert as_it_is["status"] == "SUSPENDED"


def test_a_torn_append_is_told(stuck: Desk) -> None:
    file = stuck.job() / "jobHistory.json"
    file.write_bytes(file.read_bytes().removesuffix(b"]}\n") + b',{"sequence":4,')
    ran = stuck("job", "status", "j1")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "j1 is STUCK (agent)")
    assert "the history ends with an incomplete entry" in ran.err


@pytest.mark.parametrize("bad", ["", "{", "[]", '{"status": "SUCCESS"}'])
def test_a_damaged_state(stuck: Desk, bad: str) -> None:
    (stuck.job() / "state.json").write_text(bad, "utf-8")
    ran = stuck("job", "status", "j1")
    assert (ran.code, ran.out) == (10, "")
    assert ran.err.startswith(f"error: {stuck.job() / 'state.json'}: state.json ")
    assert ran.err.count("\n") == 1


def test_a_state_that_somebody_edited(stuck: Desk) -> None:
    file = stuck.job() / "state.json"
    file.write_text(json.dumps(stuck.state() | {"status": "SUCCESS"}), "utf-8")
    ran = stuck("job", "status", "j1")
    assert (ran.code, ran.out) == (10, "")
    assert "state.json failed verification: it was changed" in ran.err


@pytest.mark.parametrize(
    "change",
    [
        {"rank": "first"},
        {"status": []},
        {"usage": {"cumulative_cost": "x", "cumulative_cost_microcents": 0}},
        {"title": None},
        {"limits": None},
        {"last": 7},
        {"artefacts": [7]},
        {"reason": 5},
    ],
)
def test_a_sealed_state_that_nobody_wrote(stuck: Desk, change: dict[str, object]) -> None:
    state = stuck.state() | change
    del state["checksum"]
    file = stuck.job() / "state.json"
    file.write_text(json.dumps(state | {"checksum": compute_checksum(state)}), "utf-8")
    ran = stuck("job", "status", "j1", "-v")
    assert (ran.code, ran.out) == (10, "")
    assert ran.err.startswith(
        f"error: {stuck.job() / 'state.json'}: state.json is invalid: {next(iter(change))}"
    )
    assert ran.err.count("\n") == 1


def test_a_missing_history(stuck: Desk) -> None:
    (stuck.job() / "jobHistory.json").unlink()
    ran = stuck("job", "status", "j1")
    assert (ran.code, ran.out) == (10, "")
    assert "the history is missing" in ran.err


@pytest.mark.parametrize("job_id", ["nope", "../project", "a/b", "", "x" * 129, "j1\n"])
def test_an_unknown_job_or_no_id_at_all(stuck: Desk, job_id: str) -> None:
    ran = stuck("job", "status", job_id)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
