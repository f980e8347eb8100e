"""`--log-file`, LOGIST_LOG_FILE and `-v`."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from logist.store import JobDir
from tests.cli.desk import Desk, answer, command
from tests.support import make_repository
from tests.test_start import TIMED, loaded


def read_log(desk: Desk, name: str = "log") -> list[Any]:
    return [json.loads(line) for line in (desk.place / name).read_text("utf-8").splitlines()]


def test_a_run_says_what_it_does_and_why_in_the_log_and_on_standard_error(desk: Desk) -> None:
    used = {"input_tokens": 7, "output_tokens": 5, "cost_cents": 3, "seconds": 0.5}
    desk.script(answer(usage=used), answer())
    desk.create("first", prompt="the words of the prompt")
    desk.create("second")
    ran = desk("run", "--parallel", "1", "-v", "--log-file", "log")
    assert ran.code == 11
    lines = read_log(desk)
    names = [line["event"] for line in lines]
    assert names[:2] == ["command_begun", "run_begun"]
    assert names[-1] == "command_ended"
    assert lines[0]["fields"]["options"] == ["--log-file", "--parallel"]
    assert lines[-1]["fields"]["exit_code"] == 11
    chosen = [line for line in lines if line["event"] == "job_chosen"]
    assert [(line["job"], line["fields"]["others"]) for line in chosen] == [("first", 1), ("second", 0)]
    recorded = [line for line in lines if line["event"] == "interaction_recorded" and line["job"] == "first"]
    assert [line["fields"]["after"] for line in recorded] == ["REVIEW_REQUIRED", "APPROVAL_REQUIRED"]
    assert (recorded[0]["fields"]["cost_microcents"], recorded[0]["fields"]["input_tokens"]) == (3_000_000, 7)
    waiting = {line["job"]: line["fields"] for line in lines if line["event"] == "job_waits"}
    assert waiting.keys() == {"first", "second"}
    assert "approval" in waiting["first"]["waits"]
    assert "first: APPROVAL_REQUIRED, waits for approval (logist job approve" in ran.err
    assert "waits: " not in ran.err
    assert desk("run", "--log-file", "again").code == 11
    warned = [line for line in read_log(desk, "again") if line["event"] == "warning"]
    assert (
        [line["job"] for line in warned]
        == [line["fields"]["target"] for line in warned]
        == ["first", "second"]
    )
    assert "first: next, by rank (0)" in ran.err
    assert "first: interaction 2 (ask) recorded: PENDING -> REVIEW_REQUIRED, $0.0300" in ran.err
    assert "the words of the prompt" not in (desk.place / "log").read_text("utf-8")


def test_git_is_named_with_verbose_and_only_then(desk: Desk) -> None:
    repository = make_repository(desk.place / "repository")
    assert desk("job", "create", "--prompt", "x", "--id", "j", "--repo", str(repository), "-v").code == 0
    said = desk(
        "job", "create", "--prompt", "x", "--id", "k", "--repo", str(repository), "-v", "--log-file", "log"
    )
    assert "git --git-dir=" in said.err
    assert {line["level"] for line in read_log(desk)} >= {"debug", "info"}
    assert (
        desk(
            "job", "create", "--prompt", "x", "--id", "l", "--repo", str(repository), "--log-file", "more"
        ).code
        == 0
    )
    assert "debug" not in {line["level"] for line in read_log(desk, "more")}


def test_the_environment_names_the_file_too_and_each_command_appends(desk: Desk) -> None:
    env = {"LOGIST_LOG_FILE": str(desk.place / "log")}
    assert desk("job", "list", env=env).code == 0
    assert desk("job", "status", "nope", env=env).code == 2
    assert desk("--log-file", "other", "job", "list", env=env).code == 0
    lines = read_log(desk)
    assert [line["event"] for line in lines] == [
        *("command_begun", "command_ended"),
        *("command_begun", "error", "command_ended"),
    ]
    assert [line["fields"]["exit_code"] for line in lines if line["event"] == "command_ended"] == [0, 2]
    assert lines[3]["level"] == "error"
    assert len(read_log(desk, "other")) == 2


@pytest.mark.parametrize(
    "args", [("nope",), ("job", "list", "--nope"), ("run", "--parallel", "x")], ids=" ".join
)
def test_errors_of_the_command_line_are_in_the_log(desk: Desk, args: tuple[str, ...]) -> None:
    assert desk("--log-file", "log", *args).code == 2
    assert [line["event"] for line in read_log(desk)] == ["command_begun", "error", "command_ended"]
    assert desk("--log-file", "json", *args, "--json").code == 2
    assert [line["event"] for line in read_log(desk, "json")] == ["command_begun", "error", "command_ended"]


def test_a_log_that_can_not_be_written_is_one_warning_and_the_exit_code_is_true(desk: Desk) -> None:
    desk.create()
    ran = desk("run", "--log-file", "no/such/log")
    assert ran.code == 11
    assert ran.err.count("can't write the log file") == 1
    assert f"warning: can't write the log file {desk.place}/no/such/log: No such file or directory" in ran.err


def test_secrets_of_the_environment_are_not_in_the_log(desk: Desk) -> None:
    env = {"SOME_API_KEY": "correct-horse-battery"}
    assert desk("job", "status", "correct-horse-battery", "--log-file", "log", env=env).code == 2
    text = (desk.place / "log").read_text("utf-8")
    assert "correct-horse" not in text
    assert "[redacted]" in text


def test_waiting_for_a_lock_is_reported(desk: Desk) -> None:
    desk.create()
    with JobDir.open(desk.jobs, "j1").hold_lock(command="job step", since="now"):
        assert desk("job", "step", "j1", "--wait", "0.1", "--log-file", "log").code == 8
    [waited] = [line for line in read_log(desk) if line["event"] == "lock_awaited"]
    assert waited["job"] == "j1"
    assert waited["fields"]["holder"].startswith(f"job step (pid {os.getpid()}")


def test_status_keeps_its_own_verbose(desk: Desk) -> None:
    desk.create()
    plain = desk("job", "status", "j1", "-v")
    assert "`logist job status`" not in plain.err
    assert "`logist job status`" in desk("-v", "job", "status", "j1").err


def test_a_command_without_the_options_loads_nothing_for_them(desk: Desk) -> None:
    desk.script(answer(command("RETRY")))
    desk.create()
    ran = desk.process("job", "step", "j1", env=TIMED)
    modules = {name for name in loaded(ran.err) if name.startswith("logist.event_log")}
    assert modules == {"logist.event_log"}
