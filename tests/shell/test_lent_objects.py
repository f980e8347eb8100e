"""A child job's own `.git` borrows its objects from the repository of checkpoints until a program needs them."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from logist.workspace import Workspace, source
from tests import support

BORROWED = Path("objects", "info", "alternates")
PACKS = Path("objects", "pack")


@pytest.fixture
def parent(tmp_path: Path, git_repo: Path) -> Workspace:
    """A job with a checkpoint before the one that its children begin with."""
    made = Workspace(tmp_path / "parent" / "workspace", tmp_path / "parent" / "git")
    made.populate(git_repo)
    (made.root / "earlier").write_text("secret of the parent\n")
    made.create_checkpoint("earlier")
    (made.root / "earlier").unlink()
    return made


@pytest.fixture
def child(tmp_path: Path, parent: Workspace) -> Workspace:
    made = Workspace(tmp_path / "child" / "workspace", tmp_path / "child" / "git")
    made.populate_from_parent(parent.git.git_dir, parent.create_checkpoint("spawn").commit, parent.root)
    return made


def find_borrowed(workspace: Workspace) -> bool:
    return os.path.lexists(workspace.root / ".git" / BORROWED)


def require_complete(workspace: Workspace) -> None:
    """The `.git` has the first checkpoint, nothing else, and refers to no other place."""
    git_dir = workspace.root / ".git"
    assert not find_borrowed(workspace)
    assert support.git(workspace.root, "fsck", "--full", "--strict", "--no-progress") == ""
    held = support.git(git_dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    wanted = support.git(git_dir, "rev-list", "--objects", "--no-object-names", "HEAD").split()
    assert sorted(held) == sorted(wanted)
    assert all(path.lstat().st_nlink == 1 for path in git_dir.rglob("*") if path.is_file())
    assert not (workspace.git.git_dir / source.MAKING).exists()


def test_people_can_use_it_at_once(tmp_path: Path, child: Workspace) -> None:
    assert find_borrowed(child)
    assert list((child.root / ".git" / PACKS).iterdir()) == []
    assert support.git(child.root, "status", "--porcelain") == ""
    assert support.git(child.root, "log", "--format=%s") == "spawn\n"
    (child.root / "README.md").write_text("# Better\n")
    assert "+# Better" in support.git(child.root, "diff")
    (tmp_path / "child").rename(tmp_path / "moved")
    assert "+# Better" in support.git(tmp_path / "moved" / "workspace", "diff")


@pytest.mark.parametrize("completed_by", ["a command", "an agent"])
def test_programs_find_all_objects_in_it(tmp_path: Path, child: Workspace, completed_by: str) -> None:
    index = (child.root / ".git" / "index").read_bytes()
    (child.root / "README.md").write_text("# Better\n")
    child.create_checkpoint("later, which the agent may not read there")
    if completed_by == "a command":
        child.complete_git()
    else:
        child.disarm_git()
    (tmp_path / "child" / "git").rename(tmp_path / "out of sight")
    require_complete(child)
    assert (child.root / ".git" / "index").read_bytes() == index, "git needn't read the files again"
    assert support.git(child.root, "status", "--porcelain") == " M README.md\n"


def test_it_still_borrows_if_no_program_will_use_it(child: Workspace) -> None:
    hook = child.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir()
    hook.touch()
    child.disarm_git(for_programs=False)
    assert not hook.exists()
    assert find_borrowed(child)
    assert support.git(child.root, "log", "--format=%s") == "spawn\n"


def test_other_references_are_removed(tmp_path: Path, child: Workspace) -> None:
    for_programs = child.root / ".git" / BORROWED
    for_programs.write_text(f"{tmp_path}/parent/git/objects\n")
    child.disarm_git(for_programs=False)
    assert not find_borrowed(child)


@pytest.mark.parametrize("place", ["objects", "objects/pack"])
def test_nothing_is_written_where_a_link_leads(tmp_path: Path, child: Workspace, place: str) -> None:
    outside = tmp_path / "outside"
    (child.root / ".git" / place).rename(outside)
    (child.root / ".git" / place).symlink_to(outside)
    before = sorted(map(str, outside.rglob("*")))
    child.disarm_git()
    assert sorted(map(str, outside.rglob("*"))) == before
    if place == "objects/pack":
        require_complete(child)


def test_a_pipe_in_place_of_the_reference_is_no_reference(child: Workspace) -> None:
    (child.root / ".git" / BORROWED).unlink()
    os.mkfifo(child.root / ".git" / BORROWED)
    child.disarm_git()
    assert not find_borrowed(child)


def test_a_locked_directory_is_opened(child: Workspace) -> None:
    (child.root / ".git" / PACKS).chmod(stat.S_IRUSR)
    child.disarm_git()
    require_complete(child)


def test_what_a_killed_command_has_left_does_no_harm(child: Workspace) -> None:
    """It was killed when the first of the files was in place."""
    other = child.root.parent / "other"
    shutil.copytree(child.root.parent, other, symlinks=True)
    done = Workspace(other / "workspace", other / "git")
    done.complete_git()
    pack, *_ = sorted((done.root / ".git" / PACKS).glob("*.pack"))
    shutil.copy(pack, child.root / ".git" / PACKS)
    (child.git.git_dir / source.MAKING / ".git").mkdir(parents=True)
    child.complete_git()
    require_complete(child)


def test_without_it_a_complete_one_is_created(child: Workspace) -> None:
    shutil.rmtree(child.root / ".git")
    child.disarm_git(for_programs=False)
    require_complete(child)
    child.complete_git()
    require_complete(child)
