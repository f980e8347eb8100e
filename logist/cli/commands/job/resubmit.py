"""`logist job resubmit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.commands.job.decide import run_decision
from logist.cli.options import note_option, wait_option
from logist.cli.project import on_job
from logist.cli.shell_values import complete_step
from logist.cli.show.output import Output
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext


@click.command("resubmit")
@click.option("--review", is_flag=True, help="The work is good enough to look at: ask the reviewer.")
@click.option(
    "--to",
    "step",
    metavar="STEP",
    help="The step to go on at  [default: the one that got stuck]",
    shell_complete=complete_step,
)
@click.option("--assume-paid", is_flag=True, help="In doubt: what was booked stands.")
@click.option("--retry", is_flag=True, help="In doubt: it was not charged; the booking is taken back.")
@click.option(
    "--force", is_flag=True, help="Of jobs it waited for: go on with what there is, and leave out the rest."
)
@click.option(
    "--allow",
    multiple=True,
    metavar="TOOL",
    help="Let the agent use a tool that needs your approval, until the job gets stuck again; repeatable.",
)
@on_job
@wait_option
@note_option()
def resubmit(
    project: ProjectContext,
    job_id: str,
    wait: float,
    note: str | None,
    review: bool,
    step: str | None,
    assume_paid: bool,
    retry: bool,
    allow: tuple[str, ...],
    force: bool,
) -> Output:
    """Resolve a STUCK job: have it tried again, with all its attempts, and your note in the prompt.

    A job that is in doubt may have been charged for an answer that never came, and asking again may
    cost again: say --assume-paid or --retry. One whose jobs did not do enough, or whose work does not fit
    together, looks at them again: resolve those first, or say --force.
    """
    if assume_paid and retry:
        raise UsageError("--assume-paid and --retry contradict each other", fix="give one of them")
    from logist.core.model.commands import ResubmitCommand
    from logist.core.permissions.tools import TOOLS

    unknown = [name for name in allow if name not in TOOLS]
    if unknown:
        raise UsageError(
            f"there is no tool {unknown[0]!r}", where="--allow", fix=f"tools: {', '.join(TOOLS)}"
        )
    doubt = "assume_paid" if assume_paid else "retry" if retry else None
    command = ResubmitCommand(
        review=review or None,
        step=step or None,
        doubt=doubt,
        allow=list(allow) or None,
        force=force or None,
    )
    return run_decision("resubmit", project, job_id, wait, note, command)
