"""Statistics of recorded jobs: every history is read once, an entry at a time. Nothing here writes or locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from logist.core.history.statistics import StatisticsTable
from logist.errors import LogistError
from logist.jobs.archive import originals
from logist.jobs.archive.recorded_jobs import Archive, attempt, exit_code


@dataclass(frozen=True)
class Gathered:
    """What the histories come to, and those that could not be read."""

    table: StatisticsTable
    left_out: list[tuple[str, LogistError]] = field(default_factory=list)
    """Name and reason; nothing of these is in the table."""

    @property
    def exit_code(self) -> int:
        """10 if one is damaged; else that of the first that could not be read; 0 where all were."""
        return exit_code(error for _, error in self.left_out)


def gather(
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
    known = originals.shared(every)
    for archive in every:
        with attempt(archive) as tried:
            gathered.table.take(
                archive.name, archive.heard(archive.entries(), each), shared=known.get(archive.path, 0)
            )
        if tried.error:
            gathered.left_out.append((archive.name, tried.error))
        done()
    return gathered
