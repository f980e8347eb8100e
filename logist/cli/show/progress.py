"""A progress bar on the terminal while many histories or jobs are processed."""

from __future__ import annotations

import time
from collections.abc import Callable

from logist.cli.show import render
from logist.core.text.counts import format_count

CELLS = 24
EVERY = 500
"""Number of interactions after which the bar is redrawn, even if no history is done."""


FIRST_SECONDS = 2.0
"""Seconds after which the time left is estimated; it would jump before."""
PAUSE_SECONDS = 1.0
"""Seconds after which the bar is drawn again although it is not longer, for the time left."""


class ProgressBar:
    """A bar on standard error, if that is a terminal, with the time left."""

    def __init__(
        self,
        total: int,
        what: str = "history",
        *,
        delay: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`total`: the number of histories, or of `what` is processed. `delay`: seconds before the bar appears."""
        self._delay = delay
        self._total = total
        self._what = what
        self._monotonic = monotonic
        self._began = self._drawn_at = monotonic()
        self._done = 0
        self._interactions = 0
        self._drawn = ""

    def count_interaction(self) -> None:
        """Count one more interaction."""
        self._interactions += 1
        if self._interactions % EVERY == 0:
            self._draw_bar()

    def count_history(self) -> None:
        """Count one more history or job."""
        self._done += 1
        is_due = self._monotonic() - self._drawn_at >= PAUSE_SECONDS
        if is_due or self._format_bar() != self._drawn:
            self._draw_bar()

    @property
    def is_drawn(self) -> bool:
        """Whether the bar is on the terminal, if there is one."""
        return bool(self._drawn)

    def clear(self) -> None:
        """Remove the bar until it is redrawn, so that lines can be printed."""
        if self._drawn:
            render.show_progress("")
            self._drawn = ""

    def _draw_bar(self) -> None:
        if self._monotonic() < self._began + self._delay:
            return
        self._drawn = self._format_bar()
        self._drawn_at = self._monotonic()
        render.show_progress(self.describe())

    def describe(self) -> str:
        """Return the bar with its counts and the time left."""
        counts = [f"{self._done:,}/{format_count(self._total, self._what)}"]
        if self._interactions:
            counts.append(format_count(self._interactions, "interaction"))
        return f"{self._format_bar()} {', '.join([*counts, *self._estimate_rest()])}"

    def _estimate_rest(self) -> list[str]:
        """Return how long the rest will take if it is as fast as what is done; empty if that is not known yet."""
        elapsed = self._monotonic() - self._began
        if not self._done or self._done >= self._total or elapsed < FIRST_SECONDS:
            return []
        minutes, seconds = divmod(round(elapsed * (self._total - self._done) / self._done), 60)
        return [f"{minutes} min {seconds:02} s left" if minutes else f"{seconds} s left"]

    def _format_bar(self) -> str:
        full = CELLS * self._done // max(1, self._total)
        return f"[{'#' * full}{'.' * (CELLS - full)}]"
