"""The error for an invalid condition, raised when it is loaded, and the error for a value that can't be evaluated."""

from __future__ import annotations


class ConditionError(ValueError):
    """Raised for a condition that can't be evaluated with any data.

    `column` counts from 1 in the text of the condition; None for an object.
    """

    def __init__(self, message: str, column: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


class Unusable(Exception):
    """Raised for a value that can't be evaluated, with a reason for people; never leaves the package.

    Without a reason, the types of the values don't match, and the verdict lists them all.
    """
