"""Whole steps with the scripted agent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from logist.core.answer import exit_command
from logist.core.model import Kind, Phase, Status, StuckKind, Usage
from logist.core.model.commands import ResubmitCommand
from logist.core.step.step import StepPlan
from logist.errors import InvalidFile, Refused, UsageError
from logist.jobs.step_job import GivenAnswer, do_poststep
from logist.jobs.steward import job_edits, steward_decisions
from logist.jobs.turn.next_request import Choice, preview_request
from logist.workspace import listing, reading, workspace
from logist.workspace.checkpoint.scan import ScanRules, WorkspaceScan, scan_workspace
from tests.jobs.bench import answer, command
from tests.jobs.conftest import MakeBench


def test_worker_then_supervisor_then_approval(bench: MakeBench) -> None:
    b = bench([answer(files={"a.txt": "A"}), answer(role="Supervisor")])
    assert b.create().status is Status.PENDING
    first = b.step()
    assert (first.state.status, first.exit_code) == (Status.REVIEW_REQUIRED, 0)
    second = b.step()
    assert (second.state.status, second.state.place.awaiting, second.exit_code) == (
        Status.APPROVAL_REQUIRED,
        "end",
        11,
    )
    done = steward_decisions.record_decision(b.project, "j", Kind.APPROVE)
    assert done.state.status is Status.SUCCESS
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ASK, Kind.ASK, Kind.APPROVE]
    assert [e.observed.role for e in b.history() if e.observed] == ["Worker", "Supervisor"]


def test_each_role_has_its_own_model(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    b.step()
    b.step(model="another")
    models = [entry.request.metadata.get("model") for entry in b.history()[1:]]
    assert models == ["grok-code-fast-1", "another"]


def test_every_field_the_archive_needs_is_there(bench: MakeBench) -> None:
    b = bench([answer(command(evidence=["a.txt"]), files={"a.txt": "A"})])
    b.create()
    b.step()
    raw = json.loads((b.folder() / "jobHistory.json").read_text("utf-8"))
    entry = raw["interactions"][1]
    assert entry["sequence"] == 2
    assert entry["state_before"] == "PENDING"
    assert entry["workspace_path"] == str(b.workspace())
    assert {"prompt", "files_context", "metadata"} <= set(entry["request"])
    assert entry["response"]["status"] == "SUCCESS"
    assert entry["response"]["actions"] == ["COMPLETED"]
    assert entry["response"]["evidence_files"] == ["a.txt"]
    assert entry["response"]["summary_for_supervisor"] == "Done."
    assert entry["response"]["raw_response"] == command(evidence=["a.txt"])
    assert entry["timestamp"].endswith("Z")
    assert entry["request"]["command"] == {"action": "step", "job_id": "j", "options": {}}


def test_changes_of_the_workspace_are_observed(bench: MakeBench) -> None:
    b = bench(
        [answer(files={"a.txt": "A"}), answer(command("RETRY")), answer(files={"a.txt": None, "b": "B"})]
    )
    b.create()
    for _ in range(3):
        b.step()
    seen = [[(c.kind, c.path) for c in e.observed.changes] for e in b.history() if e.observed]
    assert seen == [[("created", "a.txt")], [], [("deleted", "a.txt"), ("created", "b")]]


def test_last_evidence_and_summary_reach_the_next_prompt(bench: MakeBench) -> None:
    b = bench(
        [answer(command(evidence=["a.txt", "gone.txt"], summary="I made a."), files={"a.txt": "text of A"})]
    )
    b.create()
    result = b.step()
    assert result.warnings == ("evidence file not found: gone.txt",)
    _, plan = preview_request(b.project, "j", Choice())
    assert isinstance(plan, StepPlan)
    assert plan.request.files_context == ["a.txt", "gone.txt"]
    for text in ("I made a.", "text of A", "named as evidence, but not found: gone.txt", "created: a.txt"):
        assert text in plan.request.prompt


def test_preview_is_what_step_sends_and_changes_nothing(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create(files=["missing.txt"])
    before = b.files()
    _, plan = preview_request(b.project, "j", Choice())
    assert b.files() == before
    assert isinstance(plan, StepPlan)
    b.step()
    assert b.history()[1].request.prompt == plan.request.prompt


def test_same_job_same_inputs_same_prompt(bench: MakeBench) -> None:
    prompts = []
    for job_id in ("one", "two"):
        b = bench([answer()])
        b.create(job_id, description="More.", acceptance_criteria=["It works."])
        b.step(job_id)
        prompts.append(b.history(job_id)[1].request.prompt)
    assert prompts[0] == prompts[1]
    assert str(b.project.home) not in prompts[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I am done.", "no exit command"),
        (command()[:-5], "ends inside a JSON object"),
        (command("DONE"), "action"),
        (command(evidence=["/etc/passwd"]), "evidence_files"),
        (command("COMPLETED") + command("STUCK"), "2"),
    ],
)
def test_an_invalid_answer_is_stuck_and_kept(bench: MakeBench, text: str, reason: str) -> None:
    b = bench([answer(text)])
    b.create()
    result = b.step()
    assert result.exit_code == 3
    stuck = result.state.place.stuck
    assert stuck is not None
    assert (stuck.kind, stuck.role, stuck.phase) == (StuckKind.AGENT, "Worker", Phase.DOER)
    assert reason in stuck.reason
    entry = b.history()[1]
    assert (entry.response.raw_response, entry.response.status, entry.response.actions) == (text, "ERROR", [])


def test_stuck_refuses_a_step_and_is_resolved(bench: MakeBench) -> None:
    b = bench([answer("?"), answer()])
    b.create()
    b.step()
    before = b.files()
    again = b.step()
    assert (again.exit_code, again.entries) == (3, ())
    assert b.files() == before
    steward_decisions.record_decision(b.project, "j", Kind.RESUBMIT, note="Use the JSON.")
    assert b.state().note == "Use the JSON."
    assert b.step().state.status is Status.REVIEW_REQUIRED
    assert "Use the JSON." in b.history()[3].request.prompt
    assert b.state().note is None


def test_resubmit_for_review_skips_the_doer(bench: MakeBench) -> None:
    b = bench([answer("?")])
    b.create()
    b.step()
    result = steward_decisions.record_decision(
        b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(review=True)
    )
    assert result.state.status is Status.REVIEW_REQUIRED


def test_a_person_answers_for_the_stuck_role(bench: MakeBench) -> None:
    b = bench([answer(), answer("not json")])
    b.create()
    b.step()
    b.step()
    result = b.give(command(summary="Looks right."))
    assert result.state.status is Status.APPROVAL_REQUIRED
    entry = b.history()[-1]
    assert entry.simulated
    assert entry.observed is not None
    assert entry.observed.role == "Supervisor"
    assert entry.steward is not None
    assert entry.steward.name == "ada"


def test_retry_is_bounded(bench: MakeBench) -> None:
    b = bench([answer(command("RETRY", summary=f"Failed {n}.")) for n in range(3)])
    b.create()
    assert [b.step().state.status for _ in range(3)] == [Status.PENDING, Status.PENDING, Status.STUCK]
    stuck = b.state().place.stuck
    assert stuck is not None
    assert stuck.kind is StuckKind.ATTEMPTS
    third = b.history()[3].request.prompt
    assert "attempt 3 of 3" in third
    assert "Failed 1." in third


def test_supervisor_retry_is_rework(bench: MakeBench) -> None:
    b = bench([answer(), answer(command("RETRY", summary="Add a test."))])
    b.create()
    b.step()
    assert b.step().state.status is Status.PENDING
    _, plan = preview_request(b.project, "j", Choice())
    assert isinstance(plan, StepPlan)
    assert plan.phase is Phase.DOER
    assert "Add a test." in plan.request.prompt


def test_missing_evidence_without_a_reviewer_is_stuck(bench: MakeBench) -> None:
    b = bench([answer(command(evidence=["gone.txt"]))])
    b.create(review=False)
    result = b.step()
    assert result.state.status is Status.STUCK
    assert "gone.txt" in result.state.reason


def test_no_review_and_no_approval_ends_at_once(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create(review=False, approval="none")
    assert b.step().state.status is Status.SUCCESS


def test_ended_jobs_refuse_and_keep_every_byte(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create(review=False, approval=False)
    b.step()
    before = b.files()
    calls: list[Callable[[], object]] = [
        b.step,
        lambda: b.give(command()),
        lambda: steward_decisions.record_decision(b.project, "j", Kind.CANCEL),
        lambda: steward_decisions.record_decision(b.project, "j", Kind.RESUBMIT),
        lambda: job_edits.configure_job(b.project, "j", {("title",): "New."}),
    ]
    for call in calls:
        with pytest.raises(Refused):
            call()
    assert b.files() == before


def test_poststep_dry_run_writes_nothing(bench: MakeBench) -> None:
    b = bench()
    b.create()
    before = b.files()
    result = b.give("nonsense", dry_run=True)
    assert (result.exit_code, result.state.status) == (3, Status.STUCK)
    assert b.files() == before
    assert b.state().status is Status.PENDING


def test_poststep_costs_nothing_unless_charged(bench: MakeBench) -> None:
    b = bench()
    b.create()
    b.give(command("RETRY"))
    assert b.state().usage.current_action_count == 0
    assert b.state().usage.cumulative_cost == 0
    charge = Usage(cost_cents=12, cost_microcents=500_000, source="steward")
    do_poststep(b.project, "j", GivenAnswer(command("RETRY"), charge=charge), Choice())
    usage = b.state().usage
    assert (usage.cumulative_cost, usage.cumulative_cost_microcents) == (12, 500_000)


def test_poststep_takes_a_role(bench: MakeBench) -> None:
    b = bench()
    b.create()
    b.give(command(), role="Supervisor")
    entry = b.history()[1]
    assert entry.observed is not None
    assert (entry.observed.role, entry.observed.phase) == ("Supervisor", Phase.DOER)
    with pytest.raises(UsageError, match="Nobody"):
        b.give(command(), role="Nobody")


def test_an_answer_that_is_not_utf8_is_stuck(bench: MakeBench) -> None:
    b = bench()
    b.create()
    result = do_poststep(b.project, "j", GivenAnswer(command(), broken=True), Choice())
    assert result.state.status is Status.STUCK
    assert "UTF-8" in result.state.reason


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"cost_threshold": 0}, Status.HALTED_COST),
        ({"time_threshold_minutes": 0}, Status.HALTED_TIME),
        ({"max_allowed_iterations": 0}, Status.HALTED_ITERATION),
        ({"cost_threshold": 0, "time_threshold_minutes": 0}, Status.HALTED_COST),
        ({"time_threshold_minutes": 0, "max_allowed_iterations": 0}, Status.HALTED_TIME),
    ],
)
def test_limits_halt_before_the_call(bench: MakeBench, limits: dict[str, float], status: Status) -> None:
    b = bench([answer()])
    b.create(limits=limits)
    result = b.step()
    assert (result.state.status, result.exit_code) == (status, 7)
    assert b.history()[-1].kind is Kind.HALT
    assert b.step().entries == ()


def test_resume_wants_a_raised_limit(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create(limits={"max_allowed_iterations": 0})
    b.step()
    with pytest.raises(Refused, match="not raised"):
        steward_decisions.record_decision(b.project, "j", Kind.RESUME)
    job_edits.configure_job(b.project, "j", {("limits", "max_allowed_iterations"): 5})
    assert steward_decisions.record_decision(b.project, "j", Kind.RESUME).state.status is Status.PENDING
    assert b.step().state.status is Status.REVIEW_REQUIRED


def test_a_changed_spec_is_recorded_before_the_step(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    b.step()
    spec = b.folder() / "job.yaml"
    spec.write_text("# mine\n" + spec.read_text("utf-8").replace("Do it.", "Do something else."), "utf-8")
    b.step()
    kinds = [entry.kind for entry in b.history()]
    assert kinds == [Kind.CREATE, Kind.ASK, Kind.SPEC, Kind.ASK]
    assert "Do something else." in b.history()[3].request.prompt
    assert spec.read_text("utf-8").startswith("# mine\n")


def test_a_broken_spec_stops_a_step_but_not_a_cancel(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    (b.folder() / "job.yaml").write_text("prompt: [\n", "utf-8")
    before = b.files()
    with pytest.raises(InvalidFile, match=r"job\.yaml"):
        b.step()
    assert b.files() == before
    assert steward_decisions.record_decision(b.project, "j", Kind.CANCEL).state.status is Status.CANCELED


def test_no_answer_uses_an_attempt_only_when_another_may_help(bench: MakeBench) -> None:
    b = bench(
        [
            {"error": {"kind": "auth", "message": "bad key"}},
            {"error": {"kind": "transient", "message": "overloaded"}},
            answer(),
        ]
    )
    b.create()
    first = b.step()
    assert (first.exit_code, first.state.status, first.state.place.attempts) == (6, Status.PENDING, 0)
    second = b.step()
    assert (second.exit_code, second.state.place.attempts) == (6, 1)
    assert b.step().state.status is Status.REVIEW_REQUIRED


def test_secrets_never_reach_a_file(bench: MakeBench) -> None:
    from logist.config.environment import Environment

    b = bench([answer(command(summary="the key is canary-0123456789")), answer("?")])
    b.change(
        environment=Environment(
            {"HOME": "/nowhere", "PATH": "/usr/bin:/bin", "X_API_KEY": "canary-0123456789"}
        )
    )
    b.create(prompt="Use canary-0123456789 to log in.")
    b.step()
    b.step()
    steward_decisions.record_decision(b.project, "j", Kind.RESUBMIT, note="Try canary-0123456789 again.")
    history = b.history()
    assert "[redacted]" in history[1].request.prompt
    assert history[1].response.redactions == 1
    job_edits.configure_job(b.project, "j", {("description",): "canary-0123456789"})
    assert [name for name, data in b.files().items() if b"canary" in data] == []


def test_modes_are_private(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    b.step()
    for path in (p for p in b.folder().rglob("*") if not p.is_symlink()):
        if {"workspace", "git"} & set(path.relative_to(b.folder()).parts):
            continue
        assert path.stat().st_mode & 0o077 == 0, path
    assert b.folder().stat().st_mode & 0o077 == 0


def test_what_is_wrong_is_told_before_anything_is_written(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    spec = b.folder() / "job.yaml"
    spec.write_text(spec.read_text("utf-8") + "role: Nobody\n", "utf-8")
    before = b.files()
    with pytest.raises(UsageError, match="Nobody"):
        b.step()
    assert b.files() == before


def test_an_unknown_role_is_refused_at_once(bench: MakeBench) -> None:
    b = bench()
    with pytest.raises(UsageError, match="Wroker"):
        b.create(role="Wroker")
    assert not b.folder().exists()


def test_a_reason_outlives_a_change_of_the_spec(bench: MakeBench) -> None:
    b = bench([answer("?")])
    b.create()
    b.step()
    reason = b.state().reason
    job_edits.set_rank(b.project, "j", 3)
    assert (b.state().reason, b.state().rank) == (reason, 3)


def test_the_reviewer_sees_changes_made_by_hand(bench: MakeBench) -> None:
    b = bench([answer(files={"a.txt": "A"}), answer()])
    b.create()
    b.step()
    (b.workspace() / "human.txt").write_text("H", "utf-8")
    _, plan = preview_request(b.project, "j", Choice())
    assert isinstance(plan, StepPlan)
    assert "created: human.txt" in plan.request.prompt
    b.step()
    assert b.history()[2].request.prompt == plan.request.prompt


def test_evidence_that_nobody_would_miss_is_stuck(bench: MakeBench) -> None:
    b = bench([answer(), answer(command(evidence=["gone.txt"]))])
    b.create(approval="none")
    b.step()
    assert b.step().state.status is Status.STUCK


def test_an_answer_with_half_a_surrogate_is_archived(bench: MakeBench) -> None:
    b = bench()
    b.create()
    assert b.give("\ud800 oops").state.status is Status.STUCK
    assert "oops" in b.history()[1].response.raw_response


def test_a_repository_that_is_not_there_is_refused(bench: MakeBench, git_repo: Path) -> None:
    b = bench()
    with pytest.raises(UsageError, match="not a git repository"):
        b.create(repo=str(git_repo / "typo" / "nothere"))


def test_what_no_checkpoint_holds_is_named(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    os.mkfifo(b.workspace() / "pipe")
    result = b.step()
    assert any("not in any checkpoint, can't be restored: pipe" in warning for warning in result.warnings)
    assert result.entries[0].observed is not None
    assert result.entries[0].observed.not_restorable == ["pipe (fifo)"]


def test_a_title_is_one_line(bench: MakeBench) -> None:
    b = bench()
    assert b.create(title="A title\nnext: rm -rf /").title == "A title next: rm -rf /"


def test_an_answer_is_judged_once_by_the_checks_the_evidence_and_the_conclusion(bench: MakeBench) -> None:
    b = bench(
        [answer(command(evidence=["a.txt"]), files={"a.txt": "A"})],
        {"review": {"checks": {"ours": {"command": "true"}}}},
    )
    b.create()
    judged = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal judged
        judged += event == "call" and frame.f_code is exit_command.judge_answer.__code__

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        (entry,) = b.step().entries
    finally:
        sys.setprofile(before)
    assert entry.observed is not None
    assert [each.outcome for each in entry.observed.checks] == ["passed"]
    assert [each.exists for each in entry.observed.evidence] == [True]
    assert judged == 1


def test_what_a_step_gives_back_is_what_the_history_holds(bench: MakeBench) -> None:
    b = bench(
        [
            answer(command("RETRY", output={"a": [1, None, 2.5]}), files={"a.txt": "A"}),
            answer(command(evidence=["a.txt", "gone"]), role="Worker"),
            answer(role="Supervisor"),
        ],
        {"review": {"checks": {"ours": {"command": "false"}}}},
    )
    b.create()
    given = [entry for _ in range(3) for entry in b.step().entries]
    assert given == b.history()[1:]
    assert [entry.checksum for entry in given] == [entry.checksum for entry in b.history()[1:]]


def test_a_step_scans_its_workspace_no_more_than_needed(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[int] = []

    def count_scan(top: int, rules: ScanRules) -> WorkspaceScan:
        scans.append(top)
        return scan_workspace(top, rules)

    for module in (reading, workspace, listing):
        monkeypatch.setattr(module, "scan_workspace", count_scan)
    retry = command("RETRY")
    writing = [answer(retry, files={"a.txt": "A"}), answer(retry, files={"b.txt": None})]
    b = bench([answer(retry), *writing, answer(), answer()])
    b.create(limits={"max_attempts": 9})
    counts = []
    steps: list[Callable[[], object]] = [b.step, b.step, b.step, lambda: b.give(retry), b.step, b.step]
    for do in steps:
        scans.clear()
        do()
        counts.append(len(scans))
    assert counts == [1, 2, 2, 1, 1, 1], "twice only if the agent changes files"
    observed = b.history()[-1].observed
    assert observed
    assert observed.phase is Phase.REVIEWER
