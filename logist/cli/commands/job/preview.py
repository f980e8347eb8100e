"""`logist job preview`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import agent_option, model_option
from logist.cli.project import on_job
from logist.cli.shell_values import complete_role
from logist.cli.show.output import Diagnostic, Output, make_notes
from logist.core.machine import advice
from logist.core.money import amounts
from logist.core.text.columns import count_columns, pad_to_columns

if TYPE_CHECKING:
    from logist.core.model import Request, Status
    from logist.core.prompt.budget import BudgetRow
    from logist.core.step.step import StepPlan
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.setup.workspace_setup import Outlook


@click.command("preview")
@click.option(
    "--role",
    metavar="NAME",
    help="Preview the prompt of this role instead of the one that is next.",
    shell_complete=complete_role,
)
@model_option
@click.option(
    "--user", is_flag=True, help="Print only the part about the work, without the role's instructions."
)
@click.option("--strict", is_flag=True, help="Fail if a template has unfilled placeholders.")
@agent_option
@on_job
def preview(
    project: ProjectContext, job_id: str, role: str | None, model: str | None, strict: bool, user: bool
) -> Output:
    """Print the exact prompt that `logist job step` would send; nothing is sent or written.

    The prompt is printed on standard output. The role and why it is next, the model, the maximum cost, and a
    table of the prompt's parts, with what was cut to fit the budget, are printed on standard error. If there is
    nothing to send, the exit code is the same as for `logist job step`: 3, 7, 8 or 11.
    """
    from logist.cli.context import warn_untrusted
    from logist.core.machine.limits import Halt
    from logist.core.machine.steward import next_command
    from logist.core.step.step import StepPlan
    from logist.jobs.setup.workspace_setup import preview_setup
    from logist.jobs.turn.next_request import Choice
    from logist.jobs.turn.next_request import preview_request as look

    state, outcome = look(project, job_id, Choice(role, model, strict=strict))
    if isinstance(outcome, StepPlan):
        planned = _show_plan(
            job_id, state.status, outcome, user, preview_setup(project, project.open_job(job_id))
        )
        return planned._replace(diagnostics=planned.diagnostics + warn_untrusted(project))
    if isinstance(outcome, Halt):
        # The job is not halted yet: once the limit is raised, there is nothing to resume.
        answer = advice.raise_limit_command(outcome.limit.value, outcome.job or job_id)
        return _show_nothing_to_ask(job_id, outcome.limit.value, outcome.reason, answer)
    answer = next_command(state, job_id, running=project.open_job(job_id).find_lock_holder() is not None)
    return _show_nothing_to_ask(job_id, state.status.value, outcome.reason, answer)


def _show_nothing_to_ask(chosen: str, status: str, reason: str, fix: str) -> Output:
    data = {**_build_empty_data(chosen, status), "reason": reason, "next_command": fix}
    diagnostic = Diagnostic(
        "warning", "nothing_to_ask", f"{status}: {reason}" if reason else status, chosen, fix
    )
    return Output(data, (), (diagnostic,), advice.exit_code(status))


def _build_empty_data(chosen: str, status: str) -> dict[str, Any]:
    unknown = (
        "role",
        "phase",
        "model",
        "model_source",
        "provider_model",
        "endpoint",
        "attempt",
        "max_output_tokens",
        "worst_case_cents",
        "why",
        "prompt_tokens",
        "budget_tokens",
        "budget",
        "setup",
    )
    empty: dict[str, Any] = {"files": [], "context": [], "request": None}
    return {"job": chosen, "status": status, **dict.fromkeys(unknown), **empty}


def _show_plan(chosen: str, status: Status, plan: StepPlan, user: bool, setup: Outlook) -> Output:
    request = _take_user_half(plan.request) if user else plan.request
    worst = plan.reserved_microcents
    data = {
        "job": chosen,
        "status": status.value,
        "role": plan.role.name,
        "phase": plan.phase.value,
        "model": plan.model.name,
        "model_source": plan.model_source,
        "provider_model": plan.model.provider_model,
        "endpoint": plan.model.endpoint,
        "attempt": plan.attempt,
        "max_output_tokens": plan.max_output_tokens,
        "worst_case_cents": None if worst is None else worst / amounts.MICROCENTS,
        "why": plan.why,
        "prompt_tokens": plan.prompt_tokens,
        "budget_tokens": plan.allowed.tokens if plan.allowed else None,
        "budget": plan.allowed.says if plan.allowed else None,
        "setup": setup.to_json(),
        "files": request.files_context,
        "context": [row.to_json() for row in plan.table],
        "request": request.model_dump(mode="json", exclude_none=True),
        "reason": "",
        "next_command": advice.next_command(status, job=chosen),
    }
    note_texts = [*_describe_plan(data, worst), *_describe_setup(setup), *_format_table(plan.table)]
    return Output(data, (), make_notes(note_texts), raw=request.prompt)


def _describe_setup(setup: Outlook) -> list[str]:
    """Describe the setup that a step would do before it asks the agent."""
    changed = (
        f"; changed since the last setup: {', '.join(setup.changed)}" if setup.changed and setup.stamp else ""
    )
    words = {
        "none": [],
        "done": ["setup: done"],
        "cached": [f"setup: would be copied from the cache{changed}"],
        "due": [f"setup: would run {'; '.join(setup.commands)}{changed}"],
        "failed": [f"setup: failed, would run again: {'; '.join(setup.commands)}"],
    }
    return words[setup.status]


def _take_user_half(request: Request) -> Request:
    """Return the request without the role's instructions, with the positions of its parts adjusted."""
    start = int(request.metadata["user_start"])
    parts = [
        part.model_copy(update={"start": part.start - start, "end": part.end - start})
        for part in request.parts
        if part.start >= start
    ]
    metadata = {**request.metadata, "user_start": 0}
    return request.model_copy(update={"prompt": request.prompt[start:], "parts": parts, "metadata": metadata})


def _describe_plan(data: dict[str, Any], worst: int | None) -> list[str]:
    files = ", ".join(data["files"]) or "none"
    where = data["endpoint"] or "the provider's default"
    budget = f" of at most {data['budget_tokens']:,} ({data['budget']})" if data["budget"] else ""
    return [
        f"role {data['role']}, because {data['why']}",
        f"phase: {data['phase']}, attempt {data['attempt']}",
        f"model: {data['model']} ({data['provider_model']}), from {data['model_source']}, endpoint: {where}",
        f"maximum output: {data['max_output_tokens']} tokens, maximum cost: {'unknown' if worst is None else amounts.format_money(worst)}",
        f"files in the prompt: {files}",
        f"prompt: about {data['prompt_tokens']:,} tokens{budget}",
    ]


def _format_table(rows: Sequence[BudgetRow]) -> list[str]:
    """Return the parts of the prompt in order, one line each."""
    head = ("tokens", "priority", "from", "cut", "part")
    cells = [head, *(_format_cells(row) for row in rows)]
    widths = [max(count_columns(row[column]) for row in cells) for column in range(len(head) - 1)]
    return [
        "  ".join(
            [
                row[0].rjust(widths[0]),
                *(pad_to_columns(row[n], widths[n]) for n in range(1, len(widths))),
                row[-1],
            ]
        )
        for row in cells
    ]


def _format_cells(row: BudgetRow) -> tuple[str, str, str, str, str]:
    cut = {"none": "", "shortened": f"from {row.whole:,}", "dropped": f"all {row.whole:,}"}[row.cut]
    part = f"{row.source}: {row.reason}" if row.reason else row.source
    return f"{row.tokens:,}", str(row.priority) if row.priority else "never", row.origin, cut, part
