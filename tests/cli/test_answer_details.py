"""What a person needs to decide is where they look: check output, tool errors, questions, and what to run next."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timedelta

import pytest

from logist.core.answer.failed_calls import FailedCall, list_failed_calls
from logist.core.workflow.item_names import name_item
from logist.store.last_answer import read_last_answer
from logist.store.transcripts import read_transcript
from tests.cli.desk import Desk, answer, command
from tests.cli.test_interrupted import paid
from tests.cli.test_progress import calling, prepare
from tests.loopback import Loopback

QUESTION = {
    "type": "question",
    "question": "Which database?",
    "options": [{"label": "Postgres", "value": "pg"}, "sqlite"],
    "default": "pg",
}
HOSTILE = "[red]boom[/red] \x1b[31m https://x.example"
READ = "to read the answer: logist job history --job j1 --raw 2"
BY_HAND = "to answer by hand: logist job poststep --job j1 --response-file FILE"


@pytest.fixture
def failed(desk: Desk) -> Desk:
    """A job whose check has failed, with 31 lines of output."""
    script = "seq -f 'line %g' 30; printf '%b\\n' '" + HOSTILE.replace("\x1b", "\\033") + "'; exit 4"
    desk.settings(f"review: {{checks: {{ours: {{severity: error, command: {json.dumps(script)}}}}}}}\n")
    assert desk("trust", "--yes").code == 0
    desk.create()
    return desk


def test_the_output_of_a_failed_check_is_shown_where_people_look(failed: Desk) -> None:
    stepped = failed("job", "step", "j1")
    assert stepped.code == 0
    status, shown = failed("job", "status", "j1"), failed("job", "show", "j1")
    for ran in (stepped, status, shown):
        lines = [line.strip() for line in ran.out.splitlines()]
        begin = lines.index("last 20 of 31 lines of the output of ours:")
        assert lines[begin + 1 : begin + 20] == [f"| line {n}" for n in range(12, 31)]
        assert lines[begin + 20] == f"| {HOSTILE}".replace("\x1b[31m", "")
        assert lines[begin + 21] == "to see the rest: logist job show --job j1 --checks"
    assert "\n   check ours: the check failed (exit status 4)\n" in shown.out
    complete = failed("job", "show", "j1", "--checks").out.splitlines()
    assert complete[:2] == ["ours: the check failed (exit status 4)", "  | line 1"]
    assert len(complete) == 32
    data = failed("job", "show", "j1", "--json").json["data"]
    assert data["checks"][0]["output"].splitlines()[0] == "line 1"
    assert data["answers"][0]["checks"] == data["checks"]


def test_no_check_has_run(desk: Desk) -> None:
    desk.create()
    ran = desk("job", "show", "j1", "--checks")
    assert (ran.code, ran.out) == (0, "j1: no check has run since the last step began\n")


def test_failed_tool_calls_are_shown_with_their_errors(desk: Desk) -> None:
    calls = [calling("edit_file", path=f"{n}.txt", old="a", new="b") for n in range(6)]
    last = calling("execute_command", command="echo bad; exit 3")
    with Loopback(*calls, last, {"text": command("STUCK", "Help.")}) as server:
        prepare(desk, server)
        stepped = desk.process("job", "step", "j1", env=paid(desk))
    assert stepped.code == 3
    for out in (stepped.out, desk("job", "status", "j1").out, desk("job", "show", "j1").out):
        lines = [line.strip() for line in out.splitlines()]
        begin = lines.index("7 failed tool calls of #2:")
        assert lines[begin + 1].startswith("edit_file 2.txt: error: ")
        assert re.fullmatch(
            r"execute_command echo bad; exit 3: \[exit status 3; .*bad.*", lines[begin + 5]
        ), lines[begin + 5]
        assert lines[begin + 6] == "and 2 earlier; all are in logs/000002.turns.jsonl"
        assert READ in lines
        assert BY_HAND in lines
    data = desk("job", "status", "j1", "--json").json["data"]
    assert [call["target"] for call in data["failed_calls"]][:2] == ["0.txt", "1.txt"]
    assert data["read_command"] in READ
    assert data["poststep_command"] in BY_HAND
    assert desk("job", "history", "j1", "--raw", "2").code == 0


def test_a_question_and_its_options_are_shown(desk: Desk) -> None:
    desk.script(answer(command("STUCK", summary="Which database?", output=QUESTION)))
    desk.create()
    stepped = desk("job", "step", "j1")
    for ran in (stepped, desk("job", "status", "j1"), desk("job", "show", "j1")):
        lines = [line.strip() for line in ran.out.splitlines()]
        begin = lines.index("question: Which database?")
        assert lines[begin + 1 : begin + 3] == ["pg: Postgres (default)", "sqlite"]
        assert READ in lines
        assert BY_HAND in lines
    desk("job", "resubmit", "j1")
    for name in ("status", "show"):
        assert "Which database?\n      pg" not in desk("job", name, "j1").out
        assert "to answer by hand" not in desk("job", name, "j1").out


def test_printed_commands_name_the_jobs_directory(desk: Desk) -> None:
    desk.script(answer("nothing"))
    desk.create("j1", "--jobs-dir", "other")
    desk("job", "step", "j1", "--jobs-dir", "other")
    data = desk("job", "status", "j1", "--jobs-dir", "other", "--json").json["data"]
    assert data["read_command"] == "logist job history --jobs-dir other --job j1 --raw 2"
    assert data["poststep_command"].startswith("logist job poststep --jobs-dir other --job j1 ")
    assert data["read_command"] in desk("job", "status", "j1", "--jobs-dir", "other").out


def test_a_review_that_failed_says_fail_first(desk: Desk) -> None:
    verdict = {"verdict": "FAIL", "issues": [{"severity": "error", "message": "No test."}]}
    desk.script(answer(), answer(command(summary="Not yet.", output=verdict)))
    desk.create()
    desk("job", "step", "j1")
    assert "\x1b[31m\x1b[1mFAIL\x1b[0m" in desk("job", "step", "j1", env={"FORCE_COLOR": "1"}).out
    assert "#3 Supervisor: FAIL, REVIEW_REQUIRED -> PENDING\n" in desk("job", "history", "j1").out
    assert "#3 Supervisor: FAIL\n" in desk("job", "show", "j1").out


@pytest.mark.parametrize("width", [80, 40])
def test_a_terminal_shows_the_facts_of_each_interaction(desk: Desk, width: int) -> None:
    usage = {"cost_cents": 3, "seconds": 12.34}
    desk.script(answer(command(), usage=usage))
    desk.create()
    desk("job", "step", "j1")
    piped = desk("job", "history", "j1").out
    seen = desk.on_terminal("job", "history", "j1", columns=width, env={"NO_COLOR": "1", "TZ": "XYZ-10:30"})
    model = desk.history()[1]["request"]["metadata"]["model"]
    recorded = datetime.fromisoformat(desk.history()[1]["timestamp"])
    line = f"   {recorded + timedelta(hours=10.5):%Y-%m-%d %H:%M:%S}, 12.3 s, $0.03"
    rest = f"{model}, step task"
    assert (f"\n{line}, {rest}\n" if width == 80 else f"\n{line}\n   {rest}\n") in seen
    assert ", by ada\n" in seen
    assert set(piped.splitlines()) < set(seen.splitlines()), "the lines of a pipe are all there"
    assert "12.3 s" not in piped


def test_the_last_answer_is_found_from_the_end(desk: Desk) -> None:
    desk.script(answer("nothing"))
    desk.create()
    desk("job", "step", "j1")
    desk("job", "suspend", "j1")
    folder, head = str(desk.job()), desk.state()["head"]["hash"]
    assert (read_last_answer(folder, head) or {})["sequence"] == 2
    assert read_last_answer(folder, "0" * 64) is None
    file = desk.job() / "jobHistory.json"
    file.write_text(file.read_text("utf-8").replace("nothing", "Nothing", 1), "utf-8")
    assert read_last_answer(folder, head) is None, "an entry that was changed is not shown"
    file.unlink()
    assert read_last_answer(folder, head) is None
    (desk.job() / "damaged-on-purpose").touch()


@pytest.mark.parametrize("line", ["7", "[]", '{"calls": 3}', '{"calls": [], "tools": {"results": [7]}}', "{"])
def test_a_transcript_of_another_form_is_ignored(desk: Desk, line: str) -> None:
    desk.create()
    logs = desk.job() / "logs"
    logs.mkdir(exist_ok=True)
    (logs / "000002.turns.jsonl").write_text(f"{line}\n", "utf-8")
    assert list_failed_calls(read_transcript(desk.job(), 2)) == []


def test_a_planted_pipe_is_not_opened(desk: Desk) -> None:
    desk.create()
    (desk.job() / "logs").mkdir(exist_ok=True)
    os.mkfifo(desk.job() / "logs" / "000002.turns.jsonl")
    assert read_transcript(desk.job(), 2) == []
    history = desk.job() / "jobHistory.json"
    history.unlink()
    os.mkfifo(history)
    assert read_last_answer(str(desk.job()), "0" * 64) is None
    (desk.job() / "damaged-on-purpose").touch()


def test_a_long_error_keeps_its_begin_and_its_end() -> None:
    content = "[exit status 1; 2 s]\n" + "noise\n" * 1000 + "AssertionError: 3 != 4"
    calls = [{"id": "a", "name": "execute_command", "arguments": '{"command": "pytest"}'}]
    results = [{"id": "a", "name": "execute_command", "content": content, "error": False}]
    (failed,) = list_failed_calls([{"calls": calls, "tools": {"results": results}}])
    assert failed == FailedCall("execute_command", "pytest", failed.error)
    assert failed.error.startswith("[exit status 1; 2 s] ... ")
    assert failed.error.endswith("noise AssertionError: 3 != 4")
    assert len(failed.error) <= 300


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("README.md", "README.md"),
        (7, "7"),
        ({"path": "a.py", "name": "A"}, "A"),
        ({"path": "a.py"}, "a.py"),
        ({"weight": 3}, ""),
        (None, ""),
        (True, ""),
        ([1], ""),
        ("two\nlines \x1b[31m", "two lines [31m"),
        ("x" * 100, "x" * 39 + "…"),
    ],
)
def test_an_item_is_named(item: object, name: str) -> None:
    assert name_item(item) == name
