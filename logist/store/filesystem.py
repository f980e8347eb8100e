"""What a file system is: locks hold only on a local one."""

from __future__ import annotations

import os
from pathlib import Path

from logist.errors import Refused

_MOUNTS = "/proc/self/mountinfo"
# File systems as that file spells them; the second set, behind "fuse.".
_NETWORK = frozenset(
    {"9p", "acfs", "afp", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre"}
    | {"ncpfs", "nfs", "nfs4", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf", "webdav"}
)
_NETWORK_FUSE = frozenset(
    {"ceph", "curlftpfs", "davfs", "davfs2", "gcsfuse", "glusterfs", "goofys", "gvfsd-fuse", "juicefs"}
    | {"mfs", "moosefs", "rclone", "s3fs", "smbnetfs", "sshfs"}
)


def require_local(path: Path, mountinfo: str = _MOUNTS) -> None:
    """Refused on a network file system: its locks do not keep other machines out."""
    kind = filesystem_type(path, mountinfo)
    if kind and is_network(kind):
        message = f"a job cannot live on a network file system ({kind}): locks there do not hold"
        fix = "keep the jobs on a local disk: --jobs-dir, or $LOGIST_JOBS_DIR"
        raise Refused(message, where=str(path), fix=fix)


def is_network(name: str) -> bool:
    """Whether a file system type, spelled as in /proc/self/mountinfo, is shared between machines."""
    base, _, driver = name.partition(".")
    return driver in _NETWORK_FUSE if base in ("fuse", "fuseblk") else base in _NETWORK


def filesystem_type(path: Path, mountinfo: str = _MOUNTS) -> str | None:
    """The type of the file system that holds `path`, found by device; None if it is not listed.

    Network file systems are always found so. Those that number their devices otherwise (btrfs) are local.
    """
    try:
        device = os.stat(path).st_dev
        with open(mountinfo, encoding="utf-8", errors="surrogateescape") as mounts:
            split = [line.partition(" - ") for line in mounts]
    except OSError:
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = [after.split()[0] for before, _, after in split if before.split()[2] == number]
    return kinds[-1] if kinds else None
