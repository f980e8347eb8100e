"""`logist trust`."""

from __future__ import annotations

import json

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option
from logist.cli.show import render
from logist.cli.show.output import Output, make_warnings
from logist.config.environment import Environment
from logist.errors import Refused


@click.command("trust")
@click.option("--yes", is_flag=True, help="Trust without confirmation.")
@click.option("--revoke", is_flag=True, help="Remove the trust.")
@click.option(
    "--print",
    "only_prints",
    is_flag=True,
    help="Print the digest of these settings, for the environment variable LOGIST_TRUST; trust nothing.",
)
@json_option
@click.pass_obj
def trust(environment: Environment, yes: bool, revoke: bool, only_prints: bool) -> Output:
    """Trust the programs and other sensitive settings of this project.

    The config of a cloned project could run programs as you, send your API keys to other servers, or merge work
    without your approval. Such settings therefore apply only after you have checked and trusted them: programs, models
    that don't run on this machine, the sandbox, tools, commands, past commits for agents, automatic merges, also in job
    templates, and `agent` and `network` of roles.
    If one of them changes, you have to trust it again, unless you change it with `logist config set`.

    In CI, set LOGIST_TRUST to the digest that --print prints: exactly these settings are then trusted, and no file is
    written. Print it where the user config is the same as in CI, for example with XDG_CONFIG_HOME=/nonexistent.
    """
    from pathlib import Path

    from logist.cli.context import (
        find_template_claims,
        load_current_settings,
        load_known_roles,
        read_project_trust,
    )
    from logist.config.settings import UNCHECKED_MERGES, can_merge_unchecked
    from logist.config.trust import Trust

    home, user = environment.find_home(Path(get_current_directory())).path, environment.user_config_dir()
    if revoke:
        Trust(user, home).revoke_claims()  # works with an invalid config too
        return Output(
            {"config": str(home), "powers": {}, "trusted": False, "digest": None},
            (f"no longer trusted: {home}",),
        )
    loaded = load_current_settings(environment)
    project = read_project_trust(environment, loaded, load_known_roles(environment))
    project = project.add_templates(find_template_claims(environment))
    power_lines = tuple(
        f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in project.powers.items()
    )
    data = {
        "config": str(home),
        "powers": project.powers,
        "trusted": project.is_allowed(),
        "digest": project.digest,
    }
    if only_prints:
        return Output(data, raw=f"{project.digest}\n")
    if not project.powers:
        return Output(data, (f"nothing to do: no settings in {home} need trust",))
    asks = not (data["trusted"] or yes)
    if asks:
        for line in power_lines:
            render.print_message(line, environment)
        if not render.ask_to_confirm("Trust these settings?", environment):
            raise Refused(
                "settings not trusted",
                where=str(home),
                fix="to trust them without confirmation: logist trust --yes",
            )
    if not data["trusted"]:
        project.allow_claims()
    unchecked = [UNCHECKED_MERGES] if can_merge_unchecked(loaded.settings) else []
    lines = (*(() if asks else power_lines), f"trusted: {home}")
    return Output({**data, "trusted": True}, lines, make_warnings(unchecked, "unchecked_merge"))
