"""The arguments of a call, as a model wrote them: strict JSON that
matches the tool's schema, or an error message.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from logist.agents.tools.context import Arguments, ToolError
from logist.core.answer.quick_schema import Check, build_quick_check
from logist.core.permissions.tools import TOOLS, Tool
from logist.core.text.outermost_json import measure_depth

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

MAX_CHARACTERS = 16 << 20
MAX_DEPTH = 100
MAX_DIGITS = 20
MAX_SHOWN = 60

_KINDS = {"string": "text", "integer": "an integer", "boolean": "true or false"}


def parse_arguments(tool: Tool, text: str) -> Arguments:
    """Return the arguments. Raises ToolError with the problem if they are invalid."""
    value = parse_object(tool.name, text)
    present = {name: argument for name, argument in value.items() if argument is not None}
    if not _get_quick_check(tool.name)(present):
        error = next(iter(_get_validator(tool.name).iter_errors(present)), None)
        if error is not None:
            raise ToolError(f"invalid arguments for {tool.name}: {_describe_error(tool, error)}")
    return {name: _normalize_number(argument) for name, argument in present.items()}


def parse_object(name: str, text: str) -> Arguments:
    """Return the arguments of the tool `name` without comparing them with a schema.

    The schema of a tool of an MCP server is a stranger's: it could take unlimited time. Its server checks them.
    """
    value = _parse_json(text) if text.strip() else {}
    if not isinstance(value, dict):
        raise ToolError(f"the arguments of {name} must be a JSON object")
    return value


@lru_cache(maxsize=len(TOOLS))
def _get_quick_check(name: str) -> Check:
    return build_quick_check(TOOLS[name].parameters)


@lru_cache(maxsize=len(TOOLS))
def _get_validator(name: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - slow import, needed for models with tools only

    return Draft202012Validator(TOOLS[name].parameters)


def _parse_json(text: str) -> Any:
    if len(text) > MAX_CHARACTERS:
        raise ToolError(f"the arguments have {len(text):,} characters; the limit is {MAX_CHARACTERS:,}")
    if (depth := measure_depth(text)) > MAX_DEPTH:
        raise ToolError(f"the arguments are nested {depth} levels deep; the limit is {MAX_DEPTH}")
    try:
        return json.loads(
            text,
            object_pairs_hook=_require_unique_keys,
            parse_constant=_reject_constant,
            parse_int=_parse_integer,
        )
    except json.JSONDecodeError as error:
        raise ToolError(
            f"the arguments are not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ToolError("duplicate key in the arguments")
    return value


def _reject_constant(name: str) -> None:
    raise ToolError(f"the arguments contain {name}, which is not valid JSON")


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ToolError(f"the arguments contain a number that is too long: {len(digits)} digits")
    return int(digits)


def _normalize_number(argument: Any) -> Any:
    """Turn 1.0 into 1: JSON Schema accepts it as a whole number."""
    return int(argument) if isinstance(argument, float) else argument


def _describe_error(tool: Tool, error: ValidationError) -> str:
    name = f"`{error.absolute_path[0]}`" if error.absolute_path else ""
    limit = error.validator_value
    match error.validator:
        case "required":
            missing = [key for key in limit if key not in error.instance]
            return f"missing {_quote_names(missing)}"
        case "additionalProperties":
            known = tool.parameters["properties"]
            extra = next(key for key in error.instance if key not in known)
            return f"unknown argument {_describe_value(extra)}; known: {_quote_names(known)}"
        case "minimum":
            return f"{name} must be at least {limit}"
        case "maximum":
            return f"{name} must be at most {limit}"
    return f"{name} must be {_KINDS.get(limit, limit)}, not {_describe_value(error.instance)}"


def _quote_names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _describe_value(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value[:MAX_SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
