"""Asks that workers on other machines do: sent once, accepted once, and never lost. The machines here are directories."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from logist.agents.courier import ask_files
from logist.agents.remote import mirror
from logist.agents.remote import worker as work
from logist.agents.remote.cluster import SchedulerLost, WorkerLost
from logist.agents.remote.spool import Spool
from logist.agents.remote.threads import ThreadCluster
from logist.cli.commands.job import status, tail
from logist.config.environment import Environment
from logist.core.model import Kind, Permissions, Status, StuckKind, Usage
from logist.core.model.commands import ResubmitCommand
from logist.core.money.budgets import Cost, Sums
from logist.errors import Damaged, ProviderError, Refused, Stopped, StorageError
from logist.jobs.base import budgets, job_bundles
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import load_session
from logist.jobs.base.worker_pool import WorkerPool
from logist.jobs.doctor import job_checks
from logist.jobs.step_job import GivenAnswer, do_poststep
from logist.jobs.steward.steward_decisions import record_decision
from logist.jobs.turn import answer_recording, errands, late_results
from logist.jobs.turn.next_request import Choice
from logist.store import JobDir, files, filesystem, inflight, list_jobs
from logist.store.ledger import Ledger
from logist.version import __version__
from logist.workspace import Workspace
from logist.workspace.git import Git
from tests.jobs.bench import Bench, Json, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_gate import COST, SAYS, made, microcents, sums, total, workspace
from tests.jobs.test_paid import KEY, paid, waiting_for
from tests.jobs.test_tool_servers import with_server
from tests.jobs.test_working import USAGE, call, role, turn
from tests.loopback import Loopback

BODY = 'ask(); note("made.txt", str(pathlib.Path.cwd()))'
MADE = command(evidence=["made.txt"])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreadCluster]:
    cluster = ThreadCluster(tmp_path / "machines", 2)
    yield cluster
    cluster.close()


@pytest.fixture(autouse=True)
def surroundings_of_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MY_MODEL", KEY)
    monkeypatch.setattr(errands, "LOST_SECONDS", 20.0)


def away(b: Bench, cluster: ThreadCluster) -> Bench:
    """Let workers call the agents from here on."""
    b.change(workers=WorkerPool(cluster))
    return b


def home(b: Bench) -> Bench:
    """Use no workers from here on."""
    b.change(workers=None)
    return b


def begin(function: Callable[[], Any]) -> Future[Any]:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(function)
    pool.shutdown(wait=False)
    return future


def closed() -> tuple[threading.Event, Json]:
    """An answer of the model that waits for an event."""
    gate = threading.Event()
    return gate, {**SAYS, "gate": gate}


def at_work(b: Bench) -> ask_files.AwayErrand:
    errand = ask_files.read_errand(b.project.open_job("j").read_exchanges())
    assert errand is not None
    return errand


def lose(cluster: ThreadCluster, name: str) -> None:
    (worker,) = [each for each in cluster.list_workers() if each.name == name]
    cluster.lose_worker(worker)


def list_results(b: Bench, cluster: ThreadCluster) -> list[Json]:
    project = job_bundles.name_project(b.project)
    return [
        each for worker in cluster.list_workers() for each in cluster.call(worker, work.list_results, project)
    ]


def collects_late(b: Bench, cluster: ThreadCluster) -> bool:
    """Whether no machine has a result any more, after one look."""
    late_results.collect_late_results(b.project)
    return not list_results(b, cluster)


def require_one_result(b: Bench, calls: int = 1) -> None:
    """One entry has the exact cost, and the ledger the same."""
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ASK], b.history()[-1].reason
    assert total(b) == calls * COST == sums(b).spent.microcents == microcents(b.history()[-1].usage)
    assert sums(b).reserved == Cost()
    assert not (b.folder() / "inflight").exists()


def test_a_program_on_a_worker(bench: MakeBench, cluster: ThreadCluster) -> None:
    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        result = b.step()
    assert result.state.status is Status.APPROVAL_REQUIRED, b.history()[-1]
    assert "machines" in (workspace(b) / "made.txt").read_text()
    require_one_result(b)
    assert not list_results(b, cluster)


def test_a_lost_worker_whose_machine_comes_back(bench: MakeBench, cluster: ThreadCluster) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        name = at_work(b).worker
        lose(cluster, name)
        waiting_for(lambda: any("out of reach" in text for text in b.said))
        assert (
            f"{name} is out of reach (the worker has left the cluster); waiting up to 20 s for its machine"
            in b.said
        )
        cluster.add_worker(name)
        gate.set()
        assert step.result().state.status is Status.APPROVAL_REQUIRED
        assert len(server.requests) == 1
    require_one_result(b)


def test_a_machine_that_is_gone_leaves_the_ask_in_doubt(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errands, "LOST_SECONDS", 1.0)
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        name = at_work(b).worker
        lose(cluster, name)
        assert step.result().state.status is Status.STUCK
        place = b.state().place
        assert place.stuck is not None
        assert place.stuck.kind is StuckKind.IN_DOUBT
        # All that the task might spend is recorded and reserved.
        assert microcents(b.history()[-1].usage) == sums(b).reserved.microcents > COST
        assert sums(b).spent == Cost()
        assert b.step().entries == ()
        assert len(server.requests) == 1
        gate.set()
        # The machine is back: the result is kept and booked, and the job is as it was.
        cluster.add_worker(name)
        waiting_for(lambda: collects_late(b, cluster))
    kept = json.loads(next((b.folder() / "logs").glob("late-*.json")).read_text())
    assert kept["cost_microcents"] == COST == sums(b).spent.microcents
    assert sums(b).reserved == Cost()
    assert b.state().place == place
    told = next(text for text in b.said if "late answer" in text)
    assert f"--response-file {b.folder()}/logs/late-{kept['ticket']}.txt --charge 0.07" in told
    git = b.project.open_workspace(b.project.open_job("j")).git
    assert git.run("show", f"{kept['commit']}:made.txt")
    # A person uses it: its cost is booked once.
    text = (b.folder() / "logs" / f"late-{kept['ticket']}.txt").read_text()
    (workspace(b) / "made.txt").write_text("restored")
    usage = Usage(cost_cents=0, cost_microcents=COST, source="steward")
    result = do_poststep(b.project, "j", GivenAnswer(text, charge=usage), Choice())
    assert result.state.status is Status.APPROVAL_REQUIRED
    assert total(b) == COST == sums(b).spent.microcents


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_task_that_an_engine_starts_twice_runs_once(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch, *, elsewhere: bool
) -> None:
    do_task, others = work.do_task, []

    def start_twice(task: Json, spool: str) -> Json:
        other = str(Path(spool).with_name("another")) if elsewhere else spool
        second = begin(lambda: do_task(task, other))
        result = do_task(task, spool)
        others.append((result, second.result()))
        return result

    monkeypatch.setattr(work, "do_task", start_twice)
    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        b.step()
        assert len(server.requests) == 1
    require_one_result(b)
    ((first, second),) = others
    assert (first["outcome"], second["outcome"]) == ("done", "refused" if elsewhere else "done")
    assert elsewhere or first["files"] == second["files"]


def test_a_lost_scheduler_leaves_the_job_as_it_is_and_another_one_collects(
    bench: MakeBench, cluster: ThreadCluster, tmp_path: Path
) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        worker = at_work(b).worker
        assert f"Worker works on {worker}" in b.said
        cluster.lose_scheduler()
        with pytest.raises(SchedulerLost, match=f"the agent of j may still be at work on {worker}") as lost:
            step.result()
        assert (
            lost.value.fix
            == f"to collect its answer, run: logist run --on dask --scheduler {cluster.address}"
        )
        # A command without workers neither loses the work nor waits for it.
        with pytest.raises(Refused, match=f"its agent works on another machine, {worker}, since") as refused:
            home(b).step()
        assert refused.value.where == "j"
        assert str(refused.value.fix).startswith(str(lost.value.fix))
        assert [entry.kind for entry in b.history()] == [Kind.CREATE]
        require_reports(b, worker)
        new = ThreadCluster(tmp_path / "machines", 2)
        again: Future[CommandResult] = begin(away(b, new).step)
        gate.set()
        assert again.result().state.status is Status.APPROVAL_REQUIRED
        new.close()
        assert len(server.requests) == 1
    require_one_result(b)


def require_reports(b: Bench, worker: str) -> None:
    """Commands say who has the call, and how to get its answer."""
    words = f"its agent works on another machine, {worker}, since "
    collects = (
        f"logist run --on dask --scheduler {b.project.workers.cluster.address}" if b.project.workers else ""
    )
    job = b.project.open_job("j")
    told = status._warn_left_over({"next_command": ""}, str(job.path), None)
    assert [words in each.message and collects in str(each.fix) for each in told] == [True]
    assert words in answer_recording.describe_pending_work(load_session(b.project, job))
    found = list(job_checks._under_way(examined(b)))
    assert [words in each.message for each in found] == [True]
    assert words in tail._describe_idle(job).message
    assert tail._read_row(job)["next_command"].startswith("logist run --on dask --scheduler ")


def examined(b: Bench) -> Any:
    job = b.project.open_job("j")
    return SimpleNamespace(check="under way", job=job, project=b.project)


def test_without_workers_an_ask_is_in_doubt_when_its_agent_must_have_ended(
    bench: MakeBench, cluster: ThreadCluster
) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        cluster.lose_scheduler()
        assert isinstance(step.exception(), SchedulerLost)
        later = b.project.clock.now() + timedelta(hours=2)
        b.change(clock=replace(b.project.clock, now=lambda: later))
        assert home(b).step().state.status is Status.STUCK
        gate.set()


def test_a_worker_on_this_machine_needs_no_scheduler_to_be_collected(
    bench: MakeBench, cluster: ThreadCluster, tmp_path: Path
) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        place = str(tmp_path / "machines" / at_work(b).worker)
        cluster.lose_scheduler()
        assert isinstance(step.exception(), SchedulerLost)
        variables = {"HOME": str(tmp_path), "MY_MODEL": KEY, "LOGIST_WORKER_DIR": place}
        b.change(environment=Environment(variables))
        again: Future[CommandResult] = begin(home(b).step)
        gate.set()
        assert again.result().state.status is Status.APPROVAL_REQUIRED
        assert len(server.requests) == 1
    require_one_result(b)


def test_an_answer_from_a_cluster_that_ended_with_its_run_is_collected_by_a_step(
    bench: MakeBench, cluster: ThreadCluster
) -> None:
    gate, slow = closed()
    cluster.is_local = True
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        cluster.lose_scheduler()
        with pytest.raises(SchedulerLost) as lost:
            step.result()
        assert lost.value.fix == "to collect its answer, run: logist job step --job j"
        told = status._warn_left_over({"next_command": ""}, str(b.folder()), None)
        assert [each.fix for each in told] == ["logist job step --job j"]
        gate.set()


@pytest.mark.parametrize("error", [TimeoutError("the disk"), ValueError("not UTF-8")])
def test_an_unexpected_error_of_a_task_is_asked_about_on_its_machine(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    finish, errors = work._finish, [error]

    def fail(place: Spool, mirror: Any, record: Json) -> Json:
        if errors:
            raise errors.pop()
        return finish(place, mirror, record)

    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        monkeypatch.setattr(work, "_finish", fail)
        assert b.step().state.status is Status.APPROVAL_REQUIRED
        assert len(server.requests) == 1
    require_one_result(b)


def test_an_error_of_a_call_on_a_worker_is_one_to_act_on(cluster: ThreadCluster) -> None:
    worker = cluster.list_workers()[0]

    def fail(spool: str) -> None:
        raise PermissionError(13, "Permission denied", "tasks")

    with pytest.raises(
        ProviderError, match=r"machine-1: PermissionError on the worker: \[Errno 13\] Permission denied"
    ):
        WorkerPool(cluster).call(worker, fail)


def test_a_stop_before_a_task_begins_keeps_it_from_beginning(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker may have all threads busy with tasks of another run."""
    busy, stop, build_task = threading.Event(), {"now": 0}, errands._build_task

    def build_when_all_are_busy(*args: Any) -> Json:
        for worker in cluster.list_workers():
            cluster.get_executor(worker).submit(wait_on_worker, busy)
        return build_task(*args)

    monkeypatch.setattr(errands, "_build_task", build_when_all_are_busy)
    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        b.change(stopping=lambda: stop["now"])
        step: Future[CommandResult] = begin(b.step)
        waiting_for((b.folder() / "inflight" / "1.sent").exists)
        stop["now"] = 130
        places = [Path(cluster.call(each, tell_spool)) for each in cluster.list_workers()]
        waiting_for(lambda: any([*place.glob("tasks/*/given-up")] for place in places))
        busy.set()
        assert isinstance(step.exception(), Stopped)
        assert server.requests == []
    assert sums(b).reserved == Cost()


def wait_on_worker(event: threading.Event, spool: str = "") -> None:
    event.wait(60)


def tell_spool(spool: str) -> str:
    return spool


class Killed(BaseException):
    """What happens to a dispatcher that is killed: nothing more gets done."""


class Killer:
    """Ends the dispatcher before one of its durable writes."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int) -> None:
        self.left, self.thread, self.is_dead = number, threading.get_ident(), False
        for name in ("replace_file", "touch", "sync_directory"):
            patch.setattr(files, name, self.guard(getattr(files, name)))
        patch.setattr(mirror, "add_pack", self.guard(mirror.add_pack))
        patch.setattr(Workspace, "restore", self.guard(Workspace.restore))
        for of, name in (
            (JobDir, "append_entries"),
            (JobDir, "set_aside_exchanges"),
            (JobDir, "discard_exchanges"),
            (Ledger, "reserve"),
            (Ledger, "settle"),
        ):
            patch.setattr(of, name, self.guard(getattr(of, name)))

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **more: Any) -> Any:
            if threading.get_ident() == self.thread:
                self.left -= 1
                self.is_dead = self.is_dead or self.left == 0
                if self.is_dead:
                    raise Killed
            return function(*args, **more)

        return guarded


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=() if n % 5 == 3 else pytest.mark.deep) for n in range(1, 28)]
)
def test_a_dispatcher_killed_at_any_write_never_pays_twice(
    bench: MakeBench, cluster: ThreadCluster, number: int
) -> None:
    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        with pytest.MonkeyPatch.context() as patch:
            Killer(patch, number)
            with suppress(Killed):
                b.step()
        for _ in range(3):
            b.step()
        assert b.state().status is Status.APPROVAL_REQUIRED
        assert len(server.requests) == 1
    assert (workspace(b) / "made.txt").exists()
    require_one_result(b)
    waiting_for(lambda: collects_late(b, cluster))


@pytest.mark.parametrize(
    ("of", "name", "call"), [(inflight, "withdraw_sent", 1), (JobDir, "begin_exchange", 2)]
)
def test_a_dispatcher_killed_while_it_withdraws_a_refused_ask_leaves_no_doubt(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch, of: Any, name: str, call: int
) -> None:
    function, left = getattr(of, name), [call]

    def kill(*args: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        function(*args)

    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        with monkeypatch.context() as patch:
            patch.delenv("MY_MODEL")
            patch.setattr(of, name, kill)
            with pytest.raises(Killed):
                b.step()
        assert b.step().state.status is Status.APPROVAL_REQUIRED
        assert len(server.requests) == 1
    require_one_result(b)


def test_a_task_whose_worker_was_killed_before_its_agent_began_is_sent_again(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "BEGIN_SECONDS", 0.0)
    do_task = work.do_task
    killed: list[Json] = []

    def die_at_first(task: Json, spool: str) -> Json:
        if killed:
            return do_task(task, spool)
        killed.append(task)
        assert Spool.open(spool).begin_task(task["ticket"], task | {"pack": "", "base_pack": ""})
        raise WorkerLost("killed")

    monkeypatch.setattr(work, "do_task", die_at_first)
    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        b.step()
        (task,) = killed
        # The engine starts it again, much later: it is over.
        assert do_task(task, str(cluster._folder / task_worker(cluster, task))) == {"outcome": "unknown"}
        assert len(server.requests) == 1
    require_one_result(b)


def test_a_doubt_about_a_task_that_never_began_is_explained_when_its_machine_is_back(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "BEGIN_SECONDS", 0.0)
    monkeypatch.setattr(errands, "LOST_SECONDS", 0.5)
    lost: list[str] = []

    def die(task: Json, spool: str) -> Json:
        assert Spool.open(spool).begin_task(task["ticket"], task | {"pack": "", "base_pack": ""})
        lost.append(Path(spool).name)
        lose(cluster, lost[0])
        raise WorkerLost("killed")

    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        with monkeypatch.context() as patch:
            patch.setattr(work, "do_task", die)
            assert b.step().state.status is Status.STUCK
        assert sums(b).reserved.microcents
        cluster.add_worker(lost[0])
        assert collects_late(b, cluster)
        assert sums(b) == Sums()
        assert "has never called the agent" in b.said[-1]
        assert not [*(b.folder() / "logs").glob("late-*")]
        record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="retry"))
        assert b.step().state.status is Status.APPROVAL_REQUIRED
        assert len(server.requests) == 1


def task_worker(cluster: ThreadCluster, task: Json) -> str:
    names = {
        cluster.call(each, work.describe_machine)["machine"]: each.name for each in cluster.list_workers()
    }
    return names[task["machine"]]


def kill_courier_of(b: Bench, cluster: ThreadCluster, name: str) -> None:
    place = next((cluster._folder / name / "mirrors").glob("*/*"))
    holder = JobDir(place, "").find_lock_holder()
    assert holder is not None
    assert holder.courier is not None
    os.kill(holder.courier.pid, signal.SIGKILL)


def test_a_courier_killed_on_a_worker_leaves_its_open_request_in_doubt(
    bench: MakeBench, cluster: ThreadCluster
) -> None:
    gate, slow = closed()
    with Loopback(SAYS, slow) as server:
        b = away(made(bench, server, "ask(); ask()"), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(2)
        waiting_for(lambda: at_work(b).worker)
        kill_courier_of(b, cluster, at_work(b).worker)
        gate.set()
        assert step.result().state.status is Status.STUCK
        assert b.step().entries == ()
        assert len(server.requests) == 2
    place, entry = b.state().place, b.history()[-1]
    assert place.stuck is not None
    assert place.stuck.kind is StuckKind.IN_DOUBT
    assert sums(b).spent.microcents == COST
    assert microcents(entry.usage) == COST + sums(b).reserved.microcents
    assert 0 < sums(b).reserved.microcents < 10 * COST
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="retry"))
    assert sums(b) == Sums(sums(b).spent, Cost())
    assert total(b) == COST


TURNS = [
    turn(call("create_file", path="made.txt", content="one\n"), text="I make it."),
    turn(
        call("edit_file", path="made.txt", old="one", new="two"),
        call("execute_command", command="wc made.txt"),
    ),
    {"text": command(evidence=["made.txt"]), "usage": USAGE},
]


def models(bench: MakeBench, cluster: ThreadCluster, server: Loopback, **settings: Any) -> Bench:
    b = away(paid(bench(), server.url, review={"enabled": False}, **settings), cluster)
    b.create()
    return b


def require_same(b: Bench) -> None:
    """The ledger has what the histories have."""
    assert total(b) == sums(b).spent.microcents
    assert sums(b).reserved == Cost()


def test_a_model_works_with_its_tools_on_a_worker(bench: MakeBench, cluster: ThreadCluster) -> None:
    with Loopback(*TURNS) as server:
        b = models(bench, cluster, server)
        assert b.step().state.status is Status.APPROVAL_REQUIRED, b.history()[-1].reason
        assert len(server.requests) == 3
    entry = b.history()[-1]
    assert entry.response.tools == {"create_file": 1, "edit_file": 1, "execute_command": 1}
    assert (workspace(b) / "made.txt").read_text() == "two\n"
    assert entry.usage.input_tokens == 300
    require_same(b)


def test_a_model_continues_on_another_worker_after_an_outage_and_pays_for_no_turn_twice(
    bench: MakeBench, cluster: ThreadCluster
) -> None:
    down = [{"status": 503}] * 2
    with Loopback(*TURNS[:2], *down, TURNS[2]) as server:
        b = models(bench, cluster, server, retries={"max_tries": 2, "backoff_seconds": 0.01})
        result = b.step()
        assert result.wait is not None
        assert (result.exit_code, result.entries) == (6, ())
        assert sums(b).reserved == Cost()  # what is known is settled
        lose(cluster, at_work(b).worker)
        b.project.open_job("j").end_wait()
        assert b.step().state.status is Status.APPROVAL_REQUIRED, b.history()[-1].reason
        assert len(server.requests) == 5
    assert (workspace(b) / "made.txt").read_text() == "two\n"
    assert b.history()[-1].usage.input_tokens == 300
    require_same(b)


def test_a_stop_ends_the_agent_on_its_worker_and_records_what_is_known(
    bench: MakeBench, cluster: ThreadCluster
) -> None:
    gate = threading.Event()
    stop = {"now": 0}
    with Loopback(TURNS[0], {**TURNS[1], "gate": gate}, TURNS[2]) as server:
        b = models(bench, cluster, server)
        b.change(stopping=lambda: stop["now"])
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(2)
        stop["now"] = 130
        assert isinstance(step.exception(), Stopped)
        gate.set()
        stop["now"] = 0
        assert b.step().entries == ()
        assert len(server.requests) == 2
    # The open request is in doubt, as on one machine; the turn before it is kept.
    assert b.state().status is Status.STUCK
    assert total(b) == sums(b).get_total().microcents
    assert (sums(b).spent.calls, sums(b).reserved.calls) == (1, 1)


def limited(b: Bench, **limit: Any) -> Bench:
    """The bench with one budget."""
    settings = type(b.project.settings).model_validate_json(
        json.dumps(b.project.settings.model_dump(mode="json") | {"budget": {"limits": {"all": limit}}})
    )
    b.change(settings=settings)
    return b


@pytest.mark.parametrize(
    ("limit", "fits"), [({"calls": 7}, 7), ({"cost": 7.5 * COST / 1_000_000}, 7), ({"tokens": 7_700}, 7)]
)
def test_many_jobs_on_many_workers_never_overshoot_one_budget(
    bench: MakeBench, tmp_path: Path, limit: Json, fits: int
) -> None:
    cluster = ThreadCluster(tmp_path / "machines", 3, threads=2)
    with Loopback({**SAYS, "text": command()}) as server:
        b = models(bench, cluster, server, min_output_tokens=100)
        role(b, "Worker", Permissions(), max_output_tokens=200)
        for n in range(11):
            b.create(f"j{n}", prompt="Do it.")
        limited(b, **limit)
        with ThreadPoolExecutor(6) as pool:
            for _ in range(4):
                for job_id in list_jobs(b.project.jobs_dir):
                    if b.state(job_id).status is Status.PENDING:
                        b.project.open_job(job_id).end_wait()
                [
                    *pool.map(
                        lambda n: b.step(f"j{n}") if b.state(f"j{n}").status is Status.PENDING else None,
                        range(11),
                    )
                ]
        spent = sums(b).spent
        assert sums(b).reserved == Cost()
        assert len(server.requests) == spent.calls
        assert spent.calls <= fits
        assert spent.calls >= 1
    cluster.close()


def test_a_machine_that_can_not_do_a_task_is_named_and_another_one_does_it(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe = work.describe_machine

    def describe_machine(spool: str) -> Json:
        return describe(spool) | ({"logist": "0.0.1", "host": "old"} if "machine-2" in spool else {})

    monkeypatch.setattr(work, "describe_machine", describe_machine)
    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        assert b.step().state.status is Status.APPROVAL_REQUIRED
    require_one_result(b)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"logist": "0.0.1"},
            rf"there has Logist 0.0.1, and this machine {__version__}; install the same version",
        ),
        ({"python": "3.99.1"}, r"there has Python 3.99.1, and this machine 3"),
        ({"clock": 3600}, r"the clock of there is 60 minutes ahead; set it"),
        ({"clock": -3700}, r"the clock of there is 6[12] minutes behind; set it"),
    ],
)
def test_without_a_fit_machine_nothing_is_sent_or_reserved(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch, change: Json, words: str
) -> None:
    describe = work.describe_machine
    change = change | ({"clock": time.time() + change["clock"]} if "clock" in change else {})
    monkeypatch.setattr(work, "describe_machine", lambda spool: describe(spool) | {"host": "there"} | change)
    refuse(bench, cluster, words)


def refuse(bench: MakeBench, cluster: ThreadCluster, words: str, body: str = BODY) -> None:
    with Loopback(SAYS) as server:
        b = away(made(bench, server, body, MADE), cluster)
        with pytest.raises(ProviderError, match=words):
            b.step()
        assert not server.requests
        assert sums(b) == Sums()
        assert b.state().status is Status.PENDING
        assert not list_results(b, cluster)
        home(b).step()  # it can be stepped elsewhere
    require_one_result(b)


def test_a_machine_without_the_key_is_named(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_MODEL")
    refuse(bench, cluster, "has no key MY_MODEL in the environment of its worker; set it there")


def test_a_machine_without_the_program_is_named(
    bench: MakeBench, cluster: ThreadCluster, tmp_path: Path
) -> None:
    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        data = b.project.settings.model_dump(mode="json")
        for program in ("no-such-program", "/no/such/program"):
            data["agents"]["fake"]["argv"][0] = program
            b.change(settings=type(b.project.settings).model_validate_json(json.dumps(data)))
            with pytest.raises(ProviderError, match=f"has no program {program}; install it there"):
                away(b, cluster).step()
        assert [entry.kind for entry in b.history()] == [Kind.CREATE]


def test_a_machine_with_a_full_disk_is_named(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "LEAST_FREE", 1 << 60)
    refuse(bench, cluster, r"has only \d+ MiB free at .*machine-.; free some space there")


def test_a_machine_whose_directory_other_machines_may_share_is_named(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_mount = filesystem.find_mount
    shared = filesystem.Mount("nfs4", "server:/home", "rw")
    monkeypatch.setattr(
        filesystem, "find_mount", lambda path: shared if "machines" in path.parts else find_mount(path)
    )
    refuse(
        bench,
        cluster,
        r"can't keep tasks at .*machine-., a network file system \(nfs4\).*; set LOGIST_WORKER_DIR",
    )


def test_a_workspace_that_is_too_large_is_not_sent(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_bundles, "MOST_BYTES", 10)
    refuse(bench, cluster, "the workspace is too large for a worker: 0 MiB packed")


def test_without_any_worker_nothing_is_sent(bench: MakeBench, tmp_path: Path) -> None:
    refuse(bench, ThreadCluster(tmp_path / "none", 0), "has no workers; nothing was sent")


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"../../state.json": "{}"}},
        {"files": {"1.response": 7}},
        {"commit": "--upload-pack=x"},
        {"commit": "0" * 40},
        {"pack": b"PACK nonsense"},
        {"files": None},
        {"ticket": "0" * 32},
    ],
)
def test_a_damaged_result_is_refused_and_nothing_of_it_used(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch, change: Json
) -> None:
    do_task = work.do_task
    monkeypatch.setattr(work, "do_task", lambda task, spool: do_task(task, spool) | change)
    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        before = b.files()
        with pytest.raises(Damaged):
            b.step()
        assert {name for name in b.files() if "inflight" not in name and "git/" not in name} == {
            name for name in before if "git/" not in name
        }
        # The machine still has it: what was damaged on the way arrives now.
        assert b.step().state.status is Status.APPROVAL_REQUIRED
        assert len(server.requests) == 1
    require_one_result(b)


def test_a_full_disk_of_the_dispatcher_is_no_damage(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_with_input = Git.run_with_input

    def fill(git: Git, data: bytes, *words: str) -> bytes:
        if words[0] == "index-pack" and "machines" not in git.git_dir.parts:
            raise StorageError("git index-pack failed: fatal: write error: No space left on device")
        return run_with_input(git, data, *words)

    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        with monkeypatch.context() as full:
            full.setattr(Git, "run_with_input", fill)
            with pytest.raises(StorageError, match="no room for what a worker has sent"):
                b.step()
        assert b.step().state.status is Status.APPROVAL_REQUIRED
        assert len(server.requests) == 1
    require_one_result(b)


def test_files_of_exchanges_that_are_not_valid_are_damage(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    do_task = work.do_task
    bad = {"1.sent": "", "1.response": "[" * 9999}
    monkeypatch.setattr(work, "do_task", lambda task, spool: do_task(task, spool) | {"files": bad})
    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        for _ in range(2):
            with pytest.raises(Damaged):
                b.step()
    (b.folder() / "damaged-on-purpose").touch()


def test_a_machine_keeps_no_old_names_and_copies(tmp_path: Path) -> None:
    place = Spool.open(str(tmp_path / "machine"))
    tmp_path.joinpath("machine").chmod(0o755)
    old, running = "0" * 32, "1" * 32
    place.fence_task(old)
    place.begin_task(running, {"job": "kept"})
    mirrors = [place.find_mirror("a" * 32, name) for name in ("kept", "gone")]
    for each in [*mirrors, place.find_task(old), place.find_task(running)]:
        each.mkdir(parents=True, exist_ok=True)
        os.utime(each, (0, 0))
    place = Spool.open(str(tmp_path / "machine"))
    assert place.path.stat().st_mode & 0o777 == 0o700
    place.remove_old()
    assert [*place.list_tickets()] == [running]
    assert [each.exists() for each in mirrors] == [True, False]


def test_a_machine_keeps_setups_as_long_as_they_are_used(tmp_path: Path) -> None:
    place = Spool.open(str(tmp_path / "machine"))
    used, unused = (place.use_setups(letter * 32) for letter in "ab")
    for each in (used, unused):
        (each / ".setup").mkdir()
        os.utime(each, (0, 0))
    place.use_setups("a" * 32)
    (place.path / "setups" / ".half-removed" / "x").mkdir(parents=True)
    place.remove_old()
    assert os.listdir(place.path / "setups") == [used.name]
    with pytest.raises(Damaged, match="invalid project"):
        place.use_setups("../b")


def test_one_unreadable_record_stops_no_task(tmp_path: Path) -> None:
    place = Spool.open(str(tmp_path / "machine"))
    damaged, old = "0" * 32, "1" * 32
    place.begin_task(damaged, {"job": "j"})
    (place.find_task(damaged) / "task.json").write_text("{")
    place.fence_task(old)
    mirror = place.find_mirror("a" * 32, "j")
    mirror.mkdir(parents=True)
    for each in (mirror, place.find_task(old)):
        os.utime(each, (0, 0))
    place.remove_old()
    assert [*place.list_tickets()] == [damaged]
    assert mirror.exists()  # it may belong to the task whose record is damaged


def test_a_canceled_job_books_its_answer_when_it_arrives(bench: MakeBench, cluster: ThreadCluster) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        stop = {"now": 0}
        b.change(stopping=lambda: stop["now"])
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        worker = at_work(b).worker
        lose(cluster, worker)
        stop["now"] = 143
        assert isinstance(step.exception(), Stopped)
        stop["now"] = 0
        record_decision(home(b).project, "j", Kind.CANCEL)
        assert b.state().status is Status.CANCELED
        assert sums(b).reserved != Cost()
        gate.set()
        cluster.add_worker(worker)
        away(b, cluster)
        waiting_for(lambda: collects_late(b, cluster))
    assert sums(b) == Sums(Cost(COST, 1100, 1), Cost())


def test_a_deleted_job_has_booked_the_highest_cost(bench: MakeBench, cluster: ThreadCluster) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        cluster.lose_scheduler()
        assert isinstance(step.exception(), SchedulerLost)
        budgets.settle_deleted_job(b.project, b.project.open_job("j"))
        booked = sums(b)
        assert booked.reserved == Cost()
        shutil.rmtree(b.folder())
        gate.set()
        new = ThreadCluster(cluster._folder, 2)
        away(b, new)
        waiting_for(lambda: collects_late(b, new))
        new.close()
    assert sums(b) == booked


def test_what_a_person_changes_meanwhile_is_kept_and_said(bench: MakeBench, cluster: ThreadCluster) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        rules = b.project.settings.workspace.model_copy(update={"max_checkpoint_bytes": 1000})
        b.change(settings=b.project.settings.model_copy(update={"workspace": rules}))
        place = workspace(b)
        (place / "large-before.bin").write_bytes(b"x" * 5000)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        (place / "mine.txt").write_text("of a person")
        (place / "large-meanwhile.bin").write_bytes(b"x" * 5000)
        gate.set()
        step.result()
    assert sorted(each.name for each in place.glob("[!.]*")) == [
        "large-before.bin",
        "large-meanwhile.bin",
        "made.txt",
    ]
    (said,) = [line for line in b.said if "were changed here while its agent worked on machine-" in line]
    shown = subprocess.run(said.partition("changes: ")[2].split(), capture_output=True, text=True, check=True)
    assert "+of a person" in shown.stdout
    require_one_result(b)


def test_files_that_stay_on_a_worker_are_named(bench: MakeBench, cluster: ThreadCluster) -> None:
    body = f'{BODY}; note("large.bin", "x" * 5000); os.mkdir("node_modules"); note("node_modules/m.js", "m")'
    with Loopback(SAYS) as server:
        b = away(made(bench, server, body, MADE), cluster)
        rules = b.project.settings.workspace.model_copy(update={"max_checkpoint_bytes": 1000})
        b.change(settings=b.project.settings.model_copy(update={"workspace": rules}))
        b.step()
    assert not (workspace(b) / "large.bin").exists()
    (said,) = [line for line in b.said if "no checkpoint can hold" in line]
    assert said.partition(", so they stay on machine-")[2][1:] == ": large.bin"


def test_a_job_that_is_put_back_from_a_copy_is_not_paid_again(
    bench: MakeBench, cluster: ThreadCluster, tmp_path: Path
) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        shutil.copytree(b.folder(), tmp_path / "copy", symlinks=True)
        gate.set()
        step.result()
        shutil.rmtree(b.folder())
        shutil.copytree(tmp_path / "copy", b.folder(), symlinks=True)
        assert b.step().state.status is Status.STUCK
        assert len(server.requests) == 1


def test_a_dispatcher_leaves_the_answers_of_another_one_at_the_same_path(
    bench: MakeBench, cluster: ThreadCluster
) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        cluster.lose_scheduler()
        assert isinstance(step.exception(), SchedulerLost)
        gate.set()
        new = ThreadCluster(cluster._folder, 2)
        away(b, new)
        hidden = b.project.home.with_name("hidden")
        b.project.home.rename(hidden)
        late_results.collect_late_results(b.project)  # of a machine that has another project there
        shutil.rmtree(b.project.home)
        hidden.rename(b.project.home)
        assert b.step().state.status is Status.APPROVAL_REQUIRED
        assert len(server.requests) == 1
        new.close()
    require_one_result(b)


def test_an_answer_that_another_run_waits_for_is_left_to_it_without_a_word(
    bench: MakeBench, cluster: ThreadCluster
) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        said: list[str] = []
        late_results.collect_late_results(replace(b.project, workers=WorkerPool(cluster), say=said.append))
        gate.set()
        step.result()
        assert said == []
    require_one_result(b)


def test_a_model_that_has_used_up_its_part_of_a_budget_continues_with_another_part(
    bench: MakeBench, cluster: ThreadCluster
) -> None:
    turns = [turn(call("create_file", path=f"{n}.txt", content="x")) for n in range(4)]
    with Loopback(*turns, {"text": command(evidence=["3.txt"]), "usage": USAGE}) as server:
        b = limited(models(bench, cluster, server), calls=10)
        result = b.step()  # one of three agents may make three calls
        assert result.wait is not None
        assert (result.exit_code, result.wait.reason, len(server.requests)) == (
            7,
            "reserved",
            3,
        )
        assert sums(b) == Sums(Cost(total_of(server, 3), 330, 3), Cost())
        b.project.open_job("j").end_wait()
        assert b.step().state.status is Status.APPROVAL_REQUIRED, b.history()[-1].reason
        assert len(server.requests) == 5
    assert sums(b).spent.calls == 5
    require_same(b)


def total_of(server: Loopback, calls: int) -> int:
    """What calls of `USAGE` cost."""
    return calls * (100 * 50 + 10 * 200)


def test_a_model_waits_for_a_budget_that_its_worker_has_used_up(
    bench: MakeBench, cluster: ThreadCluster
) -> None:
    turns = [turn(call("create_file", path=f"{n}.txt", content="x")) for n in range(3)]
    with Loopback(*turns, {"text": command(evidence=["2.txt"]), "usage": USAGE}) as server:
        b = limited(models(bench, cluster, server, max_concurrent_agents=1), calls=2)
        b.change(workers=WorkerPool(ThreadCluster(cluster._folder, 1)))
        result = b.step()
        assert result.wait is not None
        assert (result.exit_code, result.wait.budget, len(server.requests)) == (7, "all", 2)
        limited(b, calls=9)
        assert b.step().state.status is Status.APPROVAL_REQUIRED, b.history()[-1].reason
        assert len(server.requests) == 4
    require_same(b)


def test_a_program_that_has_used_up_its_part_of_a_budget_keeps_its_work_and_waits(
    bench: MakeBench, cluster: ThreadCluster
) -> None:
    with Loopback(SAYS) as server:
        b = limited(
            away(
                made(
                    bench,
                    server,
                    'note("made.txt", 1); [ask() for _ in range(9)]; sys.exit("no calls")',
                    MADE,
                ),
                cluster,
            ),
            calls=9,
        )
        result = b.step()
        assert (result.exit_code, len(server.requests)) == (7, 3)
    assert (workspace(b) / "made.txt").exists()
    assert total(b) == 3 * COST == sums(b).spent.microcents
    require_same(b)


def test_a_server_of_a_role_runs_on_the_worker(
    bench: MakeBench, cluster: ThreadCluster, tmp_path: Path
) -> None:
    place = tmp_path / "servers"
    answer = {"text": command(), "usage": USAGE}
    with Loopback(turn(call("notes__lookup", word="gull")), answer) as server:
        b = away(paid(bench(), server.url, sandbox={"readable": [str(place)]}), cluster)
        with_server(b, place)
        b.create()
        b.step()
    assert b.history()[-1].response.tools == {"notes__lookup": 1}
    assert b.history()[-1].response.tools_failed is None
    assert (workspace(b) / "looked-up.txt").read_text() == "gull\n"


def test_a_machine_without_the_server_of_a_role_is_named(
    bench: MakeBench, cluster: ThreadCluster, tmp_path: Path
) -> None:
    with Loopback({"text": command(), "usage": USAGE}) as server:
        b = away(paid(bench(), server.url), cluster)
        with_server(b, tmp_path / "servers", program="no-such-server")
        b.create()
        words = (
            "has no program no-such-server, which the MCP server notes of the role Worker needs; install it"
        )
        with pytest.raises(ProviderError, match=words):
            b.step()
        assert not server.requests
