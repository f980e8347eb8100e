"""What the state of a job with a workflow has beside that of others, as the history gives it."""

from __future__ import annotations

from typing import Any

from logist.core import steward
from logist.core.model import (
    ExitAction,
    Interaction,
    JsonObject,
    Kind,
    Phase,
    Spawned,
    State,
    Status,
    Totals,
)

JOB = ""
"""In `State.doers`: who does the steps that have no role of their own."""

SWITCH = "switch"
"""Why a role is the doer that the steward has put there."""


LONGEST_SUMMARY = 200
"""Characters of a step's summary that later steps read."""


def apply(before: State, after: State, entry: Interaction) -> State:
    """`after`, an entry applied in the way of every job, with what the workflow makes of it."""
    changes: dict[str, Any] = {**_visited(after, entry)}
    if after.asked > before.asked:
        here, counts = entry.step or before.step, before.asked_at or {}
        changes["asked_at"] = {**counts, here: counts.get(here, 0) + 1}
    if entry.kind is Kind.ASK:
        changes |= _answered(after, entry)
    elif entry.kind is Kind.APPROVE and (before.awaiting == "manual" or "output" in entry.command):
        changes |= _approved(after, before, entry)
    elif entry.kind is Kind.RESUBMIT:
        changes |= {"forced": True if entry.command.get("force") else None}
    elif entry.kind is Kind.SPAWN:
        changes |= _spawned(after, before, entry)
    elif entry.kind is Kind.COLLECT:
        changes |= _collected(after, before, entry)
    if after.step != before.step or entry.spec is not None or entry.kind is Kind.ROLE:
        changes |= _doing(after)
    return after.model_copy(update=changes) if changes else after


def _visited(after: State, entry: Interaction) -> dict[str, Any]:
    taken = [told["decision"] for told in entry.route if isinstance(told.get("decision"), str)]
    visits = dict(after.visits or {})
    for decision in taken:
        visits[decision] = visits.get(decision, 0) + 1
    return {"visits": visits} if taken else {}


def _answered(after: State, entry: Interaction) -> dict[str, Any]:
    """A completed step's output is the last one, also where it gave none."""
    observed, actions = entry.observed, entry.response.actions
    if observed is None or observed.phase is not Phase.DOER or actions != [ExitAction.COMPLETED]:
        return {}
    unsure = True if entry.command.get("unsure") else None
    step = entry.step or after.step
    return {
        **_given(after, step, entry.response.output),
        **_said(after, step, entry.response.summary_for_supervisor),
        "unsure": unsure,
    }


def _said(after: State, step: str, summary: str) -> dict[str, Any]:
    """The summary of a step that is done, as the last in the order."""
    others = {name: said for name, said in (after.summaries or {}).items() if name != step}
    return {"summaries": {**others, step: summary[:LONGEST_SUMMARY]}}


def _approved(after: State, before: State, entry: Interaction) -> dict[str, Any]:
    """What a steward gives with an approval."""
    note = entry.steward.note if entry.steward else None
    said = note or f"done by {entry.steward.name if entry.steward else 'a steward'}"
    own = _said(after, before.step, said) if before.awaiting == "manual" else {}
    return {**_given(after, before.step, entry.command.get("output")), **own}


def _given(after: State, step: str, output: Any) -> dict[str, Any]:
    return {"outputs": {**after.outputs, step: output}, "output_of": step}


def _spawned(after: State, before: State, entry: Interaction) -> dict[str, Any]:
    children = _children(entry.command)
    if not children:
        return {**_given(after, before.step, []), "results": [], "children": [], "spawned": None}
    spawned = Spawned(
        sequence=entry.sequence,
        step=before.step,
        tag=str(entry.command.get("tag", "")),
        total=len(children),
        checkpoint=entry.checkpoint_after or "",
    )
    ids = [str(child.get("id")) for child in children]
    return {"children": ids, "spawned": spawned, "results": None, "forced": None}


def _collected(after: State, before: State, entry: Interaction) -> dict[str, Any]:
    spawned = before.spawned
    if spawned is not None:
        spawned = spawned.model_copy(update={"booked": _added(spawned.booked, entry)})
    if entry.command.get("gathered") != "reached":
        return {"spawned": spawned}
    results = steward.gathered(entry.command)
    output = results[0] if entry.command.get("single") and results else results
    total = len(_children(entry.command))
    return {
        **_given(after, before.step, output),
        **_said(after, before.step, f"{len(results)} of {total} jobs succeeded"),
        "results": results,
        "children": [],
        "spawned": spawned,
        "forced": None,
    }


def _added(booked: Totals, entry: Interaction) -> Totals:
    """What was booked of the children before, and what this entry books."""
    usage = entry.usage
    cents = booked.cumulative_cost + usage.cost_cents
    fraction = booked.cumulative_cost_microcents + usage.cost_microcents
    return Totals(
        cumulative_cost=cents + fraction // 1_000_000,
        cumulative_cost_microcents=fraction % 1_000_000,
        cumulative_time_seconds=round(booked.cumulative_time_seconds + usage.seconds, 3),
        current_action_count=booked.current_action_count + runs(entry),
        input_tokens=booked.input_tokens + usage.input_tokens,
        output_tokens=booked.output_tokens + usage.output_tokens,
    )


def runs(entry: Interaction) -> int:
    """Agents that were at work in the children, as a `collect` books them."""
    count = entry.command.get("runs") if entry.kind is Kind.COLLECT else 0
    return count if isinstance(count, int) else 0


def _children(command: JsonObject) -> list[JsonObject]:
    children = command.get("children")
    return [child for child in children if isinstance(child, dict)] if isinstance(children, list) else []


def _doing(after: State) -> dict[str, Any]:
    """Who does the step the job stands at; a steward's switch holds for all of them."""
    doers = after.doers or {}
    doer = doers.get(after.step) or doers.get(JOB)
    if doer is None or after.agent_role_source == SWITCH or after.status is Status.DRAFT:
        return {}
    return {
        "agent_role": doer.role,
        "agent_role_source": doer.source,
        "badge": doer.badge or "",
        "color": doer.color,
    }
