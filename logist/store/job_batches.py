"""Gives many new jobs their names at once: other commands see all of them or none, also after a kill or a power cut.

The jobs of a batch are made in a directory in `.batches` of the jobs directory, see `hidden_folders`. No file system
renames many directories at once, so:

1. everything in the directory is flushed;
2. the list `unpublished` in it, also flushed, names the jobs, and every command leaves them out from now on;
3. each job is moved into the jobs directory;
4. the list is removed: this publishes them.

If the command is killed before the last step, the next command that creates or deletes a job undoes the others.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from logist.core.text.ids import is_job_id
from logist.errors import Refused, StorageError
from logist.store import files, hidden_folders, job_index, lock
from logist.store.flushing import flush_many
from logist.store.listing import BATCHES, UNPUBLISHED, has_seen_all, read_unpublished

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def publish_batch(jobs_dir: Path, folder: Path, ids: Sequence[str]) -> None:
    """Move the jobs from the directory of a batch into the jobs directory, where all of them appear at the same time.

    Raises Refused if one of the names is taken; `remove_batch` then undoes the rest.
    """
    flush_many(folder)
    with files.convert_os_errors(folder):
        inodes = {job_id: os.lstat(folder / job_id).st_ino for job_id in ids}
        files.replace_file(folder / UNPUBLISHED, files.dump_json(inodes))
        files.sync_directory(folder.parent)
        for job_id in ids:
            job_index.mark_change(str(jobs_dir), job_id)
            _move_job(folder / job_id, jobs_dir / job_id)
        files.sync_directory(jobs_dir)
        files.sync_directory(folder)
        os.unlink(folder / UNPUBLISHED)
    files.sync_directory(folder)
    job_index.record_changes(str(jobs_dir), ids)


def _move_job(path: Path, final: Path) -> None:
    try:
        os.rename(path, final)
    except OSError as error:
        # rename can only replace an empty directory, and no job is empty
        if error.errno in _TAKEN:
            message = f"job {final.name!r} already exists; no job was created"
            raise Refused(message, where=str(final), fix="choose another id") from error
        raise


def remove_batch(jobs_dir: Path, folder: Path) -> None:
    """Remove the directory of a batch, and its jobs if they are not published. The caller holds its lock."""
    inodes = read_unpublished(str(folder))
    if inodes is not None:
        moved = [job_id for job_id, inode in inodes.items() if _is_moved(jobs_dir / job_id, inode)]
        with files.convert_os_errors(folder):
            # A power cut may have lost step 4 after another command has already worked on a job: then all are published.
            if all(map(_is_untouched, (jobs_dir / job_id for job_id in moved))):
                for job_id in moved:
                    os.rename(jobs_dir / job_id, folder / job_id)
                files.sync_directory(jobs_dir)
            # Without the list, what is left in the directory is only rubbish.
            os.unlink(folder / UNPUBLISHED)
        files.sync_directory(folder)
        job_index.record_changes(str(jobs_dir), list(inodes))
    files.remove_tree(folder)
    with suppress(OSError):
        os.rmdir(folder.parent)


def _is_moved(path: Path, inode: int) -> bool:
    """Whether this is the job of the batch, and not one of the same name from another command, or from a stranger."""
    try:
        return is_job_id(path.name) and os.lstat(path).st_ino == inode
    except OSError:
        return False


def _is_untouched(path: Path) -> bool:
    """Whether nothing has happened in a job since it was created."""
    try:
        state = json.loads((path / "state.json").read_bytes())
        is_first = state["head"]["sequence"] == 1
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return is_first and has_seen_all(str(path), state) and not os.path.lexists(path / "inflight")


def remove_abandoned_batches(jobs_dir: Path) -> None:
    """Remove what killed commands have left of batches. One that can't be removed stays for `doctor`."""
    for path in hidden_folders.list_folders(jobs_dir / BATCHES):
        with suppress(StorageError, OSError), lock.claim_unfinished_job(path) as is_abandoned:
            if is_abandoned:
                remove_batch(jobs_dir, path)
    with suppress(OSError):
        os.rmdir(jobs_dir / BATCHES)
