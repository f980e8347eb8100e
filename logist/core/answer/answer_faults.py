"""Explains to a steward why the JSON of an answer is invalid: bad syntax, or violations of its schema."""

from __future__ import annotations

import json
import marshal
import math
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from logist.core.answer.quick_schema import Check, build_quick_check
from logist.core.model import JsonObject
from logist.core.text.outermost_json import JsonSpan

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

MAX_DEPTH = 100
MAX_DIGITS = 1000
MAX_READ = 20
MAX_NAMED = 3
"""Schema violations that are read (MAX_READ) and reported (MAX_NAMED)."""

_EXPECTED = {
    "action": "exactly one of COMPLETED, STUCK, RETRY",
    "evidence_files": "an array of paths, empty if there are none",
    "summary_for_supervisor": "a string of at most 1000 characters",
}
_TYPES = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
}


class UnreadableError(Exception):
    """The text is not a JSON value of the expected kind. Never leaves the core."""


def parse_json_object(piece: str, span: JsonSpan) -> JsonObject:
    """Parse the JSON object in `piece`.

    Raises UnreadableError for anything that strict JSON does not allow, or that is ambiguous.
    """
    if span.ending != "closed":
        raise UnreadableError("is cut off: its end is missing")
    if span.depth > MAX_DEPTH:
        raise UnreadableError(f"is nested {span.depth} levels deep; at most {MAX_DEPTH} are allowed")
    try:
        value: JsonObject = _DECODER.decode(piece)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"is not valid JSON: {_describe_syntax_error(piece, error.pos)}") from None
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None
    return value


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) != len(pairs):
        key, count = Counter(key for key, _ in pairs).most_common(1)[0]
        raise UnreadableError(f"has the key {describe_value(key)} {count} times; expected each key once")
    return value


def _reject_constant(name: str) -> None:
    raise UnreadableError(f"has the value {name}, which is not valid JSON")


def _parse_integer(digits: str) -> int:
    # The environment can change Python's own limit, and a verdict must not depend on that.
    if len(digits) > MAX_DIGITS:
        raise UnreadableError(f"has a number of {len(digits)} digits; at most {MAX_DIGITS} are allowed")
    return int(digits)


def _parse_float(digits: str) -> float:
    value = float(digits)
    if len(digits) > MAX_DIGITS or math.isinf(value):
        raise UnreadableError(f"has a number that is too large: {digits[:20]}")
    return value


# Made once: json.loads would make one for each answer, which takes longer than reading it.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_reject_duplicate_keys,
    parse_constant=_reject_constant,
    parse_int=_parse_integer,
    parse_float=_parse_float,
)


def _describe_syntax_error(piece: str, position: int) -> str:
    """Describe the syntax error near `position`. The decoder's own messages depend on the Python version."""
    if piece[position : position + 1] < " ":
        return "a string contains an unescaped line break or control character"
    before, after = piece[:position].rstrip(), piece[position : position + 200].lstrip()
    if (before.endswith(",") and after[:1] in ("}", "]")) or re.match(r",\s*[}\]]", after):
        return "there is a comma before the closing bracket"
    slips = (
        (r"['‘’“”]", "strings and keys need straight double quotes"),
        (r"/[/*]|#", "JSON doesn't allow comments"),
        (r"(?:True|False|None)\b", "true, false and null must be lowercase"),
        (r"[\w$]", "missing quotes around a key or string, or missing comma"),
    )
    for pattern, words in slips:
        if re.match(pattern, after):
            return words
    return f"unexpected {describe_value(after[:10])}"


def find_schema_faults(document: JsonObject, schema: JsonObject) -> list[str]:
    """Describe where `document` violates `schema`: one fault per field, at most MAX_NAMED.

    Empty if it is valid.
    """
    return _collect_faults(document, schema, _describe_fault)


def find_output_faults(output: Any, schema: JsonObject) -> list[str]:
    """Describe where the `output` of an answer violates its schema, as find_schema_faults does."""
    return _collect_faults(output, schema, _describe_output_fault)


def _collect_faults(document: Any, schema: JsonObject, words: Callable[[ValidationError], str]) -> list[str]:
    text = _write_schema(schema)
    if _get_quick_check(text)(document):
        return []
    errors = _get_validator(text).iter_errors(document)
    first: dict[tuple[str | int, ...], str] = {}
    for error in islice(errors, MAX_READ):
        first.setdefault(tuple(error.absolute_path), words(error))
    return list(first.values())[:MAX_NAMED]


_last_written: tuple[bytes, str] = b"", ""


def _write_schema(schema: JsonObject) -> str:
    """Return the schema as text: in JSON 1 is not true, unlike in Python.

    A replay passes the same schema for every answer, and writing it takes longer than checking the answer. marshal
    is quick enough to notice a change of the schema; it distinguishes 1 and true, too.
    """
    global _last_written  # noqa: PLW0603 - one value is enough, and lru_cache can't have a dictionary as its key
    try:
        marshaled = marshal.dumps(schema, 2)  # this version writes equal schemas equally
    except ValueError:  # a text or number of a class of its own, as readers of YAML make them
        return json.dumps(schema)
    known, text = _last_written
    if marshaled != known:
        text = json.dumps(schema)
        _last_written = marshaled, text
    return text


@lru_cache(maxsize=16)
def _get_quick_check(schema: str) -> Check:
    return build_quick_check(json.loads(schema))


@lru_cache(maxsize=16)
def _get_validator(schema: str) -> Draft202012Validator:
    """Return the validator of a schema. Cached, because a replay may use it for many answers."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - slow import, needed for invalid answers only

    return Draft202012Validator(json.loads(schema))


def _describe_fault(error: ValidationError) -> str:
    """Describe a violation: name the field and what was expected."""
    path = [str(part) if isinstance(part, str) else f"[{part}]" for part in error.absolute_path]
    inside = path[1:] if path[:1] == ["response"] else path
    name = f"`{'.'.join(inside).replace('.[', '[')}`" if inside else "the exit command"
    value, limit = error.instance, error.validator_value
    match error.validator:
        case "required":
            missing = [key for key in limit if key not in value]
            return "; ".join(f"{name} has no `{key}`{_describe_expected(key)}" for key in missing)
        case "additionalProperties":
            extra = next(key for key in value if key not in error.schema.get("properties", {}))
            return f"{name} has the unknown key {describe_value(extra)}; put extra data into `metadata`"
        case "enum":
            return f"{name} is {describe_value(value)}; expected exactly one of {', '.join(map(str, limit))}"
        case "type":
            wanted = (
                _describe_expected(inside[-1] if inside else "")
                or f"; expected {_TYPES.get(str(limit), limit)}"
            )
            return f"{name} is {describe_value(value)}{wanted}"
        case "maxLength":
            return f"{name} has {len(value)} characters; at most {limit} are allowed"
        case "maxItems":
            return f"{name} has {len(value)} items; at most {limit} are allowed"
        case "minLength" if inside[:1] == ["evidence_files"]:
            return f"{name} is empty; expected a path in the workspace"
        case "minLength":
            return f"{name} has {len(value)} characters; at least {limit} are required"
        case "pattern" if inside[:1] == ["evidence_files"]:
            return (
                f"{name} is {describe_value(value)}, {_path_fault(value)}; expected a path in the workspace"
            )
    return f"{name} is {describe_value(value)}, which the schema does not allow"


def _describe_output_fault(error: ValidationError) -> str:
    """Describe a violation: name the field of the output."""
    path = ["output", *(str(part) if isinstance(part, str) else f"[{part}]" for part in error.absolute_path)]
    name = f"`{'.'.join(path).replace('.[', '[')}`"
    value, limit = error.instance, error.validator_value
    match error.validator:
        case "required":
            missing = next(key for key in limit if key not in value)
            return f"{name} has no `{missing}`"
        case "type":
            wanted = [limit] if isinstance(limit, str) else limit
            return f"{name} is {describe_value(value)}; expected {' or '.join(_TYPES.get(each, each) for each in wanted)}"
        case "enum":
            return f"{name} is {describe_value(value)}; expected one of {', '.join(map(describe_value, limit))[:300]}"
        case "minItems" | "minLength" if not value:
            return f"{name} is empty"
    return f"{name} is {describe_value(value)}, which its schema does not allow ({error.validator}: {describe_value(limit)})"


def _describe_expected(key: str) -> str:
    return f"; expected {_EXPECTED[key]}" if key in _EXPECTED else ""


def _path_fault(path: str) -> str:
    """Why the pattern of the schema rejects a path. The pattern decides; this only names the cause."""
    causes = (
        (r"[/\\]|[A-Za-z]:", "an absolute path"),
        (r"[A-Za-z][\w+.-]*:[/\\]", "a URL"),
        (r"~", "a path in a home directory"),
        (r"[./]*$", "the workspace itself or a path outside it"),
        (r"(?:[\s\S]*[/\\])?\.\.(?:[/\\]|$)", "a path with `..`"),
    )
    for pattern, words in causes:
        if re.match(pattern, path):
            return words
    return "a path with control characters"


def describe_value(value: Any) -> str:
    """Format a value from an agent for a message: as JSON, cut to 60 characters."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
