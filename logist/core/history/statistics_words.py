"""The words of statistics: how runs are grouped, how they end, and how groups are sorted.

Imports only small modules, so that help starts quickly.
"""

from __future__ import annotations

from enum import StrEnum

BY = ("role", "model", "phase", "step", "workflow", "prompt-size", "day", "job")
"""The properties by which runs can be grouped."""
IN_ORDER = frozenset({"prompt-size", "day"})
"""The members of BY whose values have a natural order."""
MEASURES = ("runs", "cost", "time", "tokens")
"""The values by which groups can be sorted."""


class RunEnding(StrEnum):
    """How a run ended. Every run has exactly one ending."""

    COMPLETED = "completed"
    RETRY = "retry"
    STUCK = "stuck"
    """The job waited for a steward afterwards, whatever the answer was."""
    UNANSWERED = "unanswered"
    """There was no answer, and the job went on or halted."""
