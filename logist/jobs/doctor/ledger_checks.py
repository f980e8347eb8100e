"""The check of the ledger, and its repair: what is intact, and what the histories of the jobs prove."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from logist.agents.courier import reservations
from logist.core.history import fold
from logist.core.model import Interaction, Kind
from logist.core.money.budgets import NOTHING, BookedCall, Cost
from logist.errors import Damaged, InvalidFile, LogistError
from logist.jobs.base import budgets, call_limits, job_reader
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.session import load_session
from logist.jobs.doctor.backup import Backup
from logist.jobs.doctor.checks import FIX, Finding, damage, invalid, repairable, warning
from logist.store import JobDir, list_jobs
from logist.store.ledger import BOOK, RESERVE, SETTLE, Ledger, LedgerEntry, OpenCall
from logist.timestamps import find_local_day

CHECK = "ledger"
FREE_AGENTS = ("scripted", "given", "")
"""Agents whose answers cost nothing; empty in histories of other tools."""


def find_ledger_problems(project: ProjectContext) -> Iterator[Finding]:
    """Verify the budgets and the ledger, and find calls of deleted jobs that are still reserved."""
    try:
        budgets.list_budgets(project)
    except InvalidFile as error:
        yield invalid("budgets", f"{error.where}: {error.message}", error.fix)
    for name, limit in project.budget_settings.budget.limits.items():
        if limit.provider is not None:
            where = f"budget.limits.{name}.provider"
            try:
                call_limits.require_known_provider(project.budget_settings, limit.provider, where)
            except InvalidFile as error:  # steps go on: the provider may be in the config of another project
                yield warning("budgets", f"{where}: {error.message}; it limits nothing", error.fix)
    try:
        call_limits.list_call_rates(project.budget_settings)
    except InvalidFile as error:
        yield invalid("rate limits", f"{error.where}: {error.message}", error.fix)
    ledger = budgets.open_ledger(project)
    if not ledger.exists():
        return
    try:
        count = ledger.verify()
    except Damaged as error:
        yield repairable(damage(CHECK, error.message, None), ledger.folder)
        return
    except LogistError as error:
        yield Finding(CHECK, "error", error.message, error.fix, error.exit_code)
        return
    if forgotten := _list_forgotten(project, ledger):
        names = ", ".join(sorted({each.call.job for each in forgotten})[:3])
        message = f"calls of jobs that don't exist any more are still reserved: {names}"
        yield repairable(warning(CHECK, message, FIX), ledger.folder)
        return
    yield Finding(CHECK, "ok", f"{count} entries")


def _list_forgotten(project: ProjectContext, ledger: Ledger) -> list[OpenCall]:
    if not project.has_jobs_inside:
        return []  # the jobs of the project itself are elsewhere
    known = set(list_jobs(project.jobs_dir))
    return [each for each in ledger.read().open.values() if _is_forgotten(each.call.job, known)]


def _is_forgotten(job: str, known: set[str]) -> bool:
    """Whether a job is gone; one in another directory is named by its path."""
    return not Path(job).is_dir() if "/" in job else job not in known


def repair_ledger(project: ProjectContext, paths: tuple[Path, ...], backup: Backup) -> None:
    """Write a damaged ledger again; or settle calls of deleted jobs at their worst case, because they may be paid."""
    ledger = budgets.open_ledger(project)
    for path in ledger.list_files():
        backup.copy(path)
    with suppress(Damaged):
        ledger.verify()
        forgotten = _list_forgotten(project, ledger)
        ledger.settle({each.call.id: each.cost for each in forgotten}, project.clock.timestamp())
        return
    proved = list(_list_calls(project))
    asks = {_find_ask_id(call.id) for call, _, _ in proved}
    entries = list(_complete_settlements(ledger.read_intact_entries(), asks))
    ledger.replace([*entries, *_list_missing(project, entries, proved)])


def _complete_settlements(entries: list[LedgerEntry], asks: set[str]) -> Iterator[LedgerEntry]:
    """Yield the entries without settlements whose reservation was damaged.

    If no history has such a call, as that of a deleted job, its cost is booked without provider, model and tags.
    """
    reserved = set()
    for entry in entries:
        if entry.kind == RESERVE:
            reserved.add(entry.call_id)
        if entry.kind != SETTLE or entry.call_id in reserved:
            yield entry
        elif _find_ask_id(entry.call_id) not in asks:
            job = entry.call_id.rsplit("/", 2)[0]
            yield entry._replace(
                kind=BOOK, call=BookedCall(entry.call_id, job, entry.at[: len("2026-11-26")])
            )


def _list_calls(project: ProjectContext) -> Iterator[tuple[BookedCall, Cost, Kind]]:
    """Yield the calls that the histories of the jobs have, each with its cost and the kind of its interaction.

    What a fork has copied was paid once.
    """
    seen = set[str]()
    for job_id in list_jobs(project.jobs_dir):
        with suppress(LogistError):  # another check reports a damaged job
            job = project.open_job(job_id)
            tags = tuple(load_session(project, job).state.tags)
            for entry in job_reader.read_interactions(job):
                call, cost = _read_call(project, job, entry, tags)
                if cost != NOTHING and entry.checksum not in seen:
                    seen.add(str(entry.checksum))
                    yield call, cost, entry.kind


def _list_missing(
    project: ProjectContext, entries: list[LedgerEntry], proved: list[tuple[BookedCall, Cost, Kind]]
) -> Iterator[LedgerEntry]:
    """Yield what the histories say was spent and these entries don't have."""
    spent, reserved = _sum_by_ask(entries)
    at = project.clock.timestamp()
    for call, cost, kind in proved:
        ask_id = _find_ask_id(call.id)
        known, still_open = spent.get(ask_id, NOTHING), reserved.get(ask_id, {})
        if kind is Kind.RECOVER:  # it may still be in doubt
            known = functools.reduce(Cost.plus, still_open.values(), known)
        else:
            for call_id in still_open:  # their part of the cost is in `missing`
                yield LedgerEntry(0, SETTLE, at, call_id, NOTHING, None)
        missing = _find_missing_part(cost, known)
        if missing != NOTHING:
            yield LedgerEntry(0, BOOK, at, call.id, missing, call)


def _find_ask_id(call_id: str) -> str:
    return call_id.rpartition("/")[0]


def _sum_by_ask(entries: list[LedgerEntry]) -> tuple[dict[str, Cost], dict[str, dict[str, Cost]]]:
    """Return for each ask what is spent, and what is reserved for each of its calls."""
    spent: dict[str, Cost] = {}
    reserved: dict[str, dict[str, Cost]] = {}
    for entry in entries:
        ask_id = _find_ask_id(entry.call_id)
        if entry.kind == RESERVE:
            reserved.setdefault(ask_id, {})[entry.call_id] = entry.cost
        elif entry.kind in (SETTLE, BOOK):
            reserved.get(ask_id, {}).pop(entry.call_id, None)
            spent[ask_id] = spent.get(ask_id, NOTHING).plus(entry.cost)
    return spent, reserved


def _read_call(
    project: ProjectContext, job: JobDir, entry: Interaction, tags: tuple[str, ...]
) -> tuple[BookedCall, Cost]:
    """Return the call of an interaction as the ledger names it, and what it has cost; nothing if no agent was paid."""
    name = budgets.name_job_of(project, job)
    ask_id = reservations.name_ask(name, entry.exchange or entry.previous, entry.sequence)
    metadata = entry.request.metadata
    model = str(metadata.get("provider_model") or "")
    day = find_local_day(
        datetime.fromisoformat(entry.timestamp).timestamp(), project.budget_settings.budget.timezone
    )
    call = BookedCall(f"{ask_id}/restored", name, day, model.partition("/")[0], model, tags=tags)
    is_paid = fold.is_agent_asked(entry) and metadata.get("agent", "") not in FREE_AGENTS
    is_supplied = entry.usage.source == "steward"
    if not is_paid and not is_supplied:
        return call, NOTHING
    cost = reservations.count_cost(entry.usage, has_error=entry.response.error is not None)
    return call, cost._replace(calls=0) if is_supplied else cost


def _find_missing_part(cost: Cost, known: Cost) -> Cost:
    """Return how much of a cost is not known yet; nothing of what is known to be more."""
    return Cost(*(max(0, amount) for amount in cost.minus(known)))
