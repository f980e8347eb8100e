"""Files an agent named: only regular ones inside, of one name, are there."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from logist.core.prompt import prompt
from logist.core.prompt.shown_files import FileText
from logist.errors import StorageError, UsageError
from logist.workspace import Listing, Workspace, comparison
from logist.workspace.checkpoint import objects
from tests import support


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "job" / "workspace", tmp_path / "job" / "git", max_checkpoint_bytes=100_000)
    made.populate(None)
    (made.root / "src").mkdir()
    (made.root / "src" / "app.py").write_text("ANSWER = 42\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return made


@pytest.mark.parametrize("path", ["src/app.py", "./src/app.py", "src/./app.py"])
def test_a_file_inside_is_evidence_and_can_be_read(workspace: Workspace, path: str) -> None:
    found = workspace.check_evidence(path)
    assert (found.path, found.exists) == (path, True)
    assert found.sha256 == hashlib.sha256(b"ANSWER = 42\n").hexdigest()
    assert workspace.read_file(path, 100).text == "ANSWER = 42\n"


REFUSED = [
    "",
    ".",
    "..",
    "/",
    "/etc/passwd",
    "../outside/secret",
    "src/../src/app.py",
    "src/../../outside/secret",
    "src",
    "src/",
    "src/app.py/",
    "src//app.py",
    "src/app.py/x",
    "src/missing",
    "src/app.py\0",
    "\0",
    ".git/config",
    "./.git/config",
    ".GIT/config",
    "a" * 300,
    "a/" * 3000 + "b",
    "\ud800",
    "~/x",
    "linked",
    "directory/secret",
    "directory/../secret",
    "dangling",
    "hard",
    "fifo",
    "socket",
    "loop",
]


def plant(root: Path, outside: Path) -> None:
    (root / "linked").symlink_to(outside / "secret")
    (root / "directory").symlink_to(outside)
    (root / "dangling").symlink_to("missing")
    (root / "loop").symlink_to("loop")
    os.link(outside / "secret", root / "hard")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(root)
        listener.bind("socket")


@pytest.mark.parametrize("path", REFUSED)
def test_anything_else_is_not_there(workspace: Workspace, tmp_path: Path, path: str) -> None:
    plant(workspace.root, tmp_path / "outside")
    found = workspace.check_evidence(path)
    assert (found.exists, found.sha256) == (False, None)
    found.model_dump_json().encode()
    read = workspace.read_file(path, 100)
    assert read.text is None
    assert read.note == "not found, or not a regular file in the workspace"


@pytest.mark.parametrize("path", REFUSED)
def test_anything_else_is_not_copied(workspace: Workspace, tmp_path: Path, path: str) -> None:
    plant(workspace.root, tmp_path / "outside")
    with pytest.raises(UsageError, match="not a readable regular file"):
        workspace.copy_file(path, tmp_path / "kept" / "file")
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("umask", [0, 0o777])
def test_a_copy_is_whole_and_private_in_directories_of_its_own(
    workspace: Workspace, tmp_path: Path, umask: int
) -> None:
    data = os.urandom(3_000_000)
    (workspace.root / "src" / "large").write_bytes(data)
    (workspace.root / "src" / "large").chmod(0o755)
    kept = tmp_path / "kept"
    kept.mkdir(0o755)
    os.umask(umask)
    workspace.copy_file("src/large", kept / "a" / "b" / "large")
    os.umask(0o022)
    assert support.tree(kept) == {"a": None, "a/b": None, "a/b/large": data}
    modes = [
        stat.S_IMODE(path.stat().st_mode) for path in (kept, kept / "a", kept / "a/b", kept / "a/b/large")
    ]
    assert modes == [0o755, 0o700, 0o700, 0o600]


def test_a_copy_replaces_what_is_there_and_never_writes_through_it(
    workspace: Workspace, tmp_path: Path
) -> None:
    target = tmp_path / ("n" * 255)
    target.symlink_to(tmp_path / "outside" / "secret")
    workspace.copy_file("src/app.py", target)
    assert not target.is_symlink()
    (workspace.root / "src" / "app.py").write_text("ANSWER = 43\n")
    workspace.copy_file("src/app.py", target)
    assert target.read_text() == "ANSWER = 43\n"
    assert (tmp_path / "outside" / "secret").read_text() == "secret"


def test_a_copy_that_cannot_be_written_says_so_and_leaves_nothing(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "kept" / "taken").mkdir(parents=True)
    before = support.tree(tmp_path)
    with pytest.raises(StorageError):
        workspace.copy_file("src/app.py", tmp_path / "kept" / "taken")
    with pytest.raises(StorageError):
        workspace.copy_file("src/app.py", tmp_path / "outside" / "secret" / "below")
    assert support.tree(tmp_path) == before


@pytest.mark.usefixtures("ordinary_owner")
def test_what_its_owner_locked_is_named_and_stays_locked(workspace: Workspace, tmp_path: Path) -> None:
    root = workspace.root
    for path in ("locked/secret", "src/node_modules/x", "sub/.git/config"):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text("x")
    locked = [root / "locked", root / "src" / "node_modules", root / "sub" / ".git", root / "src" / "app.py"]
    for place in locked:
        place.chmod(0)
    before = [(place.stat().st_mode, place.stat().st_ctime_ns) for place in locked]
    assert workspace.list_files() == Listing(("locked/ (unreadable)", "src/app.py"), 0)
    for path in ("src/app.py", "locked/secret"):
        assert workspace.read_file(path, 100) == FileText(path, None, "unreadable: permission denied")
        assert not workspace.check_evidence(path).exists
        with pytest.raises(UsageError):
            workspace.copy_file(path, tmp_path / "copy")
    assert [(place.stat().st_mode, place.stat().st_ctime_ns) for place in locked] == before


def test_a_file_for_a_prompt_is_what_the_prompt_takes() -> None:
    assert FileText is prompt.FileText


def test_a_lost_workspace_has_no_evidence(workspace: Workspace, tmp_path: Path) -> None:
    workspace.root.rename(tmp_path / "lost")
    assert not workspace.check_evidence("src/app.py").exists


@pytest.mark.deep
def test_a_file_swapped_for_a_link_while_it_is_opened_is_never_followed(
    workspace: Workspace, tmp_path: Path
) -> None:
    """The directory turns into a link outside and back while files in it are opened."""
    (tmp_path / "outside" / "app.py").write_text("secret")
    (workspace.root / "link").symlink_to(tmp_path / "outside")
    turn = (
        "import ctypes,sys\n"
        "swap = ctypes.CDLL(None).renameat2\n"
        "while True: swap(-100, b'src', -100, b'link', 2)\n"
    )
    swapper = subprocess.Popen([sys.executable, "-c", turn], cwd=workspace.root)
    try:
        seen = {workspace.check_evidence("src/app.py").sha256 for _ in range(3000)}
    finally:
        swapper.kill()
        swapper.wait()
    assert seen <= {None, hashlib.sha256(b"ANSWER = 42\n").hexdigest()}


def test_a_file_beyond_what_is_stored_is_there_but_not_weighed(workspace: Workspace) -> None:
    with open(workspace.root / "sparse", "wb") as file:
        file.truncate(10**12)
    found = workspace.check_evidence("sparse")
    assert (found.exists, found.sha256) == (True, None)


def test_why_there_is_no_text_is_said(workspace: Workspace) -> None:
    for name, data in [("binary", b"a\0b"), ("latin", b"\xe9\xff"), ("long", b"x" * 101), ("empty", b"")]:
        (workspace.root / name).write_bytes(data)
    assert workspace.read_file("binary", 100).note == "not text: 3 bytes"
    assert workspace.read_file("latin", 100).note == "not text: 2 bytes"
    assert workspace.read_file("long", 100).note == "too large: 101 bytes, the limit is 100"
    assert workspace.read_file("empty", 100).text == ""
    assert workspace.read_file("empty", 100).note is None


def test_the_listing_has_regular_files_in_order_and_counts_the_rest(workspace: Workspace) -> None:
    root = workspace.root
    for path in ["b", "a", "node_modules/x", "src/__pycache__/x", "src/.git/config", ".github/ci.yml"]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    (root / "link").symlink_to("a")
    os.mkfifo(root / "fifo")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_text("x")
    assert workspace.list_files() == Listing((".github/ci.yml", "a", "b", "src/app.py", "\\xff"), 0)
    assert workspace.list_files(limit=2) == Listing((".github/ci.yml", "a"), 3)


def test_the_tree_that_is_written_for_a_comparison_is_the_one_in_the_repository(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.create_checkpoint("first")
    root = workspace.root
    (root / "src" / "app.py").write_text("ANSWER = 43\n")
    (root / "tool").write_text("#!/bin/sh\n")
    (root / "tool").chmod(0o755)
    (root / "empty").mkdir()
    (root / "link").symlink_to("src/app.py")
    for name in ("a\nb", "ü", os.fsdecode(b"\xff"), ".git-like", "-x", ":y"):
        (root / name).write_text(name.encode("utf-8", "replace").decode())
    (root / "own" / ".git").mkdir(parents=True)
    (root / "own" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "large").write_bytes(os.urandom(200_000))  # no checkpoint holds it
    os.mkfifo(root / "pipe")
    git = comparison._create_scratch(tmp_path / "scratch", [workspace], long_names=False)
    commit, tree, _ = workspace.write_current(git)
    assert tree == objects.read_tree(git, commit)
    assert {b"tool", b"link"} <= tree.keys()


def test_an_unchanged_workspace_is_not_written_again_for_a_comparison(
    workspace: Workspace, tmp_path: Path
) -> None:
    os.mkfifo(workspace.root / "pipe")
    (workspace.root / "empty").mkdir()
    last = workspace.create_checkpoint("first").commit
    git = comparison._create_scratch(tmp_path / "scratch", [workspace], long_names=False)
    commit, tree, unstored = workspace.write_current(git)
    assert commit == last
    assert tree == objects.read_tree(workspace.git, last)
    assert [unstored] == objects.read_unstored(workspace.git, last)
    (workspace.root / "src" / "app.py").write_text("ANSWER = 44\n")
    changed = workspace.write_current(git)
    assert changed.commit != last
    assert changed.tree == objects.read_tree(git, changed.commit)
    assert [changed.unstored] == objects.read_unstored(git, changed.commit)
