"""Selects which changes of a job are merged into a user's repository, and which are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from logist.quick_tuple import NamedTuple
from logist.workspace.checkpoint import objects
from logist.workspace.checkpoint.objects import GITLINK_MODE, LINK_MODE, Tree, TreeEntry
from logist.workspace.checkpoint.scan import CACHE, DIRECTORY_MODE, Unstored
from logist.workspace.files import file_names
from logist.workspace.git import Git

NAMED = 50
"""Maximum number of listed paths that are left out."""

_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that some file systems ignore in names."""


class Selected(NamedTuple):
    """The selected changes, by the path in the work tree; None is a deletion."""

    changes: dict[bytes, TreeEntry | None]
    left_out: dict[bytes, str]
    """The reason by path."""


def select_changes(git: Git, base: str, commit: str, reserved: bytes | None) -> Selected:
    """Return the work between two checkpoints of the repository `git`.

    `reserved`: a directory of the work tree that is not part of the work (that of the jobs). Git-ignored files
    are still among the changes.
    """
    (unstored,) = objects.read_unstored(git, commit)
    before, after = (
        _to_workspace_names(objects.read_tree(git, base)),
        _to_workspace_names(objects.read_tree(git, commit)),
    )
    submodules = {path for path, entry in before.items() if entry.mode == GITLINK_MODE}
    kept = {path: thing for path, thing in unstored.items() if thing.why != CACHE}
    changes: dict[bytes, TreeEntry | None] = {}
    left_out = {path: thing.why for path, thing in kept.items()}
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) == after.get(path) or _is_kept(path, kept):
            continue
        reason = _explain_left_out(path, after.get(path), submodules, reserved)
        if reason:
            left_out[path] = reason
        else:
            changes[path] = after.get(path)
    return Selected(changes, left_out)


def _to_workspace_names(tree: Tree) -> Tree:
    """Return the tree with the paths of the workspace, without placeholders of empty directories, which git
    can't store.
    """
    return {
        file_names.from_stored(path): entry
        for path, entry in tree.items()
        if not file_names.is_placeholder(path)
    }


def _is_kept(path: bytes, kept: dict[bytes, Unstored]) -> bool:
    """Whether the path may still exist, although no checkpoint holds it."""
    if path in kept:
        return True
    above = file_names.list_parents([path]) if kept else set()
    return any(each in kept and kept[each].mode == DIRECTORY_MODE for each in above)


def _explain_left_out(
    path: bytes, entry: TreeEntry | None, submodules: set[bytes], reserved: bytes | None
) -> str:
    """Return why a change is left out; "" if it is not."""
    if any(map(is_like_git, path.split(b"/"))):
        return "part of a git repository"
    if submodules & {path, *file_names.list_parents([path])}:
        return "submodule"
    if reserved is not None and (path == reserved or path.startswith(reserved + b"/")):
        return "Logist's own jobs"
    last = path.rpartition(b"/")[2].lower()
    if entry is not None and entry.mode == LINK_MODE and last == b".gitmodules":
        return "a link instead of a file that git reads"
    return ""


def is_like_git(name: bytes) -> bool:
    """Whether any file system that git supports treats a name as `.git`."""
    text = _UNSEEN.sub("", name.decode("utf-8", "replace")).lower()
    pieces = [piece.partition(":")[0].rstrip(" .") for piece in text.split("\\")]
    return any(piece in (".git", "git~1") for piece in pieces)


def describe_left_out(left_out: dict[bytes, str]) -> Iterator[str]:
    """Yield what is left out, each as `path (reason)`, and how many more there are."""
    for path in sorted(left_out)[:NAMED]:
        yield f"{file_names.to_display(path)} ({left_out[path]})"
    if len(left_out) > NAMED:
        yield f"... and {len(left_out) - NAMED} more"
