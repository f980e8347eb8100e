"""`logist init`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logist import systems
from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option, model_option
from logist.cli.show import render
from logist.cli.show.output import Diagnostic, Output, make_warnings
from logist.config.environment import PROJECT_DIRECTORY, Environment, find_coven_directory
from logist.store import require_local

if TYPE_CHECKING:
    from logist.config.settings import Settings

ASKED = 12
"""The maximum number of models of a provider that are listed."""


@click.command("init")
@model_option
@json_option
@click.pass_obj
def init(environment: Environment, model: str | None) -> Output:
    """Create a .logist directory here.

    It contains settings, roles and jobs, and the JSON schemas of these files, for editors. Existing files are not changed,
    except that --model writes the setting `model`, the model for all roles, and that the schemas become those of this
    version. On a terminal, a new project asks for the model.
    """
    home = Path(get_current_directory()) / PROJECT_DIRECTORY
    require_local(Path(environment.chosen_jobs_dir(None, get_current_directory()) or home))
    from logist.config.settings import load_settings
    from logist.jobs.base import project_home
    from logist.jobs.base.editor_schemas import FOLDER

    if model is not None:
        _require_model(load_settings(home, environment.user_config_dir()).settings, model)
    elif _can_ask(environment) and not (home / "config.yaml").exists():
        # Before anything is created: after Ctrl-C, the next `logist init` asks again.
        model = _ask_for_model(environment, load_settings(home, environment.user_config_dir()).settings)
    created = project_home.create_project(home)
    what = "already exists" if not created else "schemas updated" if created == [FOLDER] else "created"
    below = find_coven_directory(str(home))
    more = (f"{below} still applies; .logist overrides it",) if below else ()
    lines = [f"{what}: {home}", *more]
    diagnostics: tuple[Diagnostic, ...] = () if systems.IS_LINUX else _warn_about_system(environment)
    if what == "created":
        diagnostics += _warn_about_missing_repository(home)
    if model is not None:
        lines.append(_write_model(environment, home, model))
        diagnostics += _warn_unusable(environment, model)
    data = {"home": str(home), "made": [name or "." for name in created], "model": model}
    return Output(data, tuple(lines), diagnostics)


def _can_ask(environment: Environment) -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty() and not environment.is_input_off()


def _require_model(settings: Settings, name: str) -> None:
    """Raise InvalidFile or UsageError if no step could use the model."""
    from logist.cli.checkup.model_checks import require_known_provider
    from logist.config.settings import resolve_model
    from logist.jobs.base.model_choice import require_client

    model = resolve_model(settings, name)
    require_client(settings, model, settings.agent)
    require_known_provider(settings, name, "--model")


def _write_model(environment: Environment, home: Path, model: str) -> str:
    from logist.jobs.base.config_file import ConfigFile, change_key

    change = change_key(ConfigFile(home, environment.user_config_dir(), needs_trust=True), "model", model)
    return f"model: {change.after.value} (in {change.file})"


def _warn_unusable(environment: Environment, name: str) -> tuple[Diagnostic, ...]:
    """Return a warning if the key or the price of the model is missing."""
    from logist.cli.checkup.model_checks import describe_unusable_model
    from logist.cli.context import load_current_settings
    from logist.config.settings import resolve_model

    settings = load_current_settings(environment).settings
    problem = describe_unusable_model(environment, settings, resolve_model(settings, name))
    return make_warnings([f"{problem[0]}; {problem[1]}"]) if problem else ()


def _warn_about_missing_repository(home: Path) -> tuple[Diagnostic, ...]:
    """Return a warning if there are files here that no job would see: a workspace has the files of a git repository."""
    from logist.workspace.source import find_repository

    if find_repository(home.parent) is not None or all(path == home for path in home.parent.iterdir()):
        return ()
    return make_warnings(
        [
            f"{home.parent} is not in a git repository: jobs begin with an empty workspace, without the files here"
        ]
    )


def _warn_about_system(environment: Environment) -> tuple[Diagnostic, ...]:
    """Return a warning with what must be changed before the first job, on another system than Linux."""
    from logist.cli.context import load_current_settings, load_known_roles
    from logist.jobs.base import linux_only
    from logist.jobs.base.project import SCRIPTED

    settings, roles = load_current_settings(environment).settings, load_known_roles(environment).by_name
    names = [settings.roles.default, *([settings.review.role] if settings.review.enabled else [])]
    agent = environment.agent_name() or settings.agent
    needs = [
        need
        for role in (roles[name].role for name in names if name in roles and not agent.startswith(SCRIPTED))
        for need in linux_only.list_role_needs(role, role.agent or agent)
    ]
    needs += [*linux_only.list_setup_needs(settings), *linux_only.list_check_needs(settings)]
    if not needs:
        return ()
    refused = linux_only.build_refusal(needs)
    return make_warnings([f"{refused.message}. Before the first job: {refused.fix}"])


def _ask_for_model(environment: Environment, settings: Settings) -> str | None:
    """Ask for the provider and its model; None if the person chooses none, or a model is set already."""
    from logist.config.price_table import PRICE_LISTS
    from logist.config.providers import SHIPPED_PROVIDERS
    from logist.errors import LogistError

    if settings.model or settings.agent != "model":
        return None
    providers = {**SHIPPED_PROVIDERS, **settings.providers}
    render.print_message_lines("Which provider calls the models? Enter a name, or nothing to decide later.")
    for name, entry in sorted(providers.items()):
        key = entry.api_key_env
        state = "no key needed" if not key else f"{key} is {'set' if environment.get_key(key) else 'not set'}"
        render.print_message_lines(f"  {name:<12} {state}")
    while answer := render.ask_for_text("Provider"):
        wanted, _, name = answer.partition("/")  # other places ask for PROVIDER/MODEL
        provider = next((each for each in providers if each.lower() == wanted.lower()), None)
        if provider:
            break
        render.print_message_lines(
            f"unknown provider `{wanted}`: enter one of the names above, or nothing to decide later"
        )
    else:
        return None
    known = list(PRICE_LISTS[provider].models) if provider in PRICE_LISTS else []
    if known and not name:
        render.print_message_lines(f"For example: {', '.join(known[:ASKED])}")
    while name := name or render.ask_for_text(f"Model of {provider}"):
        model = name if name.startswith(f"{provider}/") else f"{provider}/{name}"
        try:
            _require_model(settings, model)
        except LogistError as error:
            render.print_message_lines(f"{error.message} ({error.fix})")
            name = ""
        else:
            return model
    return None
