"""Fills the workspace of a new job. Nobody else uses it yet, so git can write the files itself: that needs a third of
the time that careful writing needs (`restore.py`), which never follows a link that an agent has made.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from logist.errors import StorageError
from logist.workspace.checkpoint import objects, repository
from logist.workspace.checkpoint.objects import (
    FILE_MODE,
    LINK_MODE,
    LONGEST_PATH,
    PROGRAM_MODE,
    Tree,
    TreeEntry,
    TreeListing,
)
from logist.workspace.checkpoint.restore import require_sound_tree
from logist.workspace.checkpoint.scan import FileTable, WorkspaceScan
from logist.workspace.checkpoint.snapshot import Snapshot, get_git_mode
from logist.workspace.files import clones, file_names
from logist.workspace.git import Argument, Git

ATTRIBUTES = b"* !text !crlf !eol !ident !filter !working-tree-encoding\n"
"""Files in a workspace have the same content as in git, whatever the `.gitattributes` in it say. These are stronger."""

_UNKNOWN = TreeEntry("", "")


def write_files(
    git: Git, root: Path, commit: str, listing: TreeListing, twin: Path | None, *, verifying: bool = False
) -> None:
    """Write the files of a commit to the new directory `root`, and the index of the repository `git`, which must be
    new too. `listing` is the tree of the commit.

    Names that git can't store are not unescaped yet: `restore.apply_tree` does that. Files of the directory `twin`
    are cloned, if the file system can do that and they have the right content. Writes nothing if git can't write all
    of the files: then `restore.apply_tree` does everything. Raises InvalidFile for a tree that a workspace can't
    contain. With `verifying`, raises StorageError unless all objects have the content that their names say; only for a
    plain listing.
    """
    if not listing.is_plain:
        require_sound_tree(listing.tree)
        if max(map(len, listing.paths), default=0) > LONGEST_PATH or listing.has_refused_link:
            write_index(git, commit, "read-tree", commit)
            return
    info = git.git_dir / "info"
    info.mkdir(0o700)
    repository.write_file(info / "attributes", ATTRIBUTES)
    work_tree = f"--work-tree={root}"
    if twin is not None and clones.can_clone(twin, root, listing.paths):
        clones.clone_files(twin, root, _list_wanted(git, commit))
        git.run("read-tree", commit)
        # git reads the clones now, and replaces those with another content below. With -q, these are no error.
        git.run_for_status(work_tree, "update-index", "-q", "--refresh")
    if verifying:
        _verify_other_objects(git, commit, listing)
    git.run(work_tree, "read-tree", "--reset", "-u", commit)
    if verifying:
        _verify_files(git, root, listing)
    shutil.rmtree(info)


def _verify_files(git: Git, root: Path, listing: TreeListing) -> None:
    """Compare the content of each file that was just written with the name of its object.

    `git index-pack --verify` would unpack each object once more, which takes twice as long. `git update-index --refresh`
    takes a quarter longer, because it also examines what it knows already: the state of each file, and its attributes.
    """
    files = [number for number, mode in enumerate(listing.modes) if mode != LINK_MODE]
    names = b"".join([_quote_path(listing.paths[number]) for number in files])
    unflushed = replace(
        git, variables=(*git.variables, ("GIT_FLUSH", "0"))
    )  # else each name is written alone
    output = unflushed.run_with_input(names, "-C", root, "hash-object", "--no-filters", "--stdin-paths")
    found, wanted = output.decode("ascii").split(), [listing.ids[number] for number in files]
    if found != wanted:
        at = next(at for at, name in enumerate(wanted) if found[at : at + 1] != [name])
        raise StorageError(
            f"a file differs from its object: {file_names.to_display(listing.paths[files[at]])}",
            where=str(git.git_dir),
            fix="check the disk and its free space, then run the command again",
        )


def _quote_path(path: bytes) -> bytes:
    """Return a line of git's input: quoted if git would read another path from the line."""
    if b"\n" in path or path.startswith(b'"') or path.endswith(b"\r"):
        path = b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
    return path + b"\n"


def _verify_other_objects(git: Git, commit: str, listing: TreeListing) -> None:
    """Compare the content of the commit, its trees and its links with their names.

    git does that with each object that is named in its input. It compares a link only with its object.
    """
    options = ("--objects", "--no-object-names", "--no-walk", "--filter=blob:none", "--stdin")
    trees = git.run_with_input(f"{commit}\n".encode("ascii"), "rev-list", *options)
    links = [name for mode, name in zip(listing.modes, listing.ids, strict=True) if mode == LINK_MODE]
    names = trees + "".join(f"{name}\n" for name in links).encode("ascii")
    # After --stdin, the option comes too late.
    git.run_with_input(names, "rev-list", "--verify-objects", "--quiet", *options)


def write_index(git: Git, commit: str, *arguments: Argument) -> None:
    """Run git to write the index of a commit. There is none if git can't have all names of the commit in an index."""
    try:
        git.run(*arguments)
    except StorageError:
        if not objects.read_listing(git, commit).has_refused_link:
            raise
        (git.git_dir / "index").unlink(missing_ok=True)


def _list_wanted(git: Git, commit: str) -> Iterator[clones.WantedFile]:
    """Yield the regular files of a commit, those of a directory together."""
    for line in git.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit).split(b"\0"):
        described, _, path = line.partition(b"\t")
        mode, *_, size = described.decode("ascii").split() or ("", "")
        if mode in (FILE_MODE, PROGRAM_MODE):
            yield clones.WantedFile(path, 0o700 if mode == PROGRAM_MODE else 0o600, int(size))


def has_written_all(table: FileTable, target: Tree) -> bool:
    """Whether the files that git has just written are those of `target`, by name and kind: then `recognize_files` would
    return `target`.
    """
    if len(table.paths) != len(target) or table.stored_paths != table.paths:
        return False  # an escaped name in `target` is the name that git has written
    modes = table.list_modes()
    kinds = {mode: get_git_mode(mode) for mode in set(modes)}
    return [kinds[mode] for mode in modes] == [target.get(path, _UNKNOWN).mode for path in table.paths]


def recognize_files(scanned: WorkspaceScan, target: Tree) -> Snapshot:
    """Return what git has just written, without reading it: a file with the name and kind of one in `target` is that
    one.
    """
    shot = Snapshot(directories=scanned.directories)
    for raw, stamp in scanned.files.items():
        path = file_names.to_stored(raw)
        entry = target.get(path, _UNKNOWN)
        # An escaped name in `target` is the name that git has written, so it isn't that file.
        shot.tree[path] = entry if path == raw and get_git_mode(stamp.mode) == entry.mode else _UNKNOWN
    return shot
