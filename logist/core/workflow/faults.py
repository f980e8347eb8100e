"""What pydantic finds wrong with a part of a workflow file, in plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from logist.core.text.field_problems import KINDS, Path, describe_misfit, find_real_path
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.places import Place, problem

Form = TypeVar("Form", bound=BaseModel)

_KINDS = {**KINDS, "string_pattern_mismatch": "a name: letters, digits and _"}
_ROLE_LENGTH = "`{field}` must be text of 10 to 1024 characters, not of {length}"


def formed(
    form: type[Form], data: Mapping[str, Any], place: Callable[[Path], Place]
) -> tuple[Form | None, list[tuple[str, WorkflowProblem]]]:
    """The data as a form, or None and every fault, each with the name of the field that has it."""
    try:
        return form.model_validate(data), []
    except ValidationError as error:
        found = [dict(fault) for fault in error.errors(include_url=False)]
    by_path: dict[Path, list[dict[str, Any]]] = {}
    for fault in found:
        by_path.setdefault(find_real_path(data, fault), []).append(fault)
    return None, [
        (str(path[0]) if path else "", _problem(path, faults, place(path)))
        for path, faults in by_path.items()
    ]


def _problem(path: Path, faults: list[dict[str, Any]], place: Place) -> WorkflowProblem:
    field = place[0]
    value = faults[0]["input"]
    if faults[0]["type"] == "missing":
        return problem("error", "missing", f"`{field}` is missing", place)
    if faults[0]["type"] == "extra_forbidden":
        return problem("error", "invalid", f"unknown key `{field}`", place)
    if path[-1:] == ("agentRole",) and isinstance(value, str):
        message = _ROLE_LENGTH.format(field=field, length=len(value))
        return problem("error", "agent_role", message, place, "say in a sentence or two how to behave")
    return problem("error", "invalid", f"`{field}` {describe_misfit(faults, _KINDS)}", place)
