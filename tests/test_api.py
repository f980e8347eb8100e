"""The Python interface does what the command line does, with a Python function as the agent too."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logist import (
    AgentAnswer,
    AgentRequest,
    Busy,
    InvalidFile,
    Job,
    Kind,
    Project,
    Refused,
    Status,
    Stopped,
    UsageError,
)
from tests.support import process_environment, run_in_process

DONE: dict[str, Any] = {
    "action": "COMPLETED",
    "evidence_files": ["hello.txt"],
    "summary_for_supervisor": "Wrote hello.txt.",
}
SOLO: dict[str, Any] = {"review": False, "repo": False}


def write_hello(request: AgentRequest) -> dict[str, Any]:
    (request.workspace / "hello.txt").write_text("Hello\n", "utf-8")
    return DONE


@pytest.fixture
def create(tmp_path: Path) -> Callable[..., Project]:
    def create_project(agent: Any = write_hello, **options: Any) -> Project:
        return Project.create(tmp_path / "place", agent=agent, **options)

    (tmp_path / "place").mkdir()
    return create_project


def read_entries(job: Job) -> list[dict[str, Any]]:
    """The history without what differs from run to run."""
    entries = [entry.model_dump(mode="json") for entry in job.history]
    for entry in entries:
        for name in (
            "timestamp",
            "checksum",
            "previous",
            "checkpoint_before",
            "checkpoint_after",
            "workspace_path",
        ):
            entry.pop(name, None)
        entry.get("usage", {}).pop("seconds", None)
        (entry["request"]["command"] or {}).pop("job_id", None)
    return entries


def test_it_records_what_the_command_line_records(create: Callable[..., Project], tmp_path: Path) -> None:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps({"answers": [{"exit": DONE, "files": {"hello.txt": "Hello\n"}}]}), "utf-8")
    project = create(agent=f"scripted:{script}")
    job = project.create_job("Write it.", job_id="a", **SOLO)
    job.step()
    job.approve("Good.")
    place = tmp_path / "place"
    for words in (
        ("create", "--id", "b", "--prompt", "Write it.", "--no-review", "--no-repo"),
        ("step", "b", "--agent", f"scripted:{script}"),
        ("approve", "b", "--note", "Good."),
    ):
        assert run_in_process("job", *words, cwd=place).code in (0, 11)
    first, second = (read_entries(project.open_job(name)) for name in "ab")
    assert len(first) == 3
    assert [each[-1]["steward"].pop("via") for each in (first, second)] == ["python", "pipe"]
    assert [each[-1]["command"].pop("review_hash")[:2] for each in (first, second)] == ["2-", "2-"]
    assert first == second


def test_a_project_is_found_from_below_and_never_made_up(
    create: Callable[..., Project], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"no Logist project .*Project\.create"):
        Project.open(tmp_path / "place")
    with pytest.raises(UsageError, match="directory not found"):
        Project.open(tmp_path / "nowhere")
    project = create()
    below = tmp_path / "place" / "src" / "deep"
    below.mkdir(parents=True)
    assert Project.open(below).home == project.home == tmp_path / "place" / ".logist"
    with pytest.raises(UsageError, match="unknown agent 'codx'"):
        Project.open(below, agent="codx")
    with pytest.raises(UsageError, match="agent must be a string or a function, got int"):
        Project.open(below, agent=7)  # type: ignore[arg-type]


def test_invalid_fields_of_a_job_are_named(create: Callable[..., Project]) -> None:
    with pytest.raises(InvalidFile, match="reviw"):
        create().create_job("x", reviw=False)
    with pytest.raises(UsageError, match="prompt"):
        create().create_job()
    with pytest.raises(UsageError, match="gone"):
        create().open_job("gone")


def test_a_function_gets_the_request_and_its_usage_counts(create: Callable[..., Project]) -> None:
    requests = []

    def agent(request: AgentRequest) -> AgentAnswer:
        requests.append(request)
        write_hello(request)
        return AgentAnswer(DONE, input_tokens=900, output_tokens=40, cost_cents=1.25)

    job = create(agent).create_job("Say hello.", job_id="a", **SOLO)
    entry = job.step().entries[0]
    assert [each.prompt for each in requests] == [entry.request.prompt]
    assert "Say hello." in requests[0].messages[-1]["content"]
    assert (requests[0].role, requests[0].number, requests[0].workspace) == ("Worker", 0, job.workspace)
    usage = job.state.usage
    assert (usage.cumulative_cost, usage.cumulative_cost_microcents, usage.input_tokens) == (1, 250_000, 900)
    assert job.replay().differences == ()
    assert job.verify().problems == ()


def test_a_cost_limit_stops_the_job_after_the_call_that_exceeds_it(create: Callable[..., Project]) -> None:
    retry = {"action": "RETRY", "evidence_files": [], "summary_for_supervisor": "Not yet."}
    project = create(lambda request: AgentAnswer(retry, cost_cents=30))
    job = project.create_job("x", limits={"cost_threshold": 50, "max_attempts": 9}, **SOLO)
    result = job.run()
    assert (result.state.status, result.exit_code) == (Status.HALTED_COST, 7)
    assert result.state.usage.cumulative_cost == 60


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (lambda request: 1 / 0, "the agent function raised ZeroDivisionError: division by zero"),
        (lambda request: None, "TypeError: expected a string, a mapping or an AgentAnswer, got NoneType"),
        (
            lambda request: AgentAnswer("x", cost_cents=-1),
            "ValueError: cost_cents must not be negative, got -1",
        ),
        (lambda request: {"action": float("nan")}, "ValueError: "),
    ],
)
def test_a_function_that_fails_is_a_failed_call(
    create: Callable[..., Project], agent: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    job = create(agent).create_job("x", job_id="a", **SOLO)
    with caplog.at_level(logging.INFO, "logist"):
        result = job.step()
    error = result.entries[0].response.error
    assert error is not None
    assert message in error.message
    assert (result.exit_code, result.state.status, result.state.place.attempts) == (6, Status.PENDING, 0)
    assert any(record.exc_info for record in caplog.records)
    assert Project.open(job.directory, agent=write_hello).open_job("a").step().exit_code == 11


def test_what_the_role_may_not_change_is_undone(create: Callable[..., Project]) -> None:
    job = create().create_job("x", role="Planner", **SOLO)
    result = job.step()
    assert result.state.status is Status.STUCK
    assert not (job.workspace / "hello.txt").exists()
    assert "hello.txt" in result.state.reason


DYING = """
import os, sys
from logist import Project

def agent(request):
    (request.workspace / "half.txt").write_text("half")
    os._exit(9)

Project.open(sys.argv[1], agent=agent).open_job("a").step()
"""


def test_a_call_during_which_the_process_dies_is_in_doubt(create: Callable[..., Project]) -> None:
    job = create().create_job("x", job_id="a", **SOLO)
    ran = subprocess.run([sys.executable, "-c", DYING, job.directory], env=process_environment(), check=False)
    assert ran.returncode == 9
    result = job.step()
    assert (result.state.status, result.exit_code) == (Status.STUCK, 3)
    assert not (job.workspace / "half.txt").exists()
    with pytest.raises(Refused):
        job.resubmit()
    job.resubmit("It was free.", doubt="retry")
    assert job.step().state.status is Status.APPROVAL_REQUIRED
    assert job.verify().problems == ()


def test_a_stop_begins_nothing_and_ends_a_run(create: Callable[..., Project]) -> None:
    stop = threading.Event()
    calls = []

    def agent(request: AgentRequest) -> dict[str, Any]:
        calls.append(request.number)
        stop.set()
        return {"action": "RETRY", "evidence_files": [], "summary_for_supervisor": "Again."}

    project = create(agent, stop=stop)
    job = project.create_job("x", job_id="a", **SOLO)
    with pytest.raises(Stopped):
        job.run()
    assert [entry.kind for entry in job.history] == [Kind.CREATE, Kind.ASK]  # what was answered is recorded
    with pytest.raises(Stopped):
        job.step()
    assert project.run() == []
    assert calls == [0]
    stop.clear()
    with pytest.raises(Stopped):
        job.step()
    assert calls == [0, 1]


def test_threads_share_a_project_and_never_a_job(create: Callable[..., Project]) -> None:
    barrier = threading.Barrier(2)

    def agent(request: AgentRequest) -> dict[str, Any]:
        barrier.wait(30)
        return write_hello(request)

    project = create(agent)
    ended = [project.create_job("x", job_id=name, approval="none", **SOLO) for name in "ab"]
    results = project.run(parallel=2)  # both at once, else the barrier breaks
    assert sorted((each.job_id, each.exit_code) for each in results) == [("a", 0), ("b", 0)]
    assert {job.status for job in ended} == {Status.SUCCESS}

    entered, leave = threading.Event(), threading.Event()

    def slow(request: AgentRequest) -> dict[str, Any]:
        entered.set()
        leave.wait(30)
        return write_hello(request)

    job = Project.open(project.home.parent, agent=slow).create_job("x", job_id="c", approval="none", **SOLO)
    thread = threading.Thread(target=job.step)
    thread.start()
    assert entered.wait(30)
    with pytest.raises(Busy):
        project.open_job("c").step()
    leave.set()
    thread.join()
    assert job.status is Status.SUCCESS


QUIET = """
import os, signal, sys
before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)], os.getcwd(), dict(os.environ)
from logist import Project

project = Project.create(sys.argv[1], agent=lambda request: "no exit command")
project.create_job("x", review=False, repo=False).run()
after = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)], os.getcwd(), dict(os.environ)
assert before == after
"""


def test_it_prints_nothing_and_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", QUIET, tmp_path / "new"],
        env=process_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_importing_the_package_loads_none_of_it() -> None:
    code = "import logist, sys; print(sorted(name for name in sys.modules if name.startswith(('logist', 'pydantic'))))"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=process_environment(), capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "['logist', 'logist.version']"


def test_what_is_shown_in_a_notebook_is_short(create: Callable[..., Project], tmp_path: Path) -> None:
    project = create()
    job = project.create_job("x", job_id="a", **SOLO)
    assert repr(project) == f"<Project {tmp_path / 'place'}, agent function>"
    assert repr(job) == "<Job a: PENDING>"
    assert repr(job.step()) == "<CommandResult a: APPROVAL_REQUIRED, 1 interaction recorded, exit code 11>"
    (job.directory / "jobHistory.json").write_text("[nonsense", "utf-8")
    (job.directory / "state.json").unlink()
    assert repr(job).startswith("<Job a: ")


def test_the_other_methods_do_what_their_commands_do(create: Callable[..., Project], tmp_path: Path) -> None:
    place = tmp_path / "place"
    git = ("git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@example.invalid")
    subprocess.run([*git[:3], "init", "-q"], check=True)
    (place / "old.txt").write_text("old\n", "utf-8")
    subprocess.run([*git, "add", "old.txt"], check=True)
    subprocess.run([*git, "commit", "-qm", "old"], check=True)
    messages: list[str] = []
    project = create(on_message=messages.append)
    job = project.create_job("x", job_id="a", review=False, repo=str(place), draft=True)
    assert job.diff() == ""
    job.activate()
    assert job.configure(rank=3, limits={"cost_threshold": 80}).state.status is Status.PENDING
    assert (job.spec.rank, job.spec.limits.cost_threshold) == (3, 80)
    assert job.switch_role("implement").state.status is Status.PENDING
    assert job.preview().count("x") > 0
    job.run()
    assert "+Hello" in job.diff()
    with pytest.raises(Refused):
        job.preview()
    copy = job.fork(job_id="copy")
    assert copy.status is Status.APPROVAL_REQUIRED
    job.approve()
    assert not job.update(dry_run=True).update.is_needed
    assert job.update().result.entries == ()
    assert job.merge(dry_run=True).published.files[0].path == "hello.txt"
    assert not (place / "hello.txt").exists()
    job.merge()
    assert (place / "hello.txt").read_text("utf-8") == "Hello\n"
    (waiting,) = project.inbox()
    assert (waiting.job, waiting.kind, waiting.changed_files) == ("copy", "approval", 1)
    assert copy.add_note("Ask Ada.").state.status is Status.APPROVAL_REQUIRED
    assert copy.history[-1].kind is Kind.NOTE
    copy.reject("Not like this.")
    assert copy.suspend().state.status is Status.SUSPENDED
    assert copy.resume().state.status is Status.PENDING
    assert copy.cancel().state.status is Status.CANCELED
    assert copy.rerun().state.status is Status.PENDING
    assert copy.fail().state.status is Status.FAILED
    assert copy.restep(2).state.status is Status.DRAFT
    assert job.export(tmp_path / "fixture").differences == 0
    assert [each.differences for each in project.replay(tmp_path / "fixture", prompts=True)] == [()]
    assert {each.name for each in project.replay()} == {"a", "copy"}
    assert [each.id for each in project.list_jobs()] == ["a", "copy"]
    assert project.gather_statistics(by=["job"]).table.histories == 2


def test_an_answer_by_hand_can_be_tried_first(create: Callable[..., Project]) -> None:
    job = create().create_job("x", job_id="a", **SOLO)
    answer = {**DONE, "evidence_files": []}
    assert job.answer(answer, dry_run=True).state.status is Status.APPROVAL_REQUIRED
    assert job.status is Status.PENDING
    result = job.answer(json.dumps(answer), cost_cents=2)
    assert (result.state.status, result.state.usage.cumulative_cost) == (Status.APPROVAL_REQUIRED, 2)
    with pytest.raises(UsageError, match="together"):
        job.approve("note", override="reason")
    assert job.next_command.startswith("logist job ")


def test_ctrl_c_of_a_notebook_leaves_the_call_in_doubt(create: Callable[..., Project]) -> None:
    def agent(request: AgentRequest) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGINT)
        return DONE

    job = create(agent).create_job("x", job_id="a", **SOLO)
    with pytest.raises(KeyboardInterrupt):
        job.step()
    assert job.step().state.status is Status.STUCK
