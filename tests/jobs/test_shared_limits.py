"""Limits that the jobs of a foreach share: first come, first served, never overshot, and raised in one place."""

from __future__ import annotations

import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from logist.agents.courier import shared_limits
from logist.agents.courier.ask_files import RecordedAsk
from logist.agents.courier.exchange import Errand
from logist.agents.workplace import Workplace
from logist.core.machine import kinds, steward
from logist.core.machine.limits import Shared
from logist.core.model import Call, ErrorKind, Kind, Reply, Status, Totals, Usage
from logist.core.money import totals
from logist.core.replay.replay import find_differences
from logist.core.step.step import StepPlan
from logist.errors import Busy, Refused, Stopped
from logist.jobs import job_queue
from logist.jobs.archive import archive_replay
from logist.jobs.archive.job_fork import fork_job
from logist.jobs.base import job_reader, specs
from logist.jobs.base.session import open_session
from logist.jobs.doctor import job_checks
from logist.jobs.doctor.backup import Backup
from logist.jobs.doctor.checks import Repairs
from logist.jobs.steward import job_edits, steward_decisions
from logist.jobs.steward.steward_decisions import record_decision, rerun_job, restep_job
from logist.jobs.turn.next_request import Choice, preview_request
from logist.store import JobDir
from tests import support
from tests.jobs.bench import Bench, Json, command, gave
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import paid
from tests.jobs.test_recovery import left_in_flight
from tests.jobs.test_workflow_children import given_away
from tests.jobs.test_workflow_children import totals as used_by
from tests.loopback import Loopback, Received

COST = {"cost_cents": 3, "seconds": 60}


def limited(b: Bench, name: str, value: float) -> None:
    """The parent has this limit from here on, where its children are made already."""
    job_edits.configure_job(b.project, "j", {("limits", name): value})


def raised(b: Bench, name: str, value: float, job_id: str = "j") -> None:
    """The limit of the parent is raised, and it goes on: the two commands that a person needs."""
    job_edits.configure_job(b.project, job_id, {("limits", name): value})
    record_decision(b.project, job_id, Kind.RESUME)


def runs(b: Bench) -> int:
    """The asks of all children."""
    return sum(entry.kind is Kind.ASK for child in b.children() for entry in b.history(child))


def test_an_item_may_use_more_than_an_equal_part(bench: MakeBench) -> None:
    b = bench()
    retries = [gave(action="RETRY")] * 2
    given_away(b, "a", "b", "c", each={2: [*retries, gave("b")]}, limits={"max_allowed_iterations": 7})
    assert b.run().state.status is Status.SUCCESS
    assert b.state("j--3-2").usage.current_action_count == 3
    spec = b.history("j--3-2")[0].spec
    assert spec is not None
    assert (spec.limits.max_allowed_iterations, spec.shares_limits) == (7, True)


@pytest.mark.parametrize(
    ("limit", "status", "value", "more"),
    [
        ("max_allowed_iterations", Status.HALTED_ITERATION, 3, 20),
        ("cost_threshold", Status.HALTED_COST, 6, 100),
        ("time_threshold_minutes", Status.HALTED_TIME, 2, 60),
    ],
)
def test_the_parent_halts_and_its_items_go_on_when_its_limit_is_raised(
    bench: MakeBench, limit: str, status: Status, value: float, more: float
) -> None:
    b = bench(settings={"max_concurrent_agents": 1})
    names = ["a", "b", "c", "d"]
    each = {number: [gave(name, usage=COST)] for number, name in enumerate(names, 1)}
    children = given_away(b, *names, each=each)
    limited(b, limit, value)
    result = b.run()
    assert (result.state.status, result.exit_code) == (status, 7)
    assert runs(b) == 2
    standing = sorted(b.state(child).status for child in children)
    assert standing == [Status.PENDING] * 2 + [Status.SUCCESS] * 2
    halt = b.history()[-1]
    assert (halt.kind, halt.command["limit"], halt.command["runs"]) == (Kind.HALT, status, 2)
    assert used_by(b)[:3] == (6, 0, 3)
    waiting = next(child for child in children if b.state(child).status is Status.PENDING)
    with pytest.raises(Refused, match=f"the parent job j is {status}"):
        b.step(waiting)
    raised(b, limit, more)
    assert (b.state().status, b.state().children) == (Status.WAITING, children)
    assert b.run().state.status is Status.SUCCESS
    assert b.state().results == names
    assert used_by(b)[:3] == (12, 0, 6)


def test_a_run_of_all_jobs_says_that_a_family_is_at_its_limit(bench: MakeBench) -> None:
    b = bench()
    given_away(b, *"abcd")
    limited(b, "max_allowed_iterations", 3)
    ended = list(job_queue.run_queue(b.project, 1, lambda _: None))
    assert 7 in [one.exit_code for one in ended]
    assert [(held.job_id, held.exit_code) for held in job_queue.find_held_up_jobs(b.project)] == [("j", 7)]
    assert job_queue.list_ready_jobs(b.project) == []
    raised(b, "max_allowed_iterations", 9)
    list(job_queue.run_queue(b.project, 2, lambda _: None))
    assert (b.state().status, job_queue.find_held_up_jobs(b.project)) == (Status.SUCCESS, [])


def test_a_replay_judges_the_halt_by_what_it_has_booked(bench: MakeBench) -> None:
    # One at a time: a run that is out when the limit is reached is not booked by the halt.
    b = bench(settings={"max_concurrent_agents": 1})
    given_away(b, *"abc")
    limited(b, "max_allowed_iterations", 3)
    b.run()
    *before, halt = b.history()
    assert list(find_differences([*before, halt], b.project.schema)) == []
    fewer = halt.model_copy(update={"command": {**halt.command, "runs": 1}})
    found = next(find_differences([*before, fewer], b.project.schema))
    assert (found.field, found.recorded, found.today) == ("state_after", "HALTED_ITERATION", "WAITING")
    record_decision(b.project, "j", Kind.CANCEL)
    assert sorted(b.state(child).status for child in b.children()) == ["CANCELED", "SUCCESS", "SUCCESS"]


@pytest.mark.deep
def test_no_run_too_many_where_several_work_at_once(bench: MakeBench) -> None:
    b = bench()
    names = [f"part {number}" for number in range(8)]
    given_away(b, *names)
    limited(b, "max_allowed_iterations", 6)
    list(job_queue.run_queue(b.project, 4, lambda _: None))
    assert runs(b) == 5
    assert (b.state().status, used_by(b)[2]) == (Status.HALTED_ITERATION, 6)


def test_an_item_has_a_limit_of_its_own_where_the_step_says_so(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: plan, prompt: x}\n"
        "- {id: each, stepType: foreach, itemsPath: output.parts, prompt: y,\n"
        "   itemLimits: {max_allowed_iterations: 2, costThreshold: 50}}\n"
    )
    retries = [gave(action="RETRY")] * 2
    b.follow(
        file, steps={"plan": [gave({"parts": [1, 2]})], "each[1]": [*retries, gave(1)], "each[2]": [gave(2)]}
    )
    result = b.run()
    first, second = b.children()
    assert (result.exit_code, b.state().status) == (7, Status.WAITING)
    assert (b.state(first).status, b.state(second).status) == (Status.HALTED_ITERATION, Status.SUCCESS)
    limits = b.state(first).limits
    assert (limits.max_allowed_iterations, limits.cost_threshold, limits.time_threshold_minutes) == (
        2,
        50,
        60,
    )
    job_edits.configure_job(b.project, first, {("limits", "max_allowed_iterations"): 3})
    record_decision(b.project, first, Kind.RESUME)
    assert b.run().state.status is Status.SUCCESS


def test_a_job_yaml_that_is_made_again_shares_the_limits_too(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: plan, prompt: x}\n"
        "- {id: each, stepType: foreach, itemsPath: output.parts, prompt: y, itemLimits: {costThreshold: 50}}\n"
    )
    b.follow(file, steps={"plan": [gave({"parts": [1]})], "each": [gave(1)]})
    b.step()
    b.step()
    (child,) = b.children()
    job = b.project.open_job(child)
    limited(b, "max_allowed_iterations", 9)
    job.spec_file.unlink()
    job_checks.repair(b.project, job, Repairs(Backup(b.project)), deep=False)
    asked = specs.read_job_spec(job)
    assert (asked.shares_limits, asked.limits.model_dump(exclude_none=True)) == (True, {"cost_threshold": 50})
    b.run(child)
    assert b.state(child).limits.max_allowed_iterations == 9


@pytest.mark.deep
def test_jobs_within_jobs_share_the_limits_of_the_topmost(bench: MakeBench) -> None:
    b = bench(settings={"max_concurrent_agents": 1})
    steps = {
        "start": [gave({"names": ["a", "b", "c"]}, usage=COST)],
        "each": [gave("hi", usage=COST)],
        "sum": [gave({"sum": 1})],
        "end": [gave()],
    }
    b.follow("within.yaml", input={"who": "Ada"}, steps=steps, limits={"cost_threshold": 9})
    result = b.run()
    assert (result.state.status, result.exit_code) == (Status.HALTED_COST, 7)
    assert b.state("j--3-1").status is Status.WAITING
    assert used_by(b)[:3] == (9, 0, 3)
    raised(b, "cost_threshold", 100)
    assert b.run().state.status is Status.SUCCESS
    assert used_by(b)[0] == 12


def test_what_a_child_used_before_it_was_started_over_counts(bench: MakeBench) -> None:
    b = bench()
    first, second = given_away(
        b, "a", "b", each={1: [gave(1, usage=COST)] * 2}, limits={"max_allowed_iterations": 3}
    )
    b.run(first)
    rerun_job(b.project, first)
    assert b.state(first).usage.current_action_count == 0
    b.run(first)
    result = b.run(second)
    assert (result.exit_code, b.state().status, runs(b)) == (7, Status.HALTED_ITERATION, 2)
    assert "is HALTED_ITERATION: iteration limit: 3 of 3 runs" in result.notes[0]


def test_a_preview_says_that_the_shared_limit_is_reached_and_writes_nothing(bench: MakeBench) -> None:
    b = bench()
    first, second = given_away(b, "a", "b")
    limited(b, "max_allowed_iterations", 2)
    b.run(first)
    before = b.files(second) | b.files("j")
    _, plan = preview_request(b.project, second, Choice())
    assert (getattr(plan, "limit", None), getattr(plan, "job", None)) == (Status.HALTED_ITERATION, "j")
    assert b.files(second) | b.files("j") == before


def test_a_fork_of_a_child_has_the_limits_of_the_config(bench: MakeBench) -> None:
    b = bench()
    (child,) = given_away(b, "a", limits={"max_allowed_iterations": 3})
    made = fork_job(b.project, child, 1, new_id="k")
    assert (made.state.shares_limits, made.state.parent) == (None, None)
    b.step("k")
    assert b.state("k").limits.max_allowed_iterations == 50


def test_what_jobs_below_used_before_a_job_was_started_over_counts_above(bench: MakeBench) -> None:
    b = bench()
    steps = {
        "start": [gave({"names": ["a", "b"]}, usage=COST)],
        "each": [gave("hi", usage=COST)] * 4,
        "sum": [gave({"sum": 1})],
        "end": [gave()],
    }
    b.follow("within.yaml", input={"who": "Ada"}, steps=steps)
    b.step()
    b.step()
    (middle,) = b.children()
    b.step(middle)
    b.step(middle)
    for child in b.state(middle).children:
        b.run(child)
    before = family(b, middle).used
    assert spent(before) == (9_000_000, 3)
    rerun_job(b.project, middle)
    assert spent(b.state(middle).usage) == (0, 0)
    assert family(b, middle).used == before
    assert archive_replay.replay_job(b.project, b.project.open_job(middle)).differences == ()


# --- calls in flight ---


def family(b: Bench, job_id: str) -> Shared:
    """What the job above leaves to a child."""
    (found,) = shared_limits.list_shared_limits(b.project.jobs_dir, job_id, "j")
    return found


def spent(used: Totals) -> tuple[int, int]:
    return totals.get_microcents(used), used.current_action_count


def test_a_call_counts_at_its_worst_case_until_its_outcome_is_recorded(bench: MakeBench) -> None:
    b = bench()
    first, second = given_away(b, "a", "b", each={1: [gave(), gave("after all")]})
    assert (family(b, second).remaining_microcents, family(b, second).waiting) == (1000 * 10**6, 2)
    job = left_in_flight(b, first)[0]
    nothing = (0, 0)
    assert spent(family(b, second).calls_out) == spent(family(b, second).unsettled) == nothing
    with job.hold_lock(command="test", since="now"):
        assert spent(family(b, second).calls_out) == (1_500_000, 1)
        assert family(b, second).waiting == 1
        assert spent(family(b, first).calls_out) == nothing, "its own call is the next one"
        job.mark_sent(1)
        assert spent(family(b, second).calls_out) == (1_500_000, 1)
    assert spent(family(b, second).unsettled) == (1_500_000, 1)
    b.run(first)
    shared = family(b, second)
    assert (spent(shared.unsettled), spent(shared.calls_out)) == (nothing, nothing)
    assert spent(shared.used) == (1_500_000, 2)  # the plan, and the call in doubt


def test_a_command_that_ends_while_its_call_is_counted_has_used_its_run(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    first, second = given_away(b, "a", "b")
    job = left_in_flight(b, first)[0]
    at_work = ExitStack()
    read = JobDir.read_entries

    def reads_just_before_the_end(self: JobDir) -> Iterator[Json]:
        yield from read(self)
        if self.id == first:
            at_work.close()

    monkeypatch.setattr(shared_limits, "_accounts", shared_limits._Accounts())  # so that it reads again
    monkeypatch.setattr(JobDir, "read_entries", reads_just_before_the_end)
    with at_work:
        at_work.enter_context(job.hold_lock(command="test", since="now"))
        assert spent(family(b, second).calls_out) == (1_500_000, 1)
        assert job.find_lock_holder() is None


def test_a_call_that_is_recorded_and_whose_files_are_left_counts_once(bench: MakeBench) -> None:
    b = bench()
    first, second = given_away(b, "a", "b")
    job = left_in_flight(b, first)[0]
    job.mark_sent(1)
    exchange = job.read_exchanges()[0].request
    assert exchange is not None
    b.run(first)
    before = spent(family(b, second).used)
    job.begin_exchange(1, exchange)
    job.mark_sent(1)
    assert (spent(family(b, second).unsettled), spent(family(b, second).used)) == ((0, 0), before)
    job.end_exchanges()


def test_who_finds_no_room_waits_for_calls_that_are_out(bench: MakeBench) -> None:
    b = bench()
    first, second = given_away(b, "a", "b")
    limited(b, "max_allowed_iterations", 2)
    job = left_in_flight(b, first)[0]
    waiting, done = threading.Event(), []
    b.change(say=lambda text: waiting.set() if "waiting for calls of other child jobs of j" in text else None)
    with job.hold_lock(command="test", since="now"):
        thread = threading.Thread(target=lambda: done.append(b.step(second)))
        thread.start()
        assert waiting.wait(60)
        assert (done, runs(b)) == ([], 0)
        job.end_exchanges()
    thread.join(60)
    assert done[0].state.status is Status.SUCCESS


def test_who_waits_for_calls_stops_on_ctrl_c(bench: MakeBench) -> None:
    b = bench()
    first, second = given_away(b, "a", "b")
    limited(b, "max_allowed_iterations", 2)
    job = left_in_flight(b, first)[0]
    stop: list[int] = []
    b.change(
        stopping=lambda: 130 if stop else 0, say=lambda text: stop.append(1) if "waiting" in text else None
    )
    with job.hold_lock(command="test", since="now"), pytest.raises(Stopped, match="before anything was sent"):
        b.step(second)


def test_a_call_that_nobody_has_recorded_is_not_taken_for_a_limit(bench: MakeBench) -> None:
    b = bench()
    first, second = given_away(b, "a", "b", each={1: [gave(), gave("late")]})
    limited(b, "max_allowed_iterations", 2)
    left_in_flight(b, first)[0].mark_sent(1)
    with pytest.raises(Busy, match="j has a child job whose last call is not recorded yet"):
        b.step(second)
    assert b.state().status is Status.WAITING


# --- paid calls ---


class Dearest(Loopback):
    """A model that uses all that a call allows: every byte of the prompt is a token, the answer as long as it may be.

    No answer leaves before `release` is set.
    """

    def __init__(self, *steps: Json) -> None:
        super().__init__(*steps)
        self.release = threading.Event()

    def take(self, received: Received) -> Json:
        step = super().take(received)
        assert self.release.wait(300)
        body = received.body
        most = body.get("max_completion_tokens") or body["max_tokens"]
        prompt = sum(len(str(message["content"]).encode()) for message in body["messages"])
        return {"usage": {"input": prompt, "output": most}, **step}


@pytest.mark.deep
def test_the_cost_limit_of_a_family_is_never_overshot(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, *"abcde")
    server = Dearest({"text": command(output=1)})
    with server:
        paid(b, server.url)
        _, plan = preview_request(b.project, children[0], Choice())
        assert isinstance(plan, StepPlan)
        assert plan.reserved_microcents
        most = 2.5 * plan.reserved_microcents
        limited(b, "cost_threshold", most / 10**6)
        b.change(
            say=lambda text: (
                server.release.set() if "waiting for calls of other child jobs of j" in text else None
            )
        )
        list(job_queue.run_queue(b.project, 4, lambda _: None))
        asked = len(server.requests)
    assert 2 <= asked < len(children)
    used = b.state().usage
    assert b.state().status is Status.HALTED_COST
    assert most / 2 < totals.get_microcents(used) <= most
    assert [b.state(child).status for child in children].count(Status.SUCCESS) == asked
    server = Dearest({"text": command(output=1)})
    server.release.set()
    with server:
        paid(b, server.url)
        raised(b, "cost_threshold", 100)
        list(job_queue.run_queue(b.project, 4, lambda _: None))
        assert len(server.requests) == len(children) - asked + 1
    assert b.state().status is Status.SUCCESS


LISTS = {"calls": [{"name": "list_directory", "args": {}}], "usage": {"input": 100, "output": 4000}}


@pytest.mark.deep
def test_a_model_that_finds_no_room_for_its_next_turn_goes_on_from_there(bench: MakeBench) -> None:
    b = bench()
    (child,) = given_away(b, "a")
    limited(b, "cost_threshold", 1.2)
    done = {"text": command(output=1), "usage": {"input": 100, "output": 10}}
    with Loopback(LISTS, done) as server:
        paid(b, server.url)
        ended = {one.job_id: one for one in job_queue.run_queue(b.project, 1, lambda _: None)}
        assert len(server.requests) == 1
        asked = b.history(child)[-1]
        assert (asked.response.error and asked.response.error.kind) == ErrorKind.SHARED_LIMIT
        assert "j and its jobs have left" in asked.reason
        assert (b.state(child).status, b.state(child).place.attempts) == (Status.PENDING, 0)
        assert (ended[child].exit_code, b.state().status) == (7, Status.HALTED_COST)
        raised(b, "cost_threshold", 100)
        b.run(child)
        assert len(server.requests) == 2
        assert server.requests[1].body["messages"][-1]["role"] == "tool"
    assert b.state(child).status is Status.SUCCESS


def begun(b: Bench, job_id: str, cents: int) -> JobDir:
    """A model has listed a directory, which has cost so many cents; then the courier was killed."""
    job, _ = left_in_flight(b, job_id)
    job.mark_sent(1)
    called = Call(id="a", name="list_directory", arguments="{}")
    reply = Reply(calls=(called,), finish="tool_calls", usage=Usage(cost_cents=cents, source="provider"))
    job.save_response(1, reply.model_dump(mode="json"))
    listed = {"id": "a", "name": "list_directory", "content": "empty", "error": False}
    job.save_tool_results(
        1, {"results": [listed], "refusals": [], "seconds": 0, "redactions": 0, "end": None}
    )
    return job


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(("cents", "asked"), [(0, 1), (1, 0)])
def test_a_turn_that_a_killed_courier_had_begun_is_reserved_again(
    bench: MakeBench, cents: int, asked: int
) -> None:
    """Between the kill and the next command, nobody has kept the room for it."""
    b = bench()
    (child,) = given_away(b, "a", limits={"cost_threshold": 1.2})
    with Loopback({"text": command(output=1), "usage": {"input": 100, "output": 10}}) as server:
        paid(b, server.url)
        job = begun(b, child, cents)
        job.begin_exchange(2, {"reserved_microcents": 10**9})
        b.step(child)
        assert len(server.requests) == asked
    last = b.history(child)[-1]
    assert (last.response.error is None) is bool(asked)
    assert b.state(child).status is (Status.SUCCESS if asked else Status.PENDING)
    if not asked:
        assert last.response.error is not None
        assert last.response.error.kind is ErrorKind.SHARED_LIMIT
        assert totals.get_microcents(b.state(child).usage) == 1_000_000


def test_turns_that_are_gone_on_with_have_their_run_reserved(bench: MakeBench) -> None:
    """From the look at the limits on: until its turns are back on disk, another job may look."""
    b = bench()
    first, second = given_away(b, "a", "b")
    limited(b, "cost_threshold", 1.2)
    done = {"text": command(output=1), "usage": {"input": 100, "output": 10}}
    runs_out: list[int] = []
    with Loopback(LISTS, done) as server:
        paid(b, server.url)
        b.run(first)  # to its shared limit, and j to its halt
        assert b.state().status is Status.HALTED_COST
        raised(b, "cost_threshold", 100)
        b.change(
            say=lambda text: (
                runs_out.append(family(b, second).calls_out.current_action_count)
                if "continuing after turn" in text
                else None
            )
        )
        b.run(first)
    assert runs_out == [1]
    assert b.state(first).status is Status.SUCCESS


def test_what_turns_of_other_calls_have_cost_is_not_waited_for(bench: MakeBench) -> None:
    """Two that wait for each other would wait until their time is over: what is spent does not come back."""
    b = bench()
    first, second = given_away(b, "a", "b", limits={"cost_threshold": 1.2})
    with Loopback({"text": command(output=1)}) as server:
        paid(b, server.url)
        begun(b, first, 0)
        other = begun(b, second, 1)
        with other.hold_lock(command="test", since="now"):
            b.step(first)
        assert server.requests == []
    error = b.history(first)[-1].response.error
    assert error is not None
    assert error.kind is ErrorKind.SHARED_LIMIT


@pytest.mark.deep
def test_a_courier_asks_no_more_once_no_job_above_counts_its_cost(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    (child,) = given_away(b, "a")
    with Loopback({"text": command(output=1)}) as server:
        paid(b, server.url)
        job = begun(b, child, 0)
        monkeypatch.setattr(
            steward_decisions, "cancel_children", lambda *_: None
        )  # killed before it could end the child
        restep_job(b.project, "j", 3)
        asked = job.read_exchanges()[0].request
        assert asked is not None
        Errand(job, RecordedAsk.read(asked), None, [], Workplace.for_job(job, {})).run()
        assert server.requests == []
    tools = job.read_exchanges()[0].tools
    assert tools is not None
    assert tools["end"]["kind"] == "shared_cost"
    assert "j no longer waits for this job" in tools["end"]["message"]


@pytest.mark.parametrize("kind", [Kind.SUSPEND, Kind.CANCEL])
def test_turns_are_not_gone_on_with_once_the_parent_is_ended(bench: MakeBench, kind: Kind) -> None:
    b = bench()
    (child,) = given_away(b, "a")
    with Loopback({"text": command(output=1)}) as server:
        paid(b, server.url)
        begun(b, child, 0)
        with open_session(b.project, "j", f"job {kind}") as session:
            after = steward.apply_command(
                kind, session.state.place, kinds.read_command(kind, {}), session.detect_spec_change()[0]
            )
            session.record(session.build_interaction(kind, after))
        with pytest.raises(Refused, match="the parent job j "):
            b.step(child)
        assert server.requests == []
        if kind is Kind.SUSPEND:
            record_decision(b.project, "j", Kind.RESUME)
            b.step(child)
            assert len(server.requests[0].body["messages"]) == 4


@pytest.mark.parametrize("kind", [Kind.CANCEL, Kind.SUSPEND])
def test_who_waits_for_calls_asks_nobody_once_the_parent_is_ended(bench: MakeBench, kind: Kind) -> None:
    b = bench()
    first, second = given_away(b, "a", "b")
    limited(b, "max_allowed_iterations", 2)
    job = left_in_flight(b, first)[0]
    waiting, raised_by = threading.Event(), []
    b.change(say=lambda text: waiting.set() if "waiting for calls of other child jobs of j" in text else None)

    def step_second() -> None:
        try:
            b.step(second)
        except Refused as error:
            raised_by.append(error)

    with job.hold_lock(command="test", since="now"):
        thread = threading.Thread(target=step_second)
        thread.start()
        assert waiting.wait(60)
        with open_session(b.project, "j", f"job {kind}") as session:
            after = steward.apply_command(
                kind, session.state.place, kinds.read_command(kind, {}), session.detect_spec_change()[0]
            )
            session.record(session.build_interaction(kind, after))
        job.end_exchanges()
    thread.join(60)
    assert Kind.ASK not in {entry.kind for entry in b.history(second)}
    assert [type(error).__name__ for error in raised_by] == [
        "Unwanted" if kind is Kind.CANCEL else "SetAside"
    ]


# --- jobs that an earlier version made ---


def test_turns_that_an_older_version_had_begun_are_gone_on_with(bench: MakeBench) -> None:
    """Its request has no fields of the spec that came later; nothing is asked or paid for again."""
    with Loopback({"text": command(), "usage": {"input": 100, "output": 10}}) as server:
        b = paid(bench(), server.url)
        b.create()
        job = begun(b, "j", cents=1)
        envelope = json.loads((job.inflight / "1.request").read_text())
        del envelope["spec"]["shares_limits"], envelope["shares_limits_of"]
        (job.inflight / "1.request").write_text(json.dumps(envelope))
        b.step()
        assert [len(request.body["messages"]) for request in server.requests] == [4]
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ASK]


def test_items_with_parts_of_the_limits_go_on_as_they_were(tmp_path: Path, bench: MakeBench) -> None:
    b = bench()
    b.drifts = True  # prompts of an older version
    with tarfile.open(support.ROOT / "fixtures" / "upgrades" / "items-with-divided-limits.tar.gz") as archive:
        support.extract_archive(archive, tmp_path / "old")
    b.change(
        jobs_dir=tmp_path / "old" / ".logist" / "jobs", agent=f"scripted:{tmp_path / 'old' / 'answers.json'}"
    )
    jobs = ["items", "items--3-1", "items--3-2"]

    def require_sound() -> None:
        for job_id in jobs:
            job = b.project.open_job(job_id)
            assert job_reader.verify_job(b.project, job).problems == ()
            assert archive_replay.replay_job(b.project, job).differences == ()

    require_sound()
    halted = b.state("items--3-2")
    assert (halted.status, halted.limits.max_allowed_iterations) == (Status.HALTED_ITERATION, 2)
    assert b.run("items").exit_code == 7
    raised(b, "max_allowed_iterations", 4, "items--3-2")
    job_edits.configure_job(b.project, "items", {("limits", "max_allowed_iterations"): 20})
    assert b.run("items").state.status is Status.SUCCESS
    require_sound()


def test_a_limit_that_was_raised_by_hand_is_noticed_before_anything_halts(bench: MakeBench) -> None:
    b = bench()
    first, second = given_away(b, "a", "b")
    limited(b, "max_allowed_iterations", 2)
    b.run(first)
    file = b.project.open_job("j").spec_file
    file.write_text(file.read_text().replace("max_allowed_iterations: 2", "max_allowed_iterations: 9"))
    assert b.step(second).state.status is Status.SUCCESS
    assert b.run().state.status is Status.SUCCESS
    assert Kind.HALT not in {entry.kind for entry in b.history()}
