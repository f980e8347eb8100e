"""Passes the project and the job to a command, so that the command contains only its own work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, update_wrapper
from typing import Any

import click

from logist.cli.options import choose_job_id, choose_jobs, job_options, several_jobs_options
from logist.cli.show.output import Output
from logist.config.environment import Environment


def on_job(command: Callable[..., Output]) -> Callable[..., Output]:
    """Add the options of `job_options` to `command(project, job_id, ...)`. With `agent_option`, the project uses that agent."""
    return job_options(hand_over_job(command))


def hand_over_job(command: Callable[..., Output], *, asks: bool = False) -> Callable[..., Output]:
    """The same for a command that already has the options.

    `asks`: the command calls agents, so the client of its couriers is loaded at the same time as the project.
    """

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
        from logist.cli import early_couriers

        chosen = choose_job_id(environment, job_argument, job_option)
        couriers = early_couriers.begin_to_load(environment, jobs_dir, agent, chosen) if asks else None
        from logist.cli.context import open_project

        project = open_project(environment, jobs_dir, agent, couriers)
        if asks:
            from logist.installed_files import InstalledFiles

            project = replace(project, installed=InstalledFiles())
        return command(project, chosen, **options)

    return update_wrapper(with_job, command)


def on_jobs(command: Callable[..., Output]) -> Callable[..., Output]:
    """Add the options of a decision about one or several jobs to `command(project, jobs, ...)`."""

    @click.pass_obj
    def with_jobs(
        environment: Environment,
        /,
        job_arguments: tuple[str, ...],
        job_option: str | None,
        from_stdin: bool,
        revision: int | None,
        jobs_dir: str | None,
        **options: Any,
    ) -> Output:
        from logist.cli.context import open_project

        chosen = choose_jobs(environment, job_arguments, job_option, from_stdin=from_stdin, revision=revision)
        return command(open_project(environment, jobs_dir), chosen, **options)

    return several_jobs_options(update_wrapper(with_jobs, command))


hand_over_asking_job = partial(hand_over_job, asks=True)
"""The same for a command that calls agents."""
