"""What a command does and why, as typed events: for `--log-file` and `-v`.

Nothing is recorded, and no module of this package is loaded, unless a command was asked for one of the two. So whoever has
something to report asks first:

    if event_log.is_on():
        event_log.report(events.GitBegun(...))
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.event_log.events import LogEvent
    from logist.event_log.recorder import EventRecorder

__all__ = ["about_job", "add_secrets", "is_on", "report", "set_recorder"]

load_on_use(globals())

_recorder: EventRecorder | None = None
_thread = threading.local()


def is_on() -> bool:
    """Whether events are recorded."""
    return _recorder is not None


def report(event: LogEvent, job_id: str | None = None) -> None:
    """Record an event, with the given job, or else that of this thread. Never raises, never waits; does nothing if it is off."""
    if _recorder is not None:
        _recorder.record(event, job_id or getattr(_thread, "job_id", None))


def set_recorder(recorder: EventRecorder | None) -> None:
    """Record the events of this process with `recorder` from now on; None: don't record."""
    global _recorder  # noqa: PLW0603 - one command, one log
    _recorder = recorder


def add_secrets(secrets: Iterable[str]) -> None:
    """Replace these values in all later events."""
    if _recorder is not None:
        _recorder.add_secrets(secrets)


@contextmanager
def about_job(job_id: str) -> Iterator[None]:
    """Events that this thread reports in the block are about this job."""
    before = getattr(_thread, "job_id", None)
    _thread.job_id = job_id
    try:
        yield
    finally:
        _thread.job_id = before
