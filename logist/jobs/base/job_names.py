"""Names for jobs that nobody named: the first that is free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from logist.core.text.ids import LONGEST_ID
from logist.errors import Refused
from logist.jobs.base.project import Project

Made = TypeVar("Made")


def generate_ids(stem: str, endings: Iterable[str]) -> Iterator[str]:
    """Ids of the stem and each ending; a stem that is too long is cut."""
    return (stem[: LONGEST_ID - len(ending)] + ending for ending in endings)


def create_under_free_name(
    project: Project, chosen: str | None, names: Iterable[str], make: Callable[[str], Made]
) -> Made:
    """What `make` makes of the chosen name, or of the first of the others that no job has.

    Raises what it raises: Refused, too, where the chosen one is taken, or all of the others are.
    """
    if chosen:
        return make(chosen)
    tried = 0
    for name in names:
        tried += 1
        try:
            return make(name)
        except Refused:
            if not (project.jobs_dir / name).exists():
                raise
    raise Refused(f"{tried:,} jobs with names like that are there", fix="choose an --id")
