"""Directories, in that of the jobs, where a command makes jobs that nobody may see yet: those of batches and of scrubs.

The command holds an flock on its directory, which the kernel releases when that command dies. So what another command can
lock was left by a killed one.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path

from logist.errors import StorageError
from logist.store import files, lock


def reserve_folder(top: Path, held: ExitStack) -> Path:
    """Create a directory below `top`, which is created too, and take its lock, which `held` keeps."""
    while True:
        path = top / os.urandom(6).hex()
        files.make_directory(top)
        if top.is_symlink() or not top.is_dir():
            fix = f"check it, then remove it: {top}"
            raise StorageError("not a directory of Logist", where=str(top), fix=fix)
        with files.convert_os_errors(path), suppress(FileNotFoundError):
            os.mkdir(path, 0o700)  # another command may just have removed the empty directory above
            if held.enter_context(lock.claim_unfinished_job(path)):
                os.chmod(path, 0o700)  # whatever the umask is
                return path


def list_folders(top: Path) -> list[Path]:
    """List the directories below `top`; none if it is a link: a clone may contain one to a directory elsewhere."""
    if top.is_symlink():
        return []
    with suppress(OSError), os.scandir(top) as scanned:
        return sorted(top / entry.name for entry in scanned if entry.is_dir(follow_symlinks=False))
    return []


def list_abandoned(top: Path) -> list[Path]:
    """List the directories whose commands were killed."""
    abandoned = []
    for path in list_folders(top):
        with lock.claim_unfinished_job(path) as is_abandoned:
            if is_abandoned:
                abandoned.append(path)
    return abandoned
