"""Passes the progress of a job's agent to the display, while a command waits for the agent."""

from __future__ import annotations

import time

from logist.jobs.base.project import ProjectContext
from logist.store import JobDir
from logist.store.progress import ProgressReader

LOOK_SECONDS = 0.4
"""Seconds between two looks at the file."""


class ProgressWatch:
    """Reads the progress of one job. Without the file it passes nothing: the answer doesn't depend on it."""

    def __init__(self, project: ProjectContext, job: JobDir) -> None:
        self._display, self._job = project.progress, job
        self._reader = ProgressReader(job.inflight)
        self._looked_at: float | None = None

    def skip_existing(self) -> None:
        """Ignore what an earlier courier wrote; a new one is about to begin."""
        self._reader.read_new()
        self._looked_at = 0.0

    def show_new(self) -> None:
        """Show what is new; reads the file a few times a second at most."""
        now = time.monotonic()
        if self._looked_at is None or now >= self._looked_at + LOOK_SECONDS:
            self._looked_at = now
            self._display.update(self._job.id, self._reader.read_new())

    def end(self) -> None:
        """Show the rest, and remove the job from the display."""
        if self._looked_at is not None:
            self._display.update(self._job.id, self._reader.read_new())
            self._display.remove(self._job.id)
            self._looked_at = None
        self._reader.close()
