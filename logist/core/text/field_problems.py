"""Translates validation errors to plain words, for documents, workflows and job files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from logist.core.text.counts import format_count

Path = tuple[str | int, ...]
Problem = Mapping[str, Any]
"""An item of `ValidationError.errors()`."""

KINDS = {
    "string_type": "text",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "enum": "one of {expected}",
    "literal_error": "one of {expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": "text of at least {min_length}",
    "string_too_long": "text of at most {max_length}",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "string_pattern_mismatch": "text that matches {pattern}",
}


def describe_misfit(problems: Iterable[Problem], kinds: Mapping[str, str] = KINDS) -> str:
    """Describe the problems with one field: "must be text or a list, not 5"."""
    wanted: list[str] = []
    value = None
    for problem in problems:
        value = problem["input"]
        pattern = kinds.get(problem["type"])
        if pattern is None:
            message = str(problem["msg"]).removeprefix("Value error, ")
            return message if isinstance(value, dict | list) else f"{message}, not {show_value(value)}"
        unit = "character" if problem["type"].startswith("string") else "item"
        limits = {name: _format_limit(name, limit, unit) for name, limit in problem.get("ctx", {}).items()}
        wanted.append(pattern.format(**limits))
    return f"must be {join_alternatives(list(dict.fromkeys(wanted)))}, not {show_value(value)}"


def _format_limit(name: str, limit: Any, unit: str) -> Any:
    """Format a limit that an error names: a length with its unit, a number without zeros at the end."""
    if name in ("min_length", "max_length"):
        return format_count(limit, unit)
    return f"{limit:g}" if isinstance(limit, float) else limit


def find_real_path(data: Any, problem: Problem) -> Path:
    """Return the path of the problem in `data`: its location without the names of union members."""
    path: list[str | int] = []
    for part in problem["loc"]:
        if _holds(data, part):
            data = data[part]
            path.append(part)
    if problem["type"] == "missing":
        path.append(problem["loc"][-1])
    return tuple(path)


def _holds(data: Any, part: str | int) -> bool:
    if isinstance(data, dict):
        return part in data
    return isinstance(data, list) and isinstance(part, int) and part < len(data)


def describe_first(problems: Sequence[Problem]) -> str:
    """Return `field: message` for the first problem, in its own words, for a file that people don't edit."""
    field, message = ".".join(map(str, problems[0]["loc"])), problems[0]["msg"]
    return f"{field}: {message}" if field else str(message)


def join_alternatives(words: Sequence[str]) -> str:
    """Return `a, b or c`."""
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def show_value(value: object) -> str:
    """Format a value for a message, shortened if it is long."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "empty"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
