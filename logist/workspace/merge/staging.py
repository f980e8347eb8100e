"""Prepares a change of the user's work tree: the files as git would write them; refused if the user would
lose anything.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import NoReturn

from logist.errors import Refused
from logist.quick_dataclass import dataclass
from logist.workspace.checkpoint import changes
from logist.workspace.checkpoint.changes import PathDifference
from logist.workspace.checkpoint.objects import GITLINK_MODE, Tree, TreeEntry
from logist.workspace.files import file_names, safe_open
from logist.workspace.git import Git
from logist.workspace.merge.drafting import list_line_end_options
from logist.workspace.merge.swapping import KnownFile, identify_file
from logist.workspace.merge.target import Target

INDEX, STAGING = "logist-index", "logist-staging"
"""The next index, and the next files."""
NAMED = 20
"""Maximum number of files in a message."""


@dataclass(frozen=True)
class Move:
    """A change from the checked-out commit to another commit; `git` has both."""

    target: Target
    git: Git
    before: Tree
    after: Tree
    head: str
    """The checked-out commit; the empty tree if there is none."""
    commit: str

    @cached_property
    def differences(self) -> list[PathDifference]:
        return list(changes.compare_trees(self.before, self.after))

    @cached_property
    def changed_paths(self) -> list[bytes]:
        """The paths of the files that differ."""
        return sorted(each.path for each in self.differences)


@dataclass(frozen=True)
class Staged:
    """A prepared move: the next index, and the new files, both as git would write them."""

    move: Move
    index: Path
    old: Path
    new: Path
    judged: dict[bytes, KnownFile] = field(default_factory=dict)
    """The files in the work tree that matched one of the two commits when they were checked."""


def stage_move(move: Move, folder: Path) -> Staged:
    """Prepare the move in `folder`. Raises Refused if the user would lose
    anything; nothing is changed yet.
    """
    target, index, staging = move.target, folder / INDEX, folder / STAGING
    assert target.top is not None
    staged = Staged(move, index, staging / "old", staging / "new")
    staging.mkdir(mode=0o700)
    _require_no_submodule(move)
    _require_no_filter(move, staged)
    own = target.git.git_dir / "index"
    if own.exists():
        shutil.copyfile(own, index)
    git = with_index(move.git, index)
    _require_unstaged(move, git)
    _require_checked_out(move, git)
    present = [path for path in move.changed_paths if path in move.before]
    _check_out(move, git, [path for path in present if path in _read_index(git)], staged.old)
    # git itself writes the new files, to a directory next to the work tree, because the user's rules for line
    # endings, modes and links must apply. With -i: otherwise git compares the changed names with files of the current
    # directory, which is not the work tree.
    git.run("read-tree", "-m", "-i", move.head, move.commit)
    _check_out(move, git, [path for path in move.changed_paths if path in move.after], staged.new)
    return replace(staged, judged=_check_files(staged))


def with_index(git: Git, index: Path) -> Git:
    return replace(git, variables=(*git.variables, ("GIT_INDEX_FILE", str(index))))


def _require_no_submodule(move: Move) -> None:
    submodules = [
        each.path for each in move.differences if GITLINK_MODE in (each.mode_before, each.mode_after)
    ]
    if submodules:
        fix = move.target.by_branch
        message = f"can't merge changes of submodules: {format_paths(submodules)}"
        raise Refused(message, where=str(move.target.place), fix=fix)


def _require_no_filter(move: Move, staged: Staged) -> None:
    """Raise Refused for files that need a filter program of the user (such
    as git-lfs).
    """
    settings = move.target.settings
    drivers = {
        name.split(".", 1)[1].rpartition(".")[0]
        for name in settings
        if name.startswith("filter.") and name.endswith((".smudge", ".process", ".clean"))
    }
    if not drivers:
        return
    index = staged.new.parent / "attributes"
    git = with_index(move.git, index)
    git.run("read-tree", move.commit)
    paths_input = b"".join(path + b"\0" for path in move.changed_paths)
    fields = git.run_with_input(paths_input, "check-attr", "--cached", "-z", "--stdin", "filter").split(b"\0")
    filtered = [
        path
        for path, value in zip(fields[0::3], fields[2::3], strict=False)
        if file_names.to_display(value).lower() in drivers
    ]
    if filtered:
        fix = move.target.by_branch
        message = f"can't merge files that need git filters: {format_paths(filtered)}"
        raise Refused(message, where=str(move.target.place), fix=fix)


def _read_index(git: Git) -> dict[bytes, tuple[str, TreeEntry]]:
    """Return the content of the index, by path: git's letter for its state, and the entry."""
    indexed = {}
    for line in filter(None, git.run("ls-files", "-v", "-s", "-z").split(b"\0")):
        described, _, path = line.partition(b"\t")
        tag, mode, name, number = described.decode("ascii").split(" ")
        indexed[path] = ("M" if number != "0" else tag, TreeEntry(mode, name))
    return indexed


def _require_unstaged(move: Move, git: Git) -> None:
    """Raise Refused if the index has a file that differs from both commits."""
    indexed = _read_index(git)
    unmerged = [path for path, (tag, _) in indexed.items() if tag == "M"]
    sides = (move.before, move.after)
    absent = ("", None)
    staged = [
        path
        for path in move.changed_paths
        if indexed.get(path, absent)[1] not in [side.get(path) for side in sides]
    ]
    if unmerged or staged:
        _raise_refused(move.target, "have staged changes, and the job changes them too", unmerged or staged)


def _require_checked_out(move: Move, git: Git) -> None:
    """Raise Refused for files that are marked skip-worktree: git leaves them out of the work tree, or does
    not change them there.
    """
    indexed = _read_index(git)
    skipped = [path for path in move.changed_paths if path in indexed and indexed[path][0] in "Ss"]
    if skipped:
        fix = f"run git update-index --no-skip-worktree on them, or: {move.target.by_branch}"
        message = f"can't merge files that git is set to skip (skip-worktree): {format_paths(skipped)}"
        raise Refused(message, where=str(move.target.place), fix=fix)


def _check_out(move: Move, git: Git, paths: Sequence[bytes], place: Path) -> None:
    """Write files as git would write them into the work tree, with the line
    endings that the user has configured.
    """
    place.mkdir(mode=0o700)
    options = ("checkout-index", f"--prefix={place}/", "-f", "-q", "-z", "--stdin")
    work_tree = f"--work-tree={move.target.top}"
    git.run_with_input(
        b"".join(path + b"\0" for path in paths), work_tree, *list_line_end_options(move.target), *options
    )


def _check_files(staged: Staged) -> dict[bytes, KnownFile]:
    """Return the existing files that the move changes, each identified before its content was read.

    Raises Refused for files that match neither the old nor the new state, and for anything in the way.
    """
    move = staged.move
    assert move.target.top is not None
    changed, in_the_way = [], []
    judged: dict[bytes, KnownFile] = {}
    with (
        safe_open.open_root(move.target.top) as top,
        safe_open.open_root(staged.old) as old,
        safe_open.open_root(staged.new) as new,
    ):
        for path in move.changed_paths:
            state, known_file = _inspect_path(top, path, [old, new])
            if known_file is not None:
                judged[path] = known_file
            if state == "other" and path in move.before:
                changed.append(path)
            elif state != "fine" and not _makes_room(move, top, path, state):
                in_the_way.append(path)
    if changed and (changed := _filter_changed(move, changed)):
        _raise_refused(move.target, "have uncommitted changes, and the job changes them too", changed)
    if in_the_way:
        _raise_refused(move.target, "or directories are in the way", in_the_way)
    return judged


def _inspect_path(top: int, path: bytes, sides: Sequence[int]) -> tuple[str, KnownFile | None]:
    """Return `fine` if the file does not exist or matches one of the sides; otherwise what exists: `other`,
    `directory`, `above`.

    Also returns the identity of the file, if it exists.
    """
    *above, name = path.split(b"/")
    try:
        with safe_open.open_below(top, above) as parent:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                return "directory", None
            same = any(_is_same_file(parent, name, status, side, path) for side in sides)
            return "fine" if same else "other", identify_file(status)
    except FileNotFoundError:
        return "fine", None
    except OSError as error:
        if error.errno not in safe_open.GONE:
            raise
        return "above", None


def _is_same_file(parent: int, name: bytes, status: os.stat_result, side: int, path: bytes) -> bool:
    """Whether it is the same as `path` below `side`, in kind, content and permission to execute it."""
    *above, last = path.split(b"/")
    try:
        with safe_open.open_below(side, above) as folder:
            other = os.stat(last, dir_fd=folder, follow_symlinks=False)
            if stat.S_IFMT(status.st_mode) != stat.S_IFMT(other.st_mode) or status.st_size != other.st_size:
                return False
            if stat.S_ISLNK(status.st_mode):
                return os.readlink(name, dir_fd=parent) == os.readlink(last, dir_fd=folder)
            if not stat.S_ISREG(status.st_mode) or (status.st_mode ^ other.st_mode) & stat.S_IXUSR:
                return False
            return all(
                one == two
                for one, two in zip_longest(_iter_content(parent, name), _iter_content(folder, last))
            )
    except OSError as error:
        if error.errno not in safe_open.GONE:
            raise
        return False


def _iter_content(parent: int, name: bytes) -> Iterator[bytes]:
    with open(os.open(name, safe_open.FILE, dir_fd=parent), "rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def _makes_room(move: Move, top: int, path: bytes, standing: str) -> bool:
    """Whether what is in the way is a file, or a directory of files, that this move removes."""
    if standing == "above":  # that entry is added or removed by the move, so it is checked itself
        return any((each in move.before) != (each in move.after) for each in file_names.list_parents([path]))
    if standing != "directory" or path not in move.after:
        return (
            standing == "directory"
        )  # the move removes a file that is gone already: the directory is not ours
    with safe_open.open_below(top, path.split(b"/")) as folder:
        files_there = _files_below(folder, path + b"/")
        return all(each in move.before and each not in move.after for each in files_there)


def _files_below(folder: int, prefix: bytes) -> Iterator[bytes]:
    for name in map(os.fsencode, os.listdir(folder)):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            yield prefix + name
            continue
        with safe_open.open_below(folder, [name]) as below:
            yield from _files_below(below, prefix + name + b"/")


def _filter_changed(move: Move, paths: Sequence[bytes]) -> list[bytes]:
    """Return the files that git reports as changed: with other line endings
    a file may be unchanged for git.
    """
    git = move.target.git
    work_tree = f"--work-tree={move.target.top}"
    options = ("--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=all")
    lines = git.run(work_tree, *list_line_end_options(move.target), "status", *options).split(b"\0")
    reported = {line[3:] for line in lines if line}
    indexed = _read_index(git)
    return [
        path for path in paths if path in reported or path not in indexed or not indexed[path][0].isupper()
    ]


def _raise_refused(target: Target, what: str, paths: Iterable[bytes]) -> NoReturn:
    path_list = list(paths)
    fix = "commit, stash or move them away, then run the command again"
    raise Refused(f"files {what}: {format_paths(path_list)}", where=str(target.place), fix=fix)


def format_paths(paths: Sequence[bytes]) -> str:
    """Format paths for a message."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(file_names.to_display(path) for path in paths[:NAMED]) + more
