"""What is wrong with a diagram, and where."""

from __future__ import annotations


class MermaidError(ValueError):
    """A text that is no flowchart; `line` and `column` count from 1, in the text as it was given."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message = message
        self.line = line
        self.column = column
