"""The names that conditions and templates of a step may begin with."""

from __future__ import annotations

from collections.abc import Collection

from logist.core.condition import ROOTS
from logist.core.data import FIELDS
from logist.core.model import StepType, Workflow

TASK_FIELDS = frozenset(FIELDS)
"""What may be said of the task."""


def known(workflow: Workflow, more: Collection[str] = ()) -> frozenset[str]:
    """Every root of a workflow: `more` is what a workflow around it gives it, as the item it works on."""
    items = {step.item_variable for step in workflow.steps if step.step_type == StepType.FOREACH}
    return ROOTS | TASK_FIELDS | items | {*more}
