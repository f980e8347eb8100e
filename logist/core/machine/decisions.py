"""Formats the decisions of a workflow: which branch was taken and why, as a history records it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from logist.core.model.words import END
from logist.core.text.counts import format_count
from logist.core.text.json_object import JsonObject

DEFAULT = "default"
"""What the history records instead of a condition if a decision took its default."""
LONGEST_VALUE = 60
"""The maximum number of characters of a value on a line."""
REASONS = 3
"""The maximum number of reasons on a line; the others are counted."""


def format_decision(decision: JsonObject) -> str:
    """Format a decision, or a skipped step, on one line.

    `decision` is an element of the `route` of an entry.
    """
    seen = _describe_values(decision)
    if reason := fallback_reason(decision):
        return f"{_describe_outcome(decision)}, because {reason}{seen}"
    return f"{_describe_outcome(decision)}{_describe_cause(decision)}{seen}"


def fallback_reason(decision: JsonObject) -> str:
    """Why conditions could not be evaluated, if that led to the default or to a skipped step; else empty.

    For example, a field was missing, or its value had the wrong type.
    """
    errors = decision.get("errors")
    fell_back = "skipped" in decision or decision.get("condition") == DEFAULT
    if not fell_back or not isinstance(errors, dict) or not errors:
        return ""
    reasons = list(dict.fromkeys(_to_one_line(str(reason)) for reason in errors.values()))
    more = len(reasons) - REASONS
    return "; ".join(reasons[:REASONS]) + (f"; and {format_count(more, 'more reason')}" if more > 0 else "")


def format_fallbacks(route: Sequence[JsonObject]) -> list[str]:
    """Format the decisions of a route that fell back to their default, one line each."""
    return [format_decision(decision) for decision in route if fallback_reason(decision)]


def _describe_outcome(decision: JsonObject) -> str:
    if "skipped" in decision:
        return f"step {_to_one_line(str(decision['skipped']))} is skipped"
    name, branch = _to_one_line(str(decision.get("decision"))), decision.get("branch")
    if branch is None:
        return f"decision {name}: no branch matches"
    target = "the end" if branch == END else _to_one_line(str(branch))
    default = "its default, " if decision.get("condition") == DEFAULT else ""
    return f"decision {name} took {default}{target}"


def _describe_cause(decision: JsonObject) -> str:
    if "suggested" in decision:
        return ", which the agent suggested"
    condition = decision.get("condition")
    if condition in (None, DEFAULT):
        return ""
    does = "does not match" if "skipped" in decision else "matches"
    return f", because `{_shorten_text(_to_one_line(str(condition)))}` {does}"


def _describe_values(decision: JsonObject) -> str:
    values = decision.get("values")
    if not isinstance(values, dict) or not values:
        return ""
    shown = [
        f"{_to_one_line(str(name))} = {_shorten_text(_as_json(value))}" for name, value in values.items()
    ]
    return f" ({', '.join(shown)})"


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shorten_text(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _to_one_line(text: str) -> str:
    return " ".join(text.split())
