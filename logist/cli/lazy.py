"""Command groups that list their commands without importing them; each is imported when it runs."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from logist.cli.examples import EXAMPLES
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


SYNONYMS = {
    "add": ("create",),
    "kill": ("cancel",),
    "log": ("history",),
    "logs": ("history",),
    "new": ("create",),
    "remove": ("delete",),
    "retry": ("resubmit",),
    "rm": ("delete",),
    "start": ("run",),
    "stop": ("suspend", "cancel"),
    "undo": ("restep",),
}
"""What other programs call a command. Similar spelling would suggest `skill` for `kill`."""


class CommandEntry(NamedTuple):
    """Where a command is, and its line in the help of the group."""

    target: str
    """`module:attribute` below logist.cli."""
    help: str


class LazyGroup(click.Group):
    """A group that imports a command only when it runs; the help imports none.

    `shortcuts` are commands of another group that also work here; the help doesn't list them.
    """

    def __init__(
        self,
        *args: Any,
        entries: Mapping[str, CommandEntry],
        shortcuts: Mapping[str, CommandEntry] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries
        self.shortcuts = {name: entry for name, entry in (shortcuts or {}).items() if name not in entries}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name) or self.shortcuts.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command: click.Command = getattr(importlib.import_module(f"logist.cli.{module}"), attribute)
        _accept_options_of(ctx.find_root().command, command)
        group = "job" if cmd_name not in self.entries else self.name
        _add_example(command, EXAMPLES.get(f"{group} {cmd_name}") or EXAMPLES.get(cmd_name))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        is_known = name in self.entries or name in self.shortcuts
        if not (is_known or name.startswith("-") or ctx.resilient_parsing):
            raise click.UsageError(f"No such command {name!r}.{self._did_you_mean(ctx, name)}", ctx)
        return super().resolve_command(ctx, args)

    def _did_you_mean(self, ctx: click.Context, name: str) -> str:
        """Suggest commands for an unknown name: the same name in other groups, else similar names here."""
        from difflib import get_close_matches

        options = {"help": "--help"} if ctx.parent else {"help": "--help", "version": "--version"}
        names = [*self.entries, *self.shortcuts]
        word = name.lower()
        near = [each for each in SYNONYMS.get(word, ()) if each in names]
        near = near or ([word] if word in options else get_close_matches(word, [*names, *options], n=2))
        meant = _find_elsewhere(ctx, name) or [
            f"{ctx.command_path} {options.get(each, each)}" for each in near
        ]
        return f" Did you mean {' or '.join(f'`{each}`' for each in meant)}?" if meant else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names of commands without importing them, then the options of the group.

        Shortcuts need a first letter, so that an empty word lists the same commands as the help.
        """
        from click.shell_completion import CompletionItem  # already loaded during shell completion

        offered = {**self.entries, **(self.shortcuts if incomplete else {})}
        found = [(name, entry.help) for name, entry in offered.items() if name.startswith(incomplete)]
        items = [CompletionItem(name, help=text) for name, text in found]
        return items + click.Command.shell_complete(self, ctx, incomplete)


class DefaultGroup(LazyGroup):
    """A group whose first command may be left out: other words are its arguments."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.entries:
            args = [next(iter(self.entries)), *args]
        return super().resolve_command(ctx, args)


def _accept_options_of(root: click.Command, command: click.Command) -> None:
    """Accept the options of the top-level command also after `command`; its help doesn't list them."""
    known = {parameter.name for parameter in command.params}
    for option in root.params:
        if isinstance(option, click.Option) and option.name not in known:
            accepted = copy.copy(option)
            accepted.hidden = True
            command.params.append(accepted)


def _add_example(command: click.Command, example: str | None) -> None:
    """Let the help of a command end with an example."""
    if example is not None and command.epilog is None:
        command.epilog = f"\b\nExample:\n  logist {example}"


def _find_elsewhere(ctx: click.Context, name: str) -> list[str]:
    """Return the commands with exactly this name at the top level or in another group."""
    root = ctx.find_root()
    top = root.command
    if not isinstance(top, LazyGroup):
        return []
    below = (top.get_command(root, each) for each in top.entries)
    paths = [
        f"{group.name} {name}" for group in below if isinstance(group, LazyGroup) and name in group.entries
    ]
    return [f"{root.command_path} {path}" for path in ([name] if name in top.entries else []) + paths]
