"""Reads a repository of checkpoints: trees, contents, and the list of what a checkpoint does not hold."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import IO

from logist.core.text.ids import is_commit
from logist.errors import Damaged
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.regular_files import IRREGULAR, read_regular
from logist.workspace.checkpoint import packs, repository
from logist.workspace.checkpoint.scan import MAX_DEPTH, Unstored
from logist.workspace.files import file_names
from logist.workspace.git import Git, open_unnamed_file, require_files

BRANCH = "refs/heads/checkpoints"
_LONGEST_NAME = 100
"""Maximum bytes of a branch file."""

FILE_MODE, PROGRAM_MODE, LINK_MODE, GITLINK_MODE = "100644", "100755", "120000", "160000"

LONGEST_PATH = 4095
"""Maximum bytes of a path that one system call accepts."""

KEPT = "refs/kept/"
"""References to checkpoints that are not ancestors of the last one, for example before a restep or rerun."""

_ORDINARY_FILES = {
    "HEAD": repository.HEAD,
    "config": repository.build_config(bare=True, long_names=False).encode("ascii"),
}
_ONLY_FOR_GIT = ("commondir", "info/grafts", "packed-refs")
"""Files that change what git reads; Logist doesn't write them."""
_MOST_REFERENCES, _MOST_COMMITS = 20, 40
"""With more of them, git reads them sooner."""

TRAILER = "Logist-Unstored: "
"""The last line of a checkpoint's message: a JSON object, `{path: [why, mode, digest]}`."""


class TreeEntry(NamedTuple):
    """One entry of a tree."""

    mode: str
    id: str


Tree = dict[bytes, TreeEntry]
"""By stored path."""


def read_tip(git: Git) -> str | None:
    """Return the last checkpoint; None if there is none. Reads the file instead of starting git."""
    try:
        name = read_regular(git.git_dir / BRANCH, _LONGEST_NAME)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in IRREGULAR:
            raise
        name = b""
    return require_commit(name.decode("ascii", "replace").strip(), git)


def require_commit(commit: str, git: Git) -> str:
    """Return the name of a commit unchanged. Raises Damaged if it is not a valid name."""
    if not is_commit(commit):
        raise _make_missing_error(commit, git)
    return commit


def find_first(git: Git) -> str:
    """Return the commit that the work in the last checkpoint is based on: the first checkpoint, or the commit of the
    source that an update moved it onto.
    """
    return find_base(git, BRANCH)


def find_base(git: Git, commit: str) -> str:
    """Return the same for another checkpoint: an update is a merge whose first parent is the commit of the source."""
    return git.run("rev-list", "--first-parent", "--max-parents=0", commit).decode("ascii").split()[-1]


class RecordedCheckpoint(NamedTuple):
    """A checkpoint in the repository: its parent, and the first line of its message."""

    after: str | None
    subject: str


def list_checkpoints(git: Git) -> dict[str, RecordedCheckpoint]:
    """Return all checkpoints of this repository by commit, including those it was created with.

    The work of children is not included: only first parents of merges are followed.
    """
    few = _list_few_checkpoints(git)  # starting git takes longer
    return list_checkpoints_with_git(git) if few is None else few


def list_checkpoints_with_git(git: Git) -> dict[str, RecordedCheckpoint]:
    """Return the same, of any number of checkpoints in any repository."""
    output = git.run(
        *("rev-list", "--first-parent", "--no-commit-header", "--format=%H%x00%P%x00%s"),
        *(BRANCH, f"--glob={KEPT}*", "--"),
    )
    by_commit = {}
    for line in filter(None, output.decode("utf-8", "replace").split("\n")):
        commit, parents, subject = line.split("\0", 2)
        by_commit[commit] = RecordedCheckpoint(parents.partition(" ")[0] or None, subject)
    return by_commit


def _list_few_checkpoints(git: Git) -> dict[str, RecordedCheckpoint] | None:
    """Read the checkpoints without starting git; None if there are many, or if only git can find or read all of them."""
    reader = _open_packs(git)
    references = _list_references(git.git_dir)
    if reader is None or references is None:
        return None
    roots = _list_cut_off(git.git_dir)
    if roots is None:
        return None
    checkpoints: dict[str, RecordedCheckpoint] = {}
    for reference in references:
        commit: str | None = reference
        while commit is not None and commit not in checkpoints:
            content = reader.read("commit", commit) if len(checkpoints) < _MOST_COMMITS else None
            made = None if content is None else _parse_commit(content)
            if made is None:
                return None
            checkpoints[commit] = made._replace(after=None) if commit in roots else made
            commit = checkpoints[commit].after
    return checkpoints


def _open_packs(git: Git) -> packs.PackReader | None:
    """Return what reads this repository without git. None unless it is as Logist writes it, so that git reads the same.

    Like each git process, it refuses a repository with irregular files.
    """
    if git.of_job:
        require_files(git.git_dir)
    try:
        for name, expected in _ORDINARY_FILES.items():
            if read_regular(git.git_dir / name, len(expected)) != expected:
                return None
    except OSError:
        return None
    if any(os.path.lexists(git.git_dir / name) for name in _ONLY_FOR_GIT):
        return None
    if _list_cut_off(git.git_dir) is None:  # git refuses every command then
        return None
    return packs.PackReader(git.git_dir)


def _list_cut_off(git_dir: Path) -> frozenset[str] | None:
    """Return the commits whose parents git ignores. None if there are many, or if one is unusual."""
    try:
        content = read_regular(git_dir / "shallow", _MOST_REFERENCES * 41).decode("ascii", "replace")
    except FileNotFoundError:
        return frozenset()
    except OSError:
        return None
    commits = content.removesuffix("\n").split("\n") if content else []
    return frozenset(commits) if all(map(is_commit, commits)) else None


def _list_references(git_dir: Path) -> list[str] | None:
    """Return the commits of the branch and of what is kept. None if there are many, or if one is unusual."""
    kept = git_dir / KEPT
    commits = []
    try:
        names = os.listdir(kept) if os.path.lexists(kept) else []
        for path in (git_dir / BRANCH, *(kept / name for name in names)):
            commit = read_regular(path, _LONGEST_NAME).decode("ascii", "replace").removesuffix("\n")
            if not is_commit(commit) or not path.name.isalnum():
                return None
            commits.append(commit)
    except OSError:
        return None
    return commits if len(commits) <= _MOST_REFERENCES else None


def _parse_commit(content: bytes) -> RecordedCheckpoint | None:
    """Return the first parent of a commit, and its subject as git prints it. None if git may understand it differently."""
    head, _, message = content.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    if b"\0" in content or any(line.startswith(b"encoding ") for line in lines):
        return None
    parent = (
        lines[0][len(b"parent ") :].decode("ascii", "replace") if lines[0].startswith(b"parent ") else None
    )
    if not first.startswith(b"tree ") or (parent is not None and not is_commit(parent)):
        return None
    subject: list[bytes] = []
    for line in message.split(b"\n"):
        if text := line.rstrip(b" \t\n\r"):
            subject.append(text)
        elif subject:
            break
    return RecordedCheckpoint(parent, b" ".join(subject).decode("utf-8", "replace"))


@dataclass(frozen=True)
class TreeListing:
    """Everything in a commit, in the order of git: three lists of the same length."""

    paths: list[bytes]
    """Stored paths."""
    modes: list[str]
    ids: list[str]

    @cached_property
    def tree(self) -> Tree:
        # Making tens of thousands of entries with TreeEntry(...) takes twice as long.
        entries = map(partial(tuple.__new__, TreeEntry), zip(self.modes, self.ids, strict=True))
        return dict(zip(self.paths, entries, strict=True))

    @cached_property
    def directories(self) -> set[bytes]:
        """All directories above the stored paths, without the root."""
        return file_names.list_parents(self.paths)

    @cached_property
    def is_plain(self) -> bool:
        """Whether git can write all of it into a workspace, and a scan finds just the same there.

        Not with names that git can't store, empty directories, submodules or very deep directories; nor if a path is
        unsound or there twice.
        """
        paths = self.paths
        if not file_names.are_plain(paths) or GITLINK_MODE in self.modes or len(set(paths)) < len(paths):
            return False
        return (
            max(map(len, paths)) <= LONGEST_PATH
            and max((path.count(b"/") for path in self.directories), default=0) < MAX_DEPTH
            and self.directories.isdisjoint(paths)
            and not self.has_refused_link
        )

    @cached_property
    def has_refused_link(self) -> bool:
        """Whether git refuses a name: an agent may leave a symbolic link `.gitmodules` in its workspace."""
        return LINK_MODE in self.modes and any(
            mode == LINK_MODE and b".gitmodules" in path.lower().split(b"/")
            for path, mode in zip(self.paths, self.modes, strict=True)
        )


def read_listing(git: Git, commit: str) -> TreeListing:
    """Return everything in a commit."""
    output = b"\0" + git.run("ls-tree", "-r", "-z", "--full-tree", require_commit(commit, git))
    # One entry is `<mode> blob <id><tab><path>`, or `160000 commit ...`; the id is as long as that of a commit.
    lines = output.replace(b"\x00160000 commit ", b"\x00160000 blob ").split(b"\0")[1:-1]
    modes = {mode: _normalize_mode(mode.decode("ascii")) for mode in {line[:6] for line in lines}}
    start, end = len("100644 blob "), len("100644 blob ") + len(commit)
    return TreeListing(
        [line[end + 1 :] for line in lines],
        [modes[line[:6]] for line in lines],
        b" ".join([line[start:end] for line in lines]).decode("ascii").split(),
    )


def read_tree(git: Git, commit: str) -> Tree:
    """Return everything in a commit by stored path."""
    reader = _open_packs(git)
    few = None if reader is None else reader.list_tree(require_commit(commit, git))
    if few is None:
        return read_listing(git, commit).tree
    return {path: TreeEntry(mode.decode("ascii"), name) for path, mode, name in few}


def _normalize_mode(mode: str) -> str:
    """Normalize modes such as 100664, which old repositories contain."""
    if not mode.startswith("100"):
        return mode
    return PROGRAM_MODE if int(mode, 8) & 0o100 else FILE_MODE


def read_unstored(git: Git, *commits: str) -> list[dict[bytes, Unstored]]:
    """Return what each of these checkpoints does not hold. Raises Damaged if one is missing."""
    return [read_trailer(content) for content in read_commits(git, *commits)]


def read_commits(git: Git, *commits: str) -> list[bytes]:
    """Return the content of these commits: headers and message. Raises Damaged if one is missing."""
    names = [require_commit(commit, git) for commit in commits]
    packed = [
        packs.read_commit(git.git_dir, name) for name in names
    ]  # starting git takes as long as many of these
    contents = [content for content in packed if content is not None]
    if len(contents) == len(names):
        return contents
    with open_contents(git, names) as each:
        return [b"".join(pieces) for pieces in each]


def read_trailer(message: bytes) -> dict[bytes, Unstored]:
    """Parse the last line of a commit; {} for a commit that is not Logist's."""
    last = message.decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2]
    if not last.startswith(TRAILER):
        return {}
    try:
        return {
            file_names.from_json(path): Unstored(*fields)
            for path, fields in json.loads(last[len(TRAILER) :]).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}


def build_trailer(things: dict[bytes, Unstored]) -> str:
    return TRAILER + json.dumps({file_names.to_json(path): list(things[path]) for path in sorted(things)})


@contextmanager
def open_contents(git: Git, ids: Iterable[str]) -> Iterator[Iterator[Iterator[bytes]]]:
    """Yield the contents of these objects in order, each in pieces that must
    be consumed before the next.
    """
    names = list(ids)
    with open_unnamed_file() as wanted:
        wanted.writelines(name.encode() + b"\n" for name in names)
        wanted.seek(0)
        with git.open_stream("cat-file", "--batch", stdin=wanted) as process:
            assert process.stdout is not None
            yield _iter_objects(git, process.stdout, len(names))


def _iter_objects(git: Git, output: IO[bytes], count: int) -> Iterator[Iterator[bytes]]:
    for _ in range(count):
        header = output.readline()
        if not header:
            raise BrokenPipeError  # git was killed; `open_stream` reports it
        fields = header.split()
        if len(fields) != 3:
            raise _make_missing_error(header.split(b" ")[0].decode("ascii", "replace"), git)
        yield _iter_pieces(output, int(fields[2]))
        output.read(1)


def _iter_pieces(output: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0:
        piece = output.read(min(size, 1 << 20))
        if not piece:
            raise BrokenPipeError
        size -= len(piece)
        yield piece


def _make_missing_error(name: str, git: Git) -> Damaged:
    return Damaged(
        f"missing in the checkpoint repository: {name!r}",
        where=str(git.git_dir),
        fix="restore the git directory of the job from a backup",
    )
