"""`logist job replay` and `logist job verify`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.desk import Desk, answer


@pytest.fixture
def done(desk: Desk) -> Desk:
    """A job with eight interactions."""
    desk.script(answer(), answer("?"), answer())
    desk.create()
    desk("job", "run", "j1")
    desk("job", "resubmit", "j1", "--review")
    desk("job", "run", "j1")
    desk("job", "approve", "j1")
    desk("job", "restep", "j1", "--to", "5")
    return desk


def rewritten(source: Path, target: Path, change: dict[int, dict[str, Any]]) -> None:
    """The history with other values in it, its chain whole: as another version might have recorded it."""
    head, *lines, _, _ = source.read_text("utf-8").split("\n")
    made, previous = [], None
    for line in lines:
        entry = json.loads(line.removeprefix(","))
        entry |= change.get(entry["sequence"], {})
        del entry["checksum"]
        entry["previous"] = previous
        body = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
        previous = hashlib.sha256(body.encode()).hexdigest()
        made.append(f'{body[:-1]},"checksum":"{previous}"}}')
    target.mkdir(parents=True, exist_ok=True)
    (target / "jobHistory.json").write_text(head + "\n" + "\n,".join(made) + "\n]}\n", "utf-8")


def test_the_same_way_today(done: Desk) -> None:
    before = done.tree()
    assert done("job", "replay", "j1") == (0, "j1: 7 interactions go the same way today\n", "")
    assert done("job", "replay", "j1", "--json").json["data"] == {
        "source": "j1",
        "interactions": 7,
        "skipped": 0,
        "differences": [],
    }
    assert done.tree() == before


def test_an_archive_needs_no_job(done: Desk, tmp_path: Path) -> None:
    rewritten(done.job() / "jobHistory.json", tmp_path / "archive", {})
    for path in ("archive", "archive/jobHistory.json"):
        ran = done("job", "replay", "--archive", str(tmp_path / path))
        assert ran == (0, f"{tmp_path / path}: 7 interactions go the same way today\n", "")


def test_a_difference_names_where_and_why(done: Desk, tmp_path: Path) -> None:
    change = {3: {"state_after": "PENDING"}}
    rewritten(done.job() / "jobHistory.json", tmp_path / "archive", change)
    ran = done("job", "replay", "--archive", str(tmp_path / "archive"))
    assert (ran.code, ran.out) == (9, "")
    expected = (
        f"error: {tmp_path / 'archive'}: interaction 3: state_after was PENDING, today it is STUCK: "
        "the rules of the state machine lead elsewhere"
    )
    assert ran.err.startswith(expected)
    assert ran.err.count("\n") == 1
    data = done("job", "replay", "--archive", str(tmp_path / "archive"), "--json").json["data"]
    assert data["differences"][0] == {
        "sequence": 3,
        "field": "state_after",
        "recorded": "PENDING",
        "today": "STUCK",
        "cause": "the rules of the state machine lead elsewhere",
    }


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--archive", "nowhere"], "no jobHistory.json in"),
        (["j1", "--archive", "x"], "name a job or --archive, not both"),
        (["nope"], "there is no job 'nope'"),
        ([], "no job named"),
    ],
)
def test_nothing_to_replay(done: Desk, args: list[str], message: str) -> None:
    ran = done("job", "replay", *args)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_an_archive_that_is_damaged(done: Desk, tmp_path: Path) -> None:
    (tmp_path / "jobHistory.json").write_text("{}", "utf-8")
    ran = done("job", "replay", "--archive", str(tmp_path))
    assert (ran.code, ran.out) == (10, "")


def test_verify_counts(done: Desk) -> None:
    before = done.tree()
    ran = done("job", "verify", "j1")
    assert ran == (0, "j1 verifies: 7 interactions, and the state they give\n", "")
    assert done("job", "verify", "j1", "--json").json["data"] == {
        "job": "j1",
        "ok": True,
        "interactions": 7,
        "trustworthy": {"first": 1, "last": 7},
        "first_bad": None,
        "problems": [],
        "notes": [],
    }
    assert done.tree() == before


def test_verify_lists_every_problem(done: Desk) -> None:
    file = done.job() / "jobHistory.json"
    file.write_bytes(file.read_bytes().replace(b'"state_before":"PENDING"', b'"state_before":"PENDONG"'))
    (done.job() / "state.json").write_text("{", "utf-8")
    before = done.tree()
    ran = done("job", "verify", "j1")
    assert (ran.code, ran.out.splitlines()[0]) == (10, "no interaction is proven")
    assert ran.err.count("error: ") >= 2
    assert f"error: {done.job()}: interaction 2: " in ran.err
    shown = done("job", "verify", "j1", "--json").json
    assert shown["data"]["ok"] is False
    told = [each["message"] for each in shown["diagnostics"] if each["severity"] == "error"]
    assert len(shown["data"]["problems"]) == len(told) == ran.err.count("error: ")
    assert done.tree() == before


def test_verify_knows_a_state_that_the_history_does_not_give(done: Desk) -> None:
    state = done.state() | {"title": "Another"}
    del state["checksum"]
    body = json.dumps(state, ensure_ascii=False, separators=(",", ":"))
    state["checksum"] = hashlib.sha256(body.encode()).hexdigest()
    text = json.dumps(state, ensure_ascii=False, indent=1)
    (done.job() / "state.json").write_text(text + "\n", "utf-8")
    ran = done("job", "verify", "j1")
    assert ran.code == 10
    assert 'title is "Another", not "Do it."' in ran.err


def test_a_state_that_is_missing_or_behind_is_a_note(done: Desk) -> None:
    file = done.job() / "state.json"
    old = file.read_bytes()
    done("job", "rerun", "j1")
    file.write_bytes(old)
    for what in ("behind the history", "missing"):
        note = f"state.json is {what}; the next change makes it anew"
        ran = done("job", "verify", "j1")
        count = len(done.history())
        assert ran == (0, f"j1 verifies: {count} interactions\n", f"{note}\n")
        shown = done("job", "verify", "j1", "--json")
        assert (shown.code, shown.json["data"]["ok"]) == (0, True)
        assert [(d["severity"], d["message"]) for d in shown.json["diagnostics"]] == [("info", note)]
        assert done("doctor", "--deep").code == 0
        file.unlink(missing_ok=True)
