"""A quick check whether a value certainly fits a JSON Schema, for the answers that do: most of them.

Loading jsonschema takes longer than everything else that judges an answer, and it checks ten times slower. So only what
this module doesn't accept is checked by it: values that don't fit, whose faults it describes, and schemas with keywords
that are unknown here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sized
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Any], bool]
"""Whether a value that was read from JSON certainly fits."""

_COMMENTS = frozenset({"$schema", "$id", "$comment", "title", "description", "default", "examples"})
"""Keywords that allow everything."""
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),  # 1.0 is one too, but jsonschema may tell
    "number": (int, float),
    "null": (type(None),),
}


def build_quick_check(schema: Any) -> Check:
    """Return a check that is True only for values that fit the schema, which must be valid; False means that only
    jsonschema can tell.
    """
    if not isinstance(schema, dict):
        return lambda value: schema is True
    checks = []
    for keyword, limit in schema.items():
        if keyword not in _COMMENTS:
            build = _BUILDERS.get(keyword)
            if build is None:
                return lambda value: False
            checks.append(build(limit, schema))
    return lambda value: all(check(value) for check in checks)


def _build_type_check(wanted: Any, schema: dict[str, Any]) -> Check:
    names = [wanted] if isinstance(wanted, str) else wanted
    types = tuple(each for name in names for each in _TYPES.get(name, ()))
    # In Python, true is an integer.
    return lambda value: isinstance(value, types) and (value.__class__ is not bool or bool in types)


def _build_enum_check(listed: Any, schema: dict[str, Any]) -> Check:
    words = frozenset(word for word in listed if isinstance(word, str))
    return lambda value: isinstance(value, str) and value in words


def _build_required_check(keys: Any, schema: dict[str, Any]) -> Check:
    needed = frozenset(keys)
    return lambda value: not isinstance(value, dict) or needed <= value.keys()


def _build_properties_check(properties: Any, schema: dict[str, Any]) -> Check:
    checks = {key: build_quick_check(each) for key, each in properties.items()}
    return lambda value: (
        not isinstance(value, dict) or all(check(value[key]) for key, check in checks.items() if key in value)
    )


def _build_others_check(others: Any, schema: dict[str, Any]) -> Check:
    known = frozenset(schema.get("properties", {}))
    if others is False:
        return lambda value: not isinstance(value, dict) or value.keys() <= known
    check = build_quick_check(others)
    return lambda value: (
        not isinstance(value, dict) or all(check(each) for key, each in value.items() if key not in known)
    )


def _build_items_check(items: Any, schema: dict[str, Any]) -> Check:
    check = build_quick_check(items)
    return lambda value: not isinstance(value, list) or all(map(check, value))


def _build_pattern_check(pattern: Any, schema: dict[str, Any]) -> Check:
    search = re.compile(pattern).search
    return lambda value: not isinstance(value, str) or search(value) is not None


def _build_any_check(schemas: Any, schema: dict[str, Any]) -> Check:
    checks = [build_quick_check(each) for each in schemas]
    return lambda value: any(check(value) for check in checks)


def _at_least(kind: type[Sized]) -> Callable[[Any, dict[str, Any]], Check]:
    return lambda limit, schema: lambda value: not isinstance(value, kind) or len(value) >= limit


def _at_most(kind: type[Sized]) -> Callable[[Any, dict[str, Any]], Check]:
    return lambda limit, schema: lambda value: not isinstance(value, kind) or len(value) <= limit


def _build_minimum_check(limit: Any, schema: dict[str, Any]) -> Check:
    return lambda value: not _is_number(value) or value >= limit


def _build_maximum_check(limit: Any, schema: dict[str, Any]) -> Check:
    return lambda value: not _is_number(value) or value <= limit


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_BUILDERS: dict[str, Callable[[Any, dict[str, Any]], Check]] = {
    "type": _build_type_check,
    "enum": _build_enum_check,
    "required": _build_required_check,
    "properties": _build_properties_check,
    "additionalProperties": _build_others_check,
    "items": _build_items_check,
    "pattern": _build_pattern_check,
    "anyOf": _build_any_check,
    "minLength": _at_least(str),
    "maxLength": _at_most(str),
    "minItems": _at_least(list),
    "maxItems": _at_most(list),
    "minProperties": _at_least(dict),
    "maxProperties": _at_most(dict),
    "minimum": _build_minimum_check,
    "maximum": _build_maximum_check,
}
"""For each known keyword, a function of its value and the complete schema that returns the check. With
`patternProperties` or `prefixItems`, which are not known, no value fits certainly.
"""
