"""`logist job step` and `logist job poststep`."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.desk import Desk, answer, command


def test_a_step(desk: Desk, snapshot: SnapshotAssertion) -> None:
    desk.script(answer(command(summary="Wrote it.", evidence_files=["a.txt"])))
    desk.create()
    ran = desk("job", "step", "j1")
    assert ran.code == 0
    assert desk.shown(ran) == snapshot


@pytest.mark.parametrize("args", [["step"], ["run"]])
def test_stuck_refuses_to_go_on(desk: Desk, args: list[str]) -> None:
    desk.script(answer("?"))
    desk.create()
    assert desk("job", "step", "j1").code == 3
    before = desk.history()
    ran = desk("job", *args, "j1")
    assert ran.code == 3
    assert 'next: logist job resubmit --job j1 --note "..."' in ran.out
    assert desk.history() == before


def test_an_agent_that_is_not_there(desk: Desk) -> None:
    desk.create()
    ran = desk("job", "step", "j1", "--agent", "scripted:nowhere.json")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.count("\n") == 1
    assert [entry["kind"] for entry in desk.history()] == ["create"]


def test_answers_that_are_used_up(desk: Desk) -> None:
    desk.script()
    desk.create()
    ran = desk("job", "step", "j1")
    assert ran.code in (5, 6)
    assert "Traceback" not in ran.err


def test_the_answer_from_each_place(desk: Desk) -> None:
    text = command("RETRY", summary="Größe")
    (desk.place / "answer.txt").write_text(text, "utf-8")
    for args, stdin in (
        (["j1", "--response-string", text], ""),
        (["j1", "--response-file", "answer.txt"], ""),
        (["j1", "--response-file", "-"], text),
        (["j1", "-"], text),
        (["--job", "j1", "-"], text),
        (["j1", "--from-history", "2"], ""),
    ):
        if not desk.job().exists():
            desk.create("j1", "--max-attempts", "99")
        assert desk("job", "poststep", *args, stdin=stdin).code == 0, args
    recorded = [entry["response"]["raw_response"] for entry in desk.history()[1:]]
    assert recorded == [text] * 6
    assert all(entry["simulated"] for entry in desk.history()[1:])


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--response-string", "x", "--from-history", "1"],
        ["--response-string", "x", "-"],
        ["--response-file", "a", "-"],
        ["--response-file", "nowhere"],
        ["--from-history", "99"],
        ["--response-string", "x", "--charge", "-1"],
        ["--response-string", "x", "--charge", "inf"],
        ["--response-string", "x", "--charge", "nan"],
        ["--response-string", "x", "--wait", "nan"],
        ["--response-string", "x", "--role", "Nobody"],
    ],
)
def test_what_is_no_one_answer(desk: Desk, args: list[str]) -> None:
    desk.create()
    before = desk.history()
    ran = desk("job", "poststep", "j1", *args, stdin="x")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert desk.history() == before


def test_a_dry_run_says_what_would_be_and_writes_nothing(desk: Desk) -> None:
    desk.create()
    before = desk.tree()
    ran = desk("job", "poststep", "j1", "--response-string", "?", "--dry-run")
    assert (ran.code, ran.err) == (3, "dry run: nothing was written\n")
    first, entry, *_, last = ran.out.splitlines()
    assert first == "Dry run: the answer would be recorded as:"
    assert "PENDING -> STUCK" in entry
    assert last == "j1 would be STUCK"
    assert desk("job", "poststep", "j1", "--response-string", command(), "--dry-run").code == 0
    data = desk("job", "poststep", "j1", "--response-string", "?", "--dry-run", "--json").json["data"]
    assert (data["status"], data["next_command"]) == (
        "STUCK",
        "logist job step --job j1",
    )  # it is PENDING still
    assert desk.tree() == before


def test_any_finite_charge_is_booked(desk: Desk) -> None:
    desk.create()
    ran = desk("job", "poststep", "j1", "--response-string", command(), "--charge", "1e300")
    assert (ran.code, ran.err) == (0, "")
    assert desk.state()["usage"]["cumulative_cost"] == int(1e300)
    assert desk("job", "status", "j1").code == 0


def test_bytes_that_are_no_text_are_stuck(desk: Desk) -> None:
    desk.create()
    (desk.place / "answer").write_bytes(b'\xff{"action":"COMPLETED"}')
    assert desk("job", "poststep", "j1", "--response-file", "answer").code == 3
    assert "UTF-8" in desk.state()["reason"]


def test_missing_evidence_only_warns(desk: Desk) -> None:
    desk.create()
    text = command(evidence_files=["gone.txt"])
    ran = desk("job", "poststep", "j1", "--response-string", text)
    assert (ran.code, ran.err) == (0, "warning: evidence file not found: gone.txt\n")
    shown = desk("job", "poststep", "j1", "--response-string", text, "--json")
    assert shown.json["diagnostics"][0]["message"] == "evidence file not found: gone.txt"


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_a_locale_without_utf8_records_the_same(desk: Desk, locale: dict[str, str]) -> None:
    said = answer(command(summary="Größer: 漢字", evidence_files=["größe.txt", "漢字.txt"]))
    desk.script({**said, "files": {"größe.txt": "ü\n", "漢字.txt": "x\n"}})
    desk.create()
    assert desk.process("job", "step", "j1", env=locale).code == 0
    entry = desk.history()[-1]
    assert entry["response"]["evidence_files"] == ["größe.txt", "漢字.txt"]
    assert entry["state_after"] == "REVIEW_REQUIRED"
    shown = desk.process("job", "diff", "j1", "--name-only", env=locale)
    assert shown.out == ("gr\\xf6\\xdfe.txt\n\\u6f22\\u5b57.txt\n" if locale else "größe.txt\n漢字.txt\n")
    assert desk.process("job", "verify", "j1", env=locale).code == 0
