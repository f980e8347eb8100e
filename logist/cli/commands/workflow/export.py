"""`logist workflow export`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from logist.cli.options import json_option, require_free
from logist.cli.shell_values import complete_file, complete_workflow
from logist.cli.show.output import Output, make_notes
from logist.config.environment import Environment, require_utf8


@click.command("export")
@click.argument("name", metavar="FILE|NAME", shell_complete=complete_workflow)
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="Write to this file instead of standard output.",
    shell_complete=complete_file,
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
@click.pass_obj
def export(environment: Environment, name: str, output: str | None, force: bool) -> Output:
    """Export a workflow and its roles as one file.

    The file (format 2.0) contains the diagram, the steps, their roles, and all workflows that the steps use.
    """
    from logist.cli.commands.workflow import given
    from logist.cli.context import load_known_roles
    from logist.core.workflow.exporting import export_workflow
    from logist.jobs.base.project_opening import create_clock

    workflow, _ = given.load_usable_workflow(environment, name)
    roles = {name: found.role for name, found in load_known_roles(environment).by_name.items()}
    document = export_workflow(workflow, roles, create_clock().now().strftime("%Y-%m-%dT%H:%M:%SZ"))
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    if output is None or output == "-":
        return Output({"file": None, "document": document}, raw=text)
    path = Path(require_utf8(output, "the file name", "use UTF-8 characters"))
    write_if_free(path, text, force=force)
    return Output({"file": str(path), "document": document}, diagnostics=make_notes([f"written: {path}"]))


def write_if_free(path: Path, text: str, *, force: bool) -> None:
    """Write a file completely or not at all; overwrite an existing one only with `force`. Follows symbolic links."""
    from logist.store.files import convert_os_errors, replace_file

    require_free(path, force=force)
    with convert_os_errors(path):
        real = path.resolve()
        mode = real.stat().st_mode & 0o7777 if real.exists() else 0o666 & ~_read_umask()
    replace_file(real, text.encode("utf-8"), mode)


def _read_umask() -> int:
    """Return the umask, which restricts the mode of new files."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
