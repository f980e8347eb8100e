"""Shows what agents do while they work: live lines on a terminal, one line per event elsewhere.

rich is loaded only for live lines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any

from logist.cli.show import render
from logist.config.environment import Environment
from logist.store.progress import Activity, ActivityRecord
from logist.store.progress_text import EventFilter, format_progress

if TYPE_CHECKING:
    from rich.live import Live

    from logist.jobs.base.project import ProgressDisplay, ProjectContext

SHORT_WORDS = 50
"""Characters of the last words on a live line."""


def _format_short(record: ActivityRecord, now: float) -> str:
    is_output = record.activity in (Activity.ANSWERING, Activity.WORKING)  # its end is new, not its beginning
    short = record._replace(words=record.words[-SHORT_WORDS:]) if is_output else record
    return format_progress(short, record.count_elapsed(now), short=True)


def build_progress_data(record: ActivityRecord | None, now: float) -> dict[str, Any] | None:
    """Return a record as JSON for `--json`."""
    if record is None:
        return None
    fields = record._asdict()
    for name in ("run", "number", "at"):
        del fields[name]
    return {**fields, "seconds": round(record.count_elapsed(now), 3)}


def show_progress_of(project: ProjectContext, *, quiet: bool, as_json: bool) -> ProjectContext:
    """Return the project with a display of what its agents do; with none if it is not wanted."""
    if quiet or as_json:
        return replace(project, quiet=quiet)
    return replace(project, progress=choose_display(project.environment))


def choose_display(environment: Environment) -> ProgressDisplay:
    """Return live lines if standard error is a terminal, else one line per event."""
    return choose_live_lines(environment) or EventLines(environment)


def choose_live_lines(environment: Environment) -> LiveDisplay | None:
    """Return live lines if standard error is a terminal; None if it is not."""
    if not (sys.stderr.isatty() and environment.can_move_cursor()):
        return None
    display = LiveDisplay(environment)
    render.set_live_lines(display)
    return display


class EventLines:
    """Prints one line per event on standard error."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._filter = EventFilter()

    def update(self, job_id: str, records: Sequence[ActivityRecord]) -> None:
        """Print the events among the records."""
        for record in records:
            if self._filter.is_event(job_id, record):
                text = f"{job_id}: {format_progress(record, record.seconds)}"
                render.print_message(text, self._environment)

    def remove(self, job_id: str) -> None:
        """Do nothing: printed lines stay."""


class LiveDisplay:
    """One line per job at the bottom of the terminal, drawn again while its agent works."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._lock = RLock()
        self._last: dict[str, ActivityRecord] = {}
        self._live: Live | None = None
        self._is_hidden = 0

    def update(self, job_id: str, records: Sequence[ActivityRecord]) -> None:
        """Draw the last record of the job."""
        with self._lock:
            if records:
                self._last[job_id] = records[-1]
            if job_id in self._last:
                self._draw()

    def remove(self, job_id: str) -> None:
        """Remove the line of the job."""
        with self._lock:
            if self._last.pop(job_id, None) is not None:
                self._draw()

    @property
    def is_drawn(self) -> bool:
        """Whether there are lines on the terminal."""
        return self._live is not None

    def hide(self) -> None:
        """Remove all lines from the terminal until `show_again`."""
        self._lock.acquire()
        self._is_hidden += 1
        if self._is_hidden == 1:
            self._stop()

    def show_again(self) -> None:
        """Draw the lines again, below what was printed."""
        self._is_hidden -= 1
        try:
            self._draw()
        finally:
            self._lock.release()

    def _draw(self) -> None:
        if self._is_hidden:
            return
        if not self._last:
            self._stop()
            return
        from rich.console import Group
        from rich.text import Text

        now = time.time()
        lines = [
            Text(
                render.clean_for_terminal(f"{job_id}: {_format_short(record, now)}"),
                style="dim",
                no_wrap=True,
                overflow="ellipsis",
            )
            for job_id, record in sorted(self._last.items())
        ]
        try:
            self._start().update(Group(*lines), refresh=True)
        except OSError:  # the terminal is gone; the work goes on
            self._last.clear()

    def _start(self) -> Live:
        if self._live is None:
            from rich.live import Live

            from logist.cli.show.consoles import create_console

            self._live = Live(
                console=create_console(color=self._environment.has_color(sys.stderr.isatty()), stderr=True),
                auto_refresh=False,  # no thread: whoever waits for an agent also draws
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self._live

    def _stop(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            try:
                live.stop()
            except OSError:
                self._last.clear()
