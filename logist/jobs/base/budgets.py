"""The budgets of a project, and the ledger in which its jobs book what they spend."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from logist.agents.courier import ask_files, reservations
from logist.agents.courier.reservations import ExchangeLedger
from logist.config.settings import resolve_model
from logist.core.history import fold
from logist.core.machine import kinds
from logist.core.machine.limits import Shared
from logist.core.model import MAX_DEPTH, Interaction, Kind, Limits, Usage
from logist.core.model.commands import AskCommand, RecoverCommand, ResubmitCommand
from logist.core.money import totals
from logist.core.money.amounts import MICROCENTS, to_microcents
from logist.core.money.budgets import MAX_COST, NOTHING, BookedCall, Cap, Cost, Scope, SharedBudget, Sums
from logist.digests import compute_sha256
from logist.errors import Damaged, InvalidFile, LogistError
from logist.jobs.base.session import Session, load_session
from logist.jobs.base.stored_records import read_current_state
from logist.quick_dataclass import dataclass
from logist.store import JobDir, files, inflight
from logist.store.ledger import FOLDER, BudgetRefusal, Ledger, OpenCall
from logist.timestamps import find_local_day, format_local

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import RecordedAsk
    from logist.config.sections import BudgetLimit
    from logist.config.settings import Settings
    from logist.core.model import Model, TransportError
    from logist.jobs.base.project import ProjectContext

MARK = "budget "
"""How the name of a budget begins where the limits of other jobs have the id of a job; no id has a space."""
_NEVER = 1e12


class BudgetReached(Exception):
    """A budget doesn't allow the next call, so that nothing was sent."""

    def __init__(self, error: TransportError, role: str) -> None:
        super().__init__(error.message)
        self.error, self.role = error, role


def open_ledger(project: ProjectContext) -> Ledger:
    """Return the ledger of a project."""
    return Ledger(project.home / FOLDER)


def is_booked(project: ProjectContext) -> bool:
    """Whether calls cost something: those of a script don't."""
    return project.function is not None or not project.has_local_agent


def list_budgets(project: ProjectContext) -> tuple[SharedBudget, ...]:
    """Return the budgets of the configuration, and that of this run. Raises InvalidFile for an unknown model."""
    configured = [
        _build_budget(project, name, limit) for name, limit in project.budget_settings.budget.limits.items()
    ]
    if project.max_cost is not None:
        configured.append(SharedBudget(MAX_COST, "run", microcents=project.max_cost))
    return tuple(configured)


def _build_budget(project: ProjectContext, name: str, limit: BudgetLimit) -> SharedBudget:
    microcents = None if limit.cost is None else to_microcents(limit.cost)
    scope: Scope = "project"
    of = ""
    if limit.model is not None:
        scope, of = "model", _resolve_model_name(project.budget_settings, name, limit.model)
    elif limit.provider is not None:
        scope, of = "provider", limit.provider
    elif limit.tag is not None:
        scope, of = "tag", limit.tag
    if limit.per == "run":
        return SharedBudget(name, "run", "", "", microcents, limit.tokens, limit.calls)
    return SharedBudget(name, scope, of, limit.per or "", microcents, limit.tokens, limit.calls)


def _resolve_model_name(settings: Settings, budget: str, model: str) -> str:
    try:
        return resolve_model(settings, model).provider_model
    except InvalidFile as error:
        raise InvalidFile(error.message, where=f"budget.limits.{budget}.model", fix=error.fix) from error


def make_run_id(project: ProjectContext) -> str:
    """Return a new name for a `logist run`. It begins with its day, so that its sums can be left out later."""
    now = project.clock.now().timestamp()
    day = find_local_day(now, project.budget_settings.budget.timezone)
    return f"{day}T{format_local(now, with_seconds=True)[11:]}-{os.urandom(2).hex()}"


def compute_fingerprint(project: ProjectContext) -> str:
    """Return a text that changes when a budget does: a job that waits for one tries again then."""
    budgets = list_budgets(project)
    run = project.run_id if any(budget.scope == "run" for budget in budgets) else ""
    data = [[budget.to_json() for budget in budgets], project.budget_settings.budget.timezone, run]
    return compute_sha256(files.dump_json(data))[:16]


def name_job(session: Session) -> str:
    """Return the name of a job in the ledger; one in another directory than the project's has its path."""
    return name_job_of(session.project, session.job)


def name_job_of(project: ProjectContext, job: JobDir) -> str:
    """Return the same for a job that is not open."""
    return job.id if project.has_jobs_inside else str(project.jobs_dir / job.id)


def bind_ledger(session: Session, model: Model, after: str | None, sequence: int) -> ExchangeLedger | None:
    """Return the ledger for the calls of one ask; None if they cost nothing.

    `after`, `sequence`: the place of the ask in the history.
    """
    project = session.project
    if not is_booked(project):
        return None
    job = name_job(session)
    return ExchangeLedger(
        open_ledger(project).folder,
        reservations.name_ask(job, after, sequence),
        job,
        model.provider_model.partition("/")[0],
        model.provider_model,
        project.run_id,
        _list_tags(session),
        list_budgets(project),
        project.budget_settings.budget.timezone,
    )


def bind_recorded(session: Session, ask: RecordedAsk) -> ExchangeLedger | None:
    """Return the same for an ask that is written to disk."""
    return bind_ledger(session, ask.model, ask.after, ask.sequence)


def _list_tags(session: Session) -> tuple[str, ...]:
    """Return the tags of a job and of those that it does a part of."""
    tags, above = list(session.state.tags), session.state.parent
    for _ in range(MAX_DEPTH):
        if above is None:
            break
        try:
            state = read_current_state(session.project.open_job(above))
        except LogistError:
            break  # a job without its parent runs on its own
        tags += [str(tag) for tag in state.get("tags", ())]
        above = state.get("parent")
    return tuple(dict.fromkeys(tags))


@dataclass(frozen=True)
class BudgetShares:
    """The budgets that limit the money of a call, as limits that it shares with other jobs."""

    shares: tuple[Shared, ...] = ()
    refusals: tuple[BudgetRefusal, ...] = ()
    """For each of them, what to report if it doesn't allow the call."""

    def find_refusal(self, job: str, needed: int) -> BudgetRefusal | None:
        """Return the refusal of the budget that is named where a limit has a job; None if it is a job."""
        for share, refusal in zip(self.shares, self.refusals, strict=True):
            if share.job == job:
                return refusal._replace(needed=Cost(needed, 0, 1))
        return None


def count_at_once(project: ProjectContext) -> int:
    """Return how many agents may work at the same time, which share what is left of a budget. Raises SchedulerLost."""
    places = project.workers.count_all_places() if project.workers is not None else 0
    return max(project.settings.max_concurrent_agents, places)


def share_budgets(session: Session, ledger: ExchangeLedger | None) -> BudgetShares:
    """Return the budgets that limit the money of the next call, so that its output is fitted into what is left."""
    project = session.project
    caps = [] if ledger is None else ledger.list_caps(1, project.clock.now().timestamp())
    caps = [cap for cap in caps if cap.microcents is not None]
    if not caps:
        return BudgetShares()
    known = open_ledger(project).read(cap.account for cap in caps).sums
    refusals = tuple(BudgetRefusal(cap, known.get(cap.account, Sums()), NOTHING) for cap in caps)
    most = count_at_once(project)
    return BudgetShares(tuple(_build_share(each, most) for each in refusals), refusals)


def _build_share(refusal: BudgetRefusal, waiting: int) -> Shared:
    cap: Cap = refusal.cap
    limits = Limits(
        cost_threshold=(cap.microcents or 0) / MICROCENTS,
        time_threshold_minutes=_NEVER,
        max_allowed_iterations=int(_NEVER),
    )
    spent, reserved = refusal.sums
    return Shared(
        f"{MARK}{cap.budget}",
        limits,
        totals.make_totals(spent.microcents),
        calls_out=totals.make_totals(reserved.microcents),
        waiting=waiting,
    )


# Settling what earlier commands and couriers have left


def settle_calls(session: Session, exchanges: inflight.Exchanges | None = None) -> None:
    """Settle the open calls of a job, as far as their outcome is known; under the lock of the job, so none is running.

    An answer on disk or in the history has its cost, a request that was never sent costs nothing, and a call in doubt
    stays reserved until the doubt is resolved.
    """
    ledger = open_ledger(session.project)
    if not ledger.exists():
        return
    job = name_job(session)
    try:
        calls = [each for each in ledger.read().open.values() if each.call.job == job]
    except Damaged:
        if is_booked(session.project):
            raise
        return  # an agent that costs nothing needs no ledger
    if not calls:
        return
    in_flight = session.job.read_exchanges() if exchanges is None else exchanges
    calls += _reserve_doubts(session, calls, in_flight)
    known = {each.call.id: _find_cost(session, each, in_flight) for each in calls}
    costs = {call_id: cost for call_id, cost in known.items() if cost is not None}
    ledger.settle(costs, session.project.clock.timestamp())


def _reserve_doubts(
    session: Session, calls: Sequence[OpenCall], exchanges: inflight.Exchanges
) -> list[OpenCall]:
    """Reserve the exchanges in doubt of a worker's result one by one, as on one machine, before its errand is settled."""
    errand = ask_files.read_errand(exchanges)
    number = next(filter(None, (reservations.parse_errand(_name_of(each)) for each in calls)), None)
    if errand is None or not errand.is_accepted or number != errand.number:
        return []
    ask = ask_files.collect_ask(exchanges).ask
    ledger = bind_recorded(session, ask) if ask is not None else None
    if ledger is None:
        return []
    names: list[tuple[reservations.CallName, inflight.Exchange]] = [(each.k, each) for each in exchanges]
    if ask_files.has_gate(exchanges):
        names = [(reservations.name_gate_call(each.k), each) for each in exchanges.gate]
    now, doubts = session.project.clock.now().timestamp(), []
    for name, each in names:
        if each.sent and each.response is None:
            reserved = ask_files.sum_reserved([each]) or ask_files.read_reserved([each]) or 0
            call = ledger.build_call(name, now)
            cost = Cost(reserved, 0, 1)
            open_ledger(session.project).reserve(call, cost, (), session.project.clock.timestamp())
            doubts.append(OpenCall(call, cost, ""))
    return doubts


def _name_of(open_call: OpenCall) -> str:
    return open_call.call.id.rpartition("/")[2]


def settle_deleted_job(project: ProjectContext, job: JobDir) -> None:
    """Settle the open calls of a job that is about to be deleted; what is still in doubt counts as spent."""
    ledger = open_ledger(project)
    if not ledger.exists():
        return
    with suppress(LogistError):  # a job that can't be read is deleted all the same
        settle_calls(load_session(project, job))
    name = name_job_of(project, job)
    costs = {each.call.id: each.cost for each in ledger.read().open.values() if each.call.job == name}
    ledger.settle(costs, project.clock.timestamp())


def book_supplied_cost(session: Session, ask: RecordedAsk, usage: Usage, booked: int = 0) -> None:
    """Book what a person says that a supplied answer has cost; no budget prevents it.

    `booked`: microcents of it that are booked already, for a late result of a worker.
    """
    cost = reservations.count_cost(usage, has_error=False)
    cost = cost._replace(microcents=max(0, cost.microcents - booked))
    if cost.microcents == 0:
        return
    project = session.project
    day = find_local_day(project.clock.now().timestamp(), project.budget_settings.budget.timezone)
    job = name_job(session)
    call_id = f"{reservations.name_ask(job, ask.after, ask.sequence)}/supplied"
    call = BookedCall(call_id, job, day, run=project.run_id, tags=_list_tags(session))
    open_ledger(project).book(call, cost._replace(calls=0), project.clock.timestamp())


def _find_cost(session: Session, open_call: OpenCall, exchanges: inflight.Exchanges) -> Cost | None:
    """Return what a call has cost; None while that is in doubt."""
    ask_id, _, number = open_call.call.id.rpartition("/")
    first = (exchanges[0].request if exchanges else None) or {}
    if (
        exchanges
        and reservations.name_ask(open_call.call.job, first.get("after"), first.get("sequence", 0)) == ask_id
    ):
        if (sending := reservations.parse_errand(number)) is not None:
            return _find_errand_cost(exchanges, sending)
        if number == "1" and ask_files.has_gate(exchanges):
            return NOTHING  # each of its requests is a call
        in_gate = reservations.parse_gate_call(number)
        if in_gate is not None and ask_files.is_gate_lost(exchanges):
            return None
        exchange = (
            next((each for each in exchanges if str(each.k) == number), None)
            if in_gate is None
            else next((each for each in exchanges.gate if each.k == in_gate), None)
        )
        if exchange is None or not (exchange.sent or exchange.response):
            return NOTHING
        if exchange.response is None:
            return None
        try:
            return reservations.read_cost(exchange.response)
        except (KeyError, TypeError, ValueError):
            return None  # who collects it reports the damage
    return _find_recorded_cost(session, open_call, ask_id)


def _find_errand_cost(exchanges: inflight.Exchanges, number: int) -> Cost | None:
    """Return what a worker on another machine has spent on an ask, without what is in doubt; None if it may be at work."""
    errand = ask_files.read_errand(exchanges)
    if errand is None or errand.number < number:
        return NOTHING
    if not errand.ticket and errand.number == number:
        return NOTHING
    if errand.is_away or errand.number > number or ask_files.is_gate_lost(exchanges):
        return None
    answered = exchanges.gate if ask_files.has_gate(exchanges) else exchanges[errand.kept :]
    try:
        costs = [reservations.read_cost(each.response) for each in answered if each.response is not None]
    except (KeyError, TypeError, ValueError):
        return None  # who collects it reports the damage
    return functools.reduce(Cost.plus, costs, NOTHING)


def _find_recorded_cost(session: Session, open_call: OpenCall, ask_id: str) -> Cost | None:
    """Return what the history says about a call whose files are gone."""
    history = session.load_history()
    outcome = next((entry for entry in history if _has_ask_id(entry, open_call.call.job, ask_id)), None)
    if outcome is None:
        # Either its command was killed before the request was on disk, or it was a call of an earlier job with this id,
        # whose directory was removed.
        is_of_this_job = any(
            reservations.name_ask(open_call.call.job, entry.checksum, 0) == ask_id for entry in history
        )
        return NOTHING if is_of_this_job else open_call.cost
    if outcome.kind is not Kind.RECOVER:
        return open_call.cost  # the part of one exchange is not known any more
    if session.is_in_doubt() and not _is_released(outcome, history):
        return None
    command = RecoverCommand.read(outcome.command)
    if command.given_up or _is_released(outcome, history):
        return NOTHING
    booked = command.in_doubt_microcents
    if reservations.parse_gate_call(open_call.call.id.rpartition("/")[2]) is not None:
        return open_call.cost  # `booked` is for all requests that were in doubt
    return open_call.cost if booked is None else open_call.cost._replace(microcents=booked)


def _has_ask_id(entry: Interaction, job: str, ask_id: str) -> bool:
    if not fold.is_agent_asked(entry):
        return False
    return reservations.name_ask(job, entry.exchange or entry.previous, entry.sequence) == ask_id


def _is_released(outcome: Interaction, history: Sequence[Interaction]) -> bool:
    """Whether a person has said that a call in doubt was not charged, or what it has cost."""
    commands = map(kinds.command_of, history)
    return any(
        isinstance(command, AskCommand | ResubmitCommand) and command.released_of == outcome.sequence
        for command in commands
    )
