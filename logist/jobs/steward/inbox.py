"""The inbox: what waits for a person, read from the files of all jobs. Takes no lock and writes nothing.

`logist inbox` is run often, so this module and what it imports load quickly: no models.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from operator import index
from typing import Any

from logist.core.machine import advice, waiting
from logist.core.machine.predecessors import (
    advise_unmet,
    describe_unmet,
    find_circular_jobs,
    group_successors,
    has_succeeded,
    list_due,
)
from logist.core.money import amounts
from logist.core.text.ids import is_job_id
from logist.errors import Damaged, LogistError, ProviderError
from logist.jobs.base.predecessors import find_unmet
from logist.quick_dataclass import dataclass
from logist.regular_files import read_regular
from logist.store.job_index import IndexUnusable, JobFilter, JobIndex
from logist.store.listing import Glance, read_glances
from logist.store.provider_wait import USED_UP, ProviderWait, read_wait
from logist.store.snooze import read_snooze

MOST_HISTORY = 2_000_000
"""Bytes of a history that is read to count the changed files; they are unknown for a larger one."""
MOST_HISTORIES = 20_000_000
"""Bytes of all histories that are read for one inbox."""
_WORKING = ("PENDING", "REVIEW_REQUIRED")
_ENDED = ("SUCCESS", "FAILED", "CANCELED")
_WAITING = ("STUCK", "APPROVAL_REQUIRED", *waiting.LIMIT_KINDS)
"""Statuses of jobs that wait for a person. One that gave up waiting for its provider is always unsettled."""
_GATHERING = ("share", "conflict")
"""Kinds of STUCK in which a job waits for its children again."""

State = dict[str, Any]


@dataclass(frozen=True)
class InboxItem:
    """A job that waits for a person."""

    job: str
    jobs_dir: str
    project: str | None
    """The directory of its project, in an inbox of several projects."""
    kind: str
    """Why it waits, one of `waiting.KINDS`, or a word of a newer Logist."""
    status: str | None
    """None if its files can't be read."""
    title: str
    reason: str
    """The question or the reason, on one line."""
    since: str
    """When it began to wait; "" if its files can't be read."""
    age_seconds: int
    blocks: int
    """How many other jobs can't continue before this one does."""
    cost_microcents: int | None
    changed_files: int | None
    """How many files agents have changed; None if that is not known without a longer search."""
    assignee: str | None
    """Who does the manual step."""
    tags: tuple[str, ...]
    revision: int | None
    snoozed_until: float | None
    """Seconds since 1970; None if the job is not snoozed."""
    command: str
    """The one command to run next."""
    advice: str
    """All commands that help."""
    exit_code: int


def list_inbox(jobs_dir: str, now: float, project: str | None = None) -> list[InboxItem]:
    """Return the jobs of a directory that wait for a person, snoozed ones too, in the order of `sort_inbox`.

    Child jobs are included, a job that only waits for its children is not. `now`: seconds since 1970.
    """
    states, damaged, successors = _read_states(jobs_dir)
    blocked, circular = count_blocked_jobs(states, successors), find_circular_jobs(successors)
    items = [_build_damaged_item(jobs_dir, project, *each) for each in damaged]
    for job_id, state in states.items():
        if _is_left_behind(job_id, state, states):
            continue
        try:
            stopped = _find_stopped(jobs_dir, job_id, state, is_circular=job_id in circular)
            item = _build_item(jobs_dir, project, job_id, state, blocked.get(job_id, 0), now, stopped)
        except (KeyError, TypeError, ValueError, AttributeError):
            damage = Damaged("invalid state.json", fix=_check_command(job_id))
            item = _build_damaged_item(jobs_dir, project, job_id, damage)
        if item is not None:
            items.append(item)
    return sort_inbox(items)


def sort_inbox(items: list[InboxItem]) -> list[InboxItem]:
    """Sort by the number of jobs that each one blocks, then by age, the oldest first."""
    return sorted(items, key=lambda item: (-item.blocks, item.since, item.project or "", item.job))


def count_changed_files(items: list[InboxItem]) -> list[InboxItem]:
    """Return the items with `changed_files`, as far as that is known from histories that are read quickly."""
    counted: list[InboxItem] = []
    left = MOST_HISTORIES
    for item in items:
        content = _read_history(f"{item.jobs_dir}/{item.job}", min(left, MOST_HISTORY)) if left else b""
        left -= len(content)
        counted.append(replace(item, changed_files=_count_changed_paths(content)))
    return counted


def _read_states(
    jobs_dir: str,
) -> tuple[dict[str, State], list[tuple[str, LogistError]], dict[str, set[str]]]:
    """Return the states of all jobs, the jobs that can't be read, and the jobs that wait for each before they begin.

    With an index, only of the jobs that may wait for a person, and of those above and below that they may block.
    """
    states: dict[str, State] = {}
    damaged: dict[str, LogistError] = {}
    ids, indexed = _find_candidates(jobs_dir)
    is_indexed = ids is not None
    halted: set[str] = set()
    while True:
        for glance in read_glances(jobs_dir, ids):
            try:
                states[glance.id] = _read_state(jobs_dir, glance)
            except LogistError as error:
                damaged[glance.id] = error
        if not is_indexed:
            break
        related = _find_related_jobs(states, halted) - states.keys() - damaged.keys()
        ids = sorted(each for each in related if is_job_id(each) and os.path.isdir(f"{jobs_dir}/{each}"))
        if not ids:
            break
    pairs = [pair for pair in indexed if pair[1] not in states]
    pairs += [(above, job_id) for job_id, state in states.items() for above in list_due(state)]
    return states, list(damaged.items()), group_successors(pairs)


def _find_related_jobs(states: dict[str, State], halted: set[str]) -> set[str]:
    """Return the parents of jobs, and the children of those that are at a limit, or below one, which `halted` collects."""
    halted.update(job_id for job_id, state in states.items() if state.get("status") in waiting.LIMIT_KINDS)
    below = {child for job_id in halted if job_id in states for child in _list_children(states[job_id])}
    halted.update(below)
    return below | {str(state.get("parent")) for state in states.values()}


def _find_candidates(jobs_dir: str) -> tuple[list[str] | None, list[tuple[str, str]]]:
    """Return the jobs that may wait for a person, by the index; None if there is none: then any job may.

    Also the jobs of the index that wait for others before they begin, each after its predecessor.
    """
    with suppress(IndexUnusable):
        index = JobIndex.open_for_many(jobs_dir)
        if index is not None:
            index.refresh()
            found = index.find_unsettled()
            found.update(each for above in list(found) for each in index.list_successors(above))
            found.update(index.list_ids(JobFilter(frozenset(_WAITING))))
            found.update(index.list_held_successors())
            pairs = index.list_unmet_pairs()
            found.update(find_circular_jobs(group_successors(pairs)))
            existing = sorted(job_id for job_id in found if os.path.isdir(f"{jobs_dir}/{job_id}"))
            return existing, pairs
    return None, []


def _read_state(jobs_dir: str, glance: Glance) -> State:
    """Return the state of a job: state.json, or the fold of the history if that is missing or behind."""
    if glance.state is not None and not glance.behind:
        if not isinstance(glance.state.get("status"), str):  # a stranger's; the other jobs stay listed
            raise Damaged("invalid state.json", fix=_check_command(glance.id))
        return glance.state
    from pathlib import Path  # noqa: PLC0415 - few jobs need it, and importing it would slow down every inbox

    from logist.jobs.base.stored_records import read_current_state  # noqa: PLC0415
    from logist.store import JobDir  # noqa: PLC0415

    job = JobDir.open(Path(jobs_dir), glance.id)
    job.load()  # raises what is wrong with the history, which reading the state alone would forgive
    return read_current_state(job)


def _build_item(
    jobs_dir: str,
    project: str | None,
    job_id: str,
    state: State,
    blocks: int,
    now: float,
    stopped: waiting.Waiting | None,
) -> InboxItem | None:
    folder = f"{jobs_dir}/{job_id}"
    wait = read_wait(folder, state["revision"]) if state["status"] in _WORKING else None
    if wait is not None and wait.gave_up:
        waits = _describe_provider(job_id, wait)
        exit_code = ProviderError.exit_code
    elif wait is not None and wait.budget and wait.reason == USED_UP and now < wait.began + wait.pause:
        waits = waiting.Waiting(waiting.BUDGET, wait.message, wait.budget_command, wait.budget_command)
        exit_code = advice.exit_code("HALTED_COST")
    elif stopped is not None:
        waits = stopped
        exit_code = advice.exit_code("HALTED_COST")
    elif (found := waiting.find_waiting(state, job_id)) is not None:
        waits = found
        exit_code = advice.exit_code(state["status"])
    else:
        return None
    usage = state["usage"]
    snooze = read_snooze(folder, state["revision"])
    since = str(state["updated_at"])
    reason = waits.reason
    if waits.kind == "manual" and (task := _read_step_task(folder, str(state["step"]))):
        reason = f"{reason}: {task}"
    return InboxItem(
        job=job_id,
        jobs_dir=jobs_dir,
        project=project,
        kind=waits.kind,
        status=state["status"],
        title=str(state["title"]),
        reason=reason,
        since=since,
        age_seconds=_compute_age(since, now),
        blocks=blocks,
        cost_microcents=amounts.join_cents(
            index(usage["cumulative_cost"]), index(usage["cumulative_cost_microcents"])
        ),
        changed_files=None,
        assignee=waiting.find_assignee(state),
        tags=tuple(map(str, state["tags"])),
        revision=index(state["revision"]),
        snoozed_until=snooze.until if snooze is not None and snooze.until > now else None,
        command=waits.command,
        advice=waits.advice,
        exit_code=exit_code,
    )


def _build_damaged_item(jobs_dir: str, project: str | None, job_id: str, error: LogistError) -> InboxItem:
    fix = error.fix if error.fix and error.fix.startswith("logist ") else _check_command(job_id)
    return InboxItem(
        job=job_id,
        jobs_dir=jobs_dir,
        project=project,
        kind=waiting.DAMAGED,
        status=None,
        title="",
        reason=" ".join(error.message.split()),
        since="",
        age_seconds=0,
        blocks=0,
        cost_microcents=None,
        changed_files=None,
        assignee=None,
        tags=(),
        revision=None,
        snoozed_until=None,
        command=waiting.choose_command(fix),
        advice=error.fix or fix,
        exit_code=error.exit_code,
    )


def _check_command(job_id: str) -> str:
    return f"logist job verify --job {job_id}"


def _describe_provider(job_id: str, wait: ProviderWait) -> waiting.Waiting:
    command = f"logist job step --job {job_id}"
    message = f": {wait.message}" if wait.message else ""
    return waiting.Waiting(waiting.PROVIDER, f"{wait.describe()}{message}", command, command)


def _find_stopped(jobs_dir: str, job_id: str, state: State, *, is_circular: bool) -> waiting.Waiting | None:
    """Return why a job can't begin: a predecessor has ended without success, was not begun, or waits for this job. None
    if those can still succeed, or are in the inbox themselves.
    """
    unmet = find_unmet(jobs_dir, state, job_id if is_circular else None)
    if not any(each.needs_person for each in unmet):
        return None
    commands = advise_unmet(job_id, list_due(state), unmet)
    reason = describe_unmet(unmet)
    return waiting.Waiting(waiting.PREDECESSOR, reason, commands.partition(" to ")[0], commands)


def _compute_age(since: str, now: float) -> int:
    return max(0, int(now - datetime.fromisoformat(since).timestamp()))


def _read_step_task(folder: str, step: str) -> str:
    """Return the task of a step in one line, from the workflow of the job in `folder`; "" if there is none.

    Filling a template takes the models, which a listing doesn't load: the name of the step says enough.
    """
    try:
        workflow = json.loads(read_regular(f"{folder}/workflow.json", MOST_HISTORY))
        found = {each["id"]: each for each in workflow["steps"]}[step]
        prompt = " ".join(str(found.get("prompt") or "").split())
        has_placeholders = "{{" in prompt and not found.get("rendered")
        return str(found.get("name") or prompt) if has_placeholders else prompt
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""


# Which jobs wait for which


def _list_children(state: State) -> list[str]:
    children = state.get("children")
    return [str(child) for child in children] if isinstance(children, list) else []


def _is_left_behind(job_id: str, state: State, states: dict[str, State]) -> bool:
    """Return whether a job is a child that its parent no longer waits for: no command could continue it."""
    parent = states.get(str(state.get("parent")))
    return parent is not None and (parent.get("status") in _ENDED or job_id not in _list_children(parent))


def count_blocked_jobs(states: dict[str, State], successors: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return for each job how many others can't continue before it does; without those that block none.

    A child blocks the jobs above that wait for it, a job at a limit those below it that would run, and each job those
    that wait for it before they begin (`successors`).
    """
    counts: dict[str, int] = {}
    for job_id, state in states.items():
        if state.get("status") in waiting.LIMIT_KINDS:
            blocked = sum(states[below].get("status") in _WORKING for below in _iter_below(job_id, states))
        else:
            blocked = 0
        above = list(_iter_waiting_above(job_id, states))
        blocked += len(above) + len(_find_all_successors([job_id, *above], states, successors))
        if blocked:
            counts[job_id] = blocked
    return counts


def _find_all_successors(
    blocking: list[str], states: dict[str, State], successors: Mapping[str, Collection[str]]
) -> set[str]:
    """Return the jobs that can't begin before these have succeeded, directly or after each other."""
    found: set[str] = set()
    pending = [each for each in blocking if not has_succeeded(states[each])]
    while pending:
        new = set(successors.get(pending.pop(), ())) - found
        found |= new
        pending += new
    return found.difference(blocking)


def _iter_waiting_above(job_id: str, states: dict[str, State]) -> Iterator[str]:
    """Yield the jobs above that wait for a job, the nearest first."""
    seen = {job_id}
    while True:
        state = states[job_id]
        above = str(state.get("parent"))
        if above in seen or above not in states or not _waits_for(states[above], job_id, state):
            return
        yield above
        seen.add(above)
        job_id = above


def _waits_for(parent: State, child_id: str, child: State) -> bool:
    if child_id not in _list_children(parent):
        return False
    if parent.get("status") != "WAITING":
        return _get_stuck_kind(parent) in _GATHERING
    # A child without attempts left is settled: its parent gathers what the others have done.
    return _get_stuck_kind(child) != "attempts"


def _iter_below(job_id: str, states: dict[str, State]) -> Iterator[str]:
    """Yield the jobs below a job, each once: a stranger's may be their own children."""
    seen, pending = {job_id}, [job_id]
    while pending:
        for child in _list_children(states[pending.pop()]):
            if child in states and child not in seen:
                seen.add(child)
                pending.append(child)
                yield child


def _get_stuck_kind(state: State) -> str | None:
    stuck = state.get("stuck")
    return str(stuck.get("kind")) if isinstance(stuck, dict) else None


# How many files agents have changed


def _read_history(folder: str, most: int) -> bytes:
    """Return the history of a job; b"" if it is large or can't be read."""
    try:
        return read_regular(f"{folder}/jobHistory.json", most)
    except OSError:
        return b""


def _count_changed_paths(content: bytes) -> int | None:
    """Return how many files agents have changed according to a history; None if it is not complete."""
    try:
        entries = json.loads(content)["interactions"]
        if entries[0]["sequence"] != 1:  # the entries before are in a compressed segment
            return None
        changed: list[tuple[int, str]] = []
        for entry in entries:
            if entry["kind"] == "rerun":
                changed = []
            if entry["kind"] == "restep":
                changed = [each for each in changed if each[0] < entry["command"]["to"]]
            observed = entry.get("observed") or {}
            undone = {each.get("path") for each in observed.get("refusals") or () if each.get("undone")}
            changed += [
                (entry["sequence"], each["path"])
                for each in observed.get("changes") or ()
                if not each.get("cache") and each["path"] not in undone
            ]
        return len({path for _, path in changed})
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return None
