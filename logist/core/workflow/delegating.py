"""Check that roles delegate only to roles in their `can_delegate_to_roles`, however deep the work is nested."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping

from logist.core.model import Step, StepType, Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.places import Place, Places, make_problem

Delegates = Mapping[str, Collection[str]]
"""The roles that a role may delegate to, by its name; a role without an entry may delegate to any."""

_GIVEN_AWAY = frozenset({StepType.FOREACH, StepType.SUBFLOW})
"""Steps that child jobs do."""


def check_delegation(
    workflow: Workflow,
    subflows: Mapping[str, Workflow],
    delegates: Delegates,
    job_role: str | None,
    places: Places,
) -> Iterator[WorkflowProblem]:
    """Report every role that would get work from a role that may not give it, at the outermost step that
    leads there.

    A job gives work in its own role. The job that gets a step has the role of the step, or else the role of
    the job that gives it; roles that items name are checked once the items are known. Without `job_role`,
    only the roles that steps name are known to give work.
    """
    roles = {name: _collect_roles(inner) for name, inner in subflows.items()}
    seen: set[tuple[str, str | None]] = set()
    for outer in _find_delegated_steps(workflow):
        place = places.locate_step(outer.id)
        if outer.role and not outer.has_role_template:
            yield from _check_targets(delegates, job_role, {outer.role}, outer, place)
        ways = deque([("", outer, _get_receiver(outer, job_role))])
        while ways:
            holder, step, doer = ways.popleft()
            name = step.subflow or ""
            if name not in subflows:
                continue
            yield from _check_targets(delegates, doer, roles[name], step, place, holder)
            bound = (
                doer if doer in delegates else None
            )  # further in, roles without restrictions are all the same
            if (name, bound) not in seen:
                seen.add((name, bound))
                ways += [
                    (name, each, _get_receiver(each, bound)) for each in _find_delegated_steps(subflows[name])
                ]


def _find_delegated_steps(workflow: Workflow) -> Iterator[Step]:
    """Yield the steps that other jobs do."""
    return (step for step in workflow.steps if step.step_type in _GIVEN_AWAY)


def _get_receiver(step: Step, giver: str | None) -> str | None:
    """Return the role of the jobs that get the step; None if only the items will tell."""
    return None if step.has_role_template else step.role or giver


def _collect_roles(workflow: Workflow) -> frozenset[str]:
    """Return the roles that its steps name."""
    return frozenset(role for step in workflow.steps for role in step.agent_roles)


def _check_targets(
    delegates: Delegates,
    giver: str | None,
    targets: Collection[str],
    step: Step,
    place: Place,
    holder: str = "",
) -> Iterator[WorkflowProblem]:
    if giver is None or giver not in delegates:
        return
    for target in sorted({*targets} - {*delegates[giver], giver}):
        within = f"in the workflow `{holder}`: " if holder else ""
        listed = ", ".join(sorted(delegates[giver])) or "none"
        rule = f"the role `{giver}` may not delegate work to `{target}`; allowed roles: {listed}"
        fix = f"add it to can_delegate_to_roles of `{giver}`, or use another role"
        yield make_problem("error", "delegation", f"{within}step `{step.id}`: {rule}", place, fix)
