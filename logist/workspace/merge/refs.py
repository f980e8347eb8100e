"""Moves branches: git first locks all of them, and moves them when the files are in place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from logist.errors import Refused, StorageError
from logist.quick_tuple import NamedTuple
from logist.workspace.git import Git
from logist.workspace.merge.target import Target

MARKER = "logist-merge"
"""A file in the repository during a merge: which job is merged, and which locks git takes for Logist."""
HEAD = "HEAD"
PROMPT_SECONDS = 10
"""Seconds in which git takes its locks after the marker was written."""


class Update(NamedTuple):
    """A reference to move."""

    name: str
    new: str
    old: str | None
    """None: the reference must not exist."""


@contextmanager
def prepare_updates(
    target: Target, git: Git, updates: Sequence[Update], reason: str
) -> Iterator[Callable[[], None]]:
    """Lock these references, and yield a function that moves them all.

    Raises Refused if another git has locked or moved one of them.
    """
    if not updates:
        yield lambda: None
        return
    marker = target.git.git_dir / MARKER
    _write_claim(target, marker, updates)
    lines = [f"update {each.name} {each.new} {each.old or '0' * len(each.new)}" for each in updates]
    ready, started = False, None
    try:
        with git.open_stream("update-ref", "-m", reason, "--stdin", stdin=subprocess.PIPE) as process:
            started = process
            # git's two-phase commit of references: after `prepare` git holds all their locks, and `commit` almost
            # never fails. In between, the files of the work tree are moved.
            ready = _send_lines(process, ["start", *lines, "prepare"], "prepare: ok")
            if ready:
                try:
                    yield lambda: _commit_updates(target, process)
                except BaseException:
                    with suppress(OSError):
                        _send_lines(process, ["abort"], "abort: ok")
                    raise
    except StorageError as error:
        if ready or (started is not None and started.returncode < 0):
            raise  # the locks of a killed git are still ours
        _write_marker(marker, [])  # existing locks belong to another git
        _raise_refused(target, error)


def _send_lines(process: subprocess.Popen[bytes], lines: Sequence[str], answer: str) -> bool:
    """Send lines to git; return whether it prints this answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(os.fsencode("".join(f"{line}\n" for line in lines)))
    process.stdin.flush()
    return any(line.strip() == answer.encode("ascii") for line in process.stdout)


def _commit_updates(target: Target, process: subprocess.Popen[bytes]) -> None:
    if not _send_lines(process, ["commit"], "commit: ok"):
        fix = "check the disk and its free space, then run the command again"
        raise StorageError("git can't move the branch", where=str(target.place), fix=fix)


def _raise_refused(target: Target, error: StorageError) -> NoReturn:
    where = str(target.place)
    if "File exists" in error.message:
        lock = next((part for part in error.message.split("'") if part.endswith(".lock")), where)
        _raise_lock_held(lock)
    if "but expected" in error.message or "already exists" in error.message:
        message = "the checked-out branch or the branch of the job changed during the merge"
        raise Refused(message, where=where, fix="run the command again") from None
    raise error


def _raise_lock_held(lock: str) -> NoReturn:
    fix = "wait until it has finished; if no git is running, remove this file"
    raise Refused(
        "another git process is using this repository, or was killed", where=lock, fix=fix
    ) from None


def _list_locks(target: Target, updates: Sequence[Update]) -> list[Path]:
    """Return the lock files of these references."""
    locks = [target.common / f"{each.name}.lock" for each in updates if each.name != HEAD]
    if any(each.name == HEAD for each in updates):
        locks.append(target.git.git_dir / "HEAD.lock")
        locks += [target.common / f"{target.branch}.lock"] if target.branch else []
    return locks


def require_free(target: Target, updates: Sequence[Update]) -> None:
    """Raise Refused if another git holds one of the locks."""
    for lock in _list_locks(target, updates):
        if os.path.lexists(lock):
            _raise_lock_held(str(lock))


def _write_claim(target: Target, marker: Path, updates: Sequence[Update]) -> None:
    """Record which locks git is about to take, so that they are recognized as ours after a kill.

    Raises Refused.
    """
    require_free(target, updates)
    new = [b"new " + each.new.encode("ascii") for each in updates]
    _write_marker(marker, [*new, *(b"lock " + os.fsencode(lock) for lock in _list_locks(target, updates))])


def _write_marker(marker: Path, lines: Sequence[bytes]) -> None:
    """Append these to the first line, each after a zero byte; in place, because the lock of the index is a hard
    link to the file.
    """
    with open(marker, "r+b") as file:
        first = file.readline().rstrip(b"\n")
        file.seek(0)
        file.truncate()
        file.write(b"\0".join([first + b"\n", *lines]))


def remove_stale_locks(marker: Path) -> None:
    """Remove the reference locks that a killed git of ours left, but no locks of other processes.

    Ours did not exist when the marker was written, and are empty or contain what our git was about to write.
    """
    try:
        begun, lines = os.stat(marker).st_mtime_ns, marker.read_bytes().split(b"\0")[1:]
    except FileNotFoundError:
        return
    new = [line[4:] for line in lines if line.startswith(b"new ")]
    for lock in [os.fsdecode(line[5:]) for line in lines if line.startswith(b"lock ")]:
        with suppress(FileNotFoundError):
            late = os.lstat(lock).st_mtime_ns - begun
            if 0 <= late <= PROMPT_SECONDS * 10**9 and Path(lock).read_bytes().strip() in [b"", *new]:
                os.unlink(lock)
