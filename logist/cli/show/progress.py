"""A progress bar on the terminal while many histories are processed."""

from __future__ import annotations

from logist.cli.show import render
from logist.core.text.counts import format_count

CELLS = 24
EVERY = 500
"""Number of interactions after which the bar is redrawn, even if no history is done."""


class ProgressBar:
    """A bar on standard error, if that is a terminal; it reads no clock, so it displays no times."""

    def __init__(self, total: int) -> None:
        """`total`: the number of histories."""
        self._total = total
        self._done = 0
        self._interactions = 0
        self._drawn = ""

    def count_interaction(self) -> None:
        """Count one more interaction."""
        self._interactions += 1
        if self._interactions % EVERY == 0:
            self._draw_bar()

    def count_history(self) -> None:
        """Count one more history."""
        self._done += 1
        if self._format_bar() != self._drawn:
            self._draw_bar()

    def clear(self) -> None:
        """Remove the bar until it is redrawn, so that lines can be printed."""
        if self._drawn:
            render.show_progress("")
            self._drawn = ""

    def _draw_bar(self) -> None:
        self._drawn = self._format_bar()
        render.show_progress(
            f"{self._drawn} {self._done:,}/{format_count(self._total, 'history')}, {format_count(self._interactions, 'interaction')}"
        )

    def _format_bar(self) -> str:
        full = CELLS * self._done // max(1, self._total)
        return f"[{'#' * full}{'.' * (CELLS - full)}]"
