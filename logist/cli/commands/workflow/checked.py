"""Reports problems of workflows for `validate` and `lint`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logist.cli.commands.workflow import given
from logist.cli.context import list_workflow_directories, load_current_settings, load_known_roles
from logist.cli.show.output import Diagnostic, Line, Output, StyledText
from logist.config.environment import Environment
from logist.core.model import Limits
from logist.core.text.counts import format_count
from logist.core.workflow.checking import Around
from logist.core.workflow.limit_checks import Allowance
from logist.core.workflow.linting import lint_workflow
from logist.errors import InvalidFile
from logist.jobs.base import job_workflows
from logist.workflows import LoadedWorkflow, find_workflow_problems

if TYPE_CHECKING:
    from logist.core.text.problem import WorkflowProblem

COLORS = {"error": "red", "warning": "yellow"}
Finding = tuple["WorkflowProblem", LoadedWorkflow]


def report_problems(
    environment: Environment,
    names: Sequence[str],
    *,
    advice: bool,
    strict: bool = False,
    job_role: str | None = None,
    as_json: bool = False,
) -> Output:
    """Report one finding per line. With `advice`, also report possible improvements; with `strict`, every finding
    is a failure.
    """
    roles = load_known_roles(environment)
    if job_role is not None:
        roles.get(job_role)
    around = job_workflows.build_check_context(roles, job_role, allowance=_read_allowance(environment))
    directories = list_workflow_directories(environment)
    every = given.load_workflow_arguments(environment, names)
    every_finding = [
        (problem, loaded)
        for loaded in every
        for problem in _list_problems(loaded, directories, around, advice=advice)
    ]
    failing = [finding for finding in every_finding if strict or finding[0].severity == "error"]
    bad = {id(loaded) for _, loaded in failing}
    data = {
        "ok": not failing,
        "workflows": [
            {"name": loaded.name, "file": str(loaded.path), "ok": id(loaded) not in bad} for loaded in every
        ],
        "problems": [_build_row(finding) for finding in every_finding],
    }
    if not every:
        return Output(data, diagnostics=(_no_workflows_warning(names, directories[0]),))
    code = InvalidFile.exit_code if failing else 0
    if as_json:
        return Output(
            data, diagnostics=tuple(_make_diagnostic(finding) for finding in every_finding), exit_code=code
        )
    return Output(
        data,
        [_format_finding(finding) for finding in every_finding],
        (_summarize_findings(every, every_finding, len(bad)),),
        code,
    )


def _read_allowance(environment: Environment) -> Allowance | None:
    """Return what the config allows a job; None for an unreadable config, which is not a problem of the workflow."""
    try:
        settings = load_current_settings(environment).settings
    except InvalidFile:
        return None
    limits, max_steps = Limits(**settings.limits.model_dump()), settings.workflow.max_steps
    return Allowance(limits, settings.review.enabled, max_steps=max_steps)


def _list_problems(
    loaded: LoadedWorkflow, directories: Sequence[Path], around: Around, *, advice: bool
) -> list[WorkflowProblem]:
    """Return the problems in the order of the file."""
    left_out = set() if advice or loaded.draft is None else set(lint_workflow(loaded.draft, loaded.places))
    remaining = [
        problem for problem in find_workflow_problems(loaded, directories, around) if problem not in left_out
    ]
    return sorted(remaining, key=lambda problem: (problem.line or 0, problem.column or 0))


def _build_row(finding: Finding) -> dict[str, Any]:
    problem, loaded = finding
    return {
        "severity": problem.severity,
        "code": problem.code,
        "message": problem.message,
        "path": problem.path,
        "file": str(loaded.path),
        "line": problem.line,
        "column": problem.column,
        "workflow": loaded.name,
        "fix": problem.fix or None,
    }


def _make_diagnostic(finding: Finding) -> Diagnostic:
    problem, loaded = finding
    target = given.format_place(loaded.path, problem)
    return Diagnostic(problem.severity, problem.code, problem.full_message, target, problem.fix or None)


def _format_finding(finding: Finding) -> Line:
    """Format a finding like a compiler message, so that editors can jump to it."""
    problem, loaded = finding
    fix = f" ({problem.fix})" if problem.fix else ""
    return (
        f"{given.format_place(loaded.path, problem)}: ",
        StyledText(f"{problem.severity}:", COLORS[problem.severity]),
        f" {problem.full_message}{fix}",
    )


def _no_workflows_warning(names: Sequence[str], project_directory: Path) -> Diagnostic:
    """The warning that nothing was checked: no workflow in the directories that were passed, or in the project."""
    if names:
        message, fix = (
            f"no workflow found in {', '.join(names)}",
            "pass a file, or a directory with workflow files",
        )
    else:
        message, fix = "this project has no workflows", given.advise_first_workflow(project_directory)
    return Diagnostic("warning", "note", f"{message}: nothing was checked", None, fix)


def _summarize_findings(every: Sequence[LoadedWorkflow], found: Sequence[Finding], bad: int) -> Diagnostic:
    errors = sum(problem.severity == "error" for problem, _ in found)
    many = ((errors, "error"), (len(found) - errors, "warning"))
    count_text = " and ".join(format_count(number, word) for number, word in many if number)
    of = f"{format_count(len(every), 'workflow')} checked"
    if not bad:
        return Diagnostic("info", "note", f"{of}: {count_text or 'no problems found'}")
    return Diagnostic("error", InvalidFile.code, f"{of}, {bad} with problems: {count_text}")
