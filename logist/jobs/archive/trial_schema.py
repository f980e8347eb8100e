"""Loads a schema of the exit command to try it out before its release."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing.exceptions import Unresolvable

from logist import documents
from logist.core.answer import answer_faults
from logist.core.model import JsonObject
from logist.errors import InvalidFile, UsageError

SOUND: JsonObject = {"action": "COMPLETED", "evidence_files": ["a.txt"], "summary_for_supervisor": "Done."}
_NEVER: tuple[tuple[str, JsonObject], ...] = (
    ("no `action`", {name: value for name, value in SOUND.items() if name != "action"}),
    ("no `evidence_files`", {name: value for name, value in SOUND.items() if name != "evidence_files"}),
    (
        "no `summary_for_supervisor`",
        {name: value for name, value in SOUND.items() if name != "summary_for_supervisor"},
    ),
    ("an unknown `action`", {**SOUND, "action": "MAYBE"}),
    ("`evidence_files` that is not a list", {**SOUND, "evidence_files": "a.txt"}),
    ("evidence that is not a string", {**SOUND, "evidence_files": [1]}),
    ("evidence outside the workspace", {**SOUND, "evidence_files": ["../a.txt"]}),
    ("an absolute path as evidence", {**SOUND, "evidence_files": ["/etc/passwd"]}),
    ("a summary that is not a string", {**SOUND, "summary_for_supervisor": 1}),
    ("`metadata` that is not an object", {**SOUND, "metadata": 1}),
)
"""Exit commands that no schema may accept: the state machine could not use them."""
_REFERENCES = ("$ref", "$dynamicRef")
FIX = "start with a copy of schemas/llm-chat-schema.json"


def load_trial_schema(path: Path) -> JsonObject:
    """Load the schema in a file.

    Raises UsageError if there is no such file, InvalidFile for a file that is not a schema, refers to
    other files, or accepts exit commands that can't be used.
    """
    where = str(path)
    if not path.exists():
        raise UsageError("schema file not found", where=where, fix="use an existing file")
    schema = documents.read_document(path).data
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = ".".join(map(str, error.absolute_path))
        raise InvalidFile(
            f"is not a valid JSON Schema: {place or 'top level'}: {error.message[:300]}", where=where
        ) from error
    for fault in _find_faults(schema):
        raise InvalidFile(fault, where=where)
    try:
        accepted = next((what for what, probe in _NEVER if _accepts_response(schema, probe)), None)
        answer_faults.find_schema_faults({"response": SOUND}, schema)
    except (RecursionError, Unresolvable, re.error) as error:
        message = "contains an endless reference" if isinstance(error, RecursionError) else str(error)
        raise InvalidFile(f"can't be applied: {message[:300]}", where=where) from error
    if accepted is not None:
        raise InvalidFile(f"must not accept an exit command with {accepted}", where=where, fix=FIX)
    return schema


def _accepts_response(schema: JsonObject, response: JsonObject) -> bool:
    return not answer_faults.find_schema_faults({"response": response}, schema)


def _find_faults(schema: JsonObject) -> Iterator[str]:
    """Find references to other files or missing targets, and patterns that do not compile."""
    for name, value in _walk_members(schema):
        if name in _REFERENCES and isinstance(value, str):
            if not value.startswith("#"):
                yield f"`{name}` is {json.dumps(value)}; only references inside the file (#/...) are supported"
            elif not _has_target(schema, value):
                yield f"`{name}` is {json.dumps(value)}, which does not exist in the file"
        if name == "pattern" and isinstance(value, str) and (fault := _explain_bad_pattern(value)):
            yield f"`pattern` {json.dumps(value)[:100]} is not a valid regular expression: {fault}"


def _walk_members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key with its value, at any depth; `documents` limits how deep a file can be."""
    if isinstance(value, dict):
        for name, held in value.items():
            yield name, held
            yield from _walk_members(held)
    elif isinstance(value, list):
        for held in value:
            yield from _walk_members(held)


def _has_target(schema: JsonObject, reference: str) -> bool:
    """True if the target of a JSON pointer exists; the validator checks names (`#name`)."""
    if not reference.startswith("#/"):
        return True
    target: Any = schema
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and key.isdigit() and int(key) < len(target):
            target = target[int(key)]
        elif isinstance(target, dict) and key in target:
            target = target[key]
        else:
            return False
    return True


def _explain_bad_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return ""
