"""Warn the author of a valid workflow about possible mistakes: no warning stops a job."""

from __future__ import annotations

from collections.abc import Iterator

from logist.core.model import Step, StepType, Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.mixed import MENTION, find_leading_role
from logist.core.workflow.places import Places, make_problem


def lint_workflow(workflow: Workflow, places: Places | None = None) -> list[WorkflowProblem]:
    """Return the warnings about its steps and the steps of its loops, without the problems found while
    reading it.
    """
    places = places or Places()
    warnings = [problem for step in workflow.steps for problem in _lint_step(step, places)]
    for inner in workflow.subflows.values():
        warnings += [problem for step in inner.steps for problem in _lint_step(step, places)]
    return warnings


def _lint_step(step: Step, places: Places) -> Iterator[WorkflowProblem]:
    if MENTION.search(step.prompt):
        message = f"the prompt of `{step.id}` contains the role of the agent"
        leads = find_leading_role(step.prompt) is not None
        fix = "move it to agentRole" + (": logist workflow migrate" if leads else " by hand")
        yield make_problem("warning", "mixed_prompt", message, places.locate_step(step.id, "prompt"), fix)
    if not step.prompt.strip() and _is_asked(step):
        message = f"`{step.id}` has no prompt: its agent gets only the task and the name `{step.name}`"
        yield make_problem(
            "warning", "no_prompt", message, places.locate_step(step.id), "describe what to do"
        )
    if "." in step.id:
        message = f'the id `{step.id}` contains a dot, so its output is read as `steps["{step.id}"].output`'
        yield make_problem("warning", "dotted_id", message, places.locate_step(step.id, "id"))
    if step.agent_role and step.is_manual:
        message = f"agentRole of `{step.id}` has no effect: a person does this step"
        yield make_problem("warning", "no_effect", message, places.locate_step(step.id, "agentRole"))


def _is_asked(step: Step) -> bool:
    """Whether an agent or a person gets the prompt of the step."""
    return step.step_type != StepType.DECISION and not step.subflow
