"""Recognizes most valid values of a JSON Schema much faster than a complete validator.

A replay checks every recorded answer. Nearly all are valid, and saying so takes a complete validator ten times as
long. What this check does not recognize may still be valid: then the validator decides, and explains.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Any], bool]

_ANNOTATIONS = frozenset({"$schema", "$id", "$comment", "title", "description"})
_TYPES: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool}


def build_quick_check(schema: Any) -> Check:
    """Return a check that is True only for values that match the schema; False means that it is not known."""
    if not isinstance(schema, dict):
        return _is_unknown
    checks: list[Check] = []
    for keyword, value in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        check = _build_keyword_check(keyword, value, schema)
        if check is None:
            return _is_unknown
        checks.append(check)
    return lambda value: all(check(value) for check in checks)


def _is_unknown(value: Any) -> bool:
    return False


def _build_keyword_check(keyword: str, given: Any, schema: dict[str, Any]) -> Check | None:
    """Return the check of one keyword; None for one that this module does not know.

    A keyword that applies to one type only is known for that type only.
    """
    match keyword, given:
        case "type", str() if given in _TYPES:
            wanted = _TYPES[given]
            return lambda value: isinstance(value, wanted)
        case "enum", list() if all(isinstance(word, str) for word in given):
            words = frozenset(given)
            return lambda value: isinstance(value, str) and value in words
        case "required", list():
            names = frozenset(given)
            return lambda value: isinstance(value, dict) and names <= value.keys()
        case "properties", dict():
            return _build_properties_check({name: build_quick_check(each) for name, each in given.items()})
        case "additionalProperties", False if not schema.get("patternProperties"):
            known = frozenset(schema.get("properties", {}))
            return lambda value: isinstance(value, dict) and value.keys() <= known
        case "items", dict():
            item_check = build_quick_check(given)
            return lambda value: isinstance(value, list) and all(item_check(item) for item in value)
        case "anyOf", list():
            options = [build_quick_check(each) for each in given]
            return lambda value: any(option(value) for option in options)
        case (("minLength" | "maxLength" | "minItems" | "maxItems"), int()):
            return _build_size_check(keyword, given)
        case "pattern", str():
            search = re.compile(given).search
            return lambda value: isinstance(value, str) and search(value) is not None
    return None


def _build_properties_check(checks: dict[str, Check]) -> Check:
    def check_properties(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        return all(check(value[name]) for name, check in checks.items() if name in value)

    return check_properties


def _build_size_check(keyword: str, limit: int) -> Check:
    sized = str if keyword.endswith("Length") else list
    if keyword.startswith("min"):
        return lambda value: isinstance(value, sized) and len(value) >= limit
    return lambda value: isinstance(value, sized) and len(value) <= limit
