"""Loads, checks and freezes the workflow of a job when the job is created."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from logist.core.model import Workflow
from logist.core.text.counts import format_count
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.checking import Around
from logist.core.workflow.limit_checks import Allowance
from logist.errors import InvalidFile
from logist.roles import Roles
from logist.workflows import (
    LoadedWorkflow,
    find_workflow_problems,
    freeze_subflows,
    list_workflow_search_path,
    load_workflow,
)

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext


def build_check_context(
    roles: Roles, job_role: str | None = None, given: Any = None, allowance: Allowance | None = None
) -> Around:
    """What a workflow is checked against: the known roles, the roles that they
    may delegate to, the names of the input, the limits.
    """
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


def load_job_workflow(
    project: ProjectContext, name: str, here: Path, job_role: str | None, allowance: Allowance
) -> Workflow:
    """Load the workflow with that file or name, including all workflows it refers to, for a job of that role.

    Prints warnings. Raises UsageError if the workflow is missing, InvalidFile with all its errors.
    """
    folders = list_workflow_search_path(project.layers)
    loaded = load_workflow(name, folders, here)
    context = build_check_context(project.roles, job_role, allowance.job_input, allowance)
    problems = find_workflow_problems(loaded, folders, context)
    for problem in problems:
        if problem.severity == "warning":
            project.say(f"warning: {format_problem(loaded.path, problem)}")
    errors = [problem for problem in problems if problem.severity == "error"]
    frozen_workflow = freeze_subflows(loaded, folders)
    if errors or frozen_workflow.workflow is None:
        raise _invalid_workflow_error(frozen_workflow, errors or frozen_workflow.errors)
    return frozen_workflow.workflow


def _invalid_workflow_error(loaded: LoadedWorkflow, errors: Sequence[WorkflowProblem]) -> InvalidFile:
    count = format_count(len(errors), "error")
    fix = f"logist workflow validate {quote(str(loaded.path))}"
    failure = InvalidFile(f"the workflow can't be used: it has {count}", where=str(loaded.path), fix=fix)
    failure.details = tuple(
        InvalidFile(error.full_message, where=_format_location(loaded.path, error), fix=error.fix or None)
        for error in errors
    )
    return failure


def format_problem(path: Path, problem: WorkflowProblem) -> str:
    """Format a problem as one line, with its location."""
    fix = f" ({problem.fix})" if problem.fix else ""
    return f"{_format_location(path, problem)}: {problem.full_message}{fix}"


def _format_location(path: Path, problem: WorkflowProblem) -> str:
    return ":".join(str(part) for part in (path.name, problem.line, problem.column) if part is not None)
