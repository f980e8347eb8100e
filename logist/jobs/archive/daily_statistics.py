"""What jobs cost and how they ended, by local day. Keeps what it has read in memory, and reads only what has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from threading import Lock

from logist.core.history.runs import is_fork
from logist.core.history.statistics import Key, StatisticsTable, Tally
from logist.core.model import TERMINAL, JsonObject
from logist.errors import LogistError
from logist.jobs.archive import originals
from logist.jobs.archive.recorded_jobs import Archive, catch_read_errors
from logist.quick_dataclass import dataclass

BY = ("day", "role", "model")


@dataclass(frozen=True)
class JobDays:
    """One history."""

    table: StatisticsTable
    """Its runs by BY; the days are local ones."""
    ended: tuple[str, str] | None = None
    """The local day at which the job ended, and how; None while it goes on."""
    error: LogistError | None = None
    """Why it could not be read: then the rest is empty."""


@dataclass(frozen=True)
class DailyTotals:
    """Some histories together."""

    runs: dict[Key, Tally]
    """The runs by BY."""
    ended: Counter[tuple[str, str]]
    """How many jobs ended on each day, and how."""
    left_out: dict[str, LogistError]
    """The jobs that could not be read."""


@dataclass
class DailyStatistics:
    """The histories of a project; can be used from any thread."""

    _read: dict[str, tuple[object, JobDays]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def gather(self, archives: Iterable[Archive], stamps: Mapping[str, object]) -> DailyTotals:
        """Add up all readable histories. `stamps`: by the name of a history, what differs if it has changed.

        Interactions that an imported job shares with another history count once, with that history.
        """
        with self._lock:
            every = list(archives)
            shared = originals.count_shared_interactions(every)
            before, self._read = self._read, {}
            for archive in every:
                count = shared.get(archive.path, 0)
                version = (stamps.get(archive.name), count)
                known = before.get(archive.name)
                if known is None or known[0] != version:
                    known = (version, _read_job(archive, count))
                self._read[archive.name] = known
            return _add_up({name: job for name, (_, job) in self._read.items()})


def _add_up(jobs: Mapping[str, JobDays]) -> DailyTotals:
    totals = DailyTotals({}, Counter(), {name: job.error for name, job in jobs.items() if job.error})
    for job in jobs.values():
        for key, tally in job.table.groups.items():
            totals.runs.setdefault(key, Tally()).add_tally(tally)
        if job.ended is not None:
            totals.ended[job.ended] += 1
    return totals


def _read_job(archive: Archive, shared: int) -> JobDays:
    ending = _Ending(shared)
    table = StatisticsTable(BY)
    with catch_read_errors(archive) as result:
        entries = archive.call_for_each(archive.read_entries(), lambda: None)
        table.add_history(archive.name, ending.follow(entries), shared=shared)
    if result.error is not None:
        return JobDays(StatisticsTable(BY), error=result.error)
    return JobDays(table, ending.ended)


class _Ending:
    """Finds when a job ended, while its entries are read; gives them local times."""

    def __init__(self, shared: int) -> None:
        self._left = shared
        self.ended: tuple[str, str] | None = None

    def follow(self, entries: Iterable[JsonObject]) -> Iterator[JsonObject]:
        """Yield the entries, with the local day as their timestamp."""
        for entry in entries:
            day = find_local_day(entry.get("timestamp"))
            yield {**entry, "timestamp": day}
            self._left -= 1
            status = entry.get("state_after")
            is_other = is_fork(entry) or self._left >= 0  # up to here, it is the history of another job
            if is_other or status not in TERMINAL:
                self.ended = None
            elif self.ended is None and day is not None:
                self.ended = (day, str(status))


def find_local_day(timestamp: object) -> str | None:
    """Return the day of a recorded time in the time zone of this machine; None if it is no time."""
    if not isinstance(timestamp, str):
        return None
    try:
        return datetime.fromisoformat(timestamp).astimezone().date().isoformat()
    except (ValueError, OverflowError):
        return None
