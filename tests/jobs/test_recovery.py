"""What an interrupted command leaves, and what the next one makes of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from logist.config.settings import Settings
from logist.core.history import fold
from logist.core.model import Kind, Reply, Status, StuckKind, Usage
from logist.core.model.commands import ResubmitCommand
from logist.core.step.step import Idle, StepPlan
from logist.errors import Damaged, InvalidFile, LogistError, Refused
from logist.jobs.archive import archive_replay
from logist.jobs.base import job_reader
from logist.jobs.base.session import open_session
from logist.jobs.doctor import job_checks
from logist.jobs.step_job import GivenAnswer, do_poststep
from logist.jobs.steward import job_edits, steward_decisions
from logist.jobs.steward.steward_decisions import record_decision, rerun_job, restep_job
from logist.jobs.turn import agent_calls
from logist.jobs.turn.next_request import Choice, preview_request
from logist.store import JobDir, Position
from tests import support
from tests.jobs.bench import Bench, Json, answer, command
from tests.jobs.conftest import MakeBench


def left_in_flight(b: Bench, job_id: str = "j", *, reserved: int = 1_500_000) -> tuple[JobDir, Json]:
    """A job whose stepper was killed after `1.request` became durable; returns the envelope too."""
    with open_session(b.project, job_id, "job step") as session:
        spec, _ = session.detect_spec_change()
        kept = b.project.open_workspace(session.job).create_checkpoint("before")
        _, plan = preview_request(b.project, job_id, Choice())
        assert isinstance(plan, StepPlan)
        ask = agent_calls.build_ask(session, spec, plan, kept.commit)
        envelope = replace(ask, reserved_microcents=reserved).data()
        session.job.begin_exchange(1, envelope)
        return session.job, envelope


def response(text: str) -> Json:
    usage = Usage(cost_cents=3, input_tokens=7, source="provider", seconds=2.5)
    dumped: Json = Reply(text=text, usage=usage).model_dump(mode="json")
    return dumped


def test_nothing_sent_is_as_before(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    left_in_flight(b)
    result = b.step()
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ASK]
    assert result.state.status is Status.REVIEW_REQUIRED
    assert not (b.folder() / "inflight").exists()


def test_an_answer_on_disk_is_concluded_and_nothing_is_asked(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    job, envelope = left_in_flight(b)
    job.mark_sent(1)
    job.save_response(1, response(command(summary="It came late.")))
    result = b.step()
    assert result.state.last is not None
    assert result.state.last.summary == "It came late."
    assert len(result.entries) == 1
    assert result.entries[0].request.prompt == envelope["request"]["prompt"]
    usage = b.state().usage
    assert (usage.cumulative_cost, usage.current_action_count, usage.cumulative_time_seconds) == (3, 1, 2.5)
    assert not (b.folder() / "inflight").exists()


def test_a_harvest_uses_the_spec_that_was_asked_under(bench: MakeBench) -> None:
    b = bench()
    b.create()
    job, _ = left_in_flight(b)
    job.mark_sent(1)
    job.save_response(1, response(command()))
    spec = b.folder() / "job.yaml"
    spec.write_text(spec.read_text("utf-8") + "review: false\napproval: none\n", "utf-8")
    assert b.step().state.status is Status.REVIEW_REQUIRED


def in_flight(b: Bench, text: str) -> None:
    """A job whose answer is on disk, and which nobody has looked at since."""
    b.create()
    job, _ = left_in_flight(b)
    job.mark_sent(1)
    job.save_response(1, response(text))


def test_a_given_answer_is_not_used_for_a_state_nobody_has_seen(bench: MakeBench) -> None:
    b = bench()
    in_flight(b, command())
    with pytest.raises(Refused, match="in progress or not recorded yet"):
        b.give(command("STUCK"), dry_run=True)
    result = b.give(command("STUCK"))
    assert result.state.status is Status.REVIEW_REQUIRED
    assert "not used" in result.notes[0]


def test_nobody_decides_on_an_answer_they_have_not_seen(bench: MakeBench) -> None:
    b = bench()
    b.create("j", review=False)
    job, _ = left_in_flight(b)
    job.mark_sent(1)
    job.save_response(1, response(command(summary="I deleted everything.")))
    with pytest.raises(Refused, match="arrived in the meantime"):
        steward_decisions.record_decision(b.project, "j", Kind.APPROVE)
    assert b.state().status is Status.APPROVAL_REQUIRED
    assert steward_decisions.record_decision(b.project, "j", Kind.APPROVE).state.status is Status.SUCCESS


def test_a_job_can_be_ended_whatever_is_in_flight(bench: MakeBench) -> None:
    b = bench()
    in_flight(b, command())
    result = steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)
    assert [entry.kind for entry in result.entries] == [Kind.ASK, Kind.SUSPEND]
    assert result.state.place.before is not None
    assert result.state.place.before.status is Status.REVIEW_REQUIRED
    assert any("recorded the result of an earlier step" in line for line in b.said)


def test_preview_asks_nothing_while_an_answer_waits(bench: MakeBench) -> None:
    b = bench()
    in_flight(b, command())
    _, found = preview_request(b.project, "j", Choice())
    assert isinstance(found, Idle)
    assert "in progress or not recorded yet" in found.reason


def test_the_hook_hears_of_every_way_to_get_stuck(bench: MakeBench, tmp_path: Path) -> None:
    told = tmp_path / "told"
    b = bench(settings={"on_stuck": f"echo $LOGIST_STATUS >> {told}"})
    in_flight(b, "not json")
    with pytest.raises(Refused):
        steward_decisions.record_decision(b.project, "j", Kind.RESUBMIT)
    assert told.read_text("utf-8") == "STUCK\n"


def test_the_hook_may_resolve_the_job(bench: MakeBench) -> None:
    b = bench([answer("?")])
    b.create()
    home = b.project.home.parent
    hook = [sys.executable, "-m", "logist", "job", "resubmit", "j", "--jobs-dir", str(b.project.jobs_dir)]
    b.change(
        settings=Settings.model_validate(
            {"on_stuck": ["/usr/bin/env", "-C", str(home), f"PYTHONPATH={support.ROOT}", *hook]}
        )
    )
    b.step()
    assert b.state().status is Status.PENDING
    assert not [line for line in b.said if "on_stuck" in line]


def test_sent_without_an_answer_is_in_doubt(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    job, _ = left_in_flight(b)
    job.mark_sent(1)
    (b.workspace() / "half-made.txt").write_text("?", "utf-8")
    result = b.step()
    assert (result.exit_code, result.state.status) == (3, Status.STUCK)
    assert result.state.place.stuck is not None
    assert result.state.place.stuck.kind is StuckKind.IN_DOUBT
    assert (result.state.usage.cumulative_cost, result.state.usage.cumulative_cost_microcents) == (1, 500_000)
    assert result.entries[0].kind is Kind.RECOVER
    assert not (b.workspace() / "half-made.txt").exists()
    found = result.entries[0].checkpoint_before
    assert found is not None
    b.project.open_workspace(b.project.open_job("j")).restore(found)
    assert (b.workspace() / "half-made.txt").read_text("utf-8") == "?"  # nothing is lost
    assert b.step().entries == ()
    assert b.give(command(summary="I found the answer.")).state.status is Status.REVIEW_REQUIRED


def in_doubt(bench: MakeBench) -> Bench:
    """A job that is STUCK because a request was sent and no answer came; 1.5 cents are booked for it."""
    b = bench([answer(), answer(), answer()])
    b.create()
    job, _ = left_in_flight(b)
    job.mark_sent(1)
    assert b.step().state.status is Status.STUCK
    assert spent(b) == (1, 500_000)
    return b


def spent(b: Bench) -> tuple[int, int]:
    usage = b.state().usage
    return usage.cumulative_cost, usage.cumulative_cost_microcents


def test_what_is_in_doubt_is_asked_again_only_when_a_steward_says_what_it_cost(bench: MakeBench) -> None:
    b = in_doubt(bench)
    before = b.files()
    with pytest.raises(Refused, match="unknown whether the last request was charged"):
        record_decision(b.project, "j", Kind.RESUBMIT)
    assert b.history() == b.history()[:2]
    assert {k: v for k, v in b.files().items() if k != "lock"} == {
        k: v for k, v in before.items() if k != "lock"
    }
    assert (
        record_decision(
            b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="assume_paid")
        ).state.status
        is Status.PENDING
    )
    assert spent(b) == (1, 500_000)


def test_a_steward_takes_back_the_booking_of_what_was_not_charged_and_only_once(bench: MakeBench) -> None:
    b = in_doubt(bench)
    made = record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="retry"))
    assert made.entries[-1].command == {"doubt": "retry", "released_microcents": 1_500_000, "released_of": 2}
    assert spent(b) == (0, 0)
    assert restep_job(b.project, "j", 3).state.status is Status.STUCK
    assert record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="retry")).entries[
        -1
    ].command == {"doubt": "retry"}
    assert spent(b) == (0, 0)
    assert b.step().state.status is Status.REVIEW_REQUIRED


def test_an_answer_that_is_supplied_with_its_charge_replaces_the_booking(bench: MakeBench) -> None:
    b = in_doubt(bench)
    charged = GivenAnswer(
        command(summary="From the provider's log."), charge=Usage(cost_cents=1, source="steward")
    )
    result = do_poststep(b.project, "j", charged, Choice())
    assert (result.state.status, spent(b)) == (Status.REVIEW_REQUIRED, (1, 0))


def test_an_answer_that_is_supplied_without_a_charge_leaves_the_booking(bench: MakeBench) -> None:
    b = in_doubt(bench)
    b.give(command(summary="From the provider's log."))
    assert spent(b) == (1, 500_000)


def test_the_doubt_that_a_restep_went_back_to_is_the_one_that_is_settled(bench: MakeBench) -> None:
    b = in_doubt(bench)
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="assume_paid"))
    job, envelope = left_in_flight(b)
    job.end_exchanges()
    job.begin_exchange(1, envelope | {"sequence": 4, "after": None, "reserved_microcents": 700_000})
    job.mark_sent(1)
    b.step()
    assert (b.history()[-1].sequence, spent(b)) == (4, (2, 200_000))
    restep_job(b.project, "j", 3)
    made = record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="retry")).entries[-1]
    assert (made.command["released_of"], spent(b)) == (2, (0, 700_000))
    restep_job(b.project, "j", 5)
    made = record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="retry")).entries[-1]
    assert (made.command["released_of"], spent(b)) == (4, (0, 0))


def test_a_booking_from_before_a_rerun_is_not_taken_back_from_what_came_after(bench: MakeBench) -> None:
    b = in_doubt(bench)
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="assume_paid"))
    rerun_job(b.project, "j")
    charged = GivenAnswer(command(summary="By hand."), charge=Usage(cost_cents=1, source="steward"))
    do_poststep(b.project, "j", charged, Choice())
    restep_job(b.project, "j", 3)
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="retry"))
    assert spent(b) == (1, 0)


def answered_while_git_is_gone(bench: MakeBench) -> Bench:
    """A job with a paid answer on disk that can't be recorded, for its checkpoints are out of reach."""
    b = bench([answer(), answer()])
    b.create()
    job, _ = left_in_flight(b)
    job.mark_sent(1)
    job.save_response(1, response(command(summary="Paid for.")))
    job.git_dir.rename(job.path / "away")
    job.git_dir.write_text("no directory", "utf-8")
    return b


def mended(b: Bench) -> None:
    job = b.project.open_job("j")
    job.git_dir.unlink()
    (job.path / "away").rename(job.git_dir)


def test_an_answer_that_could_not_be_recorded_outlives_a_suspension(bench: MakeBench) -> None:
    b = answered_while_git_is_gone(bench)
    assert record_decision(b.project, "j", Kind.SUSPEND).state.status is Status.SUSPENDED
    assert any("it stays in inflight/" in line for line in b.said)
    mended(b)
    told = [found.message for found in job_checks.examine(b.project, b.project.open_job("j"), deep=False)]
    assert any("inflight/ contains an answer that is not recorded yet" in message for message in told)
    record_decision(b.project, "j", Kind.RESUME)
    result = b.step()
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.SUSPEND, Kind.RESUME, Kind.ASK]
    last = result.entries[0]
    assert (last.response.summary_for_supervisor, last.exchange) == ("Paid for.", b.history()[0].checksum)
    assert not (b.folder() / "inflight").exists()
    assert b.step().state.last is not None
    assert [entry.kind for entry in b.history()][-2:] == [Kind.ASK, Kind.ASK]


def test_an_answer_that_could_not_be_recorded_stops_a_change_of_the_spec(bench: MakeBench) -> None:
    b = answered_while_git_is_gone(bench)
    with pytest.raises(LogistError):
        job_edits.configure_job(b.project, "j", {("title",): "x"})
    mended(b)
    assert b.step().entries[0].response.summary_for_supervisor == "Paid for."


def test_an_answer_whose_turn_is_over_is_booked_and_its_words_are_kept(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    b.step()
    job, envelope = left_in_flight(b)
    job.end_exchanges()
    record_decision(b.project, "j", Kind.CANCEL)
    rerun_job(b.project, "j")
    job.begin_exchange(1, envelope)
    job.mark_sent(1)
    job.save_response(1, response(command(summary="Too late.")))
    assert envelope["phase"] == "reviewer"
    result = b.step()
    assert (result.exit_code, result.state.status, result.entries[0].kind) == (3, Status.STUCK, Kind.RECOVER)
    assert "Too late." in result.entries[0].response.raw_response


def test_on_doubt_retry_uses_an_attempt(bench: MakeBench) -> None:
    b = bench([answer()], {"on_doubt": "retry"})
    b.create()
    job, _ = left_in_flight(b)
    job.mark_sent(1)
    result = b.step()
    assert (result.state.status, result.state.place.attempts) == (Status.PENDING, 1)


def test_an_exchange_that_is_already_recorded_is_only_swept(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    job, envelope = left_in_flight(b)
    job.end_exchanges()
    b.step()
    job.begin_exchange(1, envelope)  # killed after the append, before inflight/ went away
    job.mark_sent(1)
    job.save_response(1, response(command()))
    b.step()
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ASK, Kind.ASK]


def test_state_is_rebuilt_from_the_history(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    b.step()
    expected = b.state()
    (b.folder() / "state.json").unlink()
    (b.folder() / "damaged-on-purpose").touch()
    assert b.state() == expected
    verified = job_reader.verify_job(b.project, b.project.open_job("j"))
    assert (verified.problems, "missing" in verified.notes[0]) == ((), True)
    b.step()
    assert (b.folder() / "state.json").is_file()
    assert job_reader.verify_job(b.project, b.project.open_job("j")) == job_reader.Verified(())


def test_a_state_that_is_behind_is_brought_up(bench: MakeBench) -> None:
    b = bench([answer(), answer("?"), answer()])
    b.create()
    b.step()
    old = (b.folder() / "state.json").read_bytes()
    b.step()
    steward_decisions.restep_job(b.project, "j", 3)
    expected = b.state()
    (b.folder() / "state.json").write_bytes(old)
    assert b.state() == expected
    steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)


def test_damage_is_refused_and_no_byte_changes(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    (b.folder() / "damaged-on-purpose").touch()
    history = b.folder() / "jobHistory.json"
    history.write_bytes(history.read_bytes().replace(b"Do it.", b"Do IT."))
    before = b.files()
    calls: list[Callable[[], object]] = [
        b.step,
        lambda: b.give(command()),
        lambda: steward_decisions.record_decision(b.project, "j", Kind.CANCEL),
    ]
    for call in calls:
        with pytest.raises(Damaged):
            call()
    assert b.files() == before


def test_restep_restores_state_and_workspace_and_keeps_usage(bench: MakeBench) -> None:
    b = bench(
        [answer(files={"a.txt": "1"}), answer(command("RETRY")), answer(files={"a.txt": "2"}), answer()]
    )
    b.create()
    for _ in range(3):
        b.step()
    result = steward_decisions.restep_job(b.project, "j", 3, note="Look again.")
    assert result.state.status is Status.REVIEW_REQUIRED
    assert (b.workspace() / "a.txt").read_text("utf-8") == "1"
    assert result.state.usage.current_action_count == 3
    assert result.state.note == "Look again."
    assert b.step().state.status is Status.APPROVAL_REQUIRED


def edit(b: Bench, text: str) -> None:
    """What a person does to a file of the workspace."""
    (b.workspace() / "a.txt").write_text(text, "utf-8")


def edited(b: Bench) -> str:
    return (b.workspace() / "a.txt").read_text("utf-8")


def test_restep_brings_back_what_was_edited_by_hand_before_that_interaction(bench: MakeBench) -> None:
    b = bench([answer(files={"a.txt": "agent"}), answer(command("RETRY")), answer(files={"a.txt": "again"})])
    b.create()
    b.step()
    edit(b, "by hand")
    b.step()
    b.step()
    assert edited(b) == "again"
    result = steward_decisions.restep_job(b.project, "j", 3)
    assert edited(b) == "by hand"
    found = next(entry for entry in b.history() if entry.sequence == 3).checkpoint_before
    assert result.state.checkpoint == found
    steward_decisions.restep_job(b.project, "j", 5)  # and that is taken back in the same way
    assert edited(b) == "again"


def test_restep_to_a_decision_brings_back_what_the_next_agent_met(bench: MakeBench) -> None:
    """A decision makes no checkpoint: what a person edited before it is in that of the next step."""
    b = bench([answer(command("STUCK"), files={"a.txt": "agent"}), answer(files={"a.txt": "again"})])
    b.create()
    b.step()
    edit(b, "by hand")
    steward_decisions.record_decision(b.project, "j", Kind.RESUBMIT, note="I changed it.")
    job_edits.configure_job(b.project, "j", {("prompt",): "Do it well."})
    b.step()
    assert [entry.kind.value for entry in b.history()[2:]] == ["resubmit", "spec", "ask"]
    for to in (3, 4, 5):
        steward_decisions.restep_job(b.project, "j", to)
        assert edited(b) == "by hand"
        edit(b, "something else")


def test_restep_leaves_the_workspace_where_no_agent_has_worked_since(bench: MakeBench) -> None:
    b = bench([answer(command("STUCK"), files={"a.txt": "agent"})])
    b.create()
    b.step()
    edit(b, "by hand")
    steward_decisions.record_decision(b.project, "j", Kind.CANCEL)
    assert steward_decisions.restep_job(b.project, "j", 3).state.status is Status.STUCK
    assert edited(b) == "by hand"


def test_restep_to_a_doubt_brings_back_what_the_agent_had_met(bench: MakeBench) -> None:
    """And not the half-done work that it left, which is what the entry names as its checkpoint before."""
    b = bench([answer()])
    b.create()
    edit(b, "by hand")
    job, _ = left_in_flight(b)
    job.mark_sent(1)
    edit(b, "half-done")
    assert b.step().entries[0].kind is Kind.RECOVER
    edit(b, "later")
    steward_decisions.restep_job(b.project, "j", 2)
    assert edited(b) == "by hand"


def test_restep_of_an_ended_job(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create(review=False, approval="none")
    b.step()
    assert steward_decisions.restep_job(b.project, "j", 2).state.status is Status.PENDING


def test_rerun_starts_over(bench: MakeBench) -> None:
    b = bench([answer(command(evidence=["a.txt"]), files={"a.txt": "1"})])
    b.create()
    b.step()
    result = steward_decisions.rerun_job(b.project, "j", keep_files=True)
    assert result.state.status is Status.PENDING
    assert result.state.usage.current_action_count == 0
    assert result.state.artefacts == []
    assert not (b.workspace() / "a.txt").exists()
    assert [p.read_text("utf-8") for p in (b.folder() / "attachments").rglob("a.txt")] == ["1"]
    assert b.step().state.status is Status.REVIEW_REQUIRED


def test_replay_names_the_first_difference(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    b.step()
    b.step()
    entries = b.history()
    changed = entries[1].model_copy(update={"state_after": Status.SUCCESS})
    from logist.core.replay.replay import find_differences

    found = list(find_differences([entries[0], changed, entries[2]], b.project.schema))
    assert found[0].sequence == 2
    assert (found[0].recorded, found[0].today) == ("SUCCESS", "REVIEW_REQUIRED")


def test_replay_needs_no_workspace_and_no_job(bench: MakeBench, tmp_path: Path) -> None:
    b = bench([answer(command(evidence=["a.txt"]), files={"a.txt": "1"}), answer("?")])
    b.create()
    b.step()
    b.step()
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "jobHistory.json").write_bytes((b.folder() / "jobHistory.json").read_bytes())
    replayed = archive_replay.replay_file(b.project.schema, archive)
    assert (replayed.interactions, replayed.differences) == (3, ())


def test_the_fold_of_the_history_is_the_state(bench: MakeBench) -> None:
    b = bench([answer(), answer("?"), answer()])
    b.create()
    b.step()
    b.step()
    steward_decisions.record_decision(
        b.project, "j", Kind.RESUBMIT, note="x", command=ResubmitCommand(review=True)
    )
    b.step()
    stored = json.loads((b.folder() / "state.json").read_text("utf-8"))
    folded = fold.fold(b.history()).model_dump(mode="json", exclude={"head"})
    assert {name: stored[name] for name in folded} == folded


def test_a_tampered_state_is_found(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    (b.folder() / "damaged-on-purpose").touch()
    state = b.folder() / "state.json"
    state.write_bytes(state.read_bytes().replace(b'"attempts": 0', b'"attempts": 1'))
    assert job_reader.verify_job(b.project, b.project.open_job("j")).problems
    with pytest.raises(Damaged):
        b.step()


def test_suspend_and_resume(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    b.step()
    steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)
    assert b.step().exit_code == 8
    with pytest.raises(Refused):
        steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)
    assert (
        steward_decisions.record_decision(b.project, "j", Kind.RESUME).state.status is Status.REVIEW_REQUIRED
    )
    assert b.step().state.status is Status.APPROVAL_REQUIRED


def test_reject_goes_back_with_the_note(bench: MakeBench) -> None:
    b = bench([answer(), answer(), answer()])
    b.create()
    b.step()
    b.step()
    result = steward_decisions.record_decision(b.project, "j", Kind.REJECT, note="Too long.")
    assert (result.state.status, result.state.note) == (Status.PENDING, "Too long.")
    b.step()
    assert "Too long." in b.history()[-1].request.prompt


def test_a_restep_that_was_cut_off_never_happened(bench: MakeBench) -> None:
    b = bench([answer(files={"a.txt": "1"}), answer(command("RETRY")), answer(files={"a.txt": "2"})])
    b.create()
    for _ in range(3):
        b.step()
    kept = b.state().checkpoint
    start = b.state().start_checkpoint
    assert kept is not None
    assert start is not None
    with open_session(b.project, "j", "job restep") as session:  # killed after the restore, before the append
        session.job.begin_restore(session.state.revision + 1, kept)
        b.project.open_workspace(session.job).restore(start)
    assert not (b.workspace() / "a.txt").exists()
    steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)
    assert (b.workspace() / "a.txt").read_text("utf-8") == "2"
    assert not (b.folder() / "restoring").exists()


def test_a_restore_that_could_not_be_undone_outlives_a_suspension(bench: MakeBench) -> None:
    b = bench([answer(files={"a.txt": "1"}), answer(files={"a.txt": "2"})])
    b.create()
    b.step()
    kept, start = b.state().checkpoint or "", b.state().start_checkpoint or ""
    job = b.project.open_job("j")
    job.begin_restore(b.state().revision + 1, kept)
    b.project.open_workspace(job).restore(start)
    job.git_dir.rename(job.path / "away")
    job.git_dir.write_text("no directory", "utf-8")
    steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)
    assert not (b.workspace() / "a.txt").exists()
    mended(b)
    steward_decisions.record_decision(b.project, "j", Kind.RESUME)
    assert (b.workspace() / "a.txt").read_text("utf-8") == "1"


def test_a_restep_that_was_recorded_stays(bench: MakeBench) -> None:
    b = bench([answer(files={"a.txt": "1"}), answer(command("RETRY")), answer(files={"a.txt": "2"})])
    b.create()
    for _ in range(3):
        b.step()
    before = b.state().checkpoint
    assert before is not None
    steward_decisions.restep_job(b.project, "j", 3)
    b.project.open_job("j").begin_restore(
        b.state().revision, before
    )  # killed before the note of it went away
    steward_decisions.record_decision(b.project, "j", Kind.SUSPEND)
    assert (b.workspace() / "a.txt").read_text("utf-8") == "1"


def test_an_entry_that_does_not_read_is_damage(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    archive = JobDir(tmp_path / "archive", "archive")
    with JobDir.create_job(tmp_path, "archive") as job:
        job.append_entries(Position(0, None, 0), [{"kind": "create", "state_before": "NOWHERE"}])
    with pytest.raises(Damaged, match="interaction 1 is invalid"):
        archive_replay.replay_file(b.project.schema, archive.path)


@pytest.mark.parametrize("text", ["", "id: other\nprompt: Do it.\n", "prompt: '  '\n"])
def test_a_spec_that_lost_its_task_is_never_sent(bench: MakeBench, text: str) -> None:
    b = bench([answer()])
    b.create()
    (b.folder() / "job.yaml").write_text(text, "utf-8")
    before = b.files()
    with pytest.raises(InvalidFile, match=r"job\.yaml"):
        b.step()
    assert b.files() == before


def test_the_prompt_can_not_be_taken_from_a_job_that_runs(bench: MakeBench) -> None:
    b = bench()
    b.create()
    with pytest.raises(InvalidFile, match="prompt"):
        job_edits.configure_job(b.project, "j", {("prompt",): None})
    b.create("d", draft=True, prompt=None)
    job_edits.configure_job(b.project, "d", {("title",): "Later"})


@pytest.mark.parametrize("name", ["inflight/1.request", "restoring"])
def test_what_can_not_be_read_keeps_no_job_from_being_ended(bench: MakeBench, name: str) -> None:
    b = bench([answer()])
    b.create()
    path = b.folder() / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("{}", "utf-8")
    (path.parent / "1.sent").touch()
    with pytest.raises(Damaged):
        b.step()
    assert steward_decisions.record_decision(b.project, "j", Kind.CANCEL).state.status is Status.CANCELED


def test_an_empty_history_is_damage(bench: MakeBench) -> None:
    b = bench()
    with JobDir.create_job(b.project.jobs_dir, "e"):
        pass
    (b.folder("e") / "damaged-on-purpose").touch()
    with pytest.raises(Damaged, match="empty"):
        b.step("e")
