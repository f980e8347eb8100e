"""The help of every command ends with an example, which the command can parse."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest

from logist.cli.examples import EXAMPLES
from logist.cli.main import GROUPS, ROOT, root
from logist.config.environment import Environment


def list_commands() -> Iterator[str]:
    for name in ROOT:
        if name == "inbox" or name not in GROUPS:
            yield name
        yield from (f"{name} {each}" for each in GROUPS.get(name, ()))


def parse(words: list[str]) -> click.Context:
    """Parse a command line, without running anything."""
    context = make_root()
    command: click.Command = root
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        assert name is not None
        command = found
        if not isinstance(command, click.Group):
            return command.make_context(name, words, parent=context)
        context = click.Context(command, parent=context, info_name=name)
    command.parse_args(context, words)
    return context


def make_root() -> click.Context:
    return click.Context(root, info_name="logist", obj=Environment({}))


def test_every_command_has_one() -> None:
    assert sorted(EXAMPLES) == sorted(list_commands())


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_example_is_in_the_help_and_can_be_parsed(path: str) -> None:
    context = parse(shlex.split(EXAMPLES[path]))
    names = context.command_path.split()[1:]
    assert " ".join(names) == path
    assert context.command.get_help(context).endswith(f"  Example:\n    logist {EXAMPLES[path]}")


def test_a_shortcut_has_the_example_of_its_command() -> None:
    command = root.get_command(make_root(), "step")
    assert command is not None
    assert "logist job step" in (command.epilog or "")
