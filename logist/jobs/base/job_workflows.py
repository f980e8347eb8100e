"""Workflows of jobs: read, checked whole and frozen when a job is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from logist.core.model import Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.checking import Around
from logist.core.workflow.limit_checks import Allowance
from logist.errors import InvalidFile
from logist.roles import Roles
from logist.workflows import LoadedWorkflow, directories, frozen, load, problems_of

if TYPE_CHECKING:
    from logist.jobs.base.project import Project


def around(
    roles: Roles, job_role: str | None = None, given: Any = None, allowance: Allowance | None = None
) -> Around:
    """The roles that a workflow may name, whom each may give work to, the names that its input has, and the limits."""
    known = {name: loaded.role for name, loaded in roles.by_name.items()}
    return Around(
        roles=frozenset(known),
        delegates={
            name: role.can_delegate_to_roles for name, role in known.items() if role.can_delegate_to_roles
        },
        job_role=job_role,
        roots=frozenset(given) if isinstance(given, dict) else frozenset(),
        allowance=allowance,
    )


def chosen(project: Project, name: str, here: Path, job_role: str | None, allowance: Allowance) -> Workflow:
    """The workflow of that file or name, with all that it names inside, for a job of that role.

    Raises UsageError if there is none, InvalidFile with everything that is wrong with it. Warnings are told.
    """
    places = directories(project.layers)
    loaded = load(name, places, here)
    known = around(project.roles, job_role, allowance.job_input, allowance)
    found = problems_of(loaded, places, known)
    for problem in found:
        if problem.severity == "warning":
            project.say(f"warning: {told(loaded.path, problem)}")
    errors = [problem for problem in found if problem.severity == "error"]
    whole = frozen(loaded, places)
    if errors or whole.workflow is None:
        raise _invalid(whole, errors or whole.errors)
    return whole.workflow


def _invalid(loaded: LoadedWorkflow, errors: Sequence[WorkflowProblem]) -> InvalidFile:
    count = f"{len(errors)} errors" if len(errors) != 1 else "an error"
    fix = f"logist workflow validate {quote(str(loaded.path))}"
    found = InvalidFile(f"the workflow can't be used, for it has {count}", where=str(loaded.path), fix=fix)
    found.details = tuple(
        InvalidFile(error.said, where=_place(loaded.path, error), fix=error.fix or None) for error in errors
    )
    return found


def told(path: Path, problem: WorkflowProblem) -> str:
    """A problem on one line, with its place."""
    fix = f" ({problem.fix})" if problem.fix else ""
    return f"{_place(path, problem)}: {problem.said}{fix}"


def _place(path: Path, problem: WorkflowProblem) -> str:
    return ":".join(str(part) for part in (path.name, problem.line, problem.column) if part is not None)
