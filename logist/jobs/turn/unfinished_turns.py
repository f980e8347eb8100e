"""Resumes after a failed turn: the turns answered before it are neither lost nor requested again.

When turn 8 of a model that works with tools is in doubt, gets no answer, or reaches the cost limit, the seven
turns before it are saved in `logs/`. If nothing changes before the next step except a steward's decision
about the doubt, or a limit, that step restores workspace and turns, and requests turn 8.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logist.agents import protocol
from logist.agents.courier import ask_files, shared_limits
from logist.core.machine import kinds
from logist.core.model import EffectiveSpec, Interaction, JsonObject, Kind, Limits, Usage
from logist.core.model.commands import AskCommand, RecoverCommand, ResubmitCommand
from logist.jobs.setup import commands
from logist.jobs.setup.command_host import JobHost
from logist.quick_dataclass import dataclass
from logist.regular_files import read_regular

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import RecordedAsk
    from logist.core.step.step import StepPlan
    from logist.jobs.base.session import Session
    from logist.store import Exchange

AFTERWARDS = 4
"""The most interactions after the failed one: a new spec, the halt, decisions of a steward."""


@dataclass(frozen=True)
class Kept:
    """The turns before a failed one, and the workspace after them."""

    ask: RecordedAsk
    turns: list[tuple[JsonObject, JsonObject]]
    """The response and the tool results of each turn."""
    found: str
    """The checkpoint of the workspace after the turns."""


def save_completed_turns(session: Session, exchanges: list[Exchange]) -> int | None:
    """Save the completed turns; return their number, None if there are none."""
    completed = [(each.response, each.tools) for each in exchanges if _is_completed(each)]
    if not completed:
        return None
    data = {"envelope": exchanges[0].request, "turns": completed}
    session.job.write_log(
        _kept_turns_name(session.state.revision + 1), json.dumps(data, ensure_ascii=False).encode()
    )
    return len(completed)


def _is_completed(exchange: Exchange) -> bool:
    """True if all tools of the exchange have been used; a limit may have stopped the agent after that."""
    tools = exchange.tools
    if exchange.response is None or tools is None or "end" not in tools:
        return False
    return tools["end"] is None or _can_resume_after(tools["end"]["kind"])


def _can_resume_after(kind: str) -> bool:
    """Whether an ask with such an ending can resume from its last turn."""
    return kind in (ask_files.Ending.COST, ask_files.Ending.SHARED_COST, ask_files.Ending.TIME)


def _kept_turns_name(sequence: int) -> str:
    return f"{sequence:06d}.kept.json"


def load_kept_turns(session: Session, spec: EffectiveSpec, plan: StepPlan, checkpoint: str) -> Kept | None:
    """Load the turns to resume from; None if there are none, or if anything has changed since."""
    if plan.agent not in protocol.MODEL_AGENTS:
        return None
    revision = session.state.revision
    for sequence in range(revision, max(0, revision - AFTERWARDS), -1):
        with suppress(OSError, ValueError, KeyError, TypeError):
            data = json.loads(read_regular(session.job.logs / _kept_turns_name(sequence)))
            return _match_kept_turns(session, data, sequence, spec, plan, checkpoint)
    return None


def _match_kept_turns(
    session: Session, data: Any, sequence: int, spec: EffectiveSpec, plan: StepPlan, checkpoint: str
) -> Kept | None:
    since = [entry for entry in session.load_history() if entry.sequence >= sequence]
    failed_entry, ask = since[0], ask_files.RecordedAsk.read(data["envelope"])
    is_same = (
        _has_kept_turns(failed_entry)
        and all(map(_changes_nothing, since[1:]))
        and checkpoint == failed_entry.checkpoint_after
        and _without_limits(ask.spec) == _without_limits(spec)
        and ask.role == plan.role.name
        and ask.phase == plan.phase
        and ask.model.is_called_like(plan.model)
    )
    # After a doubt, the workspace was restored; after other failures, the changes stayed.
    checkpoint_found = (
        failed_entry.checkpoint_before if failed_entry.kind is Kind.RECOVER else failed_entry.checkpoint_after
    )
    if not is_same or checkpoint_found is None:
        return None
    return Kept(ask, [(response, tools) for response, tools in data["turns"]], checkpoint_found)


def _has_kept_turns(entry: Interaction) -> bool:
    command = kinds.command_of(entry)
    return isinstance(command, AskCommand | RecoverCommand) and command.turns_kept is not None


def _without_limits(spec: EffectiveSpec) -> EffectiveSpec:
    return spec.model_copy(update={"limits": Limits()})


def _changes_nothing(entry: Interaction) -> bool:
    """True if the entry only decides about a doubt, or resumes a halted job. A note needs a new prompt."""
    has_note = entry.steward is not None and entry.steward.note
    command = kinds.command_of(entry)
    has_moved = isinstance(command, ResubmitCommand) and (command.review or command.step)
    return entry.kind in kinds.KEEPS_TURNS and not has_note and not has_moved


def resume_turns(session: Session, found: Kept, fresh: RecordedAsk) -> RecordedAsk:
    """Restore workspace and turns, all or nothing; return the envelope to
    continue with. `fresh`: the current one.
    """
    checkpoint = fresh.checkpoint_before
    ask = replace(
        found.ask,
        sequence=fresh.sequence,
        after=fresh.after,
        started=fresh.started,
        attempt=fresh.attempt,
        index=fresh.index,
        visit=fresh.visit,
        allowance_microcents=fresh.allowance_microcents,
        shares_limits_of=fresh.shares_limits_of,
        work=fresh.work,
        spec=fresh.spec,
        agent=fresh.agent,
        provider=fresh.provider,
        model=fresh.model,
        restored_from=checkpoint,
        errand=fresh.errand,
    )
    workspace = session.project.open_workspace(session.job)
    session.job.begin_restore(session.state.revision + 1, checkpoint)
    workspace.restore(found.found)
    turns = [(request, _clear_usage(r), _clear_tool_usage(t)) for request, r, t in _number_turns(ask, found)]
    limits_job = ask.shares_limits_of
    # For a moment, neither the old request nor these turns are on disk: no other job may check the limits then.
    with shared_limits.reserve_shared_limits(session.project.jobs_dir, session.job.id, limits_job):
        session.job.put_back_exchanges(turns)
    session.job.end_restore()
    return ask


def _number_turns(ask: RecordedAsk, found: Kept) -> list[tuple[JsonObject, JsonObject, JsonObject]]:
    return [
        (ask.data() if number == 1 else {"kept": True}, response, tools)
        for number, (response, tools) in enumerate(found.turns, 1)
    ]


def _clear_usage(response: JsonObject) -> JsonObject:
    """The usage was recorded with the failed turn."""
    return {**response, "usage": Usage().model_dump(mode="json"), "redactions": 0}


def _clear_tool_usage(tools: JsonObject) -> JsonObject:
    return {**tools, "seconds": 0.0, "redactions": 0, "end": None}


def is_restored(session: Session, checkpoint: str) -> bool:
    """True if everything that `resume_turns` restores is there, so that there is nothing to undo."""
    exchanges = session.job.read_exchanges()
    is_answered = bool(exchanges) and exchanges[-1].tools is None  # then a check was interrupted
    return ask_files.position_of(exchanges).restored_from == checkpoint and not is_answered


def undo_cut_off_restore(session: Session) -> str | None:
    """Undo an interrupted restore of the workspace; return the checkpoint that is restored."""
    checkpoint = session.find_unfinished_restore()
    if checkpoint:
        commands.end_leftover_commands(JobHost(session))
    if checkpoint and not is_restored(session, checkpoint):
        workspace = session.project.open_workspace(session.job)
        workspace.create_checkpoint("before a cut-off restore is undone")
        workspace.restore(checkpoint, clearing=True)
    session.job.end_restore()
    return checkpoint
