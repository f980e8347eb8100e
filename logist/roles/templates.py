"""What is wrong with a role's prompt template before there is data."""

from __future__ import annotations

from logist.core import template
from logist.core.prompt import role_template
from logist.core.template import data
from logist.core.text.problem import WorkflowProblem

KNOWN = frozenset(
    {*role_template.NAMES, *data.FIELDS, "input", "output", "steps", "parentId", "aggregatedResults"}
)
"""The names that a role's template may begin with."""


def template_problems(text: str) -> list[WorkflowProblem]:
    """Errors for blocks and actions that can't be read, warnings for names that nothing stands for."""
    return template.problems(text, KNOWN)
