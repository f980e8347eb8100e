"""Gives a new repository of checkpoints its first objects.

From the user's repository, they are copied: a hard link would lead to the file of the user, and bring the complete
history into the job. Jobs of a project share their packs as hard links, because agents can't reach the repositories of
checkpoints: git never changes a pack, and it stays until the last job that uses it is deleted. References to the
objects of another repository (alternates) would break when that repository is cleaned or deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from logist.regular_files import read_regular
from logist.workspace.checkpoint import packs, repository
from logist.workspace.files import clones
from logist.workspace.git import Git

PACKS = Path("objects", "pack")
SHALLOW = "shallow"
"""The file in which git lists the commits whose parents it doesn't have."""


def copy_commit(git: Git, source: Path, commit: str) -> None:
    """Copy a commit, without its ancestors, from the directory `source` with the objects of a repository.

    git only reads there: it creates even its temporary files in the new repository.
    """
    git.borrow_objects(source).run_with_input(
        f"--shallow {commit}\n{commit}\n".encode("ascii"),
        # Without a search for similar files (window), which can take longer than everything else. What is compressed
        # as a difference in the user's repository, is it here too.
        *("pack-objects", "--quiet", "--revs", "--window=0", "--delta-base-offset"),
        git.git_dir / PACKS / "pack",
    )


def link_commit(git: Git, original: Path, commit: str) -> None:
    """Share the objects of a commit, without its ancestors, with the repository of another job."""
    link_objects(git, original, [commit], "--no-walk")


def link_objects(git: Git, original: Path, commits: Iterable[str], *options: str) -> None:
    """Share all objects of these commits and of their ancestors with the repository of another job.

    Packs are linked if they have one of the objects. They may have others, which don't matter: nothing refers to them.
    Raises StorageError if an object is missing.
    """
    _give_objects(git, original, commits, options, _link_file)


def copy_objects(git: Git, original: Path, commit: str) -> None:
    """The same for a repository that an agent can change: its files are copies, or clones."""
    _give_objects(git, original, [commit], ("--no-walk",), clones.copy_file)


def copy_packs(git_dir: Path, target: Path) -> None:
    """Copy all packs from one repository to another."""
    for path in (git_dir / PACKS).iterdir():
        clones.copy_file(path, target / PACKS / path.name)


def copy_shallow(git_dir: Path, target: Path) -> None:
    """Copy the list of commits whose parents a repository doesn't have."""
    if (git_dir / SHALLOW).exists():
        repository.write_file(target / SHALLOW, read_regular(git_dir / SHALLOW))


def cut_off_parents(git_dir: Path, commit: str, content: bytes) -> None:
    """Tell git that the parents of a commit, if its content names any, are not in the repository."""
    if b"\nparent " in content.partition(b"\n\n")[0]:
        repository.write_file(git_dir / SHALLOW, f"{commit}\n".encode("ascii"))


def _give_objects(
    git: Git,
    original: Path,
    commits: Iterable[str],
    options: Iterable[str],
    give: Callable[[Path, Path], None],
) -> None:
    source = Git(original, git.path, of_job=True)
    revisions = "".join(f"{commit}\n" for commit in commits).encode("ascii")
    listed = source.run_with_input(
        revisions, "rev-list", "--objects", "--no-object-names", *options, "--stdin"
    )
    missing = set(listed.decode("ascii").split())
    for index, held in packs.find_holders(original, missing):
        for suffix in (".pack", ".idx"):  # git uses a pack as soon as it has an index
            give(index.with_suffix(suffix), git.git_dir / PACKS / index.with_suffix(suffix).name)
        missing -= held
    for name in missing:  # a merge that was killed may leave objects outside of packs
        place = Path("objects", name[:2], name[2:])
        (git.git_dir / place.parent).mkdir(0o700, exist_ok=True)
        give(original / place, git.git_dir / place)


def _link_file(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system, or more links than it allows
        clones.copy_file(source, target)
