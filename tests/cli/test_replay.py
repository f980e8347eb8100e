"""`logist replay`, `logist job replay` and `logist job verify`."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from logist.jobs.archive.recorded_jobs import Archive
from tests import support
from tests.cli.desk import Desk, answer

GATES = support.ROOT / "fixtures/upgrades/gates-that-a-missing-confidence-opened"


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
    assert done("job", "replay", "j1") == (0, "j1: 7 interactions replay with the same result\n", "")
    assert done("job", "replay", "j1", "--json").json["data"] == {
        "source": "j1",
        "interactions": 7,
        "skipped": 0,
        "differences": [],
        "changed_rules": [],
        "prompts": [],
        "more": 0,
        "manifest": [],
        "notes": [],
        "scrubbed": [],
        "error": None,
    }
    assert done.tree() == before


@pytest.mark.parametrize(("strict", "code"), [([], 0), (["--strict"], 9)])
def test_a_rule_that_a_newer_version_changed_is_named_and_no_failure(
    desk: Desk, strict: list[str], code: int
) -> None:
    ran = desk("replay", str(GATES), "--prompts", "accept", "--junit", "junit.xml", *strict)
    assert ran.code == code
    assert "a rule has changed in Logist 0.1.0 (closed_gates)" in ran.out
    assert "1 history, 11 interactions: 0 the same, 1 the same except for changed rules" in ran.out
    assert ("replayed with a different result because of a changed rule" in ran.err) is bool(strict)
    suite = next(iter(ElementTree.parse(desk.place / "junit.xml").getroot()))
    assert (suite.get("failures"), "closed_gates" in "".join(suite.itertext())) == (str(len(strict)), True)
    one = desk("job", "replay", "--archive", str(GATES), "--prompts", "accept", "--json", *strict)
    assert (one.code, one.json["data"]["changed_rules"][0]["version"]) == (code, "0.1.0")


def test_an_archive_needs_no_job(done: Desk, tmp_path: Path) -> None:
    rewritten(done.job() / "jobHistory.json", tmp_path / "archive", {})
    for path in ("archive", "archive/jobHistory.json"):
        ran = done("job", "replay", "--archive", str(tmp_path / path))
        assert ran == (0, f"{tmp_path / path}: 7 interactions replay with the same result\n", "")


def test_a_difference_names_where_and_why(done: Desk, tmp_path: Path) -> None:
    change = {3: {"state_after": "PENDING"}}
    rewritten(done.job() / "jobHistory.json", tmp_path / "archive", change)
    ran = done("job", "replay", "--archive", str(tmp_path / "archive"))
    assert (ran.code, ran.err) == (
        9,
        f"error: {tmp_path / 'archive'}: the history replayed with a different result\n",
    )
    assert ran.out.splitlines() == [
        f"{tmp_path / 'archive'}: 1 difference in 7 interactions",
        "  interaction 3: state_after",
        "    recorded  PENDING",
        "    today     STUCK",
        "    cause     the rules of the state machine lead to another state",
    ]
    data = done("job", "replay", "--archive", str(tmp_path / "archive"), "--json").json["data"]
    assert data["differences"][0] == {
        "sequence": 3,
        "field": "state_after",
        "recorded": "PENDING",
        "today": "STUCK",
        "cause": "the rules of the state machine lead to another state",
    }


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--archive", "nowhere"], "jobHistory.json not found in nowhere"),
        (["j1", "--archive", "x"], "can't use a job and --archive together"),
        (["nope"], "job 'nope' not found"),
        ([], "missing job (pass a job id"),
    ],
)
def test_nothing_to_replay(desk: Desk, args: list[str], message: str) -> None:
    ran = desk("job", "replay", *args)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_an_archive_that_is_damaged(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "jobHistory.json").write_text("{}", "utf-8")
    ran = desk("job", "replay", "--archive", str(tmp_path))
    assert (ran.code, ran.out) == (10, "")


@pytest.fixture
def many(desk: Desk) -> Desk:
    """Three archived jobs, of which b goes another way; and its roles are those of today."""
    source = support.ROOT / "fixtures" / "jobs" / "main-job" / "jobHistory.json"
    for name in "abc":
        change = {3: {"state_after": "WAITING"}} if name == "b" else {}
        rewritten(source, desk.place / "archive" / name, change)
    return desk


def damage(desk: Desk, name: str) -> None:
    file = desk.place / "archive" / name / "jobHistory.json"
    file.write_bytes(file.read_bytes().replace(b'"sequence":4,', b'"sequence":9,'))


class TestMany:
    def test_a_line_for_each_that_differs_and_one_for_all(self, many: Desk) -> None:
        ran = many("replay", "archive", "--prompts", "accept")
        assert (ran.code, ran.err) == (9, "error: 1 of 3 histories replayed with a different result\n")
        lines = ran.out.splitlines()
        assert lines[:2] == ["archive/b: 1 difference in 8 interactions", "  interaction 3: state_after"]
        assert lines[-1] == "3 histories, 24 interactions: 2 the same, 1 different"
        assert "archive/a" not in ran.out

    def test_one_that_is_damaged_stops_no_other(self, many: Desk) -> None:
        damage(many, "a")
        ran = many("replay", "archive", "--prompts", "accept")
        assert ran.code == 10
        assert ran.err.splitlines() == [
            "error: 1 of 3 histories can't be read completely",
            "error: 1 of 3 histories replayed with a different result",
        ]
        assert "archive/a: can't be read completely: interaction 4" in ran.out
        assert ran.out.endswith("19 interactions: 1 the same, 1 different, 1 unreadable\n")

    def test_a_fixture_is_what_its_manifest_vouches_for(self, done: Desk) -> None:
        assert done("job", "export", "j1", "--fixture", "f").code == 0
        assert done("replay", "f").code == 0
        file = done.place / "f" / "fixture.json"
        file.write_text(file.read_text("utf-8").replace('"interactions": 7', '"interactions": 6'), "utf-8")
        ran = done("replay", "f")
        assert (ran.code, ran.err) == (9, "error: 1 of 1 history replayed with a different result\n")
        assert ran.out.splitlines()[:2] == [
            "f: does not match its manifest (7 interactions)",
            "  fixture.json expects 6 interactions, the history has 7",
        ]
        file.write_text("{", "utf-8")
        assert done("replay", "f").code == 10

    def test_json(self, many: Desk) -> None:
        damage(many, "c")
        ran = many("replay", "archive", "--prompts", "accept", "--json")
        assert ran.code == 10
        data = ran.json["data"]
        assert [each["source"] for each in data["histories"]] == ["archive/a", "archive/b", "archive/c"]
        assert [len(each["differences"]) for each in data["histories"]] == [0, 1, 0]
        assert [each["error"] and each["error"]["code"] for each in data["histories"]] == [
            None,
            None,
            "damaged",
        ]
        totals = data["totals"]
        assert [totals[name] for name in ("histories", "same", "differ", "drift", "unreadable")] == [
            3,
            1,
            1,
            0,
            1,
        ]

    def test_jsonl_is_written_as_each_is_done(self, many: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        written: list[int] = []
        entries = Archive.read_entries

        def looked(self: Archive) -> Any:
            written.append(sys.stdout.buffer.getvalue().count(b"\n"))  # type: ignore[union-attr]
            return entries(self)

        monkeypatch.setattr(Archive, "read_entries", looked)
        ran = many("replay", "archive", "--jsonl", "--prompts", "accept")
        assert written == [0, 1, 2]
        assert [json.loads(line)["source"] for line in ran.out.splitlines()] == [
            f"archive/{name}" for name in "abc"
        ]

    def test_fail_fast_stops_at_the_first(self, many: Desk) -> None:
        ran = many("replay", "archive", "--fail-fast", "--json", "--prompts", "accept")
        assert ran.code == 9
        assert [each["source"] for each in ran.json["data"]["histories"]] == ["archive/a", "archive/b"]

    @pytest.mark.parametrize(
        ("choice", "code", "told"), [("fail", 9, True), ("warn", 0, True), ("accept", 0, False)]
    )
    def test_prompts(self, many: Desk, choice: str, code: int, told: bool) -> None:
        ran = many("replay", "archive/a", "--prompts", choice)
        assert ran.code == code
        assert ("role:Supervisor changed" in ran.out) is told
        assert ("the prompts of 1 of 1 history no longer match the recorded ones" in ran.err) is (
            choice == "fail"
        )
        job = many("job", "replay", "--archive", "archive/a", "--prompts", choice)
        assert (job.code, "role:Supervisor changed" in job.out) == (code, told)
        assert ("archive/a: its prompts no longer match the recorded ones" in job.err) is (choice == "fail")

    def test_a_file_of_words_is_no_history(self, desk: Desk) -> None:
        (desk.place / "notes.txt").write_text("Buy milk.\n", "utf-8")
        ran = desk("replay", "notes.txt")
        assert (ran.code, "notes.txt: can't be read completely: not a history" in ran.out) == (
            10,
            True,
        )
        assert "backup" not in ran.out

    @pytest.mark.parametrize(("choice", "code"), [("fail", 9), ("warn", 0), ("accept", 0)])
    def test_prompts_of_which_none_can_be_compared(self, desk: Desk, choice: str, code: int) -> None:
        said = {"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."}
        asked = {"prompt": "Do it.", "metadata": {"role": "Worker"}}
        entries = [{"sequence": 0, "state_before": "PENDING", "request": asked, "response": said}]
        (desk.place / "old.json").write_text(json.dumps(entries), "utf-8")
        ran = desk("replay", "old.json", "--prompts", choice)
        assert ran.code == code
        reason = "none of the prompts of 1 of 1 history can be compared with the current ones"
        assert (reason in ran.err) is (choice == "fail")
        assert ("not compared with the current version" in ran.err) is (choice != "accept")

    def test_a_diff_has_the_colours_that_it_has_in_a_history(self, done: Desk) -> None:
        role = "name: Worker\ndescription: Works.\nllm_model: m\ninstructions: |\n  {}\n\n"
        roles = done.place / ".logist" / "roles"
        roles.mkdir(exist_ok=True)
        (roles / "Worker.yaml").write_text(role.format("Work."), "utf-8")
        for command in (["replay"], ["job", "replay", "j1"]):
            ran = done(*command, env={"FORCE_COLOR": "1"})
            lines = ran.out.splitlines()
            assert "\x1b[32m    +Work.\x1b[0m" in lines
            assert [line for line in lines if line.startswith("\x1b[31m    -")]
            assert not [line for line in lines if not line.strip()]

    def test_a_project_that_does_not_validate_keeps_nobody_from_replaying(self, many: Desk) -> None:
        many.settings("limts: 1\n")
        (many.home / "roles").mkdir()
        (many.home / "roles" / "Worker.yaml").write_text("name: Worker\n", "utf-8")
        ran = many("replay", "archive/a")
        assert ran.code == 0
        assert "comparing prompts with the default settings" in ran.err
        assert many("replay", "archive/a", "--prompts", "accept").code == 0
        strict = many("replay", "archive/a", "--prompts", "fail")
        assert (strict.code, strict.out) == (5, "")
        assert "unknown key `limts`" in strict.err

    def test_without_a_path_the_jobs_of_the_project(self, done: Desk) -> None:
        assert done("replay") == (0, "1 history, 7 interactions: 1 the same\n", "")
        assert done("replay", "--jsonl").out.startswith('{"source":"j1",')
        (done.job() / "jobHistory.json").unlink()
        ran = done("replay")
        assert (ran.code, "j1: can't be read completely: " in ran.out) == (10, True)

    @pytest.mark.parametrize("args", [[], ["nowhere"], ["archive/a", "nowhere"], ["--prompts", "perhaps"]])
    def test_nothing_to_check_is_no_success(self, many: Desk, args: list[str]) -> None:
        ran = many("replay", *args)
        assert (ran.code, ran.out) == (2, "")

    def test_names_steer_no_terminal(self, many: Desk) -> None:
        (many.place / "archive" / "b").rename(many.place / "archive" / "b\x1b[31m\nforged: 1")
        ran = many("replay", "archive", "--prompts", "accept")
        assert "\x1b" not in ran.out
        assert not any(line.startswith("forged") for line in ran.out.splitlines())


class TestJunit:
    def test_nothing_but_a_report_is_written_over(self, many: Desk) -> None:
        history = many.place / "archive" / "a" / "jobHistory.json"
        before = history.read_bytes()
        ran = many("replay", "archive", "--junit", "archive/a/jobHistory.json")
        assert (ran.code, "the file exists and is not a JUnit report" in ran.err) == (2, True)
        assert history.read_bytes() == before

    def test_it_is_written_also_when_something_differs(self, many: Desk) -> None:
        damage(many, "c")
        file = many.place / "out.xml"
        file.write_text("<?xml version='1.0'?>\n<old/>", "utf-8")
        assert many("replay", "archive", "--junit", "out.xml").code == 10
        (suite,) = ElementTree.parse(file).getroot()
        assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["3", "1", "1"]
        assert [each.name for each in many.place.iterdir() if each.name.startswith(".out")] == []
        assert many("job", "replay", "--archive", "archive/b", "--junit", "out.xml").code == 9
        (suite,) = ElementTree.parse(file).getroot()
        assert suite.get("tests") == "1"

    @pytest.mark.parametrize("name", ["nowhere/out.xml", "archive", "/dev/null", "pipe"])
    def test_where_it_cannot_be_written_nothing_is_begun(self, many: Desk, name: str) -> None:
        os.mkfifo(many.place / "pipe")
        ran = many("replay", "archive", "--junit", name)
        assert (ran.code, ran.out) == (2, "")
        assert "--junit" in ran.err


def test_a_bar_on_a_terminal_alone(many: Desk) -> None:
    seen = many.on_terminal("replay", "archive", "--prompts", "accept", columns=60, env={"NO_COLOR": "1"})
    assert "[########................] 1/3 histories, 8 interactions" in seen
    assert all(len(line) < 60 for line in seen.replace("\r", "\n").split("\n") if line.startswith("["))
    assert (
        seen.replace("\r", "\n").rstrip().endswith("error: 1 of 3 histories replayed with a different result")
    )
    assert "[####" not in many("replay", "archive", "--prompts", "accept").err


def test_a_redacted_fixture_is_not_replaced_by_one_that_is_not(done: Desk) -> None:
    export = ["job", "export", "j1", "--fixture", "f"]
    assert done(*export, "--redact").code == 0
    before = done.tree()
    ran = done(*export, "--force")
    assert (ran.code, ran.out, "f contains a redacted fixture (use --redact too" in ran.err) == (2, "", True)
    assert done.tree() == before
    assert done(*export, "--force", "--redact").code == 0


def test_verify_counts(done: Desk) -> None:
    before = done.tree()
    ran = done("job", "verify", "j1")
    assert ran == (0, "j1: OK, 7 interactions verified, state matches\n", "")
    data = done("job", "verify", "j1", "--json").json["data"]
    assert data.pop("workspace") == {
        "checkpoint": done.state()["checkpoint"],
        "changes": [],
        "omitted": 0,
    }
    assert data == {
        "job": "j1",
        "ok": True,
        "interactions": 7,
        "trustworthy": {"first": 1, "last": 7},
        "first_bad": None,
        "problems": [],
        "notes": [],
        "removed_files": None,
        "attestation": None,
        "scrubs": [],
        "signatures": [],
    }
    assert done.tree() == before


def test_verify_lists_every_problem(done: Desk) -> None:
    file = done.job() / "jobHistory.json"
    file.write_bytes(file.read_bytes().replace(b'"state_before":"PENDING"', b'"state_before":"PENDONG"'))
    (done.job() / "state.json").write_text("{", "utf-8")
    before = done.tree()
    ran = done("job", "verify", "j1")
    assert (ran.code, ran.out.splitlines()[0]) == (10, "no valid interaction found")
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
    assert 'title is "Another", expected "Do it."' in ran.err


def test_a_state_that_is_missing_or_behind_is_a_note(done: Desk) -> None:
    file = done.job() / "state.json"
    old = file.read_bytes()
    done("job", "rerun", "j1")
    file.write_bytes(old)
    for what in ("older than the history", "missing"):
        note = f"state.json is {what}; the next change to the job recreates it"
        ran = done("job", "verify", "j1")
        count = len(done.history())
        assert ran == (0, f"j1: OK, {count} interactions verified\n", f"{note}\n")
        shown = done("job", "verify", "j1", "--json")
        assert (shown.code, shown.json["data"]["ok"]) == (0, True)
        assert [(d["severity"], d["message"]) for d in shown.json["diagnostics"]] == [("info", note)]
        assert done("doctor", "--deep").code == 0
        file.unlink(missing_ok=True)


def test_several_processes_give_the_same_result(done: Desk) -> None:
    """Damaged, different and equal histories, in every form of output."""
    source = done.job() / "jobHistory.json"
    for number in range(3):
        rewritten(source, done.place / f"a/{number}", {})
    rewritten(source, done.place / "a/3", {3: {"state_after": "SUCCESS"}})
    (done.place / "a/4").mkdir()
    (done.place / "a/4/jobHistory.json").write_bytes(source.read_bytes()[:-200])
    for options in ([], ["--json"], ["--jsonl"], ["--fail-fast"], ["--junit", "j.xml"]):
        one, two = (done("replay", "a", *options, "--jobs", jobs) for jobs in "12")
        assert two == one
    assert one.code == 10
    assert done("replay", "a/0", "a/1", "--jobs", "4").code == 0
    assert done("replay", "a", "--jobs", "0").code == 2
