"""The `.git` of the workspace, which agents can change: hooks or settings
that one agent adds must not affect the next one.
"""

from __future__ import annotations

import os
import stat

from logist.workspace.checkpoint import objects, repository
from logist.workspace.files import safe_open
from logist.workspace.files.removal import remove_tree
from logist.workspace.git import Git

ALTERNATES = (b"objects", b"info", b"alternates")
"""The file that names the directories from which a repository borrows objects."""
PLANTED = (b"hooks", b"config", b"config.worktree", b"commondir", b"worktrees", b"modules")
"""Files that can make git run programs or use other directories."""
PLANTED_BELOW = ((b"info", b"attributes"), ALTERNATES)


def disarm_git(git: Git, root: int, *, lending: bool = False) -> bool:
    """Remove hooks, settings and references to other places from `.git` in the workspace `root`; return False if it
    must be created again. `lending`: keep the reference to objects, which is Logist's own.
    """
    try:
        status = os.stat(b".git", dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return False
    with safe_open.open_root(git.git_dir) as beside:
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(b".git", dir_fd=root)
            return False
        with safe_open.open_below(root, [b".git"], unlocking=True) as inner:
            safe_open.make_writable(inner)
            for name in PLANTED:
                _remove_entry(beside, inner, [name])
            for parts in PLANTED_BELOW:
                if lending and parts == ALTERNATES:
                    continue
                _remove_entry(beside, inner, list(parts))
            _write_config(inner, long_names=len(objects.read_tip(git) or "") == 64)
    return True


def remove_git(git: Git, root: int) -> None:
    """Remove `.git` from the workspace `root`."""
    remove_entry(git, root, [b".git"])


def remove_entry(git: Git, root: int, parts: list[bytes]) -> None:
    """Remove a path from the workspace `root`, if it is there."""
    with safe_open.open_root(git.git_dir) as beside:
        _remove_entry(beside, root, parts)


def _remove_entry(beside: int, top: int, parts: list[bytes]) -> None:
    try:
        with safe_open.open_below(top, parts[:-1], unlocking=True) as parent:
            safe_open.make_writable(parent)
            status = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                remove_tree(beside, parent, parts[-1])
            else:
                os.unlink(parts[-1], dir_fd=parent)
    except OSError as error:
        if error.errno not in safe_open.GONE:
            raise


def _write_config(inner: int, *, long_names: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(b"config", flags, 0o600, dir_fd=inner), "w", encoding="ascii") as file:
        file.write(repository.build_config(bare=False, long_names=long_names))
