"""What differs between two checkpoints, as the history records it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logist.core.model import Change
from logist.errors import Damaged
from logist.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "job" / "workspace", tmp_path / "job" / "git")
    made.populate(None)
    for name in ("both", "changed", "gone", "run", "same", "turned"):
        (made.root / name).write_text(name)
    return made


def shown(changes: list[Change]) -> list[tuple[str, str, str]]:
    return [(change.path, change.kind, change.mode) for change in changes]


def test_every_kind_of_change(workspace: Workspace) -> None:
    root = workspace.root
    before = workspace.checkpoint("before").commit
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
    after = workspace.checkpoint("after").commit
    found, omitted = workspace.changes(before, after)
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
    assert workspace.changes(before, after, limit=3) == (found[:3], 6)
    assert workspace.changes(after, after) == ([], 0)


def test_an_empty_directory_counts_only_where_nothing_else_tells(workspace: Workspace) -> None:
    (workspace.root / "d").mkdir()
    empty = workspace.checkpoint("empty").commit
    (workspace.root / "d" / "file").write_text("x")
    full = workspace.checkpoint("full").commit
    assert shown(workspace.changes(empty, full)[0]) == [("d/file", "created", "100644")]
    assert shown(workspace.changes(full, empty)[0]) == [("d/file", "deleted", "100644")]


def test_caches_and_special_files_appear_and_go(workspace: Workspace) -> None:
    before = workspace.checkpoint("before").commit
    (workspace.root / "node_modules").mkdir()
    (workspace.root / "same").unlink()
    os.mkfifo(workspace.root / "same")
    after = workspace.checkpoint("after").commit
    assert shown(workspace.changes(before, after)[0]) == [
        ("node_modules/", "created", "040000"),
        ("same", "modified", "010000"),
    ]
    assert shown(workspace.changes(after, before)[0]) == [
        ("node_modules/", "deleted", "040000"),
        ("same", "modified", "100644"),
    ]


def test_a_checkpoint_that_is_not_there_is_damage(workspace: Workspace) -> None:
    with pytest.raises(Damaged, match="lacks"):
        workspace.changes("0" * 40, workspace.checkpoint("a").commit)
