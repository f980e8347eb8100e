"""The state machine: one table, one pure function, no fallback branches.

The numbers are the rows of the table in docs/concepts.md. Rows of foreach, subflow and join
belong to workflows; their states exist here already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from logist.core import advice
from logist.core.event import Action, Event, Who
from logist.core.model import (
    HALTED,
    TERMINAL,
    Approval,
    EffectiveSpec,
    Phase,
    Place,
    Status,
    Stuck,
    StuckKind,
)
from logist.errors import Refused, UsageError

DOUBTS = ("assume_paid", "retry")
"""What a steward can say of an exchange in doubt: its booking stands, or it was not charged."""

TASK = "task"
"""The one step of the built-in workflow."""


@dataclass(frozen=True)
class Situation:
    """What a row may look at."""

    here: Place
    event: Event
    spec: EffectiveSpec

    @property
    def attempts_left(self) -> bool:
        return self.here.attempts + 1 < self.spec.limits.max_attempts


Guard = Callable[[Situation], bool]
Target = Callable[[Situation], Place]


@dataclass(frozen=True)
class Row:
    """One line of the table: in these states, this actor's action leads there."""

    number: int
    states: frozenset[Status | None]
    who: frozenset[Who]
    action: Action
    guard: Guard
    target: Target


def limit_value(spec: EffectiveSpec, halted: Status) -> float:
    """The limit behind a HALTED state: cents, minutes or runs."""
    limits = spec.limits
    return {
        Status.HALTED_COST: float(limits.cost_threshold),
        Status.HALTED_TIME: float(limits.time_threshold_minutes),
        Status.HALTED_ITERATION: float(limits.max_allowed_iterations),
    }[halted]


def advance(s: Situation) -> Place:
    """What follows a finished step: the last word of a steward, or the end."""
    if s.spec.approval is Approval.NONE or s.event.action is Action.APPROVE:
        return Place(status=Status.SUCCESS, step=s.here.step)
    return Place(status=Status.APPROVAL_REQUIRED, awaiting="end", step=s.here.step)


def start(s: Situation) -> Place:
    """The first step of the built-in workflow."""
    return Place(status=Status.PENDING, step=TASK)


def _always(s: Situation) -> bool:
    return True


def _at(status: Status) -> Target:
    return lambda s: Place(status=status, step=s.here.step)


def _again(s: Situation) -> Place:
    """The same place, one attempt further."""
    return s.here.model_copy(update={"attempts": s.here.attempts + 1})


def _unchanged(s: Situation) -> Place:
    return s.here


def _review(s: Situation) -> Place:
    return Place(status=Status.REVIEW_REQUIRED, step=s.here.step, attempts=s.here.attempts)


def _rework(s: Situation) -> Place:
    return Place(status=Status.PENDING, step=s.here.step, attempts=s.here.attempts + 1)


def _stuck(kind: StuckKind, *, used: int = 0) -> Target:
    def target(s: Situation) -> Place:
        stuck = Stuck(
            kind=kind,
            step=s.here.step,
            role=s.event.role,
            phase=Phase.REVIEWER if s.here.status is Status.REVIEW_REQUIRED else Phase.DOER,
            reason=s.event.reason,
        )
        return Place(status=Status.STUCK, stuck=stuck, step=s.here.step, attempts=s.here.attempts + used)

    return target


def _halted(s: Situation) -> Place:
    assert s.event.limit is not None
    return Place(
        status=s.event.limit,
        step=s.here.step,
        attempts=s.here.attempts,
        before=s.here,
        halted_at=limit_value(s.spec, s.event.limit),
    )


def _suspended(s: Situation) -> Place:
    return Place(status=Status.SUSPENDED, step=s.here.step, attempts=s.here.attempts, before=s.here)


def _before(s: Situation) -> Place:
    assert s.here.before is not None
    return s.here.before


def _resubmitted(s: Situation) -> Place:
    status = Status.REVIEW_REQUIRED if s.event.to_review else Status.PENDING
    return Place(status=status, step=s.event.to_step or s.here.step)


def _supplied(s: Situation) -> Place:
    assert s.here.stuck is not None
    reviewing = s.here.stuck.phase is Phase.REVIEWER
    status = Status.REVIEW_REQUIRED if reviewing else Status.PENDING
    return Place(status=status, step=s.here.stuck.step, attempts=s.here.attempts)


def _back(s: Situation) -> Place:
    assert s.event.back_to is not None
    return s.event.back_to


def _handed_over(s: Situation) -> Place:
    """The same place, where the new role owes what the doer before it owed."""
    return _owing(s.here, s.event.role)


def _owing(here: Place, role: str) -> Place:
    stuck, before = here.stuck, here.before
    if stuck is not None and stuck.phase is Phase.DOER:
        stuck = stuck.model_copy(update={"role": role})
    return here.model_copy(update={"stuck": stuck, "before": before and _owing(before, role)})


def _awaits(*kinds: str) -> Guard:
    return lambda s: s.here.awaiting in kinds


def _owes_an_answer(s: Situation) -> bool:
    answerable = {StuckKind.AGENT, StuckKind.ATTEMPTS, StuckKind.IN_DOUBT}
    return s.here.stuck is not None and s.here.stuck.kind in answerable


def _in_doubt(here: Place) -> bool:
    return here.stuck is not None and here.stuck.kind is StuckKind.IN_DOUBT


def _nothing_in_doubt(s: Situation) -> bool:
    return not _in_doubt(s.here) and s.event.doubt is None


def _doubt_is_settled(s: Situation) -> bool:
    return _in_doubt(s.here) and s.event.doubt in DOUBTS


def _held(s: Situation) -> bool:
    return s.here.before is not None


def _raised(s: Situation) -> bool:
    enough = s.here.halted_at is None or limit_value(s.spec, s.here.status) > s.here.halted_at
    return enough and _held(s)


def _left(s: Situation) -> bool:
    return s.attempts_left


def _none_left(s: Situation) -> bool:
    return not s.attempts_left


RESTING = frozenset(Status) - TERMINAL
ASKED = frozenset({Status.PENDING, Status.REVIEW_REQUIRED})
STEWARD = frozenset({Who.STEWARD})
SYSTEM = frozenset({Who.SYSTEM})


def _row(
    number: int,
    states: frozenset[Status] | Status | None,
    who: frozenset[Who] | Who,
    action: Action,
    target: Target,
    guard: Guard = _always,
) -> Row:
    where: frozenset[Status | None] = (
        frozenset(states) if isinstance(states, frozenset) else frozenset({states})
    )
    actors = who if isinstance(who, frozenset) else frozenset({who})
    return Row(number, where, actors, action, guard, target)


PENDING, REVIEW = Status.PENDING, Status.REVIEW_REQUIRED
APPROVAL = Status.APPROVAL_REQUIRED
DOER, REVIEWER = Who.DOER, Who.REVIEWER

TABLE: tuple[Row, ...] = (
    _row(1, None, STEWARD, Action.CREATE, _at(Status.DRAFT), lambda s: s.event.draft),
    _row(1, None, STEWARD, Action.CREATE, start, lambda s: not s.event.draft),
    _row(2, Status.DRAFT, STEWARD, Action.ACTIVATE, start, lambda s: bool(s.spec.prompt)),
    _row(3, ASKED, SYSTEM, Action.HALT, _halted, lambda s: s.event.limit in HALTED),
    _row(4, PENDING, DOER, Action.COMPLETED, _review, lambda s: s.spec.review),
    _row(4, PENDING, DOER, Action.COMPLETED, advance, lambda s: not s.spec.review),
    _row(5, PENDING, DOER, Action.RETRY, _again, _left),
    _row(5, PENDING, DOER, Action.RETRY, _stuck(StuckKind.ATTEMPTS, used=1), _none_left),
    _row(6, PENDING, DOER, Action.STUCK, _stuck(StuckKind.AGENT)),
    _row(6, PENDING, DOER, Action.BREACH, _stuck(StuckKind.PERMISSION)),
    _row(
        7,
        REVIEW,
        REVIEWER,
        Action.COMPLETED,
        lambda s: Place(status=APPROVAL, awaiting="review", step=s.here.step),
        lambda s: s.spec.approval is Approval.EACH,
    ),
    _row(7, REVIEW, REVIEWER, Action.COMPLETED, advance, lambda s: s.spec.approval is not Approval.EACH),
    _row(8, REVIEW, REVIEWER, Action.RETRY, _rework, _left),
    _row(8, REVIEW, REVIEWER, Action.RETRY, _stuck(StuckKind.ATTEMPTS, used=1), _none_left),
    _row(9, REVIEW, REVIEWER, Action.STUCK, _stuck(StuckKind.AGENT)),
    _row(9, REVIEW, REVIEWER, Action.BREACH, _stuck(StuckKind.PERMISSION)),
    _row(10, ASKED, SYSTEM, Action.TRANSIENT, _again, _left),
    _row(10, ASKED, SYSTEM, Action.TRANSIENT, _stuck(StuckKind.ATTEMPTS, used=1), _none_left),
    _row(
        10, ASKED, SYSTEM, Action.IN_DOUBT, _stuck(StuckKind.IN_DOUBT), lambda s: s.spec.on_doubt != "retry"
    ),
    _row(
        10, ASKED, SYSTEM, Action.IN_DOUBT, _again, lambda s: s.spec.on_doubt == "retry" and s.attempts_left
    ),
    _row(
        10,
        ASKED,
        SYSTEM,
        Action.IN_DOUBT,
        _stuck(StuckKind.ATTEMPTS, used=1),
        lambda s: s.spec.on_doubt == "retry" and not s.attempts_left,
    ),
    _row(11, ASKED, SYSTEM, Action.UNANSWERED, _unchanged),
    _row(12, APPROVAL, STEWARD, Action.APPROVE, _at(Status.SUCCESS), _awaits("end")),
    _row(12, APPROVAL, STEWARD, Action.APPROVE, advance, _awaits("review", "manual")),
    _row(13, APPROVAL, STEWARD, Action.REJECT, _at(PENDING), _awaits("end", "review")),
    _row(13, APPROVAL, STEWARD, Action.REJECT, _stuck(StuckKind.AGENT), _awaits("manual")),
    _row(14, Status.STUCK, STEWARD, Action.RESUBMIT, _resubmitted, _nothing_in_doubt),
    _row(14, Status.STUCK, STEWARD, Action.RESUBMIT, _resubmitted, _doubt_is_settled),
    _row(15, Status.STUCK, STEWARD, Action.SUPPLY, _supplied, _owes_an_answer),
    _row(18, HALTED, STEWARD, Action.RESUME, _before, _raised),
    _row(19, RESTING - {Status.SUSPENDED}, STEWARD, Action.SUSPEND, _suspended),
    _row(19, RESTING, STEWARD, Action.CANCEL, _at(Status.CANCELED)),
    _row(19, RESTING, STEWARD, Action.FAIL, _at(Status.FAILED)),
    _row(19, RESTING, STEWARD, Action.ROLE, _handed_over),
    _row(20, Status.SUSPENDED, STEWARD, Action.RESUME, _before, _held),
    _row(21, RESTING | TERMINAL, STEWARD, Action.RESTEP, _back, lambda s: s.event.back_to is not None),
    _row(21, RESTING | TERMINAL, STEWARD, Action.RERUN, start, lambda s: bool(s.spec.prompt)),
)


def next_place(here: Place | None, event: Event, spec: EffectiveSpec) -> Place:
    """Where a job stands after `event`; `here` is None before it exists.

    Raises Refused (row 22 and every pair the table does not have), UsageError for an unknown step.
    """
    status = here.status if here else None
    s = Situation(here or Place(status=Status.DRAFT, step=TASK), event, spec)
    for row in TABLE:
        fits = status in row.states and event.who in row.who and event.action is row.action
        if fits and row.guard(s):
            _check_step(event)
            return row.target(s)
    raise _refusal(here, event, spec)


def _check_step(event: Event) -> None:
    if event.to_step not in (None, TASK):
        raise UsageError(f"no step {event.to_step!r} in this job", fix=f"its only step is {TASK!r}")


def _refusal(here: Place | None, event: Event, spec: EffectiveSpec) -> Refused:
    if here is None:
        return Refused(f"there is no job yet to {event.action}", fix="logist job create")
    fix = _remedy(here, spec)
    starts = event.action is Action.RERUN or (event.action is Action.ACTIVATE and here.status is Status.DRAFT)
    if starts and event.who is Who.STEWARD and not spec.prompt:
        return Refused(f"a job without a prompt takes no {event.action}", fix=fix)
    if event.action is Action.RESUBMIT and _in_doubt(here):
        return Refused("whether the last request was charged is in doubt: say which it is", fix=fix)
    if event.action is Action.RESUBMIT and event.doubt:
        return Refused("nothing is in doubt in this job", fix=fix)
    if event.action is Action.RESUME and here.status in HALTED and here.before:
        return Refused(f"the limit behind {here.status} was not raised", fix=fix)
    return Refused(f"a job that is {here.status} takes no {event.action}", fix=fix)


def _remedy(here: Place, spec: EffectiveSpec) -> str:
    """A command that this job does take."""
    if here.status in TERMINAL:
        return "logist job restep --to N" + (", or: logist job rerun" if spec.prompt else "")
    if here.status is Status.DRAFT and not spec.prompt:
        return "logist job config --set prompt=..., then: logist job activate"
    if here.before is None and here.status in {Status.SUSPENDED, *HALTED}:
        return "logist job restep --to N"
    return next_command(here)


def next_command(here: Place, job: str | None = None) -> str:
    """The command that answers the state a job is in."""
    return advice.next_command(here.status, stuck_kind=here.stuck.kind if here.stuck else None, job=job)


def exit_code(status: Status) -> int:
    """The exit code with which `step`, `poststep` and `run` tell where a job stands."""
    return advice.exit_code(status)
