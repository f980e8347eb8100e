"""Work of a job into the repository it came from: one commit on a branch of its own, merged into what is checked out."""

from logist.workspace.publishing.drafting import FileChange
from logist.workspace.publishing.publish import MODES, Brought, Published, Work, find_commit, publish
from logist.workspace.publishing.target import Person, Target, find, locked

__all__ = [
    "MODES",
    "Brought",
    "FileChange",
    "Person",
    "Published",
    "Target",
    "Work",
    "find",
    "find_commit",
    "locked",
    "publish",
]
