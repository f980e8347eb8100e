"""`logist budget verify`."""

from __future__ import annotations

import click

from logist.cli.options import jobs_dir_option, json_option
from logist.cli.show.output import Output
from logist.config.environment import Environment
from logist.core.text.counts import format_count


@click.command("verify")
@jobs_dir_option
@json_option
@click.pass_obj
def verify(environment: Environment, jobs_dir: str | None) -> Output:
    """Verify the ledger: every entry, the chain of their checksums, and the sums.

    The exit code is 10 if it is damaged; the message names the entry. `logist doctor --fix` restores what the histories of
    the jobs prove.
    """
    from logist.cli import context
    from logist.jobs.base import budgets

    ledger = budgets.open_ledger(context.open_project(environment, jobs_dir))
    count = ledger.verify()
    data = {"folder": str(ledger.folder), "entries": count}
    if not count:
        return Output(data, [f"nothing is booked yet: {ledger.folder}"])
    return Output(data, [f"ledger: OK, {format_count(count, 'entry')} verified"])
