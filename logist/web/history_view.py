"""What the page shows of a history: a line for each interaction, whether the files verify, and all of one interaction.

Entries are read without the models, because a history may have thousands of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from logist.core.answer import findings, plans
from logist.core.answer.failed_calls import has_failed
from logist.core.machine.kinds import plain_command_of
from logist.core.model import Interaction, Request
from logist.core.model.commands import (
    ApproveCommand,
    AskCommand,
    ForkCommand,
    RecordedCommand,
    RestepCommand,
    RoleCommand,
    ScrubCommand,
    SpecCommand,
    UpdateCommand,
)
from logist.core.model.words import Kind
from logist.core.money import amounts
from logist.core.text.counts import format_count
from logist.errors import LogistError, UsageError
from logist.jobs.base.job_reader import read_interactions, verify_job
from logist.jobs.base.plain_reader import read_interaction
from logist.jobs.steward.signed_decisions import check_signatures
from logist.quick_dataclass import dataclass
from logist.store.transcripts import read_transcript
from logist.web.job_view import JobHead

PAGE_SIZE = 50
MOST_VERIFIED = 300
"""Interactions of a history that is verified each time it is shown; for a longer one, a person asks for it."""
MOST_TURNS = 200
"""Turns of a model that are listed."""
MOST_EDITS = 20
"""Files that were changed by hand, which are listed."""


@dataclass(frozen=True)
class HistoryRow:
    """One interaction as a line of the history."""

    entry: Interaction
    who: str
    what: str
    reasons: tuple[str, ...]
    cost_microcents: int
    failed_tools: int


def read_page(head: JobHead, page: int) -> list[HistoryRow]:
    """Return the interactions of a page, the latest first. Raises Damaged where the history doesn't verify.

    Page 1 has the latest interactions. Everything before them is read too, since it is what they are verified with.
    """
    last = head.state.revision - (page - 1) * PAGE_SIZE
    kept = []
    for entry in head.job.read_entries():
        if entry["sequence"] > last - PAGE_SIZE:
            if entry["sequence"] > last:
                break
            kept.append(entry)
    return [build_row(read_interaction(entry)) for entry in reversed(kept)]


def find_interaction(head: JobHead, sequence: int) -> Interaction:
    """Return one interaction. Raises UsageError if there is none with this number."""
    for entry in head.job.read_entries():
        if entry["sequence"] == sequence:
            return read_interaction(entry)
    raise UsageError(f"interaction {sequence} not found in {head.id}")


def build_row(entry: Interaction) -> HistoryRow:
    """Return what the page shows of an interaction on one line."""
    if entry.observed is not None:
        who = entry.observed.role
    else:
        who = entry.steward.name if entry.steward is not None else entry.actor.value
    failed = entry.response.tools_failed or {}
    return HistoryRow(
        entry,
        who,
        describe_result(entry),
        tuple(_combine_reasons(entry.response.summary_for_supervisor, entry.reason)),
        amounts.join_cents(entry.usage.cost_cents, entry.usage.cost_microcents),
        sum(count for count in failed.values() if isinstance(count, int)),
    )


def _combine_reasons(summary: str, reason: str) -> list[str]:
    """Return the summary of an answer, and the reason of the next state if it says more."""
    said, why = " ".join(summary.split()), " ".join(reason.split())
    return [text for text in ("" if said in why else said, why) if text]


def describe_result(entry: Interaction) -> str:
    """Return what an agent answered, or what a steward or the system did."""
    command = plain_command_of(entry)
    if entry.kind is Kind.ASK:
        return _describe_answer(entry, cast("AskCommand", command))
    return f"{entry.kind.value}{_describe_command(entry.kind, command)}"


def _describe_answer(entry: Interaction, command: AskCommand) -> str:
    if not entry.response.actions:
        has_breach = entry.observed is not None and entry.observed.refusals
        return "breach of permissions" if has_breach else "no valid answer"
    verdict = f", verdict {command.verdict}" if command.verdict else ""
    by_hand = " (answer supplied by hand)" if entry.simulated else ""
    return f"{', '.join(entry.response.actions)}{verdict}{by_hand}"


def _describe_command(kind: Kind, command: RecordedCommand) -> str:
    """Return what a decision was about, to follow its kind."""
    match kind:
        case Kind.APPROVE:
            return ", overriding the review" if cast("ApproveCommand", command).override else ""
        case Kind.FORK:
            fork = cast("ForkCommand", command)
            return f"ed from {fork.from_job} at interaction {fork.at}"
        case Kind.SCRUB:
            scrub = cast("ScrubCommand", command)
            reason = f": {scrub.reason}" if scrub.reason else ""
            return f" ({format_count(scrub.places or 0, 'place')}){reason}"
        case Kind.ROLE:
            switch = cast("RoleCommand", command)
            return f" {switch.from_role} → {switch.to}"
        case Kind.RESTEP:
            return f" to before interaction {cast('RestepCommand', command).to}"
        case Kind.UPDATE:
            updated = cast("UpdateCommand", command)
            return f" to {(updated.after or '')[:12]} of {updated.branch}"
        case Kind.SPEC:
            changed = cast("SpecCommand", command).changed
            return f": {', '.join(changed)}" if changed else ""
    return ""


@dataclass(frozen=True)
class ChainState:
    """Whether the files of a job verify."""

    is_valid: bool
    text: str
    lines: tuple[str, ...] = ()
    """The problems, and notes."""


def verify_chain(head: JobHead) -> ChainState:
    """Verify the files of a job, and the signatures of its decisions, as `job verify` does."""
    try:
        verified = verify_job(head.project, head.job)
        signatures = (
            [] if verified.problems else check_signatures(head.project, head.id, read_interactions(head.job))
        )
    except LogistError as error:
        return ChainState(False, "not verified", (str(error),))
    problems = [
        (f"interaction {each.sequence}: " if each.sequence is not None else "") + each.message
        for each in verified.problems
    ]
    problems += [
        f"interaction {each.sequence} ({each.kind}): {each.problem}" for each in signatures if each.problem
    ]
    if problems:
        fix = f"to see what helps: logist job verify --job {head.id}"
        return ChainState(False, "The files of this job don't verify", (*problems, *verified.notes, fix))
    edits = verified.edits
    changes = [f"{each.kind} {each.path}" for each in edits.changes[:MOST_EDITS]] if edits else []
    if edits and len(edits.changes) + edits.omitted:
        count = format_count(len(edits.changes) + edits.omitted, "change")
        changes.insert(0, f"the workspace has {count} since the last checkpoint:")
    signed = [each for each in signatures if each.signer is not None]
    signers = f", {format_count(len(signed), 'signature')} valid" if signed else ""
    count = format_count(head.state.revision, "interaction")
    return ChainState(True, f"verified: {count}{signers}", (*verified.notes, *changes))


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool by a model, and its result."""

    name: str
    arguments: str
    result: str
    is_failed: bool


@dataclass(frozen=True)
class Turn:
    """One answer of a model that works with tools; or what an agent program wrote."""

    number: int
    text: str
    calls: tuple[ToolCall, ...]
    problem: str = ""


@dataclass(frozen=True)
class InteractionView:
    """All of one interaction."""

    row: HistoryRow
    command: str
    """What a decision has recorded, as JSON; empty for an answer."""
    findings: tuple[str, ...]
    plan: tuple[str, ...]
    output: str
    """The output of the answer, as JSON."""
    turns: tuple[Turn, ...]
    turns_left_out: int
    spec: str
    """The spec, if this interaction has recorded a new one."""


def build_view(head: JobHead, entry: Interaction) -> InteractionView:
    """Gather what the page of an interaction shows."""
    command = plain_command_of(entry)
    found = list(cast("AskCommand", command).findings or ()) if entry.kind is Kind.ASK else []
    output = entry.response.output
    turns = [
        _build_turn(number, each)
        for number, each in enumerate(read_transcript(head.job.path, entry.sequence), 1)
    ]
    shown_command = {name: value for name, value in entry.command.items() if name not in ("findings",)}
    return InteractionView(
        build_row(entry),
        _format_json(shown_command) if shown_command else "",
        tuple(findings.format_finding(each) for each in found),
        tuple(plans.render_plan_lines(output)) if plans.is_plan(output) else (),
        _format_json(output) if output is not None else "",
        tuple(turns[:MOST_TURNS]),
        max(0, len(turns) - MOST_TURNS),
        _format_json(_dump_spec(head, entry.sequence)) if entry.spec is not None else "",
    )


def _dump_spec(head: JobHead, sequence: int) -> Any:
    return next((each["spec"] for each in head.job.read_entries() if each["sequence"] == sequence), None)


def _build_turn(number: int, turn: Any) -> Turn:
    """Return a turn; of another form, for example by an agent program, all of it as text."""
    try:
        results = {each["id"]: each for each in (turn.get("tools") or {}).get("results", ())}
        calls = tuple(_build_call(call, results.get(call["id"])) for call in turn["calls"])
        error = turn.get("error") or {}
        return Turn(number, str(turn.get("text") or ""), calls, str(error.get("message") or ""))
    except (AttributeError, KeyError, TypeError):
        return Turn(number, turn if isinstance(turn, str) else _format_json(turn), ())


def _build_call(call: dict[str, Any], result: dict[str, Any] | None) -> ToolCall:
    if result is None:
        return ToolCall(str(call["name"]), str(call["arguments"]), "", False)
    return ToolCall(str(call["name"]), str(call["arguments"]), str(result["content"]), has_failed(result))


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def list_parts(request: Request) -> Iterator[tuple[str, str]]:
    """Yield the parts of a prompt: the source of each, and its text; the source of text between them is empty."""
    prompt, end = request.prompt, 0
    for part in request.parts:
        if part.start > end:
            yield "", prompt[end : part.start]
        yield part.source, prompt[part.start : part.end]
        end = part.end
    if end < len(prompt):
        yield "", prompt[end:]
