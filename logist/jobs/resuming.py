"""Going on after a doubt: turns of an agent that were answered before it are neither lost nor asked again.

When a courier is killed while a model is at work on turn 8, that turn is in doubt and the workspace goes back. The
seven turns before it are kept in `logs/`. If the steward says what became of the turn and changes nothing else, the
next step puts workspace and turns back as they were, and asks for turn 8.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from logist.agents.protocol import LITELLM
from logist.core.model import EffectiveSpec, Interaction, JsonObject, Kind, Usage
from logist.core.step import StepPlan
from logist.jobs.session import Session
from logist.store import Exchange


@dataclass(frozen=True)
class Kept:
    """The turns before a doubt, and the workspace that they left."""

    envelope: JsonObject
    turns: list[tuple[JsonObject, JsonObject]]
    """The response and the results of tools of each."""
    found: str
    """A checkpoint."""


def keep(session: Session, exchanges: list[Exchange]) -> JsonObject:
    """Keeps the turns that are whole; what the `recover` of a doubt records of it, {} where there are none."""
    whole = [(each.response, each.tools) for each in exchanges if _is_whole(each)]
    if not whole:
        return {}
    data = {"envelope": exchanges[0].request, "turns": whole}
    session.job.write_log(_name(session.state.revision + 1), json.dumps(data, ensure_ascii=False).encode())
    return {"turns_kept": len(whole)}


def _is_whole(exchange: Exchange) -> bool:
    tools = exchange.tools
    return exchange.response is not None and tools is not None and tools.get("end", "") is None


def _name(sequence: int) -> str:
    return f"{sequence:06d}.kept.json"


def kept(session: Session, spec: EffectiveSpec, plan: StepPlan, checkpoint: str) -> Kept | None:
    """The turns to go on from; None where there are none, or where anything has changed since."""
    if plan.agent != LITELLM:
        return None
    revision = session.state.revision
    for sequence in (revision, revision - 1):
        with suppress(OSError, ValueError, KeyError, TypeError):
            data = json.loads((session.job.logs / _name(sequence)).read_bytes())
            return _fitting(session, data, sequence, spec, plan, checkpoint)
    return None


def _fitting(
    session: Session, data: Any, sequence: int, spec: EffectiveSpec, plan: StepPlan, checkpoint: str
) -> Kept | None:
    since = [entry for entry in session.history() if entry.sequence >= sequence]
    doubt, envelope = since[0], data["envelope"]
    same = (
        doubt.kind is Kind.RECOVER
        and "turns_kept" in doubt.command
        and all(map(_changes_nothing, since[1:]))
        and checkpoint == doubt.checkpoint_after
        and envelope["spec"] == spec.model_dump(mode="json")
        and envelope["role"] == plan.role.name
        and envelope["phase"] == plan.phase.value
        and envelope["model"] == plan.model.model_dump(mode="json")
    )
    if not same or doubt.checkpoint_before is None:
        return None
    return Kept(envelope, [(response, tools) for response, tools in data["turns"]], doubt.checkpoint_before)


def _changes_nothing(entry: Interaction) -> bool:
    """Whether it only says what became of the doubt; a note belongs into a new prompt."""
    noted = entry.steward is not None and entry.steward.note
    moved = entry.command.get("review") or entry.command.get("step")
    return entry.kind is Kind.RESUBMIT and not noted and not moved


def go_on(session: Session, found: Kept, fresh: JsonObject) -> JsonObject:
    """Puts workspace and turns back, all or nothing; returns the envelope to go on with. `fresh`: that of today."""
    own = ("sequence", "after", "started", "attempt", "index", "allowance_microcents", "work")
    checkpoint = fresh["checkpoint_before"]
    envelope = {**found.envelope, **{name: fresh[name] for name in own}, "restored_from": checkpoint}
    workspace = session.project.workspace(session.job)
    session.job.begin_restore(session.state.revision + 1, checkpoint)
    workspace.restore(found.found)
    session.job.put_back_exchanges(
        [(request, _paid(r), _done(t)) for request, r, t in _numbered(envelope, found)]
    )
    session.job.end_restore()
    return envelope


def _numbered(envelope: JsonObject, found: Kept) -> list[tuple[JsonObject, JsonObject, JsonObject]]:
    return [
        (envelope if number == 1 else {"kept": True}, response, tools)
        for number, (response, tools) in enumerate(found.turns, 1)
    ]


def _paid(response: JsonObject) -> JsonObject:
    """It was booked with the doubt."""
    return {**response, "usage": Usage().model_dump(mode="json"), "redactions": 0}


def _done(tools: JsonObject) -> JsonObject:
    return {**tools, "seconds": 0.0, "redactions": 0}


def is_back(session: Session, checkpoint: str) -> bool:
    """Whether what `go_on` puts back is all there, so that nothing is left to undo."""
    exchanges = session.job.exchanges()
    asked = exchanges[0].request if exchanges else None
    return asked is not None and asked.get("restored_from") == checkpoint
