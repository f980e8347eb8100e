"""Convert validation errors to problems of a workflow file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from logist.core.text.field_problems import KINDS, Path, describe_misfit, find_real_path
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.places import Place, make_problem
from logist.quick_model import BaseModel, ValidationError

Form = TypeVar("Form", bound=BaseModel)

_KINDS = {**KINDS, "string_pattern_mismatch": "a name of letters, digits and _"}
_ROLE_LENGTH = "`{field}` must be text of 10 to 1024 characters, not {length}"


def validate_form(
    form: type[Form], data: Mapping[str, Any], place: Callable[[Path], Place]
) -> tuple[Form | None, list[tuple[str, WorkflowProblem]]]:
    """Return the data as a form, or None and every problem, each with the name of the field that has it."""
    try:
        return form.model_validate(data), []
    except ValidationError as error:
        error_details = [dict(fault) for fault in error.errors(include_url=False)]
    by_path: dict[Path, list[dict[str, Any]]] = {}
    for fault in error_details:
        by_path.setdefault(find_real_path(data, fault), []).append(fault)
    return None, [
        (str(path[0]) if path else "", _describe_faults(path, faults, place(path)))
        for path, faults in by_path.items()
    ]


def _describe_faults(path: Path, faults: list[dict[str, Any]], place: Place) -> WorkflowProblem:
    field = place[0]
    value = faults[0]["input"]
    if faults[0]["type"] == "missing":
        return make_problem("error", "missing", f"`{field}` is missing", place)
    if faults[0]["type"] == "extra_forbidden":
        return make_problem("error", "invalid", f"unknown key `{field}`", place)
    if path[-1:] == ("agentRole",) and isinstance(value, str):
        message = _ROLE_LENGTH.format(field=field, length=len(value))
        return make_problem(
            "error", "agent_role", message, place, "describe the behavior in one or two sentences"
        )
    return make_problem("error", "invalid", f"`{field}` {describe_misfit(faults, _KINDS)}", place)
