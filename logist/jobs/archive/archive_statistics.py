"""Statistics of recorded jobs: every history is read once, an entry at a time. Nothing here writes or locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from logist.core.history.statistics import StatisticsTable
from logist.errors import LogistError
from logist.jobs.archive import originals
from logist.jobs.archive.recorded_jobs import Archive, catch_read_errors, exit_code_of_errors


@dataclass(frozen=True)
class Gathered:
    """What the histories come to, and those that could not be read."""

    table: StatisticsTable
    left_out: list[tuple[str, LogistError]] = field(default_factory=list)
    """Name and reason; nothing of these is in the table."""

    @property
    def exit_code(self) -> int:
        """10 if one is damaged; else that of the first that could not be read; 0 where all were."""
        return exit_code_of_errors(error for _, error in self.left_out)


def gather_statistics(
    archives: Iterable[Archive],
    by: tuple[str, ...],
    *,
    each: Callable[[], None] = lambda: None,
    done: Callable[[], None] = lambda: None,
) -> Gathered:
    """Adds up all that can be read; one that can't stops no other. What an imported job has from one of the others
    counts once, with that one.

    `each` is told of every interaction, `done` of every history.
    """
    gathered = Gathered(StatisticsTable(by))
    every = list(archives)
    shared_counts = originals.count_shared_interactions(every)
    for archive in every:
        with catch_read_errors(archive) as result:
            gathered.table.add_history(
                archive.name,
                archive.call_for_each(archive.read_entries(), each),
                shared=shared_counts.get(archive.path, 0),
            )
        if result.error:
            gathered.left_out.append((archive.name, result.error))
        done()
    return gathered
