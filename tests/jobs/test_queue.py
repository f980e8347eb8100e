"""Running one job and many."""

from __future__ import annotations

import resource
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Kind, Status
from logist.errors import Damaged, Refused
from logist.jobs import job_queue
from logist.jobs.base.result import CommandResult
from logist.jobs.steward.steward_decisions import record_decision
from logist.resources import find_resource
from logist.roles import load_roles
from logist.store.run_records import FIRST_CODES
from tests.jobs.bench import Bench, answer, gave
from tests.jobs.conftest import MakeBench


def test_run_goes_on_until_a_person_is_needed(bench: MakeBench) -> None:
    b = bench([answer(), answer()])
    b.create()
    seen: list[CommandResult] = []
    result = job_queue.run_job(b.project, "j", seen.append)
    assert (result.exit_code, [r.state.status for r in seen]) == (
        11,
        [Status.REVIEW_REQUIRED, Status.APPROVAL_REQUIRED],
    )
    assert b.history()[1].request.command == {"action": "run", "job_id": "j", "options": {}}


def test_run_stops_when_the_provider_is_out(bench: MakeBench) -> None:
    b = bench([{"error": {"kind": "auth", "message": "no"}}, answer()])
    b.create()
    assert job_queue.run_job(b.project, "j", lambda _: None).exit_code == 6
    assert len(b.history()) == 2


def test_the_queue_goes_by_rank_then_age(bench: MakeBench) -> None:
    b = bench()
    b.create("late", rank=5)
    b.create("second")
    b.create("first", rank=-1)
    b.create("third")
    b.create("draft", draft=True)
    assert job_queue.list_ready_jobs(b.project) == ["first", "second", "third", "late"]


def test_more_jobs_than_files_can_be_open_are_refused_before_the_first_one(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create()
    before = b.files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, hard))
    try:
        with pytest.raises(Refused) as caught:
            list(job_queue.run_queue(b.project, 88, lambda _: None))
        assert b.files() == before
        job_queue.require_open_files(87)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (
        str(caught.value.message)
        == "can't run 88 jobs at a time: they need 504 open files, and the limit is 500"
    )
    assert caught.value.fix == "raise the limit with `ulimit -n 504`, or run 87 at a time"


def test_one_broken_job_never_stops_the_others(bench: MakeBench) -> None:
    b = bench([answer()])
    for name in ("a", "b", "c"):
        b.create(name, review=False, approval="none")
    (b.folder("b") / "damaged-on-purpose").touch()
    (b.folder("b") / "state.json").write_bytes(b"{")
    ended = {one.job_id: one for one in job_queue.run_queue(b.project, 2, lambda _: None)}
    assert ended["a"].exit_code == ended["c"].exit_code == 0
    assert isinstance(ended["b"].error, Damaged)
    assert job_queue.choose_exit_code([one.exit_code for one in ended.values()]) == 10


def test_a_stop_leaves_every_job_steppable(bench: MakeBench) -> None:
    stop = threading.Event()
    b = bench([answer(), answer()])
    b.change(stopping=lambda: 130 if stop.is_set() else 0)
    for name in ("a", "b", "c"):
        b.create(name)
    list(job_queue.run_queue(b.project, 1, lambda _: stop.set()))
    statuses = [b.state(name).status for name in ("a", "b", "c")]
    assert statuses == [Status.REVIEW_REQUIRED, Status.PENDING, Status.PENDING]
    stop.clear()
    list(job_queue.run_queue(b.project, 1, lambda _: None))
    assert {b.state(name).status for name in ("a", "b", "c")} == {Status.APPROVAL_REQUIRED}


def test_exit_code_is_the_first_present() -> None:
    assert job_queue.choose_exit_code([0, 11, 3, 6]) == 6
    assert job_queue.choose_exit_code([0, 11]) == 11
    assert job_queue.choose_exit_code([]) == 0


def test_on_stuck_is_run_once(bench: MakeBench, tmp_path: Path) -> None:
    told = tmp_path / "told"
    b = bench([answer("?")], {"on_stuck": f'echo "$LOGIST_JOB_ID $LOGIST_STATUS" >> {told}'})
    b.create()
    b.step()
    b.step()
    assert told.read_text("utf-8") == "j STUCK\n"


def test_an_on_stuck_that_fails_is_a_warning(bench: MakeBench) -> None:
    b = bench([answer("?"), answer("?")], {"on_stuck": ["/nonexistent/program"]})
    b.create()
    assert b.step().state.status is Status.STUCK
    assert "the on_stuck command did not run" in b.said[-1]


def test_an_odd_state_stops_no_other_job(bench: MakeBench) -> None:
    b = bench([answer()])
    for name in ("a", "b"):
        b.create(name, review=False, approval="none")
    (b.folder("a") / "damaged-on-purpose").touch()
    state = b.folder("a") / "state.json"
    state.write_bytes(state.read_bytes().replace(b'"rank": 0', b'"rank": "x"'))
    ended = {one.job_id: one for one in job_queue.run_queue(b.project, 1, lambda _: None)}
    assert isinstance(ended["a"].error, Damaged)
    assert ended["b"].exit_code == 0


def test_a_surprise_in_one_job_stops_no_other(bench: MakeBench) -> None:
    b = bench([answer()])
    for name in ("a", "b"):
        b.create(name, review=False, approval="none")

    def surprised(result: CommandResult) -> None:
        if result.job_id == "a":
            raise RuntimeError("a surprise")

    ended = {one.job_id: one for one in job_queue.run_queue(b.project, 1, surprised)}
    assert (ended["a"].exit_code, ended["b"].exit_code) == (1, 0)


def fixed(b: Bench) -> None:
    """A clock that stands still: a list of ready jobs never gets old."""
    b.change(clock=replace(b.project.clock, monotonic=lambda: 0.0))


def test_a_run_does_not_list_all_jobs_for_each(bench: MakeBench) -> None:
    b = bench([answer()])
    fixed(b)
    names = [f"j{number}" for number in range(6)]
    for name in names:
        b.create(name, review=False, approval="none")
    listed: list[str] = []

    def wanted(name: str) -> bool:
        listed.append(name)
        return True

    ended = job_queue.run_queue(b.project, 2, lambda _: None, only=wanted)
    assert sorted(each.job_id for each in ended) == names
    assert listed == names


@pytest.mark.parametrize("gone", [False, True])
def test_a_listed_job_that_is_not_ready_any_more_is_not_run(bench: MakeBench, *, gone: bool) -> None:
    b = bench([answer()])
    fixed(b)
    for name in ("a", "b", "c"):
        b.create(name, review=False, approval="none")

    def decided(result: CommandResult) -> None:
        if result.job_id == "a" and gone:
            shutil.rmtree(b.folder("b"))
        elif result.job_id == "a":
            record_decision(b.project, "b", Kind.SUSPEND)

    ended = job_queue.run_queue(b.project, 1, decided)
    assert [(each.job_id, each.error) for each in ended] == [("a", None), ("c", None)]


def test_a_list_gets_old(bench: MakeBench) -> None:
    b = bench([answer()])
    for name in ("a", "c"):
        b.create(name, review=False, approval="none")

    def urgent(result: CommandResult) -> None:
        if result.job_id == "a":
            b.create("b", review=False, approval="none", rank=-1)

    assert [each.job_id for each in job_queue.run_queue(b.project, 1, urgent)] == ["a", "b", "c"]


def test_a_job_made_meanwhile_is_run_too(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create("a", review=False, approval="none")

    def and_another(result: CommandResult) -> None:
        if result.job_id == "a":
            b.create("b", review=False, approval="none")

    assert [one.job_id for one in job_queue.run_queue(b.project, 1, and_another)] == ["a", "b"]


def test_jobs_are_left_alone_when_asked_to(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create("a")
    assert list(job_queue.run_queue(b.project, 1, lambda _: None, leave={"a"})) == []


def test_a_refused_request_uses_no_iteration(bench: MakeBench) -> None:
    b = bench([{"error": {"kind": "auth", "message": "no"}}] * 3)
    b.create(limits={"max_allowed_iterations": 2})
    for _ in range(3):
        assert b.step().exit_code == 6
    assert (b.state().usage.current_action_count, b.state().asked) == (0, 3)


@pytest.mark.parametrize("first", range(len(FIRST_CODES)))
def test_what_is_broken_comes_before_what_waits_for_a_person(first: int) -> None:
    order = [1, 10, 5, 2, 6, 3, 7, 4, 11, 8]
    assert job_queue.choose_exit_code([0, *reversed(order[first:])]) == order[first]


def spawned(b: Bench, tmp_path: Path, inner: str = "{id: s, prompt: x}", **spec: Any) -> str:
    """A job that waits for a child, which follows a workflow of this step; the child's id."""
    (tmp_path / "inner.yaml").write_text(f"name: I\nsteps:\n- {inner}\n")
    (tmp_path / "outer.yaml").write_text(
        "name: O\nsteps:\n- {id: o, stepType: subflow, subflowId: inner.yaml}\n"
    )
    b.follow(tmp_path / "outer.yaml", **{"review": False, **spec})
    b.step()
    return b.children()[0]


def held(b: Bench) -> list[tuple[str, int, str]]:
    """What a run that finds nothing ready says; and that it finds nothing."""
    assert list(job_queue.run_queue(b.project, 2, lambda _: None)) == []
    before = {job: b.files(job) for job in ("j", *b.children())}
    found = [(one.job_id, one.exit_code, one.waits) for one in job_queue.find_held_up_jobs(b.project)]
    assert {job: b.files(job) for job in before} == before
    return found


def test_a_job_that_waits_for_a_stuck_one_is_held_up(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    child = spawned(b, tmp_path)
    assert job_queue.find_held_up_jobs(b.project) == []
    b.script({"s": [gave(action="STUCK")]})
    assert b.run(child).exit_code == 3
    assert held(b) == [("j", 3, f"waiting for 1 of 1 child jobs: {child} (STUCK)")]
    assert b.step().exit_code == 3


def test_only_the_outermost_of_those_that_wait_is_told(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    (tmp_path / "deepest.yaml").write_text("name: D\nsteps:\n- {id: s, execution: manual, prompt: x}\n")
    child = spawned(b, tmp_path, "{id: i, stepType: subflow, subflowId: deepest.yaml}")
    b.run()
    assert held(b) == [("j", 11, f"waiting for 1 of 1 child jobs: {child} (WAITING)")]
    shutil.rmtree(b.folder("j"))
    assert [one.job_id for one in job_queue.find_held_up_jobs(b.project)] == [child]


def test_a_role_that_is_gone_and_a_refused_job_are_no_success(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    role = b.project.home / "roles" / "Mine.yaml"
    role.parent.mkdir()
    role.write_text("name: Mine\ndescription: x\ninstructions: x\nllm_model: default\n")
    shipped = b.project.roles
    b.change(roles=load_roles([find_resource("roles"), role.parent]))
    child = spawned(b, tmp_path, "{id: s, prompt: x, role: Mine}")
    b.change(roles=shipped)
    codes = {one.job_id: one.exit_code for one in job_queue.run_queue(b.project, 1, lambda _: None)}
    assert (codes, job_queue.choose_exit_code([*codes.values()])) == ({child: 2}, 2)
    shutil.rmtree(b.folder(child))
    b.create(child, draft=True)
    assert held(b) == [("j", 8, f"waiting for 1 of 1 child jobs: {child} (another job uses this id)")]
    assert job_queue.choose_exit_code([8]) == 8
