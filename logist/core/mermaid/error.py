"""The error for a text that is not a valid flowchart, with its place."""

from __future__ import annotations


class MermaidError(ValueError):
    """Raised for a text that is not a flowchart; `line` and `column` count from 1, in the original text."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message = message
        self.line = line
        self.column = column
