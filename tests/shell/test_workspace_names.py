"""Names that git refuses or treats in a special way, in new workspaces: of a repository, a child, and a fork."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.errors import InvalidFile
from logist.workspace import Workspace
from logist.workspace.files import clones, file_names
from logist.workspace.forking import populate_fork
from tests import support

Make = Callable[[str], Workspace]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda name: Workspace(tmp_path / name / "workspace", tmp_path / name / "git")


def write_object(repository: Path, kind: str, content: bytes) -> str:
    command = ["git", "-C", str(repository), "hash-object", "-w", "--literally", "-t", kind, "--stdin"]
    return subprocess.run(command, input=content, capture_output=True, check=True).stdout.decode().strip()


def write_tree(repository: Path, mode: str, name: str, content: str) -> str:
    entry = f"{mode} {name}".encode() + b"\0" + bytes.fromhex(content)
    return write_object(repository, "tree", entry)


def fork(make: Make, original: Workspace, commits: list[str]) -> Workspace:
    made = make("fork")
    populate_fork(made, original.git.git_dir, commits, commits[-1], original.root)
    return made


PARTS = st.sampled_from(
    [b"", b".", b"..", b".git", b".GIT", b".github", b"a.git", b"a", b".logist~", b".logist~.git", b"..."]
)


@given(st.lists(st.lists(PARTS, min_size=1, max_size=4).map(b"/".join), max_size=4))
def test_plain_names_are_sound_and_not_escaped(paths: list[bytes]) -> None:
    one_by_one = all(
        file_names.is_sound(path) and file_names.PREFIX not in path and file_names.from_stored(path) == path
        for path in paths
    )
    # An empty list counts as not plain: then each name is looked at, and there is none.
    assert file_names.are_plain(paths) == (one_by_one and bool(paths))


@pytest.mark.parametrize("above", ["..", ".git"])
def test_nothing_is_written_outside_of_a_workspace(
    above: str, make: Make, git_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a file system that can clone files."""
    (git_repo / above / "planted").write_text("planted\n")
    blob = write_object(git_repo, "blob", b"planted\n")
    tree = write_tree(git_repo, "40000", above, write_tree(git_repo, "100644", "planted", blob))
    commit = support.git(git_repo, "commit-tree", "-m", "hostile", tree).strip()
    support.git(git_repo, "update-ref", "HEAD", commit)

    def copy(original: int, target: int) -> bool:
        os.write(target, os.read(original, 1000))
        return True

    monkeypatch.setattr(clones, "_clone_content", copy)
    workspace = make("job")
    with pytest.raises(InvalidFile, match="can't contain a file named"):
        workspace.populate(git_repo)
    assert not (workspace.root / above / "planted").exists()


def test_a_fork_is_independent_of_the_root_directory(make: Make, git_repo: Path) -> None:
    """A repository may have files with the names of those in `/`."""
    for path in ("etc/passwd", "bin/sh"):
        (git_repo / path).parent.mkdir()
        (git_repo / path).write_text("first\n")
    support.git(git_repo, "add", "--all")
    support.git(git_repo, "commit", "--quiet", "--message", "names")
    original = make("original")
    base = original.populate(git_repo)
    (original.root / "etc/passwd").write_text("second\n")
    (original.root / "bin/sh").unlink()
    made = fork(make, original, [base, original.create_checkpoint("changed").commit])
    assert (made.root / "etc/passwd").read_text() == "second\n"
    assert support.git(made.root, "status", "--porcelain") == " D bin/sh\n M etc/passwd\n"


def test_a_link_named_gitmodules(make: Make, git_repo: Path) -> None:
    """git refuses it, so an agent's repository has no index then."""
    original = make("original")
    base = original.populate(git_repo)
    (original.root / ".gitmodules").symlink_to("README.md")
    linked = original.create_checkpoint("a link").commit
    made = fork(make, original, [base, linked])
    assert os.readlink(made.root / ".gitmodules") == "README.md"
    assert made.create_checkpoint("same").commit == linked
    assert support.git(made.root, "status", "--porcelain") == "?? .gitmodules\n"

    child = make("child")
    child.populate_from_parent(original.git.git_dir, linked, original.root)
    assert os.readlink(child.root / ".gitmodules") == "README.md"
    assert child.list_edits(linked, read_all=True) == ([], 0)
    (child.root / ".gitmodules").unlink()
    support.git(child.root, "add", "README.md")
    child.restore(linked)
    assert child.create_checkpoint("same").commit == linked


def test_a_path_that_is_too_long_for_git(make: Make, git_repo: Path) -> None:
    original = make("original")
    base = original.populate(git_repo)
    folder = os.open(original.root, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=folder)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    deep = original.create_checkpoint("deep").commit
    made = fork(make, original, [base, deep])
    assert made.create_checkpoint("same").commit == deep
    assert made.list_files(10).omitted == 0
    assert len(made.list_files(10).paths) == 4
