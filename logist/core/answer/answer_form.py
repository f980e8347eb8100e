"""The form in which a provider is asked for an exit command: a JSON Schema that its server enforces.

It only helps the model: whatever comes back is judged as any other answer.
"""

from __future__ import annotations

from typing import Any

from logist.core.model import JsonObject

NAME = "exit_command"
"""The name of the schema, and of the tool that Anthropic's models are made to call."""

LONGEST_TEXT = 500
LONGEST_ITEM = 200
MOST_ITEMS = 10
_ORDER = ("summary_for_supervisor", "evidence_files", "output", "metadata", "action")
"""Models write the fields in this order: they decide after they have summed up."""
_KEPT = frozenset({"type", "properties", "required", "items", "enum", "const", "anyOf", "description"})
"""Keywords that all servers know. The other ones only restrict further, and are checked in the answer."""
_UNKNOWN_TO_SERVERS = frozenset({"not", "allOf", "oneOf", "prefixItems", "contains"})
_QUESTION: JsonObject = {
    "type": "object",
    "properties": {"type": {"type": "string", "enum": ["question"]}, "question": {"type": "string"}},
    "required": ["type", "question"],
    "additionalProperties": False,
}


def build_answer_form(
    schema: JsonObject,
    output: JsonObject | None,
    *,
    is_output_required: bool = False,
    is_free: bool = False,
    has_bounds: bool = False,
) -> JsonObject:
    """Return `{"name", "strict", "schema"}`.

    `schema`: llm-chat-schema.json. `output`: a schema for the output. `is_output_required`: whatever the action is.
    `is_free`: the answer may have metadata, and any output if there is no schema for it. `strict`: the schema has only
    what servers enforce strictly: every field required, no others allowed. `has_bounds`: texts and lists have a maximum
    length, which keeps small models from writing on and on; not all servers know these keywords.
    """
    response = schema["properties"]["response"]["properties"]
    fields: JsonObject = {
        name: _simplify(response[name]) for name in _ORDER if name not in ("output", "metadata")
    }
    optional: JsonObject = (
        {"metadata": {"type": "object"}, **({} if output else {"output": {}})} if is_free else {}
    )
    if output is not None:
        simple = _simplify(output)
        fields["output"] = simple if is_output_required else {"anyOf": [simple, _QUESTION, {"type": "null"}]}
    form = {
        "type": "object",
        "properties": {name: (fields | optional)[name] for name in _ORDER if name in fields | optional},
        "required": [name for name in _ORDER if name in fields],
        "additionalProperties": False,
    }
    if has_bounds:
        form = _add_bounds(form)
    is_strict = not optional and (output is None or _can_be_strict(output))
    return {"name": NAME, "strict": is_strict, "schema": form}


def _add_bounds(schema: Any, *, is_item: bool = False) -> Any:
    if isinstance(schema, list):
        return [_add_bounds(each, is_item=is_item) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kinds = schema.get("type")
    bounded = {
        key: value
        if key in ("enum", "required", "type")
        else _add_bounds(value, is_item=is_item or key == "items")
        for key, value in schema.items()
    }
    if "string" in (kinds if isinstance(kinds, list) else [kinds]) and "enum" not in bounded:
        bounded["maxLength"] = LONGEST_ITEM if is_item else LONGEST_TEXT
    if kinds == "array":
        bounded["maxItems"] = MOST_ITEMS
    return bounded


def _simplify(schema: Any) -> Any:
    """Return the schema with the keywords that servers know, and with closed objects."""
    if not isinstance(schema, dict):
        return schema
    simple = {key: _simplify_value(key, value) for key, value in schema.items() if key in _KEPT}
    if isinstance(simple.get("properties"), dict) and schema.get("additionalProperties", False) is False:
        simple["additionalProperties"] = False
    return simple


def _simplify_value(key: str, value: Any) -> Any:
    if key == "properties" and isinstance(value, dict):
        return {name: _simplify(each) for name, each in value.items()}
    if key == "anyOf" and isinstance(value, list):
        return [_simplify(each) for each in value]
    return _simplify(value) if key == "items" else value


def _can_be_strict(schema: Any) -> bool:
    """Whether servers can enforce the schema strictly without asking for more than it says."""
    if not isinstance(schema, dict) or not schema.keys() & {"type", "enum", "const", "anyOf"}:
        return False
    if schema.keys() & _UNKNOWN_TO_SERVERS:
        return False
    kinds = schema.get("type")
    if "object" in (kinds if isinstance(kinds, list) else [kinds]):
        properties = schema.get("properties")
        is_closed = schema.get("additionalProperties", False) is False
        if not isinstance(properties, dict) or not is_closed:
            return False
        if set(schema.get("required") or ()) != set(properties):
            return False
    if "array" in (kinds if isinstance(kinds, list) else [kinds]) and "items" not in schema:
        return False
    parts = [*(schema.get("properties") or {}).values(), *(schema.get("anyOf") or ())]
    return all(map(_can_be_strict, [*parts, *([schema["items"]] if "items" in schema else [])]))
