"""`logist budget history`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from logist.cli.commands.budget.show import to_json
from logist.cli.options import jobs_dir_option, json_option
from logist.cli.show.output import Diagnostic, Output, StyledText, TextTable
from logist.config.environment import Environment
from logist.core.money.amounts import format_money
from logist.errors import UsageError
from logist.timestamps import parse_time

if TYPE_CHECKING:
    from logist.jobs.base.spending import Group, SpentRow

GROUPS = ("day", "month", "job", "provider", "model", "tag", "run")
SUPPLIED = "(none)"
"""The name of what has no model, tag or run."""


@click.command("history")
@click.option(
    "--by", type=click.Choice(GROUPS), default="day", show_default=True, help="What the sums are about."
)
@click.option("--since", metavar="DATE", help="Only what was booked on this day or later: YYYY-MM-DD.")
@jobs_dir_option
@json_option
@click.pass_obj
def history(environment: Environment, by: str, since: str | None, jobs_dir: str | None) -> Output:
    """Show what was spent, by day, month, job, provider, model, tag or run.

    Jobs that were deleted are included. A call is booked to the day on which it was begun.
    """
    from logist.cli import context
    from logist.jobs.base import budgets
    from logist.jobs.base.spending import sum_spent

    if since is not None and (parse_time(since) is None or len(since) != len("2026-11-26")):
        raise UsageError(f"invalid date {since!r}", where="--since", fix="use YYYY-MM-DD, such as 2026-11-26")
    project = context.open_project(environment, jobs_dir)
    rows = sum_spent(budgets.open_ledger(project), cast("Group", by), since or "")
    data = {"by": by, "rows": [{"name": row.name or None, **to_json(row.cost)} for row in rows]}
    if not rows:
        note = Diagnostic("info", "nothing_spent", "nothing was spent yet")
        return Output(data, diagnostics=(note,))
    return Output(data, table=TextTable((by.upper(), "COST", "TOKENS", "CALLS"), map(_format_row, rows)))


def _format_row(row: SpentRow) -> tuple[StyledText | str, ...]:
    cost = row.cost
    name = StyledText(row.name or SUPPLIED, "bold" if row.name else "dim")
    return name, format_money(cost.microcents), f"{cost.tokens:,}", f"{cost.calls:,}"
