"""Files that share their blocks on the disk. Where the file system of the tests can't do that, only what happens then is
tested: run it with `--basetemp` on btrfs or XFS for the rest.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from logist.workspace import Workspace
from logist.workspace.files import clones
from tests import support


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "d").mkdir(parents=True)
    target.mkdir()
    (source / "d" / "a").write_bytes(b"a" * 10_000)
    (source / "b").write_bytes(b"b" * 10_000)
    return source, target


def can_clone(folders: tuple[Path, Path]) -> bool:
    return clones.can_clone(*folders, [b"b"])


def test_a_copy_has_the_content_and_the_permissions(folders: tuple[Path, Path]) -> None:
    source, target = folders
    os.chmod(source / "b", 0o400)
    clones.copy_file(source / "b", target / "b")
    assert (target / "b").read_bytes() == b"b" * 10_000
    assert stat.S_IMODE((target / "b").stat().st_mode) == 0o400
    (source / "empty").touch()
    clones.copy_file(source / "empty", target / "empty")
    assert (target / "empty").read_bytes() == b""
    with pytest.raises(FileExistsError):
        clones.copy_file(source / "b", target / "b")


def test_what_can_not_be_cloned_is_left_out(folders: tuple[Path, Path]) -> None:
    source, target = folders
    os.mkfifo(source / "pipe")
    (source / "link").symlink_to("b")
    (source / "linked").symlink_to("d")
    wanted = [
        clones.WantedFile(name.encode(), 0o600, size)
        for name, size in (("b", 9999), ("d/missing", 1), ("link", 10_000), ("linked/a", 10_000), ("pipe", 0))
    ]
    clones.clone_files(source, target, wanted)
    assert [path for path in target.rglob("*") if not path.is_dir()] == []
    assert not clones.can_clone(source, target, [b"missing", b"link", b"pipe"])


def test_a_file_is_cloned_or_left_to_git(folders: tuple[Path, Path]) -> None:
    source, target = folders
    wanted = [clones.WantedFile(b"b", 0o600, 10_000), clones.WantedFile(b"d/a", 0o700, 10_000)]
    clones.clone_files(source, target, wanted)
    assert {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()} == (
        {"b", "d/a"} if can_clone(folders) else set()
    )
    if can_clone(folders):
        assert (target / "d" / "a").read_bytes() == b"a" * 10_000
        assert [stat.S_IMODE((target / name).stat().st_mode) for name in ("b", "d/a")] == [0o600, 0o700]


def test_a_job_takes_little_more_than_its_own_files(
    folders: tuple[Path, Path], tmp_path: Path, git_repo: Path
) -> None:
    """Counted by the free space of a file system that nothing else writes to."""
    if not can_clone(folders):
        pytest.skip("needs a file system that can clone files")
    (git_repo / "large").write_bytes(os.urandom(30_000_000))
    support.git(git_repo, "add", "--all")
    support.git(git_repo, "commit", "--quiet", "--message", "large")
    parent = Workspace(tmp_path / "parent" / "workspace", tmp_path / "parent" / "git")
    base = parent.populate(git_repo)
    os.sync()
    before = os.statvfs(tmp_path).f_bavail
    child = Workspace(tmp_path / "child" / "workspace", tmp_path / "child" / "git")
    child.populate_from_parent(parent.git.git_dir, base, parent.root)
    os.sync()
    used = (before - os.statvfs(tmp_path).f_bavail) * os.statvfs(tmp_path).f_bsize
    assert used < 3_000_000
    assert (child.root / "large").read_bytes() == (git_repo / "large").read_bytes()
    assert support.git(child.root, "status", "--porcelain") == ""
