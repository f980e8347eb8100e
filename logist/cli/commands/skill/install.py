"""`logist skill install`."""

from __future__ import annotations

from pathlib import Path

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option
from logist.cli.show import render
from logist.cli.show.output import Output
from logist.config.environment import Environment
from logist.errors import Refused

_PLACES = {"claude": ".claude/skills", "codex": ".agents/skills", "agents": ".agents/skills"}


@click.command("install")
@click.option("--claude", "place", flag_value="claude", help="Into .claude/skills, for Claude Code.")
@click.option("--codex", "place", flag_value="codex", help="Into .agents/skills, for Codex.")
@click.option(
    "--agents", "place", flag_value="agents", default="agents", help="Into .agents/skills.  [default]"
)
@click.option("--yes", is_flag=True, help="Don't ask.")
@json_option
@click.pass_obj
def install(environment: Environment, place: str, yes: bool) -> Output:
    """Install the skill that tells agents how to use Logist.

    Writes it into this directory, after you have confirmed it. Files of an earlier version are replaced.
    """
    from logist.resources import find_resource
    from logist.store import files

    target = Path(get_current_directory(), _PLACES[place], "logist")
    source = find_resource("skills", "logist")
    contents = {each.relative_to(source): each.read_bytes() for each in sorted(source.rglob("*.md"))}
    for path in (target.parent.parent, target.parent, target, target / "references"):
        if path.is_symlink():
            raise Refused(
                "can't install the skill through a symbolic link", where=str(path), fix="remove the link"
            )
    changed = [
        name
        for name, content in contents.items()
        if not (target / name).is_file() or (target / name).read_bytes() != content
    ]
    if changed and not yes:
        word = "Replace" if target.exists() else "Write"
        if not render.ask_to_confirm(f"{word} {len(changed)} files in {target}?", environment):
            raise Refused(
                "the skill was not installed: not confirmed", where=str(target), fix="confirm with --yes"
            )
    for name in changed:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        files.replace_file(target / name, contents[name], 0o644)
    line = f"installed: {target}" if changed else f"already installed: {target}"
    return Output({"directory": str(target), "written": [str(name) for name in changed]}, (line,))
