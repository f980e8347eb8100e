"""Sends asks to workers on other machines, and accepts what comes back: exchanges, and what the agent changed.

The files of the job decide. Before an ask is sent, it is on disk with a ticket that names one machine; what it may spend is
reserved. From then on it is in doubt until the result of just this ticket is on disk. So nothing is sent twice, whatever
happens to workers, the scheduler or this process. What arrives after the doubt was recorded is kept and booked
(`late_results.py`).
"""

from __future__ import annotations

import json
import os
import secrets as random_secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logist.agents.courier import ask_files
from logist.agents.courier.ask_files import AwayErrand, RecordedAsk
from logist.agents.courier.reservations import (
    SHORT_PAUSE,
    bound_tokens,
    build_refusal_error,
    name_errand,
)
from logist.agents.courier.tool_turns import AskProgress
from logist.agents.protocol import MODEL_AGENTS
from logist.core.history import fold
from logist.core.machine import limits
from logist.core.money.budgets import SharedBudget, Sums
from logist.core.text.json_object import JsonObject
from logist.errors import Damaged, LogistError, ProviderError, Refused, SetupFailed, Stopped
from logist.jobs.base import budgets, job_bundles
from logist.jobs.base.call_limits import bind_call_rates
from logist.jobs.base.job_bundles import MOST_BYTES
from logist.jobs.base.progress_watch import ProgressWatch
from logist.jobs.setup import remote_commands
from logist.lazy_modules import load_all
from logist.store import files, inflight
from logist.timestamps import format_local, parse_time
from logist.workspace.checkpoint import objects
from logist.workspace.checkpoint.scan import CACHE
from logist.workspace.files import file_names

if TYPE_CHECKING:
    from concurrent.futures import Future

    from logist.agents.courier.reservations import ExchangeLedger
    from logist.agents.protocol import CodePaths
    from logist.agents.remote.cluster import Worker
    from logist.core.machine.limits import Shared
    from logist.core.model import EffectiveSpec
    from logist.core.step.step import StepPlan
    from logist.jobs.base.session import Session
    from logist.jobs.base.worker_pool import WorkerPool

POLL_SECONDS = 0.25
LOST_SECONDS = 60.0
"""How long a machine may be out of reach before its task is recorded as in doubt."""
COLLECT_SECONDS = 300.0
"""How long a worker may take to send the result of a task that has ended."""
MOST_NAMED = 3
"""How many files are named, of those that did not arrive."""
MOST_TRIES = 3
"""How many workers an ask is offered to, if they refuse it."""
LEAST_TOKENS = 200_000
"""What a program gets of a budget of tokens, if that much is left: nobody knows how long its requests will be."""
TASK_BUDGET = "the part of this task"
_INTERRUPTED = 130
RESULT = "result"
"""What a worker has sent back, until it is completely accepted."""

Call = Callable[..., Any]
"""Calls a function of `agents/remote/worker.py` on a certain machine."""


# What a worker may spend


def size_errand(
    session: Session, spec: EffectiveSpec, plan: StepPlan, shared: Sequence[Shared]
) -> AwayErrand:
    """Return what a worker may spend on an ask in money: what the job has left, and a part of what it shares with others.

    `shared`: limits of jobs above, and budgets.
    """
    if plan.reserved_microcents is None:
        return AwayErrand()
    own = limits.remaining_microcents(spec, session.state.usage)
    return _share_money(session, AwayErrand(), own, plan.reserved_microcents, shared)


def _share_money(
    session: Session, errand: AwayErrand, own: int, least: int, shared: Sequence[Shared]
) -> AwayErrand:
    at_once = budgets.count_at_once(session.project)
    most, limit = own, ""
    for each in shared:
        room = each.remaining_microcents
        part = min(room, max(room // max(1, min(at_once, each.waiting)), least))
        if part < most:
            most, limit = part, each.job if part == room else ""
    return replace(errand, cost_microcents=max(0, most), limit=limit)


def reserve_errand(session: Session, ask: RecordedAsk, ledger: ExchangeLedger) -> RecordedAsk:
    """Reserve what a worker may spend, durably; return the ask with it. Raises BudgetReached."""
    assert ask.errand is not None
    now = session.project.clock.now().timestamp()
    name = name_errand(ask.errand.number)
    errand = _share_counts(session, ask, ledger)
    refusal = ledger.reserve_cost(name, errand.cost, now)
    if refusal is not None:
        raise budgets.BudgetReached(build_refusal_error(refusal), ask.role)
    return replace(ask, errand=errand)


def _share_counts(session: Session, ask: RecordedAsk, ledger: ExchangeLedger) -> AwayErrand:
    """Return the errand with its part of the budgets of tokens and calls."""
    errand = ask.errand
    assert errand is not None
    caps = [
        cap for cap in ledger.list_caps(name_errand(errand.number)) if (cap.tokens, cap.calls) != (None, None)
    ]
    if not caps:
        return errand
    sums = budgets.open_ledger(session.project).read(cap.account for cap in caps).sums
    parts = budgets.count_at_once(session.project)
    least_tokens = _bound_next_tokens(session, ask)
    for cap in caps:
        used = sums.get(cap.account, Sums()).get_total()
        for name, least in (("tokens", least_tokens), ("calls", 1)):
            if (most := getattr(cap, name)) is not None:
                left = most - getattr(used, name)
                part = max(1, min(left, max(left // parts, least)))
                if name == "tokens" and ask.agent in MODEL_AGENTS:
                    part = max(part, least)  # the budget refuses less than one call
                before = getattr(errand, f"cost_{name}")
                if before is None or part < before:
                    limit = f"{budgets.MARK}{cap.budget}" if part >= left else errand.limit
                    errand = replace(errand, **{f"cost_{name}": part, "limit": limit})
    return errand


def _bound_next_tokens(session: Session, ask: RecordedAsk) -> int:
    """Return how many tokens the next exchange of an ask may use; a guess for a program."""
    if ask.agent not in MODEL_AGENTS:
        return LEAST_TOKENS
    exchanges = session.job.read_exchanges() if ask.errand is not None and ask.errand.number > 1 else ()
    coming = AskProgress.from_exchanges(exchanges).plan_next(ask)
    return bound_tokens(coming.sending) if coming is not None else 1


# Sending


def send_errand(session: Session, ask: RecordedAsk, pool: WorkerPool) -> None:
    """Let a worker call the agent; afterwards `inflight/` is as a courier would have left it.

    If the machine is lost, or the call is in doubt for another reason, the ask stays away. Raises ProviderError if no
    worker can do it or the scheduler is lost, BudgetReached, and Stopped.
    """
    assert ask.errand is not None
    if ask.errand.ticket:
        ask = _size_again(session, ask)
    kind = f"{ask.agent} {ask.model.api_key_env} {ask.work.sandbox.mode}"
    refusals: list[str] = []
    try:
        for _ in range(MOST_TRIES):
            with pool.take_worker(kind, lambda: _raise_if_stopping(session), session.job.id) as worker:
                reason = _try_send(session, ask, pool, worker)
            if reason is None:
                return
            refusals.append(reason)
            pool.refuse(worker, kind, reason)
        from logist.jobs.base.worker_pool import NoFitWorker  # noqa: PLC0415 - only a run with workers needs it

        message = f"no worker has taken the task; nothing was sent: {'; '.join(dict.fromkeys(refusals))}"
        raise NoFitWorker(message, fix="correct this on one of these machines, then run the command again")
    finally:
        with suppress(LogistError):  # the next command reports it
            budgets.settle_calls(session)  # of what is reserved, only what is spent or in doubt stays


def _size_again(session: Session, ask: RecordedAsk) -> RecordedAsk:
    """Return an ask that a worker has not finished, with a new part of what is left now. Raises BudgetReached."""
    from logist.agents.courier import shared_limits  # noqa: PLC0415 - only to continue

    budgets.settle_calls(session)
    got = ask_files.collect_ask(session.job.read_exchanges())
    assert ask.errand is not None
    errand = AwayErrand(number=ask.errand.number + 1)
    project, job = session.project, session.job
    with shared_limits.reserve_shared_limits(project.jobs_dir, job.id, ask.shares_limits_of) as shared:
        ledger = budgets.bind_recorded(session, ask)
        if ask.allowance_microcents is not None:
            spent = fold.usage_microcents(got.reply.usage)
            shares = [*shared, *budgets.share_budgets(session, ledger).shares]
            errand = _share_money(
                session, errand, ask.allowance_microcents - spent, ask.reserved_microcents or 0, shares
            )
        sized = replace(ask, errand=errand)
        if ledger is not None:
            sized = reserve_errand(session, sized, ledger)
    return sized


def _try_send(session: Session, ask: RecordedAsk, pool: WorkerPool, worker: Worker) -> str | None:
    """Offer an ask to a worker and wait for the result; return why the worker did not take it."""
    from logist.agents.remote import worker as work  # noqa: PLC0415 - only a run with workers needs it
    from logist.agents.remote.cluster import SchedulerLost  # noqa: PLC0415

    try:
        machine = pool.describe_machine(worker)
        if reason := work.find_difference(machine):
            return reason
        kept = _count_kept(session)
        commit = _choose_commit(session, ask, kept)
        code = remote_commands.prepare_worker(session, pool, worker, ask, commit)
        task = _build_task(session, ask, pool, worker, commit, code, kept) | {"machine": machine["machine"]}
    except (SchedulerLost, job_bundles.BundleTooLarge, SetupFailed, Stopped):
        raise
    except LogistError as error:  # the worker is lost, or its directory can't be used
        return f"{worker.name}: {error.message}"
    assert ask.errand is not None
    errand = replace(
        ask.errand,
        ticket=task["ticket"],
        machine=machine["machine"],
        worker=worker.name,
        scheduler="" if pool.cluster.is_local else pool.cluster.address,
        sent_at=session.project.clock.timestamp(),
        kept=task["kept"],
        is_accepted=False,
    )
    sent = replace(ask, errand=errand)
    session.job.begin_exchange(1, sent.data())
    session.job.mark_sent(1)
    session.project.report_progress(f"{ask.role} works on {worker.name}")
    future = pool.cluster.get_executor(worker).submit(work.do_task, task)
    result, call = _wait_for_result(session, sent, pool, worker, future)
    return None if result is None else accept_result(session, sent, result, call)


def _choose_commit(session: Session, ask: RecordedAsk, kept: int) -> str:
    """Return the checkpoint that a worker begins with: a model that was not finished continues with what it has changed so far."""
    if not kept:
        return ask.checkpoint_before
    workspace = session.project.open_workspace(session.job)
    return workspace.create_checkpoint("before the agent continues on a worker").commit


def _count_kept(session: Session) -> int:
    return len([each for each in session.job.read_exchanges() if each.response is not None])


def _build_task(
    session: Session,
    ask: RecordedAsk,
    pool: WorkerPool,
    worker: Worker,
    commit: str,
    code: CodePaths,
    kept: int,
) -> JsonObject:
    """Return everything that a worker needs for an ask, with the objects that its machine lacks."""
    ticket = random_secrets.token_hex(16)
    return {
        **job_bundles.build_bundle(session, pool, worker, commit),
        "ticket": ticket,
        "key": f"{session.job.id}/{ask.attempt}/{ticket}",
        "ask": _build_sent_ask(ask, ticket, code),
        "kept": kept,
        "files": _read_kept_files(session),
        "ledger": _build_task_ledger(session, ask),
        "rates": _build_task_rates(session, ask, pool, worker),
    }


def _build_sent_ask(ask: RecordedAsk, ticket: str, code: CodePaths) -> JsonObject:
    """Return an ask as a worker gets it: with the code that its commands find there."""
    assert ask.errand is not None
    # The marker finds the processes of this task only: a machine may have another one of this job, and be this machine.
    work = replace(ask.work, code=code, marker=f"{ask.work.marker}-{ticket}")
    sent = replace(ask, work=work, shares_limits_of=None, errand=None)
    if (
        ask.agent not in MODEL_AGENTS and ask.provider is None
    ):  # it can't be stopped at the limit of its ledger
        most = ask.errand.cost_microcents
        sent = replace(sent, allowance_microcents=most, reserved_microcents=most)
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
    budget = SharedBudget(TASK_BUDGET, "project", "", "", *amounts)
    return replace(ledger, budgets=(budget,), run="").to_json()


def _build_task_rates(session: Session, ask: RecordedAsk, pool: WorkerPool, worker: Worker) -> JsonObject:
    """Return the rate limits of the worker's machine: as much of each as it has of all places, at least 1."""
    from logist.jobs.turn import outages  # noqa: PLC0415 - it imports much

    rates = bind_call_rates(session.project, ask.model, outages.name_server(ask.model, ask.provider))
    here, places = pool.count_places(worker)
    rates.limits = tuple(each.divide(here, places) for each in rates.limits)
    return rates.to_json()


# Waiting


def _wait_for_result(
    session: Session, ask: RecordedAsk, pool: WorkerPool, worker: Worker, future: Future[JsonObject]
) -> tuple[JsonObject | None, Call]:
    """Wait for the result of a task; None if its machine is lost. Raises ProviderError if the scheduler is."""
    from logist.agents.remote import worker as work  # noqa: PLC0415
    from logist.agents.remote.cluster import SchedulerLost  # noqa: PLC0415

    assert ask.errand is not None
    call = bind_call(pool, worker)
    watch = _RemoteWatch(session, call, ask.errand.ticket)
    is_stopping = is_stopped = False
    try:
        with session.project.turns.pause():
            while not wait([future], timeout=POLL_SECONDS).done:
                load_all()
                watch.show_new()
                if session.project.stopping() == _INTERRUPTED and not is_stopping:
                    is_stopping = True
                    session.project.say(
                        "stopping the agent and recording its results so far; press Ctrl-C again to stop immediately"
                    )
                if is_stopping and not is_stopped:  # again and again: its agent may be just about to start
                    with suppress(LogistError):  # if its worker is lost, that is noticed below
                        is_stopped = call(work.stop_task, ask.errand.ticket)
                elif session.project.stopping() and not is_stopping:
                    raise _build_left_error(session, ask.errand)
            try:
                return future.result(), call
            except SchedulerLost:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the machine knows what became of the task
                reason = error.message if isinstance(error, LogistError) else str(error)
                return _collect_again(session, ask, pool, reason)
    except SchedulerLost as error:
        raise SchedulerLost(
            f"{error.message}; the agent of {session.job.id} may still be at work on {ask.errand.worker}",
            fix=describe_collecting(ask.errand, session.job.id),
        ) from error
    finally:
        watch.end()


def _build_left_error(session: Session, errand: AwayErrand) -> Stopped:
    message = f"stopped waiting; the agent of {session.job.id} is still running on {errand.worker}"
    return Stopped(
        message, exit_code=session.project.stopping(), fix=describe_collecting(errand, session.job.id)
    )


def describe_collecting(errand: AwayErrand, job_id: str) -> str:
    """Return the command that collects the answer of an ask, for people."""
    is_here = not errand.scheduler
    command = f"job step --job {job_id}" if is_here else f"run --on dask --scheduler {errand.scheduler}"
    return f"to collect its answer, run: logist {command}"


class _RemoteWatch:
    """Copies the progress of a task to the job, where everybody who watches looks for it."""

    def __init__(self, session: Session, call: Call, ticket: str) -> None:
        self._call, self._ticket = call, ticket
        self._folder = session.job.inflight
        self._watch = ProgressWatch(session.project, session.job)
        self._watch.skip_existing()
        self._next = time.monotonic() + 1.0
        self._offset = 0

    def show_new(self) -> None:
        """Fetch and show what is new, about once a second."""
        from logist.agents.remote import worker as work  # noqa: PLC0415

        if time.monotonic() >= self._next:
            with suppress(LogistError, OSError):  # nothing depends on it
                read = self._call(work.read_activity, self._ticket, self._offset, seconds=5.0)
                self._offset = read["end"]
                with open(self._folder / "progress", "ab") as file:
                    file.write(read["data"])
            self._next = time.monotonic() + 1.0
        self._watch.show_new()

    def end(self) -> None:
        self._watch.end()


def bind_call(pool: WorkerPool, worker: Worker) -> Call:
    """Return what calls functions on a worker."""

    def call(function: Callable[..., Any], *args: Any, seconds: float = 30.0) -> Any:
        return pool.call(worker, function, *args, seconds=seconds)

    return call


def _collect_again(
    session: Session, ask: RecordedAsk, pool: WorkerPool, reason: str
) -> tuple[JsonObject | None, Call]:
    """Return the result of a task whose worker is gone, from another worker of the same machine; None if there is none."""
    from logist.agents.remote import worker as work  # noqa: PLC0415
    from logist.agents.remote.cluster import SchedulerLost  # noqa: PLC0415

    errand = ask.errand
    assert errand is not None
    until = time.monotonic() + LOST_SECONDS
    has_said_so = False
    while time.monotonic() < until:
        if (worker := pool.find_machine(errand.machine)) is not None:
            call = bind_call(pool, worker)
            try:
                result = call(work.collect_task, errand.ticket, seconds=COLLECT_SECONDS)
            except SchedulerLost:
                raise
            except LogistError as error:
                reason = error.message
            else:
                if result["outcome"] != "running":
                    return result, call
                until = time.monotonic() + LOST_SECONDS
        if not has_said_so and worker is None:
            has_said_so = True
            session.project.say(
                f"{errand.worker} is out of reach ({reason}); waiting up to {LOST_SECONDS:.0f} s for its machine"
            )
        if session.project.stopping():
            raise _build_left_error(session, errand)
        load_all()
        time.sleep(POLL_SECONDS)
    return None, _call_nobody


def _call_nobody(*_: object, **__: object) -> None:
    raise ProviderError("the machine is out of reach")


# Accepting


def accept_result(session: Session, ask: RecordedAsk, result: JsonObject, call: Call) -> str | None:
    """Accept the result of the ticket that the job has; return why the worker did not take the task, else None.

    Raises Damaged for a result that can't be used; the ask stays away then.
    """
    from logist.agents.remote import worker as work  # noqa: PLC0415
    from logist.agents.remote.mirror import add_pack  # noqa: PLC0415

    assert ask.errand is not None
    ticket = ask.errand.ticket
    if result.get("outcome") == "delivered":
        # This job, or a copy of it, had the result before, and was put back since: what was paid is paid.
        return None
    if result.get("outcome") != "done":
        _withdraw(session, ask)
        return str(result.get("reason") or f"{ask.errand.worker} has not begun it")
    record = read_result(result, ticket)
    add_pack(session.project.open_workspace(session.job).git, record.pop("pack"), record["commit"])
    files.replace_file(session.job.inflight / RESULT, files.dump_json(record))  # from here on, it is accepted
    finish_accepting(session)
    with suppress(LogistError):  # the next run does it
        call(work.forget_tasks, [ticket])
    return None


def read_result(result: JsonObject, ticket: str) -> JsonObject:
    """Return what is kept of a result, with its `pack`. Raises Damaged if it isn't what a worker sends."""
    commit, pack, sent = result.get("commit"), result.get("pack"), result.get("files")
    is_sound = (
        result.get("ticket") == ticket
        and isinstance(commit, str)
        and len(commit) in (40, 64)
        and not set(commit) - set("0123456789abcdef")
        and isinstance(pack, bytes)
        and isinstance(sent, dict)
        and all(
            isinstance(text, str) and isinstance(name, str) and inflight.is_exchange_file(name)
            for name, text in sent.items()
        )
    )
    if not is_sound:
        raise Damaged(
            "a worker has sent a damaged result",
            where=ticket,
            fix="check the machine of the worker and its disk",
        )
    return {"ticket": ticket, "commit": commit, "pack": pack, "files": sent}


def finish_accepting(session: Session) -> None:
    """Put what a worker has sent back where a courier of this machine would have left it; again after a crash."""
    job = session.job
    exchanges = job.read_exchanges()
    errand = ask_files.read_errand(exchanges)
    data = files.read_bytes(job.inflight / RESULT, MOST_BYTES)
    if errand is None or not errand.is_away or data is None:
        return
    result = json.loads(data)
    if result["ticket"] != errand.ticket:
        return  # of an earlier sending of the same ask, which was accepted completely
    _restore_result(session, errand, result["commit"])
    for name, text in result["files"].items():
        if name != "1.request":
            path = job.inflight / name
            files.make_directory(path.parent)
            files.replace_file(path, _clean_file(session, name, text, errand).encode())
    if "1.sent" not in result["files"]:
        inflight.withdraw_sent(job.inflight, 1)
    request = exchanges[0].request or {}
    job.begin_exchange(1, {**request, "errand": replace(errand, is_accepted=True).data()})
    with suppress(FileNotFoundError):
        (job.inflight / RESULT).unlink()


def _restore_result(session: Session, errand: AwayErrand, commit: str) -> None:
    """Make the workspace equal to what a worker has sent; what a person has changed here meanwhile stays in a checkpoint.

    Files that no checkpoint holds stay too: the worker never had them, so their absence there means nothing.
    """
    workspace = session.project.open_workspace(session.job)
    before = objects.read_tip(workspace.git)
    found = workspace.create_checkpoint("before the work of a worker arrives").commit
    if before not in (None, found, commit) and workspace.list_changes(before, found, 1)[0]:
        session.project.say(
            f"files in the workspace of {session.job.id} were changed here while its agent worked on {errand.worker}, and "
            f"are replaced by what the agent made; to see the changes: "
            f"git -C {session.job.git_dir} diff {before[:12]} {found[:12]}"
        )
    workspace.restore(commit)
    (unstored,) = objects.read_unstored(workspace.git, commit)
    root = os.fsencode(workspace.root)
    missing = [
        file_names.to_display(path)
        for path, thing in sorted(unstored.items())
        if thing.why != CACHE and not os.path.lexists(os.path.join(root, path))
    ]
    if missing:
        named = ", ".join(missing[:MOST_NAMED]) + (", ..." if len(missing) > MOST_NAMED else "")
        session.project.say(
            f"the agent of {session.job.id} has made files that no checkpoint can hold, so they stay on {errand.worker}: {named}"
        )


def _clean_file(session: Session, name: str, text: str, errand: AwayErrand) -> str:
    """Return a file of a worker without secrets of this machine, and without the budget that only the task had."""
    if name.endswith((".response", ".tools")):
        text = session.project.redact_text(text)
    if not (name.endswith(".response") and TASK_BUDGET in text):
        return text
    with suppress(ValueError, TypeError, RecursionError):  # who collects it reports the damage
        response = json.loads(text)
        error = response.get("error")
        if error and error.get("budget") == TASK_BUDGET:
            return json.dumps(response | {"error": error | _describe_reached(errand)})
    return text


def _describe_reached(errand: AwayErrand) -> JsonObject:
    """Return the fields of the error that a worker had spent all it might: why it didn't get more."""
    if errand.limit.startswith(budgets.MARK):
        return {"budget": errand.limit.removeprefix(budgets.MARK)}
    if errand.limit:
        message = f"the cost limit of {errand.limit} is used up"
        return {"kind": "shared_limit", "budget": None, "message": message}
    return {"retry_after": SHORT_PAUSE}  # then it gets another part


def _withdraw(session: Session, ask: RecordedAsk) -> None:
    """Record that a ticket was not used, so the ask can be sent again."""
    assert ask.errand is not None
    # In this order: an ask that was sent and has no ticket any more would look like a call in doubt on this machine.
    if not any(each.response is not None for each in session.job.read_exchanges()):
        inflight.withdraw_sent(session.job.inflight, 1)
    errand = replace(ask.errand, ticket="", machine="", worker="", sent_at="")
    session.job.begin_exchange(1, replace(ask, errand=errand).data())


# Collecting what earlier commands have sent


def collect_away(session: Session) -> None:
    """Finish what an earlier command has sent to a worker: accept what is here, and ask for what is not.

    If the machine is out of reach, the ask stays away, to be recorded as in doubt. A command without workers raises Refused
    instead, until the agent must have ended. The directory for workers of this machine is always in reach.
    """
    finish_accepting(session)
    exchanges = session.job.read_exchanges()
    errand = ask_files.read_errand(exchanges)
    if errand is None or not errand.is_away:
        return
    ask = RecordedAsk.read(exchanges[0].request or {})
    pool = session.project.workers
    if pool is None:
        _collect_here(session, ask)
        return
    session.project.report_progress(f"collecting the answer of {ask.role} from {errand.worker}")
    result, call = _collect_again(session, ask, pool, "its worker does not answer")
    if result is not None:
        accept_result(session, ask, result, call)


def _collect_here(session: Session, ask: RecordedAsk) -> None:
    """Collect an ask without workers: from this machine, if it was sent to a worker here. Raises Refused, Stopped."""
    from logist.agents.remote import worker as work  # noqa: PLC0415
    from logist.agents.remote.spool import find_machine_here  # noqa: PLC0415

    errand, project = ask.errand, session.project
    assert errand is not None
    place = project.environment.worker_directory_name()
    if find_machine_here(place) == errand.machine:

        def call(function: Callable[..., Any], *args: Any) -> Any:
            return function(*args, spool=place)

        project.report_progress(f"collecting the answer of {ask.role} from {errand.worker}")
        while (result := call(work.collect_task, errand.ticket))["outcome"] == "running":
            if project.stopping():
                raise _build_left_error(session, errand)
            time.sleep(POLL_SECONDS)
        accept_result(session, ask, result, call)
        return
    until = (parse_time(errand.sent_at) or 0.0) + ask.deadline_seconds + LOST_SECONDS
    if project.clock.now().timestamp() < until:
        fix = f"{describe_collecting(errand, session.job.id)} (from {format_local(until)} on, this command records its call as in doubt)"
        raise Refused(describe_work(errand), where=session.job.id, fix=fix)


def describe_work(errand: AwayErrand) -> str:
    """Return who works on an ask, and since when, for people."""
    return f"its agent works on another machine, {errand.worker}, since {format_local(errand.sent_at)}"


def _raise_if_stopping(session: Session) -> None:
    from logist.jobs.turn import agent_calls  # noqa: PLC0415 - it imports this module

    agent_calls.raise_if_stopping(session)
