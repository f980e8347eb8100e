"""The workspace of a job: its checkpoints in a separate repository,
differences, and safe opening of files.
"""

from logist.core.prompt.prompt import FileText
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
