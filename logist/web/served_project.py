"""The project that the page shows, and its jobs as they were last seen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from logist.core.machine.job_row import RUNNING, build_job_row
from logist.errors import LogistError
from logist.jobs.archive.daily_statistics import DailyStatistics
from logist.jobs.base.project import ProjectContext
from logist.jobs.steward.inbox import InboxItem, list_inbox
from logist.quick_dataclass import dataclass
from logist.store import JobDir
from logist.store.listing import list_job_ids, read_glances
from logist.web.sessions import WebSession

UNREADABLE = "UNKNOWN"
"""The status of a job whose files can't be read."""
FRESH_SECONDS = 0.25
"""How long what was seen counts as current, so that several requests at once read the files once."""
_SEEN_FILES = ("state.json", "jobHistory.json", "inflight")
_WORKING = tuple(RUNNING.values())

Row = dict[str, Any]
Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True)
class SeenJobs:
    """All jobs at one moment."""

    number: int
    """Higher if something has changed."""
    rows: dict[str, Row]
    """Rows as in `logist job list --json`, by id."""
    stamps: dict[str, Stamp]
    inbox: list[InboxItem]

    @property
    def waiting(self) -> list[InboxItem]:
        """The jobs of the inbox that are not snoozed."""
        return [item for item in self.inbox if item.snoozed_until is None]

    def list_changed(self, earlier: SeenJobs) -> list[str]:
        """Return the jobs that were created, changed or deleted since an earlier moment."""
        ids = self.stamps.keys() | earlier.stamps.keys()
        return sorted(each for each in ids if self.stamps.get(each) != earlier.stamps.get(each))


class ServedProject:
    """The project of a server; can be used from any thread."""

    def __init__(self, open_context: Callable[[], ProjectContext]) -> None:
        self._open_context = open_context
        context = open_context()
        self.jobs_dir: Path = context.jobs_dir
        self.home: Path = context.home
        self.name = context.home.parent.name
        self.costs = DailyStatistics()
        self.is_closing = False
        """True when the server stops: then the streams of changes end, because it waits for them."""
        self._lock = Lock()
        self._seen = SeenJobs(0, {}, {}, [])
        self._seen_at = 0.0

    def open(self, session: WebSession) -> ProjectContext:
        """Return the project for the decisions of a person. Config and roles are read again, since they may have changed."""
        return replace(self._open_context(), steward=session.steward, via="page", may_sign=session.is_owner)

    def open_job(self, job_id: str) -> JobDir:
        """Open a job. Raises UsageError if there is no such job."""
        return JobDir.open(self.jobs_dir, job_id)

    def look(self) -> SeenJobs:
        """Return all jobs as they are now; only the files of changed jobs are read."""
        with self._lock:
            if time.monotonic() - self._seen_at > FRESH_SECONDS:
                self._look_again()
                self._seen_at = time.monotonic()
            return self._seen

    def expect_change(self) -> None:
        """Have the next `look` read what is there then, so that a person sees what they have just done."""
        with self._lock:
            self._seen_at = 0.0

    def _look_again(self) -> None:
        folder = str(self.jobs_dir)
        stamps = {job_id: _read_stamp(f"{folder}/{job_id}") for job_id in list_job_ids(folder)}
        seen = self._seen
        # An agent that was killed leaves its files as they are, so jobs at work are always read again.
        changed = [
            job_id
            for job_id, stamp in stamps.items()
            if seen.stamps.get(job_id) != stamp or seen.rows[job_id]["status"] in _WORKING
        ]
        if not changed and len(stamps) == len(seen.stamps):
            if seen.inbox and _is_any_snooze_over(seen.inbox):
                self._seen = replace(seen, number=seen.number + 1, inbox=list_inbox(folder, time.time()))
            return
        rows = {job_id: row for job_id, row in seen.rows.items() if job_id in stamps}
        rows |= {row["id"]: row for row in _read_rows(folder, changed)}
        if rows == seen.rows and stamps == seen.stamps:
            return
        self._seen = SeenJobs(seen.number + 1, rows, stamps, list_inbox(folder, time.time()))


def _read_stamp(folder: str) -> Stamp:
    """Return what differs as soon as the job has changed, an agent has begun to work on it, or it was snoozed."""
    return tuple(_read_file_stamp(f"{folder}/{name}") for name in ("", *_SEEN_FILES))


def _read_file_stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read_rows(folder: str, ids: list[str]) -> Iterable[Row]:
    for glance in read_glances(folder, ids):
        try:
            state = glance.state
            if state is None or glance.behind:
                state = _rebuild_state(folder, glance.id)
            is_running = glance.asked and JobDir.open(Path(folder), glance.id).has_running_agent()
            yield build_job_row(glance.id, state, running=is_running and state["status"] in RUNNING)
        except (
            LogistError,
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
        ) as error:  # a stranger's; others stay visible
            yield {
                **dict.fromkeys(
                    ("awaiting", "stuck_kind", "assignee", "color", "parent", "merged", "provider_wait")
                ),
                "id": glance.id,
                "status": UNREADABLE,
                "title": "",
                "role": "",
                "badge": "",
                "tags": [],
                "cost_cents": 0,
                "cost_microcents": 0,
                "rank": 0,
                "created_at": "",
                "updated_at": "",
                "waits_for": [],
                "reason": glance.problem or str(error),
                "next_command": f"logist job verify --job {glance.id}",
            }


def _rebuild_state(folder: str, job_id: str) -> dict[str, Any]:
    from logist.jobs.base.stored_records import read_current_state  # noqa: PLC0415 - few jobs need it

    job = JobDir.open(Path(folder), job_id)
    job.load()
    return read_current_state(job)


def _is_any_snooze_over(items: list[InboxItem]) -> bool:
    now = time.time()
    return any(item.snoozed_until is not None and item.snoozed_until <= now for item in items)
