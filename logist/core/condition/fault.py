"""The error for a condition that is invalid when it is loaded, and the
one for a value that can't be judged.
"""

from __future__ import annotations


class ConditionError(ValueError):
    """Raised for a condition that no data could decide; `column` counts from
    1 in its text, None for an object.
    """

    def __init__(self, message: str, column: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


class Unusable(Exception):
    """Raised for a value that can't be judged, with a reason for people; never leaves the package.

    Without a reason, the kinds of the values do not fit, and the verdict names them all.
    """
