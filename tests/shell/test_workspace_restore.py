"""Restoring: exactly what the checkpoint holds, whatever stands in the way, and never through a link."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from logist.errors import InvalidFile
from logist.workspace import Workspace
from tests import support


def new(tmp_path: Path, source: Path | None = None) -> Workspace:
    workspace = Workspace(tmp_path / "job" / "workspace", tmp_path / "job" / "git")
    workspace.populate(source)
    return workspace


def as_file(place: Path) -> None:
    place.write_text("a file")


def as_program(place: Path) -> None:
    place.write_text("a file")
    place.chmod(0o755)


def as_link(place: Path) -> None:
    place.symlink_to("somewhere")


def as_directory(place: Path) -> None:
    (place / "deeper").mkdir(parents=True)
    (place / "deeper" / "file").write_text("below")


def as_empty_directory(place: Path) -> None:
    place.mkdir()


def as_nothing(_: Path) -> None:
    pass


def as_cache(place: Path) -> None:
    (place / "node_modules").mkdir(parents=True)
    (place / "node_modules" / "x").write_text("x")


def as_fifo(place: Path) -> None:
    os.mkfifo(place)


STORED = [as_file, as_program, as_link, as_directory, as_empty_directory, as_nothing]


@pytest.mark.deep_beyond(16)
@pytest.mark.parametrize("after", [*STORED, as_cache, as_fifo])
@pytest.mark.parametrize("before", STORED)
def test_any_kind_of_thing_turns_back_into_any_other(
    tmp_path: Path, before: Callable[[Path], None], after: Callable[[Path], None]
) -> None:
    workspace = new(tmp_path)
    place = workspace.root / "thing"
    before(place)
    commit = workspace.create_checkpoint("before").commit
    expected = kinds(workspace.root)

    place.rename(tmp_path / "aside") if before is not as_nothing else None
    after(place)
    workspace.restore(commit)
    if after not in (as_cache, as_fifo) or before is not as_nothing:
        remaining = {path: kind for path, kind in kinds(workspace.root).items() if "node_modules" not in path}
        assert remaining == expected


def kinds(root: Path) -> dict[str, tuple[str, bool]]:
    """By path, what each thing holds or what it is, and whether it is a program."""
    return {str(path.relative_to(root)): _kind(path) for path in root.rglob("*") if ".git" not in path.parts}


def _kind(path: Path) -> tuple[str, bool]:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"-> {path.readlink()}", False
    return (path.read_text(), bool(mode & 0o100)) if stat.S_ISREG(mode) else (f"{stat.S_IFMT(mode):o}", False)


def test_files_and_directories_are_for_the_owner_alone(tmp_path: Path) -> None:
    os.umask(0)
    workspace = new(tmp_path)
    (workspace.root / "d").mkdir()
    as_program(workspace.root / "d" / "run")
    as_file(workspace.root / "d" / "file")
    start = workspace.create_checkpoint("all").commit
    for path in (workspace.root / "d" / "run", workspace.root / "d" / "file"):
        path.unlink()
    (workspace.root / "d").rmdir()
    workspace.restore(start)
    modes = [stat.S_IMODE((workspace.root / path).stat().st_mode) for path in ("d", "d/run", "d/file")]
    assert modes == [0o700, 0o700, 0o600]


def test_what_is_as_it_was_is_not_written_again(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    kept, changed = workspace.root / "kept", workspace.root / "changed"
    as_file(kept)
    as_file(changed)
    start = workspace.create_checkpoint("start").commit
    changed.write_text("different")
    inode = kept.stat().st_ino
    workspace.restore(start)
    assert kept.stat().st_ino == inode
    assert changed.read_text() == "a file"


def test_a_second_name_outside_is_not_written_through(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    file, outside = workspace.root / "file", tmp_path / "outside"
    as_file(file)
    start = workspace.create_checkpoint("start").commit
    outside.write_text("precious")
    file.unlink()
    os.link(outside, file)
    workspace.restore(start)
    outside_program = tmp_path / "program"
    outside_program.write_text("a file")
    outside_program.chmod(0o755)
    file.unlink()
    os.link(outside_program, file)
    workspace.restore(start)
    assert file.read_text() == "a file"
    assert outside.read_text() == "precious"
    assert stat.S_IMODE(outside_program.stat().st_mode) == 0o755


def test_a_link_in_place_of_a_directory_is_replaced_not_followed(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    as_directory(workspace.root / "d")
    start = workspace.create_checkpoint("start").commit
    outside = tmp_path / "outside"
    (outside / "deeper").mkdir(parents=True)
    (outside / "deeper" / "file").write_text("precious")
    (outside / "deeper" / "other").write_text("precious")
    (workspace.root / "d").rename(tmp_path / "aside")
    (workspace.root / "d").symlink_to(outside)
    workspace.restore(start)
    assert not (workspace.root / "d").is_symlink()
    assert (workspace.root / "d" / "deeper" / "file").read_text() == "below"
    assert support.tree(outside)["deeper/file"] == b"precious"


@pytest.mark.deep
def test_a_directory_of_any_depth_in_the_way_is_removed(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    as_file(workspace.root / "d")
    start = workspace.create_checkpoint("start").commit
    (workspace.root / "d").unlink()
    dig = "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')\nos.mkdir('locked', 0o500)"
    subprocess.run([sys.executable, "-c", dig], cwd=workspace.root, check=True)
    workspace.restore(start)
    assert (workspace.root / "d").read_text() == "a file"
    assert not (workspace.git.git_dir / "logist-trash").exists()


def test_a_removal_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    as_file(workspace.root / "d")
    start = workspace.create_checkpoint("start").commit
    left = workspace.git.git_dir / "logist-trash" / "0"
    as_directory(left)
    (workspace.git.git_dir / "logist-restoring").symlink_to("/etc/passwd")
    (workspace.root / "d").unlink()
    as_cache(workspace.root / "d")
    workspace.restore(start)
    assert (workspace.root / "d").read_text() == "a file"
    assert not left.parent.exists()


def test_the_workspaces_own_git_stays(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    start = workspace.create_checkpoint("start").commit
    (workspace.root / ".git" / "note").write_text("the agent's")
    as_file(workspace.root / "file")
    workspace.create_checkpoint("later")
    workspace.restore(start)
    assert (workspace.root / ".git" / "note").read_text() == "the agent's"


def test_a_lost_git_of_the_workspace_is_made_again_with_its_base(tmp_path: Path, git_repo: Path) -> None:
    workspace = new(tmp_path, git_repo)
    base = support.git(workspace.root, "rev-parse", "HEAD")
    as_file(workspace.root / "file")
    later = workspace.create_checkpoint("later").commit
    shutil.rmtree(workspace.root / ".git")
    (workspace.git.git_dir / "logist-making" / ".git").mkdir(parents=True)  # of a restore that was killed
    workspace.restore(later)
    assert support.git(workspace.root, "rev-list", "--all") == base
    assert support.git(workspace.root, "status", "--porcelain") == "?? file\n"
    assert support.git(workspace.root, "fsck", "--strict") == ""
    assert not (workspace.git.git_dir / "logist-making").exists()
    without_git = Workspace(workspace.root, workspace.git.git_dir, path="/nonexistent")
    assert without_git.create_checkpoint("same").commit == later


@pytest.mark.usefixtures("ordinary_owner")
def test_a_lost_git_is_made_again_in_a_workspace_that_is_locked(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    start = workspace.create_checkpoint("start").commit
    shutil.rmtree(workspace.root / ".git")
    workspace.root.chmod(0o500)
    workspace.restore(start)
    assert (workspace.root / ".git" / "HEAD").exists()


@pytest.mark.parametrize("make", [as_file, as_link, as_empty_directory])
def test_what_an_agent_put_in_the_place_of_git_stays(tmp_path: Path, make: Callable[[Path], None]) -> None:
    workspace = new(tmp_path)
    start = workspace.create_checkpoint("start").commit
    shutil.rmtree(workspace.root / ".git")
    make(workspace.root / ".git")
    workspace.restore(start)
    assert not (workspace.root / ".git" / "HEAD").exists()


@pytest.mark.deep
def test_many_files_are_restored_and_then_known_without_reading(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    for number in range(300):
        (workspace.root / str(number)).write_text(str(number))
    commit = workspace.create_checkpoint("many")
    for number in range(300):
        (workspace.root / str(number)).unlink()
    workspace.restore(commit.commit)
    without_git = Workspace(workspace.root, workspace.git.git_dir, path="/nonexistent")
    assert without_git.create_checkpoint("same") == commit
    assert (workspace.root / "299").read_text() == "299"


@pytest.mark.parametrize("name", [".git", "..", "."])
def test_a_tree_that_would_leave_the_workspace_is_refused(tmp_path: Path, name: str) -> None:
    workspace = new(tmp_path)
    git_dir = workspace.git.git_dir
    blob = support.git(git_dir, "hash-object", "-w", "--stdin").strip()
    inner = _make_tree(git_dir, b"100644 config\0" + bytes.fromhex(blob))
    tree = _make_tree(git_dir, b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner))
    commit = support.git(git_dir, "commit-tree", "-m", "hostile", tree).strip()
    before = support.tree(tmp_path / "job" / "workspace")
    with pytest.raises(InvalidFile, match="can't contain a file named"):
        workspace.restore(commit)
    assert support.tree(tmp_path / "job" / "workspace") == before


def _make_tree(git_dir: Path, data: bytes) -> str:
    file = git_dir / "logist-test-tree"
    file.write_bytes(data)
    return support.git(git_dir, "hash-object", "-w", "-t", "tree", "--literally", str(file)).strip()


def test_a_tree_that_goes_through_a_link_is_refused(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    git_dir = workspace.git.git_dir
    outside = tmp_path / "outside"
    outside.mkdir()
    target = git_dir / "logist-test-target"
    target.write_text(str(outside))
    link = bytes.fromhex(support.git(git_dir, "hash-object", "-w", str(target)).strip())
    inner = bytes.fromhex(_make_tree(git_dir, b"100644 file\0" + link))
    tree = _make_tree(git_dir, b"120000 d\0" + link + b"40000 d\0" + inner)
    commit = support.git(git_dir, "commit-tree", "-m", "hostile", tree).strip()
    with pytest.raises(InvalidFile, match="both a file and a directory"):
        workspace.restore(commit)
    assert list(outside.iterdir()) == []
