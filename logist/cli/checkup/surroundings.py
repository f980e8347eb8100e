"""Loads the project for checks, which also work if a config or a role is invalid."""

from __future__ import annotations

from pathlib import Path

from logist.cli.current_job import get_current_directory
from logist.cli.show import render
from logist.config.environment import Environment, require_utf8
from logist.config.settings import Settings, load_settings, load_user_settings
from logist.config.trust import Trust
from logist.errors import LogistError
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.project_opening import create_clock, load_known_roles
from logist.resources import find_resource
from logist.roles import Roles, load_roles


def surroundings(
    environment: Environment, jobs_dir: str | None, *, strict: bool = False, directory: Path | None = None
) -> ProjectContext:
    """Return the project of the directory (default: the current one), with default settings if its config is invalid.

    With `strict`, raises InvalidFile for an invalid config. The project needs no trust, because no program of its
    config is started.
    """
    cwd = directory or Path(get_current_directory())
    jobs = require_utf8(
        environment.jobs_dir_name(jobs_dir, str(cwd)), "the jobs directory", "choose another with --jobs-dir"
    )
    home = environment.find_home(cwd).path
    return ProjectContext(
        home=home,
        jobs_dir=Path(jobs),
        settings=_settings(environment, home, strict=strict),
        roles=_roles(environment, cwd, strict=strict),
        environment=environment,
        clock=create_clock(),
        steward=environment.user_name(),
        agent="model",
        say=lambda text: render.print_message(text, environment),
        trust=Trust(environment.user_config_dir(), home),
    )


def _settings(environment: Environment, home: Path, *, strict: bool) -> Settings:
    try:
        return load_settings(home, environment.user_config_dir()).settings
    except LogistError:
        if strict:
            raise
    try:  # how decisions are signed must not depend on what is in a project
        return load_user_settings(environment.user_config_dir())
    except LogistError:
        return Settings()


def _roles(environment: Environment, cwd: Path, *, strict: bool) -> Roles:
    try:
        return load_known_roles(environment, cwd)
    except LogistError:
        if strict:
            raise
        return load_roles([find_resource("roles")])
