"""Recognizes the output of an answer that is a question to a person. Imports next to nothing, because listings use it."""

from __future__ import annotations

import json
from typing import Any

QUESTION = "question"
"""The `type` of an output that is a question to the person who gave the task."""


def is_question(output: Any) -> bool:
    """Whether an output is a question to the person who gave the task."""
    return isinstance(output, dict) and output.get("type") == QUESTION


def list_options(question: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the options of a question: each value as text, and what else is shown of it."""
    options = question.get("options")
    listed: list[tuple[str, str]] = []
    for option in options if isinstance(options, list) else []:
        choice = option if isinstance(option, dict) else {"value": option}
        value = choice.get("value")
        text = _to_one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        label = f": {_to_one_line(str(choice['label']))}" if choice.get("label") else ""
        mark = " (default)" if "default" in question and value == question["default"] else ""
        listed.append((text, label + mark))
    return listed


def _to_one_line(text: str) -> str:
    return " ".join(text.split())
