"""What the agent of a job does while it works: its last events, as the page shows them."""

from __future__ import annotations

from collections import deque

from logist.quick_dataclass import dataclass
from logist.store import JobDir
from logist.store.progress import ActivityRecord, ProgressReader, read_last_record
from logist.store.progress_text import EventFilter, format_progress
from logist.web.texts import to_plain_line

MOST_EVENTS = 30
"""Events that are shown when the page is opened; later ones are added."""


@dataclass(frozen=True)
class AgentEvent:
    """One line of the tail."""

    id: str
    """The same event has the same id in the page and in the stream."""
    text: str


class AgentTail:
    """Reads the events of a job's agent; those that are new since the last call."""

    def __init__(self, job: JobDir) -> None:
        self._job = job
        self._reader = ProgressReader(job.inflight)
        self._events = EventFilter()

    def read_new(self) -> list[AgentEvent]:
        """Return the events since the last call; the first call returns the last of those that there are."""
        found = deque(
            (each for each in self._reader.read_new() if self._events.is_event(self._job.id, each)),
            MOST_EVENTS,
        )
        return [AgentEvent(f"{each.run}-{each.number}", _describe(each)) for each in found]

    def describe_now(self) -> str | None:
        """Return what the agent does at the moment; None if none works."""
        record = read_last_record(self._job.inflight)
        return _describe(record) if record is not None and self._job.has_running_agent() else None

    def close(self) -> None:
        """Close the file of the events."""
        self._reader.close()


def _describe(record: ActivityRecord) -> str:
    return to_plain_line(format_progress(record, record.seconds))


def read_tail(job: JobDir) -> tuple[str | None, list[AgentEvent]]:
    """Return what the agent of a job does now, and its last events; None and nothing if no agent works."""
    tail = AgentTail(job)
    try:
        now = tail.describe_now()
        return now, tail.read_new() if now is not None else []
    finally:
        tail.close()
