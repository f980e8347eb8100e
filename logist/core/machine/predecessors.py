"""The jobs that another one waits for before it begins (`after`), from states as in state.json. Imports little, because
listings use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from logist.quick_tuple import NamedTuple

MISSING, UNREADABLE = "deleted", "damaged"
"""What is said about a predecessor without a status."""
CIRCULAR = "waits for this job"
"""What is said about a predecessor that can't begin before the job itself has succeeded."""
NAMED = 3
"""How many predecessors a message names."""

ENDED = ("SUCCESS", "FAILED", "CANCELED")
_STEPPED = ("PENDING", "REVIEW_REQUIRED")
_RUN = (*_STEPPED, "WAITING")
"""Statuses in which agents can continue a predecessor."""
_HELD = {
    "DRAFT": "logist job activate --job {job} to let it begin",
    "SUSPENDED": "logist job resume --job {job} to let it continue",
    **dict.fromkeys(("FAILED", "CANCELED"), "logist job rerun --job {job} to try it again"),
}
"""Statuses in which a predecessor is not in the inbox itself and can't succeed before a person acts, and how."""
BEGUN = ("asked", "last", "outputs", "spawned")
"""Fields of a state that are set once an agent was asked, an answer was given by hand, or child jobs were created."""


class Unmet(NamedTuple):
    """A predecessor that has not succeeded."""

    job: str
    status: str
    """Its status, MISSING, UNREADABLE or CIRCULAR; SUCCESS if its work has to be merged first."""

    @property
    def needs_person(self) -> bool:
        """Whether it can't succeed before a person decides about it, and is not in the inbox itself."""
        return self.status in (*_HELD, MISSING, CIRCULAR)

    def __str__(self) -> str:
        return f"{self.job} ({self.status}{', not merged yet' if self.status == 'SUCCESS' else ''})"


def list_due(state: Mapping[str, Any]) -> list[str]:
    """Return the predecessors of a job whose next step must wait for them: none if it has begun, or does no step now.

    A stranger's state may have any values.
    """
    named = state.get("after")
    if not isinstance(named, list) or state.get("status") not in _STEPPED or any(map(state.get, BEGUN)):
        return []
    return list(dict.fromkeys(each for each in named if isinstance(each, str)))


def has_succeeded(state: Mapping[str, Any]) -> bool:
    """Return whether the jobs after this one may begin: it has succeeded, and is merged if that is done automatically."""
    return state.get("status") == "SUCCESS" and state.get("merge") != "due"


def group_successors(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return the jobs that wait for each one. `pairs`: a predecessor, and a job that waits for it."""
    successors: dict[str, set[str]] = {}
    for above, job in pairs:
        successors.setdefault(above, set()).add(job)
    return successors


def find_circular_jobs(successors: Mapping[str, Collection[str]]) -> set[str]:
    """Return at least the jobs that wait for each other, and those between them. `successors`: who waits for each job."""
    left = _remove_ends(successors)
    return set(_remove_ends(group_successors((job, above) for above, jobs in left.items() for job in jobs)))


def _remove_ends(edges: Mapping[str, Collection[str]]) -> dict[str, Collection[str]]:
    """Return the edges without those from where none leads to, again and again."""
    left, counts = dict(edges), Counter(chain.from_iterable(edges.values()))
    ends = [each for each in edges if not counts[each]]
    while ends:
        for each in left.pop(ends.pop(), ()):
            counts[each] -= 1
            if not counts[each]:
                ends.append(each)
    return left


def describe_unmet(unmet: Sequence[Unmet]) -> str:
    """Return what a job waits for: `waits for build (FAILED) and 3 more`."""
    named = [str(each) for each in unmet[:NAMED]]
    more = len(unmet) - len(named)
    *first, last = [*named, f"{more} more"] if more else named
    return f"waits for {', '.join(first)} and {last}" if first else f"waits for {last}"


def advise_unmet(job: str, after: Sequence[str], unmet: Sequence[Unmet]) -> str:
    """Return the commands that let a job continue. `after`: all its predecessors."""
    failed = [each for each in unmet if each.needs_person]
    if not failed:
        can_run = all(each.status in _RUN for each in unmet)
        return "logist run" if can_run else f"logist job status --job {unmet[0].job}"
    drop = (
        f"{build_drop_command(job, after, unmet)} to continue without {'them' if len(failed) > 1 else 'it'}"
    )
    again = [_HELD[each.status].format(job=each.job) for each in failed if each.status in _HELD]
    return f"{again[0]}, or: {drop}" if again else drop


def build_drop_command(job: str, after: Sequence[str], unmet: Sequence[Unmet]) -> str:
    """Return the command by which a job no longer waits for predecessors that can't succeed before a person decides."""
    rest = ",".join(drop_failed(after, unmet))
    change = f"--set 'after=[{rest}]'" if rest else "--unset after"
    return f"logist job config --job {job} {change}"


def drop_failed(after: Sequence[str], unmet: Sequence[Unmet]) -> list[str]:
    """Return the predecessors without those that can't succeed before a person decides."""
    failed = {each.job for each in unmet if each.needs_person}
    return [each for each in after if each not in failed]
