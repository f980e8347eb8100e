"""What `logist doctor` says about whom a step asks: agents, models and their keys. Names of keys only, no values."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import NamedTuple

from logist.agents.programs import finding
from logist.agents.protocol import LITELLM
from logist.config.environment import Environment
from logist.config.settings import Settings, resolve_model
from logist.core.model import Role
from logist.errors import InvalidFile
from logist.jobs.base.project import SCRIPTED
from logist.jobs.doctor.finding import Finding, invalid, warning
from logist.roles import Roles


class Trouble(NamedTuple):
    """Why a role can't be asked, and what helps."""

    message: str
    fix: str


def look(environment: Environment, settings: Settings, roles: Roles) -> Iterator[Finding]:
    """An error where no step can work, because no role that does the work can be asked; else a warning each."""
    agent = environment.agent() or settings.agent
    if agent.startswith(SCRIPTED):
        return
    doers = {settings.roles.default, *settings.roles.type_mapping.values()} & set(roles.by_name)
    reviewers = {settings.review.role} & set(roles.by_name) if settings.review.enabled else set()
    troubles: dict[Trouble, list[str]] = {}
    for name in sorted(doers | reviewers):
        if trouble := _trouble(environment, settings, roles.by_name[name].role, agent):
            troubles.setdefault(trouble, []).append(name)
    hindered = {name for names in troubles.values() for name in names}
    make = invalid if doers and doers <= hindered else warning
    for trouble, names in troubles.items():
        yield make("agent", f"{trouble.message} (roles: {', '.join(names)})", trouble.fix)
    if not troubles:
        yield Finding("agent", "ok", agent)


def _trouble(environment: Environment, settings: Settings, role: Role, agent: str) -> Trouble | None:
    agent = role.agent or agent
    try:
        model = resolve_model(settings, role.llm_model)
        program = None if agent == LITELLM else finding.program(agent, settings.agents)
    except InvalidFile as error:
        return Trouble(error.message, error.fix or "edit the config")
    if model.input_price is None and not settings.allow_unknown_price:
        fix = f"set models.{model.name}.input_price and output_price, or allow_unknown_price: true"
        return Trouble(f"the price of the model {model.name} is unknown, so no step asks it", fix)
    if program is not None:
        path = environment.child().get("PATH", os.defpath)
        if shutil.which(program.executable, path=path) is None:
            return Trouble(
                f"the agent {agent} can't be run: {program.executable} is not on PATH", f"install {agent}"
            )
        return None
    if importlib.util.find_spec("litellm") is None:
        return Trouble("no model can be asked: litellm is not installed", "install the extra `litellm`")
    if model.api_key_env and environment.key(model.api_key_env) is None:
        message = f"no key for the model {model.name}: {model.api_key_env} is not set"
        return Trouble(message, f"set {model.api_key_env} in the environment")
    return None
