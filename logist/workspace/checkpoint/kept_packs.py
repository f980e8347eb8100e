"""Keeps the packs with which the last job from a repository began, for the next jobs: git has compared the content of
every object in them with its name. They are hard links to the packs of that job.

The folder is only a cache: whatever is wrong with it, a job copies its objects from the repository and verifies them.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

from logist.core.text.ids import is_commit
from logist.digests import start_hash
from logist.regular_files import open_regular, read_regular
from logist.workspace.checkpoint import packs
from logist.workspace.files.removal import TRASH, remove_directory

FOLDER = ".packs"
"""In the directory of the jobs; no job id begins with a dot. It may be removed at any time."""
PACKS = Path("objects", "pack")
FILES = "*/objects/pack/*"
"""The packs of all commits."""
_RECORD = "kept.json"
_HALF = ".new-"
_TRASH = os.fsdecode(TRASH)
_LONGEST_RECORD = 100_000
"""Maximum bytes of a record."""


def find_kept(folder: Path, commit: str) -> Path | None:
    """Return the directory with the kept packs of a commit, or else of another one; its name is that commit's.

    It has the layout of a repository. None if there is none, or its packs are damaged.
    """
    with suppress(OSError):
        names = [name for name in os.listdir(folder) if is_commit(name) and len(name) == len(commit)]
        for name in sorted(names, key=lambda name: name != commit):
            if _is_ours(folder / name) and _is_intact(folder / name):
                return folder / name
    return None


def _is_ours(kept: Path) -> bool:
    """Whether Logist has made the directory here: a clone may contain one, with objects of its author's choice.

    The time of the last change of a directory can't be chosen, so the author of a clone can't record it. But a clone may
    contain a link to a directory of its author on this machine.
    """
    folder = kept.parent
    if os.path.realpath(kept / PACKS) != os.path.join(
        os.path.realpath(folder.parent), folder.name, kept.name, PACKS
    ):
        return False
    try:
        record = json.loads(read_regular(kept / _RECORD, _LONGEST_RECORD))
    except (OSError, ValueError, RecursionError):
        return False
    return bool(record == _build_record(kept))


def _build_record(kept: Path) -> list[object]:
    status = os.lstat(kept / PACKS)
    return [status.st_dev, status.st_ino, status.st_ctime_ns, sorted(os.listdir(kept / PACKS))]


def _is_intact(kept: Path) -> bool:
    """Whether the packs have the checksums that git wrote into them: disks lose content silently."""
    indexes = packs.list_indexes(kept)
    return bool(indexes) and all(_has_checksum(path) for i in indexes for path in (i, i.with_suffix(".pack")))


def _has_checksum(path: Path) -> bool:
    is_long = len(path.stem) == len("pack-") + 64  # SHA-256, as in the name of the pack
    descriptor, size = open_regular(path)
    with open(descriptor, "rb", buffering=0) as file:
        digest = start_hash("sha256" if is_long else "sha1", size)
        left = size - (32 if is_long else 20)
        buffer = memoryview(bytearray(1 << 17))  # new memory for each piece would take a fifth of the time
        while left > 0 and (count := file.readinto(buffer[:left])):
            digest.update(buffer[:count])
            left -= count
        return file.read().hex() == digest.hexdigest()


def keep_packs(folder: Path, git_dir: Path, commit: str, names: frozenset[str]) -> None:
    """Keep these packs of a new job (the names of their indexes) instead of those that are kept now. They must be
    durable, and have the objects of the commit and no others.

    If that fails, nothing is kept.
    """
    kept, new = folder / commit, folder / f"{_HALF}{os.urandom(6).hex()}"
    with suppress(OSError):
        folder.mkdir(0o700, exist_ok=True)
        if not stat.S_ISDIR(
            os.lstat(folder).st_mode
        ):  # a clone may contain a link, to a place where nothing is ours
            return
        if not (_is_ours(kept) and _has_same_files(kept, git_dir, names)):
            try:
                _link_packs(new, git_dir, names)
                _remove(kept)
                os.rename(new, kept)
            except OSError:  # some file systems have no hard links
                remove_directory(new)
                raise
        remove_kept(folder, but=commit)


def _has_same_files(kept: Path, git_dir: Path, names: frozenset[str]) -> bool:
    """Whether the job has linked all of its packs; if not, those that are kept are damaged, or have too many links."""
    try:
        return all(os.path.samefile(git_dir / path, kept / path) for path in _list_files(names))
    except OSError:
        return False


def _list_files(names: frozenset[str]) -> list[Path]:
    return [path for name in sorted(names) for path in (PACKS / name, (PACKS / name).with_suffix(".pack"))]


def _link_packs(new: Path, git_dir: Path, names: frozenset[str]) -> None:
    (new / PACKS).mkdir(0o700, parents=True)
    for path in _list_files(names):
        os.link(git_dir / path, new / path, follow_symlinks=False)
    (new / _RECORD).write_text(json.dumps(_build_record(new)), "ascii")


def remove_kept(folder: Path, but: str = "") -> None:
    """Remove the packs of all commits but this one, and what a killed command has left."""
    for name in os.listdir(folder):
        if name != but and (is_commit(name) or name.startswith(_HALF)):
            _remove(folder / name)
        elif name == _TRASH:  # what a killed removal has left; it has the layout of kept packs
            import shutil  # noqa: PLC0415 - loads the libraries of three compressions

            shutil.rmtree(folder / name, ignore_errors=True)


def _remove(path: Path) -> None:
    """Remove a directory with packs, or what a clone has in its place."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        remove_directory(path)


def remove_unused(folder: Path) -> None:
    """Remove the kept packs if no job has them any more."""
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(folder).st_mode) and all(
            path.lstat().st_nlink == 1 for path in folder.glob(FILES)
        ):
            remove_kept(folder)
            folder.rmdir()
