"""Everything that is wrong with a workflow before any job follows it: all of it, in one go."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from logist.core import template
from logist.core.condition import ROOTS, ConditionError, compile_condition
from logist.core.model import Step, StepType, Workflow
from logist.core.text import paths
from logist.core.text.ids import is_job_id
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow import graph_checks, roots
from logist.core.workflow.delegating import Delegates, delegation_problems
from logist.core.workflow.limit_checks import Allowance, limit_problems
from logist.core.workflow.nesting import Find, Nested, named, nested
from logist.core.workflow.places import Place, Places, meant, problem


@dataclass(frozen=True)
class Around:
    """What a workflow is checked against."""

    roles: Collection[str] | None = None
    """The names of all roles; None if they are not known."""
    delegates: Delegates | None = None
    """The roles that a role may give work to, by its name; one that is not there may give it to any."""
    job_role: str | None = None
    """Whose steps name no role."""
    find: Find | None = None
    """Looks for other workflows; None finds only those within this one."""
    roots: Collection[str] = ()
    """Names that templates and conditions know besides the usual ones."""
    allowance: Allowance | None = None
    """What a job may use; None if that is not known."""


def check(
    workflow: Workflow, around: Around | None = None, places: Places | None = None
) -> list[WorkflowProblem]:
    """Every problem of a workflow, and the errors of those within it; in the order of its steps where they have one."""
    around, places = around or Around(), places or Places()
    inside = nested(workflow, around.find, places)
    found = [
        *_own(workflow, around, places),
        *inside.problems,
        *delegation_problems(workflow, inside.subflows, around.delegates or {}, around.job_role, places),
        *_within(workflow, inside, around, places),
    ]
    if around.allowance is not None and not any(each.severity == "error" for each in found):
        found += limit_problems(workflow, inside.subflows, around.allowance, places)
    return list(dict.fromkeys(found))


def _own(workflow: Workflow, around: Around, places: Places) -> Iterator[WorkflowProblem]:
    """What can be said of it alone."""
    names = roots.known(workflow, around.roots)
    yield from graph_checks.graph_problems(workflow, places)
    for step in workflow.steps:
        yield from _fields(step, ROOTS | {*around.roots}, places)
        yield from _rounds(workflow, step, places)
        yield from _await_tag(step, places)
        yield from _roles(step, around, places)
        for field, form in (("when", step.when), ("confirm", step.confirm)):
            if form is not None:
                yield from _condition(form, names, places.of(step.id, field), step.id)
        yield from _template_problems(step, names, places, lenient=workflow.foreign)
        yield from _mapping(step, names, places)
    for number, edge in enumerate(workflow.edges):
        if edge.condition is not None:
            yield from _condition(edge.condition, names, places.edge(number), edge.source)


def _fields(step: Step, given: Collection[str], places: Places) -> Iterator[WorkflowProblem]:
    if step.step_type == StepType.FOREACH:
        place = places.of(step.id, "itemsPath")
        if not step.items_path:
            message = f"foreach `{step.id}` has no `itemsPath`: it has to say where its list is"
            yield problem("error", "missing", message, place, "as in itemsPath: output.files")
        else:
            yield from _path(step.items_path, step, given, place)
        yield from _names_of_item(step, places)
    yield from _unread(step, places)
    if step.step_type == StepType.SUBFLOW and not step.subflow:
        message = f"subflow `{step.id}` has no `subflowId`: it has to name another workflow"
        yield problem("error", "missing", message, places.of(step.id, "subflowId"))


def _names_of_item(step: Step, places: Places) -> Iterator[WorkflowProblem]:
    if step.item_variable in roots.TASK_FIELDS | ROOTS:
        message = f"the item can't be called `{step.item_variable}`: that name means something else"
        yield problem("error", "bad_name", message, places.of(step.id, "itemVariable"), "call it `item`")
    for field, name in (("indexVariable", step.index_variable), ("numberVariable", step.number_variable)):
        if name in roots.TASK_FIELDS | ROOTS | {step.item_variable}:
            message = f"`{field}` can't be `{name}`: that name means something else"
            yield problem("error", "bad_name", message, places.of(step.id, field), "choose another name")


def _rounds(workflow: Workflow, step: Step, places: Places) -> Iterator[WorkflowProblem]:
    place = places.of(step.id, "rounds")
    for name, loop in step.rounds.items():
        decision = workflow.step(loop)
        if name in roots.TASK_FIELDS | ROOTS:
            message = f"the round of `{loop}` can't be called `{name}`: that name means something else"
            yield problem("error", "bad_name", message, place, "choose another name")
        if decision is None or decision.step_type != StepType.DECISION:
            message = f"`rounds` of `{step.id}` names `{loop}`, which is no decision"
            yield problem("error", "unknown_step", message, place, "name the decision that leads back")


TAG = "foreach:"
"""What the tag of a foreach's children begins with; the id of the job that waits for them follows."""
_ACTION = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def _await_tag(step: Step, places: Places) -> Iterator[WorkflowProblem]:
    """Whether a job could have the tag that a join waits for; what a template becomes is not known here."""
    if not step.await_tag or step.step_type != StepType.JOIN:
        return
    first = _ACTION.search(step.await_tag)
    known = step.await_tag[: first.start()] if first else step.await_tag
    fits = TAG.startswith(known) or known.startswith(TAG) if first else is_job_id(known.removeprefix(TAG))
    if not fits or (first is None and not known.startswith(TAG)):
        message = f"no job has the tag `{step.await_tag}` that join `{step.id}` waits for"
        yield problem(
            "error", "await_tag", message, places.of(step.id, "awaitTag"), "write foreach:{{parentId}}"
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


def _unread(step: Step, places: Places) -> Iterator[WorkflowProblem]:
    """Fields that say something, and that nobody reads at a step of this kind."""
    given = step.step_type in (StepType.SUBFLOW, StepType.FOREACH) and bool(step.subflow)
    unread = tuple(_OF_A_PROMPT) if given else _OF_AN_AGENT if step.is_manual else ()
    who = "the steps of its workflow say that" if given else "a person does this step"
    for field in unread:
        if getattr(step, field):
            name = _OF_A_PROMPT.get(field, field)
            message = f"`{name}` of `{step.id}` is not read: {who}"
            yield problem("warning", "unread", message, places.of(step.id, name), "remove it")


def _path(text: str, step: Step, given: Collection[str], place: Place) -> Iterator[WorkflowProblem]:
    try:
        path = paths.parse(text)
    except paths.PathError as error:
        message = f"`{text}` of step `{step.id}` is no path: column {error.column}: {error.message}"
        yield problem("error", "bad_path", message, place)
        return
    if not path or path[0] not in given:
        known = ", ".join(sorted(given))
        message = f"`{text}` of step `{step.id}` begins with nothing that is known: {known}"
        yield problem(
            "error", "unknown_root", message, place, f"a field of the last answer is `output.{text}`"
        )


def _mapping(step: Step, names: Collection[str], places: Places) -> Iterator[WorkflowProblem]:
    for name, source in step.input_mapping.items():
        place = places.of(step.id, "inputMapping")
        try:
            path = paths.parse(source)
        except paths.PathError as error:
            yield problem("error", "bad_path", f"inputMapping: `{source}` is no path: {error.message}", place)
            continue
        if not path or path[0] not in names:
            turned = paths.scan(name, 0)[0][:1]
            fix = f'the other way round? "{name}": "{source}"' if turned and turned[0] in names else ""
            message = f"inputMapping: `{source}` begins with nothing that is known"
            yield problem("error", "unknown_root", message, place, fix)


def _roles(step: Step, around: Around, places: Places) -> Iterator[WorkflowProblem]:
    if step.role and step.is_manual and step.role not in (around.roles or ()):
        yield from _assignee(step, step.role, places)
    for field, role in (("role", step.role), ("reviewRole", step.review_role)):
        if field == "role" and (step.is_manual or step.has_role_template):
            continue
        if role and around.roles is not None and role not in around.roles:
            place = places.of(step.id, field)
            message = f"step `{step.id}` names the role `{role}`, which nobody knows"
            yield problem("error", "unknown_role", message, place, _known(step, field, role, around.roles))


def _known(step: Step, field: str, role: str, roles: Collection[str]) -> str:
    """What to write in place of a role that nobody knows."""
    fix = meant(role, roles)
    if field != "role" or step.step_type != StepType.TASK or fix.startswith("did"):
        return fix
    if "{{" in role:
        return "; ".join(filter(None, ("only a foreach can have a template there", fix)))
    return "; ".join(filter(None, (fix, "a person needs `execution: manual`")))


LONGEST_ASSIGNEE = 128
"""Characters."""


def _assignee(step: Step, name: str, places: Places) -> Iterator[WorkflowProblem]:
    """Whether listings can show whom a manual step names: a role, or a person, whose name nobody knows here."""
    is_line = name.isprintable() and name == name.strip() and len(name) <= LONGEST_ASSIGNEE
    if is_line and "{{" not in name:
        return
    message = f"the assignee of step `{step.id}` is no name: it has to be one line of printable text"
    fix = f"at most {LONGEST_ASSIGNEE} characters, without spaces around it, and no template"
    yield problem("error", "invalid", message, places.of(step.id, "role"), fix)


def _condition(form: Any, names: Collection[str], place: Place, step_id: str) -> Iterator[WorkflowProblem]:
    try:
        compile_condition(form, names)
    except ConditionError as error:
        text = f" `{form}`" if isinstance(form, str) and len(form) <= 100 else ""
        column = f", column {error.column}" if error.column else ""
        message = f"step `{step_id}`, condition{text}{column}: {error.message}"
        yield problem("error", "condition", message, place)


def _within(workflow: Workflow, inside: Nested, around: Around, places: Places) -> Iterator[WorkflowProblem]:
    """The errors of the workflows within this one, at the step that leads to them."""
    leads = _leading(workflow, inside)
    for name, inner in inside.subflows.items():
        step = leads[name]
        given = replace(around, roots=(*around.roots, *roots.known(workflow), *roots.of_item(step)))
        for found in _own(inner, given, Places()):
            if found.severity == "error":
                message = f"in the workflow `{name}`: {found.message}"
                yield problem("error", found.code, message, places.of(step.id), found.fix)


def _leading(workflow: Workflow, inside: Nested) -> dict[str, Step]:
    """The step of the outermost workflow that leads to each one within it."""
    leads: dict[str, Step] = {}
    for step in named(workflow):
        waiting = [str(step.subflow)]
        while waiting:
            name = waiting.pop()
            if name in inside.subflows and name not in leads:
                leads[name] = step
                waiting.extend(str(child.subflow) for child in named(inside.subflows[name]))
    return leads


def _template_problems(
    step: Step, names: Collection[str], places: Places, *, lenient: bool
) -> Iterator[WorkflowProblem]:
    """What is wrong with its prompt, the role of each item, and the tag that a join waits for; the line is the field's, the place inside stands in the message.

    `lenient` is for prompts that were not written for our templates: nothing in them is an error.
    """
    role = step.role if step.has_role_template else None
    for field, text in (("prompt", step.prompt), ("role", role or ""), ("awaitTag", step.await_tag or "")):
        path, line = places.of(step.id, field)
        for found in template.problems(text, names) if "{{" in text else ():
            message = f"{field} of `{step.id}`, line {found.line}, column {found.column}: {found.message}"
            severity = "warning" if lenient else found.severity
            yield replace(found, severity=severity, message=message, path=path, line=line, column=None)
