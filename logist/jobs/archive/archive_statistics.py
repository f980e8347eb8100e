"""Statistics of recorded jobs: every history is read once, one entry at
a time. Writes nothing, takes no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path

from logist.core.history.statistics import HistoryCounts, StatisticsTable, count_history
from logist.errors import LogistError
from logist.jobs.archive import originals
from logist.jobs.archive.recorded_jobs import Archive, catch_read_errors, exit_code_of_errors
from logist.quick_dataclass import dataclass


@dataclass(frozen=True)
class Gathered:
    """The sums over the histories, and those that could not be read."""

    table: StatisticsTable
    left_out: list[tuple[str, LogistError]] = field(default_factory=list)
    """Name and reason; the table contains nothing from these."""

    @property
    def exit_code(self) -> int:
        """10 if a history is damaged; else that of the first one that could not be read; 0 if all were."""
        return exit_code_of_errors(error for _, error in self.left_out)


def gather_statistics(
    archives: Iterable[Archive],
    by: tuple[str, ...],
    *,
    each: Callable[[], None] = lambda: None,
    done: Callable[[], None] = lambda: None,
    processes: int = 1,
) -> Gathered:
    """Add up all readable histories; an unreadable one does not stop the others.

    Interactions that an imported job shares with another history count once, with that history. `each` is
    called for every interaction, with several `processes` for those of a history when it is done; `done` is called
    for every history.
    """
    gathered = Gathered(StatisticsTable(by))
    every = list(archives)
    shared_counts = originals.count_shared_interactions(every)
    for archive, counted in zip(every, _count_all(every, by, shared_counts, each, processes), strict=True):
        if isinstance(counted, LogistError):
            gathered.left_out.append((archive.name, counted))
        else:
            gathered.table.add_counts(counted)
        done()
    return gathered


def _count_all(
    archives: list[Archive],
    by: tuple[str, ...],
    shared_counts: Mapping[Path, int],
    each: Callable[[], None],
    processes: int,
) -> Iterator[HistoryCounts | LogistError]:
    """Yield what was counted in each history, or why it can't be read, in order."""
    if min(processes, len(archives)) <= 1:
        for archive in archives:
            yield _count_archive(archive, by, shared_counts, each)
        return
    from logist.jobs.archive.worker_processes import map_in_processes  # noqa: PLC0415 - slow import

    count_one = partial(_count_archive, by=by, shared_counts=shared_counts, each=lambda: None)
    for counted in map_in_processes(count_one, archives, processes):
        if isinstance(counted, HistoryCounts):
            for _ in range(counted.interactions):
                each()
        yield counted


def _count_archive(
    archive: Archive, by: tuple[str, ...], shared_counts: Mapping[Path, int], each: Callable[[], None]
) -> HistoryCounts | LogistError:
    counted: HistoryCounts | None = None
    with catch_read_errors(archive) as result:
        entries = archive.call_for_each(archive.read_entries(), each)
        counted = count_history(archive.name, entries, by, shared=shared_counts.get(archive.path, 0))
    outcome = result.error or counted
    assert outcome is not None
    return outcome
