"""Opens a project: finds its directory, loads settings and roles, and decides which agent is asked.

The command line and the Python interface both begin here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from logist.agents import protocol
from logist.agents.courier import fork_servers
from logist.config.environment import Environment, list_config_directories, require_utf8
from logist.config.settings import (
    CurrentSettings,
    LoadedSettings,
    Settings,
    list_settings_files,
    load_settings,
)
from logist.config.trust import Claim, Trust, find_template_claims, read_trust
from logist.errors import InvalidFile, UsageError
from logist.jobs.base.project import SCRIPTED, Clock, ProjectContext
from logist.resources import find_resource
from logist.roles import LoadedRole, Roles, load_roles, loading
from logist.roles.shipped_roles import list_shipped_roles
from logist.store import require_local

if TYPE_CHECKING:
    from logist.agents.courier.fork_servers import ForkServers
    from logist.jobs.base.job_templates import JobTemplate


def create_clock() -> Clock:
    """Return the machine's clock."""
    return Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)


def open_project(
    environment: Environment,
    directory: Path,
    *,
    say: Callable[[str], None],
    jobs_dir: str | None = None,
    agent: str | None = None,
    stopping: Callable[[], int] = lambda: 0,
    couriers: ForkServers | None = None,
) -> ProjectContext:
    """Return the project around a directory. Raises InvalidFile for an invalid config or role.

    `jobs_dir` and `agent`: instead of those of the environment and the config. `say` gets progress messages.
    """
    jobs = require_utf8(
        environment.jobs_dir_name(jobs_dir, str(directory)),
        "the jobs directory",
        "choose another with --jobs-dir",
    )
    require_local(Path(jobs))
    home = environment.find_home(directory).path
    user = environment.user_config_dir()

    def load_trusted_settings() -> Settings:
        loaded = load_settings(home, user)
        read_project_trust(environment, directory, loaded, roles).require_to_run()
        return loaded.settings

    current_settings = CurrentSettings(list_settings_files(home, user), load_trusted_settings)
    loaded = load_settings(home, user)
    roles = load_known_roles(environment, directory)
    return ProjectContext(
        home=home,
        jobs_dir=Path(jobs),
        settings=loaded.settings,
        roles=roles,
        environment=environment,
        clock=create_clock(),
        steward=environment.user_name(),
        agent=_choose_agent(
            agent or environment.agent_name(), loaded.settings, "--agent" if agent else "LOGIST_AGENT"
        ),
        say=say,
        trust=read_project_trust(environment, directory, loaded, roles),
        stopping=stopping,
        couriers=couriers or fork_servers.ForkServers(enabled=False),
        current_settings=current_settings,
    )


def load_known_roles(environment: Environment, directory: Path) -> Roles:
    """Return the shipped roles, overridden by the user's, and those by the project's."""
    shipped = list_shipped_roles(map(str, list_layers(environment, directory)))
    if shipped is not None:
        return loading.read_roles_on_use({row["name"]: Path(row["file"]) for row in shipped})
    return load_roles(list_role_directories(environment, directory))


def list_role_directories(environment: Environment, directory: Path) -> list[Path]:
    """Return the directories of roles; a later one overrides an earlier one."""
    return [find_resource("roles"), *(layer / "roles" for layer in list_layers(environment, directory))]


def list_layers(environment: Environment, directory: Path) -> tuple[Path, ...]:
    """Return the directories with roles/ and workflows/; a later one overrides an earlier one."""
    return list_config_directories(environment.find_home(directory).path, environment.user_config_dir())


def read_project_trust(
    environment: Environment, directory: Path, loaded: LoadedSettings, roles: Roles
) -> Trust:
    """Return what the user trusts in this project. Files in the user's own home need no trust."""
    home, source = environment.find_home(directory)
    user = environment.user_config_dir()
    if source != "project":
        return Trust(user, home)
    own = [(each.role, each.path) for each in _list_own_roles(home, roles)]
    digest = environment.trusted_digest()
    templates = find_project_template_claims(environment, directory) if digest is not None else ()
    return read_trust(user, home, loaded, own, digest, templates)


def find_project_template_claims(
    environment: Environment, directory: Path, template: JobTemplate | None = None
) -> list[Claim]:
    """Return what the job templates of this project claim, or one of them, if it is of this project.

    A broken template claims nothing: it can't be used.
    """
    from logist.jobs.base import job_templates  # noqa: PLC0415 - few commands look at a template

    home, source = environment.find_home(directory)
    if source != "project":
        return []
    claims: list[Claim] = []
    for layer in list_config_directories(home, home):
        for path in job_templates.list_template_files(layer):
            if template is not None and os.path.realpath(path) != os.path.realpath(template.path):
                continue
            with suppress(InvalidFile):
                data = (template or job_templates.load_template(path)).document.data
                claims += find_template_claims(path.stem, data, str(path))
    return list({claim.key: claim for claim in claims}.values())


def _list_own_roles(home: Path, roles: Roles) -> list[LoadedRole]:
    """Return the roles whose files are in the project."""
    if roles.are_shipped:
        return []
    folders = {layer / "roles" for layer in list_config_directories(home, home)}
    return [loaded for loaded in roles.by_name.values() if loaded.path.parent in folders]


def _choose_agent(chosen: str | None, settings: Settings, where: str) -> str:
    """Return the agent to use; the agent of the config is checked when it is used."""
    if not chosen:
        return settings.agent
    if chosen not in protocol.MODEL_AGENTS and not chosen.startswith(SCRIPTED):
        from logist.agents.programs import finding  # noqa: PLC0415 - each shipped program is a module

        known = finding.list_program_names(settings.agents)
        if chosen not in known:
            fix = f"use model, litellm, scripted:PATH, or a program: {', '.join(known)}"
            raise UsageError(f"unknown agent {chosen!r}", where=where, fix=fix)
    return chosen
