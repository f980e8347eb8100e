"""`logist completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from logist.cli.options import json_option
from logist.cli.output import Output

VARIABLE = "_LOGIST_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str) -> Output:
    """Print a completion script for a shell.

    It completes commands, options, files, names of roles, models and agents, and the jobs that take a command.
    As in `eval "$(logist completion bash)"` in ~/.bashrc, the same with zsh in ~/.zshrc, or
    `logist completion fish > ~/.config/fish/completions/logist.fish`.
    """
    found = get_completion_class(shell)
    assert found is not None
    asking = found(ctx.find_root().command, {}, "logist", VARIABLE)
    script = asking.source_template % asking.source_vars()
    return Output({"shell": shell, "script": script}, raw=script)
