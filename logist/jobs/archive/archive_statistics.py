"""Statistics of recorded jobs: every history is read once, one entry at
a time. Writes nothing, takes no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from logist.core.history.statistics import StatisticsTable
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
) -> Gathered:
    """Add up all readable histories; an unreadable one does not stop the others.

    Interactions that an imported job shares with another history count once, with that history. `each` is
    called for every interaction, `done` for every history.
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
