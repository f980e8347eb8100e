"""Check that the branches of a decision are the same in the diagram and in its config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logist.core.condition import render_condition
from logist.core.model import END
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.form import BranchForm, StepForm
from logist.core.workflow.places import Place, make_problem
from logist.core.workflow.shapes import is_default_word

Way = tuple[str, str | None]
"""The target of an edge, and its label."""


def match_branches(
    step_id: str, ways: Sequence[Way], form: StepForm, place: Place
) -> tuple[list[Any], list[WorkflowProblem]]:
    """Return the condition of every edge, from the config if it has one, and the problems where the two
    disagree.
    """
    branches = [*(form.branches or ())]
    if form.default_branch is not None and all(branch.condition is not None for branch in branches):
        branches.append(BranchForm(condition=None, target_step_id=form.default_branch))
    problems: list[WorkflowProblem] = []

    def report_difference(message: str) -> None:
        fix = "remove the branches from the config: the diagram defines them"
        problems.append(make_problem("error", "disagree", f"decision `{step_id}`: {message}", place, fix))

    conditions: list[Any] = []
    unmatched_branches = list(branches)
    for target, label in ways:
        matching_branch = next(
            (branch for branch in unmatched_branches if _is_branch_of_edge(branch, target, label)), None
        )
        if matching_branch is None:
            label_text = f" labeled `{label}`" if label else ""
            if form.branches is not None:
                report_difference(
                    f"the diagram has an edge to `{target or 'the end'}`{label_text}, but the config has no such branch"
                )
            conditions.append(None if label is None or is_default_word(label) else label)
            continue
        unmatched_branches.remove(matching_branch)
        conditions.append(matching_branch.condition)
    for branch in unmatched_branches:
        condition = render_condition(branch.condition)
        report_difference(
            f"the config has a branch to `{branch.target_step_id}` with the condition `{condition}`, but the diagram has no such edge"
        )
    diagram_conditions = [condition for condition in conditions if condition is not None]
    config_conditions = [branch.condition for branch in branches if branch.condition is not None]
    if form.branches is not None and not problems and diagram_conditions != config_conditions:
        report_difference("the branches are in a different order in the config and in the diagram")
    return conditions, problems


def _is_branch_of_edge(branch: BranchForm, target: str, label: str | None) -> bool:
    """Whether the branch is this edge: same target, and same condition or a label that is only a caption."""
    wanted = END if branch.target_step_id == "end" else branch.target_step_id
    if wanted != target and branch.target_step_id != target:
        return False
    if branch.condition is None:
        return label is None or is_default_word(label)
    if label is None:
        return True
    return (
        _remove_whitespace(label) == _remove_whitespace(render_condition(branch.condition))
        or label.replace(" ", "").isalpha()
    )


def _remove_whitespace(text: str) -> str:
    return "".join(text.split())
