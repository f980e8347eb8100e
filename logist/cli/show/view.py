"""Formats results of jobs: as JSON, and as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from logist.cli.show import answer_details
from logist.cli.show.glance import role_span, status_span
from logist.cli.show.output import (
    Command,
    Diagnostic,
    Line,
    Output,
    StyledText,
    make_notes,
    make_warnings,
)
from logist.core.answer import findings, plans
from logist.core.answer.evidence import find_unnamed_changes
from logist.core.history import newer_versions
from logist.core.machine import decisions
from logist.core.machine.kinds import plain_command_of
from logist.core.model.words import Kind
from logist.core.money import amounts
from logist.core.text.counts import format_count
from logist.timestamps import format_local

if TYPE_CHECKING:
    from pathlib import Path

    from logist.core.model import Change, Interaction
    from logist.core.model.commands import (
        ApproveCommand,
        AskCommand,
        ForkCommand,
        RoleCommand,
        ScrubCommand,
        UpdateCommand,
    )
    from logist.jobs.base.result import CommandResult
    from logist.jobs.job_queue import EndedJob

UNCHANGED = "no files changed"
FINDINGS = 5
"""Maximum findings of a review printed for an interaction; --json has all."""


def build_result_output(
    result: CommandResult, *, steps: Sequence[CommandResult] | None = None, jobs_dir: Path | None = None
) -> Output:
    """Return the output of a command that changed a job; `steps` of a run are already printed.

    `jobs_dir`: for the errors of the tools that an agent called, which only the logs of the job have.
    """
    lines = [] if steps else step_lines(result, jobs_dir)
    diagnostics = make_notes(result.notes) + make_warnings(result.warnings)
    data = build_result_data(result, steps=steps)
    return Output(data, [*lines, *status_lines(result)], diagnostics, result.exit_code)


def build_result_data(
    result: CommandResult, *, steps: Sequence[CommandResult] | None = None
) -> dict[str, Any]:
    """Return the result of a command that changed a job as JSON."""
    state = result.state
    entries = [entry for step in steps or [result] for entry in step.entries]
    return {
        "job": result.job_id,
        "status": state.status.value,
        "awaiting": state.place.awaiting,
        "revision": state.revision,
        "reason": state.reason,
        "stuck": state.place.stuck.model_dump(mode="json") if state.place.stuck else None,
        "attempts": state.place.attempts,
        "usage": state.usage.model_dump(mode="json"),
        "interactions": [build_entry_row(entry) for entry in entries],
        "next_command": result.next_command,
    }


def build_decisions_output(decided: Sequence[EndedJob], exit_code: int) -> Output:
    """Return the output of one decision about several jobs: a line for each, and the errors."""
    diagnostics: list[Diagnostic] = []
    for each in decided:
        if each.error is not None:
            is_unknown = f"{each.job_id!r} not found" in each.error.message  # the directory says no more
            where = None if is_unknown else each.error.where
            target = ": ".join(filter(None, (each.job_id, where)))
            diagnostics.append(Diagnostic.from_error(each.error)._replace(target=target))
        if each.result is not None:
            messages = make_notes(each.result.notes) + make_warnings(each.result.warnings)
            diagnostics += [message._replace(target=each.job_id) for message in messages]
    lines = [status_lines(each.result)[0] for each in decided if each.result is not None]
    return Output([_build_decision_row(each) for each in decided], lines, tuple(diagnostics), exit_code)


def _build_decision_row(decided: EndedJob) -> dict[str, Any]:
    error = None if decided.error is None else Diagnostic.from_error(decided.error)._asdict()
    return {
        "job": decided.job_id,
        "exit_code": decided.exit_code,
        "result": None if decided.result is None else build_result_data(decided.result),
        "error": error,
    }


def step_lines(result: CommandResult, jobs_dir: Path | None = None) -> list[Line]:
    """Return a summary of what a step recorded, with the output of failed checks and the errors of failed tool calls."""
    lines = []
    for entry in result.entries:
        lines += [*entry_lines(entry), *_detail_lines(entry, result.job_id, jobs_dir)]
    return lines


def _detail_lines(entry: Interaction, job: str, jobs_dir: Path | None) -> Iterator[Line]:
    checks = entry.observed.checks if entry.observed else []
    yield from answer_details.check_output_lines((each.model_dump() for each in checks), job, "     ")
    if entry.response.tools_failed and jobs_dir is not None:
        calls = answer_details.read_failed_calls(jobs_dir / job, entry.sequence)
        yield from answer_details.failed_call_lines(calls, entry.sequence, "   ")
    if entry.after.stuck is not None:
        yield from answer_details.question_lines(entry.response.output, "   ")


def prefix_lines(job: str, lines: list[Line]) -> list[Line]:
    """Return the lines, each with the job id before it."""
    return [(f"{job} ", *((line,) if isinstance(line, str | StyledText) else line)) for line in lines]


def status_lines(result: CommandResult) -> list[Line]:
    """Return the status of a job, and the command to run next."""
    state = result.state
    lines: list[Line] = [(StyledText(result.job_id, "bold"), " is ", status_span(state.status.value))]
    is_printed = bool(result.entries) and result.entries[-1].reason == state.reason
    if state.reason and not is_printed:
        lines.append(f"  {' '.join(state.reason.split())}")
    lines += _stuck_command_lines(result)
    return [*lines, (Command(f"next: {result.next_command}", "dim"),)]


def _stuck_command_lines(result: CommandResult) -> Iterator[Line]:
    """Yield the commands that read the answer with which the job got stuck, and that answer by hand."""
    last, stuck = result.entries[-1] if result.entries else None, result.state.place.stuck
    if last is not None and stuck is not None and last.kind == "ask" and not last.simulated:
        yield from answer_details.command_lines(
            answer_details.read_command(stuck.kind, result.job_id, last.sequence),
            answer_details.poststep_command(stuck.kind, result.job_id),
        )


def get_ask_command(entry: Interaction) -> AskCommand | None:
    """Return what an answer recorded besides the next place; None for other kinds."""
    return cast("AskCommand", plain_command_of(entry)) if entry.kind is Kind.ASK else None


def _get_approve_command(entry: Interaction) -> ApproveCommand | None:
    return cast("ApproveCommand", plain_command_of(entry)) if entry.kind is Kind.APPROVE else None


def build_entry_row(entry: Interaction) -> dict[str, Any]:
    """Return a summary of an interaction as JSON."""
    command = get_ask_command(entry)
    return {
        "sequence": entry.sequence,
        "timestamp": entry.timestamp,
        "kind": entry.kind.value,
        "actor": entry.actor.value,
        "role": entry.observed.role if entry.observed else None,
        "state_before": entry.state_before.value,
        "state_after": entry.state_after.value,
        "status": entry.response.status,
        "actions": entry.response.actions,
        "summary": entry.response.summary_for_supervisor,
        "evidence_files": entry.response.evidence_files,
        "unchanged": is_unchanged(entry),
        "changed_files": [change.path for change in _list_changes(entry)],
        "unnamed_changes": [
            change.path
            for change in find_unnamed_changes(_list_changes(entry), entry.response.evidence_files)
        ],
        "reason": entry.reason,
        "warnings": entry.response.warnings,
        "simulated": entry.simulated,
        "usage": entry.usage.model_dump(mode="json"),
        "note": entry.steward.note if entry.steward else None,
        "route": entry.route,
        "step": entry.step,
        "attempt": entry.attempt,
        "model": find_model(entry),
        "verdict": command.verdict if command else None,
        "checks": [each.model_dump(mode="json") for each in entry.observed.checks] if entry.observed else [],
    }


def find_model(entry: Interaction) -> str | None:
    """Return the model that was asked; None if it is not recorded, as for a decision."""
    model = entry.request.metadata.get("model")
    return model if isinstance(model, str) else None


def list_facts(entry: Interaction) -> list[str]:
    """Return the time of an interaction and, for an answer, its duration, cost, model and step; the most important
    facts come first.
    """
    facts = [format_local(entry.timestamp, with_seconds=True)]
    if entry.kind != "ask":
        return [*facts, f"by {entry.steward.name}"] if entry.steward else facts
    usage = entry.usage
    cost = amounts.format_money(amounts.join_cents(usage.cost_cents, usage.cost_microcents))
    attempt = f", attempt {entry.attempt}" if entry.attempt and entry.attempt > 1 else ""
    step = f"step {entry.step}{attempt}" if entry.step else ""
    return [*facts, f"{usage.seconds:.1f} s", cost, find_model(entry) or "", step]


def entry_lines(entry: Interaction, *, every_decision: bool = False) -> list[Line]:
    """Return a summary of an interaction as text: actor, actions, state change.

    Without `every_decision`, it lists only decisions with a condition that could not be evaluated.
    """
    who = entry.observed.role if entry.observed else entry.actor.value
    what = ", ".join(entry.response.actions) or (
        _describe_no_answer(entry) if entry.kind == "ask" else _describe_decision(entry)
    )
    supplied = " (answer supplied by hand)" if entry.simulated else ""
    command = get_ask_command(entry)
    verdict = command.verdict if command else None
    outcome: tuple[StyledText | str, ...] = (f"{what}, verdict {verdict}" if verdict else what,)
    if verdict == "FAIL" and what == "COMPLETED":  # the review is completed, the work is not
        outcome = (StyledText("FAIL", "red bold"),)
    lines: list[Line] = [
        (
            StyledText(f"#{entry.sequence}", "dim"),
            " ",
            role_span(who, entry.request.metadata.get("badge"), entry.request.metadata.get("color")),
            ": ",
            *outcome,
            f"{supplied}, {entry.state_before} -> ",
            status_span(entry.state_after.value),
        )
    ]
    details = [
        *_describe_setup(entry),
        *_describe_tools(entry),
        *combine_reasons(entry.response.summary_for_supervisor, entry.reason),
    ]
    details += [UNCHANGED] if is_unchanged(entry) else []
    details += _list_findings(entry)
    if every_decision:
        details += describe_decider(entry)
        details += map(decisions.format_decision, entry.route)
    else:
        details += decisions.format_fallbacks(entry.route)
    details += newer_versions.list_newer_warnings([entry])
    plan = plans.render_plan_lines(entry.response.output) if _is_plan(entry) else []
    return [*lines, *(f"   {' '.join(text.split())}" for text in details), *(f"     {line}" for line in plan)]


def _is_plan(entry: Interaction) -> bool:
    command = get_ask_command(entry)
    return command is not None and bool(command.plan) and plans.is_plan(entry.response.output)


def _describe_no_answer(entry: Interaction) -> str:
    return "breach" if entry.observed and entry.observed.refusals else "no valid answer"


def _describe_setup(entry: Interaction) -> list[str]:
    """Describe the setup of the workspace, if this step ran it."""
    setup = entry.request.metadata.get("setup")
    if not isinstance(setup, dict) or "seconds" not in setup:
        return []
    how = "copied from the cache" if setup.get("source") == "cache" else "done"
    return [f"setup: {how} in {setup['seconds']} s"]


def _describe_tools(entry: Interaction) -> list[str]:
    """Describe which tools a model called, how often, and how many of the calls failed."""
    failed = entry.response.tools_failed or {}
    counted = ", ".join(
        _format_count(name, count, failed.get(name)) for name, count in entry.response.tools.items()
    )
    return [f"tools: {counted}"] if counted else []


def _format_count(name: str, count: Any, failed: Any) -> str:
    calls = f"{name} x {count}" if count != 1 else name
    return f"{calls} ({'failed' if failed == count == 1 else f'{failed} failed'})" if failed else calls


def is_unchanged(entry: Interaction) -> bool:
    """True if a doer reports COMPLETED, but changed no file although it was allowed to."""
    observed = entry.observed
    return bool(observed and observed.unchanged) and entry.response.actions == ["COMPLETED"]


def _list_changes(entry: Interaction) -> list[Change]:
    """Return the changes by an agent, without files in caches."""
    return [change for change in entry.observed.changes if not change.cache] if entry.observed else []


def _list_findings(entry: Interaction) -> list[str]:
    """Return the results of checks, and the findings of a reviewer."""
    results = entry.observed.checks if entry.observed else []
    command = get_ask_command(entry)
    findings_recorded = (command.findings or []) if command else []
    first = findings_recorded[:FINDINGS]
    more = len(findings_recorded) - len(first)
    return [
        *(
            f"{each.check} ({each.severity}): {findings.format_check_result(each.outcome, each.exit_code, each.reason)}"
            for each in results
        ),
        *(findings.format_finding(each) for each in first),
        *([f"... and {format_count(more, 'more finding')}"] if more else []),
    ]


def describe_decider(entry: Interaction) -> list[str]:
    """Describe who made a decision, how, and whether it was signed; earlier versions did not record how."""
    if entry.steward is None or entry.steward.via is None:
        return []
    signed = "not signed" if plain_command_of(entry).signature is None else "signed"
    approval = _get_approve_command(entry)
    seen = ", with --seen" if approval and approval.seen else ""
    return [f"by {entry.steward.name} ({entry.steward.via}), {signed}{seen}"]


def build_decision_row(entry: Interaction) -> dict[str, Any]:
    """Return who made a decision, how, and whether it was signed, as JSON."""
    approval = _get_approve_command(entry)
    return {
        "sequence": entry.sequence,
        "kind": entry.kind.value,
        "steward": entry.steward.name if entry.steward else None,
        "via": entry.steward.via if entry.steward else None,
        "signed": plain_command_of(entry).signature is not None,
        "seen": approval.seen if approval else None,
    }


def format_decision(entry: Interaction) -> list[Line]:
    """Return one line about a decision, if the history says how it was made."""
    return [f"#{entry.sequence} {_describe_decision(entry)}: {who}" for who in describe_decider(entry)]


def _describe_decision(entry: Interaction) -> str:
    """Describe what a steward or the system did."""
    if approval := _get_approve_command(entry):
        against = ", overriding the review" if approval.override else ""
        carrier = approval.carried_out_by
        return f"approve{against}" + (f", {carrier} carries out the plan" if carrier else "")
    if entry.kind is Kind.FORK:
        fork = cast("ForkCommand", plain_command_of(entry))
        return f"forked from {fork.from_job} at interaction {fork.at}"
    if entry.kind is Kind.ROLE:
        switch = cast("RoleCommand", plain_command_of(entry))
        return f"role {switch.from_role} -> {switch.to}"
    if entry.kind is Kind.UPDATE:
        updated = cast("UpdateCommand", plain_command_of(entry))
        return f"update to {(updated.after or '')[:12]} of {updated.branch}"
    if entry.kind is Kind.SCRUB:
        return f"scrub {describe_scrub(cast('ScrubCommand', plain_command_of(entry)))}"
    return entry.kind.value


def describe_scrub(command: ScrubCommand) -> str:
    """Return how much a scrub replaced, and why."""
    reason = f": {command.reason}" if command.reason else ""
    return f"({format_count(command.places or 0, 'place')}){reason}"


def combine_reasons(summary: str, reason: str) -> list[str]:
    """Return the summary and the reason for the next state; only the reason if it ends with the summary."""
    if not summary or " ".join(reason.split()).endswith(" ".join(summary.split())):
        return [reason] if reason else []
    return [summary, f"reason: {reason}"] if reason else [summary]
