"""What pydantic finds wrong with a part of a workflow file, in plain words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.places import Place, problem

Form = TypeVar("Form", bound=BaseModel)

_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "literal_error": "one of {expected}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "string_too_short": "text of at least {min_length} character(s)",
    "string_too_long": "text of at most {max_length} characters",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "string_pattern_mismatch": "a name: letters, digits and _",
}
_ROLE_LENGTH = "`{field}` must be text of 10 to 1024 characters, not of {length}"


def formed(
    form: type[Form], data: Mapping[str, Any], place: Callable[[tuple[str | int, ...]], Place]
) -> tuple[Form | None, list[tuple[str, WorkflowProblem]]]:
    """The data as a form, or None and every fault, each with the name of the field that has it."""
    try:
        return form.model_validate(data), []
    except ValidationError as error:
        found = [dict(fault) for fault in error.errors(include_url=False)]
    by_path: dict[tuple[str | int, ...], list[dict[str, Any]]] = {}
    for fault in found:
        by_path.setdefault(_real_path(data, fault), []).append(fault)
    return None, [
        (str(path[0]) if path else "", _problem(path, faults, place(path)))
        for path, faults in by_path.items()
    ]


def _problem(path: tuple[str | int, ...], faults: list[dict[str, Any]], place: Place) -> WorkflowProblem:
    field = place[0]
    value = faults[0]["input"]
    if faults[0]["type"] == "missing":
        return problem("error", "missing", f"`{field}` is missing", place)
    if faults[0]["type"] == "extra_forbidden":
        return problem("error", "invalid", f"`{field}` is no field that Logist knows here", place)
    if path[-1:] == ("agentRole",) and isinstance(value, str):
        message = _ROLE_LENGTH.format(field=field, length=len(value))
        return problem("error", "agent_role", message, place, "say in a sentence or two how to behave")
    wanted = list(dict.fromkeys(_wanted(faults)))
    message = f"`{field}` must be {' or '.join(wanted)}, not {shown(value)}"
    return problem("error", "invalid", message, place)


def _wanted(faults: list[dict[str, Any]]) -> Iterator[str]:
    for fault in faults:
        limits = {name: f"{v:g}" if isinstance(v, float) else v for name, v in fault.get("ctx", {}).items()}
        yield _KINDS.get(fault["type"], str(fault["msg"])).format(**limits)


def _real_path(data: Any, fault: dict[str, Any]) -> tuple[str | int, ...]:
    """Its location without the names of the union members that were tried."""
    path: list[str | int] = []
    for part in fault["loc"]:
        inside = part in data if isinstance(data, dict) else isinstance(part, int) and isinstance(data, list)
        if inside:
            data = data[part]
            path.append(part)
    if fault["type"] == "missing":
        path.append(fault["loc"][-1])
    return tuple(path)


def shown(value: object) -> str:
    """A value in a message, not too long."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "empty"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
