"""Formats one job of the inbox for a person who decides: what was asked, what the agent said, what failed and changed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from logist.cli.show import glance, inbox_table, render
from logist.cli.show.output import Line, StyledText
from logist.core.answer import findings, plans, questions
from logist.core.machine import waiting
from logist.core.text.counts import format_count

if TYPE_CHECKING:
    from logist.core.model import CheckResult, Interaction, State
    from logist.jobs.steward.inbox import InboxItem

TASK_LINES = 12
"""Lines of the task and of texts by agents that are shown; the rest is in `job show`."""
OUTPUT_LINES = 10
"""Last lines of the output of a failed check."""
FINDINGS = 5
FILES = 12
PLAN_LINES = 40
_WIDEST = 100
"""Columns of wrapped text, which is hard to read in longer lines."""


def format_head(item: InboxItem, number: int, count: int) -> list[Line]:
    """Return the job, why it waits, since when, and what it has cost."""
    width = min(render.get_drawing_space()[0], _WIDEST)
    mark = f"-- {number} of {count} "
    lines: list[Line] = ["", (StyledText(mark + "-" * max(0, width - len(mark)), "dim"),)]
    status = (glance.status_span(item.status), ", ") if item.status else ()
    meaning = waiting.KIND_TEXTS.get(item.kind, item.kind)
    project = f" in {item.project}" if item.project else ""
    lines.append((StyledText(item.job, "bold"), f"{project}: ", *status, meaning))
    facts = []
    if age := inbox_table.format_waiting_time(item):
        facts.append(f"waits {age}")
    if item.cost_microcents is not None:
        facts.append(f"cost {inbox_table.format_cost(item)}")
    if item.blocks:
        facts.append(f"blocks {format_count(item.blocks, 'other job')}")
    if item.assignee:
        facts.append(f"for {item.assignee}")
    return [*lines, (StyledText("  " + ", ".join(facts), "dim"),)] if facts else lines


def format_body(
    state: State, task: str, step_task: str, last_ask: Interaction | None, item: InboxItem
) -> Iterator[Line]:
    """Yield the task, the answer, the question or the reason, failed checks, findings and a plan.

    `step_task`: the task of the current step, in a workflow.
    """
    data = state.model_dump(mode="json")
    if task or not step_task:
        yield from _format_text("Task", task or state.title)
    if step_task:
        yield from _format_text(f"Task of the step {state.step}", step_task)
    question = waiting.find_question(data)
    yield from _format_answer(state, last_ask)
    if question is not None:
        yield from _format_question(question)
    elif item.kind != "manual" and item.reason not in _list_said(state):
        yield from _format_text("Reason", item.reason)
    yield from _format_checks(state.checks or [])
    yield from _format_findings(state.findings or [])
    plan = plans.find_waiting_plan(data)
    if plan is not None and plans.is_plan(plan.get("output")):
        yield (StyledText("Plan:", "bold"),)
        lines = plans.render_plan_lines(plan["output"])
        yield from (f"  {line}" for line in lines[:PLAN_LINES])
        if len(lines) > PLAN_LINES:
            yield f"  ... and {format_count(len(lines) - PLAN_LINES, 'more line')}"


def format_keys(keys: Iterable[tuple[str, str]]) -> Iterator[Line]:
    """Yield each key with what it does, wrapped."""
    width = max(20, min(render.get_drawing_space()[0], _WIDEST))
    for key, text in keys:
        first, *rest = textwrap.wrap(text, width - 5)
        yield "  ", StyledText(key, "bold"), f"  {first}"
        yield from (f"     {line}" for line in rest)


def _list_said(state: State) -> tuple[str, ...]:
    """Return what the part about the answer already shows."""
    return (" ".join(state.last.summary.split()),) if state.last is not None else ()


def _format_answer(state: State, last_ask: Interaction | None) -> Iterator[Line]:
    """Yield what the agent said last: its summary, or the end of an answer that was not valid."""
    if last_ask is not None and not last_ask.response.actions:
        who = last_ask.observed.role if last_ask.observed else "The agent"
        text = last_ask.response.raw_response
        error = last_ask.response.error
        said = text.strip() or (error.message if error is not None else "nothing")
        yield from _format_text(f"{who} said (#{last_ask.sequence}, not a valid answer)", said)
    elif state.last is not None:
        last = state.last
        verdict = f", verdict {last.verdict}" if last.verdict else ""
        yield from _format_text(f"{last.role} said (#{last.sequence}, {last.action}{verdict})", last.summary)


def _format_question(question: dict[str, Any]) -> Iterator[Line]:
    yield from _format_text("Question", str(question.get("question") or ""))
    for number, (text, more) in enumerate(questions.list_options(question), 1):
        yield f"  {number}. {text}{more}"


def _format_checks(results: Iterable[CheckResult]) -> Iterator[Line]:
    for result in results:
        if not findings.is_failed_check(result.outcome):
            continue
        how = findings.format_check_result(result.outcome, result.exit_code, result.reason)
        yield (StyledText(f"Check {_to_line(result.check)}: ", "bold"), StyledText(how, "red"))
        lines = (result.output or "").strip("\n").splitlines()
        if len(lines) > OUTPUT_LINES:
            yield f"  ... (the last {OUTPUT_LINES} lines)"
        yield from (f"  | {line}" for line in lines[-OUTPUT_LINES:])


def _format_findings(recorded: list[dict[str, Any]]) -> Iterator[Line]:
    if recorded:
        yield (StyledText("Findings of the review:", "bold"),)
    for each in recorded[:FINDINGS]:
        yield from _wrap(findings.format_finding(each), FINDINGS)
    if len(recorded) > FINDINGS:
        yield f"  ... and {format_count(len(recorded) - FINDINGS, 'more finding')}"


def _format_text(title: str, text: str) -> Iterator[Line]:
    """Yield a title, and a text by a person or an agent, wrapped and cut."""
    yield (StyledText(f"{_to_line(title)}:", "bold"),)
    yield from _wrap(text, TASK_LINES)


def wrap_text(text: str) -> list[Line]:
    """Return a text of Logist, wrapped."""
    return list(textwrap.wrap(text, max(20, min(render.get_drawing_space()[0], _WIDEST) - 1)))


def _wrap(text: str, most: int) -> Iterator[str]:
    width = max(20, min(render.get_drawing_space()[0], _WIDEST) - 2)
    lines = [
        part
        for line in text.strip().splitlines()
        for part in textwrap.wrap(line, width - 2, break_on_hyphens=False) or [""]
    ]
    yield from (f"  {line}" for line in lines[:most])
    if len(lines) > most:
        yield f"  ... and {format_count(len(lines) - most, 'more line')}"


def _to_line(text: str) -> str:
    return " ".join(text.split())
