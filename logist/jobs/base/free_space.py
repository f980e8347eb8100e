"""Whether enough space is left on the disk to begin a step: `min_free_bytes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.core.text.counts import format_bytes
from logist.errors import LowOnSpace
from logist.store import filesystem

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext

FIX = "to see what takes space: logist du; to free some: logist gc --older-than 30d"


def require_space(project: ProjectContext) -> None:
    """Raise LowOnSpace if less than `min_free_bytes` is left for the jobs: nothing may be paid for that can't be stored."""
    shortage = describe_shortage(project)
    if shortage is not None:
        raise LowOnSpace(f"no step was started: {shortage}", where=str(project.jobs_dir), fix=FIX)


def describe_shortage(project: ProjectContext) -> str | None:
    """Say how much is left, and how much has to be; None if there is enough."""
    least = project.settings.min_free_bytes
    try:
        free = filesystem.count_free_bytes(project.jobs_dir) if least else None
    except OSError:  # what needs the directory reports it
        return None
    if free is None or free >= least:
        return None
    return f"{format_bytes(free)} are left on the disk, and min_free_bytes is {format_bytes(least)}"
