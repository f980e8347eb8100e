"""Going on after a turn that failed: those that were answered before it are neither lost nor asked again.

When turn 8 of a model that works with tools is in doubt, finds nobody who answers, or stands before the cost limit, the
seven turns before it are kept in `logs/`. If nothing has changed by the next step but what a steward says of the doubt,
or a limit, that step puts workspace and turns back as they were, and asks for turn 8.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from logist.agents.courier import shared_limits
from logist.agents.courier.ask_files import Ending, RecordedAsk, position_of
from logist.agents.protocol import LITELLM
from logist.core.machine import kinds
from logist.core.model import EffectiveSpec, Interaction, JsonObject, Kind, Limits, Usage
from logist.core.model.commands import AskCommand, RecoverCommand, ResubmitCommand
from logist.core.step.step import StepPlan
from logist.jobs.base.session import Session
from logist.jobs.setup import commands
from logist.regular_files import read_regular
from logist.store import Exchange

RESUMABLE = (Ending.COST, Ending.SHARED_COST, Ending.TIME)
"""Ends of an ask after which it can go on from its last turn."""
AFTERWARDS = 4
"""Interactions that may follow the failed one: a new spec, the halt, what a steward says."""


@dataclass(frozen=True)
class Kept:
    """The turns before a doubt, and the workspace that they left."""

    ask: RecordedAsk
    turns: list[tuple[JsonObject, JsonObject]]
    """The response and the results of tools of each."""
    found: str
    """A checkpoint."""


def keep(session: Session, exchanges: list[Exchange]) -> int | None:
    """Keeps the turns that are whole; how many, as the interaction records it, None where there are none."""
    whole = [(each.response, each.tools) for each in exchanges if _is_whole(each)]
    if not whole:
        return None
    data = {"envelope": exchanges[0].request, "turns": whole}
    session.job.write_log(_name(session.state.revision + 1), json.dumps(data, ensure_ascii=False).encode())
    return len(whole)


def _is_whole(exchange: Exchange) -> bool:
    """Whether its tools have all been used, though a limit stood before what comes next."""
    tools = exchange.tools
    if exchange.response is None or tools is None or "end" not in tools:
        return False
    return tools["end"] is None or tools["end"]["kind"] in RESUMABLE


def _name(sequence: int) -> str:
    return f"{sequence:06d}.kept.json"


def kept(session: Session, spec: EffectiveSpec, plan: StepPlan, checkpoint: str) -> Kept | None:
    """The turns to go on from; None where there are none, or where anything has changed since."""
    if plan.agent != LITELLM:
        return None
    revision = session.state.revision
    for sequence in range(revision, max(0, revision - AFTERWARDS), -1):
        with suppress(OSError, ValueError, KeyError, TypeError):
            data = json.loads(read_regular(session.job.logs / _name(sequence)))
            return _fitting(session, data, sequence, spec, plan, checkpoint)
    return None


def _fitting(
    session: Session, data: Any, sequence: int, spec: EffectiveSpec, plan: StepPlan, checkpoint: str
) -> Kept | None:
    since = [entry for entry in session.history() if entry.sequence >= sequence]
    failed, ask = since[0], RecordedAsk.read(data["envelope"])
    same = (
        _has_kept_turns(failed)
        and all(map(_changes_nothing, since[1:]))
        and checkpoint == failed.checkpoint_after
        and _unlimited(ask.spec) == _unlimited(spec)
        and ask.role == plan.role.name
        and ask.phase == plan.phase
        and ask.model == plan.model
    )
    # What is in doubt is taken out of the workspace; what another failure left there stays.
    found = failed.checkpoint_before if failed.kind is Kind.RECOVER else failed.checkpoint_after
    if not same or found is None:
        return None
    return Kept(ask, [(response, tools) for response, tools in data["turns"]], found)


def _has_kept_turns(entry: Interaction) -> bool:
    command = kinds.command_of(entry)
    return isinstance(command, AskCommand | RecoverCommand) and command.turns_kept is not None


def _unlimited(spec: EffectiveSpec) -> EffectiveSpec:
    return spec.model_copy(update={"limits": Limits()})


def _changes_nothing(entry: Interaction) -> bool:
    """Whether it only says what became of a doubt, or takes up a halted job; a note belongs into a new prompt."""
    noted = entry.steward is not None and entry.steward.note
    command = kinds.command_of(entry)
    moved = isinstance(command, ResubmitCommand) and (command.review or command.step)
    return entry.kind in kinds.KEEPS_TURNS and not noted and not moved


def go_on(session: Session, found: Kept, fresh: RecordedAsk) -> RecordedAsk:
    """Puts workspace and turns back, all or nothing; returns the ask to go on with. `fresh`: that of today."""
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
        restored_from=checkpoint,
    )
    workspace = session.project.workspace(session.job)
    session.job.begin_restore(session.state.revision + 1, checkpoint)
    workspace.restore(found.found)
    turns = [(request, _paid(r), _done(t)) for request, r, t in _numbered(ask, found)]
    above = ask.shares_limits_of
    # For a moment there is neither the request that keeps the run nor these: nobody may look at the limits then.
    with shared_limits.reserving(session.project.jobs_dir, session.job.id, above):
        session.job.put_back_exchanges(turns)
    session.job.end_restore()
    return ask


def _numbered(ask: RecordedAsk, found: Kept) -> list[tuple[JsonObject, JsonObject, JsonObject]]:
    return [
        (ask.data() if number == 1 else {"kept": True}, response, tools)
        for number, (response, tools) in enumerate(found.turns, 1)
    ]


def _paid(response: JsonObject) -> JsonObject:
    """It was booked with the failed turn."""
    return {**response, "usage": Usage().model_dump(mode="json"), "redactions": 0}


def _done(tools: JsonObject) -> JsonObject:
    return {**tools, "seconds": 0.0, "redactions": 0, "end": None}


def is_back(session: Session, checkpoint: str) -> bool:
    """Whether what `go_on` puts back is all there, so that nothing is left to undo."""
    exchanges = session.job.exchanges()
    answered = bool(exchanges) and exchanges[-1].tools is None  # then it is a check that was cut off
    return position_of(exchanges).restored_from == checkpoint and not answered


def undo(session: Session) -> str | None:
    """Puts the workspace back to where it was before a restore was cut off, and returns that checkpoint."""
    kept = session.unfinished_restore()
    if kept:
        commands.sweep(session)
    if kept and not is_back(session, kept):
        workspace = session.project.workspace(session.job)
        workspace.checkpoint("before a cut-off restore is undone")
        workspace.restore(kept, clearing=True)
    session.job.end_restore()
    return kept
