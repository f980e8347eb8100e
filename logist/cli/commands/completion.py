"""`logist completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from logist.cli.options import json_option
from logist.cli.show.output import Output

VARIABLE = "_LOGIST_COMPLETE"

_BASH_WORDS = 'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD'
_JOINED = {
    # bash splits --role=Worker into three words; remove the `=`.
    "bash": [
        (
            "    local response\n",
            """\
    local response words=() last=$COMP_CWORD i
    for i in "${!COMP_WORDS[@]}"; do
        if [[ ${COMP_WORDS[i]} == '=' && ${COMP_WORDS[i-1]} == --* && $i -lt $COMP_CWORD ]]; then
            ((last--))
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
""",
        ),
        (_BASH_WORDS, 'COMP_WORDS="${words[*]}" COMP_CWORD=$last'),
    ],
    # zsh and fish treat it as one word, so that a completed value would also replace the option name.
    "zsh": [
        ("    for type key", "    compset -P '--*='\n\n    for type key"),
        (" -U\n", "\n"),  # with -U, zsh inserts the value without the prefix that compset removed
        ("compadd -U", "compadd"),
    ],
    "fish": [
        (
            "    for completion",
            (
                "    set -l option (string match -r -- '^--[^=]+=' (commandline -t));"
                " or set option '';\n\n    for completion"
            ),
        ),
        (
            "__fish_complete_directories $metadata[2]",
            "string join \\n -- $option(__fish_complete_directories $metadata[2])",
        ),
        (
            "__fish_complete_path $metadata[2]",
            "string join \\n -- $option(__fish_complete_path $metadata[2])",
        ),
        ("echo $metadata[2]", "echo $option$metadata[2]"),
    ],
}
"""Changes to click's scripts, by shell, for completing values after `--option=`."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str) -> Output:
    """Print a completion script for a shell.

    It completes commands, options, files, names of roles, models and agents, and the jobs that a command accepts.
    For bash, put `eval "$(logist completion bash)"` into ~/.bashrc; for zsh, the same with zsh into ~/.zshrc; for
    fish, run `logist completion fish > ~/.config/fish/completions/logist.fish`.
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    generator = shell_class(ctx.find_root().command, {}, "logist", VARIABLE)
    template = generator.source_template
    for old, new in _JOINED[shell]:
        template = template.replace(old, new)
    script = template % generator.source_vars()
    return Output({"shell": shell, "script": script}, raw=script)
