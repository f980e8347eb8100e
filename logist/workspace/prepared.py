"""What the setup of a workspace creates: an environment, node modules, generated files.

Checkpoints don't include it. It can be copied to another workspace: paths of the old workspace are replaced,
because the programs of a virtual environment contain its path.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from logist.core.text import lock_files
from logist.core.text.cache_patterns import VOLATILE_CACHES
from logist.digests import start_hash
from logist.errors import StorageError
from logist.quick_dataclass import dataclass
from logist.workspace.checkpoint import baseline, undoing
from logist.workspace.checkpoint.scan import CACHE, ScanRules, scan_everything, scan_workspace
from logist.workspace.context import walking
from logist.workspace.files import file_names, removal, safe_open

if TYPE_CHECKING:
    from logist.workspace import context
    from logist.workspace.checkpoint.objects import Tree
    from logist.workspace.checkpoint.snapshot import Snapshot
    from logist.workspace.git import Git

STAGING = "logist-setup"
"""A directory in the repository: copies are moved from it into the workspace when they are complete."""
MOST_LOCK_BYTES = 64 << 20
"""Maximum size of a lock file that is read; for a larger one, size and time are compared."""
MOST_TEXT_BYTES = 16 << 20
"""Maximum size of a file in which a path is replaced; a larger one is treated as binary."""
COMPILED = ".pyc"
"""Python itself corrects the path in these files when it loads them."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class SetupStamp:
    """The outputs of a setup in a workspace, and its inputs: setup.json of a job."""

    key: str
    """Digest of the lock files and the commands; empty if no setup has succeeded."""
    lock_files: dict[str, str]
    place: str
    """The workspace of the setup, by path and inode, so that the stamp is not valid for a copied job."""
    at: str
    outputs: tuple[str, ...] = ()
    digest: str = ""
    """Digest of the outputs; empty while they are incomplete."""
    source: str = "commands"
    """Or `cache`."""
    seconds: float = 0.0
    failed: str = ""
    """The reason why the last run of the commands failed."""
    failed_key: str = ""
    """The key of the failed run; the rest of the stamp describes the earlier outputs that are still there."""
    log: str = ""
    """The file in logs/ with the output of the commands."""

    @classmethod
    def load(cls, path: Path) -> SetupStamp | None:
        """Read the stamp; None if there is none, or if the file is invalid:
        then the setup must run again.
        """
        try:
            with (
                safe_open.open_root(path.parent) as top,
                safe_open.open_regular_below(top, [os.fsencode(path.name)]) as descriptor,
            ):
                data = b"".join(safe_open.read_exactly(descriptor, os.fstat(descriptor).st_size))
            fields = json.loads(data)
            return cls(**{**fields, "outputs": tuple(fields["outputs"])})
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def belongs_to(self, root: Path) -> bool:
        """Whether it describes the workspace that is currently at `root`."""
        try:
            return self.place == identify_workspace(root)
        except OSError:
            return False

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode() + b"\n"


@dataclass(frozen=True)
class SetupProducts:
    """The paths that a setup created, in the form of `file_names.to_json`."""

    outputs: tuple[str, ...]
    """Caches, and new files that git ignores."""
    others: tuple[str, ...]
    """Other files that it changed or created."""


@dataclass(frozen=True)
class Saved:
    """Copies of outputs in a directory, named by number."""

    outputs: tuple[str, ...]
    places: tuple[str, ...]
    """The possible spellings of the path of their workspace."""
    naming: tuple[str, ...]
    """Text files and links in the copies that contain this path."""
    movable: bool
    """False if a binary file contains this path too."""


def identify_workspace(root: Path) -> str:
    """Return the name of the workspace in stamps; another workspace with the
    same path has another name.
    """
    status = os.stat(root, follow_symlinks=False)
    return f"{os.path.realpath(root)} {status.st_dev}:{status.st_ino}"


def read_setup_outputs(file: Path, root: Path) -> tuple[str, ...]:
    """Return the paths that a setup created in this workspace; none if the stamp is for another one."""
    stamp = SetupStamp.load(file)
    return stamp.outputs if stamp is not None and stamp.belongs_to(root) else ()


def hash_lock_files(top: int, rules: ScanRules, patterns: Sequence[str]) -> dict[str, str]:
    scanned = scan_workspace(top, rules)
    by_name = {file_names.to_json(raw): raw for raw in scanned.files}
    return {
        name: _hash_content(top, by_name[name]) for name in lock_files.choose_lock_files(by_name, patterns)
    }


def _hash_content(top: int, raw: bytes) -> str:
    parts = raw.split(b"/")
    try:
        with safe_open.open_regular_below(top, parts) as descriptor:
            status = os.fstat(descriptor)
            if status.st_size > MOST_LOCK_BYTES:
                return f"{status.st_size} {status.st_mtime_ns}"
            digest = start_hash("sha256", status.st_size)
            for piece in safe_open.read_exactly(descriptor, status.st_size):
                digest.update(piece)
            return digest.hexdigest()
    except OSError as error:
        if error.errno not in safe_open.GONE:
            raise
        with safe_open.open_below(top, parts[:-1]) as parent:
            return f"link to {file_names.to_json(safe_open.read_link(parent, parts[-1]))}"


def find_products(root: Path, now: Snapshot, before: Tree, tracked: context.Tracked) -> SetupProducts:
    """Return what differs from a checkpoint.

    New files that git ignores are outputs; for a new directory of such files, the directory is the output.
    """
    caches = (raw for raw, thing in now.unstored.items() if thing.why == CACHE)
    outputs = {raw for raw in caches if os.fsdecode(raw.rpartition(b"/")[2]) not in VOLATILE_CACHES}
    differing = {path for path in now.tree.keys() | before.keys() if now.tree.get(path) != before.get(path)}
    changed = {file_names.from_stored(path) for path in differing if not file_names.is_placeholder(path)}
    new = {raw for raw in changed if file_names.to_stored(raw) not in before}
    hidden = set(map(os.fsencode, walking.find_ignored(root, map(os.fsdecode, new), tracked)))
    old = baseline.find_directories(before) | file_names.list_parents(changed - hidden)
    outputs |= {_find_topmost(raw, old) for raw in hidden}
    kept = {raw for raw in outputs if not file_names.list_parents([raw]) & outputs}
    return SetupProducts(_to_sorted_json(kept), _to_sorted_json(changed - hidden))


def _find_topmost(raw: bytes, old: set[bytes] | frozenset[bytes]) -> bytes:
    """Return the outermost directory above a path that contains only new and
    ignored files, otherwise the path itself.
    """
    parts = raw.split(b"/")
    for count in range(1, len(parts)):
        above = b"/".join(parts[:count])
        if above not in old:
            return above
    return raw


def _to_sorted_json(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted(map(file_names.to_json, paths)))


def compute_digest(top: int, outputs: Sequence[str]) -> str:
    """Return a digest of all names, sizes, times and inodes.

    Only the kernel sets the change time, so every change is noticed.
    """
    import hashlib  # noqa: PLC0415 - loads OpenSSL, which pays for the many files of a setup

    hashed = hashlib.sha256()
    for output in outputs:
        for line in _iter_stamps(top, file_names.from_json(output)):
            hashed.update(line)
    return hashed.hexdigest()


def _iter_stamps(top: int, raw: bytes) -> Iterator[bytes]:
    *above, name = raw.split(b"/")
    try:
        with safe_open.open_below(top, above) as parent:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                yield b"%s\0%d %d %d\n" % (raw, status.st_size, status.st_ctime_ns, status.st_ino)
                return
            descriptor = safe_open.open_directory(parent, name)
    except OSError as error:
        if error.errno not in safe_open.GONE and not isinstance(error, PermissionError):
            raise
        yield b"%s\0missing\n" % raw
        return
    try:
        inside = scan_everything(descriptor, raw)
    finally:
        os.close(descriptor)
    lines = [b"%s\0%o %d %d %d\n" % (p, s.mode, s.size, s.ctime_ns, s.inode) for p, s in inside.files.items()]
    lines += [b"%s/\n" % path for path in inside.directories]
    lines += [b"%s\0%s\n" % (path, thing.why.encode()) for path, thing in inside.unstored.items()]
    yield from sorted(lines)


def save_outputs(top: int, root: Path, outputs: Sequence[str], folder: Path) -> Saved:
    """Copy outputs of the workspace `root` into `folder`, and find the files
    in them that contain the path of the workspace.
    """
    places = _list_spellings(root)
    naming: list[str] = []
    movable = True
    for number, output in enumerate(outputs):
        *above, name = file_names.from_json(output).split(b"/")
        with safe_open.open_below(top, above) as parent:
            _copy_tree(_make_fd_path(parent, name), os.fsencode(folder / str(number)), parent)
        for path in _iter_files(os.fsencode(folder / str(number))):
            mention = _classify_mention(path, places)
            if mention == "binary":
                movable = False
            elif mention:
                naming.append(os.fsdecode(os.path.relpath(path, os.fsencode(folder))))
    return Saved(tuple(outputs), tuple(map(os.fsdecode, places)), tuple(naming), movable)


def restore_outputs(git: Git, top: int, root: Path, saved: Saved, folder: Path) -> tuple[str, ...]:
    """Copy outputs out of `folder` into the workspace `root`: each appears
    at once, and replaces what is there.
    """
    staging = git.git_dir / STAGING
    removal.remove_directory(staging)
    staging.mkdir(mode=0o700)
    for number in range(len(saved.outputs)):
        _copy_tree(os.fsencode(folder / str(number)), os.fsencode(staging / str(number)))
    old, new = [os.fsencode(place) for place in saved.places], _list_spellings(root)
    if old != new:
        for relative_path in saved.naming:
            _rewrite_place(os.fsencode(staging / relative_path), old, new[0])
    kept = []
    with safe_open.open_root(git.git_dir) as beside:
        for number, output in enumerate(saved.outputs):
            raw = file_names.from_json(output)
            *above, name = raw.split(b"/")
            try:
                undoing.remove_path(top, beside, raw)
                with safe_open.open_below(top, above, unlocking=True) as parent:
                    safe_open.make_writable(parent)
                    os.rename(os.fsencode(staging / str(number)), name, dst_dir_fd=parent)
            except OSError as error:
                if error.errno not in safe_open.GONE:
                    raise
                continue  # its directory is missing: an agent removed that part of the project
            kept.append(output)
    removal.remove_directory(staging)
    return tuple(kept)


def _list_spellings(root: Path) -> list[bytes]:
    """Return the possible spellings of the path of a workspace: its real path, which is used for writing, its
    configured path, and both in URLs.
    """
    paths = dict.fromkeys([os.path.realpath(root), str(root)])
    return [os.fsencode(path) for path in dict.fromkeys([*paths, *map(quote, paths)])]


def _make_fd_path(parent: int, name: bytes) -> bytes:
    """Return the path of a name in an opened directory, for another process that gets the descriptor."""
    return b"/proc/self/fd/%d/%s" % (parent, name)


def _copy_tree(source: bytes, target: bytes, *descriptors: int) -> None:
    """Copy with cp, which is several times faster than Python, and shares
    blocks if the file system supports it.
    """
    done = subprocess.run(
        ["cp", "-a", "--reflink=auto", "-T", "--", source, target],
        env={"PATH": os.defpath, "LC_ALL": "C"},
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
        message = f"can't copy the output of the setup: {errors[-1] if errors else f'cp failed with exit status {done.returncode}'}"
        raise StorageError(
            message, where=os.fsdecode(target), fix="check the disk, then run the command again"
        )


def _iter_files(path: bytes) -> Iterator[bytes]:
    """Yield the files and links of a copy."""
    if os.path.islink(path) or not os.path.isdir(path):
        yield path
        return
    for folder, directories, files in os.walk(path):
        links = [name for name in directories if os.path.islink(os.path.join(folder, name))]
        yield from (os.path.join(folder, name) for name in (*files, *links))


def _classify_mention(path: bytes, places: Sequence[bytes]) -> str:
    """Return how a file contains one of these paths: `text`, `link`, `binary`, or "" if it doesn't."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return "link" if any(os.readlink(path).startswith(place) for place in places) else ""
    if not stat.S_ISREG(status.st_mode) or not status.st_size or path.endswith(os.fsencode(COMPILED)):
        return ""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if all(content.find(place) < 0 for place in places):
            return ""
        text = status.st_size <= MOST_TEXT_BYTES and content.find(b"\0") < 0
        return "text" if text else "binary"


def _rewrite_place(path: bytes, old: Sequence[bytes], new: bytes) -> None:
    """Write the new path to a file or link. Its time changes too, otherwise
    Python would use its compiled version.
    """
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        target = _replace_places(os.readlink(path), old, new)
        os.unlink(path)
        os.symlink(target, path)
        return
    with open(path, "rb") as file:
        content = _replace_places(file.read(), old, new)
    fresh = path + b".new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
    os.rename(fresh, path)


def _replace_places(content: bytes, old: Sequence[bytes], new: bytes) -> bytes:
    for place in sorted(old, key=len, reverse=True):
        content = content.replace(place, os.fsencode(quote(new)) if b"%" in place else new)
    return content
