"""What a command on a job comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

from logist.core import advice, plans
from logist.core.machine import next_command
from logist.core.model import Interaction, State, Status


@dataclass(frozen=True)
class Result:
    """Where a job stands after a command, and what the command recorded."""

    job_id: str
    state: State
    entries: tuple[Interaction, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    exit_code: int = field(default=0)

    @property
    def next_command(self) -> str:
        state = self.state
        unmerged = advice.is_unmerged(state.source, state.parent, state.merge)
        if state.status is Status.SUCCESS and unmerged:
            return advice.next_command(state.status, job=self.job_id, unmerged=True)
        plan = state.plan
        if plan is not None and state.status is Status.APPROVAL_REQUIRED and not plan.approved:
            return advice.next_command(
                state.status,
                job=self.job_id,
                awaiting=state.awaiting,
                plan=plans.is_plan(plan.output),
                carrier=plans.carrier(plan.role, approved=plan.approved, doer=state.agent_role),
            )
        return next_command(state.place(), self.job_id)
