"""Sends asks to workers on other machines, and accepts what comes back: exchanges, and what the agent changed.

The files of the job decide. Before an ask is sent, it is on disk with a ticket that names one machine; what it may spend is
reserved. From then on it is in doubt until the result of just this ticket is on disk. So nothing is sent twice, whatever
happens to workers, the scheduler or this process. What arrives after the doubt was recorded is kept and booked.
"""

from __future__ import annotations

import json
import secrets as random_secrets
import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logist.agents.courier import ask_files
from logist.agents.courier.ask_files import AwayErrand, RecordedAsk
from logist.agents.courier.reservations import ERRAND
from logist.core.machine import limits
from logist.core.money.budgets import Cost, SharedBudget
from logist.core.text.json_object import JsonObject
from logist.errors import LogistError, ProviderError, Stopped
from logist.jobs.base import budgets
from logist.jobs.base.call_limits import bind_call_rates
from logist.jobs.base.job_bundles import MOST_BYTES, build_bundle
from logist.jobs.base.progress_watch import ProgressWatch
from logist.jobs.setup import remote_commands
from logist.lazy_modules import load_all
from logist.store import files, inflight

if TYPE_CHECKING:
    from logist.agents.courier.reservations import ExchangeLedger
    from logist.agents.protocol import CodePaths
    from logist.agents.remote.cluster import Worker
    from logist.core.machine.limits import Shared
    from logist.core.model import EffectiveSpec
    from logist.core.step.step import StepPlan
    from logist.jobs.base.session import Session
    from logist.jobs.base.worker_pool import WorkerPool
    from logist.store.ledger import BudgetRefusal

POLL_SECONDS = 0.25
LOST_SECONDS = 60.0
"""How long a machine may be out of reach before its task is recorded as in doubt."""
MOST_TRIES = 3
"""How many machines an ask is offered to, if they refuse it."""
TASK_BUDGET = "what is reserved for this task"
_INTERRUPTED = 130
RESULT, PACK = "result", "result.pack"
"""What a worker has sent back, until it is completely accepted."""


def size_errand(
    session: Session, spec: EffectiveSpec, plan: StepPlan, shared: Sequence[Shared]
) -> AwayErrand:
    """Return what a worker may spend on an ask: the part of what is left that one of several agents gets."""
    at_once = session.project.settings.max_concurrent_agents
    microcents = None
    if plan.reserved_microcents is not None:
        room = limits.remaining_microcents(spec, session.state.usage, shared)
        microcents = limits.program_allowance(room, shared, at_once, plan.reserved_microcents)
    return AwayErrand(cost_microcents=microcents)


def reserve_errand(session: Session, ask: RecordedAsk, ledger: ExchangeLedger) -> BudgetRefusal | None:
    """Reserve what a worker may spend, durably; return the budget that doesn't allow it."""
    assert ask.errand is not None
    errand = ask.errand
    cost = Cost(errand.cost_microcents or 0, errand.cost_tokens or 0, errand.cost_calls or 0)
    return ledger.reserve_cost(ERRAND, cost, session.project.clock.now().timestamp())


def send_errand(session: Session, ask: RecordedAsk, pool: WorkerPool) -> None:
    """Let a worker call the agent; afterwards `inflight/` is as a courier would have left it.

    If the machine is lost, or the call is in doubt for another reason, the ask stays away. Raises ProviderError if no
    worker can do it or the scheduler is lost, and Stopped.
    """
    kind = f"{ask.agent} {ask.model.api_key_env} {ask.work.sandbox.mode}"
    refusals: list[str] = []
    for _ in range(MOST_TRIES):
        with pool.take_worker(kind, lambda: _raise_if_stopping(session), session.job.id) as worker:
            reason = _try_send(session, ask, pool, worker)
        if reason is None:
            return
        refusals.append(reason)
        pool.refuse(worker, kind, reason)
    message = f"no worker has taken the task; nothing was sent: {'; '.join(dict.fromkeys(refusals))}"
    raise ProviderError(message, fix="correct this on one of these machines, then run the command again")


def _try_send(session: Session, ask: RecordedAsk, pool: WorkerPool, worker: Worker) -> str | None:
    """Offer an ask to a worker and wait for the result; return why the worker did not take it."""
    from logist.agents.remote import worker as work  # noqa: PLC0415 - only a run with workers needs it
    from logist.agents.remote.cluster import WorkerLost  # noqa: PLC0415

    try:
        machine = pool.cluster.call(worker, work.describe_machine)
        if reason := work.find_difference(machine):
            return reason
        code = remote_commands.prepare_worker(session, pool, worker, ask)
        task = _build_task(session, ask, pool, worker, code)
    except (WorkerLost, remote_commands.TaskRefused) as error:
        return error.message
    assert ask.errand is not None
    ticket = random_secrets.token_hex(16)
    errand = replace(
        ask.errand,
        ticket=ticket,
        machine=machine["machine"],
        worker=worker.name,
        scheduler=pool.cluster.address,
        sent_at=session.project.clock.timestamp(),
        kept=len([each for each in session.job.read_exchanges() if each.response is not None]),
        is_accepted=False,
    )
    sent = replace(ask, errand=errand)
    session.job.begin_exchange(1, sent.data())
    session.job.mark_sent(1)
    task |= {"ticket": ticket, "key": f"{session.job.id}/{ask.attempt}/{ticket}"}
    future = pool.cluster.get_executor(worker).submit(work.do_task, task)
    result = _wait_for_result(session, sent, pool, worker, future)
    if result is None:
        return None  # it stays away
    return accept_result(session, sent, result, pool, worker)


def _build_task(
    session: Session, ask: RecordedAsk, pool: WorkerPool, worker: Worker, code: CodePaths
) -> JsonObject:
    """Return everything that a worker needs for an ask, with the objects that its machine lacks."""
    return {
        **build_bundle(session, pool, worker, ask.checkpoint_before),
        "ask": _build_sent_ask(ask, code),
        "files": _read_kept_files(session),
        "ledger": _build_task_ledger(session, ask),
        "rates": bind_call_rates(session.project, ask.model, "").to_json() | {"limits": []},
    }


def _build_sent_ask(ask: RecordedAsk, code: CodePaths) -> JsonObject:
    """Return an ask as a worker gets it: with the code that its commands find there, and limited by what is reserved."""
    assert ask.errand is not None
    most = ask.errand.cost_microcents
    work = replace(ask.work, code=code)
    sent = replace(
        ask,
        work=work,
        shares_limits_of=None,
        errand=None,
        allowance_microcents=most if most is not None else None,
    )
    return sent.data()


def _read_kept_files(session: Session) -> dict[str, str]:
    """Return the files of exchanges that are complete: a model continues after them."""
    from logist.agents.remote.worker import read_exchange_files  # noqa: PLC0415

    kept = read_exchange_files(session.job.inflight) if session.job.inflight.is_dir() else {}
    return {name: text for name, text in kept.items() if name != "1.request"}


def _build_task_ledger(session: Session, ask: RecordedAsk) -> JsonObject | None:
    """Return the ledger that a worker keeps for a task: with what is reserved as its only budget."""
    ledger = budgets.bind_recorded(session, ask)
    errand = ask.errand
    assert errand is not None
    amounts = (errand.cost_microcents, errand.cost_tokens, errand.cost_calls)
    if ledger is None or all(amount is None for amount in amounts):
        return None
    return replace(
        ledger, budgets=(SharedBudget(TASK_BUDGET, "project", "", "", *amounts),), run=""
    ).to_json()


def _wait_for_result(
    session: Session, ask: RecordedAsk, pool: WorkerPool, worker: Worker, future: Future[Any]
) -> JsonObject | None:
    """Wait for the result of a task; None if its machine is lost. Raises ProviderError if the scheduler is."""
    from logist.agents.remote import worker as work  # noqa: PLC0415
    from logist.agents.remote.cluster import SchedulerLost  # noqa: PLC0415

    project, job = session.project, session.job
    assert ask.errand is not None
    ticket, stopped = ask.errand.ticket, False
    watch = _RemoteWatch(session, pool, worker, ticket)
    try:
        with project.turns.pause():
            while True:
                try:
                    result: JsonObject = future.result(timeout=POLL_SECONDS)
                    return result
                except NotYet:
                    pass
                except SchedulerLost:
                    raise
                except (
                    LogistError
                ) as error:  # also WorkerLost: the task may be at work, or its result be there
                    return _find_again(session, ask, pool, error)
                load_all()
                watch.show_new()
                if project.stopping() == _INTERRUPTED and not stopped:
                    stopped = True
                    project.say(
                        "stopping the agent and recording its results so far; press Ctrl-C again to stop immediately"
                    )
                    pool.cluster.call(worker, work.stop_task, ticket)
                elif project.stopping() and not stopped:
                    message = f"stopped waiting; the agent is still running on {ask.errand.worker}"
                    raise Stopped(
                        message, exit_code=project.stopping(), fix=_describe_collecting(pool.cluster.address)
                    )
    except SchedulerLost as error:
        raise ProviderError(
            f"{error.message}; the agent of {job.id} may still be at work on {ask.errand.worker}",
            fix=_describe_collecting(pool.cluster.address),
        ) from error
    finally:
        watch.end()


def _describe_collecting(address: str) -> str:
    return f"to collect its answer, run: logist run --on dask --scheduler {address}"


class _RemoteWatch:
    """Copies the progress of a task to the job, where everybody who watches looks for it."""

    def __init__(self, session: Session, pool: WorkerPool, worker: Worker, ticket: str) -> None:
        self._pool, self._worker, self._ticket = pool, worker, ticket
        self._folder = session.job.inflight
        self._watch = ProgressWatch(session.project, session.job)
        self._watch.skip_existing()
        self._next = time.monotonic() + 1.0
        self._offset = 0

    def show_new(self) -> None:
        """Fetch and show what is new, about once a second."""
        from logist.agents.remote import worker as work  # noqa: PLC0415

        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 1.0
            with suppress(LogistError, OSError):  # nothing depends on it
                read = self._pool.cluster.call(
                    self._worker, work.read_activity, self._ticket, self._offset, seconds=5.0
                )
                self._offset = read["end"]
                with open(self._folder / "progress", "ab") as file:
                    file.write(read["data"])
        self._watch.show_new()

    def end(self) -> None:
        self._watch.end()


def _find_again(
    session: Session, ask: RecordedAsk, pool: WorkerPool, reason: LogistError | None = None
) -> JsonObject | None:
    """Return the result of a task whose worker is gone, from another worker on the same machine; None if there is none."""
    from logist.agents.remote import worker as work  # noqa: PLC0415
    from logist.agents.remote.cluster import WorkerLost  # noqa: PLC0415

    assert ask.errand is not None
    until = time.monotonic() + LOST_SECONDS
    said = False
    while time.monotonic() < until:
        if (worker := find_machine(pool, ask.errand.machine)) is not None:
            future = pool.cluster.get_executor(worker).submit(work.collect_task, ask.errand.ticket)
            with suppress(WorkerLost):
                return _wait_for_collected(session, future)
        if not said:
            said = True
            why = f" ({reason.message})" if reason is not None else ""
            session.project.say(
                f"{session.job.id}: the worker {ask.errand.worker} is out of reach{why}; waiting up to {LOST_SECONDS:.0f} s for its machine"
            )
        _raise_if_stopping(session)
        time.sleep(POLL_SECONDS * 2)
    return None


def _wait_for_collected(session: Session, future: Future[Any]) -> JsonObject:
    while True:
        with suppress(NotYet):
            result: JsonObject = future.result(timeout=POLL_SECONDS)
            return result
        load_all()
        if session.project.stopping():
            raise Stopped("stopped waiting for a worker", exit_code=session.project.stopping())


def find_machine(pool: WorkerPool, machine: str) -> Worker | None:
    """Return a worker on a machine; None if none answers now. Raises SchedulerLost."""
    from logist.agents.remote import worker as work  # noqa: PLC0415
    from logist.agents.remote.cluster import WorkerLost  # noqa: PLC0415

    for worker in pool.cluster.list_workers():
        with suppress(WorkerLost):
            if pool.cluster.call(worker, work.describe_machine, seconds=5.0)["machine"] == machine:
                return worker
    return None


def accept_result(
    session: Session, ask: RecordedAsk, result: JsonObject, pool: WorkerPool | None, worker: Worker | None
) -> str | None:
    """Accept the result of the ticket that the job has; return why the worker did not take the task, else None."""
    from logist.agents.remote import worker as work  # noqa: PLC0415

    assert ask.errand is not None
    if result["outcome"] != "done":
        _withdraw(session, ask)
        return str(result.get("reason") or "the machine has not begun it")
    job = session.job
    files.replace_file(job.inflight / PACK, result["pack"])
    record = {name: result[name] for name in ("commit", "skipped", "files", "log")}
    files.replace_file(job.inflight / RESULT, files.dump_json(record))  # from here on, it is accepted
    finish_accepting(session)
    if pool is not None and worker is not None:
        with suppress(LogistError):  # the next run asks again
            pool.cluster.call(worker, work.forget_tasks, [ask.errand.ticket])
    return None


def finish_accepting(session: Session) -> None:
    """Put what a worker has sent back where a courier of this machine would have left it; again after a crash."""
    from logist.agents.remote.mirror import add_pack  # noqa: PLC0415

    job = session.job
    exchanges = job.read_exchanges()
    errand = ask_files.read_errand(exchanges)
    if errand is None or not errand.is_away or not (job.inflight / RESULT).exists():
        return
    data = files.read_bytes(job.inflight / RESULT, MOST_BYTES)
    result = json.loads(data or b"{}")
    workspace = session.project.open_workspace(job)
    add_pack(workspace.git, files.read_bytes(job.inflight / PACK, MOST_BYTES) or b"", result["commit"])
    workspace.restore(result["commit"], clearing=True)
    for name, text in result["files"].items():
        if name == "1.request" or not inflight.is_exchange_file(name):
            continue
        path = job.inflight / name
        files.make_directory(path.parent)
        files.replace_file(
            path,
            session.project.redact_text(text).encode()
            if name.endswith((".response", ".tools"))
            else text.encode(),
        )
    if not any(name == "1.sent" for name in result["files"]):
        inflight.withdraw_sent(job.inflight, 1)
    request = exchanges[0].request or {}
    accepted = {**request, "errand": {**request["errand"], "is_accepted": True}}
    job.begin_exchange(1, accepted)
    for name in (RESULT, PACK):
        with suppress(FileNotFoundError):
            (job.inflight / name).unlink()


def _withdraw(session: Session, ask: RecordedAsk) -> None:
    """Record that a ticket was not used, so the ask can be sent again."""
    assert ask.errand is not None
    errand = replace(ask.errand, ticket="", machine="", worker="", sent_at="")
    session.job.begin_exchange(1, replace(ask, errand=errand).data())
    if not any(each.response is not None for each in session.job.read_exchanges()):
        inflight.withdraw_sent(session.job.inflight, 1)


def collect_away(session: Session) -> None:
    """Finish what an earlier command has sent to a worker: accept what is here, and ask for what is not.

    Without workers, or if the machine is out of reach, the ask stays away, and is recorded as in doubt.
    """
    errand = ask_files.read_errand(session.job.read_exchanges())
    if errand is None or not errand.is_away:
        return
    finish_accepting(session)
    pool = session.project.workers
    exchanges = session.job.read_exchanges()
    errand = ask_files.read_errand(exchanges)
    if errand is None or not errand.is_away or pool is None:
        return
    ask = RecordedAsk.read(exchanges[0].request or {})
    session.project.report_progress(f"collecting the answer of {ask.role} from {errand.worker}")
    result = _find_again(session, ask, pool)
    if result is not None:
        accept_result(session, ask, result, pool, find_machine(pool, errand.machine))


def _raise_if_stopping(session: Session) -> None:
    from logist.jobs.turn import agent_calls  # noqa: PLC0415 - it imports this module

    agent_calls.raise_if_stopping(session)
