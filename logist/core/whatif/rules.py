"""The changed rules, and how they change a recorded spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from logist.core.history.workflow_state import ASSIGNEE
from logist.core.model import (
    Approval,
    Check,
    Doer,
    EffectiveSpec,
    JsonObject,
    Permissions,
    Step,
    StepType,
    Workflow,
)
from logist.core.review import get_checks, get_review_mode
from logist.core.whatif.keys import check_of
from logist.quick_dataclass import dataclass

BROUGHT: dict[Literal["strict", "normal", "yolo"], Approval] = {
    "strict": Approval.EACH,
    "normal": Approval.END,
    "yolo": Approval.NONE,
}
"""The approval that comes with each review mode."""
_LIMITS = "limits."
_OWN = {"review.enabled": "review", "approval": "approval", "on_doubt": "on_doubt"}
"""Keys that set a field of the spec directly."""
_OF_THE_WHOLE = frozenset(
    {
        *("limits.cost_threshold", "limits.time_threshold_minutes", "limits.max_allowed_iterations"),
        *("approval", "review.auto_merge"),
    }
)
"""Keys that don't apply to a child job: its parent has the limits for both, and is approved and merged."""


@dataclass(frozen=True)
class ChangedRules:
    """The rules to apply; except for the schema, what is not set stays as recorded."""

    schema: JsonObject
    """Of the exit command."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values by key, as `read_settings` returns them."""
    workflow: Workflow | None = None
    """Replaces the workflow of that name in all jobs that follow it."""
    permissions: Mapping[str, Permissions] = field(default_factory=dict)
    """By role."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """sha256 of each role with a changed file, by name."""
    today: JsonObject | None = None
    """The current schema, if another one is tried."""

    def unchanged(self) -> ChangedRules:
        """Return the rules without any changes."""
        return ChangedRules(self.schema if self.today is None else self.today)

    def spec(self, recorded: EffectiveSpec) -> EffectiveSpec:
        """Return the recorded spec as it would have been under these rules."""
        changes = {**self._set(recorded), **self._flow(recorded)}
        return recorded.model_copy(update=changes) if changes else recorded

    def _set(self, recorded: EffectiveSpec) -> dict[str, Any]:
        part = recorded.parent is not None
        given = {key: value for key, value in self.settings.items() if not (part and key in _OF_THE_WHOLE)}
        changes: dict[str, Any] = {_OWN[key]: value for key, value in given.items() if key in _OWN}
        limits = {key.removeprefix(_LIMITS): value for key, value in given.items() if key.startswith(_LIMITS)}
        if limits:
            changes["limits"] = recorded.limits.model_copy(update=limits)
        if "review.mode" in given:
            changes = {**_mode(recorded, given["review.mode"]), **changes}
        if "review.auto_merge" in given:
            changes["auto_merge"] = True if given["review.auto_merge"] else None
        if "response_format" in given:
            changes["response_format"] = None if given["response_format"] == "json" else "sections"
        checks = _checks(recorded, given)
        return {**changes, "checks": checks} if checks is not None else changes

    def _flow(self, recorded: EffectiveSpec) -> dict[str, Any]:
        if self.workflow is None or recorded.workflow is None:
            return {}
        flow = replaced(recorded.workflow, self.workflow, is_part=recorded.parent is not None)
        if flow is recorded.workflow:
            return {}
        doers = {
            step.id: _doer(recorded, step, step.role)
            for step in flow.steps
            if step.role and not step.has_role_template
        }
        return {"workflow": flow, "doers": doers}


def _doer(recorded: EffectiveSpec, step: Step, role: str) -> Doer:
    known = (recorded.doers or {}).get(step.id)
    if known is not None and known.role == role:
        return known
    return Doer(role=role, source=ASSIGNEE if step.is_manual and role not in recorded.roles else "step")


def _mode(recorded: EffectiveSpec, mode: Literal["strict", "normal", "yolo"]) -> dict[str, Any]:
    """Return the changes for a review mode.

    Approval and merge change too if they were those of the recorded mode.
    """
    before = get_review_mode(recorded)
    changes: dict[str, Any] = {"review_mode": None if mode == "normal" else mode}
    if recorded.parent is not None:
        return changes
    if recorded.approval == BROUGHT[before]:
        changes["approval"] = BROUGHT[mode]
    if mode != before and bool(recorded.auto_merge) == (before == "yolo"):
        changes["auto_merge"] = True if mode == "yolo" else None
    return changes


def _checks(recorded: EffectiveSpec, given: Mapping[str, Any]) -> dict[str, Check] | None:
    checks = dict(get_checks(recorded))
    changed = False
    for key, value in given.items():
        if about := check_of(key):
            name, field_name = about
            checks[name] = checks.get(name, Check()).model_copy(update={field_name: value})
            changed = True
    return checks if changed else None


def replaced(flow: Workflow, other: Workflow, *, is_part: bool) -> Workflow:
    """Return `flow` with `other` in place of the workflow of that name, outermost or nested, if there is one.

    `is_part`: it is a child job, which may do a single step of a workflow.
    """
    if flow.name == other.name:
        alone = flow.steps[0] if is_part and len(flow.steps) == 1 and flow.steps[0].rendered else None
        return other if alone is None else _part(flow, alone, other)
    if other.name not in flow.subflows:
        return flow
    bare = other.model_copy(update={"subflows": {}})
    return flow.model_copy(update={"subflows": {**flow.subflows, **other.subflows, other.name: bare}})


def _part(flow: Workflow, alone: Step, other: Workflow) -> Workflow:
    """Return the single step of a child job as the other workflow defines it."""
    step = other.find_step(alone.id)
    if step is None:
        return flow
    given = {
        "step_type": StepType.TASK,
        "prompt": alone.prompt,
        "rendered": True,
        "when": None,
        "confirm": False,
        "items_path": None,
        **({"role": alone.role} if step.has_role_template else {}),
    }
    return flow.model_copy(update={"steps": (step.model_copy(update=given),)})
