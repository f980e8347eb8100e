"""state = fold(interactions): the state is nothing but a projection of the history."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from logist.core import money
from logist.core.model import (
    Actor,
    EffectiveSpec,
    ErrorKind,
    ExitAction,
    Interaction,
    Kind,
    Last,
    Phase,
    Place,
    State,
    Status,
    Totals,
    Usage,
)

NOTED = frozenset({Kind.APPROVE, Kind.REJECT, Kind.RESUBMIT, Kind.RESTEP, Kind.RERUN, Kind.RESUME})
"""Kinds whose note goes into the next prompt."""

BADGES = {"Planner": "🔍", "Actor": "⚡"}


def spec_hash(spec: EffectiveSpec) -> str:
    """sha256 of the spec's canonical JSON."""
    text = json.dumps(spec.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def fold(interactions: Iterable[Interaction]) -> State:
    """The state after all `interactions`, its head left out (only the store knows the offset)."""
    entries = list(interactions)
    targets = {restep_target(entry) for entry in entries if entry.kind is Kind.RESTEP}
    kept: dict[int, State] = {}
    state: State | None = None
    for entry in entries:
        if entry.sequence in targets and state is not None:
            kept[entry.sequence] = state
        back = kept.get(restep_target(entry)) if entry.kind is Kind.RESTEP else None
        state = apply(state, entry, back)
    if state is None:
        raise ValueError("a history without interactions has no state")
    return state


def state_before(interactions: Sequence[Interaction], sequence: int) -> State:
    """The state that interaction `sequence` found."""
    return fold([entry for entry in interactions if entry.sequence < sequence])


def restep_target(entry: Interaction) -> int:
    """The interaction that a restep goes back before; 0, which is none, if it does not say."""
    to = entry.command.get("to")
    return to if isinstance(to, int) else 0


def apply(state: State | None, entry: Interaction, back: State | None = None) -> State:
    """The state after one more interaction; `back` is the state a restep returns to."""
    base = state or State(status=entry.after.status, created_at=entry.timestamp)
    version = max(base.version, entry.version)
    if entry.kind is Kind.RESTEP and back is not None:
        base = _returned(base, back)
    if entry.kind is Kind.RERUN:
        base = _restarted(base)
    changes: dict[str, Any] = {
        "version": version,
        "revision": entry.sequence,
        "head": None,
        "updated_at": entry.timestamp,
        "reason": base.reason if entry.kind is Kind.SPEC else entry.reason,
        "usage": _totals(base.usage, entry),
        **_placed(entry.after),
        **_noted(base, entry),
    }
    if entry.checkpoint_after:
        changes["checkpoint"] = entry.checkpoint_after
    if entry.kind is Kind.CREATE:
        changes["start_checkpoint"] = entry.checkpoint_after
    if entry.spec is not None:
        changes.update(_described(entry.spec))
    if asks(entry):
        changes["asked"] = base.asked + 1
    if _is_answered(entry):
        changes.update(_answered(base, entry))
    return base.model_copy(update=changes)


def _placed(place: Place) -> dict[str, Any]:
    return {
        "status": place.status,
        "awaiting": place.awaiting,
        "stuck": place.stuck,
        "step": place.step,
        "attempts": place.attempts,
        "before": place.before,
        "halted_at": place.halted_at,
    }


def _noted(base: State, entry: Interaction) -> dict[str, Any]:
    """A note stays until an agent has given a valid answer to a prompt that holds it."""
    if entry.kind in NOTED and entry.steward and entry.steward.note:
        return {"note": entry.steward.note}
    return {"note": None} if _is_answered(entry) else {}


def _is_answered(entry: Interaction) -> bool:
    """Whether an agent gave a valid answer here."""
    actions = entry.response.actions
    return entry.kind is Kind.ASK and bool(actions) and actions[0] in set(ExitAction)


def _described(spec: EffectiveSpec) -> dict[str, Any]:
    return {
        "title": spec.title,
        "rank": spec.rank,
        "tags": list(spec.tags),
        "limits": spec.limits,
        "agent_role": spec.doer,
        "agent_role_source": spec.doer_source,
        "badge": BADGES.get(spec.doer, ""),
        "spec_hash": spec_hash(spec),
    }


def _answered(base: State, entry: Interaction) -> dict[str, Any]:
    response = entry.response
    observed = entry.observed
    phase = observed.phase if observed else Phase.DOER
    evidence = list(response.evidence_files)
    last = Last(
        sequence=entry.sequence,
        phase=phase,
        role=observed.role if observed else "",
        action=ExitAction(response.actions[0]),
        summary=response.summary_for_supervisor,
        evidence_files=evidence,
        missing=[item.path for item in observed.evidence if not item.exists] if observed else [],
        output=response.output,
    )
    known = set(base.artefacts)
    changes: dict[str, Any] = {
        "last": last,
        "artefacts": [*base.artefacts, *(p for p in dict.fromkeys(evidence) if p not in known)],
    }
    if phase is Phase.DOER and response.output is not None:
        changes["outputs"] = {**base.outputs, entry.step or base.step: response.output}
    return changes


def asks(entry: Interaction) -> bool:
    """Whether an agent was asked here; an answer that was given does not count.

    What an agent did in an interaction of a kind that only a newer Logist knows, it was asked to do.
    """
    unknown = entry.actor is Actor.AGENT and not entry.kind.known
    return (unknown or entry.kind in (Kind.ASK, Kind.RECOVER)) and not entry.simulated


def _worked(entry: Interaction) -> bool:
    """Whether the agent that was asked can have been at work: the key was taken, somebody was there."""
    error = entry.response.error
    return error is None or error.kind not in (ErrorKind.AUTH, ErrorKind.BAD_REQUEST, ErrorKind.REFUSED)


def _totals(totals: Totals, entry: Interaction) -> Totals:
    usage = entry.usage
    counts = asks(entry) and _worked(entry)
    before = money.join(totals.cumulative_cost, totals.cumulative_cost_microcents)
    cents, fraction = money.split(max(0, before + cost(usage) - released(entry)))
    return totals.model_copy(
        update={
            "cumulative_cost": cents,
            "cumulative_cost_microcents": fraction,
            "cumulative_time_seconds": round(totals.cumulative_time_seconds + usage.seconds, 3),
            "current_action_count": totals.current_action_count + int(counts),
            "input_tokens": totals.input_tokens + usage.input_tokens,
            "output_tokens": totals.output_tokens + usage.output_tokens,
        }
    )


def released(entry: Interaction) -> int:
    """What a steward took back of a booking that was in doubt, in microcents."""
    amount = entry.command.get("released_microcents")
    return amount if isinstance(amount, int) else 0


def cost(usage: Usage) -> int:
    """What an exchange cost, in microcents."""
    return money.join(usage.cost_cents, usage.cost_microcents)


def _returned(base: State, back: State) -> State:
    """The earlier state, with what has been used since and what was asked for since."""
    kept = (
        "usage",
        "asked",
        "title",
        "rank",
        "tags",
        "limits",
        "agent_role",
        "agent_role_source",
        "badge",
        "spec_hash",
    )
    return back.model_copy(update={**_unknown(base), **{name: getattr(base, name) for name in kept}})


def _restarted(base: State) -> State:
    """The job as it was created, with today's spec and nothing used."""
    fresh = State(status=Status.PENDING)
    kept = (
        *("title", "rank", "tags", "limits", "agent_role", "agent_role_source", "badge", "spec_hash"),
        *("created_at", "start_checkpoint"),
    )
    return fresh.model_copy(update={**_unknown(base), **{name: getattr(base, name) for name in kept}})


def _unknown(state: State) -> dict[str, Any]:
    """The fields of a newer Logist: what this one does not know, it does not take back."""
    return state.model_extra or {}
