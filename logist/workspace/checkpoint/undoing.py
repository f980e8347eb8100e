"""Undoes forbidden changes: builds a tree from two checkpoints that has
only the allowed changes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress

from logist.workspace.checkpoint import changes
from logist.workspace.checkpoint.changes import ABSENT
from logist.workspace.checkpoint.objects import Tree, TreeEntry
from logist.workspace.checkpoint.scan import CACHE, Unstored
from logist.workspace.files import file_names, safe_open
from logist.workspace.files.removal import remove_tree


def build_target(old: Tree, new: Tree, forbidden: Collection[str]) -> Tree:
    """Return `new` with every change of a forbidden kind reverted to `old`.

    If a file would have to replace a directory, the old state is kept.
    """
    wanted = dict(new)
    restored: set[bytes] = set()
    for each in changes.compare_trees(old, new):
        if each.get_kind() not in forbidden or file_names.is_placeholder(each.path):
            continue
        if each.mode_before == ABSENT:
            del wanted[each.path]
        else:
            wanted[each.path] = TreeEntry(each.mode_before, each.id_before)
            restored.add(each.path)
    _clear_way(wanted, old, restored)
    _settle_placeholders(wanted, old, new, forbidden)
    return wanted


def _clear_way(wanted: Tree, old: Tree, restored: set[bytes]) -> None:
    """Remove what is in the way of restored files: files above them, and entries below them."""
    above = file_names.list_parents(restored)
    for path in [path for path in wanted if path not in old]:
        in_the_way = path in above or bool(file_names.list_parents([path]) & restored)
        if in_the_way:
            del wanted[path]


def _settle_placeholders(wanted: Tree, old: Tree, new: Tree, forbidden: Collection[str]) -> None:
    """Correct the placeholders of empty directories: they are added and removed like files, and a directory with
    content needs none.
    """
    for path in [path for path in wanted if file_names.is_placeholder(path)]:
        if path not in old and "created" in forbidden:
            del wanted[path]
    peopled = file_names.list_parents(new)
    for path in old:
        if file_names.is_placeholder(path) and path not in new:
            was_removed = path.rpartition(b"/")[0] not in peopled
            if not was_removed or "deleted" in forbidden:
                wanted[path] = old[path]
    full = file_names.list_parents(path for path in wanted if not file_names.is_placeholder(path))
    for path in [path for path in wanted if file_names.is_placeholder(path)]:
        folder = path.rpartition(b"/")[0]
        if folder in full or folder in wanted:
            del wanted[path]


def list_new_unstored(old: dict[bytes, Unstored], new: dict[bytes, Unstored], known: Tree) -> Iterator[bytes]:
    """Yield the raw paths of new files that no checkpoint holds and that are not caches."""
    for path, thing in new.items():
        if path not in old and thing.why != CACHE and file_names.to_stored(path) not in known:
            yield path


def remove_path(top: int, beside: int, raw: bytes) -> bool:
    """Remove a file of any kind, or a directory with its content, from the
    workspace; return False if that fails.
    """
    *above, name = raw.split(b"/")
    with suppress(OSError), safe_open.open_below(top, above, unlocking=True) as parent:
        safe_open.make_writable(parent)
        try:
            os.unlink(name, dir_fd=parent)
        except (IsADirectoryError, PermissionError):
            remove_tree(beside, parent, name)
        return True
    return False
