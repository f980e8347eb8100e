"""Read a workflow from a list of steps: our own YAML and JSON, the older format, files of agent-guidance
servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logist.core.model import END, JsonObject, StepType
from logist.core.model.flow import MOST_STEPS
from logist.core.text.field_problems import show_value
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow import foreign
from logist.core.workflow.assembly import Assembly
from logist.core.workflow.faults import validate_form
from logist.core.workflow.form import HeadForm, StepForm
from logist.core.workflow.places import Place, Read, make_problem
from logist.core.workflow.shapes import DEFAULT, is_default_word
from logist.core.workflow.steps import read_step

_HEAD = frozenset({"name", "description", "start", "steps"})
_KNOWN = _HEAD | {"id", "version", "tags", "author", "$schema", "exportVersion", "mermaidSource", "subflows"}
"""Top-level keys that are accepted without a warning."""
_END = "end"


def read_step_list(data: JsonObject, lines: Mapping[str, int], name: str, at: str = "") -> Read:
    """Return the workflow at `at` of a document; `name` is used if the document has none.

    A step without `next` leads to the one after it in the list, a decision only to the targets of its branches.
    """
    prefix = f"{at}." if at else ""
    head, problems = _read_head(data, lines, prefix)
    name = head.name or name
    steps = data.get("steps")
    if not isinstance(steps, list) or not steps:
        message = f"`{prefix}steps` must be a list of at least one step, not {show_value(steps)}"
        if "steps" not in data:
            message = f"`{prefix}steps` is missing: a workflow is a list of steps"
        place: Place = (f"{prefix}steps", lines.get(f"{prefix}steps") or lines.get(at) or 1)
        return Read(name, None, (*problems, make_problem("error", "no_steps", message, place)))
    if len(steps) > MOST_STEPS:
        message = f"too many steps: {len(steps):,}; the limit is {MOST_STEPS:,}"
        place = (f"{prefix}steps", lines.get(f"{prefix}steps"))
        return Read(name, None, (*problems, make_problem("error", "too_large", message, place)))
    lenient = foreign.is_foreign(data)
    problems += _report_unknown_fields(data, lines, prefix)
    if lenient:
        read = foreign.read_foreign(steps, lines, prefix, name, head.description or "")
    else:
        read = _read_own(steps, lines, prefix, name, head)
    return Read(read.name, read.workflow, (*problems, *read.problems), read.places)


def _read_head(
    data: JsonObject, lines: Mapping[str, int], prefix: str
) -> tuple[HeadForm, list[WorkflowProblem]]:
    head_fields: JsonObject = {key: data[key] for key in ("name", "description", "start") if key in data}

    def locate_field(path: tuple[str | int, ...]) -> Place:
        shown_path = prefix + str(path[0])
        return shown_path, lines.get(shown_path)

    form, faults = validate_form(HeadForm, head_fields, locate_field)
    wrong = {field for field, _ in faults}
    kept = {key: value for key, value in head_fields.items() if key not in wrong}
    return form or HeadForm.model_validate(kept), [found for _, found in faults]


def _report_unknown_fields(data: JsonObject, lines: Mapping[str, int], prefix: str) -> list[WorkflowProblem]:
    return [
        make_problem(
            "warning",
            "unknown_field",
            f"unknown field `{prefix}{key}` has no effect",
            (f"{prefix}{key}", lines.get(f"{prefix}{key}")),
        )
        for key in data
        if key not in _KNOWN
    ]


def _read_own(steps: list[Any], lines: Mapping[str, int], prefix: str, name: str, head: HeadForm) -> Read:
    assembly = Assembly(lines)
    for number, raw in enumerate(steps):
        path = f"{prefix}steps[{number}]"
        assembly.add_step(read_step(raw, path, lines), path)
    for number, step in enumerate(assembly.steps):
        following = assembly.steps[number + 1].id if number + 1 < len(assembly.steps) else END
        if step.step_type == StepType.DECISION:
            _add_branches(assembly, step.id)
        else:
            _add_next_edges(assembly, step.id, following)
    first = assembly.steps[0].id if assembly.steps else None
    declared = any(form.start for form in assembly.forms.values())
    return assembly.finish_workflow(name, head.description or "", head.start or (None if declared else first))


def _add_branches(assembly: Assembly, step_id: str) -> None:
    """Add the edges of a decision, its default last."""
    form, path = assembly.forms[step_id], assembly.paths[step_id]
    default = form.default_branch
    for number, branch in enumerate(form.branches or []):
        at = f"{path}.branches[{number}]"
        place = (at, assembly.find_line(at) or assembly.find_line(path))
        target = _resolve_target(assembly, branch.target_step_id)
        is_default = branch.condition is None or is_default_word(branch.condition)
        if is_default and default is not None and default != branch.target_step_id:
            message = (
                f"two defaults: `{branch.target_step_id}` in `branches`, and `{default}` in `defaultBranch`"
            )
            assembly.problems.append(
                make_problem("error", "two_defaults", message, place, "keep one of them")
            )
        if is_default:
            default = branch.target_step_id
        else:
            assembly.add_edge(step_id, target, place, branch.condition)
    if default is not None:
        at = f"{path}.defaultBranch"
        place = (at, assembly.find_line(at) or assembly.find_line(path))
        assembly.add_edge(step_id, _resolve_target(assembly, default), place, label=DEFAULT)
    if "next" in form.model_fields_set:
        message = "a decision can't have `next`: its branches choose the next step"
        place = (f"{path}.next", assembly.find_line(f"{path}.next"))
        assembly.problems.append(
            make_problem("error", "other_type", message, place, "use branches and defaultBranch")
        )


def _add_next_edges(assembly: Assembly, step_id: str, following: str) -> None:
    form, path = assembly.forms[step_id], assembly.paths[step_id]
    at = f"{path}.next"
    place = (at if at in assembly.lines else path, assembly.find_line(at) or assembly.find_line(path))
    for target in _list_targets(form, following):
        target_id = _resolve_target(assembly, target)
        if target_id != END:
            assembly.add_edge(step_id, target_id, place)


def _list_targets(form: StepForm, following: str) -> list[str]:
    if "next" not in form.model_fields_set:
        return [following]
    if form.next is None:
        return []
    return [form.next] if isinstance(form.next, str) else form.next


def _resolve_target(assembly: Assembly, word: str) -> str:
    """Return END for `end`, unless a step has that id."""
    return END if word == _END and _END not in assembly.paths else word
