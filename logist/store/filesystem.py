"""Checks that jobs are on a local file system: locks and flushes can't be relied on elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

from logist import systems
from logist.errors import Refused
from logist.quick_tuple import NamedTuple

MOUNTS = "/proc/self/mountinfo"
# File systems as that file spells them; the second set, behind "fuse.".
_NETWORK = frozenset(
    {"9p", "acfs", "afp", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre"}
    | {"ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "vmhgfs", "webdav"}
)
_NETWORK_FUSE = frozenset(
    {"blobfuse", "blobfuse2", "ceph", "ceph-fuse", "curlftpfs", "davfs", "davfs2", "gcsfuse", "glusterfs"}
    | {"goofys", "grpcfuse", "gvfsd-fuse", "juicefs", "lizardfs", "mfs", "moosefs", "mountpoint-s3", "osxfs"}
    | {"rclone", "s3fs", "smbnetfs", "sshfs", "vmhgfs-fuse"}
)
_WINDOWS_DRIVE = "drvfs"
"""The type of a Windows drive in WSL 1. In WSL 2 the type is 9p or virtiofs, and the source or an option has this word."""


_LOCAL_ON_MACOS = ("apfs", "hfs")
_REMOTE = "remote"
"""The options of a file system of another machine on macOS, whatever its type."""


class Mount(NamedTuple):
    """One line of the kernel's mount table."""

    kind: str
    source: str
    options: str
    """Those of the file system, separated by commas."""


def require_local(path: Path) -> None:
    """Refuse to keep jobs on a file system whose locks or flushes can't be relied on.

    The parts of `path` that don't exist yet will be on the file system of its nearest existing parent.
    """
    if problem := describe_problem(path):
        disk = "a local Linux disk" if systems.IS_LINUX else "a local disk"
        fix = f"move the project to {disk}, or only the jobs: use --jobs-dir or $LOGIST_JOBS_DIR"
        raise Refused(f"can't keep jobs on {problem}", where=str(path), fix=fix)


def describe_problem(path: Path) -> str | None:
    """Why the file system of `path`, which need not exist yet, can't keep jobs; None if it can."""
    mount = find_mount(next(folder for folder in (path, *path.parents) if os.path.exists(folder)))
    if mount is None:
        return None
    if is_windows_drive(mount):
        return f"a Windows drive ({mount.kind}): file locks and flushes don't work there"
    if is_network(mount.kind) or mount.options == _REMOTE:
        return f"a network file system ({mount.kind}): file locks there don't work between machines"
    return None


def is_windows_drive(mount: Mount) -> bool:
    """True for a Windows drive that WSL mounts, as below /mnt/c."""
    if mount.kind in ("9p", "virtiofs"):
        return _WINDOWS_DRIVE in mount.source or _WINDOWS_DRIVE in mount.options
    return mount.kind == _WINDOWS_DRIVE


def is_network(name: str) -> bool:
    """True if a file system type, spelled as in /proc/self/mountinfo, is shared between machines."""
    base, _, driver = name.partition(".")
    return driver in _NETWORK_FUSE if base in ("fuse", "fuseblk") else base in _NETWORK


def filesystem_type(path: Path) -> str | None:
    """The type of the file system that holds `path`; None if it is not listed."""
    mount = find_mount(path)
    return mount.kind if mount else None


def find_mount(path: Path) -> Mount | None:
    """Find the mount that holds `path`, by its device number; None if it is not listed.

    Network file systems are always found this way. Those whose device numbers differ (btrfs) are local.
    """
    if not systems.IS_LINUX:
        return _find_mount_on_macos(path)
    try:
        device = os.stat(path).st_dev
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            split = [line.rstrip("\n").partition(" - ") for line in mounts]
    except OSError:
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    matches = [after for before, _, after in split if before.split()[2] == number]
    if not matches:
        return None
    kind, source, options = (*matches[-1].split(" ", 2), "", "")[:3]
    return Mount(kind, source, options)


def _find_mount_on_macos(path: Path) -> Mount | None:
    try:
        kind, source, is_local = systems.find_mount_on_macos(path)
    except OSError:
        return None
    return Mount(kind, source, "" if is_local or kind in _LOCAL_ON_MACOS or not kind.isalnum() else _REMOTE)


def count_free_bytes(path: Path) -> int | None:
    """How much this user can still write to the file system of `path`, which need not exist yet; None if it doesn't say."""
    disk = os.statvfs(next(folder for folder in (path, *path.parents) if os.path.exists(folder)))
    return disk.f_bavail * disk.f_frsize if disk.f_blocks else None
