"""Translate the paths, confirmations and blocks of prompt of agent-guidance servers to our terms.

Of their conditions, only `not` changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logist.core.condition import ROOTS
from logist.core.model import JsonObject
from logist.core.template.data import FIELDS


def translate_path(path: str) -> str:
    """Return their variable as a path in our data: `slices` is `input.slices`."""
    root = path.split(".")[0].split("[")[0]
    return path if root in ROOTS or not path else f"input.{path}"


def translate_confirmation(rule: Any) -> JsonObject:
    """Return whether, or on which condition, a person approves the result.

    A rule that a program checks becomes a review.
    """
    if not isinstance(rule, dict) or not rule.keys() & {"kind", "condition"}:
        return {"confirm": rule}
    if rule.get("kind") == "coordinator_eval":
        return {"review": True}
    condition = rule.get("condition")
    return {"confirm": translate_condition(condition) if isinstance(condition, dict) else True}


def translate_condition(form: Any) -> Any:
    """Return their condition in our terms.

    A condition that can't be judged is false there, so that its `not` is true: our `unless`.
    """
    if isinstance(form, list):
        return [translate_condition(part) for part in form]
    if not isinstance(form, dict):
        return form
    logic = {"and": "and", "or": "or", "not": "unless"}
    return {
        logic.get(key, key): translate_condition(value) if key in logic else value
        for key, value in form.items()
    }


def is_name(name: Any) -> bool:
    """Whether one of their variables can have this name here too."""
    return isinstance(name, str) and name.isascii() and name.isidentifier() and name not in ROOTS | {*FIELDS}


def find_variables(condition: Any) -> Iterator[str]:
    """Yield the first name of each `var` in a condition."""
    if isinstance(condition, list):
        for part in condition:
            yield from find_variables(part)
    elif isinstance(condition, dict):
        if isinstance(condition.get("var"), str):
            yield condition["var"].split(".")[0].split("[")[0]
        for key in ("and", "or", "not", "unless"):
            yield from find_variables(condition.get(key))


def join_prompt_blocks(blocks: JsonObject) -> str:
    """Return the blocks as one text, each under its heading, in a fixed order."""
    parts = []
    for key, heading in (
        ("goal", "Goal"),
        ("constraints", "Constraints"),
        ("procedure", "Procedure"),
        ("outputRequired", "Output required"),
        ("verify", "Verify"),
    ):
        lines = list(_format_lines(blocks.get(key)))
        if lines:
            parts.append(f"## {heading}\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _format_lines(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, list):
        for item in value:
            if text := _join_text(item):
                yield f"- {text}"
    elif isinstance(value, dict):
        for name, item in value.items():
            yield f"- {name}: {_join_text(item)}"


def _join_text(value: Any) -> str:
    """Return a text, or one in parts; a reference is named, not followed."""
    if isinstance(value, list):
        return "".join(_join_text(part) for part in value)
    if isinstance(value, dict):
        known = value.get("text") or value.get("refId")
        return known if isinstance(known, str) else ""
    return value if isinstance(value, str) else ""
