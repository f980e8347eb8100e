"""The workspace of a job: its checkpoints in a separate repository,
differences, and safe opening of files. Names are loaded on first use: commands that only read need few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logist.core.prompt.shown_files import FileText
    from logist.core.text.cache_patterns import DEFAULT_CACHES
    from logist.workspace.listing import Listing
    from logist.workspace.source import find_repository, list_uncommitted
    from logist.workspace.workspace import Checkpoint, Undone, Workspace

__all__ = [
    "DEFAULT_CACHES",
    "Checkpoint",
    "FileText",
    "Listing",
    "Undone",
    "Workspace",
    "find_repository",
    "list_uncommitted",
]

_HOMES = {
    "DEFAULT_CACHES": "logist.core.text.cache_patterns",
    "FileText": "logist.core.prompt.shown_files",
    "Listing": "logist.workspace.listing",
    "find_repository": "logist.workspace.source",
    "list_uncommitted": "logist.workspace.source",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "logist.workspace.workspace")), name)
