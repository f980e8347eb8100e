"""`logist job step`."""

from __future__ import annotations

import click

from logist.cli.options import agent_option, job_id, job_options, wait_option
from logist.cli.shell_values import complete_model, complete_role
from logist.cli.show.output import Output
from logist.cli.stops import stop_on_signals
from logist.config.environment import Environment


@click.command("step")
@job_options
@wait_option
@click.option(
    "--role",
    metavar="NAME",
    help="Who is asked, instead of the role whose turn it is.",
    shell_complete=complete_role,
)
@click.option("--model", metavar="NAME", help="The model for this one step.", shell_complete=complete_model)
@click.option("--strict", is_flag=True, help="Nothing is asked where a template can't be filled whole.")
@agent_option
@click.pass_obj
def step(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    wait: float,
    role: str | None,
    model: str | None,
    strict: bool,
    agent: str | None,
) -> Output:
    """Ask one agent for one piece of work, check its answer, record it, move the job on."""
    stop_on_signals()
    from logist.cli import context
    from logist.cli.show.view import result_output
    from logist.jobs.step_job import do_step
    from logist.jobs.turn.next_request import Choice

    project = context.project(environment, jobs_dir, agent)
    chosen = job_id(environment, job_argument, job_option)
    return result_output(do_step(project, chosen, Choice(role, model, wait, strict=strict)))
