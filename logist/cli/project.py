"""Hands a command the project and the job that it is about, so that the command is its work and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import click

from logist.cli.options import choose_job_id, job_options
from logist.cli.show.output import Output
from logist.config.environment import Environment


def on_job(command: Callable[..., Output]) -> Callable[..., Output]:
    """For `command(project, job_id, ...)`: the options of `job_options`. With `agent_option`, the project asks that agent."""
    return job_options(hand_over_job(command))


def hand_over_job(command: Callable[..., Output]) -> Callable[..., Output]:
    """The same for a command that has the options already."""

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
