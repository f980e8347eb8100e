"""The jobs that another one waits for before it begins: which have not succeeded, and whether they may be named.

`after` in job.yaml names them. Whether a job must still wait is never stored: it follows from the states of its
predecessors each time, so a predecessor that is run again counts as it is now.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from logist.core.machine import predecessors
from logist.core.machine.predecessors import CIRCULAR, MISSING, UNREADABLE, Unmet
from logist.core.text.ids import is_job_id
from logist.errors import LogistError, UsageError
from logist.store import job_index
from logist.store.listing import build_not_found_error, is_unpublished, list_job_ids, read_glances

if TYPE_CHECKING:
    from logist.core.model import State
    from logist.jobs.base.project import ProjectContext

Fields = dict[str, Any]

MOST_FOLLOWED = 1_000
"""How many jobs are read to find out whether a job waits for itself."""


def find_unmet(jobs_dir: str, state: Mapping[str, Any], waiting: str | None = None) -> list[Unmet]:
    """Return the predecessors that a job must still wait for; none if it has begun. Writes nothing and takes no lock.

    `waiting`: the id of the job, to find out also which of them wait for it. That takes longer.
    """
    found = (examine_predecessor(jobs_dir, job_id) for job_id in predecessors.list_due(state))
    unmet = [each for each in found if each is not None]
    if waiting is None:
        return unmet
    return [
        each._replace(status=CIRCULAR)
        if not each.needs_person and _waits_for(jobs_dir, each.job, waiting)
        else each
        for each in unmet
    ]


def _waits_for(jobs_dir: str, job_id: str, awaited: str) -> bool:
    """Return whether a job can't succeed before another one: two commands at the same time can bring that about."""
    seen, pending = {job_id}, [job_id]
    while pending and len(seen) < MOST_FOLLOWED:
        state = read_state(jobs_dir, pending.pop())
        if isinstance(state, str):
            continue
        children = _list_ids(state.get("children")) if state.get("status") == "WAITING" else []
        new = {*predecessors.list_due(state), *children} - seen
        if awaited in new:
            return True
        seen |= new
        pending += new
    return False


def find_unmet_of(project: ProjectContext, job_id: str, state: State, after: Sequence[str]) -> list[Unmet]:
    """Return the same for a loaded job, with the predecessors that its job.yaml names now."""
    if not after:
        return []
    fields = {name: getattr(state, name) for name in ("status", *predecessors.BEGUN)}
    return find_unmet(str(project.jobs_dir), {**fields, "after": list(after)}, job_id)


def can_wait(state: State) -> bool:
    """Return whether a job may still have to wait for others: it has not begun."""
    return str(state.status) not in predecessors.ENDED and not any(
        getattr(state, name) for name in predecessors.BEGUN
    )


def examine_predecessor(jobs_dir: str, job_id: str) -> Unmet | None:
    """Return why the jobs after this one must wait; None if it has succeeded."""
    state = read_state(jobs_dir, job_id)
    if isinstance(state, str):
        return Unmet(job_id, state)
    if predecessors.has_succeeded(state):
        return None
    return Unmet(job_id, str(state.get("status")))


def read_state(jobs_dir: str, job_id: str) -> Fields | str:
    """Read the state of a job; MISSING or UNREADABLE if there is none."""
    if not is_job_id(job_id) or not os.path.isdir(f"{jobs_dir}/{job_id}") or is_unpublished(jobs_dir, job_id):
        return MISSING
    glance = next(read_glances(jobs_dir, [job_id]))
    if glance.state is not None and not glance.behind:
        return glance.state
    from pathlib import Path  # noqa: PLC0415 - only a job that a killed command has left needs it

    from logist.jobs.base.stored_records import read_current_state  # noqa: PLC0415
    from logist.store import JobDir  # noqa: PLC0415

    try:
        return read_current_state(JobDir.open(Path(jobs_dir), job_id))
    except LogistError:
        return UNREADABLE


def find_circular_jobs(jobs_dir: str) -> set[str]:
    """Return at least the jobs that wait for each other."""
    pairs: list[tuple[str, str]] = []
    ids: Collection[str] = list_job_ids(jobs_dir)
    with suppress(job_index.IndexUnusable):
        index = job_index.JobIndex.open(jobs_dir)
        if index is not None and index.is_complete():
            unsettled = index.find_unsettled()
            pairs = [pair for pair in index.list_unmet_pairs() if pair[1] not in unsettled]
            ids = unsettled.intersection(ids)
    for glance in read_glances(jobs_dir, sorted(ids)):
        pairs += [(above, glance.id) for above in predecessors.list_due(glance.state or {})]
    return predecessors.find_circular_jobs(predecessors.group_successors(pairs))


def find_successors(jobs_dir: str, job_id: str) -> list[str]:
    """Return the jobs that have not begun and have to wait for this one, by id."""
    ids: Collection[str] | None = None
    with suppress(job_index.IndexUnusable):
        index = job_index.JobIndex.open(jobs_dir)
        if index is not None and index.is_complete():
            ids = {*index.find_unsettled(), *index.list_successors(job_id)}
    states = (
        (each, read_state(jobs_dir, each)) for each in sorted(list_job_ids(jobs_dir) if ids is None else ids)
    )
    return [
        each
        for each, state in states
        if not isinstance(state, str) and job_id in predecessors.list_due(state)
    ]


# Which jobs may be named


class NamedPredecessors:
    """The predecessors that jobs are about to get; new jobs of a batch may name each other."""

    def __init__(
        self,
        project: ProjectContext,
        named: Mapping[str, Sequence[str]],
        read_after: Callable[[str], Sequence[str] | None] = lambda job_id: None,
    ) -> None:
        """`named`: all predecessors of each job that is created or changed. `read_after`: as in WaitingOrder, for other jobs."""
        self._jobs_dir, self._named = str(project.jobs_dir), named
        self._order = WaitingOrder(
            self._jobs_dir, lambda job_id: named[job_id] if job_id in named else read_after(job_id)
        )

    def require_known(self, job_id: str) -> None:
        """Raise UsageError if a job names itself, or a job that does not exist."""
        for each in self._named[job_id]:
            if each == job_id:
                raise UsageError(f"{job_id} can't wait for itself", where="after", fix="remove it")
            if each not in self._named and read_state(self._jobs_dir, each) == MISSING:
                error = build_not_found_error(self._jobs_dir, each)
                error.where = "after"
                raise error

    def require_order(self, job_id: str) -> None:
        """Raise UsageError if a job names one that would wait for it."""
        if self._named[job_id] and (cycle := self._order.find_cycle(job_id)):
            raise UsageError(describe_cycle(cycle), where="after", fix="remove one of them")


def require_usable(project: ProjectContext, job_id: str, after: Sequence[str]) -> None:
    """Raise UsageError if a job can't wait for these, see NamedPredecessors."""
    if after:
        named = NamedPredecessors(project, {job_id: after})
        named.require_known(job_id)
        named.require_order(job_id)


def describe_cycle(cycle: Sequence[str]) -> str:
    """Return a message about jobs that wait for each other."""
    pairs = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    return "jobs would wait for each other: " + ", ".join(f"{job} waits for {above}" for job, above in pairs)


class WaitingOrder:
    """Finds jobs that wait for each other: by `after`, or because a parent waits for its child jobs."""

    def __init__(self, jobs_dir: str, read_after: Callable[[str], Sequence[str] | None]) -> None:
        """`read_after`: returns the predecessors of a job; None for those in its state."""
        self._jobs_dir, self._read_after = jobs_dir, read_after
        self._cleared: set[str] = set()
        """Jobs that lead to no cycle."""

    def find_cycle(self, job_id: str) -> list[str]:
        """Return jobs that wait for each other, and for which this one waits; empty if there are none."""
        if job_id in self._cleared:
            return []
        path = {job_id: self._iter_awaited(job_id)}
        while path:
            current = next(reversed(path))
            above = next(path[current], None)
            if above is None:
                del path[current]
                self._cleared.add(current)
            elif above in path:
                ids = list(path)
                return ids[ids.index(above) :]
            elif above not in self._cleared:
                path[above] = self._iter_awaited(above)
        return []

    def _iter_awaited(self, job_id: str) -> Iterator[str]:
        state = read_state(self._jobs_dir, job_id)
        fields = {} if isinstance(state, str) else state
        after = self._read_after(job_id)
        yield from _list_ids(fields.get("after")) if after is None else after
        yield from _list_ids(fields.get("children"))


def _list_ids(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
