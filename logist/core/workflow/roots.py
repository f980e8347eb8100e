"""The names that conditions and templates of a step may begin with."""

from __future__ import annotations

from collections.abc import Collection

from logist.core.condition import ROOTS
from logist.core.model import Step, StepType, Workflow
from logist.core.template.data import FIELDS

TASK_FIELDS = frozenset(FIELDS)
"""The fields of the task."""


def collect_roots(workflow: Workflow, more: Collection[str] = ()) -> frozenset[str]:
    """Return every root of a workflow.

    `more` are those of the workflow around it, such as its current item.
    """
    rounds = {name for step in workflow.steps for name in step.rounds}
    items = {name for step in workflow.steps for name in get_item_names(step)}
    return ROOTS | TASK_FIELDS | items | rounds | {*more}


def get_item_names(step: Step) -> frozenset[str]:
    """Return the names that a foreach chooses for its item and its numbers; none for other steps."""
    names = (step.item_variable, step.index_variable, step.number_variable)
    return frozenset(name for name in names if name and step.step_type == StepType.FOREACH)
