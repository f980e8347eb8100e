"""Passes the project and the job to a command, so that the command contains only its own work."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import click

from logist.cli.options import choose_job_id, job_options
from logist.cli.show.output import Output
from logist.config.environment import Environment


def on_job(command: Callable[..., Output]) -> Callable[..., Output]:
    """Add the options of `job_options` to `command(project, job_id, ...)`. With `agent_option`, the project uses that agent."""
    return job_options(hand_over_job(command))


def hand_over_job(command: Callable[..., Output]) -> Callable[..., Output]:
    """The same for a command that already has the options."""

    @click.pass_obj
    def with_job(
        environment: Environment,
        /,
        job_argument: str | None,
        job_option: str | None,
        jobs_dir: str | None,
        agent: str | None = None,
        **options: Any,
    ) -> Output:
        from logist.cli.context import open_project

        chosen = choose_job_id(environment, job_argument, job_option)
        return command(open_project(environment, jobs_dir, agent), chosen, **options)

    return update_wrapper(with_job, command)
