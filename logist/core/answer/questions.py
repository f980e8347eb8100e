"""Recognizes the output of an answer that is a question to a person. Imports next to nothing, because listings use it."""

from __future__ import annotations

from typing import Any

QUESTION = "question"
"""The `type` of an output that is a question to the person who gave the task."""


def is_question(output: Any) -> bool:
    """Whether an output is a question to the person who gave the task."""
    return isinstance(output, dict) and output.get("type") == QUESTION
