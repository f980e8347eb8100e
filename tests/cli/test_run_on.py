"""`logist run --on`: agents at work on Dask workers, real ones, and the run when these or their scheduler are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from logist.cli.context import open_project
from logist.cli.run_workers import build_worker_environment
from logist.config.environment import Environment
from tests.cli.desk import Desk
from tests.cli.test_interrupted import Slow, paid
from tests.cli.test_progress import DONE, SETTINGS
from tests.dask_bench import DaskProcesses, is_running, list_below, wait_until
from tests.loopback import Loopback
from tests.support import CRASHED, ROOT, Ran, process_environment

KEY = "MY_MODEL"


def prepare(desk: Desk, server: Loopback, *jobs: str) -> None:
    desk.settings(SETTINGS.replace("{url}", server.url))
    for job_id in jobs:
        desk.create(job_id)


@pytest.fixture
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with DaskProcesses(tmp_path_factory.mktemp("dask"), **{KEY: "dummy-key-for-tests-0001"}) as processes:
        yield processes


def errors(ran: Ran) -> list[str]:
    return [line for line in ran.err.splitlines() if line.startswith("error:")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--on", "spark"], "--on: unknown engine: 'spark' ("),
        (["--on", "dask"], "--on: no scheduler for the engine dask ("),
        (["--on", "dask:0"], "--on: not a number of processes: '0' ("),
        (["--on", "dask:many"], "--on: not a number of processes: 'many' ("),
        (["--on", "dask:2", "--scheduler", "x:1"], "--scheduler: dask:2 starts a scheduler of its own ("),
        (["--scheduler", "x:1"], "--scheduler: no engine for this scheduler (add --on dask)"),
        (["--on", "dask", "--scheduler", "x"], "--scheduler: not a scheduler's address: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_value_is_named(desk: Desk, words: list[str], message: str) -> None:
    desk.create()
    ran = desk("run", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}")
    assert ran.err.count("\n") == 1


def test_without_a_ready_job_no_workers_are_started(desk: Desk) -> None:
    desk.create()
    ran = desk("run", "--on", "dask:2", "--tag", "typo")
    assert (ran.code, ran.out) == (0, "no ready jobs\n")
    assert "starting" not in ran.err
    assert "no job has the tag typo" in ran.err


def test_a_scheduler_that_is_not_there(desk: Desk) -> None:
    desk.create()
    ran = desk.process("run", "--on", "dask", "--scheduler", "tcp://127.0.0.1:1")
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith("error: tcp://127.0.0.1:1: can't reach the Dask scheduler: ")
    assert ran.err.count("\n") == 1


def test_without_dask_the_extra_is_named(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "distributed.py").write_text(
        "raise ModuleNotFoundError('no such', name='distributed')", "utf-8"
    )
    desk.create()
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ran = desk.process("run", "--on", "dask:2", env={"PYTHONPATH": path})
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.splitlines()[-1] == (
        "error: --on: Dask needs the package distributed, which is not installed (install Logist with the extra `dask`: see "
        "Install in its README)"
    )


def test_a_scheduler_without_workers(desk: Desk, dask: DaskProcesses) -> None:
    desk.create()
    ran = desk.process("run", "--on", "dask", "--scheduler", dask.address)
    assert ran.code == 6
    assert ran.err == (
        f"error: {dask.address}: the scheduler has no workers (start one: dask worker {dask.address})\n"
    )


def test_a_worker_without_logist_is_named_and_nothing_is_sent(desk: Desk, dask: DaskProcesses) -> None:
    dask.start_worker("bare", PYTHONPATH=str(dask.without_logist))
    with Loopback(DONE) as server:
        prepare(desk, server, "j1", "j2", "j3")
        ran = wait_until_run(desk, dask)
        assert ran.code == 6
        assert "this worker has no Logist, or another version" in ran.err
        assert len(errors(ran)) <= 1, ran.err  # the same reason for all jobs
        assert ran.err.count("error: j") == 1, ran.err
        assert "Traceback" not in ran.err
        assert len(server.requests) == 0
        done = desk.process("job", "step", "j1", env=paid(desk))
        assert done.code == 11, done.err


def test_a_run_on_a_local_cluster(desk: Desk) -> None:
    with Loopback(DONE) as server:
        prepare(desk, server, "j1", "j2", "j3")
        ran = desk.process("run", "--on", "dask:2", env=paid(desk))
        assert ran.code == 11, ran.err
        assert "agents work on 2 workers, 2 at the same time" in ran.err
        assert len(server.requests) == 3
        assert server.most_at_work <= 2
    for job_id in ("j1", "j2", "j3"):
        assert desk.state(job_id)["status"] == "APPROVAL_REQUIRED"
        assert desk("job", "verify", job_id).code == 0
        assert desk("job", "replay", job_id).code == 0


def test_local_workers_get_what_agents_and_setups_need(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.settings(
        SETTINGS.replace("{url}", "http://127.0.0.1:9/v1") + "workspace: {setup: {environment: [REGISTRY]}}\n"
    )
    monkeypatch.chdir(desk.place)
    passed = {"PATH": "/bin", KEY: "k-1", "OPENAI_API_KEY": "k-2", "REGISTRY": "r", "LOGIST_WORKER_DIR": "/w"}
    project = open_project(Environment({**passed, "OTHER_TOKEN": "t", "PYTHONPATH": "/p"}))
    assert build_worker_environment(project) == passed


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_local_cluster_ends_with_its_run(desk: Desk, end: signal.Signals) -> None:
    with Slow(DONE) as server:
        prepare(desk, server, "j1")
        run = desk.started("run", "--on", "dask:1", env=paid(desk))
        wait_until(lambda: server.requests)
        processes = [pid for pid in list_below(run.pid) if is_of_dask(pid)]
        assert len(processes) >= 2
        run.send_signal(end)
        assert run.wait(120) == (130 if end == signal.SIGINT else -end)
        wait_until(lambda: not any(map(is_running, processes)))
        server.go.release()
        if end == signal.SIGKILL:  # the agent goes on, and the next cluster on this machine has its answer
            ran = desk.process("run", "--on", "dask:1", env=paid(desk))
            assert ran.code == 11, ran.err
            assert len(server.requests) == 1


def is_of_dask(pid: int) -> bool:
    """Whether a process is one of a local cluster: not the courier of a task."""
    command = read_command(pid)
    return "local_cluster" in command or "multiprocessing" in command


def read_command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def test_a_run_whose_scheduler_dies_ends_and_the_next_continues(desk: Desk, dask: DaskProcesses) -> None:
    with Slow(DONE, DONE) as server:
        prepare(desk, server, "j1", "j2")
        dask.start_worker("a")
        wait_until(
            lambda: "Registering" in dask.read_log("worker") or "Registered" in dask.read_log("worker")
        )
        run = desk.started(
            "run", "--on", "dask", "--scheduler", dask.address, env=paid(desk), stderr=-1, stdout=-1
        )
        wait_until(lambda: server.requests)
        dask.scheduler.kill()
        server.go.release(2)
        _, err = run.communicate(timeout=120)
        assert run.returncode == 6, err
        assert b"Traceback" not in err
        assert b"distributed" not in err
        assert b"<TCP" not in err
        assert (
            err.count(b"can't reach the Dask scheduler") == 2
        )  # for the job that was at work, and for the run
        begun = [job_id for job_id in ("j1", "j2") if (desk.job(job_id) / "inflight").exists()]
        assert len(begun) == 1
        # The same machine works for another scheduler: what was sent is collected, and not sent again.
        dask.start_scheduler()
        dask.start_worker("a")
        ran = wait_until_run(desk, dask)
        assert ran.code == 11, ran.err
        assert len(server.requests) == 2
    assert [desk.state(job_id)["status"] for job_id in ("j1", "j2")] == ["APPROVAL_REQUIRED"] * 2


def wait_until_run(desk: Desk, dask: DaskProcesses) -> Ran:
    """Run again until a worker is there."""

    def run() -> Ran | None:
        ran = desk.process("run", "--on", "dask", "--scheduler", dask.address, env=paid(desk))
        return None if "no workers" in ran.err or "can't reach" in ran.err else ran

    return wait_until(run)


def test_without_on_nothing_of_it_is_loaded(desk: Desk) -> None:
    desk.create()
    ran = desk.process("run", env={"PYTHONPROFILEIMPORTTIME": "1"})
    loaded = {
        line.rpartition("|")[2].strip() for line in ran.err.splitlines() if line.startswith("import time:")
    }
    assert "logist.jobs.job_queue" in loaded
    assert [
        name for name in loaded if name.startswith(("dask", "distributed", "logist.agents.remote."))
    ] == []


@pytest.mark.deep
def test_the_demo(tmp_path: Path) -> None:
    environment = process_environment() | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, str(ROOT / "scripts" / "demo-cluster")]
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=CRASHED, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "# killed: the worker carla" in ran.stdout
    assert ran.stdout.endswith("6 jobs, 6 calls of the model: each was made once.\n")


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "stop"])
def test_the_answer_of_a_worker_that_was_killed_or_stopped_is_collected_from_its_machine(
    desk: Desk, dask: DaskProcesses, end: signal.Signals
) -> None:
    with Slow(DONE) as server:
        prepare(desk, server, "j1")
        worker = dask.start_worker("a")
        wait_until(lambda: "Regist" in dask.read_log("worker"))
        run = desk.started(
            "run", "--on", "dask", "--scheduler", dask.address, env=paid(desk), stderr=-1, stdout=-1
        )
        wait_until(lambda: server.requests)
        worker.send_signal(end)  # its courier goes on
        if end is signal.SIGSTOP:  # until the scheduler takes it for lost
            wait_until(lambda: "failed to heartbeat" in dask.read_log("scheduler") or None)
            worker.send_signal(signal.SIGCONT)
            worker.wait()
        server.go.release()
        dask.start_worker("a")
        _, err = run.communicate(timeout=240)
        assert run.returncode == 11, err
        assert len(server.requests) == 1
    assert [entry["kind"] for entry in desk.history("j1")] == ["create", "ask"]


@pytest.mark.deep
def test_a_late_answer_is_kept_and_the_status_says_how_to_use_it(desk: Desk, dask: DaskProcesses) -> None:
    with Slow(DONE) as server:
        prepare(desk, server, "j1")
        worker = dask.start_worker("a")
        wait_until(lambda: "Regist" in dask.read_log("worker"))
        run = desk.started(
            "run", "--on", "dask", "--scheduler", dask.address, env=paid(desk), stderr=-1, stdout=-1
        )
        wait_until(lambda: server.requests)
        worker.kill()
        server.go.release()
        _, err = run.communicate(timeout=240)
        assert b"out of reach" in err
        stuck = desk("job", "status", "j1")
        assert "STUCK" in stuck.out
        dask.start_worker("a")
        ran = wait_until_run(desk, dask)
        assert "the late answer of Worker has arrived from a; it cost" in ran.err
        assert f"{desk.job('j1')}/logs/late-" in desk("job", "status", "j1").out
        assert len(server.requests) == 1
