"""Opens what commands work with: the project (a `ProjectContext`), a job, the settings, roles and workflows.

Imports what only some commands need when it is needed, because commands that only read start with this module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logist import event_log
from logist.cli.current_job import get_current_directory
from logist.cli.options import choose_job_id
from logist.cli.show import render
from logist.cli.show.output import Diagnostic
from logist.errors import InvalidFile
from logist.event_log import events
from logist.store import JobDir

if TYPE_CHECKING:
    from logist.agents.courier.fork_servers import ForkServers
    from logist.config.environment import Environment
    from logist.config.settings import LoadedSettings
    from logist.config.trust import Claim, Trust
    from logist.jobs.base.job_templates import JobTemplate
    from logist.jobs.base.plain_project import PlainProject
    from logist.jobs.base.project import ProjectContext
    from logist.roles import Roles


def open_job(
    environment: Environment, argument: str | None, option: str | None, jobs_dir: str | None
) -> JobDir:
    """Return the job for a read-only command; works without a valid config or role."""
    chosen = choose_job_id(environment, argument, option)
    return JobDir.open(environment.jobs_dir(jobs_dir, Path(get_current_directory())), chosen)


def open_plain_project(environment: Environment, jobs_dir: str | None) -> PlainProject | None:
    """Return the project for a command that only reads; None if `open_project` must read its config."""
    from logist.config.plain_settings import load_plain_settings
    from logist.jobs.base.plain_project import PlainProject
    from logist.store import describe_problem

    cwd = get_current_directory()
    settings = load_plain_settings(environment.home_name(cwd)[0], environment.user_config_dir_name())
    jobs = Path(environment.jobs_dir_name(jobs_dir, cwd))
    if settings is None or environment.agent_name() or describe_problem(jobs) or not str(jobs).isprintable():
        return None
    return PlainProject(jobs, settings.data, environment)


def open_project(
    environment: Environment,
    jobs_dir: str | None = None,
    agent: str | None = None,
    couriers: ForkServers | None = None,
) -> ProjectContext:
    """Return the project around the current directory. Raises InvalidFile for an invalid config or role."""
    from dataclasses import replace

    from logist.agents.courier import fork_servers
    from logist.cli.stops import get_stop_code
    from logist.jobs.base import project_opening

    if couriers is None:
        command = click.get_current_context(silent=True)  # None in the pytest plugin
        couriers = fork_servers.ForkServers(enabled=command is not None)
        if command is not None:
            command.call_on_close(couriers.close)

    def say(text: str) -> None:
        if event_log.is_on():
            event_log.report(events.MessagePrinted(text))
        render.print_message(text, environment)

    project = project_opening.open_project(
        environment,
        Path(get_current_directory()),
        say=say,
        jobs_dir=jobs_dir,
        agent=agent,
        stopping=get_stop_code,
        couriers=couriers,
    )
    event_log.add_secrets(project.secrets if event_log.is_on() else ())
    return replace(project, via="terminal" if sys.stdin and sys.stdin.isatty() else "pipe")


def note_outside_project(environment: Environment, jobs_dir: str | None, job: str) -> tuple[Diagnostic, ...]:
    """Return a note about a job that was created outside of a project: where it is, and how to create a project."""
    home, source = environment.find_home(Path(get_current_directory()))
    if source != "user" or jobs_dir or environment.has_jobs_dir():
        return ()
    message = (
        f"no project here, so the job {job} is in {home / 'jobs'}; to create a project in this directory "
        "instead, run: logist init, then create the job again"
    )
    return (Diagnostic("info", "outside_project", message),)


def read_project_trust(environment: Environment, loaded: LoadedSettings, roles: Roles) -> Trust:
    """Return what the user trusts in the project around the current directory."""
    from logist.jobs.base import project_opening

    return project_opening.read_project_trust(environment, Path(get_current_directory()), loaded, roles)


def find_template_claims(environment: Environment, template: JobTemplate | None = None) -> list[Claim]:
    """Return what the job templates of the project around the current directory need trust for, or one of them."""
    from logist.jobs.base import project_opening

    return project_opening.find_project_template_claims(environment, Path(get_current_directory()), template)


def warn_untrusted(project: ProjectContext) -> tuple[Diagnostic, ...]:
    """Return a warning if a step would be refused until the user trusts the project's files."""
    try:
        project.trust.require_to_run()
    except InvalidFile as error:
        return (
            Diagnostic(
                "warning",
                "untrusted",
                f"steps will be refused until you trust this project: {error.message}",
                error.where,
                error.fix,
            ),
        )
    return ()


def warn_unknown_models(project: ProjectContext, names: Iterable[str | None]) -> tuple[Diagnostic, ...]:
    """Return a warning for each model of new jobs that no config defines: their steps would be refused, maybe at night."""
    warnings = []
    for name in dict.fromkeys(filter(None, names)):
        try:
            project.find_model(name)
        except InvalidFile as error:
            message = f"steps will be refused: {error.message}"
            warnings.append(Diagnostic("warning", "unknown_model", message, None, error.fix))
    return tuple(warnings)


def load_current_settings(environment: Environment) -> LoadedSettings:
    """Return the settings here, each with its source. Raises InvalidFile for an invalid file."""
    from logist.config.settings import load_settings

    return load_settings(
        environment.find_home(Path(get_current_directory())).path, environment.user_config_dir()
    )


def warn_unused_keys(loaded: LoadedSettings) -> tuple[Diagnostic, ...]:
    """Return a warning for each key of a Coven project that Logist does not use."""
    return tuple(
        Diagnostic("warning", "unused_key", each.message, each.where, each.advice) for each in loaded.unused
    )


def warn_unused_permissions(environment: Environment) -> tuple[Diagnostic, ...]:
    """Return the same for Coven's permissions of agents: users must not believe that such a rule applies."""
    from dataclasses import replace

    from logist.config.coven import PERMISSIONS

    loaded = load_current_settings(environment)
    own = tuple(each for each in loaded.unused if each.key == PERMISSIONS)
    return warn_unused_keys(replace(loaded, unused=own))


def load_known_roles(environment: Environment) -> Roles:
    """Return the shipped roles, overridden by the user's, and those by the project's."""
    from logist.jobs.base import project_opening

    return project_opening.load_known_roles(environment, Path(get_current_directory()))


def list_role_directories(environment: Environment) -> list[Path]:
    """Return the directories of roles; a later one overrides an earlier one."""
    from logist.jobs.base import project_opening

    return project_opening.list_role_directories(environment, Path(get_current_directory()))


def list_workflow_directories(environment: Environment) -> tuple[Path, ...]:
    """Return the directories that are searched for workflows by name: the project's, then the user's."""
    from logist.jobs.base import project_opening
    from logist.workflows import list_workflow_search_path

    return list_workflow_search_path(project_opening.list_layers(environment, Path(get_current_directory())))
