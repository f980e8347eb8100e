"""Write a step as a mapping for a file, with every field that differs from its default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logist.core.model import JsonObject, Step, StepType
from logist.core.workflow.spelling import LIMIT_FIELDS, SPELLINGS
from logist.core.workflow.steps import KEPT

_SAME = {
    "prompt": "prompt",
    "agent_role": "agentRole",
    "role": "role",
    "model": "model",
    "review": "review",
    "review_role": "reviewRole",
    "confirm": "confirm",
    "items_path": "itemsPath",
    "item_variable": "itemVariable",
    "index_variable": "indexVariable",
    "number_variable": "numberVariable",
    "max_items": "maxItems",
    "min_success_percent": "minSuccessPercent",
    "await_tag": "awaitTag",
    "subflow": "subflowId",
    "response_format": "responseFormat",
    "confidence": "confidence",
    "when": "when",
    "max_visits": "maxVisits",
    "rounds": "rounds",
    "asks_after": "asksAfter",
    "external": "external",
}
_FREE = frozenset({"description"})
"""Kept keys that are also fields: they are written as fields."""


def dump_step(step: Step) -> JsonObject:
    """Return the step in the spelling of our own formats; reading the result gives the same step."""
    return dict(_list_fields(step))


def _list_fields(step: Step) -> Iterator[tuple[str, Any]]:
    yield "id", step.id
    yield "name", step.name
    yield "stepType", str(step.step_type)
    if step.step_type == StepType.TASK:
        yield "execution", str(step.execution)
    for name, field in _SAME.items():
        value = getattr(step, name)
        if value != Step.model_fields[name].default:
            yield field, value
    if step.item_limits:
        own = step.item_limits.model_dump(exclude_none=True)
        yield "itemLimits", {name: own[field] for field, name in LIMIT_FIELDS.items() if field in own}
    if step.guidance:
        yield "guidance", list(step.guidance)
    if step.input_mapping:
        yield "inputMapping", {source: name for name, source in step.input_mapping.items()}
    clashing = {key: value for key, value in step.config.items() if _is_reserved_key(key, value)}
    yield from ((key, value) for key, value in step.config.items() if key not in clashing)
    if clashing:
        yield KEPT, clashing


def _is_reserved_key(key: str, value: object) -> bool:
    """Whether a kept key would be read as a field if it were written unchanged."""
    if key in _FREE:
        return not isinstance(value, str) or not value
    return key in SPELLINGS or key in {"type", KEPT}
