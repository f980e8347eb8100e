"""Gives a new repository of checkpoints its first objects.

From the user's repository, they are copied: a hard link would lead to the file of the user, and bring the complete
history into the job. Jobs of a project share their packs as hard links, because agents can't reach the repositories of
checkpoints: git never changes a pack, and it stays until the last job that uses it is deleted. References to the
objects of another repository (alternates) would break when that repository is cleaned or deleted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from logist.errors import StorageError
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.workspace.checkpoint import objects, packs, repository
from logist.workspace.files import clones
from logist.workspace.git import Git, require_files

PACKS = Path("objects", "pack")
_LEAST_PART, _MOST_PARTS = 4_000, 8
"""The number of objects from which they are divided into several packs, and how many packs at most. Each pack costs
the next job that doesn't need all of it its part of the copying, and every job two processes.
"""
_MANY_LOOSE = 6_700
_LEAST_LEFT = 4_000
"""From this number of objects on, verifying written files is worth the processes that it needs."""
_MOST_SHARED = 32
"""How many packs at most a job shares with one from another commit."""
SHALLOW = "shallow"
"""The file in which git lists the commits whose parents it doesn't have."""


def copy_commit(git: Git, source: Path, commit: str, kept: Path | None, *, leaving: bool = False) -> bool:
    """Copy a commit, without its ancestors, from the directory `source` with the objects of a repository.

    git only reads there: it creates even its temporary files in the new repository. `kept` is what
    `kept_packs.find_kept` has returned: objects that are there are shared with it, or copied from there. The others are
    verified here, unless they are many and the caller wants to do that (`leaving`): only then, the result is False.
    """
    if kept is not None:
        try:
            _copy_commit_with(git, source, commit, kept)
            return True
        except (OSError, StorageError):  # another command may just have removed them
            for file in (*git.git_dir.glob("pack-*"), *(git.git_dir / PACKS).iterdir()):
                file.unlink()
    made = _pack_commit(git, source, commit, git.git_dir)
    is_left = leaving and sum(packs.count_objects(pack.with_suffix(".idx")) for pack in made) >= _LEAST_LEFT
    for pack in made:
        (_move_pack if is_left else _move_verified)(git, pack)
    return not is_left


def verify_packs(git: Git) -> None:
    """Verify the objects in all packs of a repository."""
    for index in packs.list_indexes(git.git_dir):
        git.run("index-pack", "--verify", index.with_suffix(".pack"))


def _pack_commit(git: Git, source: Path, commit: str, folder: Path) -> list[Path]:
    """Copy the objects of a commit into new packs in `folder`, and return these."""
    borrowing = git.borrow_objects(source)
    if _has_many_loose(source):
        return [_pack_part(borrowing, folder, [f"--shallow {commit}", commit], "--revs")]
    return pack_objects(git, source, folder, _list_names(borrowing, [commit], "--no-walk"))


def _has_many_loose(source: Path) -> bool:
    """Whether so many objects have a file of their own that git would pack them soon (`gc.auto`).

    git opens each of these files twice if it gets names, but once if it finds the objects itself.
    """
    try:
        return len(os.listdir(source / "17")) > _MANY_LOOSE // 256
    except OSError:
        return False


def _copy_commit_with(git: Git, source: Path, commit: str, kept: Path) -> None:
    indexes = packs.list_indexes(kept)
    if kept.name == commit:
        if not indexes:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(kept))
        for index in indexes:
            _give_pack(index, git.git_dir, _link_file)
        return
    held = {index: packs.list_names(index) for index in indexes}
    names = _list_names(git.borrow_objects(source), [commit], "--no-walk")
    # Small packs are copied into one: otherwise each commit could leave one more.
    large = [item for item in held.items() if len(item[1]) * _MOST_SHARED >= len(names)]
    shared, missing = _choose_packs(large, names)
    for index in shared:
        _give_pack(index, git.git_dir, _link_file)
    known = {name for name in missing if any(name in inside for inside in held.values())}
    pack_objects(git, kept / "objects", git.git_dir / PACKS, [name for name in missing if name in known])
    _copy_verified(git, source, [name for name in missing if name not in known])


def _copy_verified(git: Git, source: Path, wanted: Sequence[str]) -> None:
    for beside in pack_objects(git, source, git.git_dir, wanted):
        _move_verified(git, beside)


def _move_verified(git: Git, beside: Path) -> None:
    """Verify a pack that was written beside the repository, and move it in."""
    # git copies objects without comparing their content with their names, which a stranger's repository can forge.
    # If the repository had the pack already, git would read every object twice, to compare it with itself.
    git.run("index-pack", "--verify", beside)
    _move_pack(git, beside)


def _move_pack(git: Git, beside: Path) -> None:
    files = git.git_dir.glob(f"{beside.stem}.*")  # newer versions of git write more than two
    for file in sorted(files, key=lambda path: path.suffix == ".idx"):
        os.rename(file, git.git_dir / PACKS / file.name)  # git uses a pack as soon as it has an index


class ObjectShares(NamedTuple):
    """Which objects of a repository another one needs."""

    packs: list[Path]
    """The indexes of the packs in which it needs everything."""
    names: list[str]
    """Those that are in other packs."""


def find_shares(git: Git, original: Path, commits: Collection[str], *options: str) -> ObjectShares:
    """Find the objects that these commits need, with their ancestors (not with `--no-walk`), in the repository of a job.

    Raises StorageError if an object is missing.
    """
    require_repository(original)
    output = _run_rev_list(Git(original, git.path), commits, *options)
    indexes = packs.list_indexes(original)
    # git has found each of them. So if the packs have as many, and there are no others, they have just these.
    if output.count(b"\n") == sum(map(packs.count_objects, indexes)) and _has_only_packs(original):
        return ObjectShares(indexes, [])
    names = output.decode("ascii").split()
    shared, missing = _choose_packs(((index, packs.list_names(index)) for index in indexes), names)
    return ObjectShares(shared, missing)


def _has_only_packs(git_dir: Path) -> bool:
    """Whether a repository has neither loose objects nor those of another one."""
    return {*os.listdir(git_dir / "objects")} <= {"pack", "info"} and not (
        os.path.lexists(git_dir / "objects" / "info" / "alternates")
    )


def link_objects(git: Git, original: Path, shares: ObjectShares) -> None:
    """Share objects with the repository of another job.

    Packs that have other objects too, for example of a later checkpoint, are not shared: what is needed of them is
    copied.
    """
    _give_objects(git, original, shares, _link_file)


def copy_objects(git: Git, original: Path, shares: ObjectShares) -> None:
    """Copy objects from the repository of a job.

    For a repository that an agent can change: a hard link would lead to the file of the job.
    """
    _give_objects(git, original, shares, clones.copy_file)


def copy_packs(git_dir: Path, target: Path) -> None:
    """Copy all packs from one repository to another."""
    for index in packs.list_indexes(git_dir):
        _give_pack(index, target, clones.copy_file)


def copy_shallow(git_dir: Path, target: Path) -> None:
    """Copy the list of commits whose parents a repository doesn't have."""
    if (git_dir / SHALLOW).exists():
        repository.write_file(target / SHALLOW, read_regular(git_dir / SHALLOW))


def cut_off_parents(git_dir: Path, commit: str, content: bytes) -> None:
    """Tell git to ignore the parents of a commit, if its content names any."""
    if b"\nparent " in content.partition(b"\n\n")[0]:
        with open(git_dir / SHALLOW, "ab", opener=_open_private) as file:
            file.write(f"{commit}\n".encode("ascii"))


def add_shallow(git: Git, commit: str) -> None:
    """Tell git durably to ignore the parents of a commit that was copied into a repository in use."""
    path = git.git_dir / SHALLOW
    known = read_regular(path).decode("ascii") if path.exists() else ""
    if commit not in known.split():
        repository.replace_file(git, SHALLOW, f"{known}{commit}\n")


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def require_repository(git_dir: Path) -> None:
    """Raise StorageError if the repository of another job is missing, Damaged if git can't open its files."""
    if not git_dir.is_dir():
        message = "the checkpoint repository is missing"
        raise StorageError(message, where=str(git_dir), fix="restore it from a backup")
    require_files(git_dir)


def _list_names(git: Git, commits: Collection[str], *options: str) -> list[str]:
    """Return the names of the objects that these commits need, those of a directory beside each other."""
    return _run_rev_list(git, commits, *options).decode("ascii").split()


def _run_rev_list(git: Git, commits: Collection[str], *options: str) -> bytes:
    revisions = "".join(f"{objects.require_commit(commit, git)}\n" for commit in commits).encode("ascii")
    return git.run_with_input(revisions, "rev-list", "--objects", "--no-object-names", *options, "--stdin")


def _give_objects(git: Git, original: Path, shares: ObjectShares, give: Callable[[Path, Path], None]) -> None:
    for index in shares.packs:
        _give_pack(index, git.git_dir, give)
    pack_objects(git, original / "objects", git.git_dir / PACKS, shares.names)


def _choose_packs(
    held: Iterable[tuple[Path, set[str]]], names: Sequence[str]
) -> tuple[list[Path], list[str]]:
    """Return the packs that have none but these objects, and the names of the objects that are in others.

    `held` has the index of each pack, and the names of its objects.
    """
    wanted = set(names)
    missing = wanted.copy()
    chosen = []
    for index, inside in held:
        if inside <= wanted and not inside.isdisjoint(missing):
            chosen.append(index)
            missing -= inside
    return chosen, [name for name in names if name in missing] if missing else []


def pack_objects(git: Git, source: Path, folder: Path, names: Sequence[str]) -> list[Path]:
    """Copy objects from the directory `source` of objects into new packs in `folder`, and return these.

    A later job shares the packs in which it needs everything, so each has a part of the directories: a commit that
    changes a few files leaves most packs as they are.
    """
    size = max(_LEAST_PART, -(-len(names) // _MOST_PARTS))
    borrowing, made = git.borrow_objects(source), []
    for start in range(0, len(names), size):
        made.append(_pack_part(borrowing, folder, names[start : start + size]))
    return made


def _pack_part(borrowing: Git, folder: Path, lines: Iterable[str], *options: str) -> Path:
    name = borrowing.run_with_input(
        "".join(f"{line}\n" for line in lines).encode("ascii"),
        # Don't search for similar files (window), which can take longer than everything else. What is stored as a
        # difference in the other repository, is stored so here too.
        *("pack-objects", "--quiet", "--window=0", "--delta-base-offset", *options),
        folder / "pack",
    )
    return folder / f"pack-{name.decode('ascii').strip()}.pack"


def pack_history(borrowing: Git, tip: str) -> None:
    """Copy a commit with all ancestors that the repository doesn't cut off, from where it borrows objects."""
    _pack_part(borrowing, borrowing.git_dir / PACKS, [tip], "--revs")


def _give_pack(index: Path, target: Path, give: Callable[[Path, Path], None]) -> None:
    for path in (index.with_suffix(".pack"), index):  # git uses a pack as soon as it has an index
        give(path, target / PACKS / path.name)


def _link_file(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system, or more links than it allows
        clones.copy_file(source, target)
