"""`logist workflow migrate`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from logist.cli.options import json_option
from logist.cli.shell_values import complete_workflow
from logist.cli.show.output import Diagnostic, Line, Output, StyledText, make_notes
from logist.config.environment import Environment, require_utf8
from logist.core.text.counts import format_count
from logist.errors import InvalidFile

STYLES = {"+": "green", "-": "red", "@": "cyan"}
CONTEXT = 3
"""Unchanged lines around a change in --json; the text output has none, because they could contain an agentRole."""


@click.command("migrate")
@click.argument("name", metavar="FILE", shell_complete=complete_workflow)
@click.option("--write", is_flag=True, help="Write the changes to the file.")
@json_option
@click.pass_obj
def migrate(environment: Environment, name: str, write: bool) -> Output:
    """Move agent roles out of prompts.

    Text `**Agent's Role:** ...` at the start of a prompt becomes the field agentRole. Shows only the changed
    lines, because agentRole is only for agents; --json has a complete patch. The rest of the file is not
    changed. Text that can't be moved is reported.
    """
    from logist.cli.commands.workflow import given
    from logist.core.model.flow import MOST_STEPS
    from logist.workflows import migrate_prompts as migrated

    path = _find_file(environment, name)
    text = given.read_workflow_text(path)
    migration = migrated(text, str(path))
    changed = migration.text != text
    if len(migration.moved) > MOST_STEPS:
        message = f"too many prompts: {len(migration.moved):,}; a workflow has at most {MOST_STEPS:,} steps"
        raise InvalidFile(message, where=str(path))
    if write and changed:
        _replace_file(path, migration.text)
    display_path = given.make_relative(path).lstrip("/")
    full_diff = "".join(f"{line}\n" for line in _iter_diff(text, migration.text, display_path, CONTEXT))
    diagnostics = [
        Diagnostic(
            problem.severity,
            problem.code,
            problem.message,
            given.format_place(path, problem),
            problem.fix or None,
        )
        for problem in migration.problems
    ]
    diagnostics += make_notes([_describe_outcome(path, len(migration.moved), changed=changed, written=write)])
    data = {
        "file": str(path),
        "moved": list(migration.moved),
        "changed": changed,
        "written": write and changed,
        "diff": full_diff,
    }
    return Output(
        data,
        [_color_line(line) for line in _iter_diff(text, migration.text, display_path, 0)],
        tuple(diagnostics),
    )


def _find_file(environment: Environment, name: str) -> Path:
    """Return the file, or the file of the workflow of that name."""
    from logist.cli.commands.workflow import given

    path = Path(require_utf8(name, "the workflow name", "use UTF-8 characters"))
    return path if path.is_file() else given.load_workflow_argument(environment, name).path


def _replace_file(path: Path, text: str) -> None:
    """Replace the content of the file completely or not at all. Follows symbolic links."""
    from logist.store.files import convert_os_errors, replace_file

    with convert_os_errors(path):
        real = Path(os.path.realpath(path))
        mode = real.stat().st_mode & 0o7777
    replace_file(real, text.encode("utf-8"), mode)


def _describe_outcome(path: Path, moved: int, *, changed: bool, written: bool) -> str:
    if not changed:
        return f"nothing to move in {path}"
    steps = format_count(moved, "step")
    return (
        f"{steps} changed in {path}" if written else f"{steps} would change; use --write to change the file"
    )


def _iter_diff(before: str, after: str, name: str, context: int) -> Iterator[str]:
    """Yield the lines of a unified diff with `context` unchanged lines around each change."""
    import difflib

    if before == after:
        return
    old, new = _split_lines(before), _split_lines(after)
    for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", n=context):
        bare = line.removesuffix("\n")
        yield bare
        if bare == line:
            yield "\\ No newline at end of file"


def _split_lines(text: str) -> list[str]:
    """Return the lines with their line feeds; no other character ends a line."""
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [line for line in text.split("\n")[-1:] if line]


def _color_line(line: str) -> Line:
    return (StyledText(line, "bold" if line.startswith(("+++", "---")) else STYLES.get(line[:1], "")),)
