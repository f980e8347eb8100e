"""What a new workspace takes from git's index, and from the jobs beside it, instead of looking at each file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from logist.errors import StorageError
from logist.regular_files import read_regular
from logist.workspace import KnownStart, Workspace
from logist.workspace.checkpoint import checkout, objects, packs, sharing, written_files
from logist.workspace.checkpoint.baseline import Baseline, load_baseline
from logist.workspace.checkpoint.objects import TreeListing
from logist.workspace.checkpoint.scan import UNSURE, ScanRules, scan_workspace
from logist.workspace.files import safe_open
from tests import support


@pytest.fixture
def source(git_repo: Path) -> Path:
    """A repository with files of every kind, in directories that sort differently from the paths in them."""
    for name in ("a/b/c", "a.b/c", "a-b", "a/é\n", "a/b.d/x", "z/" + "long" * 60, "z/\udcff"):
        path = Path(os.fsdecode(os.path.join(os.fsencode(git_repo), os.fsencode(name))))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(repr(name))
    (git_repo / "empty").touch()
    (git_repo / "a" / "program").write_text("#!/bin/sh\n")
    (git_repo / "a" / "program").chmod(0o755)
    (git_repo / "a" / "link").symlink_to("nowhere")
    support.git(git_repo, "add", "--all")
    support.git(git_repo, "commit", "--quiet", "--message", "more")
    return git_repo


def make(tmp_path: Path, name: str) -> Workspace:
    return Workspace(tmp_path / name / "workspace", tmp_path / name / "git")


def scan(workspace: Workspace, commit: str) -> Baseline:
    """The baseline that a scan gives; every stamp counts."""
    with safe_open.open_root(workspace.root) as top:
        table = scan_workspace(top, ScanRules(frozenset())).table
    return Baseline.from_scan(commit, table, objects.read_tree(workspace.git, commit), {}, 1 << 62)


def require_as_scanned(workspace: Workspace, commit: str) -> None:
    known, scanned = load_baseline(workspace.git), scan(workspace, commit)
    pairs = list(zip(known.table.list_stamps(), scanned.table.list_stamps(), strict=True))
    assert all(mine in (UNSURE, seen) for mine, seen in pairs)
    assert replace(known, table=scanned.table) == scanned
    assert replace(known.table, stamps=b"") == replace(scanned.table, stamps=b"")
    assert support.git(workspace.root, "status", "--porcelain") == ""
    assert support.git(workspace.git.git_dir, "fsck", "--full", "--strict", "--no-dangling") == ""
    assert (
        support.git(workspace.root, "fsck", "--full", "--strict", "--no-progress") == ""
    )  # nothing else is in it


@pytest.mark.parametrize("least", [1, 4000])
def test_gits_index_tells_what_a_scan_tells(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(sharing, "_LEAST_LEFT", least)  # whether git verifies the files too
    workspace = make(tmp_path, "job")
    commit = workspace.populate(source)
    require_as_scanned(workspace, commit)


def test_children_of_one_step_use_what_the_first_one_found(tmp_path: Path, source: Path) -> None:
    parent = make(tmp_path, "parent")
    base = parent.populate(source)
    (parent.root / "a-b").write_text("changed")
    (parent.root / "new").write_text("new")
    later = parent.create_checkpoint("later").commit
    for commit in (base, later):
        known = KnownStart()
        for name in ("one", "two", "three"):
            child = make(tmp_path, f"{commit}-{name}")
            child.populate_from_parent(parent.git.git_dir, commit, parent.root, known)
            child.complete_git()
            require_as_scanned(child, commit)
        assert known.layout is not None
        held = support.git(
            child.git.git_dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"
        ).split()
        assert sorted(held) == sorted(
            support.git(parent.git.git_dir, "rev-list", "--objects", "--no-object-names", commit).split()
        )


@pytest.fixture
def written(tmp_path: Path, source: Path) -> tuple[Path, TreeListing, bytes]:
    """A workspace as it is after git has written its files, its listing, and git's index."""
    workspace = make(tmp_path, "job")
    commit = workspace.populate(source)
    index = read_regular(workspace.root / ".git" / "index")
    os.rename(workspace.root / ".git", tmp_path / "moved")
    listing = objects.read_listing(workspace.git, commit)
    assert listing.is_plain
    assert written_files.find_layout(workspace.root, listing, index) is not None
    return workspace.root, listing, index


def test_a_workspace_with_other_files_than_the_commit_is_scanned(
    written: tuple[Path, TreeListing, bytes],
) -> None:
    root, listing, index = written
    (root / "more").mkdir()
    assert written_files.find_layout(root, listing, index) is None
    (root / "more").rmdir()
    os.rename(root / "empty", root / "Empty")
    assert written_files.find_layout(root, listing, index) is None
    os.unlink(root / "Empty")
    assert written_files.find_layout(root, listing, index) is None


def test_an_index_of_another_commit_is_not_used(written: tuple[Path, TreeListing, bytes]) -> None:
    root, listing, index = written
    name = bytes.fromhex(listing.ids[3])
    for other in (
        index.replace(name, b"x" * len(name)),
        index.replace(b"a/program", b"a/problem"),
        index.replace(b"DIRC\0\0\0\2", b"DIRC\0\0\0\4"),
        index[:100],
    ):
        assert other != index
        assert written_files.find_layout(root, listing, other) is None


def test_stamps_that_are_not_those_of_the_file_system_are_not_used(
    written: tuple[Path, TreeListing, bytes],
) -> None:
    root, listing, index = written
    layout = written_files.find_layout(root, listing, index)
    assert layout is not None
    assert written_files.read_stamps(root, layout, index) is not None
    assert written_files.read_stamps(root, layout, index + b"more") is None
    os.chmod(root / os.fsdecode(layout.samples[-1][1]), 0o640, follow_symlinks=True)
    assert written_files.read_stamps(root, layout, index) is None


def test_as_many_objects_are_not_the_same_objects(tmp_path: Path, source: Path) -> None:
    """A pack with one object too many, and one object that is in no pack: the pack is not shared."""
    workspace = make(tmp_path, "job")
    commit = workspace.populate(source)
    git_dir = workspace.git.git_dir
    (index,) = packs.list_indexes(git_dir)
    assert sharing.find_shares(workspace.git, git_dir, [commit]) == ([index], [])
    names = sorted(packs.list_names(index) - {commit})
    packed = index.parent
    (tmp_path / "more").write_text("more")
    more = support.git(git_dir, "hash-object", "-w", str(tmp_path / "more")).strip()
    loose = git_dir / "objects" / commit[:2]
    content = support.git(git_dir, "cat-file", "commit", commit)
    new = sharing.pack_objects(workspace.git, git_dir / "objects", tmp_path, [*names, more])
    for path in (index, index.with_suffix(".pack")):
        path.rename(tmp_path / path.name)
    for path in (new[0], new[0].with_suffix(".idx")):
        path.rename(packed / path.name)
    (git_dir / "objects" / more[:2] / more[2:]).unlink()
    commit_file = tmp_path / "commit"
    commit_file.write_text(content)
    assert support.git(git_dir, "hash-object", "-w", "-t", "commit", str(commit_file)).strip() == commit
    assert loose.is_dir()
    shared, missing = sharing.find_shares(workspace.git, git_dir, [commit])
    assert shared == []
    assert sorted(missing) == sorted([*names, commit])


@pytest.mark.parametrize("name", ["plain", 'a "quoted" \\ name', '"', "two\nlines", "end\r", "\n"])
def test_a_file_whose_content_is_not_that_of_its_object_is_noticed(
    tmp_path: Path, source: Path, name: str
) -> None:
    (source / name).write_text("right\n")
    support.git(source, "add", "--all")
    support.git(source, "commit", "--quiet", "--message", "more")
    workspace = make(tmp_path, "job")
    listing = objects.read_listing(workspace.git, workspace.populate(source))
    checkout._verify_files(workspace.git, workspace.root, listing)
    (workspace.root / name).write_text("wrong\n")
    with pytest.raises(StorageError) as caught:
        checkout._verify_files(workspace.git, workspace.root, listing)
    assert caught.value.message == f"a file differs from its object: {name}"
