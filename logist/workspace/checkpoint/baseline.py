"""The content of the last checkpoint, with file stamps, so that unchanged files need not be read again.

It is stored in a file in the repository. If that file is lost, the content is read from the repository, and
every file is read.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import field

from logist.quick_dataclass import dataclass
from logist.regular_files import read_regular
from logist.workspace.checkpoint import objects
from logist.workspace.checkpoint.objects import Tree, TreeEntry
from logist.workspace.checkpoint.scan import FileStamp, Unstored
from logist.workspace.files import file_names
from logist.workspace.git import Git

FILE = "logist-stamps"
CLOCK = "logist-clock"
VERSION = 1


@dataclass(frozen=True)
class Baseline:
    """The last checkpoint (None if there is none yet), its content, and the stamps of its files."""

    commit: str | None
    tree: Tree = field(default_factory=dict)
    unstored: dict[bytes, Unstored] = field(default_factory=dict)
    stamps: dict[bytes, FileStamp] = field(default_factory=dict)
    """By stored path: a file that still has this stamp has the same content as in the tree."""

    def list_directories(self) -> frozenset[bytes]:
        """Return the directories in the checkpoint, as raw paths."""
        return find_directories(self.tree)


def find_directories(tree: Tree) -> frozenset[bytes]:
    """Return all directories in a tree, as raw paths."""
    return frozenset(file_names.list_parents(map(file_names.from_stored, tree)))


def load_baseline(git: Git, known: Baseline | None = None) -> Baseline:
    """Return the state at the last checkpoint, from the file if it is valid and up to date, otherwise from the
    repository.

    `known` is a checkpoint that the caller has read already: if it is the last one, git is not run again.
    """
    commit = objects.read_tip(git)
    if commit is None:
        return Baseline(None)
    if from_file := _read_stamps_file(git, commit):
        return from_file
    if known is not None and known.commit == commit:
        return known
    return Baseline(commit, objects.read_tree(git, commit), objects.read_unstored(git, commit)[0])


def save_baseline(git: Git, baseline: Baseline) -> None:
    """Replace the file. It is not flushed: if a power cut damages it, its checksum is wrong."""
    files = {
        file_names.to_json(path): [*entry, *baseline.stamps.get(path, ())]
        for path, entry in baseline.tree.items()
    }
    unstored = {file_names.to_json(path): list(thing) for path, thing in baseline.unstored.items()}
    document = {"version": VERSION, "commit": baseline.commit, "files": files, "unstored": unstored}
    data = json.dumps(document, separators=(",", ":")).encode()
    temporary = git.git_dir / (FILE + ".new")
    temporary.unlink(missing_ok=True)
    with open(temporary, "xb", opener=_open_private) as file:
        file.write(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    temporary.replace(git.git_dir / FILE)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _read_stamps_file(git: Git, commit: str) -> Baseline | None:
    try:
        checksum, _, data = read_regular(git.git_dir / FILE).partition(b"\n")
    except OSError:  # the repository has the same content
        return None
    if hashlib.sha256(data).hexdigest().encode() != checksum:
        return None
    document = json.loads(data)
    if document["version"] != VERSION or document["commit"] != commit:
        return None
    files = {file_names.from_json(path): fields for path, fields in document["files"].items()}
    return Baseline(
        commit,
        {path: TreeEntry(*fields[:2]) for path, fields in files.items()},
        {file_names.from_json(path): Unstored(*fields) for path, fields in document["unstored"].items()},
        {path: FileStamp(*fields[2:]) for path, fields in files.items() if len(fields) > 2},
    )


def read_file_system_time(git: Git) -> int:
    """Return the file system's own time in nanoseconds, as a file that is touched now gets it."""
    descriptor = os.open(
        git.git_dir / CLOCK, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        os.utime(descriptor)
        return os.fstat(descriptor).st_ctime_ns
    finally:
        os.close(descriptor)


def keep_reliable_stamps(stamps: dict[bytes, FileStamp], since: int) -> dict[bytes, FileStamp]:
    """Return the stamps that can be relied on: a file that changed in the same tick as `since` may change again
    with the same stamp.
    """
    return {path: stamp for path, stamp in stamps.items() if stamp.ctime_ns < since}
