"""The copy of a job on a worker's machine: a directory like that of a job, with its workspace and what is in flight."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from logist.agents.remote.spool import Spool
from logist.core.model import JsonObject
from logist.errors import Damaged, LogistError, StorageError
from logist.store import JobDir, Lock, files, lock
from logist.timestamps import format_utc
from logist.workspace import Workspace, prepared
from logist.workspace.checkpoint import objects, repository, sharing
from logist.workspace.files import removal
from logist.workspace.git import Git

COMMITS = "commits"
"""The file with the commits that the dispatcher has sent, the last one at the end: the dispatcher has them, too."""
MOST_COMMITS = 20
AT_WORK = "ticket"
"""The file with the ticket of the task that was at work here last: what is in flight belongs to it."""


class Mirror:
    """The copy of one job. Its methods need the lock (`hold`)."""

    def __init__(self, path: Path, rules: JsonObject) -> None:
        """`rules`: `caches` and `max_checkpoint_bytes` of the workspace, as the dispatcher has them."""
        self.path = path
        self.job = JobDir(path, "")  # without its id: no index of jobs is kept here
        self._rules = rules

    @property
    def workspace(self) -> Workspace:
        """The workspace as it is now: what a setup has made in it counts as a cache, so that it stays here."""
        return Workspace(
            self.job.workspace,
            self.job.git_dir,
            caches=self._rules["caches"],
            max_checkpoint_bytes=self._rules["max_checkpoint_bytes"],
            outputs=prepared.read_setup_outputs(self.job.setup_file, self.job.workspace),
        )

    @contextmanager
    def hold(self, command: str, seconds: float) -> Iterator[Lock]:
        """Hold the lock inside the block; a courier inherits it. Raises Busy after `seconds`."""
        with files.convert_os_errors(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.job.logs.mkdir(mode=0o700, exist_ok=True)
        if not self.job.lock_file.exists():
            lock.create_signatures(self.path)
        held = lock.acquire_lock(self.path, command=command, since=format_utc(time.time()), wait=seconds)
        try:
            yield held
        finally:
            held.release()

    def list_commits(self) -> list[str]:
        """Return the commits that both machines have, the last one first."""
        if not self.job.git_dir.is_dir():
            return []
        data = files.read_bytes(self.path / COMMITS) if (self.path / COMMITS).exists() else None
        return list(reversed((data or b"").decode("ascii", "replace").split()))

    def read_ticket(self) -> str:
        """Return the ticket of the task to which the exchanges here belong; empty if there is none."""
        return (files.read_bytes(self.path / AT_WORK, 100) or b"").decode("ascii", "replace")

    def set_up(self, spool: Spool, task: JsonObject) -> None:
        """Make the workspace equal to the checkpoint that a task begins with. Raises LogistError."""
        files.remove_tree(self.job.inflight)
        files.replace_file(self.path / AT_WORK, task["ticket"].encode("ascii"))
        base, commit = task["base"], task["commit"]
        if self.list_commits() and not task["is_complete"]:
            _add_pack(self.workspace.git, task["pack"])
        else:
            self._clear()
            self._begin(spool, base, task["base_pack"], task["pack"])
        self.workspace.restore(commit, clearing=True)
        known = [*reversed(self.list_commits()), *([] if commit == base else [base]), commit]
        files.replace_file(self.path / COMMITS, "\n".join(known[-MOST_COMMITS:]).encode("ascii"))

    def _clear(self) -> None:
        """Remove an earlier copy, of which the dispatcher doesn't know what it has."""
        with suppress(FileNotFoundError):
            os.unlink(self.path / COMMITS)
        removal.remove_directory(self.job.workspace)
        removal.remove_directory(self.job.git_dir)

    def _begin(self, spool: Spool, base: str, base_pack: bytes, pack: bytes) -> None:
        store = open_store(spool, base, base_pack)
        self.workspace.populate_from_parent(store.git_dir, base)
        _add_pack(self.workspace.git, pack)

    def pack_changes(self, commit: str, before: str) -> bytes:
        """Return a pack with what a checkpoint has, and the one before does not."""
        return pack_between(self.workspace.git, commit, [before])


def open_store(spool: Spool, base: str, base_pack: bytes) -> Git:
    """Return the repository with the commits that jobs begin with, after adding one. Raises StorageError if it is missing."""
    git = Git(spool.store, of_job=True)
    with files.lock_directory(spool.path):
        if not spool.store.is_dir():
            repository.create_repository(spool.store, bare=True, long_names=len(base) == 64)
        if base_pack:
            _add_pack(git, base_pack)
            (content,) = objects.read_commits(git, base)
            if b"\nparent " in content.partition(b"\n\n")[0]:
                sharing.add_shallow(git, base)
    return git


def has_commit(git: Git, commit: str) -> bool:
    """Whether a repository has a commit."""
    if not git.git_dir.is_dir():
        return False
    return git.run_for_status("cat-file", "-e", f"{objects.require_commit(commit, git)}^{{commit}}")[0] == 0


def pack_between(git: Git, commit: str, known: Sequence[str]) -> bytes:
    """Return a pack with a commit and its ancestors, without what the commits in `known` have; empty if that is all of it."""
    if commit in known:
        return b""
    lines = [
        objects.require_commit(commit, git),
        *(f"^{objects.require_commit(each, git)}" for each in known),
    ]
    data = "".join(f"{line}\n" for line in lines).encode("ascii")
    return git.run_with_input(
        data, "pack-objects", "--quiet", "--revs", "--window=0", "--delta-base-offset", "--stdout"
    )


def _add_pack(git: Git, pack: bytes) -> None:
    """Add the objects of a pack to a repository; git verifies each of them."""
    if pack:
        git.run_with_input(pack, "index-pack", "--stdin", "--fix-thin")


def add_pack(git: Git, pack: bytes, commit: str) -> None:
    """Add what a worker has sent back. Raises Damaged if the commit that it names isn't complete, StorageError for a full disk."""
    try:
        _add_pack(git, pack)
        complete = git.run_for_status("rev-list", "--objects", "--no-object-names", "--quiet", commit)[0] == 0
    except LogistError as error:
        if any(os.strerror(number) in error.message for number in (errno.ENOSPC, errno.EDQUOT)):
            fix = "free some disk space there and run the command again; the worker still has its result"
            raise StorageError(
                "no room for what a worker has sent", where=str(git.git_dir), fix=fix
            ) from error
        raise Damaged(
            f"the worker has sent a damaged pack: {error.message}", where=str(git.git_dir)
        ) from error
    if not complete:
        raise Damaged("the worker has sent an incomplete pack", where=str(git.git_dir))
