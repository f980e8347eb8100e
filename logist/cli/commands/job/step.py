"""`logist job step`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.options import agent_option, wait_option
from logist.cli.project import on_job
from logist.cli.shell_values import complete_model, complete_role
from logist.cli.show.output import Output
from logist.cli.stops import stop_on_signals

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext


@click.command("step")
@stop_on_signals
@on_job
@wait_option
@click.option(
    "--role",
    metavar="NAME",
    help="Ask this role instead of the one that is next.",
    shell_complete=complete_role,
)
@click.option("--model", metavar="NAME", help="Model for this step.", shell_complete=complete_model)
@click.option("--strict", is_flag=True, help="Refuse to run if a template has unfilled placeholders.")
@agent_option
def step(
    project: ProjectContext, job_id: str, wait: float, role: str | None, model: str | None, strict: bool
) -> Output:
    """Run one step of a job: ask an agent, check its answer, and record the result."""
    from logist.cli.show.view import build_result_output
    from logist.jobs.step_job import do_step
    from logist.jobs.turn.next_request import Choice

    return build_result_output(do_step(project, job_id, Choice(role, model, wait, strict=strict)))
