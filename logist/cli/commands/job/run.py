"""`logist job run`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from logist.cli.options import (
    agent_option,
    choose_provider_wait,
    detach_option,
    job_and_dir_options,
    json_flag,
    model_option,
    provider_wait_option,
    quiet_option,
)
from logist.cli.project import hand_over_asking_job
from logist.cli.show import render
from logist.cli.show.output import Output
from logist.cli.stops import report_upgrade, stop_on_signals
from logist.core.model.words import TERMINAL
from logist.errors import Refused

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.result import CommandResult


@click.command("run")
@stop_on_signals
@provider_wait_option
@click.option("--strict", is_flag=True, help="Refuse to run if a template has unfilled placeholders.")
@model_option
@agent_option
@quiet_option
@detach_option
@job_and_dir_options
@json_flag
@hand_over_asking_job
def run(
    project: ProjectContext,
    job_id: str,
    wait: float | None,
    model: str | None,
    strict: bool,
    quiet: bool,
    detach: bool,
    as_json: bool,
) -> Output:
    """Run a job until it waits for a person, ends, or its provider fails.

    Shows what the agents do while they work. With --detach, the first agent continues in the background; the next
    run waits for its answer, records it and continues.

    If a provider is not available (429, 5xx, no connection), the run waits for it up to --wait at each step, then ends
    with exit code 6 and the time of the next try.

    Ctrl-C asks the agent to end, prints what is booked, in flight and unpaid, waits a few seconds for the answer, and
    records what is known. A request without an answer is then in doubt, and the job STUCK. A scripted agent finishes
    its step first. A second Ctrl-C ends the command at once. SIGTERM or a closed terminal leaves the agent working,
    and the next command records its answer.
    """
    from logist.cli.show.agent_progress import show_progress_of
    from logist.cli.show.view import build_result_output, prefix_lines, step_lines
    from logist.jobs.job_queue import run_job
    from logist.jobs.turn.next_request import Choice

    project = replace(show_progress_of(project, quiet=quiet, as_json=as_json), detach=detach)
    environment = project.environment
    steps: list[CommandResult] = []

    def show_step(result: CommandResult) -> None:
        steps.append(result)
        if not as_json:
            lines = step_lines(result, project.jobs_dir)
            named = lines if result.job_id == job_id else prefix_lines(result.job_id, lines)
            render.print_lines(named, environment)

    choice = Choice(model=model, command="run", strict=strict, provider_wait=choose_provider_wait(wait))
    last = run_job(project, job_id, show_step, choice)
    output = build_result_output(last, steps=steps)
    upgrade = report_upgrade(project) if last.exit_code == 0 and last.state.status not in TERMINAL else ()
    code = project.stopping() or (Refused.exit_code if upgrade else output.exit_code)
    return output._replace(exit_code=code, diagnostics=(*output.diagnostics, *upgrade))
