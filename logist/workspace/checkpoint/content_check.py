"""Verifies objects that were copied from a repository: that each has the content that its name says.

git copies objects without doing that. A stranger's repository can have other content under a name, and disks lose
content silently.
"""

from __future__ import annotations

import os
from pathlib import Path

from logist.errors import StorageError
from logist.workspace.checkpoint.objects import LINK_MODE, TreeListing
from logist.workspace.files import file_names
from logist.workspace.git import Git


def can_check_files(root: Path, listing: TreeListing) -> bool:
    """Whether `require_named_contents` can do it: git reads the paths of files as lines."""
    text = os.fsencode(root) + b"\0".join(listing.paths)
    return listing.is_plain and b"\n" not in text and b"\r" not in text


def require_named_contents(git: Git, root: Path, commit: str, listing: TreeListing) -> None:
    """Raise StorageError unless all objects of a commit have the content that their names say; git has just written
    the files into the new workspace `root`.

    Unpacking each object once more, as `git index-pack` does, takes twice as long as reading the files.
    """
    _require_named_objects(git, commit, listing)
    named = [
        item for item in zip(listing.paths, listing.modes, listing.ids, strict=True) if item[1] != LINK_MODE
    ]
    prefix = os.fsencode(root) + b"/"
    lines = b"".join([b"%b%b\n" % (prefix, path) for path, _, _ in named])
    hashes = git.run_with_input(lines, "hash-object", "--no-filters", "--stdin-paths").decode("ascii").split()
    for (path, _, name), hashed in zip(named, hashes, strict=True):
        if name != hashed:
            raise StorageError(
                f"{file_names.to_display(path)!r} has other content than its object {name}",
                where=str(root),
                fix="check the disk and its free space, then run the command again",
            )


def _require_named_objects(git: Git, commit: str, listing: TreeListing) -> None:
    """Do the same for the commit, its trees and its links. git compares the content of each object that is named in
    its input.
    """
    options = ("--objects", "--no-object-names", "--no-walk", "--filter=blob:none", "--stdin")
    trees = git.run_with_input(f"{commit}\n".encode("ascii"), "rev-list", *options)
    links = [name for mode, name in zip(listing.modes, listing.ids, strict=True) if mode == LINK_MODE]
    names = trees + "".join(f"{name}\n" for name in links).encode("ascii")
    # After --stdin, the option comes too late.
    git.run_with_input(names, "rev-list", "--verify-objects", "--quiet", *options)
