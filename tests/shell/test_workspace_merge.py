"""The work of children, each in a workspace from the same checkpoint, into that of their parent."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from logist.errors import Damaged, StorageError
from logist.workspace import Workspace
from logist.workspace.checkpoint import packs
from logist.workspace.merge.children import MergedChildren, Theirs
from tests import support


@pytest.fixture
def parent(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "parent" / "workspace", tmp_path / "parent" / "git")
    made.populate(None)
    for name in ("a", "b", "d/c"):
        path = made.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    return made


class Family:
    """A parent, and children that each do their part."""

    def __init__(self, place: Path, parent: Workspace) -> None:
        self.place = place
        self.parent = parent
        self.base = parent.create_checkpoint("spawn").commit
        self.children: list[Theirs] = []

    def child(self, name: str) -> Workspace:
        made = Workspace(self.place / name / "workspace", self.place / name / "git")
        git_dir, root = self.parent.git.git_dir, self.parent.root
        assert made.populate_from_parent(git_dir, self.base, root) == self.base
        return made

    def done(self, name: str, space: Workspace) -> None:
        self.children.append(Theirs(name, space.git.git_dir, space.create_checkpoint("done").commit))

    def writes(self, name: str, path: str, text: str) -> None:
        space = self.child(name)
        target = space.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        self.done(name, space)

    def merged(self) -> MergedChildren:
        ours = self.parent.create_checkpoint("before").commit
        merged = self.parent.merge_children(ours, self.children)
        self.parent.restore(merged.commit)
        return merged


@pytest.fixture
def family(tmp_path: Path, parent: Workspace) -> Family:
    return Family(tmp_path, parent)


def test_a_child_begins_with_what_the_parent_had(family: Family) -> None:
    (family.parent.root / "a").write_text("later\n")
    space = family.child("one")
    assert (space.root / "a").read_text() == "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    assert (space.root / ".git").is_dir()
    assert space.list_changes(family.base, None) == ([], 0)


def require_complete(repository: Path) -> None:
    assert support.git(repository, "fsck", "--full", "--strict", "--no-dangling", "--no-progress") == ""


def list_objects(repository: Path) -> list[str]:
    return support.git(repository, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()


def list_inodes(folder: Path) -> set[int]:
    return {path.lstat().st_ino for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def test_children_share_the_objects_of_the_parent_and_nothing_that_an_agent_can_reach(family: Family) -> None:
    space, other = family.child("one"), family.child("two")
    packed = family.parent.git.git_dir / "objects" / "pack"
    for each in (space, other):
        own = each.git.git_dir / "objects" / "pack"
        assert list_inodes(own)
        assert list_inodes(own) <= list_inodes(packed)
        assert not list_inodes(each.root) & list_inodes(family.parent.git.git_dir)
        assert all(path.lstat().st_nlink == 1 for path in each.root.rglob("*") if path.is_file())
        assert not list(each.git.git_dir.rglob("alternates"))


def test_a_child_needs_nothing_of_the_parent_later(family: Family) -> None:
    space = family.child("one")
    shutil.rmtree(family.parent.root.parent)
    (space.root / "a").unlink()
    commit = space.create_checkpoint("later").commit
    space.restore(family.base)
    assert (space.root / "a").read_text() == "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    for repository in (space.git.git_dir, space.root):
        require_complete(repository)
    assert set(support.git(space.git.git_dir, "log", "--all", "--format=%H").split()) == {family.base, commit}


def test_a_child_on_another_file_system_has_copies(family: Family) -> None:
    shared_memory = Path("/dev/shm")
    if not shared_memory.is_dir() or shared_memory.stat().st_dev == family.place.stat().st_dev:
        pytest.skip("no other file system")
    with tempfile.TemporaryDirectory(dir=shared_memory) as place:
        space = Workspace(Path(place, "workspace"), Path(place, "git"))
        assert space.populate_from_parent(family.parent.git.git_dir, family.base) == family.base
        assert (space.root / "a").read_text() == "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
        require_complete(space.git.git_dir)


def test_objects_outside_of_packs_are_copied(family: Family) -> None:
    """A merge that was killed leaves some."""
    git_dir = family.parent.git.git_dir
    (index,) = (path for path in packs.list_indexes(git_dir) if family.base in packs.list_names(path))
    content = index.with_suffix(".pack").read_bytes()
    index.with_suffix(".pack").unlink()
    index.unlink()
    subprocess.run(["git", f"--git-dir={git_dir}", "unpack-objects", "-q"], input=content, check=True)
    space = family.child("one")
    assert (space.root / "a").read_text() == "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    require_complete(space.git.git_dir)


def test_a_child_has_nothing_of_later_checkpoints_and_its_agent_nothing_of_earlier_ones(
    family: Family,
) -> None:
    (family.parent.root / "b").write_text("changed\n")
    family.base = family.parent.create_checkpoint("again").commit
    (family.parent.root / "c").write_text("later\n")
    later = family.parent.create_checkpoint("later").commit
    support.git(family.parent.git.git_dir, "repack", "-a", "-d", "-q")
    space = family.child("one")
    space.complete_git()
    require_complete(space.git.git_dir)
    require_complete(space.root)
    assert later not in list_objects(space.git.git_dir)
    assert [each for each in list_objects(space.root) if each in family.parent.list_checkpoints()] == [
        family.base
    ]
    assert set(space.list_checkpoints()) == {family.base}


def test_a_child_has_empty_directories_links_and_repositories_of_the_parent(family: Family) -> None:
    root = family.parent.root
    (root / "empty" / "deep").mkdir(parents=True)
    (root / "nested" / ".git").mkdir(parents=True)
    (root / "nested" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "link").symlink_to("a")
    family.base = family.parent.create_checkpoint("again").commit
    space = family.child("one")
    assert list((space.root / "empty" / "deep").iterdir()) == []
    assert (space.root / "nested" / ".git" / "HEAD").is_file()
    assert os.readlink(space.root / "link") == "a"
    assert space.create_checkpoint("same").commit == family.base


def test_work_on_different_files_and_different_lines_fits_together(family: Family) -> None:
    family.writes("one", "new/one", "made\n")
    family.writes("two", "a", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    family.writes("three", "a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n")
    gone = family.child("four")
    (gone.root / "b").unlink()
    os.chmod(gone.root / "d" / "c", 0o755)
    family.done("four", gone)
    (family.parent.root / "own").write_text("of the parent, meanwhile\n")
    merged = family.merged()
    root = family.parent.root
    assert merged.conflicts == {}
    assert (root / "a").read_text() == "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
    assert {path.name for path in root.rglob("*") if path.is_file() and ".git" not in path.parts} == {
        *("a", "c", "one", "own")
    }
    assert os.access(root / "d" / "c", os.X_OK)
    assert family.parent.create_checkpoint("after").commit == merged.commit


def test_in_the_order_of_the_items_the_first_holds_and_the_files_of_the_other_are_named(
    family: Family,
) -> None:
    family.writes("one", "a", "mine\n")
    family.writes("two", "a", "no, mine\n")
    family.writes("three", "d/ü", "fits\n")
    merged = family.merged()
    assert merged.conflicts == {"two": ["a"]}
    assert (family.parent.root / "a").read_text() == "mine\n"
    assert (family.parent.root / "d" / "ü").read_text() == "fits\n"


def test_what_is_merged_is_packed_and_named_like_every_checkpoint(family: Family) -> None:
    family.writes("one", "x", "1\n")
    commit = family.merged().commit
    git_dir = family.parent.git.git_dir
    assert not list(packs.find_lacking(git_dir, {commit, family.children[0].commit}))
    loose = [path for path in (git_dir / "objects").iterdir() if len(path.name) == 2]
    assert loose == []
    other = Workspace(family.place / "again" / "workspace", family.place / "again" / "git")
    assert other.populate_from_parent(git_dir, commit) == commit


def test_the_same_work_gives_the_same_commit(family: Family, tmp_path: Path) -> None:
    family.writes("one", "x", "1\n")
    ours = family.parent.create_checkpoint("before").commit
    assert family.parent.merge_children(ours, family.children) == family.parent.merge_children(
        ours, family.children
    )


def test_nothing_done_is_nothing_merged(family: Family) -> None:
    family.done("idle", family.child("idle"))
    assert family.merged() == MergedChildren(family.base, {})


def test_what_a_checkpoint_could_not_hold_is_still_said(family: Family) -> None:
    os.mkfifo(family.parent.root / "pipe")
    family.writes("one", "x", "1\n")
    family.merged()
    assert family.parent.create_checkpoint("after").skipped == ("pipe (fifo)",)


def test_attributes_of_the_work_run_nothing(family: Family, tmp_path: Path) -> None:
    space = family.child("one")
    (space.root / ".gitattributes").write_text("* merge=evil diff=evil filter=evil\n")
    (space.root / ".git" / "config").write_text(f'[merge "evil"]\n\tdriver = touch {tmp_path}/ran\n')
    (space.root / "a").write_text("x\n")
    family.done("one", space)
    family.writes("two", "a", "y\n")
    assert family.merged().conflicts == {"two": ["a"]}
    assert not (tmp_path / "ran").exists()


def test_a_child_that_lost_its_repository(family: Family) -> None:
    family.children.append(Theirs("gone", family.place / "nowhere", family.base[::-1]))
    with pytest.raises(StorageError, match="the checkpoint repository is missing"):
        family.merged()
    with pytest.raises(Damaged):
        family.parent.merge_children(family.base, [Theirs("bad", family.place, "--upload-pack=evil")])


def test_what_a_killed_git_left_is_not_in_the_way(family: Family) -> None:
    family.writes("one", "x", "1\n")
    git_dir = family.parent.git.git_dir
    stale = [git_dir / name for name in ("shallow.lock", "refs/children/one.lock", "objects/ab/tmp_obj_x")]
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert family.merged().conflicts == {}
    assert not [path for path in stale if path.exists()]


def test_what_no_checkpoint_holds_is_named_and_the_rest_comes_over(family: Family) -> None:
    space = family.child("one")
    space.max_bytes = 100
    (space.root / "big").write_text("x" * 101)
    (space.root / "small").write_text("x")
    (space.root / "node_modules").mkdir()
    (space.root / "node_modules" / "made").write_text("again")
    os.mkfifo(space.root / "pipe")
    family.done("one", space)
    family.writes("two", "a", "theirs\n")
    merged = family.merged()
    assert (merged.conflicts, merged.lost) == ({}, {"one": ["big (too large)", "pipe (fifo)"]})
    assert (family.parent.root / "small").exists()
    assert not (family.parent.root / "big").exists()


@pytest.mark.parametrize("ours", ["a", "d/c"])
def test_a_file_that_grew_too_large_does_not_take_ours_away(family: Family, ours: str) -> None:
    space = family.child("one")
    space.max_bytes = 100
    if ours == "a":
        (space.root / ours).write_text("x" * 101)
    else:
        (space.root / ours).unlink()
        (space.root / "d").rmdir()
        os.mkfifo(space.root / "d")
    family.done("one", space)
    merged = family.merged()
    assert merged.conflicts == {"one": [ours]}
    assert (family.parent.root / ours).read_text() == "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
