"""Files that were tracked in the source of a workspace: git doesn't ignore them, even if a `.gitignore` matches."""

from __future__ import annotations

import os
from bisect import bisect_left
from functools import cached_property

from logist.workspace.checkpoint import objects
from logist.workspace.files import file_names
from logist.workspace.git import Git


class Tracked:
    """The files of a job's first checkpoint, which is the commit of its source, or empty if there is none.

    Later checkpoints don't count, because they hold ignored files too. The commit is read at the first use, which
    raises Damaged or StorageError if it can't be read.
    """

    def __init__(self, git: Git, first: str | None) -> None:
        self._git = git
        self._first = first

    @cached_property
    def _all_paths(self) -> list[bytes]:
        """The paths in the order of bytes, as git lists them."""
        if self._first is None:
            return []
        commit = objects.require_commit(self._first, self._git)
        return self._git.run("ls-tree", "-r", "-z", "--full-tree", "--name-only", commit).split(b"\0")[:-1]

    def has_path(self, path: str, *, directory: bool) -> bool:
        """Whether a file, or any file in a directory, was tracked."""
        wanted = file_names.to_stored(os.fsencode(path)) + b"/" * directory
        place = bisect_left(self._all_paths, wanted)
        if place == len(self._all_paths):
            return False
        candidate = self._all_paths[place]
        return candidate.startswith(wanted) if directory else candidate == wanted
