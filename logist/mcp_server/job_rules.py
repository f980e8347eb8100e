"""The rules of every job that an agent creates or starts through the MCP server.

The agent that asks for a job must not be the one that accepts it. So the work is reviewed, a person approves it at the
end, nothing is merged by itself, and a limit that a person set bounds its cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from logist.config.settings import DEFAULT, LoadedSettings, can_merge_automatically, choose_approval
from logist.core.model import Approval, EffectiveSpec, JobSpec, StepType, Workflow
from logist.errors import InvalidFile, Refused

COST_LIMIT = "limits.cost_threshold"


def require_cost_limit(loaded: LoadedSettings) -> None:
    """Raise Refused if no person has set a cost limit for jobs."""
    if loaded.sources.get(COST_LIMIT, DEFAULT) == DEFAULT:
        fix = f"a person must set one, in US cents: logist config set {COST_LIMIT} 200"
        raise Refused(f"the config sets no cost limit for jobs ({COST_LIMIT})", fix=fix)


def restrict_spec(loaded: LoadedSettings, spec: JobSpec) -> JobSpec:
    """Return the spec of a new job with the rules in it, whatever the config and its review mode say."""
    settings = loaded.settings
    is_each = choose_approval(settings) is Approval.EACH
    kept = {
        "review": True,
        "approval": Approval.EACH if is_each else Approval.END,
        "auto_merge": False,
        "review_mode": "normal" if settings.review.mode == "yolo" else None,
    }
    return spec.model_copy(update=kept)


def require_reviewed_steps(flow: Workflow | None) -> None:
    """Raise InvalidFile if an agent does a step of a workflow without a review."""
    unreviewed = list(_list_unreviewed_steps(flow)) if flow else []
    if unreviewed:
        message = f"these steps have no review: {', '.join(unreviewed)}"
        raise InvalidFile(message, where="workflow", fix='add "review": true to their config blocks')


def _list_unreviewed_steps(flow: Workflow) -> Iterator[str]:
    for each in (flow, *flow.subflows.values()):
        for step in each.steps:
            has_agent = step.step_type in (StepType.TASK, StepType.FOREACH) and not step.is_manual
            if has_agent and step.subflow is None and not step.review:
                yield step.id


def require_rules(loaded: LoadedSettings, job_id: str, spec: JobSpec, effective: EffectiveSpec) -> None:
    """Raise Refused if a job may not be run by an agent; the fix is the command for a person."""
    broken = _find_broken_rule(loaded, spec, effective)
    if broken:
        fix = f"a person can run it: logist job run --job {job_id}"
        raise Refused(f"an agent can't run this job: {broken}", where=job_id, fix=fix)


def _find_broken_rule(loaded: LoadedSettings, spec: JobSpec, effective: EffectiveSpec) -> str | None:
    if not effective.review:
        return "its work is not reviewed"
    if effective.approval is Approval.NONE:
        return "its work needs no approval"
    if can_merge_automatically(loaded.settings, spec.auto_merge, spec.review_mode):
        return "its work is merged automatically"
    has_own_limit = "cost_threshold" in spec.limits.model_dump(exclude_none=True)
    if not has_own_limit and loaded.sources.get(COST_LIMIT, DEFAULT) == DEFAULT:
        return f"it has no cost limit that a person set ({COST_LIMIT})"
    return None
