"""Reads a state.json as plain JSON for `job list` and `job status`. Has few imports, to start fast."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from logist.cli.show.output import StyledText
from logist.core.machine import advice
from logist.core.machine.job_row import RUNNING, build_job_cells, format_cost
from logist.regular_files import read_regular
from logist.store.listing import REBUILD
from logist.timestamps import format_age, format_local

if TYPE_CHECKING:
    from logist.store.provider_wait import ProviderWait

UNKNOWN = "?"
"""Status of a job whose state can't be read."""
STATUSES = (*advice.STATUSES, *RUNNING.values(), UNKNOWN)

COLORS = {
    "SUCCESS": "green",
    "STUCK": "red bold",
    "FAILED": "red",
    "CANCELED": "red",
    "APPROVAL_REQUIRED": "yellow bold",
    "HALTED_COST": "red",
    "HALTED_TIME": "red",
    "HALTED_ITERATION": "red",
    "SUSPENDED": "yellow",
    "RUNNING": "blue bold",
    "REVIEWING": "blue bold",
    UNKNOWN: "red bold",
}

ROLE_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""Colors allowed for a role; a history from another machine may contain others."""
State = dict[str, Any]


def status_span(status: str) -> StyledText:
    """Return a status in its color."""
    return StyledText(status, COLORS.get(status, "cyan"))


def role_span(name: str, badge: object = "", color: object = None) -> StyledText:
    """Return a role in its recorded color, with its recorded badge."""
    style = f"{color} bold" if color in ROLE_COLORS else "bold"
    return StyledText(name, style, badge if isinstance(badge, str) else "")


def fork_lines(forked: object) -> list[str]:
    """Return a line with the origin of a fork; empty for other jobs."""
    if not isinstance(forked, dict):
        return []
    return [f"forked from {forked.get('job')} at interaction {forked.get('at')}"]


def adoption_lines(adopted: object) -> list[str]:
    """Return a line about the session that a job was adopted from; empty for other jobs."""
    return [f"adopted from a session of {adopted}: a record, which can't continue"] if adopted else []


def removal_lines(removed: object) -> list[str]:
    """Return a line about the files that `logist gc` has removed; empty for other jobs."""
    return [str(removed["message"])] if isinstance(removed, dict) else []


def read_last_setup(folder: str) -> dict[str, Any] | None:
    """Return the result of the last setup of a job's workspace; None if there was none."""
    try:
        stamp = json.loads(read_regular(os.path.join(folder, "setup.json")))
        names = ("at", "source", "seconds", "failed", "log", "key")
        return {name: stamp[name] for name in names}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def format_setup(setup: dict[str, Any]) -> str:
    """Return the same as text."""
    if setup["failed"]:
        return f"setup failed: {' '.join(str(setup['failed']).split())} (output: logs/{setup['log']})"
    done = "copied from the cache" if setup["source"] == "cache" else "done"
    return f"setup: {done} in {setup['seconds']} s at {format_local(setup['at'])}"


def read_provider_wait(folder: str, state: State) -> ProviderWait | None:
    """Return the wait of a job for a provider that is not available; None if it does not wait for one."""
    if state.get("status") not in RUNNING or not os.access(f"{folder}/provider-wait.json", os.F_OK):
        return None
    from logist.store.provider_wait import read_wait

    return read_wait(folder, state.get("revision"))


def read_errand(folder: str) -> dict[str, str] | None:
    """Return which worker on another machine has the call of a job: `worker`, `scheduler`, `sent_at`; None if none has.

    The scheduler is empty if it was started with the run.
    """
    try:
        request = json.loads(read_regular(f"{folder}/inflight/1.request", 1 << 26))
        errand = request["errand"]
        if not errand.get("ticket") or errand.get("is_accepted"):
            return None
        return {name: str(errand.get(name, "")) for name in ("worker", "scheduler", "sent_at")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def describe_errand(away: dict[str, str]) -> str:
    """Return which worker has the call of a job, and since when."""
    return f"its agent works on another machine, {away['worker']}, since {format_local(away['sent_at'])}"


def advise_collecting(away: dict[str, str], job_id: str) -> str:
    """Return the command that collects the answer of a worker; one of this machine needs no scheduler."""
    if scheduler := away["scheduler"]:
        return f"logist run --on dask --scheduler {scheduler}"
    return f"logist job step --job {job_id}"


def build_unknown_row(job_id: str, next_command: str = REBUILD) -> dict[str, Any]:
    """Return the row of a job whose state can't be read."""
    empty = dict.fromkeys(
        ("awaiting", "stuck_kind", "role", "assignee", "badge", "color", "cost_cents", "cost_microcents")
    )
    rest = {"rank": 0, "tags": [], "title": "", "parent": None, "created_at": "", "updated_at": ""}
    return {
        "id": job_id,
        "status": UNKNOWN,
        **empty,
        **rest,
        "provider_wait": None,
        "reason": "",
        "merged": None,
        "waits_for": [],
        "next_command": next_command,
    }


def needs_person(status: str) -> bool:
    """Whether a job in this status continues only after a decision of a person."""
    return status in ("STUCK", "APPROVAL_REQUIRED", "SUSPENDED") or status in advice.LIMITS


def format_status(shown: dict[str, Any]) -> StyledText:
    """Return the status of a row, with the kind of STUCK, or whether the work is merged."""
    kinds = {True: "merged", False: "not merged", None: shown["stuck_kind"]}
    kind = kinds[shown["merged"]]
    return status_span(shown["status"])._replace(
        text=f"{shown['status']} ({kind})" if kind else shown["status"]
    )


def _format_time_since(timestamp: str, now: float) -> str:
    """Return how long ago a recorded time is; empty if it is not known."""
    from datetime import datetime

    try:
        return format_age(now - datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return ""


def format_job_cells(shown: dict[str, Any]) -> tuple[StyledText | str, ...]:
    """Return the cells of a row: id, status, role with its badge or the assignee of a step, cost, title."""
    if shown["status"] == UNKNOWN:
        return shown["id"], status_span(UNKNOWN), "", "", ""
    return shown["id"], status_span(shown["status"]), _format_role(shown), format_cost(shown), shown["title"]


def format_wide_job_cells(shown: dict[str, Any], now: float) -> tuple[StyledText | str, ...]:
    """Return the cells of a row on a terminal: the same, with the kind of the status and the age."""
    if shown["status"] == UNKNOWN:
        return shown["id"], status_span(UNKNOWN), "", "", "", ""
    age = _format_time_since(shown["updated_at"], now)
    return shown["id"], format_status(shown), age, _format_role(shown), format_cost(shown), shown["title"]


def _format_role(shown: dict[str, Any]) -> StyledText | str:
    """Return the role with its badge, or the assignee of a manual step."""
    role = build_job_cells(shown)[2]
    has_mark = (shown["badge"] or shown["color"]) and role == shown["role"]
    return role_span(role, shown["badge"], shown["color"]) if has_mark else role
