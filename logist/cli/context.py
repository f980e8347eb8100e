"""Creates a Project from files, environment and options, for the commands that change jobs."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from logist.cli.current_job import get_current_directory
from logist.cli.options import choose_job_id, require_utf8
from logist.cli.show import render
from logist.cli.show.output import Diagnostic
from logist.cli.stops import get_stop_code
from logist.config.coven import PERMISSIONS
from logist.config.environment import Environment, list_config_directories
from logist.config.settings import LoadedSettings, Settings, load_settings
from logist.config.trust import Trust, read_trust
from logist.errors import InvalidFile, UsageError
from logist.jobs.base.project import SCRIPTED, Clock, ProjectContext
from logist.resources import find_resource
from logist.roles import LoadedRole, Roles, load_roles
from logist.store import JobDir, require_local


def open_job(
    environment: Environment, argument: str | None, option: str | None, jobs_dir: str | None
) -> JobDir:
    """Return the job that a reading command is about; needs no valid config, and no role."""
    chosen = choose_job_id(environment, argument, option)
    return JobDir.open(environment.jobs_dir(jobs_dir, Path(get_current_directory())), chosen)


def create_clock() -> Clock:
    """Return the machine's clock."""
    return Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)


def open_project(
    environment: Environment, jobs_dir: str | None = None, agent: str | None = None
) -> ProjectContext:
    """Return the project around the current directory. Raises InvalidFile for a config that is not valid."""
    cwd = Path(get_current_directory())
    jobs = require_utf8(
        environment.jobs_dir_name(jobs_dir, str(cwd)), "the directory of the jobs", "--jobs-dir DIR"
    )
    require_local(Path(jobs))
    home = environment.find_home(cwd).path
    loaded = load_settings(home, environment.user_config_dir())
    roles = load_known_roles(environment)
    return ProjectContext(
        home=home,
        jobs_dir=Path(jobs),
        settings=loaded.settings,
        roles=roles,
        environment=environment,
        clock=create_clock(),
        steward=environment.user_name(),
        agent=_choose_agent(agent or environment.agent_name(), loaded.settings),
        say=lambda text: render.print_message(text, environment),
        trust=read_project_trust(environment, loaded, roles),
        stopping=get_stop_code,
    )


def note_outside_project(environment: Environment, jobs_dir: str | None, job: str) -> tuple[Diagnostic, ...]:
    """Return a note for a job that was created outside of any project: where it is, and how to have it in a
    project.
    """
    home, source = environment.find_home(Path(get_current_directory()))
    if source != "user" or jobs_dir or environment.has_jobs_dir():
        return ()
    message = (
        f"there is no project here, so the job {job} is in {home / 'jobs'}; to make a project of this directory "
        "instead: logist init, then make the job again"
    )
    return (Diagnostic("info", "outside_project", message),)


def read_project_trust(environment: Environment, loaded: LoadedSettings, roles: Roles) -> Trust:
    """Return the trust of the project around the current directory; it
    claims nothing in a user's own home.
    """
    home, source = environment.find_home(Path(get_current_directory()))
    user = environment.user_config_dir()
    if source != "project":
        return Trust(user, home)
    own = [(loaded.role, loaded.path) for loaded in _list_own_roles(home, roles)]
    return read_trust(user, home, loaded, own)


def warn_untrusted(project: ProjectContext) -> tuple[Diagnostic, ...]:
    """Return a warning if a step would be refused until the user trusts the project's files."""
    try:
        project.trust.require_to_run()
    except InvalidFile as error:
        return (
            Diagnostic(
                "warning",
                "untrusted",
                f"a step needs your trust first: {error.message}",
                error.where,
                error.fix,
            ),
        )
    return ()


def _list_own_roles(home: Path, roles: Roles) -> list[LoadedRole]:
    """Return the roles whose files are in the project."""
    folders = {layer / "roles" for layer in list_config_directories(home, home)}
    return [loaded for loaded in roles.by_name.values() if loaded.path.parent in folders]


def load_current_settings(environment: Environment) -> LoadedSettings:
    """Return the settings here, each with its source. Raises InvalidFile for a file that is not valid."""
    return load_settings(
        environment.find_home(Path(get_current_directory())).path, environment.user_config_dir()
    )


def warn_unused_keys(loaded: LoadedSettings) -> tuple[Diagnostic, ...]:
    """Return a warning for each key of a Coven project that Logist does not use."""
    return tuple(
        Diagnostic("warning", "unused_key", each.message, each.where, each.advice) for each in loaded.unused
    )


def warn_unused_permissions(environment: Environment) -> tuple[Diagnostic, ...]:
    """Return the same for Coven's permissions of agents: the maker of a job must not think that such a rule
    applies.
    """
    loaded = load_current_settings(environment)
    own = tuple(each for each in loaded.unused if each.key == PERMISSIONS)
    return warn_unused_keys(replace(loaded, unused=own))


def load_known_roles(environment: Environment) -> Roles:
    """Return the shipped roles, overridden by the user's, and those by the project's."""
    return load_roles(list_role_directories(environment))


def list_role_directories(environment: Environment) -> list[Path]:
    """Return the directories of roles, the strongest last."""
    return [find_resource("roles"), *(layer / "roles" for layer in _list_layers(environment))]


def list_workflow_directories(environment: Environment) -> tuple[Path, ...]:
    """Return the directories that are searched for workflows by name: the project's, then the user's."""
    from logist.workflows import list_workflow_search_path

    return list_workflow_search_path(_list_layers(environment))


def _list_layers(environment: Environment) -> tuple[Path, ...]:
    return list_config_directories(
        environment.find_home(Path(get_current_directory())).path, environment.user_config_dir()
    )


def _choose_agent(chosen: str | None, settings: Settings) -> str:
    """Return the agent to use; the agent of the config is checked when it is used."""
    if not chosen:
        return settings.agent
    if chosen != "litellm" and not chosen.startswith(SCRIPTED):
        from logist.agents.programs import finding

        known = finding.list_program_names(settings.agents)
        if chosen not in known:
            fix = f"litellm, scripted:PATH, or a program: {', '.join(known)}"
            raise UsageError(f"unknown agent {chosen!r}", where="--agent", fix=fix)
    return chosen
