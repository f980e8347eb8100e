"""Changes the user's work tree and index to the prepared state: only what differs, never through a link.

At every moment each file is either old or new, git's own lock is held during the change, and a killed command can
be repeated.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from logist import systems
from logist.errors import Refused, StorageError
from logist.workspace.files import file_names, safe_open
from logist.workspace.merge import refs
from logist.workspace.merge.drafting import list_line_end_options
from logist.workspace.merge.refs import MARKER
from logist.workspace.merge.staging import INDEX, STAGING, Move, Staged, with_index
from logist.workspace.merge.swapping import Meanwhile, open_swaps
from logist.workspace.merge.target import Target

MANY = 200
"""From this number of files, one flush of everything is faster than a flush for each file."""

_OPEN = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_merge_leftovers(target: Target) -> None:
    """Clean up after a killed command: remove its lock, but keep files that it has moved in already.

    The caller holds the lock of the target. A lock that may belong to another process is kept.
    """
    folder = target.git.git_dir
    marker = folder / MARKER
    if not os.path.lexists(marker):
        return
    ours = False
    with suppress(FileNotFoundError):
        ours = os.path.samestat(os.lstat(folder / "index.lock"), os.lstat(marker))
    _release_locks(target, index=ours)


def _release_locks(target: Target, *, index: bool) -> None:
    """Remove our locks, including those of a killed git of ours, and all
    other leftovers.
    """
    folder = target.git.git_dir
    refs.remove_stale_locks(folder / MARKER)
    if index:
        (folder / "index.lock").unlink(missing_ok=True)
    _remove_own_files(folder)


def _remove_own_files(folder: Path) -> None:
    shutil.rmtree(folder / STAGING, ignore_errors=True)
    for name in (INDEX, f"{INDEX}.lock", MARKER):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def mark_merge(target: Target, job_id: str, *, index: bool) -> Iterator[None]:
    """Mark the target as ours inside the block, so that leftovers of a killed command are recognized as ours.

    `index`: also hold git's lock of the index; its file is a hard link to the marker. Raises Refused if another
    git has it.
    """
    folder = target.git.git_dir
    try:
        with open(os.open(folder / MARKER, _OPEN, 0o600), "w", encoding="ascii") as file:
            file.write(f"logist job merge --job {job_id}\n")
        if index:
            # A hard link makes git's own lock recognizable as ours: the same inode as the marker. A lock file
            # with another inode belongs to another git and is never removed.
            os.link(folder / MARKER, folder / "index.lock")
    except FileExistsError:
        _remove_own_files(folder)
        fix = "wait until it has finished; if no git is running, remove this file"
        message = "another git process is using this repository, or was killed"
        raise Refused(message, where=str(folder / "index.lock"), fix=fix) from None
    except OSError as error:
        _remove_own_files(folder)
        raise StorageError(error.strerror or str(error), where=str(folder)) from error
    try:
        yield
    finally:
        _release_locks(target, index=index)


def apply_staged(staged: Staged) -> None:
    """Move files and index in, durably. The caller holds the lock of the index, and moves the branch afterwards.

    Raises Refused, with all files unchanged, if one has changed since it was checked.
    """
    move = staged.move
    assert move.target.top is not None
    _flush_files(staged.new)
    try:
        with open_swaps(move.target.top, staged.new, staged.new.parent / "gone") as swap:
            for path in move.changed_paths:
                if path not in move.after:
                    swap.remove_file(path, staged.judged.get(path))
            for path in move.changed_paths:
                if path in move.after:
                    swap.place_file(path, staged.judged.get(path))
            _flush_folders(swap.top, file_names.list_parents(move.changed_paths) | {b""})
            _move_index(staged)
    except Meanwhile as error:
        _raise_changed(move, file_names.to_display(error.path))
    except OSError as error:
        if error.errno not in (*safe_open.GONE, *safe_open.NOT_EMPTY):
            raise
        _raise_changed(move, os.fsdecode(error.filename or "") or error.strerror or str(error))
    flush_folder(move.target.git.git_dir)


def _raise_changed(move: Move, what: str) -> NoReturn:
    message = f"files changed during the merge: {what}"
    fix = "commit, stash or move these changes away, then run the command again"
    raise Refused(message, where=str(move.target.place), fix=fix) from None


def _move_index(staged: Staged) -> None:
    move = staged.move
    git = with_index(move.git, staged.index)
    git.run_for_status(
        f"--work-tree={move.target.top}",
        *list_line_end_options(move.target),
        "update-index",
        "-q",
        "--refresh",
    )
    os.chmod(staged.index, 0o666 & ~move.target.git.umask)
    _flush_file(staged.index)
    os.replace(staged.index, move.target.git.git_dir / "index")


def _flush_files(folder: Path) -> None:
    file_paths = [Path(place, name) for place, _, files in os.walk(folder) for name in files]
    if len(file_paths) >= MANY:
        os.sync()
        return
    for path in file_paths:
        if not path.is_symlink():
            _flush_file(path)


def _flush_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        systems.flush(descriptor)
    finally:
        os.close(descriptor)


def _flush_folders(top: int, folders: set[bytes]) -> None:
    for raw in sorted(folders):
        try:
            with safe_open.open_below(top, raw.split(b"/") if raw else []) as descriptor:
                systems.flush(descriptor)
        except OSError as error:
            if error.errno not in safe_open.GONE:
                raise


def flush_folder(path: Path) -> None:
    """Make the names in a directory durable; a missing directory is ignored."""
    with suppress(FileNotFoundError), safe_open.open_root(path) as descriptor:
        systems.flush(descriptor)
