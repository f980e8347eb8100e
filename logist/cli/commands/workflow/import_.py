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
@click.option("--name", "new_name", metavar="NAME", help="What it is called from now on.")
@click.option(
    "--to",
    metavar="DIR",
    help="Where to put it  [default: .logist/workflows]",
    shell_complete=complete_directory,
)
@click.option("--force", is_flag=True, help="Put it in the place of one that is there.")
@json_option
@click.pass_obj
def import_(environment: Environment, name: str, new_name: str | None, to: str | None, force: bool) -> Output:
    """Take a workflow into the project: a diagram, a page, a document of steps, or an export.

    A diagram keeps every byte, its config block too; so does a document of steps. The workflows inside an
    export become files of their own. Agents of an export are not made roles; those that are none are named.
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
    name = require_utf8(name, "the name", "name another")
    if not name.strip() or not name.isprintable() or set(name) & set("/#"):
        fix = "one line of text, without / and #, which mean a file"
        raise UsageError(f"{name!r} can't be the name of a workflow", where="--name", fix=fix)
    return name.strip()


def _choose_folder(environment: Environment, to: str | None) -> Path:
    if to is None:
        return environment.find_home(Path(get_current_directory())).path / "workflows"
    return Path(require_utf8(to, "the directory", "name another"))


def _write_files(folder: Path, files: dict[Path, str], *, force: bool) -> None:
    """Write all of the files, or none if one must not be written."""
    from logist.cli.commands.workflow.export import write_if_free
    from logist.jobs.base import project_home
    from logist.workflows import list_workflows, parse_workflow_text

    existing = {found.loaded.name: found.loaded.path for found in list_workflows([folder])}
    for file, text in files.items():
        for read in parse_workflow_text(text, file.name):
            other = existing.get(read.name, file)
            if other != file:
                message = f"there is a workflow `{read.name}` already"
                raise Refused(message, where=str(other), fix="--name gives this one another name")
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
    """Return what prevents the new file from being used here."""
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
    """Return warnings for what the steps of an export say and its diagram does not: the diagram is what was
    imported.
    """
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
    message = f"the agent `{agent}` of the file is no role here"
    return Diagnostic(
        "warning", "unknown_role", message, None, "write a role of that name, or name another in its steps"
    )


def _warn_unusable(name: str, errors: list[str]) -> list[Diagnostic]:
    if not errors:
        return []
    more = f"; and {len(errors) - 1} more" if len(errors) > 1 else ""
    message = f"`{name}` can't be used here yet: {errors[0]}{more}"
    return [Diagnostic("warning", InvalidFile.code, message, None, f"logist workflow validate {quote(name)}")]
