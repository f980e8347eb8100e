"""The past commits of the user's repository in a workspace, for `git log`, `git blame` and `git bisect`.

They are copies in the `.git` of the workspace, which Logist never reads. A reference to the objects of the user
(alternates) would also make other branches, stashes and removed commits readable, and it would break when the user
moves or cleans the repository; through a hard link, an agent could change the user's file. So only what the first commit
of the work has in its past is copied, and neither the checkpoints nor a pack of the job contain it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from logist.core.text.ids import is_commit
from logist.errors import StorageError
from logist.quick_dataclass import dataclass
from logist.regular_files import read_regular
from logist.workspace.checkpoint import objects, repository, sharing
from logist.workspace.git import Git

Extent = Literal["none", "shallow", "full"]
"""How much of the past is readable, as in the setting `workspace.history`."""
SHALLOW_COMMITS = 1_000
"""How many commits are readable with `shallow`; the parents of these are added, so that each has its changes."""
RECORD = "logist-history"
_LONGEST_RECORD = 100_000
_CONTINUED = "Work of another job, which this job continues\n"


@dataclass(frozen=True)
class ReadableHistory:
    """What the agents of a job may read of the past; recorded when the job is created."""

    extent: Extent
    objects: Path
    """The directory with the objects of the user's repository."""
    starts: Mapping[str, str] = field(default_factory=dict)
    """For a job that continues another one: the checkpoint that it begins with, and the user's commit below."""

    def find_start(self, base: str) -> str:
        """Return the commit of the user's repository that the work is based on."""
        return self.starts.get(base, base)


def load_history(git_dir: Path) -> ReadableHistory | None:
    """Return what the repository of checkpoints says; None if the past is not readable.

    A job that came with a clone could name any repository of this machine. So the record contains the inode of its own
    directory, which the author of a clone can't know.
    """
    try:
        record = json.loads(read_regular(git_dir / RECORD, _LONGEST_RECORD))
        extent, place, starts = record["extent"], record["objects"], dict(record["starts"])
        is_ours = record["inode"] == os.stat(git_dir).st_ino
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    is_valid = extent in ("shallow", "full") and isinstance(place, str)
    is_valid = is_valid and all(
        isinstance(name, str) and is_commit(name) for pair in starts.items() for name in pair
    )
    return ReadableHistory(extent, Path(place), starts) if is_ours and is_valid else None


def has_record(git_dir: Path) -> bool:
    """Whether the `.git` of the job's workspace may contain past commits."""
    return os.path.lexists(git_dir / RECORD)


def save_history(git_dir: Path, history: ReadableHistory) -> None:
    """Write the record of a new job."""
    repository.write_file(git_dir / RECORD, _build_record(git_dir, history).encode("ascii"))


def _build_record(git_dir: Path, history: ReadableHistory) -> str:
    record = {
        "extent": history.extent,
        "objects": str(history.objects),
        "starts": dict(history.starts),
        "inode": os.stat(git_dir).st_ino,
    }
    return f"{json.dumps(record)}\n"


def move_history(git: Git, place: Path) -> None:
    """Read the past from another directory of objects from now on: the user's repository has moved."""
    history = load_history(git.git_dir)
    if history is not None and history.objects != place:
        moved = replace(history, objects=place)
        repository.replace_file(git, RECORD, _build_record(git.git_dir, moved))


def inherit_history(original: Git, git_dir: Path, start: str | None = None) -> None:
    """Write the record of a job that is made from another one: the same past is readable in it.

    `start`: the only checkpoint of the other job that the new one knows.
    """
    history = load_history(original.git_dir)
    if history is None:
        return
    if start is not None:
        below = history.find_start(objects.find_base(original, start))
        history = replace(history, starts={} if below == start else {start: below})
    save_history(git_dir, history)


def copy_history(git: Git, inner: Git, base: str, history: ReadableHistory) -> str | None:
    """Copy `base` and its past into the new repository `inner`. If that is impossible, change nothing and return why.

    `git` is the repository of checkpoints, which has `base`. If that is not a commit of the user, the branch of `inner` gets
    a commit with the same files on top of the user's.
    """
    try:
        _copy_history(git, inner, base, history)
    except (OSError, StorageError) as error:
        (inner.git_dir / sharing.SHALLOW).unlink(missing_ok=True)
        for left in (inner.git_dir / sharing.PACKS).glob("tmp_*"):
            with suppress(OSError):
                left.unlink()
        reason = error.message if isinstance(error, StorageError) else error.strerror or str(error)
        if any(history.objects.glob("pack/*.promisor")):
            reason = "a partial clone lacks old files; to fetch them: git fetch --refetch --no-filter"
        return f"no past commits in the workspace (workspace.history: {history.extent}): {reason} ({history.objects.parent})"
    return None


def _copy_history(git: Git, inner: Git, base: str, history: ReadableHistory) -> None:
    if not history.objects.is_dir():
        raise StorageError("git repository not found", where=str(history.objects))
    start = history.find_start(base)
    shallow = inner.git_dir / sharing.SHALLOW
    with suppress(FileNotFoundError):  # the user's clone may be shallow, too
        repository.write_file(shallow, read_regular(history.objects.parent / sharing.SHALLOW))
    borrowing = inner.borrow_objects(history.objects, git.git_dir / "objects")
    cut_off = _list_cut_off(borrowing, start, history.extent)
    shallow.unlink(missing_ok=True)
    if cut_off:
        repository.write_file(shallow, "".join(f"{commit}\n" for commit in cut_off).encode("ascii"))
    tip = start if start == base else _write_start(borrowing, base, start)
    sharing.pack_history(borrowing, tip)
    (inner.git_dir / "refs" / "heads" / "main").write_text(f"{tip}\n", "ascii")


def _list_cut_off(borrowing: Git, start: str, extent: Extent) -> list[str]:
    """Return the readable commits whose parents are not readable."""
    try:
        known = set(read_regular(borrowing.git_dir / sharing.SHALLOW).decode("ascii").split())
    except FileNotFoundError:
        known = set()
    if extent == "full" and not known:
        return []
    limit = (f"--max-count={SHALLOW_COMMITS}",) if extent == "shallow" else ()
    listed = borrowing.run("rev-list", "--boundary", *limit, start).decode("ascii").split()
    last = {name[1:] for name in listed if name.startswith("-")}
    return sorted(last | known.intersection(listed))


def _write_start(borrowing: Git, base: str, start: str) -> str:
    """Write a commit with the files of the checkpoint `base` on top of the user's commit `start`; return its name.

    It has the date of `start`: checkpoints have none, and `git log --since` ends at a commit that is too old.
    """
    date = (
        borrowing.run("rev-list", "--no-commit-header", "--max-count=1", "--format=%ct", start)
        .decode("ascii")
        .strip()
    )
    dates = tuple((name, f"@{date} +0000") for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"))
    dated = replace(borrowing, variables=(*borrowing.variables, *dates))
    written = dated.run_with_input(_CONTINUED.encode("ascii"), "commit-tree", f"{base}^{{tree}}", "-p", start)
    return written.decode("ascii").strip()
