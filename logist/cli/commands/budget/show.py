"""`logist budget show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import jobs_dir_option, json_option
from logist.cli.show.output import Diagnostic, Line, Output, StyledText, TextTable
from logist.config.environment import Environment
from logist.core.money.amounts import format_money, split_cents
from logist.core.money.budgets import NOTHING, Cost
from logist.timestamps import format_local, format_utc

if TYPE_CHECKING:
    from logist.jobs.base.spending import BudgetUse, PeriodSums
    from logist.store.ledger import OpenCall

HEAD = ("BUDGET", "FOR", "USED", "RESERVED", "UNTIL")
LISTED = 10
"""Maximum number of calls without an answer in the text; --json has all."""


@click.command("show")
@jobs_dir_option
@json_option
@click.pass_obj
def show(environment: Environment, jobs_dir: str | None) -> Output:
    """Show how much of each budget is used, what all jobs have spent, and what is reserved.

    What is reserved are the highest possible costs of calls that run now, or of which it is unknown whether they were
    charged. It counts as used.
    """
    from logist.cli import context
    from logist.jobs.base.spending import read_spending

    spending = read_spending(context.open_project(environment, jobs_dir))
    data = {
        "budgets": [_build_row(use) for use in spending.uses],
        "spent": [_build_period(each) for each in spending.periods],
        "open": [
            {"job": each.call.job, "call": each.call.id, "since": each.at, **to_json(each.cost)}
            for each in spending.open
        ],
    }
    notes: tuple[Diagnostic, ...] = ()
    if not spending.uses:
        fix = "to set one: logist budget set daily --per day --cost CENTS"
        notes = (Diagnostic("info", "no_budgets", "no budgets are set", None, fix),)
    table = TextTable(HEAD, [_format_row(use) for use in spending.uses]) if spending.uses else None
    lines = [*map(_format_period, spending.periods), *_format_open(spending.open)]
    return Output(data, diagnostics=notes, table=table, above=lines)


def to_json(cost: Cost) -> dict[str, int]:
    """Return an amount as JSON."""
    cents, fraction = split_cents(max(0, cost.microcents))
    return {"cost_cents": cents, "cost_microcents": fraction, "tokens": cost.tokens, "calls": cost.calls}


def _build_row(use: BudgetUse) -> dict[str, Any]:
    cap = use.cap
    limit = None if cap.microcents is None else split_cents(cap.microcents)
    return {
        "name": use.budget.name,
        "for": use.budget.scope,
        "of": use.budget.of or None,
        "per": "run" if use.budget.scope == "run" else use.budget.per or None,
        "period": cap.account.period or None,
        "ends_at": None if use.ends_at is None else format_utc(use.ends_at),
        "limit": {
            "cost_cents": limit and limit[0],
            "cost_microcents": limit and limit[1],
            "tokens": cap.tokens,
            "calls": cap.calls,
        },
        "spent": to_json(use.sums.spent),
        "reserved": to_json(use.sums.reserved),
        "used_up": is_used_up(use),
    }


def is_used_up(use: BudgetUse) -> bool:
    """Whether nothing is left of a budget."""
    cap, used = use.cap, use.sums.get_total()
    pairs = ((cap.microcents, used.microcents), (cap.tokens, used.tokens), (cap.calls, used.calls))
    return any(limit is not None and amount >= limit for limit, amount in pairs)


def _build_period(each: PeriodSums) -> dict[str, Any]:
    return {
        "period": each.period or None,
        "spent": to_json(each.sums.spent),
        "reserved": to_json(each.sums.reserved),
    }


def _format_row(use: BudgetUse) -> tuple[StyledText | str, ...]:
    color = "red" if is_used_up(use) else ""
    name = StyledText(use.budget.name, "bold")
    used = use.cap.describe_use(use.sums.get_total())
    if use.budget.scope == "run":  # what earlier runs have used doesn't count
        return name, use.budget.describe(), f"up to {use.cap.describe()}", "", ""
    reserved = use.cap.describe_amounts(use.sums.reserved) if use.sums.reserved != NOTHING else ""
    end = "" if use.ends_at is None else format_local(use.ends_at)
    return name, use.budget.describe(), StyledText(used, color), reserved, end


def _format_period(each: PeriodSums) -> Line:
    what = f"spent in {each.period}: " if each.period else "spent in all: "
    return what, each.sums.spent.describe()


def _format_open(calls: tuple[OpenCall, ...]) -> list[Line]:
    lines: list[Line] = [
        f"reserved: up to {format_money(each.cost.microcents)} by {each.call.job}, since {format_local(each.at)}"
        for each in calls[:LISTED]
    ]
    more = len(calls) - LISTED
    return [*lines, f"and {more} more calls without an answer"] if more > 0 else lines
