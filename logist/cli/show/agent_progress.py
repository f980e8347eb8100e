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
from logist.core.money import amounts
from logist.store.progress import Activity, ActivityRecord

if TYPE_CHECKING:
    from rich.live import Live

    from logist.jobs.base.project import ProgressDisplay, ProjectContext

WORDS_SECONDS = 10.0
"""Seconds between two lines about the output of an agent program, where each line is printed."""
SHORT_WORDS = 50
"""Characters of the last words on a live line."""
_VERBS = {
    Activity.BEGUN: "starting",
    Activity.ASKED: "waiting for the answer",
    Activity.ANSWERING: "answering",
    Activity.ANSWERED: "answered",
    Activity.FAILED: "no answer",
    Activity.RETRYING: "trying again",
    Activity.WAITING: "waiting for",
}


def format_progress(record: ActivityRecord, seconds: float, *, short: bool = False) -> str:
    """Return what an agent does on one line; `seconds`: how long it has worked."""
    who = ", turn ".join(filter(None, (record.role or "agent", str(record.turn or ""))))
    return f"{who} ({_describe_amounts(record, seconds, short=short)}): {_describe_activity(record)}"


def _format_short(record: ActivityRecord, now: float) -> str:
    is_output = record.activity in (Activity.ANSWERING, Activity.WORKING)  # its end is new, not its beginning
    short = record._replace(words=record.words[-SHORT_WORDS:]) if is_output else record
    return format_progress(short, record.count_elapsed(now), short=True)


def _describe_activity(record: ActivityRecord) -> str:
    quoted = f'"{record.words}"' if record.words else ""
    if record.tool:
        return f"{record.tool} {record.target}".rstrip()
    if record.activity == Activity.WAITING:
        return f"waiting for {record.words or 'its provider'}"
    if record.activity == Activity.RETRYING:
        return f"trying again {record.words}".rstrip()
    if not record.turn and record.activity in (Activity.ASKED, Activity.WORKING):  # an agent program
        return f"working {quoted}".rstrip()
    verb = _VERBS.get(Activity(record.activity)) if record.activity in list(Activity) else record.activity
    return f"{verb} {quoted}".rstrip()


def _describe_amounts(record: ActivityRecord, seconds: float, *, short: bool) -> str:
    parts = [_format_seconds(seconds)]
    tokens = record.input_tokens + record.output_tokens
    if tokens and short:
        parts.append(f"{tokens:,} tokens")
    elif tokens:
        parts.append(f"{record.input_tokens:,} tokens in, {record.output_tokens:,} out")
    if record.cost_microcents:
        parts.append(amounts.format_money(record.cost_microcents))
    if record.in_flight_microcents and not short:
        parts.append(f"up to {amounts.format_money(record.in_flight_microcents)} in flight")
    return ", ".join(parts)


def _format_seconds(seconds: float) -> str:
    minutes, rest = divmod(int(min(seconds, 1e9)), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


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


class EventFilter:
    """Chooses the records that are events, for an output where each line stays."""

    def __init__(self) -> None:
        self._printed: dict[str, ActivityRecord] = {}

    def is_event(self, job_id: str, record: ActivityRecord) -> bool:
        """Whether to print the record of a job. The last words of an answer are none."""
        if record.activity in (Activity.BEGUN, Activity.ANSWERING):
            return False
        last = self._printed.get(job_id)
        is_same_run = last is not None and last.run == record.run
        if last is not None and is_same_run and record.activity in (Activity.WORKING, Activity.WAITING):
            is_repeated = last.activity == record.activity
            if is_repeated and record.seconds < last.seconds + WORDS_SECONDS:
                return False
        self._printed[job_id] = record
        return True


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
