"""The workspace of a job: its checkpoints in a separate repository,
differences, and safe opening of files. Names are loaded on first use: commands that only read need few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.workspace.listing import Listing
    from logist.workspace.source import find_repository, list_uncommitted
    from logist.workspace.workspace import Checkpoint, KnownStart, Undone, Workspace

__all__ = [
    "Checkpoint",
    "KnownStart",
    "Listing",
    "Undone",
    "Workspace",
    "find_repository",
    "list_uncommitted",
]

load_on_use(
    globals(),
    {
        "listing": ("Listing",),
        "source": ("find_repository", "list_uncommitted"),
        "workspace": ("Checkpoint", "KnownStart", "Undone", "Workspace"),
    },
)
