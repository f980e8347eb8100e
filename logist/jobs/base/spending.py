"""What the ledger says, for people: how much of each budget is used, and who has spent what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from logist.core.money.budgets import NOTHING, Account, BookedCall, Cap, Cost, SharedBudget, Sums
from logist.jobs.base import budgets
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.store.ledger import BOOK, RESERVE, SETTLE, Ledger, OpenCall
from logist.timestamps import find_local_day, find_period_end

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext

Group = Literal["day", "month", "job", "provider", "model", "tag", "run"]
DAY, MONTH = len("2026-11-26"), len("2026-11")


class BudgetUse(NamedTuple):
    """How much of a budget is used now."""

    budget: SharedBudget
    cap: Cap
    """With the current day or month."""
    sums: Sums
    ends_at: float | None
    """When the period ends, in seconds since 1970; None if it has no end."""


class PeriodSums(NamedTuple):
    """What all jobs have spent in a period."""

    period: str
    """A day, a month, or empty for all time."""
    sums: Sums


@dataclass(frozen=True)
class Spending:
    """The state of the budgets and of the ledger."""

    uses: tuple[BudgetUse, ...]
    periods: tuple[PeriodSums, ...]
    """Today, this month, all time."""
    open: tuple[OpenCall, ...]
    """The calls without a known outcome, the oldest first."""


def read_spending(project: ProjectContext) -> Spending:
    """Return how much of each budget is used, what was spent, and what is reserved. Raises Damaged, InvalidFile."""
    now = project.clock.now().timestamp()
    timezone = project.budget_settings.budget.timezone
    today = find_local_day(now, timezone)
    periods = [Account("project", today), Account("project", today[:MONTH]), Account("project")]
    known = [(budget, _build_cap(budget, today)) for budget in budgets.list_budgets(project)]
    view = budgets.open_ledger(project).read([*periods, *(cap.account for _, cap in known)])
    return Spending(
        tuple(
            BudgetUse(
                budget,
                cap,
                view.sums.get(cap.account, Sums()),
                find_period_end(now, len(cap.account.period), timezone) if cap.account.period else None,
            )
            for budget, cap in known
        ),
        tuple(PeriodSums(account.period, view.sums.get(account, Sums())) for account in periods),
        tuple(sorted(view.open.values(), key=lambda each: each.at)),
    )


def _build_cap(budget: SharedBudget, today: str) -> Cap:
    """Return the limit for a call that the budget is about; of a run that has not begun, if it is about runs."""
    call = BookedCall(
        "",
        "",
        today,
        provider=budget.of if budget.scope == "provider" else "",
        model=budget.of if budget.scope == "model" else "",
        run="to come" if budget.scope == "run" else "",
        tags=(budget.of,) if budget.scope == "tag" else (),
    )
    cap = budget.build_cap(call)
    assert cap is not None
    return cap


class SpentRow(NamedTuple):
    """What one job, day, model or other group has spent."""

    name: str
    cost: Cost


def sum_spent(ledger: Ledger, group: Group, since: str = "") -> list[SpentRow]:
    """Return what was spent in each group, by name; `since`: only what is booked to this day or later. Raises Damaged.

    A call with several tags counts in each of them.
    """
    sums: dict[str, Cost] = {}
    for call, cost in _list_spent(ledger):
        if call.day >= since:
            for name in _list_names(call, group):
                sums[name] = sums.get(name, NOTHING).plus(cost)
    return [SpentRow(name, sums[name]) for name in sorted(sums)]


def _list_spent(ledger: Ledger) -> Iterator[tuple[BookedCall, Cost]]:
    reserved: dict[str, BookedCall] = {}
    for entry in ledger.read_entries():
        if entry.kind == RESERVE and entry.call is not None:
            reserved[entry.call_id] = entry.call
        elif entry.kind == SETTLE and (call := reserved.pop(entry.call_id, None)) is not None:
            if entry.cost != NOTHING:
                yield call, entry.cost
        elif entry.kind == BOOK and entry.call is not None:
            yield entry.call, entry.cost


def _list_names(call: BookedCall, group: Group) -> Iterable[str]:
    names: dict[Group, Iterable[str]] = {
        "day": (call.day,),
        "month": (call.day[:MONTH],),
        "job": (call.job,),
        "provider": (call.provider,),
        "model": (call.model,),
        "tag": call.tags or ("",),
        "run": (call.run,),
    }
    return names[group]
