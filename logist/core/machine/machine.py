"""The state machine: one table, one pure function, no fallback branches.

The numbers are the rows of the table in docs/concepts.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from logist.core.machine import advice
from logist.core.machine import targets as to
from logist.core.machine.event import Action, Event, Who
from logist.core.machine.targets import DOUBTS, TASK, Guard, Situation, Target, limit_value
from logist.core.model import HALTED, TERMINAL, EffectiveSpec, Phase, Place, Status, StuckKind
from logist.errors import Refused, UsageError

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
    """One line of the table: in these states, this actor's action leads there."""

    number: int
    states: frozenset[Status | None]
    who: frozenset[Who]
    action: Action
    guard: Guard
    target: Target


RESTING = frozenset(Status) - TERMINAL
ASKED = frozenset({Status.PENDING, Status.REVIEW_REQUIRED})
MERGEABLE = frozenset({Status.SUCCESS, Status.STUCK})
STEWARD = frozenset({Who.STEWARD})
SYSTEM = frozenset({Who.SYSTEM})


def _row(
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
    _row(1, None, STEWARD, Action.CREATE, to.at(Status.DRAFT), lambda s: s.event.draft),
    _row(1, None, STEWARD, Action.CREATE, to.start, lambda s: not s.event.draft),
    _row(2, Status.DRAFT, STEWARD, Action.ACTIVATE, to.start, to.has_work),
    _row(3, ASKED | {Status.WAITING}, SYSTEM, Action.HALT, to.halted, lambda s: s.event.limit in HALTED),
    _row(4, PENDING, DOER, Action.COMPLETED, to.review, to.reviews),
    _row(4, PENDING, DOER, Action.COMPLETED, to.confirm, to.confirms),
    _row(4, PENDING, DOER, Action.COMPLETED, to.advance, to.passes),
    _row(5, PENDING, DOER, Action.RETRY, to.again, to.left),
    _row(5, PENDING, DOER, Action.RETRY, to.stuck(StuckKind.ATTEMPTS, used=1), to.none_left),
    _row(6, PENDING, DOER, Action.STUCK, to.stuck(StuckKind.AGENT)),
    _row(6, PENDING, DOER, Action.BREACH, to.stuck(StuckKind.PERMISSION)),
    _row(7, REVIEW, REVIEWER, Action.COMPLETED, to.confirm, to.confirms_the_review),
    _row(7, REVIEW, REVIEWER, Action.COMPLETED, to.advance, to.passes_the_review),
    _row(8, REVIEW, REVIEWER, Action.COMPLETED, to.rework, to.fails_the_review),
    _row(
        8, REVIEW, REVIEWER, Action.COMPLETED, to.stuck(StuckKind.ATTEMPTS, used=1), to.fails_the_last_review
    ),
    _row(8, REVIEW, REVIEWER, Action.RETRY, to.rework, to.left),
    _row(8, REVIEW, REVIEWER, Action.RETRY, to.stuck(StuckKind.ATTEMPTS, used=1), to.none_left),
    _row(9, REVIEW, REVIEWER, Action.STUCK, to.stuck(StuckKind.AGENT)),
    _row(9, REVIEW, REVIEWER, Action.BREACH, to.stuck(StuckKind.PERMISSION)),
    _row(10, ASKED, SYSTEM, Action.TRANSIENT, to.again, to.left),
    _row(10, ASKED, SYSTEM, Action.TRANSIENT, to.stuck(StuckKind.ATTEMPTS, used=1), to.none_left),
    _row(10, ASKED, SYSTEM, Action.IN_DOUBT, to.stuck(StuckKind.IN_DOUBT), lambda s: not _retries(s)),
    _row(10, ASKED, SYSTEM, Action.IN_DOUBT, to.again, lambda s: _retries(s) and s.attempts_left),
    _row(
        10,
        ASKED,
        SYSTEM,
        Action.IN_DOUBT,
        to.stuck(StuckKind.ATTEMPTS, used=1),
        lambda s: _retries(s) and not s.attempts_left,
    ),
    _row(11, ASKED, SYSTEM, Action.UNANSWERED, to.unchanged),
    _row(12, APPROVAL, STEWARD, Action.APPROVE, to.approved, to.awaits("end")),
    _row(12, APPROVAL, STEWARD, Action.APPROVE, to.advance, to.awaits("review", "manual")),
    _row(12, ASKED | {Status.STUCK}, STEWARD, Action.OVERRIDE, to.advance, to.overrides),
    _row(13, APPROVAL, STEWARD, Action.REJECT, to.back_to_work, to.awaits("end", "review")),
    _row(13, APPROVAL, STEWARD, Action.REJECT, to.stuck(StuckKind.AGENT), to.awaits("manual")),
    _row(14, Status.STUCK, STEWARD, Action.RESUBMIT, to.resubmitted, to.nothing_in_doubt),
    _row(14, Status.STUCK, STEWARD, Action.RESUBMIT, to.resubmitted, to.doubt_is_settled),
    _row(14, Status.STUCK, STEWARD, Action.RESUBMIT, to.at(Status.WAITING), to.collects_again),
    _row(15, Status.STUCK, STEWARD, Action.SUPPLY, to.supplied, to.owes_an_answer),
    _row(
        16,
        PENDING,
        SYSTEM,
        Action.SPAWN,
        to.at(Status.WAITING),
        lambda s: _spawns(s) and s.event.children > 0,
    ),
    _row(16, PENDING, SYSTEM, Action.SPAWN, to.advance, lambda s: _spawns(s) and not s.event.children),
    _row(16, PENDING, SYSTEM, Action.SPAWN, to.stuck(StuckKind.AGENT), to.can_not_spawn),
    _row(17, Status.WAITING, SYSTEM, Action.COLLECT, to.advance, to.gathered("reached")),
    _row(17, Status.WAITING, SYSTEM, Action.COLLECT, to.stuck(StuckKind.SHARE), to.gathered("share")),
    _row(17, Status.WAITING, SYSTEM, Action.COLLECT, to.stuck(StuckKind.CONFLICT), to.gathered("conflict")),
    _row(18, HALTED, STEWARD, Action.RESUME, to.before, to.raised),
    _row(19, RESTING - {Status.SUSPENDED}, STEWARD, Action.SUSPEND, to.suspended),
    _row(19, RESTING, STEWARD, Action.CANCEL, to.at(Status.CANCELED)),
    _row(19, RESTING, STEWARD, Action.FAIL, to.at(Status.FAILED)),
    _row(19, RESTING, STEWARD, Action.ROLE, to.handed_over),
    _row(20, Status.SUSPENDED, STEWARD, Action.RESUME, to.before, to.held),
    _row(21, RESTING | TERMINAL, STEWARD, Action.RESTEP, to.back, lambda s: s.event.back_to is not None),
    _row(21, RESTING | TERMINAL, STEWARD, Action.RERUN, to.start, to.has_work),
    _row(23, MERGEABLE, STEWARD | SYSTEM, Action.MERGE, to.at(Status.SUCCESS), to.fits),
    _row(23, MERGEABLE, STEWARD | SYSTEM, Action.MERGE, to.stuck(StuckKind.MERGE), to.does_not_fit),
)


def _retries(s: Situation) -> bool:
    """Whether an exchange in doubt is asked again without a steward."""
    return s.spec.on_doubt == "retry"


def _spawns(s: Situation) -> bool:
    return bool(s.here.spawns) and not to.can_not_spawn(s)


def next_place(here: Place | None, event: Event, spec: EffectiveSpec) -> Place:
    """Where a job stands after `event`; `here` is None before it exists.

    Raises Refused (row 22 and every pair the table does not have), UsageError for an unknown step.
    """
    status = here.status if here else None
    s = Situation(here or Place(status=Status.DRAFT, step=TASK), event, spec)
    for row in TABLE:
        fits = status in row.states and event.who in row.who and event.action is row.action
        if fits and row.guard(s):
            _check_step(event, spec)
            return row.target(s)
    raise _refusal(here, event, spec)


def _check_step(event: Event, spec: EffectiveSpec) -> None:
    known = [step.id for step in spec.workflow.steps] if spec.workflow else [TASK]
    if event.to_step is not None and event.to_step not in known:
        what = f"its only step is {TASK!r}" if known == [TASK] else f"its steps: {', '.join(known)}"
        raise UsageError(f"no step {event.to_step!r} in this job", fix=what)


_VERBS = {
    Action.SUPPLY: "take an answer",
    Action.ROLE: "switch the role",
    Action.OVERRIDE: "override a review",
}
"""What a refusal calls an action that has no command of its name."""


def _refusal(here: Place | None, event: Event, spec: EffectiveSpec) -> Refused:
    if here is None:
        return Refused(f"there is no job yet to {event.action}", fix='logist job create --prompt "..."')
    fix = _remedy(here, event, spec)
    starts = event.action is Action.RERUN or (event.action is Action.ACTIVATE and here.status is Status.DRAFT)
    if starts and event.who is Who.STEWARD and not (spec.prompt or spec.workflow):
        return Refused(f"can't {event.action}: the job has no prompt", fix=fix)
    if event.action is Action.RESUBMIT and to.in_doubt(here):
        return Refused("whether the last request was charged is in doubt: say which it is", fix=fix)
    if event.action is Action.RESUBMIT and event.doubt:
        return Refused("nothing is in doubt in this job", fix=fix)
    if event.action is Action.OVERRIDE:
        return Refused("there is no review here to override", fix=fix)
    if event.action is Action.RESUME and here.status in HALTED and here.before:
        return Refused(f"the limit behind {here.status} was not raised", fix=fix)
    return Refused(f"can't {_VERBS.get(event.action, event.action)}: the job is {here.status}", fix=fix)


def _remedy(here: Place, event: Event, spec: EffectiveSpec) -> str:
    """A command that this job does take."""
    job = event.job
    if here.status in TERMINAL:
        starts_over = f", or: logist job rerun --job {job}" if spec.prompt or spec.workflow else ""
        return f"logist job restep --job {job} --to N{starts_over}"
    if here.status is Status.DRAFT and not (spec.prompt or spec.workflow):
        return f'logist job config --job {job} --set prompt="...", then: logist job activate --job {job}'
    if here.before is None and here.status in {Status.SUSPENDED, *HALTED}:
        return f"logist job restep --job {job} --to N"
    kind = here.stuck.kind if here.stuck else None
    reviewing = here.stuck is not None and here.stuck.phase is Phase.REVIEWER
    raised = here.halted_at is not None and here.status in HALTED and to.raised(Situation(here, event, spec))
    return advice.next_command(here.status, job, kind, here.awaiting, reviewing=reviewing, raised=raised)


def exit_code(status: Status) -> int:
    """The exit code with which `step`, `poststep` and `run` tell where a job stands."""
    return advice.exit_code(status)
