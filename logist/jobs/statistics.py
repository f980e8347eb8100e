"""Statistics of recorded jobs: every history is read once, an entry at a time. Nothing here writes or locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from logist.core.model import JsonObject
from logist.core.statistics import Table
from logist.errors import Damaged, LogistError, Stopped
from logist.jobs.archives import Archive


@dataclass(frozen=True)
class Gathered:
    """What the histories come to, and those that could not be read."""

    table: Table
    left_out: list[tuple[str, LogistError]] = field(default_factory=list)
    """Name and reason; nothing of these is in the table."""

    @property
    def exit_code(self) -> int:
        """10 if one is damaged; else that of the first that could not be read; 0 where all were."""
        codes = [error.exit_code for _, error in self.left_out]
        return Damaged.exit_code if Damaged.exit_code in codes else next(iter(codes), 0)


def gather(
    archives: Iterable[Archive],
    by: tuple[str, ...],
    *,
    each: Callable[[], None] = lambda: None,
    done: Callable[[], None] = lambda: None,
) -> Gathered:
    """Adds up all that can be read; one that can't stops no other.

    `each` is told of every interaction, `done` of every history.
    """
    gathered = Gathered(Table(by))
    for archive in archives:
        try:
            gathered.table.take(archive.name, _told(archive.entries(), each))
        except Stopped:
            raise
        except LogistError as error:
            gathered.left_out.append((archive.name, error))
        except (OSError, RecursionError) as error:
            reason = Damaged(f"it can't be read: {error}", where=str(archive.path))
            gathered.left_out.append((archive.name, reason))
        done()
    return gathered


def _told(entries: Iterable[JsonObject], each: Callable[[], None]) -> Iterator[JsonObject]:
    for entry in entries:
        each()
        yield entry
