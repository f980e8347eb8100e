"""`logist workflow import`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option, require_free
from logist.cli.shell_values import complete_directory, complete_file
from logist.cli.show.output import Diagnostic, Output
from logist.config.environment import Environment, require_utf8
from logist.errors import InvalidFile, Refused, UsageError

if TYPE_CHECKING:
    from logist.core.text.problem import WorkflowProblem
    from logist.roles import Roles
    from logist.workflows import LoadedWorkflow


@click.command("import")
@click.argument("name", metavar="FILE", shell_complete=complete_file)
@click.option("--name", "new_name", metavar="NAME", help="New name of the workflow.")
@click.option(
    "--to",
    metavar="DIR",
    help="Directory for the files  [default: .logist/workflows]",
    shell_complete=complete_directory,
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@json_option
@click.pass_obj
def import_(environment: Environment, name: str, new_name: str | None, to: str | None, force: bool) -> Output:
    """Import a workflow into the project.

    FILE is a diagram, a page with a diagram, a document of steps, or an export. Diagrams and documents of steps
    are copied unchanged, including config blocks. Each workflow in an export becomes a separate file. Agents in an
    export are not imported as roles; a warning lists agents without a role.
    """
    from logist.cli.commands.workflow import given, kept
    from logist.cli.context import load_known_roles
    from logist.jobs.base.project_opening import create_clock

    loaded = given.load_workflow_argument(environment, name)
    if loaded.workflow is None:
        raise given.make_broken_error(loaded)
    final_name = loaded.name if new_name is None else _require_name(new_name)
    text = given.read_workflow_text(loaded.path)
    now = create_clock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
    folder = _choose_folder(environment, to)
    files = {folder / file: content for file, content in kept.build_files(loaded, text, final_name, now)}
    _write_files(folder, files, force=force)
    roles = load_known_roles(environment)
    unknown = [agent for agent in _list_agents(loaded, text) if agent not in roles.by_name]
    errors = _list_errors(environment, roles, next(iter(files)))
    diagnostics = [
        *_warn_dropped(loaded),
        *map(_warn_unknown_role, unknown),
        *_warn_unusable(final_name, errors),
    ]
    data = {
        "name": final_name,
        "files": [str(file) for file in files],
        "unknown_agents": unknown,
        "errors": errors,
    }
    return Output(data, [f"imported: {given.make_relative(file)}" for file in files], tuple(diagnostics))


def _require_name(name: str) -> str:
    name = require_utf8(name, "the name", "use UTF-8 characters")
    if not name.strip() or not name.isprintable() or set(name) & set("/#"):
        fix = "use one line of text without / and #, which mark files"
        raise UsageError(f"invalid workflow name {name!r}", where="--name", fix=fix)
    return name.strip()


def _choose_folder(environment: Environment, to: str | None) -> Path:
    if to is None:
        return environment.find_home(Path(get_current_directory())).path / "workflows"
    return Path(require_utf8(to, "the directory", "use UTF-8 characters"))


def _write_files(folder: Path, files: dict[Path, str], *, force: bool) -> None:
    """Write all of the files, or none if one of them is not allowed."""
    from logist.cli.commands.workflow.export import write_if_free
    from logist.jobs.base import project_home
    from logist.workflows import list_workflows, parse_workflow_text

    existing = {found.loaded.name: found.loaded.path for found in list_workflows([folder])}
    for file, text in files.items():
        for read in parse_workflow_text(text, file.name):
            other = existing.get(read.name, file)
            if other != file:
                message = f"workflow `{read.name}` already exists"
                raise Refused(message, where=str(other), fix="use --name to choose another name")
        require_free(file, force=force)
    project_home.ensure_folder(folder)
    for file, text in files.items():
        write_if_free(file, text, force=force)


def _list_agents(loaded: LoadedWorkflow, text: str) -> list[str]:
    """Return the ids of the agents of an export."""
    from logist import documents
    from logist.cli.commands.workflow.kept import DOCUMENTS
    from logist.core.workflow import exporting

    if loaded.path.suffix.lower() not in DOCUMENTS:
        return []
    return [
        str(agent["id"])
        for agent in exporting.list_agents(documents.parse_document(text, str(loaded.path)).data)
    ]


def _list_errors(environment: Environment, roles: Roles, file: Path) -> list[str]:
    """Return the errors that prevent the use of the new file."""
    from logist.cli.commands.workflow import given
    from logist.cli.context import list_workflow_directories
    from logist.jobs.base import job_workflows
    from logist.workflows import find_workflow_problems

    problems: list[WorkflowProblem] = []
    for loaded in given.load_workflow_arguments(environment, [str(file)]):
        problems += find_workflow_problems(
            loaded, list_workflow_directories(environment), job_workflows.build_check_context(roles)
        )
    return [problem.full_message for problem in problems if problem.severity == "error"]


def _warn_dropped(loaded: LoadedWorkflow) -> list[Diagnostic]:
    """Return warnings for data that the steps of an export have and its diagram doesn't: the diagram is imported."""
    from logist.cli.commands.workflow import given

    return [
        Diagnostic(
            "warning",
            found.code,
            found.full_message,
            given.format_place(loaded.path, found),
            found.fix or None,
        )
        for found in loaded.problems
        if found.code == "disagree" and found.severity == "warning"
    ]


def _warn_unknown_role(agent: str) -> Diagnostic:
    message = f"no role has the name of the agent `{agent}` in the imported file"
    return Diagnostic(
        "warning",
        "unknown_role",
        message,
        None,
        "create a role of that name, or use another role in its steps",
    )


def _warn_unusable(name: str, errors: list[str]) -> list[Diagnostic]:
    if not errors:
        return []
    more = f"; and {len(errors) - 1} more" if len(errors) > 1 else ""
    message = f"`{name}` can't be used here yet: {errors[0]}{more}"
    return [Diagnostic("warning", InvalidFile.code, message, None, f"logist workflow validate {quote(name)}")]
