"""The row of a job in a listing, from a state as in state.json. Imports little, because listings use it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from types import NoneType
from typing import Any

from logist.core.machine import advice, waiting
from logist.core.machine.predecessors import Unmet, advise_unmet, list_due
from logist.core.money import amounts

RUNNING = {"PENDING": "RUNNING", "REVIEW_REQUIRED": "REVIEWING"}
"""Statuses that are displayed, but never written, while an agent is working."""
DOER = {"agent_role": "Worker", "agent_role_source": "default", "badge": "", "color": None}
"""Values for a job that was created before these fields existed; the next change writes them."""

State = dict[str, Any]

_SHAPE: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("status", str),
    ("awaiting", (str, NoneType)),
    ("stuck", (dict, NoneType)),
    ("agent_role", str),
    ("badge", str),
    ("color", (str, NoneType)),
    ("usage", dict),
    ("rank", int),
    ("tags", list),
    ("title", str),
    ("created_at", str),
    ("updated_at", str),
)


def build_job_row(
    job_id: str,
    state: State,
    *,
    running: bool = False,
    wait: dict[str, Any] | None = None,
    unmet: Sequence[Unmet] = (),
) -> dict[str, Any]:
    """Return the row of a job in a listing, as JSON. Raises KeyError or TypeError for an invalid state.

    `wait`: the wait for a provider that is not available, as JSON. `unmet`: the predecessors that it waits for.
    """
    if "color" not in state:
        state = {**DOER, **state}
    for name, wanted in _SHAPE:
        if not isinstance(state[name], wanted):
            raise TypeError(name)
    status, stuck, usage = state["status"], state["stuck"], state["usage"]
    kind = stuck["kind"] if stuck else None
    row = {
        "id": job_id,
        "status": RUNNING[status] if running else status,
        "awaiting": state["awaiting"],
        "stuck_kind": kind,
        "role": state["agent_role"],
        "assignee": waiting.find_assignee(state),
        "badge": state["badge"],
        "color": state["color"],
        "cost_cents": index(usage["cumulative_cost"]),
        "cost_microcents": index(usage["cumulative_cost_microcents"]),
        "rank": state["rank"],
        "tags": state["tags"],
        "title": state["title"],
        "parent": parent if isinstance(parent := state.get("parent"), str) else None,
        "created_at": state["created_at"],
        "updated_at": state["updated_at"],
        "provider_wait": None if running else wait,
        "reason": reason if isinstance(reason := state.get("reason"), str) else "",
        "merged": _is_merged(state),
        "waits_for": [],
        "next_command": advice.advise_next_command(state, job_id, running=running),
    }
    return row if running or not unmet else add_unmet(row, list_due(state), unmet)


def add_unmet(row: dict[str, Any], after: Sequence[str], unmet: Sequence[Unmet]) -> dict[str, Any]:
    """Return the row of a job that waits for predecessors. `after`: all that it has to wait for."""
    waits_for = [{"job": each.job, "status": each.status} for each in unmet]
    return {**row, "waits_for": waits_for, "next_command": advise_unmet(row["id"], after, unmet)}


def build_job_cells(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Return the cells of a row: id, status, role or the assignee of a step, cost, title."""
    role = row["role"] if row["assignee"] is None else row["assignee"]
    return row["id"], row["status"], role, format_cost(row), row["title"]


def format_cost(row: dict[str, Any]) -> str:
    """Return the cost of a row so far."""
    return amounts.format_money(amounts.join_cents(row["cost_cents"], row["cost_microcents"]))


def _is_merged(state: State) -> bool | None:
    """Whether the work of a successful job is in its repository; None if there is nothing to merge."""
    if state["status"] != "SUCCESS":
        return None
    if advice.is_unmerged(state.get("source"), state.get("parent"), state.get("merge")):
        return False
    return True if state.get("merge") == "merged" else None
