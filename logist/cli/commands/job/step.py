"""`logist job step`."""

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
    quiet_option,
    step_wait_option,
)
from logist.cli.project import hand_over_asking_job
from logist.cli.shell_values import complete_role
from logist.cli.show.output import Output
from logist.cli.stops import stop_on_signals

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext


@click.command("step")
@stop_on_signals
@step_wait_option
@click.option(
    "--role",
    metavar="NAME",
    help="Ask this role instead of the one that is next.",
    shell_complete=complete_role,
)
@model_option
@click.option("--strict", is_flag=True, help="Refuse to run if a template has unfilled placeholders.")
@agent_option
@quiet_option
@detach_option
@job_and_dir_options
@json_flag
@hand_over_asking_job
def step(
    project: ProjectContext,
    job_id: str,
    wait: float | None,
    role: str | None,
    model: str | None,
    strict: bool,
    quiet: bool,
    detach: bool,
    as_json: bool,
) -> Output:
    """Run one step of a job: ask an agent, check its answer, and record the result.

    Shows what the agent does while it works. With --detach, the agent continues in the background; the next step
    waits for its answer and records it, and never sends the request again.

    If the provider is not available (429, 5xx, no connection), the step waits for it up to --wait, then ends with exit
    code 6 and the time of the next try. This uses no attempt and records nothing.

    Ctrl-C asks the agent to end, prints what is booked, in flight and unpaid, waits a few seconds for the answer, and
    records what is known. A request without an answer is then in doubt, and the job STUCK. A second Ctrl-C ends the
    command at once; the next step records the rest. SIGTERM or a closed terminal leaves the agent working.
    """
    from logist.cli.show.agent_progress import show_progress_of
    from logist.cli.show.view import build_result_output
    from logist.jobs.step_job import do_step
    from logist.jobs.turn.next_request import Choice

    project = replace(show_progress_of(project, quiet=quiet, as_json=as_json), detach=detach)
    choice = Choice(role, model, wait or 0.0, strict=strict, provider_wait=choose_provider_wait(wait))
    return build_result_output(do_step(project, job_id, choice), jobs_dir=project.jobs_dir)
