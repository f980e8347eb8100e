"""The export of a workflow, version 2.0: its diagram, its steps, and the agents that do them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from logist.core.model import JsonObject, Role, Step, StepType, Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow import drawing
from logist.core.workflow.form import StepForm
from logist.core.workflow.listed import read_listed
from logist.core.workflow.parsing import read_mermaid
from logist.core.workflow.places import Place, Places, Read, problem
from logist.core.workflow.spelling import spelled
from logist.core.workflow.steps import read_step
from logist.core.workflow.written import written

VERSION = "2.0"


def exported(workflow: Workflow, roles: Mapping[str, Role], time: str) -> JsonObject:
    """The workflow as a document: `time` as YYYY-MM-DDTHH:MM:SSZ. Importing it gives an equal workflow."""
    named = dict.fromkeys(name for name in _named(workflow) if name in roles)
    return {
        "workflow": _workflow(workflow),
        "agents": [_agent(roles[name]) for name in named],
        "exportVersion": VERSION,
        "exportedAt": time,
    }


def is_export(data: JsonObject) -> bool:
    """Whether a document is an export."""
    return isinstance(data.get("workflow"), dict)


def imported(data: JsonObject, lines: Mapping[str, int], name: str) -> Read:
    """The workflow of an export. Its diagram says what it is; a step that says something else is reported."""
    return _imported(data["workflow"], lines, name, "workflow", _version(data, lines))


def agents(data: JsonObject) -> list[JsonObject]:
    """The agents of an export that are complete: `id`, `displayName`, `agentPrompt`."""
    found = data.get("agents")
    fields = ("id", "displayName", "agentPrompt")
    return [
        {field: agent[field] for field in fields}
        for agent in (found if isinstance(found, list) else [])
        if isinstance(agent, dict) and all(isinstance(agent.get(field), str) for field in fields)
    ]


def _workflow(workflow: Workflow) -> JsonObject:
    data: JsonObject = {
        "name": workflow.name,
        "description": workflow.description,
        "mermaidSource": drawing.source(workflow),
        "steps": [_step(step, workflow) for step in workflow.steps],
    }
    if workflow.foreign:
        data["foreign"] = True
    if workflow.subflows:
        data["subflows"] = {name: _workflow(inner) for name, inner in workflow.subflows.items()}
    return data


def _step(step: Step, workflow: Workflow) -> JsonObject:
    data = written(step)
    if step.step_type == StepType.DECISION:
        data["branches"] = [
            {"condition": edge.condition, "targetStepId": edge.target or "end"}
            for edge in workflow.leaving(step.id)
        ]
    return data


def _named(workflow: Workflow) -> Iterator[str]:
    for step in workflow.steps:
        yield from (name for name in (step.role, step.review_role) if name)
    for inner in workflow.subflows.values():
        yield from _named(inner)


def _agent(role: Role) -> JsonObject:
    return {"id": role.name, "displayName": role.name, "agentPrompt": role.instructions}


def _version(data: JsonObject, lines: Mapping[str, int]) -> tuple[WorkflowProblem, ...]:
    version = data.get("exportVersion", VERSION)
    if version == VERSION:
        return ()
    message = f"exportVersion is {version!r}; this Logist knows {VERSION} and reads it as that"
    return (problem("warning", "version", message, ("exportVersion", lines.get("exportVersion"))),)


def _imported(
    data: Any, lines: Mapping[str, int], name: str, at: str, before: tuple[WorkflowProblem, ...] = ()
) -> Read:
    if not isinstance(data, dict):
        return Read(
            name, None, (problem("error", "invalid", f"`{at}` must be a mapping", (at, lines.get(at))),)
        )
    text = data.get("mermaidSource")
    if not isinstance(text, str) or not text.strip():
        read = read_listed(data, lines, name, at)
        return Read(read.name, read.workflow, (*before, *read.problems), read.places)
    title, description = (
        data.get(key) if isinstance(data.get(key), str) else "" for key in ("name", "description")
    )
    read = read_mermaid(text, title or name, description or "")[0]
    problems = [*before, *_inside(read.problems, at, lines)]
    workflow = read.workflow
    if workflow is not None:
        problems += _differences(data.get("steps"), workflow, lines, f"{at}.steps")
        subflows, found = _subflows(data.get("subflows"), lines, f"{at}.subflows")
        problems += found
        workflow = workflow.model_copy(
            update={
                "name": title or workflow.name,
                "subflows": subflows,
                "foreign": data.get("foreign") is True,
            }
        )
    return Read(title or read.name, workflow, tuple(problems), _source_places(read.places, lines, at))


def _inside(problems: Sequence[WorkflowProblem], at: str, lines: Mapping[str, int]) -> list[WorkflowProblem]:
    """The diagram is one text of the document: its own lines are named in the path."""
    line = lines.get(f"{at}.mermaidSource")
    return [
        WorkflowProblem(
            found.severity,
            found.code,
            found.message,
            f"{at}.mermaidSource{f', line {found.line} of it' if found.line else ''}: {found.path}".rstrip(
                ": "
            ),
            line,
            None,
            found.fix,
        )
        for found in problems
    ]


def _source_places(places: Places, lines: Mapping[str, int], at: str) -> Places:
    line = lines.get(f"{at}.mermaidSource", 1)
    inner = dict.fromkeys(places.lines, line)
    return Places(places.paths, inner, tuple((path, line) for path, _ in places.edges))


def _differences(
    steps: Any, workflow: Workflow, lines: Mapping[str, int], at: str
) -> Iterator[WorkflowProblem]:
    if not isinstance(steps, list):
        return
    seen = set()
    for number, raw in enumerate(steps):
        place = (f"{at}[{number}]", lines.get(f"{at}[{number}]"))
        read = read_step(raw, place[0], lines)
        yield from (found for found in read.problems if found.severity == "error")
        if read.step is None:
            continue
        seen.add(read.step.id)
        drawn = workflow.step(read.step.id)
        if drawn is None:
            yield _disagree(f"step `{read.step.id}` is not in the diagram", place)
        else:
            yield from _unlike(read.step, drawn, raw, lines, place[0])
            if read.form is not None and read.form.branches and not _same_branches(read.form, workflow):
                yield _disagree(f"`branches` of step `{read.step.id}` is not what the diagram says", place)
    for step in workflow.steps:
        if steps and step.id not in seen:
            yield _disagree(f"step `{step.id}` of the diagram is missing here", (at, lines.get(at)))


def _same_branches(form: StepForm, workflow: Workflow) -> bool:
    """Whether the branches of a step lead, on the same conditions, to where the diagram leads."""
    ours = [(branch.condition, branch.target_step_id) for branch in form.branches or ()]
    ours += [(None, form.default_branch)] if form.default_branch else []
    return ours == [(edge.condition, edge.target or "end") for edge in workflow.leaving(form.id)]


def _unlike(
    step: Step, drawn: Step, raw: JsonObject, lines: Mapping[str, int], path: str
) -> Iterator[WorkflowProblem]:
    """The fields that are written in the list and are not so in the diagram."""
    fields = spelled(raw)
    ours, theirs = written(step), written(drawn)
    for name, field in fields.written.items():
        if name in {"branches", "defaultBranch", "next", "start", "description"}:
            continue
        if ours.get(name) != theirs.get(name):
            place: Place = (f"{path}.{field}", lines.get(f"{path}.{field}"))
            yield _disagree(f"`{field}` of step `{step.id}` is not what the diagram says", place)


def _disagree(message: str, place: Place) -> WorkflowProblem:
    return problem("warning", "disagree", message, place, "the diagram holds: make the steps like it")


def _subflows(
    data: Any, lines: Mapping[str, int], at: str
) -> tuple[dict[str, Workflow], list[WorkflowProblem]]:
    """The workflows that were exported with this one."""
    found: dict[str, Workflow] = {}
    problems: list[WorkflowProblem] = []
    for name, inner in data.items() if isinstance(data, dict) else ():
        read = _imported(inner, lines, name, f"{at}.{name}")
        problems += read.problems
        if read.workflow is not None:
            found[name] = read.workflow
    return found, problems
