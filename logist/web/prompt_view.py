"""What the page shows of the next prompt of a job: its parts, its cost, and what differs from the last prompt of that role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from logist.core.machine import advice
from logist.core.machine.limits import Halt
from logist.core.machine.steward import next_command
from logist.core.model import Interaction, Kind
from logist.core.prompt.budget import BudgetRow
from logist.core.prompt.search_report import SearchReport
from logist.core.replay import drift
from logist.core.replay.drift import Drift
from logist.core.replay.drift_causes import describe_change
from logist.core.step.step import StepPlan
from logist.errors import LogistError
from logist.jobs.archive.replay_report import trim_diff
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.stored_records import parse_interaction
from logist.jobs.setup.workspace_setup import preview_setup
from logist.jobs.turn.next_request import Choice, preview_request
from logist.quick_dataclass import dataclass
from logist.web.job_view import JobHead

MOST_DIFF_LINES = 400
"""Lines of the difference of one part."""


@dataclass(frozen=True)
class PartDifference:
    """A part of the prompt that differs from the last prompt of the role."""

    source: str
    how: str
    lines: tuple[str, ...]
    left_out: int


@dataclass(frozen=True)
class PromptDifferences:
    """What differs from the last prompt of the role."""

    sequence: int
    """The interaction with that prompt."""
    equal: tuple[str, ...]
    parts: tuple[PartDifference, ...]
    settings: dict[str, tuple[object, object]]


@dataclass(frozen=True)
class NextPrompt:
    """The request that the next step would send, or why there is none."""

    plan: StepPlan | None = None
    reason: str = ""
    """Why there is no request."""
    command: str = ""
    """What helps, in a terminal."""
    notes: tuple[str, ...] = ()
    drift: PromptDifferences | None = None
    """None for the first prompt of a role."""
    facts: tuple[tuple[str, str], ...] = ()
    in_parts: frozenset[str] = frozenset()
    """The parts of the prompt that have only parts of a file."""

    @property
    def table(self) -> tuple[BudgetRow, ...]:
        return self.plan.table if self.plan is not None else ()


def preview_prompt(head: JobHead) -> NextPrompt:
    """Return the exact request that the next step would send. Nothing is sent, and the job does not change."""
    notes: list[str] = []
    project = replace(head.project, say=notes.append)
    try:
        report = SearchReport()
        state, outcome = preview_request(project, head.id, Choice(), report)
        if isinstance(outcome, StepPlan):
            setup = list(_describe_setup(project, head))
            notes += _list_trust_problems(project)
            found = _find_drift(head, outcome)
            in_parts = frozenset(f"relevant:{path}" for path in report.list_files_in_parts())
            return NextPrompt(
                outcome,
                notes=(*notes, *setup),
                drift=found,
                facts=_list_facts(outcome),
                in_parts=in_parts,
            )
    except LogistError as error:
        where = f"{error.where}: " if error.where else ""
        return NextPrompt(reason=f"{where}{error.message}", command=error.fix or "", notes=tuple(notes))
    if isinstance(outcome, Halt):
        command = advice.raise_limit_command(outcome.limit.value, outcome.job or head.id)
        return NextPrompt(
            reason=f"{outcome.limit.value}: {outcome.reason}", command=command, notes=tuple(notes)
        )
    is_running = head.job.find_lock_holder() is not None
    reason = f"{state.status.value}: {outcome.reason}" if outcome.reason else state.status.value
    command = next_command(state, head.id, running=is_running)
    return NextPrompt(reason=reason, command=command, notes=tuple(notes))


def _describe_setup(project: ProjectContext, head: JobHead) -> Iterator[str]:
    """Yield what the step would do to prepare the workspace before it asks the agent."""
    setup = preview_setup(project, head.job)
    changed = (
        f"; changed since the last setup: {', '.join(setup.changed)}" if setup.changed and setup.stamp else ""
    )
    if setup.status == "cached":
        yield f"setup: would be copied from the cache{changed}"
    elif setup.status == "due":
        yield f"setup: would run {'; '.join(setup.commands)}{changed}"
    elif setup.status == "failed":
        yield f"setup: failed, would run again: {'; '.join(setup.commands)}"


def _list_trust_problems(project: ProjectContext) -> Iterator[str]:
    try:
        project.trust.require_to_run()
    except LogistError as error:
        yield f"steps will be refused until you trust this project: {error}"


def _list_facts(plan: StepPlan) -> tuple[tuple[str, str], ...]:
    """Return what is known of the request besides its text."""
    budget = f" of at most {plan.allowed.tokens:,} ({plan.allowed.says})" if plan.allowed else ""
    endpoint = f", at {plan.model.endpoint}" if plan.model.endpoint else ""
    return (
        ("Role", f"{plan.role.name}, because {plan.why}"),
        ("Phase", f"{plan.phase.value}, attempt {plan.attempt}"),
        ("Model", f"{plan.model.name} ({plan.model.provider_model}{endpoint}), from {plan.model_source}"),
        ("Prompt", f"about {plan.prompt_tokens:,} tokens{budget}"),
        ("Output", f"at most {plan.max_output_tokens:,} tokens"),
        ("Files", ", ".join(plan.request.files_context) or "none"),
        ("Tools", ", ".join(each.name for each in plan.tools) or "none"),
    )


def _find_drift(head: JobHead, plan: StepPlan) -> PromptDifferences | None:
    last: dict[str, Any] | None = None
    for entry in head.job.read_entries():
        if entry["kind"] == Kind.ASK and _is_of_role(entry, plan):
            last = entry
    if last is None:
        return None
    then = parse_interaction(last)
    now: Interaction = then.model_copy(update={"sequence": head.state.revision + 1, "request": plan.request})
    names = (f"interaction {then.sequence}", "the next prompt")
    compared = drift.compare_prompts(then, now, names)
    settings = drift.find_setting_differences(then.request, plan.request)
    parts = tuple(_build_difference(each, names) for each in compared.drifts)
    return PromptDifferences(then.sequence, compared.equal, parts, settings)


def _is_of_role(entry: dict[str, Any], plan: StepPlan) -> bool:
    request, observed = entry.get("request") or {}, entry.get("observed") or {}
    has_prompt = bool(request.get("prompt"))
    return has_prompt and (observed.get("role"), observed.get("phase", "doer")) == (
        plan.role.name,
        plan.phase.value,
    )


def _build_difference(found: Drift, names: tuple[str, str]) -> PartDifference:
    lines = trim_diff(found.diff)
    how = describe_change(found.change, *names)
    return PartDifference(
        found.source or "the whole prompt", how, lines[:MOST_DIFF_LINES], max(0, len(lines) - MOST_DIFF_LINES)
    )
