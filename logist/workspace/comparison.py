"""Compares two states of workspaces: the files that differ, and a patch that `git apply` accepts.

Everything is written to a scratch repository that borrows the objects of the jobs: the jobs and the repositories that
their agents own stay untouched, and neither attributes nor settings of an agent can hide a change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Literal

from logist.errors import Refused
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.workspace.checkpoint import changes, objects, repository
from logist.workspace.checkpoint.baseline import ReadCheckpoint
from logist.workspace.checkpoint.changes import ABSENT
from logist.workspace.checkpoint.objects import FILE_MODE, PROGRAM_MODE, Tree
from logist.workspace.checkpoint.scan import DIRECTORY_MODE, Unstored
from logist.workspace.files import file_names
from logist.workspace.files.temporary import open_temporary_directory
from logist.workspace.git import Git, quote_alternate
from logist.workspace.merge.selecting import is_like_git
from logist.workspace.reading import WorkspaceReader

NAMED = 50
"""Maximum number of listed paths that a comparison leaves out."""
_ATTRIBUTES = "* !diff !text !eol !working-tree-encoding\n"
"""These take precedence over all files `.gitattributes`: an agent could declare its changes to be binary."""
_QUICK = "[core]\n\tcompression = 1\n[pack]\n\tdepth = 0\n"
"""What is written to a scratch repository is read once and removed: git would need longer to compress it well than to compare it."""
_PLAIN = ("-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color")

Kind = Literal["created", "modified", "deleted", "renamed", "mode"]


class Side(NamedTuple):
    """One side of a comparison."""

    workspace: WorkspaceReader
    commit: str | None = None
    """A checkpoint; None for the files on disk."""


class FileDifference(NamedTuple):
    """A file that differs."""

    path: str
    kind: Kind
    old_path: str | None
    """The path before, if it was renamed."""
    added: int | None
    """Lines; None for a binary file."""
    deleted: int | None
    mode_before: str
    mode_after: str
    """As in git; 000000 on the side on which the file doesn't exist."""

    def has_new_mode(self) -> bool:
        """Whether the file exists on both sides, with different modes."""
        return self.mode_before != self.mode_after and ABSENT not in (self.mode_before, self.mode_after)


@dataclass(frozen=True)
class WorkspaceComparison:
    """Two trees in a scratch repository."""

    _git: Git
    _before: str
    _after: str
    _paths: tuple[str, ...]
    _commits: tuple[str, str]
    left_out: tuple[str, ...]
    """What differs or may differ and is in no checkpoint, each as `path (reason)`; the first ones and a count."""

    def list_files(self) -> list[FileDifference]:
        """Return the files that differ, by path."""
        output = self._git.run(*self._build_command("-z", "--raw", "--no-abbrev", "--numstat"))
        fields = iter(output.split(b"\0"))
        modes, first_counts = _parse_raw(fields)
        counts = _parse_counts(first_counts, fields)
        return [_make_difference(key, modes[key], counts.get(key, (None, None))) for key in sorted(modes)]

    def compute_digest(self, side: int) -> str:
        """Return the digest of the complete content of side 0 or 1, as `Workspace.examine_content` does."""
        return changes.compute_checkpoint_digest(self._git, self._commits[side])

    @contextmanager
    def open_patch(self, *, binary: bool = True) -> Iterator[IO[bytes]]:
        """Yield the patch as a stream. `binary`: with the content of binary files, so that `git apply` accepts it."""
        with self._git.open_stream(*self._build_command("-p", *(("--binary",) if binary else ()))) as process:
            assert process.stdout is not None
            yield process.stdout
            while process.stdout.read(1 << 20):  # who reads it may have stopped: git must not fail for that
                pass

    def read_patch(self, max_bytes: int) -> tuple[bytes, bool]:
        """Return the patch, without the content of binary files, and whether that is all."""
        return self._git.read_beginning(max_bytes, *self._build_command("-p"))

    def _build_command(self, *options: str) -> tuple[str | bytes, ...]:
        paths = map(os.fsencode, self._paths)
        return ("diff-tree", *_PLAIN, *options, self._before, self._after, "--", *paths)


@contextmanager
def open_comparison(
    before: Side, after: Side, paths: Sequence[str] = (), *, temporary: Sequence[str] = ()
) -> Iterator[WorkspaceComparison]:
    """Compare two sides; `paths`: only these files and directories, relative to the workspace; `temporary`: directories
    for temporary files.

    Nothing of the jobs is written. Raises Refused if the two can't be compared, Damaged, StorageError.
    """
    sources = [before.workspace, after.workspace]
    tips = [objects.read_tip(workspace.git) or "" for workspace in sources]
    if len(set(map(len, filter(None, tips)))) > 1:
        raise Refused(
            "can't compare the jobs: their repositories name objects differently (SHA-1 and SHA-256)"
        )
    with open_temporary_directory("logist-diff-", temporary) as folder:
        git = _create_scratch(folder / "git", sources, long_names=len(max(tips, key=len)) == 64)
        old_side, new_side = _read_side(before, git), _read_side(after, git)
        left_out = _describe_left_out(old_side.unstored, new_side.unstored)
        old = _write_tree(git, old_side.commit, old_side.tree, left_out)
        new = _write_tree(git, new_side.commit, new_side.tree, left_out)
        commits = old_side.commit, new_side.commit
        yield WorkspaceComparison(git, old, new, tuple(paths), commits, _name_first(left_out))


def _read_side(side: Side, git: Git) -> ReadCheckpoint:
    """Return a side as a checkpoint in the scratch repository."""
    if side.commit is None:
        return side.workspace.write_current(git)
    own = side.workspace.git
    (unstored,) = objects.read_unstored(own, side.commit)
    return ReadCheckpoint(side.commit, objects.read_tree(own, side.commit), unstored)


def _create_scratch(git_dir: Path, sources: Sequence[WorkspaceReader], *, long_names: bool) -> Git:
    repository.create_repository(git_dir, bare=True, long_names=long_names)
    for folder in ("info", "objects/info"):
        (git_dir / folder).mkdir(mode=0o700)
    with (git_dir / "config").open("a", encoding="ascii") as config:
        config.write(_QUICK)
    borrowed = dict.fromkeys(workspace.git.git_dir / "objects" for workspace in sources)
    repository.write_file(git_dir / "objects/info/alternates", b"".join(map(quote_alternate, borrowed)))
    repository.write_file(git_dir / "info/attributes", _ATTRIBUTES.encode("ascii"))
    return Git(git_dir, sources[0].git.path, flushing=False)


def _describe_left_out(old: dict[bytes, Unstored], new: dict[bytes, Unstored]) -> dict[bytes, str]:
    """Return the paths that no checkpoint holds, and that are not the same on both sides, each with the reason."""
    differing = {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
    return {_mark_directory(path, old, new): (new.get(path) or old[path]).why for path in differing}


def _mark_directory(path: bytes, *sides: dict[bytes, Unstored]) -> bytes:
    is_directory = any(path in side and side[path].mode == DIRECTORY_MODE for side in sides)
    return path + b"/" if is_directory else path


def _write_tree(git: Git, commit: str, entries: Tree, left_out: dict[bytes, str]) -> str:
    """Return a tree with the names of the workspace; names that git can't have are left out."""
    if not any(file_names.PREFIX in path for path in entries):
        return commit
    lines = []
    for stored, entry in entries.items():
        if file_names.is_placeholder(stored):
            continue
        raw = file_names.from_stored(stored)
        if any(map(is_like_git, raw.split(b"/"))):
            left_out[raw] = "part of a git repository"
        else:
            lines.append(f"{entry.mode} {entry.id}\t".encode() + raw + b"\0")
    git.run("read-tree", "--empty")
    git.run_with_input(b"".join(lines), "update-index", "-z", "--index-info")
    return git.run("write-tree", "--missing-ok").decode("ascii").strip()


def _name_first(left_out: dict[bytes, str]) -> tuple[str, ...]:
    names = [f"{file_names.to_display(path)} ({left_out[path]})" for path in sorted(left_out)]
    more = [f"... and {len(names) - NAMED} more"] if len(names) > NAMED else []
    return (*names[:NAMED], *more)


_Paths = tuple[bytes, bytes | None]
"""The path, and the path before if it was renamed."""


def _parse_raw(fields: Iterator[bytes]) -> tuple[dict[_Paths, tuple[str, str, str]], bytes]:
    """Return the modes before and after, and git's letter for the kind; and the field after all of them."""
    found: dict[_Paths, tuple[str, str, str]] = {}
    for described in fields:
        if not described.startswith(b":"):
            return found, described
        mode_before, mode_after, old_id, new_id, letter = (
            described.decode("ascii").removeprefix(":").split(" ")
        )
        first = next(fields)
        key = (next(fields), first) if letter[0] == "R" else (first, None)
        if letter[0] == "M" and old_id == new_id:
            letter = "X"
        found[key] = (mode_before, mode_after, letter[0])
    return found, b""


def _parse_counts(first: bytes, fields: Iterator[bytes]) -> dict[_Paths, tuple[int | None, int | None]]:
    found: dict[_Paths, tuple[int | None, int | None]] = {}
    for line in filter(None, chain([first], fields)):
        added, deleted, path = line.split(b"\t", 2)
        old = None if path else next(fields)
        counts = (None, None) if added == b"-" else (int(added), int(deleted))
        found[(path or next(fields), old)] = counts
    return found


_KINDS: dict[str, Kind] = {"A": "created", "D": "deleted", "R": "renamed", "X": "mode"}


def _make_difference(
    paths: _Paths, modes: tuple[str, str, str], counts: tuple[int | None, int | None]
) -> FileDifference:
    path, old = paths
    before, after, letter = modes
    kind = _KINDS.get(letter, "modified")
    if kind == "mode" and {before, after} != {FILE_MODE, PROGRAM_MODE}:
        kind = "modified"
    old_path = file_names.to_display(old) if old is not None else None
    return FileDifference(file_names.to_display(path), kind, old_path, *counts, before, after)
