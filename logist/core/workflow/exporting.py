"""Export and import a workflow, version 2.0: its diagram, its steps, and the agents that do them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from logist.core.model import JsonObject, Role, Step, StepType, Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow import drawing
from logist.core.workflow.form import StepForm
from logist.core.workflow.listed import read_step_list
from logist.core.workflow.parsing import read_mermaid
from logist.core.workflow.places import Place, Places, Read, make_problem
from logist.core.workflow.spelling import normalize_keys
from logist.core.workflow.steps import read_step
from logist.core.workflow.written import dump_step

VERSION = "2.0"


def export_workflow(workflow: Workflow, roles: Mapping[str, Role], time: str) -> JsonObject:
    """Return the workflow as a document.

    Importing it gives an equal workflow. `time`: YYYY-MM-DDTHH:MM:SSZ.
    """
    role_names = dict.fromkeys(name for name in _find_role_names(workflow) if name in roles)
    return {
        "workflow": _dump_workflow(workflow),
        "agents": [_dump_agent(roles[name]) for name in role_names],
        "exportVersion": VERSION,
        "exportedAt": time,
    }


def is_export(data: JsonObject) -> bool:
    """Whether a document is an export."""
    return isinstance(data.get("workflow"), dict)


def import_workflow(data: JsonObject, lines: Mapping[str, int], name: str) -> Read:
    """Return the workflow of an export.

    The diagram takes precedence; steps that differ from it are reported.
    """
    return _import_data(data["workflow"], lines, name, "workflow", _check_version(data, lines))


def list_agents(data: JsonObject) -> list[JsonObject]:
    """Return the agents of an export that are complete: `id`, `displayName`, `agentPrompt`."""
    entries = data.get("agents")
    fields = ("id", "displayName", "agentPrompt")
    return [
        {field: agent[field] for field in fields}
        for agent in (entries if isinstance(entries, list) else [])
        if isinstance(agent, dict) and all(isinstance(agent.get(field), str) for field in fields)
    ]


def _dump_workflow(workflow: Workflow) -> JsonObject:
    data: JsonObject = {
        "name": workflow.name,
        "description": workflow.description,
        "mermaidSource": drawing.get_diagram_source(workflow),
        "steps": [_dump_step(step, workflow) for step in workflow.steps],
    }
    if workflow.foreign:
        data["foreign"] = True
    if workflow.subflows:
        data["subflows"] = {name: _dump_workflow(inner) for name, inner in workflow.subflows.items()}
    return data


def _dump_step(step: Step, workflow: Workflow) -> JsonObject:
    data = dump_step(step)
    if step.step_type == StepType.DECISION:
        data["branches"] = [
            {"condition": edge.condition, "targetStepId": edge.target or "end"}
            for edge in workflow.find_edges_from(step.id)
        ]
    return data


def _find_role_names(workflow: Workflow) -> Iterator[str]:
    for step in workflow.steps:
        yield from (name for name in (step.role, step.review_role) if name)
    for inner in workflow.subflows.values():
        yield from _find_role_names(inner)


def _dump_agent(role: Role) -> JsonObject:
    return {"id": role.name, "displayName": role.name, "agentPrompt": role.instructions}


def _check_version(data: JsonObject, lines: Mapping[str, int]) -> tuple[WorkflowProblem, ...]:
    version = data.get("exportVersion", VERSION)
    if version == VERSION:
        return ()
    message = f"unknown exportVersion {version!r}: reading the file as version {VERSION}"
    return (make_problem("warning", "version", message, ("exportVersion", lines.get("exportVersion"))),)


def _import_data(
    data: Any, lines: Mapping[str, int], name: str, at: str, before: tuple[WorkflowProblem, ...] = ()
) -> Read:
    if not isinstance(data, dict):
        return Read(
            name, None, (make_problem("error", "invalid", f"`{at}` must be a mapping", (at, lines.get(at))),)
        )
    text = data.get("mermaidSource")
    if not isinstance(text, str) or not text.strip():
        read = read_step_list(data, lines, name, at)
        return Read(read.name, read.workflow, (*before, *read.problems), read.places)
    title, description = (
        data.get(key) if isinstance(data.get(key), str) else "" for key in ("name", "description")
    )
    read = read_mermaid(text, title or name, description or "")[0]
    problems = [*before, *_relocate_problems(read.problems, at, lines)]
    workflow = read.workflow
    if workflow is not None:
        problems += _compare_steps(data.get("steps"), workflow, lines, f"{at}.steps")
        subflows, subflow_problems = _import_subflows(data.get("subflows"), lines, f"{at}.subflows")
        problems += subflow_problems
        workflow = workflow.model_copy(
            update={
                "name": title or workflow.name,
                "subflows": subflows,
                "foreign": data.get("foreign") is True,
            }
        )
    return Read(title or read.name, workflow, tuple(problems), _relocate_places(read.places, lines, at))


def _relocate_problems(
    problems: Sequence[WorkflowProblem], at: str, lines: Mapping[str, int]
) -> list[WorkflowProblem]:
    """Return the problems with places in the document: the diagram is a single
    text in it, so the line inside the diagram is part of the path.
    """
    line = lines.get(f"{at}.mermaidSource")
    return [
        WorkflowProblem(
            found.severity,
            found.code,
            found.message,
            f"{at}.mermaidSource{f', line {found.line}' if found.line else ''}: {found.path}".rstrip(": "),
            line,
            None,
            found.fix,
        )
        for found in problems
    ]


def _relocate_places(places: Places, lines: Mapping[str, int], at: str) -> Places:
    line = lines.get(f"{at}.mermaidSource", 1)
    inner = dict.fromkeys(places.lines, line)
    return Places(places.paths, inner, tuple((path, line) for path, _ in places.edges))


def _compare_steps(
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
        drawn = workflow.find_step(read.step.id)
        if drawn is None:
            yield _make_disagreement(f"step `{read.step.id}` is not in the diagram", place)
        else:
            yield from _compare_fields(read.step, drawn, raw, lines, place[0])
            if read.form is not None and read.form.branches and not _has_same_branches(read.form, workflow):
                yield _make_disagreement(
                    f"`branches` of step `{read.step.id}` differs from the diagram", place
                )
    for step in workflow.steps:
        if steps and step.id not in seen:
            yield _make_disagreement(
                f"step `{step.id}` of the diagram is missing in the list", (at, lines.get(at))
            )


def _has_same_branches(form: StepForm, workflow: Workflow) -> bool:
    """Whether the branches of a step lead, on the same conditions, to where the diagram leads."""
    ours = [(branch.condition, branch.target_step_id) for branch in form.branches or ()]
    ours += [(None, form.default_branch)] if form.default_branch else []
    return ours == [(edge.condition, edge.target or "end") for edge in workflow.find_edges_from(form.id)]


def _compare_fields(
    step: Step, drawn: Step, raw: JsonObject, lines: Mapping[str, int], path: str
) -> Iterator[WorkflowProblem]:
    """Report the fields that are written in the list and differ from the diagram."""
    fields = normalize_keys(raw)
    ours, theirs = dump_step(step), dump_step(drawn)
    for name, field in fields.written.items():
        if name in {"branches", "defaultBranch", "next", "start", "description"}:
            continue
        if ours.get(name) != theirs.get(name):
            place: Place = (f"{path}.{field}", lines.get(f"{path}.{field}"))
            yield _make_disagreement(f"`{field}` of step `{step.id}` differs from the diagram", place)


def _make_disagreement(message: str, place: Place) -> WorkflowProblem:
    return make_problem(
        "warning", "disagree", message, place, "the diagram takes precedence: change the step to match it"
    )


def _import_subflows(
    data: Any, lines: Mapping[str, int], at: str
) -> tuple[dict[str, Workflow], list[WorkflowProblem]]:
    """Return the workflows that were exported with this one, and their problems."""
    subflows: dict[str, Workflow] = {}
    problems: list[WorkflowProblem] = []
    for name, inner in data.items() if isinstance(data, dict) else ():
        read = _import_data(inner, lines, name, f"{at}.{name}")
        problems += read.problems
        if read.workflow is not None:
            subflows[name] = read.workflow
    return subflows, problems
