"""What a role may not change is taken back, whatever the change was and however it was made."""

# mypy: disable-error-code="func-returns-value"

from __future__ import annotations

import os
import random
import shutil
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from logist.core.model import Change, Permission, Permissions
from logist.core.permissions import permissions
from logist.workspace import Undone, Workspace

KINDS = [
    frozenset(kinds)
    for kinds in [
        ("created",),
        ("deleted",),
        ("modified", "mode"),
        ("created", "deleted"),
        ("created", "modified", "mode", "deleted"),
    ]
]


def may_not(kinds: frozenset[str]) -> Permissions:
    """A role with all permissions but those that these kinds of change take."""
    needed = {permissions.NEEDS[kind] for kind in kinds}
    return Permissions.from_names(permission for permission in Permission if permission not in needed)


def undone(space: Workspace, before: str, kinds: frozenset[str]) -> Undone | None:
    after = space.create_checkpoint("after").commit
    may = may_not(kinds)
    return space.undo_changes(
        before, after, permissions.list_forbidden_changes(may), partial(permissions.is_forbidden, may)
    )


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "workspace", tmp_path / "git")
    made.populate(None)
    for name in ("a", "d/b", "d/e/c", ".gitignore", "ignored/x"):
        path = made.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    (made.root / ".gitignore").write_text("ignored\n")
    (made.root / "empty").mkdir()
    os.symlink("a", made.root / "link")
    return made


def seen(root: Path) -> dict[str, str]:
    """All that is in a workspace but its own `.git`: kind, mode and content by path."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name == ".git" or name.startswith(".git/"):
            continue
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_dir():
            found[name] = "directory"
        elif path.is_file():
            found[name] = f"{os.access(path, os.X_OK)} {path.read_text()}"
        else:
            found[name] = "special"
    return found


def fifo(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(path.parent, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


def locked(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("x")
    path.chmod(0)


def deep(path: Path) -> None:
    path.mkdir()
    here = os.open(path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("n" * 100, dir_fd=here)
        below = os.open("n" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def swap(root: Path) -> None:
    shutil.rmtree(root / "d")
    (root / "d").write_text("a file now")


def swap_back(root: Path) -> None:
    (root / "a").unlink()
    (root / "a").mkdir()
    (root / "a" / "new").write_text("x")


TRICKS: dict[str, Callable[[Path], object]] = {
    "changed": lambda root: (root / "a").write_text("b"),
    "same size and time": lambda root: rewritten(root / "a"),
    "deleted": lambda root: (root / "d" / "b").unlink(),
    "created": lambda root: (root / "d" / "new").write_text("x"),
    "ignored file": lambda root: (root / "ignored" / "x").write_text("changed"),
    "executable": lambda root: (root / "a").chmod(0o755),
    "link to elsewhere": lambda root: (root / "there").symlink_to("/nonexistent/etc"),
    "link retargeted": lambda root: (
        (root / "link").unlink(),
        (root / "link").symlink_to("/nonexistent/passwd"),
    ),
    "file becomes a link": lambda root: (
        (root / "a").unlink(),
        (root / "a").symlink_to("/nonexistent/passwd"),
    ),
    "directory becomes a link": lambda root: (
        shutil.rmtree(root / "d"),
        (root / "d").symlink_to("/nonexistent/etc"),
    ),
    "directory becomes a file": swap,
    "file becomes a directory": swap_back,
    "empty directory": lambda root: (root / "more").mkdir(),
    "empty directory removed": lambda root: (root / "empty").rmdir(),
    "into the empty directory": lambda root: (root / "empty" / "x").write_text("x"),
    "renamed": lambda root: (root / "a").rename(root / "z"),
    "directory renamed": lambda root: (root / "d").rename(root / "z"),
    "everything deleted": lambda root: [
        shutil.rmtree(p) if p.is_dir() and not p.is_symlink() else p.unlink()
        for p in root.iterdir()
        if p.name != ".git"
    ],
    "pipe": lambda root: fifo(root / "pipe"),
    "socket": lambda root: listening(root / "socket"),
    "locked directory": lambda root: locked(root / "locked"),
    "deep": lambda root: deep(root / "deep"),
    "nested repository": lambda root: (
        (root / "sub" / ".git").mkdir(parents=True),
        (root / "sub" / ".git" / "config").write_text("[core]"),
    ),
    "git in another case": lambda root: (
        (root / ".GIT").mkdir(),
        (root / ".GIT" / "config").write_text("[core]"),
    ),
    "odd names": lambda root: [
        (root / name).write_text("x") for name in ("new\nline", "-rf", "\udcff", "é", "é")
    ],
    "2,000 files": lambda root: [(root / f"f{number}").write_text("x") for number in range(2000)],
}


def rewritten(path: Path) -> None:
    status = path.stat()
    path.write_text("b\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.deep_beyond(8)
@pytest.mark.parametrize("trick", TRICKS)
def test_a_role_that_may_change_nothing_changes_nothing(space: Workspace, trick: str) -> None:
    before = space.create_checkpoint("before").commit
    was = seen(space.root)
    TRICKS[trick](space.root)
    found = undone(space, before, KINDS[-1])
    assert found is not None
    assert found.changes
    assert found.remaining == frozenset()
    assert seen(space.root) == was
    assert space.list_changes(before, None)[0] == []


def test_more_changes_than_are_named_are_undone_too(space: Workspace) -> None:
    before = space.create_checkpoint("before").commit
    TRICKS["2,000 files"](space.root)
    found = undone(space, before, KINDS[-1])
    assert found is not None
    assert (len(found.changes), found.more) == (100, 1900)


def test_what_is_allowed_is_left_alone(space: Workspace) -> None:
    before = space.create_checkpoint("before").commit
    (space.root / "a").write_text("changed")
    assert undone(space, before, frozenset({"created", "deleted"})) is None
    assert (space.root / "a").read_text() == "changed"


def test_what_was_found_can_be_brought_back(space: Workspace) -> None:
    before = space.create_checkpoint("before").commit
    swap(space.root)
    (space.root / "new").write_text("x")
    found = space.create_checkpoint("after").commit
    was = seen(space.root)
    assert undone(space, before, KINDS[-1]) is not None
    space.restore(found)
    assert seen(space.root) == was


@pytest.mark.deep_beyond(20)
@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: "+".join(sorted(kinds)))
@pytest.mark.parametrize("seed", range(12))
def test_only_what_is_forbidden_is_taken_back(space: Workspace, kinds: frozenset[str], seed: int) -> None:
    before = space.create_checkpoint("before").commit
    chance = random.Random(seed)
    last = {"directory becomes a link", "file becomes a link"}  # else the others would go through it
    names = chance.sample(sorted(set(TRICKS) - {"2,000 files", "deep", "odd names"}), 4)
    for name in sorted(names, key=last.__contains__):
        try:
            TRICKS[name](space.root)
        except OSError:
            continue  # an earlier one took away what this one needs
    after = space.create_checkpoint("after").commit
    wanted, _ = space.list_changes(before, after)
    undone(space, before, kinds)
    left, _ = space.list_changes(before, None)
    assert {change.kind for change in left}.isdisjoint(kinds)
    allowed = {(change.path, change.kind) for change in wanted if change.kind not in kinds}
    kept = {(change.path, change.kind) for change in left}
    # what stood in the way of something that came back could not stay
    assert [path for path, _ in allowed - kept if not _in_the_way(path, wanted)] == []


def _in_the_way(path: str, wanted: list[Change]) -> bool:
    others = {change.path for change in wanted} - {path}
    return any(
        other.startswith(path.rstrip("/") + "/") or path.startswith(other.rstrip("/") + "/")
        for other in others
    )
