"""`logist job run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.options import agent_option, job_id, job_named, json_flag
from logist.cli.show import render
from logist.cli.show.output import Output
from logist.cli.stops import stop_on_signals
from logist.config.environment import Environment

if TYPE_CHECKING:
    from logist.jobs.base.result import CommandResult


@click.command("run")
@click.option("--strict", is_flag=True, help="Nothing is asked where a template can't be filled whole.")
@agent_option
@job_named
@json_flag
@click.pass_obj
def run(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    agent: str | None,
    strict: bool,
    as_json: bool,
) -> Output:
    """Step a job until it waits for a person, ends, or its provider is out.

    Ctrl-C lets a step in hand that costs nothing end; a paid one goes on, and the next command records it.
    """
    stop_on_signals()
    from logist.cli import context
    from logist.cli.show.view import prefixed, result_output, step_lines
    from logist.jobs.job_queue import run_job

    project = context.project(environment, jobs_dir, agent)
    steps: list[CommandResult] = []

    def stepped(result: CommandResult) -> None:
        steps.append(result)
        if not as_json:
            lines = step_lines(result)
            named = lines if result.job_id == chosen else prefixed(result.job_id, lines)
            render.print_lines(named, environment)

    chosen = job_id(environment, job_argument, job_option)
    last = run_job(project, chosen, stepped, strict=strict)
    output = result_output(last, steps=steps)
    return output._replace(exit_code=project.stopping() or output.exit_code)
