"""A job and those that do a part of it: who stops whom, what is gathered once, several at work at once."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from logist.core.model import Kind, Status, StuckKind
from logist.core.model.commands import ApproveCommand, ResubmitCommand
from logist.errors import Refused, StorageError
from logist.jobs import job_queue
from logist.jobs.archive import archive_replay
from logist.jobs.base import job_reader
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import Session
from logist.jobs.steward.role_switch import switch_role
from logist.jobs.steward.steward_decisions import record_decision, rerun_job, restep_job
from logist.jobs.turn.next_request import Choice, preview_request
from logist.store import JobDir
from tests.jobs.bench import Bench, answer, command, gave
from tests.jobs.conftest import MakeBench
from tests.jobs.test_workflow_children import Killed, given_away, parts, totals, work

# --- stopped together ---


@pytest.mark.parametrize("kind", [Kind.CANCEL, Kind.FAIL])
def test_nobody_works_for_a_job_that_has_ended(bench: MakeBench, kind: Kind) -> None:
    b = bench()
    first, second = given_away(b, "a", "b")
    work(b, first)
    record_decision(b.project, "j", kind)
    assert (b.state(first).status, b.state(second).status) == (Status.SUCCESS, Status.CANCELED)
    assert "j no longer waits for this job" in b.state(second).reason


@pytest.mark.parametrize("how", ["rerun", "restep"])
def test_nobody_works_for_a_job_that_has_gone_back(bench: MakeBench, how: str) -> None:
    b = bench()
    children = given_away(b, "a", "b")
    rerun_job(b.project, "j") if how == "rerun" else restep_job(b.project, "j", 2)
    assert {b.state(child).status for child in children} == {Status.CANCELED}
    assert (b.state().step, b.state().children) == ("plan", [])
    b.script(parts("a", "b", plan=[gave({"parts": ["a", "b"]})] * 2))
    assert b.run().state.status is Status.SUCCESS
    assert len(b.children()) == 4


def test_a_restep_after_the_jobs_were_made_leaves_them_alone(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b")
    switch_role(b.project, "j", "Designer")
    restep_job(b.project, "j", 4)
    assert (b.state().status, b.state().children) == (Status.WAITING, children)
    assert {b.state(child).status for child in children} == {Status.PENDING}
    assert b.run().state.status is Status.SUCCESS


def ended(b: Bench) -> None:
    """The parent ended, and was killed before it could tell its children."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("logist.jobs.steward.steward_decisions.cancel_children", lambda *given: None)
        record_decision(b.project, "j", Kind.CANCEL)


def went_back(b: Bench) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("logist.jobs.steward.steward_decisions.cancel_children", lambda *given: None)
        restep_job(b.project, "j", 3)


def suspended(b: Bench) -> None:
    record_decision(b.project, "j", Kind.SUSPEND)


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (ended, "no longer waits"),
        (went_back, "no longer waits"),
        (suspended, "the parent job j is SUSPENDED"),
    ],
)
def test_a_child_that_nobody_waits_for_does_nothing(bench: MakeBench, happens: object, why: str) -> None:
    b = bench()
    (child,) = given_away(b, "a")
    assert callable(happens)
    happens(b)
    before = b.files(child)
    with pytest.raises(Refused, match=why) as refused:
        b.step(child)
    assert refused.value.exit_code == 8
    assert b.files(child) == before


def test_a_suspended_job_waits_again_when_it_is_resumed(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b")
    work(b, children[0])
    suspended(b)
    assert b.step().exit_code == 8
    record_decision(b.project, "j", Kind.RESUME)
    assert (b.state().status, b.state().children) == (Status.WAITING, children)
    assert b.run().state.status is Status.SUCCESS


def test_a_job_whose_grandparent_is_suspended_waits_too(bench: MakeBench) -> None:
    b = bench()
    b.follow("within.yaml", steps={"start": [gave({"names": ["a"]})], "each": [gave("hi")]})
    b.step()
    b.step()
    b.step("j--3-1")
    suspended(b)
    with pytest.raises(Refused, match="the parent job j is SUSPENDED"):
        b.step("j--3-1--2-1")
    record_decision(b.project, "j", Kind.CANCEL)
    assert b.state("j--3-1--2-1").status is Status.CANCELED


def test_a_child_that_was_taken_elsewhere_goes_its_own_way(bench: MakeBench) -> None:
    b = bench()
    (child,) = given_away(b, "a")
    shutil.rmtree(b.folder())
    assert b.run(child).state.status is Status.SUCCESS


def test_a_parent_that_was_moved_has_its_work_done_anew_where_it_is(bench: MakeBench) -> None:
    here, there = bench(), bench()
    children = given_away(here, "a", "b")
    work(here, children[0])
    shutil.move(here.folder(), there.folder())
    assert here.run(children[1]).state.status is Status.SUCCESS
    there.script(parts("a", "b"))
    assert there.step().state.children == there.children() == children
    assert there.run().state.status is Status.SUCCESS
    assert there.state().usage.current_action_count == 4
    assert [here.state(child).parent for child in children] == ["j", "j"]


# --- gathered once ---


def test_a_collect_that_was_cut_off_before_it_was_recorded_never_happened(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    children = given_away(b, "a", each={1: [gave("a", files={"a.txt": "A"})]})
    work(b, *children)
    with monkeypatch.context() as patched:
        patched.setattr(Session, "record", killed)
        with pytest.raises(Killed):
            b.step()
    assert (b.workspace() / "a.txt").exists()
    (b.workspace() / "a.txt").write_text("half")
    record_decision(b.project, "j", Kind.SUSPEND)
    assert not (b.workspace() / "a.txt").exists()
    record_decision(b.project, "j", Kind.RESUME)
    b.step()
    assert (b.workspace() / "a.txt").read_text() == "A"


def killed(*given: object, **more: object) -> None:
    raise Killed


def test_a_collect_that_was_recorded_stays(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench()
    children = given_away(b, "a", each={1: [gave("a", files={"a.txt": "A"})]})
    work(b, *children)
    end = JobDir.end_restore
    with monkeypatch.context() as patched:
        patched.setattr(JobDir, "end_restore", lambda job: killed() if job.restoring.exists() else end(job))
        with pytest.raises(Killed):
            b.step()
    assert b.run().state.status is Status.SUCCESS
    assert (b.workspace() / "a.txt").read_text() == "A"
    assert [entry.kind for entry in b.history()].count(Kind.COLLECT) == 1


def test_a_parent_replays_and_verifies_without_its_children(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b", each={1: [gave("a", files={"a.txt": "A"})]})
    assert b.run().state.status is Status.SUCCESS
    for child in children:
        shutil.rmtree(b.folder(child))
    job = b.project.open_job("j")
    assert archive_replay.replay_job(b.project, job).differences == ()
    assert job_reader.verify_job(b.project, job).problems == ()
    (b.folder() / "state.json").unlink()
    assert b.state().results == ["a", "b done"]


def test_a_child_that_was_deleted_is_made_and_done_again(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", "b")
    work(b, *children)
    shutil.rmtree(b.folder(children[1]))
    assert b.step().state.status is Status.WAITING
    assert b.state(children[1]).status is Status.PENDING
    assert b.run().state.results == ["a done", "b done"]


def test_a_child_that_was_deleted_after_it_failed_is_booked_again_but_never_taken_back(
    bench: MakeBench,
) -> None:
    b = bench()
    usage = {"cost_cents": 4}
    children = given_away(b, "a", each={1: [gave(None, "RETRY", usage=usage)] * 3})
    b.run()
    assert totals(b)[:3] == (12, 0, 4)
    shutil.rmtree(b.folder(children[0]))
    b.script({"each": [gave("fine", usage=usage)], "gather": [gave()]})
    record_decision(b.project, "j", Kind.RESUBMIT)
    assert b.run().state.status is Status.SUCCESS
    assert totals(b)[:3] == (16, 0, 6)


def test_two_steppers_gather_once(bench: MakeBench) -> None:
    b = bench()
    work(b, *given_away(b, "a", "b"))
    refused: list[Refused] = []

    def step() -> None:
        try:
            b.step()
        except Refused as error:  # busy, or on a slow machine ended by the others
            refused.append(error)

    threads = [threading.Thread(target=step) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry.kind for entry in b.history()].count(Kind.COLLECT) == 1
    assert b.state().step == "gather"


def test_a_job_that_waits_takes_no_answer_and_asks_nobody(bench: MakeBench) -> None:
    b = bench()
    given_away(b, "a")
    before = b.files()
    with pytest.raises(Refused):
        b.give(command())
    _, plan = preview_request(b.project, "j", Choice())
    assert getattr(plan, "status", None) is Status.WAITING
    assert b.files() == before
    assert b.step().notes == ("waiting for 1 of 1 child jobs: j--3-1 (PENDING)",)


def test_a_switch_of_role_while_it_waits_counts_afterwards(bench: MakeBench) -> None:
    b = bench()
    (child,) = given_away(b, "a")
    switch_role(b.project, "j", "Planner")
    b.run()
    seen = [entry.observed.role for entry in b.history() if entry.observed]
    assert seen == ["Worker", "Planner"]
    assert b.state(child).agent_role == "Worker"


# --- within each other ---


def test_a_foreach_whose_items_are_done_by_a_workflow_that_has_one(bench: MakeBench) -> None:
    b = bench()
    b.follow(
        "nested.yaml",
        input={"reader": "Ada"},
        steps={
            "list": [gave({"books": [{"title": "Emma"}, {"title": "Ulysses"}]})],
            "contents[1]": [gave({"chapters": ["I", "II"]})],
            "contents[2]": [gave({"chapters": []})],
            "chapters[1]": [gave("read I", files={"emma/1": "I"})],
            "chapters[2]": [gave("read II", files={"emma/2": "II"})],
            "bind": [gave("bound", files={"bound": "x"})],
            "shelf": [gave("full")],
        },
    )
    seen: list[str] = []
    result = job_queue.run_job(b.project, "j", lambda each: seen.append(each.job_id))
    assert result.state.status is Status.SUCCESS
    assert len(b.children()) == len(set(seen) - {"j"}) == 4
    assert "Read chapter II of Emma." in b.history("j--3-1--3-2")[1].request.prompt
    assert "List the chapters of Ulysses for Ada." in b.history("j--3-2")[1].request.prompt
    assert (b.workspace() / "emma" / "2").read_text() == "II"
    assert result.state.results == ["bound", "bound"]
    # Two of its own, two and two of the books, two of the chapters, and one for the list without any.
    assert totals(b)[2] == 2 + 2 + 2 + 2 + 1


def test_a_foreach_in_a_subflow_and_the_output_of_the_subflow(bench: MakeBench) -> None:
    b = bench()
    b.follow(
        "within.yaml",
        input={"who": "Ada", "secret": "not for the inner one"},
        steps={
            "start": [gave({"names": ["Bob", "Eve"], "other": 1})],
            "each[1]": [gave("hi Bob", files={"bob": "x"})],
            "each[2]": [gave("hi Eve")],
            "sum": [gave({"sum": 2})],
            "end": [gave()],
        },
    )
    assert b.run().state.status is Status.SUCCESS
    spec = b.history("j--3-1")[0].spec
    assert spec is not None
    assert spec.input == {"names": ["Bob", "Eve"], "who": "Ada"}
    assert "Greet Eve for Ada." in b.history("j--3-1--2-2")[1].request.prompt
    last = b.history()[-1].request.prompt
    assert "End with 2." in last
    assert '"sum": 2' in last
    assert (b.workspace() / "bob").exists()


def chain(place: Path, depth: int) -> Path:
    """Workflows of which each is done by the next; the last one has a step."""
    for number in range(1, depth):
        text = f"name: w{number}\nsteps:\n- {{id: s, stepType: subflow, subflowId: w{number + 1}.yaml}}\n"
        (place / f"w{number}.yaml").write_text(text)
    (place / f"w{depth}.yaml").write_text(f"name: w{depth}\nsteps:\n- {{id: s, prompt: Do it.}}\n")
    return place / "w1.yaml"


def test_five_workflows_may_be_within_each_other(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    b.follow(chain(tmp_path, 5), steps={"s": [gave("deep")]})
    assert b.run().state.status is Status.SUCCESS
    assert b.children()[-1] == "j--2-1--2-1--2-1--2-1"
    assert b.state().outputs == {"s": "deep"}
    assert totals(b)[2] == 1


# --- several at once ---


def test_a_queue_runs_the_children_and_then_their_parent(bench: MakeBench) -> None:
    b = bench()
    b.follow("fan-out.yaml", steps=parts(*"abcde"))
    b.follow("fan-out.yaml", "k", steps=parts("one"))
    b.script({**parts(*"abcde")})
    ended = [one.job_id for one in job_queue.run_queue(b.project, 3, lambda _: None)]
    assert {b.state(job_id).status for job_id in ("j", "k", *b.children("j"), *b.children("k"))} == {
        Status.SUCCESS
    }
    assert ended.count("j") == 2


def test_a_queue_runs_no_parent_twice_at_once(bench: MakeBench) -> None:
    b = bench([answer()])
    b.follow("fan-out.yaml", steps=parts("a"), rank=-1)
    b.step()
    b.create("k", review=False, approval="none")
    b.script(parts("a"), [answer()])
    spawned, done = threading.Event(), threading.Event()
    waiting, twice = threading.Lock(), []

    def on_step(result: CommandResult) -> None:
        if result.job_id == "k":
            assert spawned.wait(20)
        elif result.job_id != "j":
            done.set()
        elif not waiting.acquire(blocking=False):
            twice.append(result)
        else:
            if result.state.status is Status.WAITING:
                spawned.set()
                assert done.wait(20)
                threading.Event().wait(0.3)
            waiting.release()

    ended = list(job_queue.run_queue(b.project, 3, on_step))
    assert [one.error for one in ended] == [None] * len(ended)
    assert twice == []
    assert b.state().status is Status.SUCCESS


def test_a_run_of_one_job_leaves_others_alone_whatever_their_names(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create("j--x")
    given_away(b, "a")
    assert b.run().state.status is Status.SUCCESS
    assert len(b.history("j--x")) == 1


def test_a_run_tells_that_a_child_is_stuck(bench: MakeBench) -> None:
    b = bench()
    given_away(b, "a", "b", each={2: [gave(action="STUCK")]})
    result = b.run()
    assert (result.state.status, result.exit_code) == (Status.WAITING, 3)
    assert result.notes == ("waiting for 1 of 2 child jobs: j--3-2 (STUCK)",)


def test_a_run_tells_that_a_child_wants_a_steward(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    (tmp_path / "w2.yaml").write_text("name: w2\nsteps:\n- {id: ask, execution: manual, prompt: Say.}\n")
    (tmp_path / "w1.yaml").write_text("name: w1\nsteps:\n- {id: s, stepType: subflow, subflowId: w2.yaml}\n")
    b.follow(tmp_path / "w1.yaml")
    assert b.run().exit_code == 11
    record_decision(b.project, b.children()[0], Kind.APPROVE, command=ApproveCommand(output={"said": "yes"}))
    assert b.run().state.status is Status.SUCCESS
    assert b.state().outputs == {"s": {"said": "yes"}}


def test_a_subflow_that_fails_is_stuck(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    b.follow(chain(tmp_path, 2), steps={"s": [gave()]})
    b.step()
    record_decision(b.project, b.children()[0], Kind.FAIL, note="no")
    result = b.step()
    assert result.state.place.stuck is not None
    assert result.state.place.stuck.kind is StuckKind.SHARE
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(force=True))
    assert b.run().state.status is Status.SUCCESS
    assert b.state().outputs == {"s": []}


def test_a_foreach_that_is_rejected_is_done_again_with_the_same_items(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = bench()
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: p, prompt: x}\n- {id: s, stepType: foreach, itemsPath: output.x, prompt: y}\n"
    )
    b.follow(file, approval="end", steps={"p": [gave({"x": [1]})], "s": [gave("first")]})
    b.run()
    b.script({"s": [gave("second")]})
    record_decision(b.project, "j", Kind.REJECT, note="Again.")
    again = b.run().state
    assert (again.status, again.results, len(b.children())) == (Status.APPROVAL_REQUIRED, ["second"], 2)


def test_a_child_whose_repository_is_gone_is_named(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "a", each={1: [gave(1, files={"x": "y"})]})
    work(b, *children)
    (b.folder(children[0]) / "damaged-on-purpose").touch()
    (b.folder(children[0]) / "git").rename(b.folder(children[0]) / "gone")
    with pytest.raises(StorageError, match="j--3-1/git: the checkpoint repository is missing"):
        b.step()
    (b.folder(children[0]) / "gone").rename(b.folder(children[0]) / "git")
    assert b.run().state.status is Status.SUCCESS


def test_a_circle_in_which_no_agent_works_ends_at_a_limit(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    (tmp_path / "idle.yaml").write_text("name: I\nsteps:\n- {id: x, prompt: x, when: input.never}\n")
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: W\nsteps:\n- {id: s, stepType: subflow, subflowId: idle.yaml}\n"
        "- {id: d, stepType: decision, branches: [{condition: input.stop, to: end}], defaultBranch: s}\n"
    )
    b.follow(file, limits={"max_allowed_iterations": 3})
    assert b.run().state.status is Status.HALTED_ITERATION
    assert len(b.children()) == 3
