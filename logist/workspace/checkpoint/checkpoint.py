"""Writes a checkpoint: only new content is sent to one `git
fast-import`; no index, no attributes, no filters.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import IO

from logist.errors import StorageError
from logist.quick_dataclass import dataclass
from logist.workspace.checkpoint import objects, packs
from logist.workspace.checkpoint.objects import BRANCH, TreeEntry
from logist.workspace.checkpoint.snapshot import (
    ContentSource,
    Snapshot,
    SnapshotReading,
    hash_content,
    open_content,
)
from logist.workspace.files import file_names, safe_open
from logist.workspace.git import IDENTITY, Git

COMMIT_MARK = 1

INCOMING = "refs/logist/incoming"

_MOST_FILES, _MOST_BYTES, _MOST_TREES = 500, 1 << 20, 25
"""With more than that, git writes a commit sooner."""

FAST_IMPORT = ("fast-import", "--force", "--quiet", "--done", "--date-format=raw")


def write_checkpoint(git: Git, reading: SnapshotReading, shot: Snapshot, message: str) -> str:
    """Commit the snapshot on top of the last checkpoint, durably; return the commit's id.

    The date is always 0: the history has the time, and the same content gets the same id. The snapshot is
    corrected if a file has changed since it was read.
    """
    with git.open_stream(*FAST_IMPORT, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        sending = Import(reading, shot, process.stdin)
        sending.send_contents()
        sending.send_commit(message)
        commit = process.stdout.readline().decode("ascii").strip()
    if not commit:
        raise StorageError("git fast-import created no commit", where=str(git.git_dir))
    with safe_open.open_root(git.git_dir / "objects" / "pack") as descriptor:
        git.flush(descriptor)
    update_branch(git, commit)
    (git.git_dir / INCOMING).unlink()
    return commit


def write_small_commit(git: Git, reading: SnapshotReading, shot: Snapshot, message: str) -> str | None:
    """Write the commit that `write_checkpoint` would write, to a repository that is removed soon, without starting git.

    None if it is large, or if a file has changed since it was read: then git does it. Nothing is flushed, no branch changed.
    """
    last = reading.last.commit
    size = sum(source.stamp.size for source in shot.fresh.values())
    if last is None or len(last) != 40 or len(shot.tree) > _MOST_FILES or size > _MOST_BYTES:
        return None
    contents: dict[str, tuple[str, bytes]] = {}
    if any(map(file_names.is_placeholder, shot.tree)):
        contents[packs.hash_object("blob", b"")] = "blob", b""
    for name, source in shot.fresh.items():
        try:
            with open_content(reading, source) as (_, pieces):
                content = b"".join(pieces)
        except OSError:
            return None
        if packs.hash_object("blob", content) != name:
            return None
        contents[name] = "blob", content
    tree = _build_trees(shot.tree, contents)
    if tree is None:
        return None
    who = f"{IDENTITY} 0 +0000"
    header = f"tree {tree}\nparent {last}\nauthor {who}\ncommitter {who}\n\n"
    commit = header.encode() + _build_message(message, shot)
    packs.write_pack(git.git_dir, [*contents.values(), ("commit", commit)])
    return packs.hash_object("commit", commit)


def _build_trees(files: objects.Tree, contents: dict[str, tuple[str, bytes]]) -> str | None:
    """Add the trees for these files to `contents`, and return the name of the first; None if there are many directories."""
    folders: dict[bytes, list[tuple[bytes, bytes]]] = {b"": []}
    """The entries of each directory, by path: the key by which git sorts them, and their bytes."""
    for path, entry in files.items():
        above, _, own_name = path.rpartition(b"/")
        line = entry.mode.encode() + b" " + own_name + b"\0" + bytes.fromhex(entry.id)
        folders.setdefault(above, []).append((own_name, line))
        while above and len(folders) <= _MOST_TREES:
            above = above.rpartition(b"/")[0]
            folders.setdefault(above, [])
    if len(folders) > _MOST_TREES:
        return None
    name = ""
    for path in sorted(folders, reverse=True):  # a directory comes before the one that it is in
        content = b"".join(line for _, line in sorted(folders[path]))
        name = packs.hash_object("tree", content)
        contents[name] = "tree", content
        if path:
            above, _, own_name = path.rpartition(b"/")
            folders[above].append((own_name + b"/", b"40000 " + own_name + b"\0" + bytes.fromhex(name)))
    return name


def write_empty_checkpoint(git: Git, message: str) -> str:
    """Write the first checkpoint of an empty workspace: the commit that `write_checkpoint` would create, without
    starting git.
    """
    tree = packs.hash_object("tree", b"")
    who = f"{IDENTITY} 0 +0000"
    header = f"tree {tree}\nauthor {who}\ncommitter {who}\n\n"
    content = header.encode() + _build_message(message, Snapshot())
    packs.write_pack(git.git_dir, [("commit", content), ("tree", b"")])
    commit = packs.hash_object("commit", content)
    update_branch(git, commit)
    return commit


def update_branch(git: Git, commit: str) -> None:
    """Make `commit` the last checkpoint. git itself would do it before its pack is durable."""
    branch = git.git_dir / BRANCH
    new = branch.with_name(f"{branch.name}.lock")
    with open(new, "wb", opener=_open_private) as file:
        file.write(commit.encode() + b"\n")
        file.flush()
        git.flush(file.fileno())
    os.replace(new, branch)
    with safe_open.open_root(branch.parent) as descriptor:
        git.flush(descriptor)


def _open_private(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def flush_directories(git: Git) -> None:
    """Flush the directories of the repository: git flushes its files (core.fsync=all), but not the
    directories that name them.
    """
    for directory in (git.git_dir / "objects" / "pack", git.git_dir / Path(BRANCH).parent, git.git_dir):
        with safe_open.open_root(directory) as descriptor:
            git.flush(descriptor)


@dataclass
class Import:
    """One running fast-import."""

    reading: SnapshotReading
    shot: Snapshot
    stream: IO[bytes]
    marks: dict[str, int] = field(default_factory=dict)
    """Marks by content id."""

    def send_contents(self) -> None:
        for mark, (name, source) in enumerate(list(self.shot.fresh.items()), COMMIT_MARK + 1):
            self._send_content(mark, name, source)

    def _send_content(self, mark: int, expected: str, source: ContentSource) -> None:
        try:
            with open_content(self.reading, source) as (size, pieces):
                self.stream.write(b"blob\nmark :%d\ndata %d\n" % (mark, size))
                name = hash_content(self.reading, size, self._forward_pieces(pieces))
                self.stream.write(b"\n")
        except OSError as error:
            if error.errno not in safe_open.GONE:
                raise
            return self._correct_snapshot(expected, None)
        self.marks[name] = mark
        return self._correct_snapshot(expected, name)

    def _forward_pieces(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.stream.write(piece)
            yield piece

    def _correct_snapshot(self, expected: str, name: str | None) -> None:
        """Make the snapshot match what was sent; paths whose content is gone are dropped."""
        if name == expected:
            return
        for path in [path for path, entry in self.shot.tree.items() if entry.id == expected]:
            mode = self.shot.tree[path].mode
            self.shot.drop_path(path, None, self.shot.fresh[expected].stamp)
            if name is not None:
                self.shot.tree[path] = TreeEntry(mode, name)

    def send_commit(self, message: str) -> None:
        text = _build_message(message, self.shot)
        who = f"{IDENTITY} 0 +0000".encode()
        self.stream.write(b"commit %s\nmark :%d\ncommitter %s\n" % (INCOMING.encode(), COMMIT_MARK, who))
        self.stream.write(b"data %d\n%s\n" % (len(text), text))
        if self.reading.last.commit is not None:
            self.stream.write(b"from %s\n" % self.reading.last.commit.encode())
        self._send_changes()
        self.stream.write(b"\nget-mark :%d\ndone\n" % COMMIT_MARK)
        self.stream.flush()

    def _send_changes(self) -> None:
        before, after = self.reading.last.tree, self.shot.tree
        # Deletions first: a file may become a directory, or a directory a file.
        for path in before.keys() - after.keys():
            self.stream.write(b"D %s\n" % quote_path(path))
        for path in sorted(path for path, entry in after.items() if before.get(path) != entry):
            self._send_entry(path, after[path])

    def _send_entry(self, path: bytes, entry: TreeEntry) -> None:
        mode = entry.mode.encode()
        if file_names.is_placeholder(path):
            self.stream.write(b"M %s inline %s\ndata 0\n\n" % (mode, quote_path(path)))
        else:
            mark = self.marks.get(entry.id)
            reference = b":%d" % mark if mark else entry.id.encode()
            self.stream.write(b"M %s %s %s\n" % (mode, reference, quote_path(path)))


def quote_path(path: bytes) -> bytes:
    """Quote a path with arbitrary characters for fast-import."""
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def _build_message(message: str, shot: Snapshot) -> bytes:
    text = f"{message}\n\n{objects.build_trailer(shot.unstored)}\n"
    return text.encode("utf-8", "backslashreplace").replace(b"\0", b"")
