"""`logist job resubmit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.commands.job.decide import run_decision
from logist.cli.options import note_option, wait_option
from logist.cli.project import on_jobs
from logist.cli.shell_values import complete_step
from logist.cli.show.output import Output
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.cli.options import ChosenJobs
    from logist.jobs.base.project import ProjectContext


@click.command("resubmit")
@click.option("--review", is_flag=True, help="Have the reviewer check the work, instead of trying again.")
@click.option(
    "--to",
    "step",
    metavar="STEP",
    help="Step to continue at  [default: the one that got stuck]",
    shell_complete=complete_step,
)
@click.option("--assume-paid", is_flag=True, help="In doubt: keep the booked cost.")
@click.option("--retry", is_flag=True, help="In doubt: the request was not charged; cancel the booked cost.")
@click.option(
    "--force",
    is_flag=True,
    help="With child jobs: continue with the results there are, and leave out the rest.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="TOOL",
    help="Allow a tool that needs your approval, until the job gets stuck again; repeatable.",
)
@on_jobs
@wait_option
@note_option()
def resubmit(
    project: ProjectContext,
    jobs: ChosenJobs,
    wait: float,
    note: str | None,
    review: bool,
    step: str | None,
    assume_paid: bool,
    retry: bool,
    allow: tuple[str, ...],
    force: bool,
) -> Output:
    """Resolve a STUCK job and try again.

    Attempts start over, and your note is added to the prompt. A job in doubt may have been charged for an answer
    that never arrived, and asking again may cost again: use --assume-paid or --retry. A job that is STUCK because
    its child jobs failed, or because their work conflicts, checks them again: resolve those first, or use --force.
    """
    if assume_paid and retry:
        raise UsageError("can't use --assume-paid and --retry together", fix="use only one of them")
    from logist.core.model.commands import ResubmitCommand
    from logist.core.permissions.tools import TOOLS, is_server_tool

    unknown = [name for name in allow if name not in TOOLS and not is_server_tool(name)]
    if unknown:
        raise UsageError(
            f"unknown tool {unknown[0]!r}", where="--allow", fix=f"tools: {', '.join(TOOLS)}, or SERVER__TOOL"
        )
    doubt = "assume_paid" if assume_paid else "retry" if retry else None
    command = ResubmitCommand(
        review=review or None,
        step=step or None,
        doubt=doubt,
        allow=list(allow) or None,
        force=force or None,
    )
    return run_decision("resubmit", project, jobs, wait, note, command)
