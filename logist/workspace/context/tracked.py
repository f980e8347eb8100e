"""Files that were tracked in the source of a workspace: git doesn't ignore them, even if a `.gitignore` matches."""

from __future__ import annotations

import os
from bisect import bisect_left

from logist.workspace.checkpoint import objects
from logist.workspace.files import file_names
from logist.workspace.git import Git

_MOST_QUESTIONS = 2
"""After so many paths that are asked for, all are listed: that takes as long, for 20,000 files."""


class Tracked:
    """The files of a job's first checkpoint, which is the commit of its source, or empty if there is none.

    Later checkpoints don't count, because they hold ignored files too. The commit is read at the first use, which
    raises Damaged or StorageError if it can't be read.
    """

    def __init__(self, git: Git, first: str | None) -> None:
        self._git = git
        self._first = first
        self._known: dict[bytes, list[bytes]] = {}
        """By a file, a directory with a slash, or nothing for all: the tracked paths there, in the order of bytes."""

    def has_path(self, path: str, *, directory: bool) -> bool:
        """Whether a file, or any file in a directory, was tracked."""
        wanted = file_names.to_stored(os.fsencode(path)) + b"/" * directory
        paths = self._list_paths(wanted)
        place = bisect_left(paths, wanted)
        if place == len(paths):
            return False
        return paths[place].startswith(wanted) if directory else paths[place] == wanted

    def _list_paths(self, wanted: bytes) -> list[bytes]:
        """Return a list with all tracked paths that are the wanted one or in it."""
        if self._first is None:
            return []
        for beginning, paths in self._known.items():
            # `b.gen` was listed without `b.gen.gen`; only what is in a directory was listed with it.
            if wanted == beginning or (wanted.startswith(beginning) and beginning[-1:] in b"/"):
                return paths
        beginning = wanted if len(self._known) < _MOST_QUESTIONS else b""
        commit = objects.require_commit(self._first, self._git)
        below = ["--", os.fsdecode(beginning.removesuffix(b"/"))] if beginning else []
        listing = self._git.run("ls-tree", "-r", "-z", "--full-tree", "--name-only", commit, *below)
        paths = self._known[beginning] = listing.split(b"\0")[:-1]
        return paths
