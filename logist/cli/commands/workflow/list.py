"""`logist workflow list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import listing_options
from logist.cli.show.output import Diagnostic, Output, StyledText, TextTable
from logist.config.environment import Environment
from logist.errors import InvalidFile

if TYPE_CHECKING:
    from logist.workflows import ListedWorkflow


@click.command("list")
@listing_options
@click.pass_obj
def list_(environment: Environment) -> Output:
    """List the workflows.

    Shows name, number of steps, file and description. Workflows of the project come before the user's. An
    invalid workflow is listed with its first error.
    """
    from logist.cli.commands.workflow import given
    from logist.cli.context import list_workflow_directories
    from logist.workflows import list_workflows

    directories = list_workflow_directories(environment)
    found = list_workflows(directories)
    rows = [_build_row(each) for each in found]
    cells = [_format_cells(row) for row in rows]
    broken = sum(row["error"] is not None for row in rows)
    diagnostics: tuple[Diagnostic, ...] = ()
    if broken:
        message = f"{broken} of {len(rows)} workflows {'is' if broken == 1 else 'are'} invalid"
        diagnostics = (Diagnostic("warning", InvalidFile.code, message, None, "logist workflow validate"),)
    elif not rows:
        fix = given.advise_first_workflow(directories[0])
        diagnostics = (Diagnostic("info", "note", "no workflows found", None, fix),)
    return Output(
        rows,
        diagnostics=diagnostics,
        table=TextTable(("NAME", "STEPS", "FILE", "DESCRIPTION"), cells if rows else (), ("FILE",)),
    )


def _build_row(found: ListedWorkflow) -> dict[str, Any]:
    loaded = found.loaded
    workflow = loaded.workflow
    error = None
    if workflow is None:
        first = loaded.errors[0]
        error = {"message": first.full_message, "line": first.line, "column": first.column}
    return {
        "name": loaded.name,
        "steps": len(workflow.steps) if workflow else None,
        "description": workflow.description if workflow else "",
        "file": str(loaded.path),
        "error": error,
        "hides": str(found.hides) if found.hides else None,
    }


def _format_cells(row: dict[str, Any]) -> tuple[StyledText | str, ...]:
    from logist.cli.commands.workflow.given import make_relative

    if row["error"] is None:
        return (
            StyledText(row["name"], "bold"),
            str(row["steps"]),
            make_relative(row["file"]),
            row["description"],
        )
    line = f"line {row['error']['line']}: " if row["error"]["line"] else ""
    return (
        StyledText(row["name"], "red"),
        StyledText("invalid", "red"),
        make_relative(row["file"]),
        f"{line}{row['error']['message']}",
    )
