"""What is wrong with a condition when it is loaded, and why a value is of no use when it is judged."""

from __future__ import annotations


class ConditionError(ValueError):
    """A condition that no data could decide; `column` counts from 1 in its text, None for an object."""

    def __init__(self, message: str, column: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


class Unusable(Exception):
    """Why a value can't be judged, in words for a person; never leaves the package.

    Without words it is the kinds of the values that do not fit, and the verdict names them all.
    """
