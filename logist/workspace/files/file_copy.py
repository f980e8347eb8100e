"""Copies a file out of a workspace: opens it as safely as evidence, and makes the copy durable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from logist import systems
from logist.errors import UsageError
from logist.workspace.files import agent_files, safe_open

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_file(workspace: Path, path: str, target: Path) -> None:
    """Copy a regular file without hard links to `target` (0600); missing directories are created (0700).

    Atomic: an existing `target` is replaced by the complete copy. Raises UsageError for a path that is not such a
    file, OSError if the copy can't be written.
    """
    with ExitStack() as stack:
        try:
            descriptor, size = stack.enter_context(agent_files.open_agent_file(workspace, path))
        except OSError as error:
            raise UsageError(
                f"`{agent_files.escape_surrogates(path)}` is not a readable regular file in the workspace",
                where=str(workspace),
                fix="use the path of a file in the workspace",
            ) from error
        _make_directories(target.parent)
        _write_atomically(target, safe_open.read_exactly(descriptor, size))


def _make_directories(folder: Path) -> None:
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(each, 0o700)
            os.chmod(each, 0o700)  # independent of the umask
        with safe_open.open_root(each.parent) as parent:
            systems.flush(parent)


def _write_atomically(target: Path, pieces: Iterator[bytes]) -> None:
    temporary = f".logist-{os.urandom(6).hex()}.new"
    with safe_open.open_root(target.parent) as parent:
        descriptor = os.open(temporary, NEW, 0o600, dir_fd=parent)
        try:
            with open(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)
                file.writelines(pieces)
                file.flush()
                systems.flush(descriptor)
            os.rename(temporary, target.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise
        systems.flush(parent)
