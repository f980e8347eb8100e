"""Jobs that wait for others before they begin."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logist.core.machine.predecessors import find_circular_jobs
from logist.core.model import Kind, Status
from logist.errors import InvalidFile, Refused, UsageError
from logist.jobs import job_queue
from logist.jobs.archive import job_fork
from logist.jobs.base.predecessors import NamedPredecessors, find_unmet
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import load_session
from logist.jobs.doctor import job_checks
from logist.jobs.steward import job_deletion, job_edits
from logist.jobs.steward.inbox import list_inbox
from logist.jobs.steward.inbox_decisions import list_decisions, make_decision
from logist.jobs.steward.steward_decisions import record_decision
from logist.store.job_index import JobIndex
from tests.jobs.bench import Bench, answer, command, gave
from tests.jobs.conftest import MakeBench

EDIT_AFTER = "edit the file, or to wait for no other job: logist job config --job first --unset after"
ALONE: dict[str, Any] = {"review": False, "approval": "none"}


def decide(b: Bench, job_id: str, kind: Kind) -> None:
    record_decision(b.project, job_id, kind)


def run_all(b: Bench, parallel: int = 1) -> list[str]:
    """The jobs that a run has run, in order of their ends, each with its status."""
    return [
        f"{ended.job_id} {ended.result.state.status if ended.result else ended.error}"
        for ended in job_queue.run_queue(b.project, parallel, lambda _: None)
    ]


@pytest.fixture
def b(bench: MakeBench) -> Bench:
    """Two jobs: `second` waits for `first`, although it has the lower rank."""
    b = bench([answer(), answer()])
    b.create("first", **ALONE)
    b.create("second", **ALONE, after=["first"], rank=-1)
    return b


def test_a_run_makes_an_index_for_fewer_jobs_if_some_wait(b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise all jobs that wait would be read again at the end of each job."""
    monkeypatch.setattr(job_queue, "LEAST_WAITING", 2)
    assert run_all(b) == ["first SUCCESS", "second SUCCESS"]
    assert JobIndex.open(str(b.project.jobs_dir)) is not None


def test_a_run_makes_no_index_for_few_jobs_that_wait_for_none(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "LEAST_WAITING", 2)
    b = bench([answer()])
    for job_id in ("a", "b"):
        b.create(job_id, **ALONE)
    assert run_all(b) == ["a SUCCESS", "b SUCCESS"]
    assert JobIndex.open(str(b.project.jobs_dir)) is None


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("parallel", [1, 3])
def test_a_run_takes_jobs_after_their_predecessors(bench: MakeBench, parallel: int, is_indexed: bool) -> None:
    b = bench([answer()])
    b.create("c", **ALONE)
    b.create("b", **ALONE, after=["c"])
    b.create("a", **ALONE, after=["b", "c"], rank=-5)
    b.create("z", **ALONE, after=["a"], rank=-9)
    if is_indexed:
        JobIndex.make(str(b.project.jobs_dir)).refresh()
    assert job_queue.list_ready_jobs(b.project) == ["c"]
    assert run_all(b, parallel) == ["c SUCCESS", "b SUCCESS", "a SUCCESS", "z SUCCESS"]


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_job_that_becomes_ready_is_taken_by_its_rank(bench: MakeBench, is_indexed: bool) -> None:
    b = bench([answer()])
    b.create("first", **ALONE)
    b.create("other", **ALONE, rank=5)
    b.create("more", **ALONE, rank=6)
    b.create("second", **ALONE, after=["first"])
    b.change(clock=replace(b.project.clock, monotonic=lambda: 0.0))  # a list of ready jobs never gets old
    if is_indexed:
        JobIndex.make(str(b.project.jobs_dir)).refresh()
    assert run_all(b) == ["first SUCCESS", "second SUCCESS", "other SUCCESS", "more SUCCESS"]


def test_a_step_of_a_waiting_job_sends_nothing_and_ends_with_7(b: Bench) -> None:
    result = b.step("second")
    assert (result.exit_code, result.entries, result.notes) == (
        7,
        (),
        ("waits for first (PENDING); nothing was sent",),
    )
    assert result.next_command == "logist run"
    assert b.run("second").exit_code == 7
    b.step("first")
    assert b.step("second").state.status is Status.SUCCESS


def test_a_predecessor_that_waits_for_approval_has_not_succeeded(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create("first", review=False)
    b.create("second", **ALONE, after=["first"])
    b.step("first")
    assert b.step("second").notes == ("waits for first (APPROVAL_REQUIRED); nothing was sent",)
    assert b.step("second").next_command == "logist job status --job first"
    decide(b, "first", Kind.APPROVE)
    assert b.step("second").state.status is Status.SUCCESS


def test_a_predecessor_whose_merge_is_due_has_not_succeeded(b: Bench) -> None:
    state = {"status": "PENDING", "after": ["first"]}
    b.step("first")
    assert find_unmet(str(b.project.jobs_dir), state) == []
    file = b.folder("first") / "state.json"
    (b.folder("first") / "damaged-on-purpose").touch()
    file.write_text(file.read_text("utf-8").replace('"merge": null', '"merge": "due"'), "utf-8")
    [unmet] = find_unmet(str(b.project.jobs_dir), state)
    assert str(unmet) == "first (SUCCESS, not merged yet)"


@pytest.mark.parametrize("kind", [Kind.CANCEL, Kind.FAIL])
def test_a_job_whose_predecessor_did_not_succeed_is_in_the_inbox(b: Bench, kind: Kind) -> None:
    b.create("third", **ALONE, after=["second"])
    assert list_inbox(str(b.project.jobs_dir), 0.0) == []
    decide(b, "first", kind)
    assert run_all(b) == []
    status = b.state("first").status
    [item] = list_inbox(str(b.project.jobs_dir), 0.0)
    assert (item.job, item.kind, item.blocks, item.exit_code) == ("second", "predecessor", 1, 7)
    assert (item.reason, item.command) == (f"waits for first ({status})", "logist job rerun --job first")
    [held] = job_queue.find_held_up_jobs(b.project)
    assert (held.job_id, held.exit_code, held.waits) == (
        "second",
        7,
        f"PENDING, waits for first ({status})",
    )
    assert held.next_command == (
        "logist job rerun --job first to try it again, "
        "or: logist job config --job second --unset after to continue without it"
    )
    job_edits.configure_job(b.project, "second", {("after",): None})
    assert run_all(b) == ["second SUCCESS", "third SUCCESS"]


def test_a_predecessor_that_is_run_again_with_success_is_enough(b: Bench) -> None:
    decide(b, "first", Kind.CANCEL)
    decide(b, "first", Kind.RERUN)
    assert run_all(b) == ["first SUCCESS", "second SUCCESS"]


def test_a_stuck_predecessor_is_in_the_inbox_instead_of_what_it_blocks(bench: MakeBench) -> None:
    b = bench([answer("no JSON here")])
    b.create("first", **ALONE)
    for name in ("second", "third"):
        b.create(name, **ALONE, after=["first"])
    b.create("last", **ALONE, after=["second", "third"])
    assert run_all(b) == ["first STUCK"]
    [item] = list_inbox(str(b.project.jobs_dir), 0.0)
    assert (item.job, item.blocks) == ("first", 3)
    assert [held.job_id for held in job_queue.find_held_up_jobs(b.project)] == ["first"]


def test_several_predecessors_are_named_and_dropped_together(bench: MakeBench) -> None:
    b = bench([answer()])
    names = [f"p{number}" for number in range(5)]
    for name in names:
        b.create(name, **ALONE)
    b.create("j", **ALONE, after=names)
    decide(b, "p1", Kind.CANCEL)
    decide(b, "p3", Kind.FAIL)
    result = b.step()
    assert result.notes == (
        "waits for p0 (PENDING), p1 (CANCELED), p2 (PENDING) and 2 more; nothing was sent",
    )
    assert result.next_command == (
        "logist job rerun --job p1 to try it again, "
        "or: logist job config --job j --set 'after=[p0,p2,p4]' to continue without them"
    )


def test_a_person_may_let_a_job_begin_without_those_that_failed(b: Bench) -> None:
    b.create("other", **ALONE)
    b.create("third", **ALONE, after=["first", "other"])
    state = b.state("third")
    assert [choice.name for choice in list_decisions(state)] == ["cancel"]
    decide(b, "first", Kind.CANCEL)
    drop, _ = list_decisions(state, "predecessor")
    make_decision(b.project, "third", state, drop)
    assert b.state("third").after == ["other"]
    second = b.state("second")
    make_decision(b.project, "second", second, drop)
    assert b.state("second").after is None
    with pytest.raises(Refused, match="second has changed since you looked at it"):
        make_decision(b.project, "second", second, drop)
    assert run_all(b) == ["second SUCCESS", "other SUCCESS", "third SUCCESS"]


# When it has begun


def test_a_job_that_has_begun_does_not_wait_again(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create("first", **ALONE)
    b.create("second", approval="none", after=["first"])
    b.step("first")
    assert b.step("second").state.status is Status.REVIEW_REQUIRED
    decide(b, "first", Kind.RERUN)
    assert b.step("second").state.status is Status.SUCCESS


def test_a_job_that_starts_over_waits_again(b: Bench) -> None:
    assert run_all(b) == ["first SUCCESS", "second SUCCESS"]
    for name in ("first", "second"):
        decide(b, name, Kind.RERUN)
    assert b.step("second").exit_code == 7
    b.step("first")
    assert b.step("second").state.status is Status.SUCCESS


def test_a_predecessor_that_restarts_before_the_job_has_begun_counts_again(b: Bench) -> None:
    b.step("first")
    assert job_queue.list_ready_jobs(b.project) == ["second"]
    decide(b, "first", Kind.RERUN)
    assert job_queue.list_ready_jobs(b.project) == ["first"]
    assert b.step("second").exit_code == 7


def test_an_answer_by_hand_needs_no_predecessor_and_begins_the_job(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create("first", **ALONE)
    b.create("second", approval="none", after=["first"])
    assert b.give(command(), "second").state.status is Status.REVIEW_REQUIRED
    assert b.step("second").state.status is Status.SUCCESS


def test_an_answer_in_flight_is_recorded_although_the_predecessor_restarted(b: Bench) -> None:
    b.step("first")
    job = b.project.open_job("second")
    with job.hold_lock(command="test", since="now"):
        job.begin_exchange(1, {"ask": "nothing"})
    decide(b, "first", Kind.RERUN)
    assert job_queue.list_ready_jobs(b.project) == ["second", "first"]
    job.end_exchanges()


FIRST_FOREACH = """\
name: Parts
steps:
  - id: each
    stepType: foreach
    itemsPath: input.parts
    itemVariable: part
    prompt: Do part {{part}}.
"""


def test_a_workflow_waits_before_its_first_child_jobs(bench: MakeBench, tmp_path: Path) -> None:
    b = bench([answer()])
    b.create("first", **ALONE)
    file = tmp_path / "parts.yaml"
    file.write_text(FIRST_FOREACH, "utf-8")
    b.follow(file, "flow", after=["first"], review=False, input={"parts": ["a"]})
    assert b.step("flow").exit_code == 7
    assert b.children("flow") == []
    assert run_all(b) == ["first SUCCESS", "flow WAITING", "flow--2-1 SUCCESS", "flow SUCCESS"]


# How others change


def test_a_successful_predecessor_is_not_deleted_while_a_job_waits_for_it(b: Bench) -> None:
    b.create("third", **ALONE, after=["first"])
    b.step("first")
    with pytest.raises(Refused) as raised:
        job_deletion.delete_job(b.project, "first", force=True)
    assert str(raised.value) == (
        "can't delete first: second and 1 more wait for it (`after`) "
        "(to let it begin without first: logist job config --job second --unset after)"
    )
    b.step("second")
    b.step("third")
    job_deletion.delete_job(b.project, "first")
    assert not b.folder("first").exists()


def test_the_refusal_to_delete_names_a_command_that_keeps_the_other_predecessors(b: Bench) -> None:
    b.create("other", **ALONE)
    b.create("third", **ALONE, after=["first", "other"])
    b.step("first")
    b.step("second")
    with pytest.raises(Refused) as raised:
        job_deletion.delete_job(b.project, "first", force=True)
    assert str(raised.value) == (
        "can't delete first: third waits for it (`after`) "
        "(to let it begin without first: logist job config --job third --set 'after=[other]')"
    )


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_job_waits_for_a_person_if_its_predecessor_was_deleted(b: Bench, is_indexed: bool) -> None:
    if is_indexed:
        JobIndex.make(str(b.project.jobs_dir)).refresh()
    decide(b, "first", Kind.CANCEL)
    job_deletion.delete_job(b.project, "first", force=True)
    [item] = list_inbox(str(b.project.jobs_dir), 0.0)
    command = "logist job config --job second --unset after"
    assert (item.job, item.reason, item.command) == ("second", "waits for first (deleted)", command)
    assert run_all(b) == []
    b.create("first", **ALONE)  # the name counts
    assert run_all(b) == ["first SUCCESS", "second SUCCESS"]


def test_a_damaged_predecessor_holds_a_job_back_and_is_in_the_inbox_itself(b: Bench) -> None:
    (b.folder("first") / "damaged-on-purpose").touch()
    (b.folder("first") / "state.json").unlink()
    (b.folder("first") / "jobHistory.json").write_bytes(b"{")
    assert b.step("second").notes == ("waits for first (damaged); nothing was sent",)
    assert [item.job for item in list_inbox(str(b.project.jobs_dir), 0.0)] == ["first"]


def test_a_fork_waits_for_the_same_predecessors_and_replaces_none(b: Bench) -> None:
    job_fork.fork_job(b.project, "second", new_id="copy")
    assert b.step("copy").notes == ("waits for first (PENDING); nothing was sent",)
    job_fork.fork_job(b.project, "first", new_id="other")
    b.step("other")
    assert b.step("second").exit_code == 7


def test_a_run_takes_a_job_whose_predecessor_succeeds_elsewhere(b: Bench) -> None:
    b.create("own", **ALONE)
    done = threading.Event()

    def work_elsewhere(result: CommandResult) -> None:
        if not done.is_set():
            done.set()
            b.step("own" if result.job_id == "first" else "first")

    assert "second SUCCESS" in [
        f"{ended.job_id} {ended.result.state.status}"
        for ended in job_queue.run_queue(b.project, 1, work_elsewhere)
        if ended.result
    ]


# What may be written


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (["new"], "after: new can't wait for itself (remove it)"),
        (
            ["frist"],
            "after: job 'frist' not found (did you mean `first`? to see all jobs, run: logist job list)",
        ),
        (
            ["firs"],
            "after: job 'firs' not found (did you mean `first`? to see all jobs, run: logist job list)",
        ),
    ],
)
def test_unusable_predecessors_are_refused(b: Bench, after: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        b.create("new", after=after)
    assert str(raised.value) == message
    assert not b.folder("new").exists()


def test_a_cycle_is_refused_and_nothing_is_written(b: Bench) -> None:
    b.create("third", **ALONE, after=["second"])
    before = (b.folder("first") / "job.yaml").read_bytes()
    with pytest.raises(UsageError) as raised:
        job_edits.configure_job(b.project, "first", {("after",): ["third"]})
    assert str(raised.value) == (
        "after: jobs would wait for each other: first waits for third, third waits for second, "
        "second waits for first (remove one of them)"
    )
    assert (b.folder("first") / "job.yaml").read_bytes() == before


def test_a_child_job_may_not_wait_for_what_its_parent_waits_for(bench: MakeBench) -> None:
    b = bench()
    b.follow("fan-out.yaml", steps={"plan": [gave({"parts": ["a", "b"]})]}, review=False)
    while b.state().status is Status.PENDING:
        b.step()
    one, two = b.children()
    with pytest.raises(UsageError, match=f"{one} waits for j, j waits for {one}"):
        job_edits.configure_job(b.project, one, {("after",): ["j"]})
    job_edits.configure_job(b.project, one, {("after",): [two]})
    ready = job_queue.list_ready_jobs(b.project)
    assert ready == [two]
    b.create("next", **ALONE, after=[one])
    assert b.step("next").notes == (f"waits for {one} (PENDING); nothing was sent",)


def edit_by_hand(b: Bench, job_id: str, text: str) -> None:
    file = b.folder(job_id) / "job.yaml"
    file.write_text(file.read_text("utf-8") + text, "utf-8")


def test_predecessors_that_are_written_by_hand_count_from_the_next_step_on(b: Bench) -> None:
    b.create("early", **ALONE, rank=-7)
    edit_by_hand(b, "early", "after: [first]\n")
    assert run_all(b) == ["early PENDING", "first SUCCESS", "early SUCCESS", "second SUCCESS"]
    assert [entry.kind for entry in b.history("early")] == [Kind.CREATE, Kind.SPEC, Kind.ASK]


def test_a_cycle_that_is_written_by_hand_is_refused_by_the_next_step(b: Bench) -> None:
    edit_by_hand(b, "first", "after: [second]\n")
    with pytest.raises(InvalidFile) as raised:
        b.step("first")
    assert str(raised.value) == (
        f"{b.folder('first') / 'job.yaml'}: after: jobs would wait for each other: "
        "first waits for second, second waits for first (remove one of them)"
    )
    assert [entry.kind for entry in b.history("first")] == [Kind.CREATE]


def test_the_history_says_what_a_job_waits_for(b: Bench) -> None:
    spec = b.history("second")[0].spec
    assert spec is not None
    assert spec.after == ("first",)
    assert load_session(b.project, b.project.open_job("second")).state.after == ["first"]
    assert b.state("first").after is None


def diagnose(b: Bench, job_id: str) -> list[tuple[str, str, str | None]]:
    found = job_checks.examine(b.project, b.project.open_job(job_id), deep=False)
    return [
        (each.level, each.message.replace(str(b.folder(job_id)), ""), each.fix)
        for each in found
        if each.level != "ok"
    ]


def test_doctor_finds_what_was_written_by_hand_before_a_step_does(b: Bench) -> None:
    assert diagnose(b, "first") == diagnose(b, "second") == []
    b.create("third", **ALONE)
    edit_by_hand(b, "first", "after: [third]\n")
    edit_by_hand(b, "third", "after: [second]\n")
    cycle = "first waits for third, third waits for second, second waits for first"
    message = f"/job.yaml: after: jobs would wait for each other: {cycle}"
    assert diagnose(b, "first") == [("error", message, EDIT_AFTER)]
    job_edits.configure_job(b.project, "first", {("after",): None})
    edit_by_hand(b, "first", "after: [first]\n")
    [(_, message, _)] = diagnose(b, "first")
    assert message == "/job.yaml: after: first can't wait for itself"
    job_edits.configure_job(b.project, "first", {("after",): None})
    edit_by_hand(b, "first", "after: [gone]\n")
    [(_, message, _)] = diagnose(b, "first")
    assert message == "/job.yaml: after: job 'gone' not found"
    job_edits.configure_job(b.project, "first", {("after",): None})
    assert run_all(b) == ["first SUCCESS", "second SUCCESS", "third SUCCESS"]
    assert diagnose(b, "third") == []


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize(
    ("kind", "status", "command"),
    [
        (None, "DRAFT", "logist job activate --job held"),
        (Kind.SUSPEND, "SUSPENDED", "logist job resume --job held"),
    ],
)
def test_a_job_after_one_that_a_person_holds_back_is_in_the_inbox(
    bench: MakeBench, kind: Kind | None, status: str, command: str, is_indexed: bool
) -> None:
    b = bench([answer()])
    b.create("held", draft=kind is None, **ALONE)
    if kind:
        decide(b, "held", kind)
    b.create("second", **ALONE, after=["held"])
    if is_indexed:
        JobIndex.make(str(b.project.jobs_dir)).refresh()
    [item] = list_inbox(str(b.project.jobs_dir), 0.0)
    assert (item.job, item.reason, item.command) == ("second", f"waits for held ({status})", command)
    [held] = job_queue.find_held_up_jobs(b.project)
    assert (held.job_id, held.exit_code, held.next_command) == ("second", 7, item.advice)


def write_cycle(b: Bench) -> None:
    """As two commands at the same time can: each of them has checked the order before the other one has written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NamedPredecessors, "require_order", lambda self, job_id: None)
        job_edits.configure_job(b.project, "first", {("after",): ["second"]})


@pytest.mark.parametrize("is_indexed", [False, True])
def test_jobs_that_wait_for_each_other_are_in_the_inbox(b: Bench, is_indexed: bool) -> None:
    b.create("third", **ALONE, after=["second"])
    write_cycle(b)
    if is_indexed:
        JobIndex.make(str(b.project.jobs_dir)).refresh()
    assert run_all(b) == []
    items = sorted(list_inbox(str(b.project.jobs_dir), 0.0), key=lambda item: item.job)
    assert [(item.job, item.reason, item.command) for item in items] == [
        ("first", "waits for second (waits for this job)", "logist job config --job first --unset after"),
        ("second", "waits for first (waits for this job)", "logist job config --job second --unset after"),
    ]
    held = job_queue.find_held_up_jobs(b.project)
    assert [(each.job_id, each.exit_code) for each in held] == [("first", 7), ("second", 7)]
    result = b.step("second")
    assert (result.exit_code, result.notes) == (
        7,
        ("waits for first (waits for this job); nothing was sent",),
    )
    state = b.state("first")
    make_decision(b.project, "first", state, list_decisions(state, items[0].kind)[0])
    assert run_all(b) == ["first SUCCESS", "second SUCCESS", "third SUCCESS"]


def test_a_long_chain_of_jobs_has_no_jobs_that_wait_for_each_other() -> None:
    chain = {str(number): [str(number + 1)] for number in range(5_000)}
    assert find_circular_jobs(chain) == set()
    assert find_circular_jobs({**chain, "5000": ["4990"]}) == {str(number) for number in range(4_990, 5_001)}
    assert find_circular_jobs({"a": ["a"]}) == {"a"}


def test_two_commands_at_the_same_time_can_make_a_cycle_that_doctor_finds(b: Bench) -> None:
    write_cycle(b)
    assert run_all(b) == []
    message = (
        "/job.yaml: after: jobs would wait for each other: first waits for second, second waits for first"
    )
    assert diagnose(b, "first")[-1] == ("error", message, EDIT_AFTER)
    job_edits.configure_job(b.project, "second", {("after",): None})
    assert diagnose(b, "second") == []
