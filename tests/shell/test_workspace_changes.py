"""What differs between two checkpoints, or to the workspace as it is, as the history records it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logist.core.model import Change
from logist.errors import Damaged
from logist.workspace import Workspace
from logist.workspace.checkpoint import baseline, objects


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "job" / "workspace", tmp_path / "job" / "git")
    made.populate(None)
    for name in ("both", "changed", "gone", "run", "same", "turned"):
        (made.root / name).write_text(name)
    return made


def checked_in(workspace: Workspace, *before: str) -> str:
    """A checkpoint of now; what differs from each of `before` was the same, and told in full, just before."""
    live = [workspace.list_changes(commit, None) for commit in before]
    after = workspace.create_checkpoint("after").commit
    assert live == [workspace.list_changes(commit, after) for commit in before]
    assert live == [workspace.list_changes(commit, None) for commit in before]
    return after


def shown(changes: list[Change]) -> list[tuple[str, str, str]]:
    return [(change.path, change.kind, change.mode) for change in changes]


def test_every_kind_of_change(workspace: Workspace) -> None:
    root = workspace.root
    start = objects.read_tip(workspace.git)
    assert start
    before = workspace.create_checkpoint("before").commit
    (root / "changed").write_text("different")
    (root / "gone").unlink()
    (root / "run").chmod(0o755)
    (root / "both").chmod(0o755)
    (root / "both").write_text("different")
    (root / "turned").unlink()
    (root / "turned").symlink_to("same")
    (root / "new\n").write_text("new")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_text("x")
    (root / "empty").mkdir()
    (root / "sub" / ".git").mkdir(parents=True)
    (root / "sub" / ".git" / "HEAD").write_text("x")
    after = checked_in(workspace, before, start)
    found, omitted = workspace.list_changes(before, after)
    assert shown(found) == [
        ("both", "modified", "100755"),
        ("changed", "modified", "100644"),
        ("empty/", "created", "040000"),
        ("gone", "deleted", "100644"),
        ("new\n", "created", "100644"),
        ("run", "mode", "100755"),
        ("sub/.git/HEAD", "created", "100644"),
        ("turned", "modified", "120000"),
        ("\\xff", "created", "100644"),
    ]
    assert omitted == 0
    for now in (after, None):
        assert workspace.list_changes(before, now, limit=3) == (
            [found[0], found[1], found[3]],
            6,
        )  # new ones go first
        assert workspace.list_changes(before, now, limit=6) == ([*found[:4], found[5], found[7]], 3)
    assert workspace.list_changes(after, after) == ([], 0)


def test_an_empty_directory_counts_only_where_nothing_else_tells(workspace: Workspace) -> None:
    (workspace.root / "d").mkdir()
    empty = workspace.create_checkpoint("empty").commit
    (workspace.root / "d" / "file").write_text("x")
    full = checked_in(workspace, empty)
    assert shown(workspace.list_changes(empty, full)[0]) == [("d/file", "created", "100644")]
    assert shown(workspace.list_changes(full, empty)[0]) == [("d/file", "deleted", "100644")]


def test_caches_and_special_files_appear_and_go(workspace: Workspace) -> None:
    before = workspace.create_checkpoint("before").commit
    (workspace.root / "node_modules").mkdir()
    (workspace.root / "same").unlink()
    os.mkfifo(workspace.root / "same")
    after = checked_in(workspace, before)
    assert shown(workspace.list_changes(before, after)[0]) == [
        ("node_modules/", "created", "040000"),
        ("same", "modified", "010000"),
    ]
    assert shown(workspace.list_changes(after, before)[0]) == [
        ("node_modules/", "deleted", "040000"),
        ("same", "modified", "100644"),
    ]


def test_a_checkpoint_that_is_not_there_is_damage(workspace: Workspace) -> None:
    for after in (workspace.create_checkpoint("a").commit, None):
        with pytest.raises(Damaged, match="missing in the checkpoint repository"):
            workspace.list_changes("0" * 40, after)


def test_what_came_back_to_an_older_state_has_not_changed(workspace: Workspace) -> None:
    before = workspace.create_checkpoint("before").commit
    (workspace.root / "same").write_text("different")
    workspace.create_checkpoint("later")
    (workspace.root / "same").write_text("same")
    assert workspace.list_changes(before, None) == ([], 0)


def test_what_is_too_large_to_be_stored_is_told_alike(tmp_path: Path) -> None:
    made = Workspace(tmp_path / "job" / "workspace", tmp_path / "job" / "git", max_checkpoint_bytes=1000)
    start = made.populate(None)
    for name, size in (("a", 400), ("b", 700), ("huge", 1001)):
        (made.root / name).write_bytes(name[:1].encode() * size)
    after = checked_in(made, start)
    assert [change.path for change in made.list_changes(start, after)[0]] == ["a", "b", "huge"]


def test_looking_at_the_workspace_as_it_is_writes_nothing(workspace: Workspace) -> None:
    before = workspace.create_checkpoint("before").commit
    (workspace.root / "same").write_text("different")
    (workspace.git.git_dir / baseline.FILE).unlink()  # else it could have been used, not written
    stamps = _stamps(workspace.git.git_dir), _stamps(workspace.root)
    found, _ = workspace.list_changes(before, None)
    assert shown(found) == [("same", "modified", "100644")]
    assert (_stamps(workspace.git.git_dir), _stamps(workspace.root)) == stamps


def _stamps(root: Path) -> dict[Path, tuple[int, int]]:
    """Of everything: the mode, and when anything about it was last changed."""
    return {path: (path.lstat().st_mode, path.lstat().st_ctime_ns) for path in [root, *root.rglob("*")]}


@pytest.mark.usefixtures("ordinary_owner")
def test_what_is_locked_is_told_and_stays_locked(workspace: Workspace) -> None:
    root = workspace.root
    for name in ("d", "new"):
        (root / name / "node_modules").mkdir(parents=True)
        (root / name / "kept").write_text("kept")
        if name == "d":
            before = workspace.create_checkpoint("before").commit
    for name in ("d", "new", "same"):
        (root / name).chmod(0)
    stamps = _stamps(root)
    assert shown(workspace.list_changes(before, None)[0]) == [
        ("d/", "modified", "040000"),
        ("new/", "created", "040000"),
        ("same", "modified", "100644"),
    ]
    assert _stamps(root) == stamps
    after = workspace.create_checkpoint("after").commit
    assert shown(workspace.list_changes(before, after)[0]) == [
        ("new/kept", "created", "100644"),
        ("new/node_modules/", "created", "040000"),
    ]
