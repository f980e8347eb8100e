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
from logist.core.text.counts import format_count
from logist.errors import UsageError
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from logist.config.sections import ContextRules
    from logist.core.model import Request, Status
    from logist.core.prompt.budget import BudgetRow
    from logist.core.prompt.search_report import SearchReport
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
@click.option(
    "--why",
    is_flag=True,
    help="Instead of the prompt, print why each relevant file was picked: its rank, its score, and the words that count.",
)
@click.option(
    "--file",
    "files",
    metavar="PATH",
    type=click.Path(),
    multiple=True,
    help="With --why: explain this file of the workspace, also why it was not picked. You can repeat it.",
)
@click.option("--strict", is_flag=True, help="Fail if a template has unfilled placeholders.")
@agent_option
@on_job
def preview(
    project: ProjectContext,
    job_id: str,
    role: str | None,
    model: str | None,
    strict: bool,
    user: bool,
    why: bool,
    files: tuple[str, ...],
) -> Output:
    """Print the exact prompt that `logist job step` would send; nothing is sent, and the job does not change.

    The prompt is printed on standard output. The role and why it is next, the model, the maximum cost, and a
    table of the prompt's parts with their tokens and their price, and what was left out, are printed on standard
    error. If there is nothing to send, the exit code is the same as for `logist job step`: 3, 7, 8 or 11.
    """
    from logist.cli.context import warn_untrusted
    from logist.core.machine.limits import Halt
    from logist.core.machine.predecessors import describe_unmet
    from logist.core.machine.steward import next_command
    from logist.core.prompt.search_report import SearchReport
    from logist.core.step.step import StepPlan
    from logist.jobs.base.predecessors import find_unmet_of
    from logist.jobs.setup.workspace_setup import preview_setup
    from logist.jobs.turn.next_request import Choice, preview_request

    if files and not why:
        raise UsageError(
            "it explains why a file was picked or not, so it needs --why", where="--file", fix="add --why"
        )
    report = SearchReport()
    state, outcome = preview_request(project, job_id, Choice(role, model, strict=strict), report)
    if isinstance(outcome, StepPlan):
        setup = preview_setup(project, project.open_job(job_id))
        shown = _Preview(
            job_id,
            state.status,
            outcome,
            report,
            setup,
            user,
            project.has_local_agent,
            project.settings.context,
        )
        planned = _explain_files(project, shown, files) if why else _show_plan(shown)
        unmet = find_unmet_of(project, job_id, state, state.after or ())
        waits = (f"{describe_unmet(unmet)}: nothing is sent before that",) if unmet else ()
        diagnostics = make_notes(waits) + planned.diagnostics + warn_untrusted(project)
        return planned._replace(diagnostics=diagnostics)
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
        "offered_tokens",
        "input_cents",
        "budget_tokens",
        "budget",
        "setup",
        "left_out",
        "relevance",
    )
    empty: dict[str, Any] = {"files": [], "context": [], "request": None}
    return {"job": chosen, "status": status, **dict.fromkeys(unknown), **empty}


class _Preview(NamedTuple):
    """What a step would send, and how its files were chosen."""

    job: str
    status: Status
    plan: StepPlan
    report: SearchReport
    setup: Outlook
    user: bool
    """Whether only the part about the work is wanted."""
    free: bool
    """Whether the agent costs nothing, whatever the model costs."""
    rules: ContextRules

    @property
    def texts_setting(self) -> str:
        """The setting that bounds the texts of the relevant files together, with its value."""
        from logist.core.prompt import budget

        bounds = self.rules.relevant_files_tokens * budget.BYTES_PER_TOKEN, self.rules.max_total_bytes
        if bounds[0] <= bounds[1]:
            return f"context.relevant_files_tokens: {self.rules.relevant_files_tokens}"
        return f"context.max_total_bytes: {self.rules.max_total_bytes}"

    def price_tokens(self, tokens: int) -> int | None:
        """Return what so many tokens of this request cost, in microcents; None if the price is unknown."""
        from logist.core.money import money

        whole = self.plan.prompt_tokens + self.plan.offered_tokens
        return 0 if self.free else money.compute_cost(self.plan.model, tokens, 0, longest_input=whole)


def _show_plan(shown: _Preview) -> Output:
    data = _build_data(shown)
    note_texts = [
        *_describe_plan(data, shown),
        *_describe_setup(shown.setup),
        *_format_table(shown),
        *_describe_left_out(data["left_out"], shown),
    ]
    return Output(data, (), make_notes(note_texts), raw=data["request"]["prompt"])


def _explain_files(project: ProjectContext, shown: _Preview, files: Sequence[str]) -> Output:
    """Show why each relevant file was picked, and for `files` why they were not."""
    from logist.cli.show import relevance_table
    from logist.workspace.context import explain_listed

    report, plan = shown.report, shown.plan
    data = _build_data(shown)
    if report.survey is None:
        fix = f"add relevant_files to the context_requirements of {plan.role.name}"
        message = f"role {plan.role.name} requires no relevant files, so none are picked"
        return Output(data, (), (Diagnostic("warning", "no_relevant_files", message, shown.job, fix),))
    if report.limit < 1:
        message, fix = "context.relevant_files_limit is 0, so no files are picked", "set it to 1 or more"
        return Output(data, (), (Diagnostic("warning", "no_relevant_files", message, shown.job, fix),))
    workspace = project.open_workspace(project.open_job(shown.job))
    excluded = project.settings.context.excluded_paths
    explained = (
        [workspace.explain_file(report, path, excluded) for path in files]
        if files
        else explain_listed(report)
    )
    described = relevance_table.describe_texts([*explained], report, plan.table)
    lines = [*relevance_table.format_relevance(report, described)]
    if not files and (unlisted := _describe_unlisted(data["left_out"], shown)):
        lines += ["", *unlisted]
    return Output({**data, "relevance": relevance_table.build_data(report, described)}, lines)


def _build_data(shown: _Preview) -> dict[str, Any]:
    plan, report = shown.plan, shown.report
    request = _take_user_half(plan.request) if shown.user else plan.request
    return {
        "job": shown.job,
        "status": shown.status.value,
        "role": plan.role.name,
        "phase": plan.phase.value,
        "model": plan.model.name,
        "model_source": plan.model_source,
        "provider_model": plan.model.provider_model,
        "endpoint": plan.model.endpoint,
        "attempt": plan.attempt,
        "max_output_tokens": plan.max_output_tokens,
        "worst_case_cents": _to_cents(plan.reserved_microcents),
        "why": plan.why,
        "prompt_tokens": plan.prompt_tokens,
        "offered_tokens": plan.offered_tokens,
        "input_cents": _to_cents(shown.price_tokens(plan.prompt_tokens + plan.offered_tokens)),
        "budget_tokens": plan.allowed.tokens if plan.allowed else None,
        "budget": plan.allowed.says if plan.allowed else None,
        "setup": shown.setup.to_json(),
        "files": request.files_context,
        "context": [
            {**row.to_json(), "input_cents": _to_cents(shown.price_tokens(row.tokens))} for row in plan.table
        ],
        "left_out": {
            "texts": [
                {"path": each.file.path, "note": each.file.note}
                for each in report.chosen
                if each.file.text is None
            ],
            "in_parts": report.list_files_in_parts(),
            "below_limit": report.count_below_limit(),
            "below_floor": report.count_below_floor(),
            "cut_tokens": sum(row.whole - row.tokens for row in plan.table),
        },
        "relevance": None,
        "request": request.model_dump(mode="json", exclude_none=True),
        "reason": "",
        "next_command": advice.next_command(shown.status, job=shown.job),
    }


def _to_cents(microcents: int | None) -> float | None:
    return None if microcents is None else microcents / amounts.MICROCENTS


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


def _describe_plan(data: dict[str, Any], shown: _Preview) -> list[str]:
    files = ", ".join(data["files"]) or "none"
    where = data["endpoint"] or "the provider's default"
    budget = f" of at most {data['budget_tokens']:,} ({data['budget']})" if data["budget"] else ""
    worst, whole = shown.plan.reserved_microcents, data["prompt_tokens"] + data["offered_tokens"]
    offered = f", tools and form of the answer: {data['offered_tokens']:,}" if data["offered_tokens"] else ""
    price = shown.price_tokens(whole)
    cost = f"; input price {'unknown' if price is None else f'about {amounts.format_money(price)}'}"
    return [
        f"role {data['role']}, because {data['why']}",
        f"phase: {data['phase']}, attempt {data['attempt']}",
        f"model: {data['model']} ({data['provider_model']}), from {data['model_source']}, endpoint: {where}",
        f"maximum output: {data['max_output_tokens']} tokens, maximum cost: {'unknown' if worst is None else amounts.format_money(worst)}",
        f"files in the prompt: {files}",
        f"prompt: about {data['prompt_tokens']:,} tokens{budget}{offered}{'' if shown.free else cost}",
    ]


def _describe_left_out(left_out: dict[str, Any], shown: _Preview) -> list[str]:
    """Describe what the prompt doesn't contain although it matters for the task."""
    from logist.core.prompt.prompt_parts import escape_unprintable
    from logist.workspace.context import choosing

    lines = []
    if left_out["cut_tokens"]:
        setting = shown.plan.allowed.says if shown.plan.allowed else "context.budget_tokens"
        lines.append(f"left out: {left_out['cut_tokens']:,} tokens of the parts that were cut ({setting})")
    paths_by_note: dict[str, list[str]] = {}
    for text in left_out["texts"]:
        paths_by_note.setdefault(text["note"], []).append(text["path"])
    for note, paths in paths_by_note.items():
        setting = f", {shown.texts_setting}" if note == choosing.NO_ROOM else ""
        lines.append(f"left out: {', '.join(map(escape_unprintable, paths))} ({note}{setting})")
    if shown.report.chosen:
        lines += _describe_unlisted(left_out, shown)
        lines.append(f"why these files: logist job preview --job {shown.job} --why")
    return lines


def _describe_unlisted(left_out: dict[str, Any], shown: _Preview) -> list[str]:
    """Describe how many files have words of the task but are not listed."""
    more, low = left_out["below_limit"], left_out["below_floor"]
    lines = []
    if more:
        limit = f"(context.relevant_files_limit: {shown.report.limit})"
        lines.append(f"left out: {format_count(more, 'more file')} with words of the task {limit}")
    if low:
        lines.append(f"left out: {format_count(low, 'file')} with less than a tenth of the best score")
    return lines


def _format_table(shown: _Preview) -> list[str]:
    """Return the parts of the prompt in order, one line each."""
    has_prices = not shown.free and shown.price_tokens(1) is not None
    head = ("tokens", *(("price",) if has_prices else ()), "priority", "from", "cut", "part")
    cells = [head]
    in_parts = {f"relevant:{path}" for path in shown.report.list_files_in_parts()}
    for row in shown.plan.table:
        tokens, *others = _format_cells(row, in_parts=row.source in in_parts)
        price = shown.price_tokens(row.tokens) if has_prices else None
        cells.append((tokens, *(() if price is None else (amounts.format_money(price),)), *others))
    numbers = 1 + has_prices
    widths = [max(count_columns(row[column]) for row in cells) for column in range(len(head) - 1)]
    return [
        "  ".join(
            [
                *(row[n].rjust(widths[n]) for n in range(numbers)),
                *(pad_to_columns(row[n], widths[n]) for n in range(numbers, len(widths))),
                row[-1],
            ]
        )
        for row in cells
    ]


def _format_cells(row: BudgetRow, *, in_parts: bool) -> tuple[str, str, str, str, str]:
    cut = {
        "none": "parts" if in_parts else "",
        "shortened": f"from {row.whole:,}",
        "dropped": f"all {row.whole:,}",
    }[row.cut]
    return f"{row.tokens:,}", str(row.priority) if row.priority else "never", row.origin, cut, row.source
