"""The limits that a job shares with the jobs above it, and how much all jobs that share them use.

None of this is stored: it is read from the histories of these jobs and from their running calls, so a crash
leaves no reservation behind. A process that reserves holds `reserve_shared_limits` from reading them
until its request is on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path

from logist.agents.courier import ask_files, booking
from logist.core.history import fold, newer_versions
from logist.core.machine import kinds
from logist.core.machine.limits import NOTHING, Shared
from logist.core.model import (
    MAX_DEPTH,
    TERMINAL,
    Interaction,
    JsonObject,
    State,
    StuckKind,
    Totals,
    Usage,
)
from logist.core.model.commands import BookingCommand
from logist.core.money import totals
from logist.errors import Damaged
from logist.quick_dataclass import dataclass
from logist.quick_model import ValidationError
from logist.store import JobDir, inflight
from logist.store import lock as locks

MOST_ACCOUNTS = 4096
"""Histories whose accounts are kept in memory."""


@dataclass(frozen=True)
class _Account:
    """What a job has used, according to its history."""

    state: State
    ever: Totals
    """Since the job was created, including runs before a restart."""
    booked: Mapping[int, Mapping[str, Totals]]
    """What it has recorded of the usage of its children so far, by the interaction that created them."""
    outcomes: frozenset[str]
    """For each recorded call: the checksum of the history entry before it."""

    @property
    def is_settled(self) -> bool:
        """Whether the job stays as it is until a steward acts."""
        stuck = self.state.place.stuck
        return self.state.status in TERMINAL or (stuck is not None and stuck.kind is StuckKind.ATTEMPTS)


@dataclass(frozen=True)
class _Use:
    """What a job and the jobs below it use."""

    recorded: Totals = NOTHING
    unsettled: Totals = NOTHING
    calls_out: Totals = NOTHING
    paid: Totals = NOTHING
    """The part of `calls_out` that is spent already."""
    waiting: int = 0
    """How many of the jobs may still make a call."""


def _sum_uses(uses: Sequence[_Use]) -> _Use:
    return _Use(
        totals.add_totals(each.recorded for each in uses),
        totals.add_totals(each.unsettled for each in uses),
        totals.add_totals(each.calls_out for each in uses),
        totals.add_totals(each.paid for each in uses),
        sum(each.waiting for each in uses),
    )


@dataclass
class _Accounts:
    """The accounts of histories, each read again only when the history has changed."""

    _known: dict[str, tuple[tuple[int, int, int], _Account]] = field(default_factory=dict)

    def get_account(self, job: JobDir) -> _Account:
        try:
            file = os.stat(job.history_file)
        except OSError as error:
            message = f"can't read the history of {job.id}, so its usage is unknown: {error.strerror}"
            raise Damaged(message, where=str(job.history_file), fix="restore it from a backup") from error
        key = (file.st_ino, file.st_size, file.st_mtime_ns)
        known = self._known.get(str(job.history_file))
        if known is not None and known[0] == key:
            return known[1]
        account = _read_account(job)
        if len(self._known) >= MOST_ACCOUNTS:
            self._known.clear()
        self._known[str(job.history_file)] = (key, account)
        return account


_accounts = _Accounts()


def state_of(job: JobDir) -> State:
    """Return the state from the history of a job; Damaged where it can't be read."""
    return _accounts.get_account(job).state


def read_ever_used(jobs_dir: Path, job_id: str) -> Totals:
    """Return what a job has used since it was created, according to its history, including the usage of jobs below
    it that is not recorded there yet.
    """
    return _sum_job(jobs_dir, job_id, None, asking="").recorded


def list_shared_limits(jobs_dir: Path, job_id: str, above: str | None) -> list[Shared]:
    """Return the limits that `job_id` shares, the nearest job first; `above` is the job whose limits those are.

    A job that was copied elsewhere without the jobs above it shares no limits.
    """
    limits_above = []
    for job_above, account in _list_jobs_above(jobs_dir, job_id, above):
        use = _sum_children(jobs_dir, account, job_id)
        used = totals.add_totals([account.state.usage, use.recorded])
        limits_above.append(
            Shared(
                job_above,
                account.state.limits,
                used,
                use.unsettled,
                use.calls_out,
                use.paid,
                max(1, use.waiting),
            )
        )
    return limits_above


def is_dropped(jobs_dir: Path, job_id: str, above: str | None) -> bool:
    """Whether the parent job whose limits `job_id` shares no longer waits for it."""
    return above is not None and (jobs_dir / above).is_dir() and not _list_jobs_above(jobs_dir, job_id, above)


@contextmanager
def reserve_shared_limits(
    jobs_dir: Path, job_id: str, above: str | None, on_poll: Callable[[], None] = lambda: None
) -> Iterator[list[Shared]]:
    """Return the shared limits, and keep other processes from reserving a part of them inside the block."""
    top = [name for name, _ in _list_jobs_above(jobs_dir, job_id, above)][-1:]
    if not top:
        yield []
        return
    with locks.lock_limits(jobs_dir / top[0], on_poll):
        yield list_shared_limits(jobs_dir, job_id, above)


def _list_jobs_above(jobs_dir: Path, job_id: str, above: str | None) -> list[tuple[str, _Account]]:
    """Return the jobs whose limits a job shares, the nearest first."""
    jobs: list[tuple[str, _Account]] = []
    below = job_id
    while above is not None and len(jobs) < MAX_DEPTH and (jobs_dir / above).is_dir():
        account = _accounts.get_account(JobDir(jobs_dir / above, above))
        if below not in account.state.children:
            break
        jobs.append((above, account))
        below, above = above, account.state.parent if account.state.shares_limits else None
    return jobs


def _sum_children(jobs_dir: Path, account: _Account, asking: str) -> _Use:
    """Sum what the children that a job waits for use, except what the job has recorded already."""
    spawned = account.state.spawned
    booked = account.booked.get(spawned.sequence, {}) if spawned is not None else {}
    uses = [
        (child, _sum_job(jobs_dir, child, child.rpartition("--")[0], asking))
        for child in account.state.children
    ]
    return _sum_uses(
        [
            replace(use, recorded=totals.used_since(booked[child], use.recorded)) if child in booked else use
            for child, use in uses
        ]
    )


def _sum_job(jobs_dir: Path, job_id: str, parent: str | None, asking: str) -> _Use:
    """Sum what a job and the jobs below it use, without the call that the job `asking` is about to make."""
    job = JobDir(jobs_dir / job_id, job_id)
    if not job.path.is_dir():
        return _Use(waiting=1)
    # The order matters: calls before history. A call that is recorded meanwhile is then counted twice for a moment
    # instead of not at all. Most jobs have no call, so the lock holder, which is slow to find, is not looked up.
    may_have_calls = job_id != asking and job.inflight.exists()
    is_at_work = may_have_calls and job.find_lock_holder() is not None
    calls = job.read_exchanges() if may_have_calls else inflight.Exchanges()
    account = _accounts.get_account(job)
    if parent is not None and account.state.parent != parent:
        return _Use()  # another job with the same id
    in_flight = _sum_in_flight(calls, is_at_work) if calls and not _is_recorded(calls, account) else _Use()
    is_busy = account.is_settled or bool(account.state.children) or in_flight.calls_out is not NOTHING
    own = replace(in_flight, recorded=account.ever, waiting=0 if is_busy else 1)
    return _sum_uses([own, _sum_children(jobs_dir, account, asking)]) if account.state.children else own


def _read_account(job: JobDir) -> _Account:
    entries = [_parse_interaction(job, entry) for entry in job.read_entries()]
    if not entries:
        raise Damaged("the history is empty", where=str(job.history_file), fix="restore it from a backup")
    booked: dict[int, dict[str, Totals]] = {}
    for entry in entries:
        command = kinds.command_of(entry)
        if isinstance(command, BookingCommand) and command.spawn is not None:
            booked.setdefault(command.spawn, {}).update(command.used or {})
    after = (entry.exchange or entry.previous for entry in entries if fold.is_agent_asked(entry))
    return _Account(fold.fold(entries), fold.sum_usage(entries), booked, frozenset(filter(None, after)))


def _parse_interaction(job: JobDir, entry: JsonObject) -> Interaction:
    try:
        return newer_versions.read_newer_interaction(entry) or Interaction.model_validate(entry)
    except ValidationError as error:
        message = f"interaction {entry.get('sequence')} is invalid"
        raise Damaged(
            message, where=str(job.history_file), fix=f"logist job verify --job {job.id}"
        ) from error


def _is_recorded(calls: inflight.Exchanges, account: _Account) -> bool:
    """Whether the history already has the outcome of these calls, so that only their files are left."""
    asked = ask_files.position_of(calls)
    recorded = asked.sequence is not None and asked.sequence <= account.state.revision
    return recorded and (asked.after is None or asked.after in account.outcomes)


def _sum_in_flight(calls: inflight.Exchanges, is_at_work: bool) -> _Use:
    """Sum the cost of calls that are not recorded yet; a last call without an answer counts at its worst case.

    `is_at_work`: whether a command or a courier was working on the job before the calls were read.
    """
    try:
        has_open_gate = calls[-1].response is None and ask_files.has_gate(calls)
        billed = calls.gate if has_open_gate else calls
        answered = [
            Usage.model_validate(each.response["usage"]) for each in billed if each.response is not None
        ]
        reserved = ask_files.read_reserved(calls) if calls[-1].response is None else 0
        if (
            has_open_gate and is_at_work and not ask_files.is_gate_lost(calls)
        ):  # it may send the others at any time
            reserved = ask_files.sum_reserved(each for each in calls.gate if each.response is None)
        spent = fold.usage_microcents(booking.sum_usages(answered)) if answered else 0
        worst = totals.make_totals(spent + int(reserved or 0), runs=1)
    except (KeyError, TypeError, ValueError) as error:
        raise inflight.damaged_exchange_error(calls.folder, "the record of an exchange is invalid") from error
    if is_at_work:
        return _Use(calls_out=worst, paid=totals.make_totals(spent))
    if not any(each.sent for each in calls):
        return _Use()  # its command was killed before anything was sent: the next command starts over
    if not calls[-1].sent:
        worst = totals.make_totals(spent, runs=1)
    return _Use(unsettled=worst)
