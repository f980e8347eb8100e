"""The state machine: one table and one pure function. What the table doesn't allow is refused.

The numbers refer to the rows of the table in docs/concepts.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.core.machine import advice
from logist.core.machine import targets as to
from logist.core.machine.actions import Action, Who
from logist.core.machine.targets import DOUBTS, TASK, Guard, Situation, Target, limit_value
from logist.core.model import HALTED, TERMINAL, EffectiveSpec, Phase, Place, Status, StuckKind
from logist.errors import Refused, UsageError
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.machine.event import Event

__all__ = [
    "DOUBTS",
    "TABLE",
    "TASK",
    "Situation",
    "TransitionRow",
    "exit_code",
    "limit_value",
    "next_place",
]


@dataclass(frozen=True)
class TransitionRow:
    """A row of the table: in these states, this action by this actor leads to the target, if the guard allows it."""

    number: int
    states: frozenset[Status | None]
    who: frozenset[Who]
    action: Action
    guard: Guard
    target: Target


RESTING = frozenset(Status) - TERMINAL
ASKED = frozenset({Status.PENDING, Status.REVIEW_REQUIRED})
UPDATABLE = RESTING | {Status.SUCCESS}
MERGEABLE = frozenset({Status.SUCCESS, Status.STUCK})
STEWARD = frozenset({Who.STEWARD})
SYSTEM = frozenset({Who.SYSTEM})


def _build_row(
    number: int,
    states: frozenset[Status] | Status | None,
    who: frozenset[Who] | Who,
    action: Action,
    target: Target,
    guard: Guard = to.always,
) -> TransitionRow:
    where: frozenset[Status | None] = (
        frozenset(states) if isinstance(states, frozenset) else frozenset({states})
    )
    actors = who if isinstance(who, frozenset) else frozenset({who})
    return TransitionRow(number, where, actors, action, guard, target)


PENDING, REVIEW = Status.PENDING, Status.REVIEW_REQUIRED
APPROVAL = Status.APPROVAL_REQUIRED
DOER, REVIEWER = Who.DOER, Who.REVIEWER

TABLE: tuple[TransitionRow, ...] = (
    _build_row(1, None, STEWARD, Action.CREATE, to.enter_status(Status.DRAFT), lambda s: s.event.draft),
    _build_row(1, None, STEWARD, Action.CREATE, to.enter_first_step, lambda s: not s.event.draft),
    _build_row(2, Status.DRAFT, STEWARD, Action.ACTIVATE, to.enter_first_step, to.has_work),
    _build_row(
        3, ASKED | {Status.WAITING}, SYSTEM, Action.HALT, to.halt_job, lambda s: s.event.limit in HALTED
    ),
    _build_row(4, PENDING, DOER, Action.COMPLETED, to.await_review, to.needs_review),
    _build_row(4, PENDING, DOER, Action.COMPLETED, to.await_confirmation, to.needs_confirmation),
    _build_row(4, PENDING, DOER, Action.COMPLETED, to.advance_job, to.can_pass),
    _build_row(5, PENDING, DOER, Action.RETRY, to.retry_step, to.has_attempts_left),
    _build_row(
        5, PENDING, DOER, Action.RETRY, to.get_stuck(StuckKind.ATTEMPTS, used=1), to.has_no_attempts_left
    ),
    _build_row(6, PENDING, DOER, Action.STUCK, to.get_stuck(StuckKind.AGENT)),
    _build_row(6, PENDING, DOER, Action.BREACH, to.get_stuck(StuckKind.PERMISSION)),
    _build_row(7, REVIEW, REVIEWER, Action.COMPLETED, to.await_confirmation, to.needs_confirmed_review),
    _build_row(7, REVIEW, REVIEWER, Action.COMPLETED, to.advance_job, to.has_passed_review),
    _build_row(8, REVIEW, REVIEWER, Action.COMPLETED, to.rework_step, to.has_failed_review),
    _build_row(
        8,
        REVIEW,
        REVIEWER,
        Action.COMPLETED,
        to.get_stuck(StuckKind.ATTEMPTS, used=1),
        to.has_failed_last_review,
    ),
    _build_row(8, REVIEW, REVIEWER, Action.RETRY, to.rework_step, to.has_attempts_left),
    _build_row(
        8, REVIEW, REVIEWER, Action.RETRY, to.get_stuck(StuckKind.ATTEMPTS, used=1), to.has_no_attempts_left
    ),
    _build_row(9, REVIEW, REVIEWER, Action.STUCK, to.get_stuck(StuckKind.AGENT)),
    _build_row(9, REVIEW, REVIEWER, Action.BREACH, to.get_stuck(StuckKind.PERMISSION)),
    _build_row(10, ASKED, SYSTEM, Action.TRANSIENT, to.retry_step, to.has_attempts_left),
    _build_row(
        10, ASKED, SYSTEM, Action.TRANSIENT, to.get_stuck(StuckKind.ATTEMPTS, used=1), to.has_no_attempts_left
    ),
    _build_row(
        10,
        ASKED,
        SYSTEM,
        Action.IN_DOUBT,
        to.get_stuck(StuckKind.IN_DOUBT),
        lambda s: not _is_doubt_retried(s),
    ),
    _build_row(
        10, ASKED, SYSTEM, Action.IN_DOUBT, to.retry_step, lambda s: _is_doubt_retried(s) and s.attempts_left
    ),
    _build_row(
        10,
        ASKED,
        SYSTEM,
        Action.IN_DOUBT,
        to.get_stuck(StuckKind.ATTEMPTS, used=1),
        lambda s: _is_doubt_retried(s) and not s.attempts_left,
    ),
    _build_row(11, ASKED, SYSTEM, Action.UNANSWERED, to.keep_place),
    _build_row(12, APPROVAL, STEWARD, Action.APPROVE, to.finish_approved, to.is_awaiting("end")),
    _build_row(12, APPROVAL, STEWARD, Action.APPROVE, to.advance_job, to.is_awaiting("review", "manual")),
    _build_row(12, ASKED | {Status.STUCK}, STEWARD, Action.OVERRIDE, to.advance_job, to.can_override),
    _build_row(13, APPROVAL, STEWARD, Action.REJECT, to.back_to_work, to.is_awaiting("end", "review")),
    _build_row(13, APPROVAL, STEWARD, Action.REJECT, to.get_stuck(StuckKind.AGENT), to.is_awaiting("manual")),
    _build_row(14, Status.STUCK, STEWARD, Action.RESUBMIT, to.resubmit_step, to.has_no_doubt),
    _build_row(14, Status.STUCK, STEWARD, Action.RESUBMIT, to.resubmit_step, to.is_doubt_settled),
    _build_row(
        14, Status.STUCK, STEWARD, Action.RESUBMIT, to.enter_status(Status.WAITING), to.can_collect_again
    ),
    _build_row(15, Status.STUCK, STEWARD, Action.SUPPLY, to.accept_supplied_answer, to.needs_answer),
    _build_row(
        16,
        PENDING,
        SYSTEM,
        Action.SPAWN,
        to.enter_status(Status.WAITING),
        lambda s: _can_spawn(s) and s.event.children > 0,
    ),
    _build_row(
        16, PENDING, SYSTEM, Action.SPAWN, to.advance_job, lambda s: _can_spawn(s) and not s.event.children
    ),
    _build_row(16, PENDING, SYSTEM, Action.SPAWN, to.get_stuck(StuckKind.AGENT), to.has_spawn_fault),
    _build_row(17, Status.WAITING, SYSTEM, Action.COLLECT, to.advance_job, to.has_gathered("reached")),
    _build_row(
        17, Status.WAITING, SYSTEM, Action.COLLECT, to.get_stuck(StuckKind.SHARE), to.has_gathered("share")
    ),
    _build_row(
        17,
        Status.WAITING,
        SYSTEM,
        Action.COLLECT,
        to.get_stuck(StuckKind.CONFLICT),
        to.has_gathered("conflict"),
    ),
    _build_row(18, HALTED, STEWARD, Action.RESUME, to.return_to_before, to.is_limit_raised),
    _build_row(19, RESTING - {Status.SUSPENDED}, STEWARD, Action.SUSPEND, to.suspend_job),
    _build_row(19, RESTING, STEWARD, Action.CANCEL, to.enter_status(Status.CANCELED)),
    _build_row(19, RESTING, STEWARD, Action.FAIL, to.enter_status(Status.FAILED)),
    _build_row(19, RESTING, STEWARD, Action.ROLE, to.hand_over_role),
    _build_row(20, Status.SUSPENDED, STEWARD, Action.RESUME, to.return_to_before, to.has_place_before),
    _build_row(
        21,
        RESTING | TERMINAL,
        STEWARD,
        Action.RESTEP,
        to.return_to_chosen,
        lambda s: s.event.back_to is not None,
    ),
    _build_row(21, RESTING | TERMINAL, STEWARD, Action.RERUN, to.enter_first_step, to.has_work),
    _build_row(23, MERGEABLE, STEWARD | SYSTEM, Action.MERGE, to.enter_status(Status.SUCCESS), to.can_merge),
    _build_row(
        23, MERGEABLE, STEWARD | SYSTEM, Action.MERGE, to.get_stuck(StuckKind.MERGE), to.has_merge_conflict
    ),
    _build_row(24, UPDATABLE, STEWARD, Action.UPDATE, to.renew_place, to.can_update),
    _build_row(24, UPDATABLE, STEWARD, Action.UPDATE, to.hand_over_conflicts, to.can_hand_over_conflicts),
)


_ROWS_BY_ACTION: dict[Action, list[TransitionRow]] = {}
for _row in TABLE:
    _ROWS_BY_ACTION.setdefault(_row.action, []).append(_row)


def _is_doubt_retried(s: Situation) -> bool:
    """Whether an exchange in doubt is repeated without asking a steward."""
    return s.spec.on_doubt == "retry"


def _can_spawn(s: Situation) -> bool:
    return bool(s.here.spawns) and not to.has_spawn_fault(s)


def next_place(here: Place | None, event: Event, spec: EffectiveSpec) -> Place:
    """Return the place of a job after `event`; `here` is None before the job exists.

    Raises Refused for every pair that the table does not contain (row 22), UsageError for an unknown step.
    """
    status = here.status if here else None
    s = Situation(here or Place(status=Status.DRAFT, step=TASK), event, spec)
    for row in _ROWS_BY_ACTION.get(event.action, ()):
        if status in row.states and event.who in row.who and row.guard(s):
            _check_step(event, spec)
            return row.target(s)
    raise _build_refusal(here, event, spec)


def _check_step(event: Event, spec: EffectiveSpec) -> None:
    if event.to_step is None:
        return
    known = [step.id for step in spec.workflow.steps] if spec.workflow else [TASK]
    if event.to_step not in known:
        what = f"the only step is {TASK!r}" if known == [TASK] else f"known steps: {', '.join(known)}"
        raise UsageError(f"unknown step {event.to_step!r} in this job", fix=what)


_VERBS = {
    Action.SUPPLY: "supply an answer",
    Action.ROLE: "switch the role",
    Action.OVERRIDE: "override a review",
}
"""The words for actions that have no command of the same name, for error messages."""


def _build_refusal(here: Place | None, event: Event, spec: EffectiveSpec) -> Refused:
    if here is None:
        return Refused(
            f"can't {event.action}: the job doesn't exist yet", fix='logist job create --prompt "..."'
        )
    fix = _find_remedy(here, event, spec)
    starts = event.action is Action.RERUN or (event.action is Action.ACTIVATE and here.status is Status.DRAFT)
    if starts and event.who is Who.STEWARD and not (spec.prompt or spec.workflow):
        return Refused(f"can't {event.action}: the job has no prompt", fix=fix)
    if event.action is Action.RESUBMIT and to.is_in_doubt(here):
        return Refused("can't resubmit: it is unknown whether the last request was charged", fix=fix)
    if event.action is Action.RESUBMIT and event.doubt:
        return Refused(
            "can't resubmit with --assume-paid or --retry: no request of this job is in doubt", fix=fix
        )
    if event.action is Action.OVERRIDE:
        return Refused("can't override: the job has no review to override", fix=fix)
    if event.action is Action.RESUME and here.status in HALTED and here.before:
        return Refused(f"can't resume: the limit behind {here.status} was not raised", fix=fix)
    if event.action is Action.UPDATE and (why := _explain_no_update(here, event, spec)):
        return Refused(why, fix=fix)
    return Refused(f"can't {_VERBS.get(event.action, event.action)}: the job is {here.status}", fix=fix)


def _explain_no_update(here: Place, event: Event, spec: EffectiveSpec) -> str:
    """Return why a job that has not ended can't be updated, or its conflicts can't go to an agent."""
    if here.status not in UPDATABLE:
        return ""
    if not event.fits and (why := to.explain_no_handover(here, spec)):
        return f"can't give the conflicts to an agent: {why}"
    return f"can't update: {to.explain_no_update(here)}"


def _find_remedy(here: Place, event: Event, spec: EffectiveSpec) -> str:
    """Return a command that this job accepts."""
    job = event.job
    if here.status is Status.SUCCESS and event.action is Action.APPROVE:
        return f"it is approved already, or needed no approval; to see its history: logist job history --job {job}"
    if here.status in TERMINAL:
        starts_over = f", or: logist job rerun --job {job}" if spec.prompt or spec.workflow else ""
        return f"logist job restep --job {job} --to N{starts_over}"
    if here.status is Status.DRAFT and not (spec.prompt or spec.workflow):
        return f'logist job config --job {job} --set prompt="...", then: logist job activate --job {job}'
    if here.before is None and here.status in {Status.SUSPENDED, *HALTED}:
        return f"logist job restep --job {job} --to N"
    kind = here.stuck.kind if here.stuck else None
    reviewing = here.stuck is not None and here.stuck.phase is Phase.REVIEWER
    raised = (
        here.halted_at is not None
        and here.status in HALTED
        and to.is_limit_raised(Situation(here, event, spec))
    )
    return advice.next_command(here.status, job, kind, here.awaiting, reviewing=reviewing, raised=raised)


def exit_code(status: Status) -> int:
    """Return the exit code with which `step`, `poststep` and `run` report the status of a job."""
    return advice.exit_code(status)
