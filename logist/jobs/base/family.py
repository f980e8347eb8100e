"""The children of a job, and the jobs above it, as their files describe
them. Writes nothing and takes no lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from logist.core.machine import advice
from logist.core.machine.steward import next_command
from logist.core.model import (
    HALTED,
    MAX_DEPTH,
    TERMINAL,
    State,
    Status,
    StuckKind,
)
from logist.errors import LogistError, Refused, UsageError
from logist.jobs.base.session import load_session
from logist.jobs.base.stored_records import read_current_state
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext


class Unwanted(Refused):
    """A child whose parent no longer waits for its work."""


class SetAside(Refused):
    """A child whose parent is suspended or has reached a limit."""


SET_ASIDE = frozenset({Status.SUSPENDED, *HALTED})
"""Statuses of a parent in which its children do not run."""
SHOWN = 5
"""How many children a note lists."""


@dataclass(frozen=True)
class Kin:
    """A child as its files describe it; `state` is None if it does not exist or can't be read."""

    id: str
    state: State | None
    error: str = ""
    code: int = 0
    """The exit code of that error; 0 if the job is only not created yet."""

    @property
    def is_settled(self) -> bool:
        """True if the child will not change any more: it has ended, or has no attempts left."""
        if self.state is None:
            return False
        out = self.state.place.stuck is not None and self.state.place.stuck.kind is StuckKind.ATTEMPTS
        return self.state.status in TERMINAL or out

    @property
    def has_succeeded(self) -> bool:
        return self.state is not None and self.state.status is Status.SUCCESS


def load_children(project: ProjectContext, state: State) -> list[Kin]:
    """Load the jobs that a job waits for, in the order of its items. Writes nothing and takes no lock."""
    return [_load_child(project, child) for child in state.children]


def _load_child(project: ProjectContext, job_id: str) -> Kin:
    try:
        state = load_session(project, project.open_job(job_id)).state
    except UsageError as error:
        return Kin(job_id, None, str(error))
    except LogistError as error:
        return Kin(job_id, None, str(error), error.exit_code)
    if state.parent is None or not job_id.startswith(f"{state.parent}--"):
        return Kin(job_id, None, "another job uses this id", Refused.exit_code)
    return Kin(job_id, state)


def is_waiting(state: State) -> bool:
    """True if a job waits for others, or would once it is resumed."""
    before = state.place.before.status if state.place.before else None
    return bool(state.children) or Status.WAITING in (state.status, before)


def require_wanted(project: ProjectContext, state: State, job_id: str) -> None:
    """Raise Refused for a child whose parent has ended, is suspended or at a limit, or no longer waits for it.

    The same applies to a child of such a child.
    """
    child, above = job_id, state.parent
    for _ in range(MAX_DEPTH):
        if above is None:
            return
        try:
            parent = load_session(project, project.open_job(above)).state
        except UsageError:
            return  # the parent is missing: a child that was moved runs on its own
        if parent.status in SET_ASIDE:
            fix = next_command(parent, above)
            raise SetAside(f"the parent job {above} is {parent.status}", fix=fix)
        if parent.status in TERMINAL or child not in parent.children:
            fix = f"logist job cancel --job {child}"
            raise Unwanted(f"the parent job {above} no longer waits for this job", fix=fix)
        child, above = above, parent.parent


def is_below(project: ProjectContext, job_id: str, above: str) -> bool:
    """True if a job does a part of `above`, directly or through jobs between them."""
    if not job_id.startswith(f"{above}--"):
        return False
    for _ in range(MAX_DEPTH + 1):
        try:
            parent = read_current_state(project.open_job(job_id)).get("parent")
        except LogistError:
            return False
        if parent in (None, above):
            return parent is not None
        job_id = str(parent)
    return False


def describe_waiting(kin: Sequence[Kin]) -> str:
    """Describe what a job waits for: how many of its children, and the first of them with their status."""
    open_ones = [child for child in kin if not child.is_settled]
    described = ", ".join(f"{child.id} ({describe_child_status(child)})" for child in open_ones[:SHOWN])
    more = f" and {len(open_ones) - SHOWN} more" if len(open_ones) > SHOWN else ""
    return f"waiting for {len(open_ones)} of {len(kin)} child jobs: {described}{more}"


def describe_child_status(child: Kin) -> str:
    """The status of a child, or why it is unknown."""
    return child.state.status.value if child.state else child.error or "not created yet"


FIRST_OF = (1, 10, 5, 3, 7, 11, 8)


def waiting_exit_code(project: ProjectContext, state: State) -> int:
    """The exit code of a waiting job: the first of FIRST_OF that one of its descendants causes; 0 if none does.

    10 and 5 if a descendant can't be read, 3 if it is STUCK, 7 at a limit, 11 for an approval, 8 if set
    aside.
    """
    codes = set(_collect_exit_codes(project, state, MAX_DEPTH))
    return next((code for code in FIRST_OF if code in codes), 0)


def _collect_exit_codes(project: ProjectContext, state: State, depth: int) -> Iterator[int]:
    for child in load_children(project, state) if depth else ():
        if child.state is None:
            yield child.code
            continue
        if child.is_settled:
            continue
        yield advice.exit_code(child.state.status)
        yield from _collect_exit_codes(project, child.state, depth - 1)
