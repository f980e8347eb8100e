"""The workflows that a command is about: by file, by name, or all that can be found."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from logist.cli.context import known_roles, known_workflows
from logist.cli.current_job import get_current_directory
from logist.cli.options import utf8
from logist.cli.show.output import Diagnostic
from logist.config.environment import Environment
from logist.errors import InvalidFile, UsageError
from logist.jobs.base import job_workflows
from logist.workflows import SUFFIXES, LoadedWorkflow, frozen, listed, load, problems_of, reading, readings

if TYPE_CHECKING:
    from logist.core.model import Workflow
    from logist.core.text.problem import WorkflowProblem


def one(environment: Environment, name: str) -> LoadedWorkflow:
    """The workflow of that file or name. UsageError if there is none, or one of several is not named."""
    path, _, _ = utf8(name, "the workflow", "name another").partition("#")
    if os.path.isfile(path) and os.sep not in path and not path.lower().endswith(SUFFIXES):
        name = os.path.join(".", name)  # the file and no name, whatever it is called
    try:
        return load(name, known_workflows(environment))
    except UsageError as error:
        if path and os.path.isdir(path):
            raise UsageError(f"`{path}` is a directory", fix="name a file in it") from error
        raise


def usable(environment: Environment, name: str) -> tuple[Workflow, LoadedWorkflow]:
    """The same with all that its steps name, and where it comes from. InvalidFile if it is broken."""
    loaded = one(environment, name)
    return whole(loaded, known_workflows(environment)), loaded


def whole(loaded: LoadedWorkflow, directories: Sequence[Path]) -> Workflow:
    """A workflow with all that its steps name. InvalidFile with the first of its errors."""
    found = frozen(loaded, directories)
    if found.workflow is None:
        raise broken(found)
    return found.workflow


def broken(loaded: LoadedWorkflow) -> InvalidFile:
    """Why a workflow can't be used."""
    first, *more = loaded.errors
    others = f"; {len(more)} more error{'s' if len(more) > 1 else ''}" if more else ""
    fix = f"logist workflow validate {quote(str(loaded.path))}" if more else first.fix
    return InvalidFile(first.said + others, where=place(loaded.path, first), fix=fix or None)


def errors(environment: Environment, loaded: LoadedWorkflow) -> tuple[Diagnostic, ...]:
    """The errors that `logist workflow validate` finds in a workflow that can be read."""
    around = job_workflows.around(known_roles(environment))
    found = problems_of(loaded, known_workflows(environment), around)
    return tuple(
        Diagnostic("error", problem.code, problem.said, place(loaded.path, problem), problem.fix or None)
        for problem in found
        if problem.severity == "error"
    )


def every(environment: Environment, names: Sequence[str]) -> list[LoadedWorkflow]:
    """All workflows of the files, directories and names; without any, all that can be found by name."""
    if not names:
        return [found.loaded for found in listed(known_workflows(environment))]
    return [loaded for name in names for loaded in _all(environment, name)]


def _all(environment: Environment, name: str) -> Iterator[LoadedWorkflow]:
    path = Path(utf8(name, "the workflow", "name another"))
    if name and path.is_dir():
        for file in sorted(path.iterdir()):
            if file.suffix.lower() in SUFFIXES and file.is_file() and not file.name.startswith("."):
                yield from (loaded for loaded in _held(file) if not _is_mere_page(loaded))
    elif path.is_file():
        yield from _held(path)
    else:
        yield one(environment, name)


def _held(file: Path) -> Iterator[LoadedWorkflow]:
    """Every workflow of a file."""
    for read in readings(file):
        workflow = None if read.broken else read.workflow
        yield LoadedWorkflow(workflow, read.problems, file, read.places, read.name, read.workflow)


def _is_mere_page(loaded: LoadedWorkflow) -> bool:
    """A page without a diagram, among the files of a directory, is there to be read."""
    return any(problem.code == "no_diagram" for problem in loaded.problems)


def text_of(path: Path) -> str:
    """The text of a file, every byte of it. InvalidFile if it is too large or none."""
    try:
        return reading.text_of(path)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error


def place(path: Path, problem: WorkflowProblem) -> str:
    """`path:line:column`, as far as they are known."""
    return ":".join(str(part) for part in (path, problem.line, problem.column) if part is not None)


def near(path: Path | str) -> str:
    """The path as one would write it here: from this directory on, if it is below."""
    below = os.path.relpath(path, get_current_directory())
    return str(path) if below.startswith(os.pardir) else below
