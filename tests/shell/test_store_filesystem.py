"""Jobs are kept only where locks hold and a flush reaches the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logist.errors import Refused
from logist.store import JobDir, describe_problem, filesystem, filesystem_type, require_local
from logist.store.filesystem import is_network
from tests import support

WSL_2 = (
    "9p C:\\134 rw,dirsync,aname=drvfs;path=C:\\;uid=1000;gid=1000;symlinkroot=/mnt/,access=client,trans=fd"
)
WSL_2_VIRTIOFS = "virtiofs drvfsaC9 rw"
WSL_1 = "drvfs C:\\134 rw,uid=1000,gid=1000,case=off"


class Mounts:
    """The kernel's table of mounts, as it is where the files of a test are on another file system."""

    def __init__(self, place: Path, variables: pytest.MonkeyPatch) -> None:
        self.place = place
        self.table = place / "mountinfo"
        variables.setattr(filesystem, "MOUNTS", str(self.table))

    def become(self, line: str) -> None:
        """`line`: the type, the source and the options."""
        device = self.place.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        other = "22 27 0:999 / /proc rw - proc proc rw"
        self.table.write_text(f"{other}\n27 1 {number} / /a\\040b rw,relatime shared:1 master:2 - {line}\n")


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mounts:
    return Mounts(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "name", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.rclone", "fuse.vmhgfs-fuse", "ceph"]
)
def test_a_network_file_system_is_known(name: str) -> None:
    assert is_network(name)


@pytest.mark.parametrize(
    "name", ["ext4", "btrfs", "overlay", "tmpfs", "virtiofs", "fuseblk", "fuse.gocryptfs", "fuse.nfs"]
)
def test_a_local_file_system_is_known(name: str) -> None:
    assert not is_network(name)


def test_the_file_system_is_found_by_its_device(mounts: Mounts, tmp_path: Path) -> None:
    mounts.become("nfs4 server:/x rw")
    assert filesystem_type(tmp_path) == "nfs4"
    assert filesystem_type(tmp_path / "none") is None


def test_the_table_of_this_machine_is_read() -> None:
    assert filesystem_type(Path("/proc/self/stat")) == "proc"


@pytest.mark.parametrize("line", ["ext4 /dev/sda1 rw", "virtiofs workspace rw", "overlay"])
def test_a_local_file_system_keeps_jobs(mounts: Mounts, tmp_path: Path, line: str) -> None:
    mounts.become(line)
    require_local(tmp_path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("fuse.sshfs host:/ rw", "a network file system (fuse.sshfs)"),
        ("nfs4 server:/x rw,vers=4.2", "a network file system (nfs4)"),
        ("cifs //server/share rw", "a network file system (cifs)"),
        ("9p hostshare rw,access=client,trans=virtio", "a network file system (9p)"),
        (WSL_2, "a Windows drive (9p)"),
        (WSL_2_VIRTIOFS, "a Windows drive (virtiofs)"),
        (WSL_1, "a Windows drive (drvfs)"),
    ],
)
def test_jobs_are_refused_where_locks_do_not_hold(
    mounts: Mounts, tmp_path: Path, line: str, problem: str
) -> None:
    mounts.become(line)
    found = describe_problem(tmp_path / "not" / "made" / "yet")
    assert found is not None
    assert found.startswith(f"{problem}: file locks ")
    with pytest.raises(Refused) as caught:
        require_local(tmp_path)
    assert caught.value.message == f"can't keep jobs on {found}"
    assert "--jobs-dir" in (caught.value.fix or "")


def test_nothing_is_made_there(mounts: Mounts, tmp_path: Path) -> None:
    mounts.become(WSL_2)
    with pytest.raises(Refused), JobDir.create_job(tmp_path / "new" / "jobs", "j1"):
        pass
    assert not (tmp_path / "new").exists()


def test_a_project_there_is_refused_before_anything_is_written(
    mounts: Mounts, tmp_path: Path, cli: support.RunLogist
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    mounts.become(WSL_2)
    refused = cli("init", cwd=project)
    assert refused.code == 8
    assert refused.err.startswith(f"error: {project / '.logist'}: can't keep jobs on a Windows drive (9p): ")
    assert len(refused.err.splitlines()) == 1
    assert list(project.iterdir()) == []

    (project / ".logist").mkdir()
    created = cli("job", "create", "--id", "j1", "--prompt", "x", "--no-repo", cwd=project)
    assert created.code == 8
    assert "can't keep jobs on a Windows drive (9p)" in created.err
    assert list((project / ".logist").iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ["job", "step"],
        ["job", "poststep", "--response-string", "{}"],
        ["job", "run"],
        ["run"],
        ["job", "approve", "--override", "Read it."],
        ["job", "resubmit"],
        ["job", "suspend"],
        ["job", "cancel", "--yes"],
        ["job", "rank", "3"],
        ["job", "config", "--set", "title=x"],
        ["job", "rerun"],
        ["job", "fork"],
        ["job", "delete", "j1", "--yes"],
        ["job", "create", "--id", "j2", "--prompt", "x", "--no-repo"],
        ["job", "create", "--batch", "../batch.jsonl", "--no-repo"],
        ["inbox", "note", "Look at this."],
        ["gc", "--older-than", "1d", "--yes"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_job_that_is_there_already_is_read_and_not_changed(
    mounts: Mounts, tmp_path: Path, cli: support.RunLogist, command: list[str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "batch.jsonl").write_text('{"id": "j2", "prompt": "x"}\n')
    mounts.become("ext4 /dev/sda1 rw")
    assert cli("init", cwd=project).code == 0
    assert cli("job", "create", "--id", "j1", "--prompt", "x", "--no-repo", cwd=project).code == 0
    assert cli("job", "select", "j1", cwd=project).code == 0
    mounts.become("nfs4 server:/x rw")
    before = support.tree(project)
    refused = cli(*command, cwd=project)
    assert refused.code == 8, refused.err + refused.out
    assert "can't keep jobs on a network file system (nfs4)" in refused.err
    assert support.tree(project) == before
    assert cli("job", "status", "j1", cwd=project).code == 0
    assert cli("job", "verify", "j1", cwd=project).code == 0


def test_a_project_there_works_with_its_jobs_elsewhere(
    mounts: Mounts, tmp_path: Path, cli: support.RunLogist, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    mounts.become(WSL_2)
    monkeypatch.setenv("LOGIST_JOBS_DIR", "/proc/self")  # on a file system that the table does not list
    assert cli("init", cwd=project).code == 0
