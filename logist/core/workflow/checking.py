"""Check a workflow before any job follows it, and report all its problems at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from logist.core import template
from logist.core.condition import ROOTS, ConditionError, compile_condition
from logist.core.model import Step, StepType, Workflow
from logist.core.text import paths
from logist.core.text.ids import is_job_id
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow import graph_checks, roots
from logist.core.workflow.delegating import Delegates, check_delegation
from logist.core.workflow.limit_checks import Allowance, check_limits, check_size
from logist.core.workflow.nesting import Find, Nested, find_nested_workflows, find_subflow_steps
from logist.core.workflow.places import Place, Places, make_problem, suggest_name
from logist.quick_dataclass import dataclass


@dataclass(frozen=True)
class Around:
    """What a workflow is checked against."""

    roles: Collection[str] | None = None
    """The names of all roles; None if they are not known."""
    delegates: Delegates | None = None
    """The roles that a role may delegate to, by its name; a role without an entry may delegate to any."""
    job_role: str | None = None
    """The role of steps that name none."""
    find: Find | None = None
    """Finds other workflows; without it, only workflows within this one are found."""
    roots: Collection[str] = ()
    """More names that templates and conditions may use."""
    allowance: Allowance | None = None
    """What a job may use; None if that is not known."""


def check_workflow(
    workflow: Workflow, around: Around | None = None, places: Places | None = None
) -> list[WorkflowProblem]:
    """Return every problem of a workflow, and the errors of those within it, in the order of its steps if
    possible.
    """
    around, places = around or Around(), places or Places()
    inside = find_nested_workflows(workflow, around.find, places)
    problems = [
        *_check_alone(workflow, around, places),
        *inside.problems,
        *check_delegation(workflow, inside.subflows, around.delegates or {}, around.job_role, places),
        *_check_nested(workflow, inside, around, places),
    ]
    if around.allowance is not None:
        problems += check_size(workflow, inside.subflows, around.allowance, places)
    if around.allowance is not None and not any(each.severity == "error" for each in problems):
        problems += check_limits(workflow, inside.subflows, around.allowance, places)
    return list(dict.fromkeys(problems))


def _check_alone(workflow: Workflow, around: Around, places: Places) -> Iterator[WorkflowProblem]:
    """Yield the problems of the workflow itself, without those of the workflows within it."""
    names = roots.collect_roots(workflow, around.roots)
    yield from graph_checks.check_graph(workflow, places)
    for step in workflow.steps:
        yield from _check_fields(step, ROOTS | {*around.roots}, places)
        yield from _check_rounds(workflow, step, places)
        yield from _check_await_tag(step, places)
        yield from _check_roles(step, around, places)
        for field, form in (("when", step.when), ("confirm", step.confirm)):
            if form is not None:
                yield from _check_condition(form, names, places.locate_step(step.id, field), step.id)
        yield from _template_problems(step, names, places, lenient=workflow.foreign)
        yield from _check_input_mapping(step, names, places)
    for number, edge in enumerate(workflow.edges):
        if edge.condition is not None:
            yield from _check_condition(edge.condition, names, places.locate_edge(number), edge.source)


def _check_fields(step: Step, given: Collection[str], places: Places) -> Iterator[WorkflowProblem]:
    if step.step_type == StepType.FOREACH:
        place = places.locate_step(step.id, "itemsPath")
        if not step.items_path:
            message = f"foreach `{step.id}` has no `itemsPath`: the path of its list"
            yield make_problem("error", "missing", message, place, "for example itemsPath: output.files")
        else:
            yield from _check_path(step.items_path, step, given, place)
        yield from _check_item_names(step, places)
    yield from _check_unread_fields(step, places)
    if step.step_type == StepType.SUBFLOW and not step.subflow:
        message = f"subflow `{step.id}` has no `subflowId`: the workflow to run"
        yield make_problem("error", "missing", message, places.locate_step(step.id, "subflowId"))


def _check_item_names(step: Step, places: Places) -> Iterator[WorkflowProblem]:
    if step.item_variable in roots.TASK_FIELDS | ROOTS:
        message = f"the item can't be called `{step.item_variable}`: the name is already in use"
        yield make_problem(
            "error", "bad_name", message, places.locate_step(step.id, "itemVariable"), "call it `item`"
        )
    for field, name in (("indexVariable", step.index_variable), ("numberVariable", step.number_variable)):
        if name in roots.TASK_FIELDS | ROOTS | {step.item_variable}:
            message = f"`{field}` can't be `{name}`: the name is already in use"
            yield make_problem(
                "error", "bad_name", message, places.locate_step(step.id, field), "choose another name"
            )


def _check_rounds(workflow: Workflow, step: Step, places: Places) -> Iterator[WorkflowProblem]:
    place = places.locate_step(step.id, "rounds")
    for name, loop in step.rounds.items():
        decision = workflow.find_step(loop)
        if name in roots.TASK_FIELDS | ROOTS:
            message = f"the round of `{loop}` can't be called `{name}`: the name is already in use"
            yield make_problem("error", "bad_name", message, place, "choose another name")
        if decision is None or decision.step_type != StepType.DECISION:
            message = f"`rounds` of `{step.id}` names `{loop}`, which is not a decision"
            yield make_problem("error", "unknown_step", message, place, "name the decision that leads back")


TAG = "foreach:"
"""Prefix of the tag of a foreach's children; the id of the job that waits for them follows."""
_ACTION = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def _check_await_tag(step: Step, places: Places) -> Iterator[WorkflowProblem]:
    """Check that a job could have the tag that a join waits for.

    The result of a template is not known here.
    """
    if not step.await_tag or step.step_type != StepType.JOIN:
        return
    first = _ACTION.search(step.await_tag)
    known = step.await_tag[: first.start()] if first else step.await_tag
    fits = TAG.startswith(known) or known.startswith(TAG) if first else is_job_id(known.removeprefix(TAG))
    if not fits or (first is None and not known.startswith(TAG)):
        message = f"no job can have the tag `{step.await_tag}` that join `{step.id}` waits for"
        yield make_problem(
            "error",
            "await_tag",
            message,
            places.locate_step(step.id, "awaitTag"),
            "use foreach:{{parentId}}",
        )


_OF_A_PROMPT = {
    "prompt": "prompt",
    "agent_role": "agentRole",
    "guidance": "guidance",
    "review": "review",
    "review_role": "reviewRole",
    "response_format": "responseFormat",
    "confidence": "confidence",
}
_OF_AN_AGENT = ("review", "review_role", "response_format", "confidence", "confirm")


def _check_unread_fields(step: Step, places: Places) -> Iterator[WorkflowProblem]:
    """Warn of fields that have no effect on a step of this kind."""
    is_delegated = step.step_type in (StepType.SUBFLOW, StepType.FOREACH) and bool(step.subflow)
    unread = tuple(_OF_A_PROMPT) if is_delegated else _OF_AN_AGENT if step.is_manual else ()
    who = "the steps of its workflow define it" if is_delegated else "a person does this step"
    for field in unread:
        if getattr(step, field):
            name = _OF_A_PROMPT.get(field, field)
            message = f"`{name}` of `{step.id}` has no effect: {who}"
            yield make_problem("warning", "unread", message, places.locate_step(step.id, name), "remove it")


def _check_path(text: str, step: Step, given: Collection[str], place: Place) -> Iterator[WorkflowProblem]:
    try:
        path = paths.parse(text)
    except paths.PathError as error:
        message = f"`{text}` of step `{step.id}` is not a valid path: column {error.column}: {error.message}"
        yield make_problem("error", "bad_path", message, place)
        return
    if not path or path[0] not in given:
        known = ", ".join(sorted(given))
        message = f"`{text}` of step `{step.id}` begins with an unknown name; known names: {known}"
        yield make_problem(
            "error", "unknown_root", message, place, f"for a field of the last answer, use `output.{text}`"
        )


def _check_input_mapping(step: Step, names: Collection[str], places: Places) -> Iterator[WorkflowProblem]:
    for name, source in step.input_mapping.items():
        place = places.locate_step(step.id, "inputMapping")
        try:
            path = paths.parse(source)
        except paths.PathError as error:
            yield make_problem(
                "error", "bad_path", f"inputMapping: `{source}` is not a valid path: {error.message}", place
            )
            continue
        if not path or path[0] not in names:
            name_path = paths.scan_path(name, 0)[0][:1]
            fix = f'did you mean "{name}": "{source}"?' if name_path and name_path[0] in names else ""
            message = f"inputMapping: `{source}` begins with an unknown name"
            yield make_problem("error", "unknown_root", message, place, fix)


def _check_roles(step: Step, around: Around, places: Places) -> Iterator[WorkflowProblem]:
    if step.role and step.is_manual and step.role not in (around.roles or ()):
        yield from _check_assignee(step, step.role, places)
    for field, role in (("role", step.role), ("reviewRole", step.review_role)):
        if field == "role" and (step.is_manual or step.has_role_template):
            continue
        if role and around.roles is not None and role not in around.roles:
            place = places.locate_step(step.id, field)
            message = f"step `{step.id}` has the unknown role `{role}`"
            yield make_problem(
                "error", "unknown_role", message, place, _suggest_role(step, field, role, around.roles)
            )


def _suggest_role(step: Step, field: str, role: str, roles: Collection[str]) -> str:
    """Return what to write in place of an unknown role."""
    fix = suggest_name(role, roles)
    if field != "role" or step.step_type != StepType.TASK or fix.startswith("did"):
        return fix
    if "{{" in role:
        return "; ".join(filter(None, ("only a foreach can have a template as its role", fix)))
    return "; ".join(filter(None, (fix, "for a person, set `execution: manual`")))


LONGEST_ASSIGNEE = 128
"""The maximum length in characters."""


def _check_assignee(step: Step, name: str, places: Places) -> Iterator[WorkflowProblem]:
    """Check that listings can show the assignee of a manual step: a role, or a person who is not known here."""
    is_line = name.isprintable() and name == name.strip() and len(name) <= LONGEST_ASSIGNEE
    if is_line and "{{" not in name:
        return
    message = f"the assignee of step `{step.id}` must be one line of printable text"
    fix = f"use at most {LONGEST_ASSIGNEE} characters, no leading or trailing spaces, and no template"
    yield make_problem("error", "invalid", message, places.locate_step(step.id, "role"), fix)


def _check_condition(
    form: Any, names: Collection[str], place: Place, step_id: str
) -> Iterator[WorkflowProblem]:
    try:
        compile_condition(form, names)
    except ConditionError as error:
        text = f" `{form}`" if isinstance(form, str) and len(form) <= 100 else ""
        column = f", column {error.column}" if error.column else ""
        message = f"step `{step_id}`, condition{text}{column}: {error.message}"
        yield make_problem("error", "condition", message, place)


def _check_nested(
    workflow: Workflow, inside: Nested, around: Around, places: Places
) -> Iterator[WorkflowProblem]:
    """Report the errors of the workflows within this one, at the step that leads to them."""
    leads = _find_leading_steps(workflow, inside)
    for name, inner in inside.subflows.items():
        step = leads[name]
        inner_around = replace(
            around, roots=(*around.roots, *roots.collect_roots(workflow), *roots.get_item_names(step))
        )
        for inner_problem in _check_alone(inner, inner_around, Places()):
            if inner_problem.severity == "error":
                message = f"in the workflow `{name}`: {inner_problem.message}"
                yield make_problem(
                    "error", inner_problem.code, message, places.locate_step(step.id), inner_problem.fix
                )


def _find_leading_steps(workflow: Workflow, inside: Nested) -> dict[str, Step]:
    """Return the step of the outermost workflow that leads to each one within it."""
    leads: dict[str, Step] = {}
    for step in find_subflow_steps(workflow):
        waiting = [str(step.subflow)]
        while waiting:
            name = waiting.pop()
            if name in inside.subflows and name not in leads:
                leads[name] = step
                waiting.extend(str(child.subflow) for child in find_subflow_steps(inside.subflows[name]))
    return leads


def _template_problems(
    step: Step, names: Collection[str], places: Places, *, lenient: bool
) -> Iterator[WorkflowProblem]:
    """Yield the template problems of a prompt, of the role of each item, and of the tag that a join waits for.

    The line is that of the field; the message has the place inside it. `lenient` is for prompts that were not
    written for our templates: their problems are only warnings.
    """
    role = step.role if step.has_role_template else None
    for field, text in (("prompt", step.prompt), ("role", role or ""), ("awaitTag", step.await_tag or "")):
        path, line = places.locate_step(step.id, field)
        for found in template.find_template_problems(text, names) if "{{" in text else ():
            message = f"{field} of `{step.id}`, line {found.line}, column {found.column}: {found.message}"
            severity = "warning" if lenient else found.severity
            yield replace(found, severity=severity, message=message, path=path, line=line, column=None)
