"""A move of the user's work tree made ready: as git would write it, and refused where it would cost the user anything."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import NoReturn

from logist.errors import Refused
from logist.workspace.checkpoint import changes
from logist.workspace.checkpoint.changes import PathDifference
from logist.workspace.checkpoint.objects import GITLINK_MODE, Tree, TreeEntry
from logist.workspace.files import file_names, safe_open
from logist.workspace.git import Git
from logist.workspace.merge.drafting import conversions
from logist.workspace.merge.swapping import KnownFile, seen
from logist.workspace.merge.target import Target

INDEX, STAGING = "logist-index", "logist-staging"
"""The next index, and the next files."""
NAMED = 20
"""Files that a message names."""


@dataclass(frozen=True)
class Move:
    """From what is checked out to another commit; `git` knows both."""

    target: Target
    git: Git
    before: Tree
    after: Tree
    head: str
    """What is checked out; the empty tree where nothing is."""
    commit: str

    @cached_property
    def differences(self) -> list[PathDifference]:
        return list(changes.compared(self.before, self.after))

    @cached_property
    def touched(self) -> list[bytes]:
        """The files that differ."""
        return sorted(each.path for each in self.differences)


@dataclass(frozen=True)
class Staged:
    """A move that is ready: the next index, and the files as they are to lie, both as git would make them."""

    move: Move
    index: Path
    old: Path
    new: Path
    judged: dict[bytes, KnownFile] = field(default_factory=dict)
    """The files that stood there when they were found to be as one of the two commits has them."""


def stage(move: Move, folder: Path) -> Staged:
    """Makes the move ready in `folder`. Raises Refused where it would cost the user anything; nothing is changed yet."""
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
    held = [path for path in move.touched if path in move.before]
    _check_out(move, git, [path for path in held if path in _indexed(git)], staged.old)
    # git itself writes the new files, into a directory beside the work tree: its rules for line ends, modes
    # and links are the user's, and are not done over here.
    git.run("read-tree", "-m", move.head, move.commit)
    _check_out(move, git, [path for path in move.touched if path in move.after], staged.new)
    return replace(staged, judged=_judged(staged))


def with_index(git: Git, index: Path) -> Git:
    return replace(git, variables=(*git.variables, ("GIT_INDEX_FILE", str(index))))


def _require_no_submodule(move: Move) -> None:
    found = [each.path for each in move.differences if GITLINK_MODE in (each.mode_before, each.mode_after)]
    if found:
        fix = move.target.by_branch
        message = f"submodules would change: {named(found)}"
        raise Refused(message, where=str(move.target.place), fix=fix)


def _require_no_filter(move: Move, staged: Staged) -> None:
    """Raises Refused for files that only a program of the user can write as they are to lie (as git-lfs does)."""
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
    asked = b"".join(path + b"\0" for path in move.touched)
    fields = git.feed(asked, "check-attr", "--cached", "-z", "--stdin", "filter").split(b"\0")
    found = [
        path
        for path, value in zip(fields[0::3], fields[2::3], strict=False)
        if file_names.shown(value).lower() in drivers
    ]
    if found:
        fix = move.target.by_branch
        message = f"only git with its filters can write these files: {named(found)}"
        raise Refused(message, where=str(move.target.place), fix=fix)


def _indexed(git: Git) -> dict[bytes, tuple[str, TreeEntry]]:
    """What the index holds, by path: the letter git tells its state by, and the entry."""
    found = {}
    for line in filter(None, git.run("ls-files", "-v", "-s", "-z").split(b"\0")):
        described, _, path = line.partition(b"\t")
        tag, mode, name, number = described.decode("ascii").split(" ")
        found[path] = ("M" if number != "0" else tag, TreeEntry(mode, name))
    return found


def _require_unstaged(move: Move, git: Git) -> None:
    """Raises Refused where the index has something else under a path than either commit."""
    held = _indexed(git)
    unmerged = [path for path, (tag, _) in held.items() if tag == "M"]
    sides = (move.before, move.after)
    nothing = ("", None)
    staged = [
        path for path in move.touched if held.get(path, nothing)[1] not in [side.get(path) for side in sides]
    ]
    if unmerged or staged:
        _refuse(move.target, "are changed in the index, and the work changes them too", unmerged or staged)


def _require_checked_out(move: Move, git: Git) -> None:
    """Raises Refused for files that git was told to leave out of the work tree, or alone in it."""
    held = _indexed(git)
    found = [path for path in move.touched if path in held and held[path][0] in "Ss"]
    if found:
        fix = f"git update-index --no-skip-worktree on them, or: {move.target.by_branch}"
        message = f"git was told to skip these files of the work tree: {named(found)}"
        raise Refused(message, where=str(move.target.place), fix=fix)


def _check_out(move: Move, git: Git, paths: Sequence[bytes], place: Path) -> None:
    """Writes files as git would write them into the work tree, with the ends of lines that the user has set."""
    place.mkdir(mode=0o700)
    options = ("checkout-index", f"--prefix={place}/", "-f", "-q", "-z", "--stdin")
    work_tree = f"--work-tree={move.target.top}"
    git.feed(b"".join(path + b"\0" for path in paths), work_tree, *conversions(move.target), *options)


def _judged(staged: Staged) -> dict[bytes, KnownFile]:
    """The files that stand where the move changes something, each as it was before it was looked into.

    Raises Refused for files that are neither as they were nor as they are to be, and for what stands in the way.
    """
    move = staged.move
    assert move.target.top is not None
    changed, in_the_way = [], []
    judged: dict[bytes, KnownFile] = {}
    with (
        safe_open.root(move.target.top) as top,
        safe_open.root(staged.old) as old,
        safe_open.root(staged.new) as new,
    ):
        for path in move.touched:
            standing, found = _standing(top, path, [old, new])
            if found is not None:
                judged[path] = found
            if standing == "other" and path in move.before:
                changed.append(path)
            elif standing != "fine" and not _makes_room(move, top, path, standing):
                in_the_way.append(path)
    if changed and (changed := _really_changed(move, changed)):
        _refuse(move.target, "are changed in the work tree, and the work changes them too", changed)
    if in_the_way:
        _refuse(move.target, "stand in the way, or what is above them does", in_the_way)
    return judged


def _standing(top: int, path: bytes, sides: Sequence[int]) -> tuple[str, KnownFile | None]:
    """`fine` if the file is not there, or as on one of the sides; else what stands there: `other`, `directory`, `above`.

    With what tells the file, where there is one.
    """
    *above, name = path.split(b"/")
    try:
        with safe_open.directory(top, above) as parent:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                return "directory", None
            same = any(_same(parent, name, status, side, path) for side in sides)
            return "fine" if same else "other", seen(status)
    except FileNotFoundError:
        return "fine", None
    except OSError as error:
        if error.errno not in safe_open.GONE:
            raise
        return "above", None


def _same(parent: int, name: bytes, status: os.stat_result, side: int, path: bytes) -> bool:
    """Whether it is the file that lies under `path` beneath `side`, in kind, content and the right to run it."""
    *above, last = path.split(b"/")
    try:
        with safe_open.directory(side, above) as folder:
            other = os.stat(last, dir_fd=folder, follow_symlinks=False)
            if stat.S_IFMT(status.st_mode) != stat.S_IFMT(other.st_mode) or status.st_size != other.st_size:
                return False
            if stat.S_ISLNK(status.st_mode):
                return os.readlink(name, dir_fd=parent) == os.readlink(last, dir_fd=folder)
            if not stat.S_ISREG(status.st_mode) or (status.st_mode ^ other.st_mode) & stat.S_IXUSR:
                return False
            return all(one == two for one, two in zip_longest(_content(parent, name), _content(folder, last)))
    except OSError as error:
        if error.errno not in safe_open.GONE:
            raise
        return False


def _content(parent: int, name: bytes) -> Iterator[bytes]:
    with open(os.open(name, safe_open.FILE, dir_fd=parent), "rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def _makes_room(move: Move, top: int, path: bytes, standing: str) -> bool:
    """Whether what stands in the way is a file, or a directory of files, that goes with this move."""
    if standing == "above":  # what is there comes, or goes, and is judged itself
        return any((each in move.before) != (each in move.after) for each in file_names.parents([path]))
    if standing != "directory" or path not in move.after:
        return standing == "directory"  # a file that goes, and is gone: what is there now is not ours
    with safe_open.directory(top, path.split(b"/")) as folder:
        found = _files_below(folder, path + b"/")
        return all(each in move.before and each not in move.after for each in found)


def _files_below(folder: int, prefix: bytes) -> Iterator[bytes]:
    for name in map(os.fsencode, os.listdir(folder)):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            yield prefix + name
            continue
        with safe_open.directory(folder, [name]) as below:
            yield from _files_below(below, prefix + name + b"/")


def _really_changed(move: Move, paths: Sequence[bytes]) -> list[bytes]:
    """Those that git finds changed: with other ends of lines a file may still be the same to it."""
    git = move.target.git
    work_tree = f"--work-tree={move.target.top}"
    options = ("--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=all")
    listed = git.run(work_tree, *conversions(move.target), "status", *options).split(b"\0")
    told = {line[3:] for line in listed if line}
    held = _indexed(git)
    return [path for path in paths if path in told or path not in held or not held[path][0].isupper()]


def _refuse(target: Target, what: str, paths: Iterable[bytes]) -> NoReturn:
    found = list(paths)
    fix = "commit, stash or move them away, then run the command again"
    raise Refused(f"files {what}: {named(found)}", where=str(target.place), fix=fix)


def named(paths: Sequence[bytes]) -> str:
    """Files, as a message names them."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(file_names.shown(path) for path in paths[:NAMED]) + more
