"""The notification hooks: which events they run for, what they get, and what a kill or a failure does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from logist.config.environment import Environment
from logist.config.settings import Settings
from logist.core.model import Kind, Status
from logist.jobs import job_queue
from logist.jobs.base.session import send_lost_notifications
from logist.jobs.job_queue import QueueNotification
from logist.jobs.steward.job_merge import merge_job
from logist.jobs.steward.steward_decisions import record_decision, rerun_job, restep_job
from logist.store import due_notifications
from logist.store.due_notifications import QUEUE_EMPTY, DueNotification
from tests import support
from tests.jobs.bench import Bench, answer, command
from tests.jobs.conftest import MakeBench

EVENTS = ("stuck", "approval", "halted", "done", "merged", "queue_empty")


def notifying(heard: Path, *events: str, **more: Any) -> dict[str, Any]:
    """Settings whose hooks append what they read to a file."""
    return {"notify": {**dict.fromkeys(events or EVENTS, f"cat >> {heard}"), **more}}


def read_heard(heard: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in heard.read_text().splitlines()] if heard.exists() else []


def list_ids(heard: Path) -> list[str]:
    return [each["id"] for each in read_heard(heard)]


@pytest.fixture
def heard(tmp_path: Path) -> Path:
    return tmp_path / "heard"


def list_due(b: Bench) -> list[str]:
    return [each.name for each in due_notifications.list_due(b.project.jobs_dir)]


def test_a_hook_reads_what_has_happened(bench: MakeBench, heard: Path) -> None:
    b = bench(
        [answer(command("STUCK", summary="Which\x1b[2J\nschema?"), usage={"cost_cents": 7})], notifying(heard)
    )
    b.create("fix", title="Fix it", tags=["urgent"])
    b.step("fix")
    (event,) = read_heard(heard)
    state = b.state("fix")
    assert event == {
        "version": 1,
        "id": "fix.2.stuck",
        "event": "stuck",
        "project": str(b.project.home.parent),
        "message": "fix is STUCK: Which [2J schema?",
        "command": "logist job show --job fix",
        "job": "fix",
        "title": "Fix it",
        "status": "STUCK",
        "reason": state.reason,
        "stuck_kind": "agent",
        "awaiting": None,
        "step": "task",
        "revision": 2,
        "cost_cents": state.usage.cumulative_cost,
        "cost_microcents": state.usage.cumulative_cost_microcents,
        "tags": ["urgent"],
        "parent": None,
        "updated_at": state.updated_at,
        "path": str(b.folder("fix")),
    }
    assert list_due(b) == []


def test_each_event_has_its_hook(bench: MakeBench, heard: Path, tmp_path: Path) -> None:
    repository = support.make_repository(tmp_path / "source")
    b = bench([answer(files={"b.txt": "b\n"}), answer()], notifying(heard))
    b.create(repo=str(repository), limits={"max_allowed_iterations": 1})
    b.run()
    assert list_ids(heard) == ["j.3.halted"]
    spec = b.folder() / "job.yaml"
    spec.write_text(spec.read_text().replace("max_allowed_iterations: 1", "max_allowed_iterations: 9"))
    record_decision(b.project, "j", Kind.RESUME)
    b.run()
    record_decision(b.project, "j", Kind.APPROVE)
    merge_job(b.project, "j")
    assert [each.partition(".")[2].partition(".")[2] for each in list_ids(heard)] == [
        *("halted", "approval", "done", "merged")
    ]
    assert read_heard(heard)[-1]["message"].startswith("j was merged: ")


def test_on_stuck_runs_too_and_both_get_the_json(bench: MakeBench, heard: Path) -> None:
    b = bench([answer("?")], {"on_stuck": f"cat >> {heard}", **notifying(heard, "stuck")})
    b.create()
    b.step()
    assert list_ids(heard) == ["j.2.stuck", "j.2.stuck"]


def test_going_back_is_no_event(bench: MakeBench, heard: Path) -> None:
    b = bench([answer(), answer(), answer()], notifying(heard))
    b.create()
    b.run()
    record_decision(b.project, "j", Kind.APPROVE)
    heard.unlink()
    restep_job(b.project, "j", 4)
    assert b.state().status is Status.APPROVAL_REQUIRED
    rerun_job(b.project, "j")
    assert read_heard(heard) == []


def test_children_need_people_but_only_their_parent_is_done(
    bench: MakeBench, heard: Path, tmp_path: Path
) -> None:
    (tmp_path / "inner.yaml").write_text("name: I\nsteps:\n- {id: s, execution: manual, prompt: x}\n")
    (tmp_path / "outer.yaml").write_text(
        "name: O\nsteps:\n- {id: o, stepType: subflow, subflowId: inner.yaml}\n"
    )
    b = bench(settings=notifying(heard))
    b.follow(tmp_path / "outer.yaml", review=False)
    b.step()
    (child,) = b.children()
    assert list_ids(heard) == [f"{child}.1.approval"]
    record_decision(b.project, child, Kind.APPROVE)
    b.run()
    assert [each.rpartition(".")[2] for each in list_ids(heard)] == ["approval", "done"]
    assert read_heard(heard)[-1]["job"] == "j"


def test_the_variables_of_the_environment_are_on_a_list(bench: MakeBench, heard: Path) -> None:
    hook = f'echo "$LOGIST_EVENT ${{HOOK_URL-}} ${{OTHER-none}}" >> {heard}'
    b = bench([answer("?")], {"notify": {"stuck": hook, "environment": ["HOOK_URL", "UNSET"]}})
    b.change(environment=Environment({"PATH": "/usr/bin:/bin", "HOOK_URL": "http://x", "OTHER": "secret"}))
    b.create()
    b.step()
    assert heard.read_text() == "stuck http://x none\n"


@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        (
            "echo begins >&2; echo can not reach http://host/very-secret-token >&2; exit 22",
            "failed with exit status 22: can not reach ",
        ),
        ("sleep 60 & sleep 60", "was stopped after 0.2 seconds"),
        (["/nonexistent/program"], "did not run: "),
        ("exec 0<&-; exit 0", None),
    ],
)
def test_a_hook_that_fails_is_a_report_and_no_more(
    bench: MakeBench, hook: str | list[str], problem: str | None
) -> None:
    b = bench([answer("?")], {"notify": {"stuck": hook, "timeout_seconds": 0.2, "environment": ["HOOK_URL"]}})
    b.change(environment=Environment({"PATH": "/usr/bin:/bin", "HOOK_URL": "http://host/very-secret-token"}))
    b.create()
    result = b.step()
    assert (result.exit_code, result.state.status) == (3, Status.STUCK)
    reports = [line for line in b.said if "notify.stuck" in line]
    assert len(reports) == (problem is not None)
    assert problem is None or reports[0].startswith(f"the notify.stuck command {problem}")
    assert "very-secret-token" not in str(b.said)
    assert list_due(b) == []


def test_a_long_reason_does_not_prevent_a_hook(bench: MakeBench, heard: Path) -> None:
    """Linux starts no program with a variable of 128 KiB; standard input has all of it."""
    b = bench([answer("?")], notifying(heard, "done"))
    b.create()
    record_decision(b.project, "j", Kind.FAIL, note="\U0001d54f" * 40_000)
    assert [len(each["reason"]) for each in read_heard(heard)] == [40_000], b.said


def leave_due(b: Bench, *names: tuple[str, str, int]) -> None:
    """What commands leave that were killed before their hooks had run."""
    for event, job, sequence in names:
        os.close(due_notifications.add_due(b.project.jobs_dir, DueNotification(event, job, sequence)))


def test_what_a_kill_left_is_sent_by_the_next_command_as_it_was(bench: MakeBench, heard: Path) -> None:
    b = bench([answer("?")])
    b.create()
    b.create("other")
    b.step()
    record_decision(b.project, "j", Kind.RESUBMIT)
    b.change(settings=Settings.model_validate(notifying(heard)))
    leave_due(b, ("stuck", "j", 2))
    record_decision(b.project, "other", Kind.SUSPEND)
    (event,) = read_heard(heard)
    assert (event["id"], event["status"], event["revision"]) == ("j.2.stuck", "STUCK", 2)
    record_decision(b.project, "other", Kind.RESUME)
    assert list_ids(heard) == ["j.2.stuck"]


def test_what_was_never_recorded_is_never_sent(bench: MakeBench, heard: Path) -> None:
    b = bench([answer("?")], notifying(heard))
    b.create()
    leave_due(b, ("stuck", "j", 2), ("stuck", "gone", 2), ("done", "j", 1), ("approval", "j", 1))
    (b.project.jobs_dir / ".notify" / "odd name").touch()
    (b.project.jobs_dir / ".notify" / "j.1.done").unlink()
    os.mkfifo(b.project.jobs_dir / ".notify" / "j.1.done")
    send_lost_notifications(b.project)
    assert read_heard(heard) == []
    assert list_due(b) == ["j.1.done"]


def test_what_another_command_is_about_to_send_is_left_to_it(bench: MakeBench, heard: Path) -> None:
    b = bench([answer("?")])
    b.create()
    b.step()
    b.change(settings=Settings.model_validate(notifying(heard)))
    held = due_notifications.add_due(b.project.jobs_dir, DueNotification("stuck", "j", 2))
    send_lost_notifications(b.project)
    assert read_heard(heard) == []
    os.close(held)
    send_lost_notifications(b.project)
    assert list_ids(heard) == ["j.2.stuck"]


def test_events_before_the_setting_are_never_notified(bench: MakeBench, heard: Path) -> None:
    b = bench([answer("?")])
    b.create()
    b.step()
    b.change(settings=Settings.model_validate(notifying(heard)))
    record_decision(b.project, "j", Kind.SUSPEND)
    assert read_heard(heard) == []


def run_queue(b: Bench, notification: QueueNotification) -> None:
    for ended in job_queue.run_queue(b.project, 2, lambda _: None, on_begin=lambda _: notification.begin()):
        notification.add_end(ended)


def test_an_empty_queue_is_notified_once_each_time(bench: MakeBench, heard: Path) -> None:
    b = bench([answer("?")], notifying(heard, "queue_empty"))
    notification = QueueNotification(b.project)
    run_queue(b, notification)
    notification.send()
    assert read_heard(heard) == []
    for name in ("a", "b"):
        b.create(name)
    for _ in range(3):
        run_queue(b, notification)
        notification.send()
    (event,) = read_heard(heard)
    assert (event["id"], event["waiting"], event["command"]) == (
        "queue_empty",
        {"STUCK": 2},
        "logist job list",
    )
    assert event["message"] == "no job is ready to run; waiting for a person: 2 STUCK"
    b.create("c")
    run_queue(b, notification)
    notification.send()
    assert len(read_heard(heard)) == 2


def test_the_next_run_tells_of_an_empty_queue_if_one_was_killed(bench: MakeBench, heard: Path) -> None:
    b = bench([answer("?")], notifying(heard, "queue_empty"))
    b.create()
    run_queue(b, QueueNotification(b.project))
    assert list_due(b) == [QUEUE_EMPTY]
    send_lost_notifications(b.project)
    QueueNotification(b.project).send()
    assert list_ids(heard) == ["queue_empty"]


def test_a_job_that_needs_a_person_because_of_another_one_keeps_no_queue_from_being_empty(
    bench: MakeBench, heard: Path
) -> None:
    b = bench([answer()], notifying(heard, "queue_empty"))
    b.create("failed")
    record_decision(b.project, "failed", Kind.FAIL)
    b.create("waits", after=["failed"])
    b.create("other", review=False, approval="none")
    notification = QueueNotification(b.project)
    run_queue(b, notification)
    notification.send()
    assert list_ids(heard) == ["queue_empty"]


def test_a_provider_that_fails_empties_no_queue(bench: MakeBench, heard: Path) -> None:
    b = bench([{"error": {"kind": "auth", "message": "no"}}], notifying(heard, "queue_empty"))
    b.create()
    notification = QueueNotification(b.project)
    run_queue(b, notification)
    notification.send()
    assert (read_heard(heard), list_due(b)) == ([], [])
