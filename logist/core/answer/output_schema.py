"""The shape of an answer's `output`: the JSON Schema that a role declares for it, and the schema of a question.

A schema may come from an untrusted role file, and it is applied to anything that a model writes. So only
keywords are allowed whose cost is bounded by the size of the schema times the size of the output: no
references, which can recurse forever, and no regular expressions, which can take forever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from logist.core.answer import answer_faults
from logist.core.answer.questions import QUESTION
from logist.core.model import JsonObject
from logist.errors import Refused

MAX_CHARACTERS = 16_384
"""The maximum size of a schema as JSON; every prompt of its role contains it."""
MAX_DEPTH = 20

_SCHEMAS = frozenset({"items", "additionalProperties", "not", "contains"})
"""Keywords whose value is a schema."""
_LISTS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of schemas."""
_PLAIN = frozenset(
    {
        *("$schema", "$id", "$comment", "title", "description", "default", "examples"),
        *("type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    }
)
KEYWORDS = _SCHEMAS | _LISTS | _PLAIN | {"properties"}

SEVERITIES = ("low", "medium", "high")
_WORDS: JsonObject = {"type": "string", "minLength": 1}
_OPTION: JsonObject = {
    "type": ["string", "object"],
    "minLength": 1,
    "required": ["label", "value"],
    "properties": {"label": _WORDS},
}
_QUESTION: JsonObject = {
    "type": "object",
    "required": ["question"],
    "properties": {
        "question": _WORDS,
        "options": {"type": "array", "items": _OPTION},
        "severity": {"enum": list(SEVERITIES)},
    },
}

_INSTRUCTION = """\
## Your output

Your role requires an output. If you end with {completed}, {place} must match this JSON Schema. Otherwise the \
job stops and waits for a person.

{schema}"""


def schema_fault(schema: Any) -> str:
    """Why a value is not a usable output schema; empty if it is."""
    if not isinstance(schema, dict):
        return "must be a JSON Schema (a mapping), or the name of a built-in one"
    try:
        text = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return "must be valid JSON"
    if len(text) > MAX_CHARACTERS:
        return f"has {len(text):,} characters as JSON; at most {MAX_CHARACTERS:,} are allowed"
    return _cached_schema_fault(text)


@lru_cache(maxsize=16)
def _cached_schema_fault(text: str) -> str:
    """Check a schema given as JSON text. Cached, because a replay checks the schema of every answer."""
    schema = json.loads(text)
    for fault in _find_unsupported_keywords(schema, "", 1):
        return fault
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - slow import, needed for roles with an output only
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = ".".join(map(str, error.absolute_path))
        return f"is not a valid JSON Schema: {place or 'top level'}: {error.message[:300]}"
    return ""


def _find_unsupported_keywords(schema: Any, place: str, depth: int) -> Iterator[str]:
    """Yield each unsupported keyword, and each place where the schema is nested too deeply."""
    if depth > MAX_DEPTH:
        yield f"is nested more than {MAX_DEPTH} levels deep"
        return
    for keyword, value in schema.items() if isinstance(schema, dict) else ():
        where = f"{place}.{keyword}" if place else keyword
        if keyword not in KEYWORDS:
            yield f"uses `{where[:200]}`, which is not supported; supported keywords: {', '.join(sorted(KEYWORDS))}"
        elif keyword in _SCHEMAS:
            yield from _find_unsupported_keywords(value, where, depth + 1)
        elif keyword in _LISTS and isinstance(value, list):
            for number, each in enumerate(value):
                yield from _find_unsupported_keywords(each, f"{where}[{number}]", depth + 1)
        elif keyword == "properties" and isinstance(value, dict):
            for name, each in value.items():
                yield from _find_unsupported_keywords(each, f"{where}.{name}", depth + 1)


def render_output_instruction(schema: JsonObject | None, *, sections: bool) -> str:
    """Render the part of the prompt that describes the expected output; empty without a schema."""
    if schema is None:
        return ""
    return _INSTRUCTION.format(
        completed="SUCCESS and COMPLETE" if sections else "COMPLETED",
        place="the JSON under `## Output`" if sections else "`output`",
        schema=json.dumps(schema, ensure_ascii=False),
    )


def output_fault(output: Any, schema: JsonObject, role: str) -> str:
    """Which field of an output violates the schema of the role, and why; empty if it is valid.

    Raises Refused for a schema that no role can have: a history may be untrusted, and its schema could
    otherwise cause network access or a regular expression that never ends.
    """
    if fault := schema_fault(schema):
        why = fault.partition("; ")[0]
        raise Refused(f"can't use the recorded `output_schema` of the role {role}: it {why}")
    if output is None:
        return f"missing `output`: the role {role} requires it (`output_schema`)"
    faults = "; ".join(answer_faults.find_output_faults(output, schema))
    return f"{faults} (the `output_schema` of the role {role})" if faults else ""


def question_fault(output: Any) -> str:
    """Which field of a question is invalid, and why; empty if it is valid."""
    if isinstance(text := output.get(QUESTION), str) and not text.strip():
        return f"`output.{QUESTION}` is empty"
    return "; ".join(answer_faults.find_output_faults(output, _QUESTION))
