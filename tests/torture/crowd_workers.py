"""A job whose agent works on other machines, while workers, couriers, the scheduler and the dispatcher are killed, stopped
and woken up. The judge is the model's server, which counts what is paid.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from logist.agents.remote import worker as work
from logist.agents.remote.cluster import WorkerLost
from logist.agents.remote.threads import ThreadCluster
from logist.core.model import Kind, Status
from logist.core.model.commands import ResubmitCommand
from logist.core.money.budgets import Cost
from logist.errors import LogistError
from logist.jobs.base import job_bundles
from logist.jobs.base.worker_pool import WorkerPool
from logist.jobs.steward.steward_decisions import record_decision
from logist.jobs.turn import errands, late_results
from logist.store import JobDir
from tests.jobs.bench import Bench, command
from tests.jobs.test_gate import gated, sums
from tests.jobs.test_paid import KEY, paid
from tests.loopback import Loopback
from tests.torture.crowd_forks import Forks

Json = dict[str, Any]
BODY = 'ask(); time.sleep(0.3); note("made.txt", 1)'
ANSWER: Json = {"text": "Hm.", "usage": {"input": 1000, "output": 100}, "delay": 0.3}
EVENTS = ("kill", "scheduler", "worker", "worker back", "courier", "stop", "twice", "nothing")
CALM_SECONDS = 120.0


def _open(place: str, url: str) -> tuple[Bench, ThreadCluster]:
    """Open the project of a round, with two machines that do its work."""
    os.environ["MY_MODEL"] = KEY
    b = gated(paid(Bench(Path(place)), url, review={"enabled": False}), BODY, command(evidence=["made.txt"]))
    cluster = ThreadCluster(Path(place) / "machines", 2)
    b.change(workers=WorkerPool(cluster))
    return b, cluster


def create(place: str, url: str) -> int:
    """Create the job of a round."""
    _open(place, url)[0].create()
    return 0


def dispatch(place: str, url: str, seed: int) -> int:
    """Take a step while something happens; being killed is one of the things."""
    chance = random.Random(seed)
    b, cluster = _open(place, url)
    errands.LOST_SECONDS = 0.5
    name = chance.choice(EVENTS)
    if name == "twice":
        _start_twice()
    threading.Thread(target=_disturb, args=(name, chance, cluster, place), daemon=True).start()
    with suppress(LogistError):
        late_results.collect_late_results(b.project)
        if (
            b.state().status is Status.STUCK
        ):  # a person lets it be sent again, although the first may be at work still
            record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="retry"))
        b.step()
    os._exit(0)  # the threads of the machines die with this process, as on kill -9; the couriers don't


def _start_twice() -> None:
    do_task = work.do_task

    def start_twice(task: Json, spool: str | None = None) -> Json:
        threading.Thread(target=do_task, args=(task, spool), daemon=True).start()
        return do_task(task, spool)

    work.do_task = start_twice


def _disturb(name: str, chance: random.Random, cluster: ThreadCluster, place: str) -> None:
    time.sleep(chance.random() * 2.0)
    workers = cluster.list_workers()
    worker = chance.choice(workers)
    with suppress(LogistError, KeyError, OSError):
        if name == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif name == "scheduler":
            cluster.lose_scheduler()
        elif name.startswith("worker"):
            cluster.lose_worker(worker)
            if name.endswith("back"):
                time.sleep(0.2)
                cluster.add_worker(worker.name)
        elif name == "courier":
            _signal_couriers(place, signal.SIGKILL)
        elif name == "stop":
            _signal_couriers(place, signal.SIGSTOP)
            for each in workers:
                cluster.lose_worker(each)
            time.sleep(1.0)
            _signal_couriers(place, signal.SIGCONT)


def _signal_couriers(place: str, number: signal.Signals) -> None:
    for mirror in Path(place, "machines").glob("*/mirrors/*/*"):
        holder = JobDir(mirror, "").find_lock_holder()
        if holder is not None and holder.courier is not None:
            os.killpg(holder.courier.pid, number)


def calm_down(place: str, url: str) -> int:
    """Let everything end: collect what is away or late, and step until the job waits for a person."""
    b, cluster = _open(place, url)
    until = time.monotonic() + CALM_SECONDS
    project = job_bundles.name_project(b.project)
    while time.monotonic() < until:
        late_results.collect_late_results(b.project)
        with suppress(WorkerLost):
            if b.state().status is Status.PENDING:
                b.step()
            elif not any(cluster.call(each, work.list_results, project) for each in cluster.list_workers()):
                os._exit(0)
        time.sleep(0.1)
    os._exit(1)


def play_round(place: Path, forks: Forks, chance: random.Random) -> tuple[str, list[str]]:
    """Play a round; return how it ended, and what is wrong."""
    with Loopback(ANSWER) as server:
        forks.wait(forks.call("crowd_workers:create", str(place), server.url))
        for _ in range(3):
            pid = forks.call("crowd_workers:dispatch", str(place), server.url, chance.randrange(10**9))
            forks.wait(pid)
        _signal_couriers(str(place), signal.SIGCONT)
        code = forks.wait(forks.call("crowd_workers:calm_down", str(place), server.url))
        paid_calls = len(server.requests)
    b, _ = _open(str(place), server.url)
    return str(b.state().status), [*(["it did not calm down"] if code else []), *_judge(b, paid_calls)]


def _judge(b: Bench, paid_calls: int) -> list[str]:
    """Compare what was paid with what is recorded."""
    history, logs = b.history(), b.folder() / "logs"
    asks = [entry for entry in history if entry.kind is Kind.ASK]
    doubts = [entry for entry in history if entry.kind is Kind.RECOVER]
    late = [json.loads(path.read_text()) for path in logs.glob("late-*.json")] if logs.is_dir() else []
    recorded = sum(entry.usage.calls for entry in asks) + sum(1 for each in late if each["cost_microcents"])
    undecided = len(doubts) - len(late)
    problems = []
    if not recorded <= paid_calls <= recorded + undecided:
        problems.append(f"{paid_calls} calls were paid, {recorded} are recorded, {undecided} in doubt")
    answers = [entry for entry in asks if entry.after.status is Status.APPROVAL_REQUIRED]
    if len(answers) > 1:
        problems.append("two results are in the history")
    return problems


def share_budget(place: str, url: str, jobs: int, calls: int) -> int:
    """Run many jobs on 8 workers at once, with a budget for some of them."""
    b = Bench(Path(place))
    os.environ["MY_MODEL"] = KEY
    limits = {"budget": {"limits": {"all": {"calls": calls}}}}
    paid(b, url, review={"enabled": False}, **limits)
    for number in range(jobs):
        b.create(f"j{number}")
    b.change(workers=WorkerPool(ThreadCluster(Path(place) / "machines", 4, threads=2)))
    with ThreadPoolExecutor(8) as pool:
        steps = [pool.submit(b.step, f"j{number}") for number in range(jobs)]
        codes = {step.result().exit_code for step in steps}
    os._exit(0 if codes <= {0, 7, 11} else 1)


def play_budget(place: Path, forks: Forks, jobs: int, calls: int) -> tuple[int, list[str]]:
    """Play a round with one budget; return the number of paid calls, and what is wrong."""
    with Loopback({"text": command(), "usage": {"input": 10, "output": 10}}) as server:
        code = forks.wait(forks.call("crowd_workers:share_budget", str(place), server.url, jobs, calls))
        count = len(server.requests)
    b = paid(Bench(place), server.url)
    known = sums(b)
    problems = [f"it ended with {code}"] if code else []
    problems += [f"{count} calls were paid, and {calls} allowed"] if count > calls else []
    problems += [f"only {count} of {calls} calls were paid"] if count < calls - 8 else []
    problems += [f"{known.spent.calls} of {count} calls are booked"] if known.spent.calls != count else []
    problems += [f"{known.reserved} is still reserved"] if known.reserved != Cost() else []
    asks = sum(entry.kind is Kind.ASK for number in range(jobs) for entry in b.history(f"j{number}"))
    return count, problems + ([f"{asks} of {count} answers are recorded"] if asks != count else [])
