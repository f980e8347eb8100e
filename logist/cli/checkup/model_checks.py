"""The checks of `logist doctor` for the models that roles use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from logist.agents.programs import finding
from logist.agents.protocol import LITELLM, MODEL, MODEL_AGENTS
from logist.cli import context
from logist.cli.show.output import Diagnostic
from logist.config.environment import Environment
from logist.config.providers import find_provider
from logist.config.sections import THIS_MACHINE
from logist.config.settings import (
    Settings,
    advise_about_price,
    has_known_address,
    load_settings,
    resolve_model,
)
from logist.core.model import Model, Phase, Provider
from logist.core.money import money
from logist.core.step.model_choice import ChosenModel
from logist.errors import InvalidFile, LogistError, UsageError
from logist.jobs.base import model_choice
from logist.jobs.base.project import SCRIPTED, ProjectContext
from logist.jobs.doctor.checks import Finding, invalid, warning
from logist.quick_dataclass import dataclass
from logist.roles import LoadedRole, Roles

NAMED = 3
"""The maximum number of roles that a line names."""


@dataclass(frozen=True)
class UsedModel:
    """A model that roles use."""

    chosen: ChosenModel
    model: Model
    provider: Provider | None
    """None: litellm calls it."""
    roles: tuple[str, ...]

    @property
    def label(self) -> str:
        """The name, who uses it, and why: `openai/gpt-5 (Worker and 3 more; config: model)`."""
        more = len(self.roles) - NAMED
        names = ", ".join(self.roles[:NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"{self.model.name} ({names}; {self.chosen.describe_source()})"

    @property
    def is_on_this_machine(self) -> bool:
        """Whether its address is on this machine."""
        return self.provider is not None and urlsplit(self.provider.base_url).hostname in THIS_MACHINE


def choose_role_model(environment: Environment, settings: Settings, loaded: LoadedRole) -> ChosenModel:
    """Return the model that a role would use for a new job."""
    phase = Phase.REVIEWER if loaded.role.name == settings.review.role else Phase.DOER
    return model_choice.choose_model(settings, environment, loaded, phase)


def describe_unusable_model(
    environment: Environment, settings: Settings, model: Model
) -> tuple[str, str] | None:
    """Return why steps with the model would fail, and how to fix it; None if its price and key are known."""
    if not settings.allow_unknown_price and not money.has_known_price(model):
        fix = advise_about_price(settings, model)
        return f"unknown price of the model {model.name}: steps that need it are refused", fix
    if model.api_key_env and environment.get_key(model.api_key_env) is None:
        message = f"missing API key for the model {model.name}: {model.api_key_env} is not set"
        return message, f"set {model.api_key_env} in the environment"
    return None


def require_known_provider(settings: Settings, name: str, where: str | None = None) -> None:
    """Raise UsageError if neither the config nor Logist knows where the model is called."""
    if not has_known_address(settings, name):
        fix = "add it to `providers` in your user config with its base_url, or to `models`"
        raise UsageError(f"unknown provider of the model `{name}`", where=where, fix=fix)


def warn_unknown_name(
    environment: Environment, key: str, value: Any, where: str | None = None
) -> tuple[Diagnostic, ...]:
    """Return a warning if a value of the config or of a role names an agent, a model or a provider that nobody here knows."""
    if key not in ("agent", "model", "llm_model") or not isinstance(value, str):
        return ()
    try:
        settings = context.load_current_settings(environment).settings
    except LogistError:
        return ()  # another file is invalid, and commands that need it say so
    try:
        if key != "agent":
            resolve_model(settings, value)
            if settings.agent != LITELLM:  # it knows many more
                require_known_provider(settings, value)
        elif value not in MODEL_AGENTS and not value.startswith(SCRIPTED):
            finding.load_program(value, settings.agents)
    except (InvalidFile, UsageError) as error:
        return (Diagnostic("warning", "unknown_name", error.message, where, error.fix),)
    return ()


def examine_models(project: ProjectContext, *, ping: bool) -> Iterator[Finding]:
    """Report each model that roles use: its key, its price and its address; with `ping`, whether it answers.

    Reports nothing if the config is invalid or not trusted, because the check of the config does.
    """
    environment = project.environment
    try:
        loaded = load_settings(project.home, environment.user_config_dir())
        roles = context.load_known_roles(environment)
        context.read_project_trust(environment, loaded, roles).require_to_run()
    except LogistError:
        return
    agent = environment.agent_name() or loaded.settings.agent
    if agent.startswith(SCRIPTED):
        return
    for used in _list_used_models(environment, loaded.settings, roles, agent):
        yield from _examine_model(project, loaded.settings, used, ping=ping)


def _list_used_models(
    environment: Environment, settings: Settings, roles: Roles, agent: str
) -> Iterator[UsedModel]:
    names: dict[ChosenModel, list[str]] = {}
    in_use = {settings.roles.default, settings.review.role}
    for name, loaded in sorted(roles.by_name.items(), key=lambda item: (item[0] not in in_use, item[0])):
        if (loaded.role.agent or agent) in MODEL_AGENTS:
            chosen = choose_role_model(environment, settings, loaded)
            names.setdefault(chosen, []).append(name)
    by_model: dict[str, tuple[ChosenModel, list[str]]] = {}
    for chosen, users in names.items():
        by_model.setdefault(chosen.name, (chosen, []))[1].extend(users)
    for chosen, users in by_model.values():
        try:
            model = resolve_model(settings, chosen.name)
        except InvalidFile:
            continue  # another check reports it
        provider = find_provider(settings.providers, model) if agent == MODEL else None
        yield UsedModel(chosen, model, provider, tuple(users))


def _examine_model(
    project: ProjectContext, settings: Settings, used: UsedModel, *, ping: bool
) -> Iterator[Finding]:
    if problem := describe_unusable_model(project.environment, settings, used.model):
        if not {settings.roles.default, settings.review.role} & set(
            used.roles
        ):  # the check of the agents reports those
            yield warning("model", f"{used.label}: {problem[0]}", problem[1])
        return
    facts = [_describe_key(used), _describe_price(used.model)]
    if used.provider is None:
        facts.append("called through litellm" + (", so --ping does not test it" if ping else ""))
    elif ping:
        yield _ping(project, used, facts)
        return
    elif used.is_on_this_machine:
        from logist.agents.clients.ping import find_connection_problem

        address = used.provider.base_url
        if reason := find_connection_problem(address):
            fix = f"start the server, or change {find_address_key(used)}"
            yield warning("model", f"{used.label}: nothing answers at {address}: {reason}", fix)
            return
        facts.append(f"{address} is reachable")
    else:
        facts.append(f"address {used.provider.base_url} (to test it: logist doctor --ping)")
    yield Finding("model", "ok", f"{used.label}: {', '.join(facts)}")


def find_address_key(used: UsedModel) -> str:
    """Return the setting with the address of a model."""
    assert used.provider is not None
    if used.model.endpoint:
        return f"models.{used.model.name}.endpoint"
    return f"providers.{used.provider.name}.base_url"


def _describe_key(used: UsedModel) -> str:
    return f"{used.model.api_key_env} is set" if used.model.api_key_env else "no key needed"


def _describe_price(model: Model) -> str:
    if not money.has_known_price(model):
        return "price unknown"
    if not (model.input_price or model.output_price):
        return "free"
    return f"price ${model.input_price or 0:g} / ${model.output_price or 0:g} per million tokens"


def _ping(project: ProjectContext, used: UsedModel, facts: list[str]) -> Finding:
    """Send one small request, and report how it went."""
    from logist.agents.clients import ping

    assert used.provider is not None
    worst = money.compute_worst_case(used.model, ping.TEXT, 1)
    cost = "unknown" if worst is None else money.format_money(worst)
    address, name = used.provider.base_url, used.model.name
    project.say(f"sending a request for one token to {name} at {address}; maximum cost: {cost}")
    key = project.environment.get_key(used.model.api_key_env) if used.model.api_key_env else None
    pong = ping.ping_model(used.model, used.provider, key)
    if pong.error is None:
        return Finding(
            "model", "ok", f"{used.label}: {', '.join(facts)}, {address} answered in {pong.seconds:.1f} s"
        )
    message, _, advice = project.redact_text(pong.error.message).partition("; ")
    return invalid("model", f"{used.label}: {message}", advice or None)
