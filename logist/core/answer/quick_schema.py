"""A quick check whether a value certainly fits a JSON Schema, for the answers that do: most of them.

Loading jsonschema takes longer than everything else that judges an answer. So only what this module doesn't accept is
checked by it: values that don't fit, whose faults it describes, and schemas with keywords that are unknown here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sized
from typing import Any

Check = Callable[[Any, Any, dict[str, Any]], bool]
"""Whether a value fits a keyword; gets the value, the keyword's own value, and the complete schema."""

_COMMENTS = frozenset({"$schema", "$id", "$comment", "title", "description", "default", "examples"})
"""Keywords that allow everything."""


def certainly_fits(value: Any, schema: Any) -> bool:
    """Whether a value that was read from JSON fits the schema; False also if only jsonschema can tell.

    The schema must be a valid one.
    """
    if not isinstance(schema, dict):
        return schema is True
    for keyword, limit in schema.items():
        if keyword in _COMMENTS:
            continue
        check = _CHECKS.get(keyword)
        if check is None or not check(value, limit, schema):
            return False
    return True


def _has_type(value: Any, wanted: Any, schema: dict[str, Any]) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    return any(_is_type(value, name) for name in names)


def _is_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):  # in Python, true is an integer
        return name == "boolean"
    if name == "integer":  # 1.0 is one too, but jsonschema may tell
        return isinstance(value, int)
    return isinstance(value, _TYPES.get(name, ()))


_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "null": type(None),
}


def _is_listed(value: Any, listed: Any, schema: dict[str, Any]) -> bool:
    return isinstance(value, str) and value in listed


def _has_keys(value: Any, keys: Any, schema: dict[str, Any]) -> bool:
    return not isinstance(value, dict) or all(key in value for key in keys)


def _fit_properties(value: Any, properties: Any, schema: dict[str, Any]) -> bool:
    return not isinstance(value, dict) or all(
        certainly_fits(each, properties[key]) for key, each in value.items() if key in properties
    )


def _fit_others(value: Any, others: Any, schema: dict[str, Any]) -> bool:
    if not isinstance(value, dict):
        return True
    properties = schema.get("properties", {})
    return "patternProperties" not in schema and all(
        certainly_fits(each, others) for key, each in value.items() if key not in properties
    )


def _fit_items(value: Any, items: Any, schema: dict[str, Any]) -> bool:
    if not isinstance(value, list):
        return True
    return "prefixItems" not in schema and all(certainly_fits(each, items) for each in value)


def _matches(value: Any, pattern: Any, schema: dict[str, Any]) -> bool:
    return not isinstance(value, str) or re.search(pattern, value) is not None


def _fits_one_of(value: Any, schemas: Any, schema: dict[str, Any]) -> bool:
    return any(certainly_fits(value, each) for each in schemas)


def _count_of(kind: type[Sized]) -> Callable[[Any], int | None]:
    return lambda value: len(value) if isinstance(value, kind) else None


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _at_least(measure: Callable[[Any], Any]) -> Check:
    return lambda value, limit, schema: (size := measure(value)) is None or size >= limit


def _at_most(measure: Callable[[Any], Any]) -> Check:
    return lambda value, limit, schema: (size := measure(value)) is None or size <= limit


_CHECKS: dict[str, Check] = {
    "type": _has_type,
    "enum": _is_listed,
    "required": _has_keys,
    "properties": _fit_properties,
    "additionalProperties": _fit_others,
    "items": _fit_items,
    "pattern": _matches,
    "anyOf": _fits_one_of,
    "minLength": _at_least(_count_of(str)),
    "maxLength": _at_most(_count_of(str)),
    "minItems": _at_least(_count_of(list)),
    "maxItems": _at_most(_count_of(list)),
    "minProperties": _at_least(_count_of(dict)),
    "maxProperties": _at_most(_count_of(dict)),
    "minimum": _at_least(_number),
    "maximum": _at_most(_number),
}
