"""`logist trust`."""

from __future__ import annotations

import json

import click

from logist.cli import render
from logist.cli.options import here, json_option
from logist.cli.output import Output, warnings
from logist.config.environment import Environment
from logist.errors import Refused


@click.command("trust")
@click.option("--yes", is_flag=True, help="Allow it without asking.")
@click.option("--revoke", is_flag=True, help="Take it back.")
@json_option
@click.pass_obj
def trust(environment: Environment, yes: bool, revoke: bool) -> Output:
    """Allow what this project says of programs, keys, the network and merging.

    Of its config: `agent`, `agents`, `on_stuck`, `sandbox`, `tools`, `workspace.caches`, `workspace.setup`, commands of
    review checks, merging by itself (`review.auto_merge`, the mode `yolo`), and models elsewhere than on this machine;
    of its roles: `agent` and `network`. A config that came with a clone could run
    anything as you, so these keys hold only after you have looked at them. When they change, they have to be
    allowed again.
    """
    from pathlib import Path

    from logist.cli.context import known_roles, loaded_settings, powers
    from logist.config import trust as known
    from logist.config.settings import UNCHECKED_MERGES, merges_unchecked

    found = environment.find_home(Path(here()))
    config, user = found.path, environment.user_config_dir()
    said = powers(environment, known_roles(environment))
    shown = tuple(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in said.items())
    data = {"config": str(config), "powers": said, "trusted": known.is_trusted(user, found.path, said)}
    if revoke:
        known.trust(user, found.path, {})
        return Output({**data, "trusted": not said}, (f"not trusted any more: {config}",))
    if not said:
        return Output(data, (f"nothing to allow: {config} says nothing of programs",))
    asks = not (data["trusted"] or yes)
    if asks:
        for line in shown:
            render.say(line, environment)
        if not render.confirm("run these as you?", environment):
            raise Refused("nothing was allowed", where=str(config), fix="logist trust --yes")
    if not data["trusted"]:
        known.trust(user, found.path, said)
    unchecked = [UNCHECKED_MERGES] if merges_unchecked(loaded_settings(environment).settings) else []
    lines = (*(() if asks else shown), f"trusted: {config}")
    return Output({**data, "trusted": True}, lines, warnings(unchecked, "unchecked_merge"))
