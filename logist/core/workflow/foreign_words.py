"""Confirmations and blocks of prompt of agent-guidance servers, in our terms; their conditions need no change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logist.core.condition import ROOTS
from logist.core.model import JsonObject


def own_path(path: str) -> str:
    """Their variable as a path in our data: `slices` is `input.slices`."""
    root = path.split(".")[0].split("[")[0]
    return path if root in ROOTS or not path else f"input.{path}"


def confirmation(rule: Any) -> JsonObject:
    """Whether a person approves the result, or under which condition; a rule for a program is a review."""
    if not isinstance(rule, dict) or not rule.keys() & {"kind", "condition"}:
        return {"confirm": rule}
    if rule.get("kind") == "coordinator_eval":
        return {"review": True}
    condition = rule.get("condition")
    return {"confirm": condition if isinstance(condition, dict) else True}


def prompt_of(blocks: JsonObject) -> str:
    """The blocks as one text, each under its heading, in a fixed order."""
    parts = []
    for key, heading in (
        ("goal", "Goal"),
        ("constraints", "Constraints"),
        ("procedure", "Procedure"),
        ("outputRequired", "Output required"),
        ("verify", "Verify"),
    ):
        lines = list(_lines(blocks.get(key)))
        if lines:
            parts.append(f"## {heading}\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, list):
        for item in value:
            if text := _text(item):
                yield f"- {text}"
    elif isinstance(value, dict):
        for name, item in value.items():
            yield f"- {name}: {_text(item)}"


def _text(value: Any) -> str:
    """A text, or one in parts; a reference is named, not followed."""
    if isinstance(value, list):
        return "".join(_text(part) for part in value)
    if isinstance(value, dict):
        known = value.get("text") or value.get("refId")
        return known if isinstance(known, str) else ""
    return value if isinstance(value, str) else ""
