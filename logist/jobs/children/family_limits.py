"""Shared limits: each call of jobs that share a limit reserves its worst-case cost before anything is sent.

One lock covers all jobs that share a limit, and the request on disk is the reservation. If only calls in
progress prevent another one, the job waits for them. If the limit is used up, the job that owns it halts, and
with it all jobs that share it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from logist.agents.courier import shared_limits
from logist.agents.courier.reservations import build_refusal_error
from logist.agents.courier.tool_turns import AskProgress
from logist.agents.protocol import MODEL_AGENTS
from logist.core.machine import limits, steward
from logist.core.machine.limits import Halt
from logist.core.model import (
    Actor,
    EffectiveSpec,
    Interaction,
    JsonObject,
    Kind,
    State,
    Status,
)
from logist.core.money import totals
from logist.errors import Busy
from logist.jobs.base import budgets, family
from logist.jobs.base.budgets import BudgetReached
from logist.jobs.base.session import Session, open_session
from logist.jobs.children import gather
from logist.jobs.turn import agent_calls, errands, next_request, unfinished_turns
from logist.lazy_modules import load_all
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import RecordedAsk
    from logist.core.prompt.prompt import Given
    from logist.core.step.step import StepPlan
    from logist.jobs.turn.next_request import PlannedTurn
    from logist.jobs.turn.unfinished_turns import Kept
    from logist.workspace import Checkpoint, Workspace

LOOK_SECONDS = 0.2
"""Seconds between two checks while a job waits for calls of other jobs."""
HALT_SECONDS = 10.0
"""How long to wait for a command that works on the job that owns the limit."""


@dataclass(frozen=True)
class PreparedCall:
    """A call that fits into all limits, and the preparations made for it."""

    plan: StepPlan
    ask: RecordedAsk
    kept: Kept | None
    """The turns to continue from. The courier reserves the cost of each further turn; the run is reserved earlier."""
    begun: bool
    """Its request is on disk, so its worst-case cost is reserved."""


def prepare_call(
    session: Session, turn: PlannedTurn, workspace: Workspace, checkpoint: Checkpoint, setup: JsonObject
) -> PreparedCall | Halt:
    """Prepare the next call, with its worst-case cost reserved if jobs share a limit; or return the limit
    reached.

    Waits for calls of other jobs in progress. Raises Busy if only a call with an unrecorded outcome prevents
    this one. `setup`: what to record of the setup of the workspace.
    """
    given = next_request.gather_context(session, turn, workspace, checkpoint)
    has_said_so = False
    while True:
        prepared = _try_prepare_call(session, turn, given, checkpoint.commit, setup)
        if isinstance(prepared, PreparedCall) or not (prepared.calls_out or prepared.unsettled):
            return prepared
        if prepared.unsettled:
            message = (
                f"{prepared.job} has a child job whose last call is not recorded yet ({prepared.reason})"
            )
            raise Busy(message, fix="to record it: logist run")
        if not has_said_so:
            session.project.say(
                f"waiting for calls of other child jobs of {prepared.job} ({prepared.reason})"
            )
            has_said_so = True
        _wait_for_room(session, turn.spec, prepared)


def _try_prepare_call(
    session: Session, turn: PlannedTurn, given: Given, checkpoint: str, setup: JsonObject
) -> PreparedCall | Halt:
    project, spec = session.project, turn.spec
    above, job_id = spec.limits_above, session.job.id
    with shared_limits.reserve_shared_limits(
        project.jobs_dir, job_id, above, lambda: agent_calls.raise_if_stopping(session)
    ) as shared:
        # A setup, or the wait for other calls, may have taken long: the parent may have ended meanwhile.
        family.require_wanted(project, session.state, job_id)
        budget_shares = _share_budgets(session, turn)
        limits_shared = [*shared, *budget_shares.shares]
        plan = next_request.plan_request(session, turn, given, limits_shared, setup)
        if isinstance(plan, Halt):
            if refusal := budget_shares.find_refusal(plan.job, plan.needed):
                raise BudgetReached(build_refusal_error(refusal), turn.role.name)
            return plan
        ask = agent_calls.build_ask(session, spec, plan, checkpoint, limits_shared, turn.gate)
        kept_turns = (
            None
            if project.has_local_agent
            else unfinished_turns.load_kept_turns(session, spec, plan, checkpoint)
        )
        if kept_turns is None or ask.errand is not None:
            ask = _reserve_in_ledger(session, ask)
        if begun := bool(shared):
            agent_calls.raise_if_stopping(session)
            session.job.begin_exchange(1, ask.data())
    return PreparedCall(plan, ask, kept_turns, begun)


def _share_budgets(session: Session, turn: PlannedTurn) -> budgets.BudgetShares:
    after, sequence = session.position.hash, session.state.revision + 1
    return budgets.share_budgets(session, budgets.bind_ledger(session, turn.model, after, sequence))


def _reserve_in_ledger(session: Session, ask: RecordedAsk) -> RecordedAsk:
    """Reserve the worst case of the first exchange in the ledger of the project, or of all that a worker may do.

    Raises BudgetReached. If this command is killed before the request is on disk, the next one releases it.
    """
    ledger = budgets.bind_recorded(session, ask)
    if ledger is None:
        return ask
    agent_calls.raise_if_stopping(session)
    if ask.errand is not None:
        return errands.reserve_errand(session, ask, ledger)
    coming = None
    if ask.agent in MODEL_AGENTS:
        coming = AskProgress.from_exchanges(()).plan_next(ask)
    sending = coming.sending if coming is not None else None
    at = session.project.clock.now().timestamp()
    if refusal := ledger.reserve(1, ask.reserved_microcents, sending, at):
        raise BudgetReached(build_refusal_error(refusal), ask.role)
    return ask


def _wait_for_room(session: Session, spec: EffectiveSpec, halt: Halt) -> None:
    """Wait until other calls have ended and left room, or something else prevents this call."""
    project, job_id = session.project, session.job.id
    current: Halt | None = halt
    load_all()  # Logist may be upgraded meanwhile: its modules must fit each other
    while current is not None and current.calls_out:
        agent_calls.raise_if_stopping(session)
        threading.Event().wait(LOOK_SECONDS)
        shared = shared_limits.list_shared_limits(project.jobs_dir, job_id, spec.limits_above)
        current = limits.find_reached_limit_above(shared, halt.needed, halt.runs)


def halt_above(session: Session, halt: Halt) -> State | None:
    """Halt the job whose limit is used up, and record what its children have used; None if there is room again.

    Raises SetAside or Unwanted if it no longer waits for this job, Busy if another command holds it.
    """
    project = session.project
    with open_session(project, halt.job, "job step", wait=HALT_SECONDS) as above:
        if above.state.status is Status.WAITING:
            spec, changed = above.detect_spec_change()
            children_usage = gather.compute_unrecorded_usage(above)
            entry = _build_halt(above, spec, halt, children_usage)
            if entries := [*changed, *([entry] if entry else [])]:
                above.record(*entries)
            return above.state if entry else None
    family.require_wanted(project, session.state, session.job.id)
    return None


def _build_halt(
    above: Session, spec: EffectiveSpec, halt: Halt, used: gather.ChildrenUsage
) -> Interaction | None:
    """The interaction that halts a job because of what its children have
    used; None if no limit is reached.
    """
    usage = totals.add_totals([above.state.usage, used.totals])
    halt_reached = limits.find_reached_limit(spec, usage, halt.needed, halt.runs)
    if halt_reached is None:
        return None
    command = used.book(halt_reached.to_command())
    after = steward.apply_command(Kind.HALT, above.state.place, command, spec)
    reason = f"{halt_reached.reason}; this includes its child jobs"
    return above.build_interaction(
        Kind.HALT, after, actor=Actor.SYSTEM, reason=reason, command=command, usage=used.usage
    )
