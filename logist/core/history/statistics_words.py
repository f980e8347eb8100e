"""The words of statistics: what runs are grouped by, how they end, what groups are compared by.

Imports nothing heavy.
"""

from __future__ import annotations

from enum import StrEnum

BY = ("role", "model", "phase", "step", "workflow", "prompt-size", "day", "job")
"""What runs can be told apart by."""
IN_ORDER = frozenset({"prompt-size", "day"})
"""Those of BY whose values have an order of their own."""
MEASURES = ("runs", "cost", "time", "tokens")
"""What groups can be compared by."""


class RunEnding(StrEnum):
    """How a run ended. Every run has exactly one ending."""

    COMPLETED = "completed"
    RETRY = "retry"
    STUCK = "stuck"
    """Whatever was answered: the job waited for a steward afterwards."""
    UNANSWERED = "unanswered"
    """There was no answer, and the job went on or halted."""
