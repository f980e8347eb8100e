"""Loads the workflows for a command: by file, by name, or all that can be found by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from logist.cli.context import list_workflow_directories, load_known_roles
from logist.cli.current_job import get_current_directory
from logist.cli.show.output import Diagnostic
from logist.config.environment import Environment, require_utf8
from logist.core.text.counts import format_count
from logist.errors import InvalidFile, UsageError
from logist.jobs.base import job_workflows
from logist.workflows import (
    SUFFIXES,
    LoadedWorkflow,
    find_workflow_problems,
    freeze_subflows,
    list_workflows,
    load_workflow,
    read_workflow_file,
    reading,
)

if TYPE_CHECKING:
    from logist.core.model import Workflow
    from logist.core.text.problem import WorkflowProblem


def load_workflow_argument(environment: Environment, name: str) -> LoadedWorkflow:
    """Return the workflow of that file or name.

    Raises UsageError if there is none, or if a file has several and none is chosen.
    """
    path, _, _ = require_utf8(name, "the workflow name", "use UTF-8 characters").partition("#")
    if os.path.isfile(path) and os.sep not in path and not path.lower().endswith(SUFFIXES):
        name = os.path.join(".", name)  # an existing file takes precedence over a name
    try:
        return load_workflow(name, list_workflow_directories(environment))
    except UsageError as error:
        if path and os.path.isdir(path):
            raise UsageError(f"`{path}` is a directory", fix="pass a file in it") from error
        raise


def load_usable_workflow(environment: Environment, name: str) -> tuple[Workflow, LoadedWorkflow]:
    """Return the workflow with all its subflows, and how it was loaded. Raises InvalidFile if it is invalid."""
    loaded = load_workflow_argument(environment, name)
    return freeze_workflow(loaded, list_workflow_directories(environment)), loaded


def freeze_workflow(loaded: LoadedWorkflow, directories: Sequence[Path]) -> Workflow:
    """Return a workflow with all its subflows. Raises InvalidFile with its first error."""
    frozen_workflow = freeze_subflows(loaded, directories)
    if frozen_workflow.workflow is None:
        raise make_broken_error(frozen_workflow)
    return frozen_workflow.workflow


def make_broken_error(loaded: LoadedWorkflow) -> InvalidFile:
    """Return the first error of an invalid workflow."""
    first, *more = loaded.errors
    others = f"; {format_count(len(more), 'more error')}" if more else ""
    fix = f"logist workflow validate {quote(str(loaded.path))}" if more else first.fix
    return InvalidFile(first.full_message + others, where=format_place(loaded.path, first), fix=fix or None)


def list_errors(environment: Environment, loaded: LoadedWorkflow) -> tuple[Diagnostic, ...]:
    """Return the errors that `logist workflow validate` reports for a readable workflow."""
    around = job_workflows.build_check_context(load_known_roles(environment))
    problems = find_workflow_problems(loaded, list_workflow_directories(environment), around)
    return tuple(
        Diagnostic(
            "error",
            problem.code,
            problem.full_message,
            format_place(loaded.path, problem),
            problem.fix or None,
        )
        for problem in problems
        if problem.severity == "error"
    )


def load_workflow_arguments(environment: Environment, names: Sequence[str]) -> list[LoadedWorkflow]:
    """Return all workflows of the files, directories and names; by default, all that can be found by name."""
    if not names:
        return [found.loaded for found in list_workflows(list_workflow_directories(environment))]
    return [loaded for name in names for loaded in _iter_workflows(environment, name)]


def advise_first_workflow(directory: Path) -> str:
    """Return how to add a workflow to a project that has none."""
    return f"put a file into {directory}, or run: logist workflow import FILE"


def _iter_workflows(environment: Environment, name: str) -> Iterator[LoadedWorkflow]:
    path = Path(require_utf8(name, "the workflow name", "use UTF-8 characters"))
    if name and path.is_dir():
        for file in sorted(path.iterdir()):
            if file.suffix.lower() in SUFFIXES and file.is_file() and not file.name.startswith("."):
                yield from (loaded for loaded in _read_workflows(file) if not _is_mere_page(loaded))
    elif path.is_file():
        yield from _read_workflows(path)
    else:
        yield load_workflow_argument(environment, name)


def _read_workflows(file: Path) -> Iterator[LoadedWorkflow]:
    """Yield all workflows of a file."""
    for read in read_workflow_file(file):
        workflow = None if read.is_broken else read.workflow
        yield LoadedWorkflow(workflow, read.problems, file, read.places, read.name, read.workflow)


def _is_mere_page(loaded: LoadedWorkflow) -> bool:
    """True for a page without a diagram, which is ignored in a directory."""
    return any(problem.code == "no_diagram" for problem in loaded.problems)


def read_workflow_text(path: Path) -> str:
    """Return the text of a file, unchanged. Raises InvalidFile if it is too large or not text."""
    try:
        return reading.read_file_text(path)
    except OSError as error:
        raise UsageError(f"can't read the file: {error.strerror}", where=str(path)) from error


def format_place(path: Path, problem: WorkflowProblem) -> str:
    """Return `path:line:column`, as far as they are known."""
    return ":".join(str(part) for part in (path, problem.line, problem.column) if part is not None)


def make_relative(path: Path | str) -> str:
    """Return the path relative to the current directory, if it is below that."""
    below = os.path.relpath(path, get_current_directory())
    return str(path) if below.startswith(os.pardir) else below
