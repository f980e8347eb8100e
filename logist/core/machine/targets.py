"""Guards and targets for the rows of the state machine: when a row applies, and where it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from logist.core.machine.actions import Action
from logist.core.model import (
    Approval,
    EffectiveSpec,
    Phase,
    Place,
    Status,
    Step,
    StepType,
    Stuck,
    StuckKind,
)
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.machine.event import Event

DOUBTS = ("assume_paid", "retry")
"""A steward's decisions about an exchange in doubt: it was paid, or it was not and may be repeated."""

TASK = "task"
"""The only step of the built-in workflow."""

SPAWNING = frozenset({StepType.FOREACH, StepType.SUBFLOW})
"""Steps that child jobs do."""

_STUCK_ON_CHILDREN = (StuckKind.SHARE, StuckKind.CONFLICT)


@dataclass(frozen=True)
class Situation:
    """What guards and targets may use."""

    here: Place
    event: Event
    spec: EffectiveSpec

    @property
    def attempts_left(self) -> bool:
        return self.here.attempts + 1 < self.spec.limits.max_attempts

    @property
    def is_reviewed(self) -> bool:
        """Whether an agent reviews this step."""
        return is_step_reviewed(self.spec, self.here.step)


Guard = Callable[[Situation], bool]
Target = Callable[[Situation], Place]


def is_step_reviewed(spec: EffectiveSpec, step_id: str) -> bool:
    """Whether a reviewer follows the doer of a step; in a workflow, only if the step itself requires it."""
    step = spec.workflow.find_step(step_id) if spec.workflow else None
    return spec.review and (step is None or step.review)


def limit_value(spec: EffectiveSpec, halted: Status) -> float:
    """Return the limit behind a HALTED state: cents, minutes or runs."""
    limits = spec.limits
    return {
        Status.HALTED_COST: float(limits.cost_threshold),
        Status.HALTED_TIME: float(limits.time_threshold_minutes),
        Status.HALTED_ITERATION: float(limits.max_allowed_iterations),
    }[halted]


def advance_job(s: Situation) -> Place:
    """Return the place after a finished step: the next step, the final approval, or the end."""
    onward = s.event.onward
    if onward is not None and (onward.fault or onward.step is not None):
        return follow_workflow(s)
    if s.event.action in (Action.APPROVE, Action.OVERRIDE):
        return finish_approved(s)
    if s.spec.approval is Approval.NONE:
        return Place(status=Status.SUCCESS, step=s.here.step)
    return Place(status=Status.APPROVAL_REQUIRED, awaiting="end", step=s.here.step)


def finish_approved(s: Situation) -> Place:
    """Return the place after the final approval: a plan is carried out at the same step, other work is done."""
    if s.event.carried_out:
        return _enter_step(s.spec, s.here.step)
    return Place(status=Status.SUCCESS, step=s.here.step)


def follow_workflow(s: Situation) -> Place:
    """Return the place to which the workflow leads.

    If no branch matches, the job is STUCK at the step whose output must choose one.
    """
    onward = s.event.onward
    assert onward is not None
    if onward.step is not None and not onward.fault:
        return _enter_step(s.spec, onward.step)
    stuck = Stuck(
        kind=StuckKind.NO_BRANCH,
        step=s.here.step,
        role=s.event.role,
        phase=Phase.DOER,
        reason=onward.fault,
    )
    return Place(status=Status.STUCK, stuck=stuck, step=s.here.step)


def _enter_step(spec: EffectiveSpec, step_id: str, attempts: int = 0) -> Place:
    """Return the place at the beginning of a step."""
    step = _find_step(spec, step_id)
    if step is not None and step.is_manual:
        return Place(status=Status.APPROVAL_REQUIRED, awaiting="manual", step=step_id)
    spawns = True if step is not None and step.step_type in SPAWNING else None
    return Place(status=Status.PENDING, step=step_id, attempts=attempts, spawns=spawns)


def _find_step(spec: EffectiveSpec, step_id: str) -> Step | None:
    return spec.workflow.find_step(step_id) if spec.workflow else None


def enter_first_step(s: Situation) -> Place:
    """Return the place at the first step."""
    if s.spec.workflow is None:
        return Place(status=Status.PENDING, step=TASK)
    return advance_job(s)


def enter_status(status: Status) -> Target:
    return lambda s: Place(status=status, step=s.here.step)


def retry_step(s: Situation) -> Place:
    """Return the same place with one more attempt used."""
    attempts = s.here.attempts + 1
    if s.spec.workflow is not None and s.here.status is Status.PENDING:
        return _enter_step(
            s.spec, s.here.step, attempts
        )  # a person may have supplied an answer for a step of child jobs
    return s.here.model_copy(update={"attempts": attempts})


def keep_place(s: Situation) -> Place:
    return s.here


def await_review(s: Situation) -> Place:
    return Place(status=Status.REVIEW_REQUIRED, step=s.here.step, attempts=s.here.attempts)


def await_confirmation(s: Situation) -> Place:
    return Place(status=Status.APPROVAL_REQUIRED, awaiting="review", step=s.here.step)


def rework_step(s: Situation) -> Place:
    return _enter_step(s.spec, s.here.step, s.here.attempts + 1)


def back_to_work(s: Situation) -> Place:
    return _enter_step(s.spec, s.here.step)


def get_stuck(kind: StuckKind, *, used: int = 0) -> Target:
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


def halt_job(s: Situation) -> Place:
    assert s.event.limit is not None
    return Place(
        status=s.event.limit,
        step=s.here.step,
        attempts=s.here.attempts,
        before=s.here,
        halted_at=limit_value(s.spec, s.event.limit),
    )


def suspend_job(s: Situation) -> Place:
    return Place(status=Status.SUSPENDED, step=s.here.step, attempts=s.here.attempts, before=s.here)


def return_to_before(s: Situation) -> Place:
    assert s.here.before is not None
    return s.here.before


def resubmit_step(s: Situation) -> Place:
    if s.event.to_review:
        return Place(status=Status.REVIEW_REQUIRED, step=s.event.to_step or s.here.step)
    if s.spec.workflow is None:
        return Place(status=Status.PENDING, step=s.event.to_step or s.here.step)
    return advance_job(s)


def accept_supplied_answer(s: Situation) -> Place:
    assert s.here.stuck is not None
    reviewing = s.here.stuck.phase is Phase.REVIEWER
    status = Status.REVIEW_REQUIRED if reviewing else Status.PENDING
    return Place(status=status, step=s.here.stuck.step, attempts=s.here.attempts)


def return_to_chosen(s: Situation) -> Place:
    assert s.event.back_to is not None
    return s.event.back_to


def hand_over_role(s: Situation) -> Place:
    """Return the same place, with the new role in place of the old one that got stuck."""
    return _replace_stuck_role(s.here, s.event.role)


def _replace_stuck_role(here: Place, role: str) -> Place:
    stuck, before = here.stuck, here.before
    if stuck is not None and stuck.phase is Phase.DOER:
        stuck = stuck.model_copy(update={"role": role})
    return here.model_copy(update={"stuck": stuck, "before": before and _replace_stuck_role(before, role)})


def always(s: Situation) -> bool:
    return True


def needs_review(s: Situation) -> bool:
    return s.is_reviewed


def needs_confirmation(s: Situation) -> bool:
    return s.event.unsure and not s.is_reviewed


def can_pass(s: Situation) -> bool:
    return not s.event.unsure and not s.is_reviewed


def needs_confirmed_review(s: Situation) -> bool:
    return not s.event.blocked and (s.event.unsure or s.spec.approval is Approval.EACH)


def has_passed_review(s: Situation) -> bool:
    return not s.event.blocked and not needs_confirmed_review(s)


def has_failed_review(s: Situation) -> bool:
    return s.event.blocked and s.attempts_left


def has_failed_last_review(s: Situation) -> bool:
    return s.event.blocked and not s.attempts_left


def can_override(s: Situation) -> bool:
    """Whether a review blocks the job, and not the doer or a call in doubt."""
    stuck = s.here.stuck
    if stuck is not None:
        return stuck.phase is Phase.REVIEWER and stuck.kind is not StuckKind.IN_DOUBT
    return s.here.status is Status.REVIEW_REQUIRED or s.event.sent_back


def has_work(s: Situation) -> bool:
    return bool(s.spec.prompt) or s.spec.workflow is not None


def is_awaiting(*kinds: str) -> Guard:
    return lambda s: s.here.awaiting in kinds


def has_spawn_fault(s: Situation) -> bool:
    """Whether child jobs can't be created."""
    return bool(s.here.spawns) and bool(s.event.fault)


def has_gathered(how: str) -> Guard:
    return lambda s: s.event.gathered == how


def needs_answer(s: Situation) -> bool:
    answerable = {StuckKind.AGENT, StuckKind.ATTEMPTS, StuckKind.IN_DOUBT}
    return s.here.stuck is not None and s.here.stuck.kind in answerable


def is_in_doubt(here: Place) -> bool:
    return here.stuck is not None and here.stuck.kind is StuckKind.IN_DOUBT


def can_collect_again(s: Situation) -> bool:
    """Whether the existing children are collected again instead of new ones created."""
    return _is_stuck_on_children(s) and s.event.to_step is None and not s.event.to_review


def has_no_doubt(s: Situation) -> bool:
    if can_collect_again(s) or _has_no_work_to_review(s):
        return False
    return not is_in_doubt(s.here) and s.event.doubt is None


def _has_no_work_to_review(s: Situation) -> bool:
    """Whether a review is requested, but the work of the children is not in the job yet."""
    return s.event.to_review and _is_stuck_on_children(s)


def _is_stuck_on_children(s: Situation) -> bool:
    """Whether the job is STUCK because of the results of its children."""
    return s.here.stuck is not None and s.here.stuck.kind in _STUCK_ON_CHILDREN


def is_doubt_settled(s: Situation) -> bool:
    return is_in_doubt(s.here) and s.event.doubt in DOUBTS


def has_place_before(s: Situation) -> bool:
    return s.here.before is not None


def is_limit_raised(s: Situation) -> bool:
    enough = s.here.halted_at is None or limit_value(s.spec, s.here.status) > s.here.halted_at
    return enough and has_place_before(s)


def can_merge(s: Situation) -> bool:
    return _is_mergeable(s) and s.event.fits


def has_merge_conflict(s: Situation) -> bool:
    return _is_mergeable(s) and not s.event.fits


def _is_mergeable(s: Situation) -> bool:
    """Whether the job is done except for the merge."""
    stuck = s.here.stuck
    return s.here.status is Status.SUCCESS or (stuck is not None and stuck.kind is StuckKind.MERGE)


def find_resting_place(here: Place) -> Place:
    """Return the place to which a suspended or halted job returns; the same place for other jobs."""
    return here if here.before is None else find_resting_place(here.before)


def explain_no_update(here: Place) -> str:
    """Return why the files of a job can't change at this place; "" if they can."""
    resting = find_resting_place(here)
    stuck = resting.stuck
    if resting.status is Status.WAITING or (stuck is not None and stuck.kind in _STUCK_ON_CHILDREN):
        return "its child jobs work on the older state"
    return ""


def explain_no_handover(here: Place, spec: EffectiveSpec) -> str:
    """Return why no agent can be asked next to resolve conflicts; "" if one can."""
    resting = find_resting_place(here)
    if resting.status is Status.DRAFT:
        return "the job is a DRAFT"
    if is_in_doubt(resting):
        return "it is unknown whether the last request was charged"
    step = _find_step(spec, resting.step)
    if step is not None and not _is_done_by_agent(step):
        return f"a person does the step {step.id}" if step.is_manual else f"child jobs do the step {step.id}"
    return explain_no_update(here)


def _is_done_by_agent(step: Step) -> bool:
    return not step.is_manual and step.step_type not in SPAWNING


def can_update(s: Situation) -> bool:
    return s.event.fits and not explain_no_update(s.here)


def can_hand_over_conflicts(s: Situation) -> bool:
    return not s.event.fits and not explain_no_handover(s.here, s.spec)


def renew_place(s: Situation) -> Place:
    """Return the place after the files have changed: work that was reviewed or approved has to be judged again."""
    return _renew(s.spec, s.here)


def _renew(spec: EffectiveSpec, here: Place) -> Place:
    if here.before is not None:
        return here.model_copy(update={"before": _renew(spec, here.before)})
    is_merging = here.stuck is not None and here.stuck.kind is StuckKind.MERGE
    is_done = here.status is Status.SUCCESS or is_merging
    if not is_done and here.awaiting not in ("end", "review"):
        return here
    step = _find_step(spec, here.step)
    if is_step_reviewed(spec, here.step) and (step is None or _is_done_by_agent(step)):
        return Place(status=Status.REVIEW_REQUIRED, step=here.step)
    if not is_done:
        return here
    if spec.approval is Approval.NONE:
        return Place(status=Status.SUCCESS, step=here.step)
    return Place(status=Status.APPROVAL_REQUIRED, awaiting="end", step=here.step)


def hand_over_conflicts(s: Situation) -> Place:
    """Return the place at which the doer of the step resolves the conflicts."""
    return _start_step_again(s.spec, s.here)


def _start_step_again(spec: EffectiveSpec, here: Place) -> Place:
    if here.before is not None:
        return here.model_copy(update={"before": _start_step_again(spec, here.before)})
    return _enter_step(spec, here.step)


def has_attempts_left(s: Situation) -> bool:
    return s.attempts_left


def has_no_attempts_left(s: Situation) -> bool:
    return not s.attempts_left
