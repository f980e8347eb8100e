"""Groups that know their commands by name and one line, and load each only when it is run."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """Where a command lies, and the line that the group's help shows."""

    target: str
    """`module:attribute` below logist.cli."""
    help: str


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run; its help needs none of them."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command: click.Command = getattr(importlib.import_module(f"logist.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands without importing any of them; then what every command has."""
        from click.shell_completion import CompletionItem  # loaded already when a shell asks

        found = [(name, entry.help) for name, entry in self.entries.items() if name.startswith(incomplete)]
        items = [CompletionItem(name, help=text) for name, text in found]
        return items + click.Command.shell_complete(self, ctx, incomplete)
