"""The user's past commits in a workspace: what git shows there, what it can't reach, and that nothing depends on it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from logist.workspace import Workspace, readable_history
from logist.workspace.checkpoint import objects
from logist.workspace.forking import populate_fork
from logist.workspace.readable_history import Extent
from tests import support
from tests.support import git

AUTHOR = "A Tester"


def new(place: Path) -> Workspace:
    return Workspace(place / "workspace", place / "git")


def commit(repository: Path, message: str, **files: str) -> str:
    for name, text in files.items():
        (repository / name.replace("_", ".")).write_text(text, "utf-8")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(repository, "rev-parse", "HEAD").strip()


def subjects(workspace: Workspace) -> list[str]:
    """What an agent sees of the past."""
    return git(workspace.root, "log", "--topo-order", "--format=%s").splitlines()


def names(place: Path) -> set[str]:
    """Every object that can be read in a repository, also through others."""
    found = git(place, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(found.split())


def require_sound(workspace: Workspace) -> None:
    """git itself has no complaint, and everything is there that its commits need."""
    assert "missing" not in git(workspace.root, "fsck", "--full", "--strict")
    assert git(workspace.root, "status", "--porcelain") == ""
    git(workspace.root, "gc", "--quiet", "--prune=now")
    assert "missing" not in git(workspace.root, "fsck", "--full")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Five commits, one of them a merge; and what an agent must never see: another branch, a tag, a stash, a commit that
    was removed.
    """
    place = support.make_repository(tmp_path / "repo")
    git(place, "checkout", "--quiet", "-b", "topic")
    commit(place, "topic", topic_txt="topic\n")
    git(place, "checkout", "--quiet", "main")
    commit(place, "third", README_md="# Example\nmore\n")
    git(place, "merge", "--quiet", "--no-ff", "--message", "merge", "topic")
    commit(place, "removed", secret_txt="removed\n")
    git(place, "reset", "--quiet", "--hard", "HEAD~1")
    git(place, "checkout", "--quiet", "-b", "other")
    commit(place, "other", secret_txt="other\n")
    git(place, "tag", "released")
    git(place, "checkout", "--quiet", "main")
    (place / "README.md").write_text("stashed\n")
    git(place, "stash", "--quiet")
    return place


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """`shallow` is two commits here."""
    monkeypatch.setattr(readable_history, "SHALLOW_COMMITS", 2)


def test_without_it_the_workspace_has_one_commit_and_no_record(tmp_path: Path, repository: Path) -> None:
    workspace = new(tmp_path / "job")
    workspace.populate(repository)
    assert subjects(workspace) == ["merge"]
    assert not readable_history.has_record(tmp_path / "job" / "git")


def test_full_is_everything_below_the_start_and_nothing_else(tmp_path: Path, repository: Path) -> None:
    before = support.tree(repository)
    workspace = new(tmp_path / "job")
    base = workspace.populate(repository, history="full")
    assert workspace.why_history_is_missing is None
    assert support.tree(repository) == before
    assert git(workspace.root, "rev-parse", "HEAD").strip() == base
    assert subjects(workspace) == ["merge", "topic", "third", "second", "first"]
    assert git(workspace.root, "log", "--format=%H") == git(repository, "log", "--format=%H", "main")
    assert names(workspace.root) == set(
        git(repository, "rev-list", "--objects", "--no-object-names", "main").split()
    )
    assert git(workspace.root, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]
    require_sound(workspace)


@pytest.mark.usefixtures("few")
def test_shallow_is_the_last_commits_and_their_parents(tmp_path: Path, repository: Path) -> None:
    for number in (4, 5):
        commit(repository, f"number {number}")
    workspace = new(tmp_path / "job")
    workspace.populate(repository, history="shallow")
    assert subjects(workspace) == ["number 5", "number 4", "merge"]
    assert git(workspace.root, "show", "--format=", "--name-only", "HEAD~1") == ""
    require_sound(workspace)


@pytest.mark.usefixtures("few")
def test_no_commit_of_shallow_loses_a_parent(tmp_path: Path, repository: Path) -> None:
    workspace = new(tmp_path / "job")
    workspace.populate(repository, history="shallow")
    assert set(subjects(workspace)) >= {"merge", "topic", "third"}
    assert git(workspace.root, "rev-parse", "HEAD^1", "HEAD^2") == git(
        repository, "rev-parse", "main^1", "main^2"
    )
    require_sound(workspace)


def test_blame_names_the_users_commits(tmp_path: Path, repository: Path) -> None:
    workspace = new(tmp_path / "job")
    workspace.populate(repository, history="full")
    (workspace.root / "README.md").write_text("# Example\nmore\nmine\n")
    blamed = git(workspace.root, "blame", "--line-porcelain", "README.md")
    assert [line for line in blamed.splitlines() if line.startswith("summary ")] == [
        "summary first",
        "summary third",
        "summary Version of README.md from README.md",
    ]


def test_checkpoints_have_nothing_of_it(tmp_path: Path, repository: Path) -> None:
    made = []
    extents: tuple[Extent, ...] = ("none", "full")
    for extent in extents:
        workspace = new(tmp_path / extent)
        workspace.populate(repository, history=extent)
        (workspace.root / "mine").write_text("mine\n")
        made.append((workspace.create_checkpoint("mine").commit, names(tmp_path / extent / "git")))
    assert made[0] == made[1]


def test_the_objects_are_copies(tmp_path: Path, repository: Path) -> None:
    workspace = new(tmp_path / "job")
    workspace.populate(repository, history="full")
    for path in (workspace.root / ".git").rglob("*"):
        assert path.is_dir() or path.lstat().st_nlink == 1
        assert path.name != "alternates"
    shutil.rmtree(repository)
    require_sound(workspace)


def checked_out(root: Path) -> None:
    git(root, "checkout", "--quiet", "HEAD~2")


def bisecting(root: Path) -> None:
    git(root, "bisect", "start", "HEAD", "HEAD~2")


def branches(root: Path) -> None:
    git(root, "checkout", "--quiet", "-b", "mine")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "mine")
    git(root, "branch", "--quiet", "-D", "main")


def collected(root: Path) -> None:
    git(root, "checkout", "--quiet", "--orphan", "nothing")
    git(root, "commit", "--quiet", "--message", "nothing")
    git(root, "branch", "--quiet", "-D", "main")
    git(root, "reflog", "expire", "--expire=now", "--all")
    git(root, "gc", "--quiet", "--prune=now")


def removed(root: Path) -> None:
    shutil.rmtree(root / ".git")


def damaged(root: Path) -> None:
    for path in (root / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.unlink()


def replaced(root: Path) -> None:
    shutil.rmtree(root / ".git")
    (root / ".git").write_text("gitdir: /etc\n")


@pytest.mark.parametrize("act", [checked_out, bisecting, branches, collected, removed, damaged, replaced])
def test_whatever_the_agent_does_to_it(tmp_path: Path, repository: Path, act: object) -> None:
    workspace = new(tmp_path / "job")
    base = workspace.populate(repository, history="full")
    assert callable(act)
    act(workspace.root)
    (workspace.root / "mine").write_text("mine\n")
    kept = workspace.create_checkpoint("mine").commit
    tree = git(tmp_path / "job" / "git", "ls-tree", "-r", "--name-only", kept).split()
    assert tree == sorted(
        str(path.relative_to(workspace.root))
        for path in workspace.root.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(workspace.root).parts
    )
    workspace.disarm_git()
    workspace.restore(base)
    assert (workspace.root / "README.md").read_text() == "# Example\nmore\n"
    if act in (removed, replaced):
        assert subjects(workspace) == ["merge", "topic", "third", "second", "first"]
        require_sound(workspace)


def test_a_job_that_continues_another_has_the_same_past(tmp_path: Path, repository: Path) -> None:
    parent = new(tmp_path / "parent")
    parent.populate(repository, history="full")
    (parent.root / "README.md").write_text("# Example\nmore\nof the parent\n")
    commit_of_parent = parent.create_checkpoint("work").commit
    child = new(tmp_path / "child")
    child.populate_from_parent(tmp_path / "parent" / "git", commit_of_parent, parent.root)
    assert child.why_history_is_missing is None
    assert subjects(child) == ["Work of another job, which this job continues", *subjects(parent)]
    blamed = git(child.root, "blame", "--line-porcelain", "README.md").splitlines()
    authors = [line.removeprefix("author ") for line in blamed if line.startswith("author ")]
    assert authors == [AUTHOR, AUTHOR, "Logist"]
    assert len(git(child.root, "log", "--format=%s", "--since=2026-01-01").splitlines()) == 6
    assert objects.find_first(child.git) == commit_of_parent
    require_sound(child)

    (child.root / "README.md").write_text("of the child\n")
    commit_of_child = child.create_checkpoint("work").commit
    grandchild = new(tmp_path / "grandchild")
    grandchild.populate_from_parent(tmp_path / "child" / "git", commit_of_child, child.root)
    assert subjects(grandchild) == subjects(child)
    require_sound(grandchild)

    fork = new(tmp_path / "fork")
    populate_fork(fork, tmp_path / "child" / "git", {commit_of_parent}, commit_of_child, child.root)
    assert subjects(fork) == subjects(child)
    assert git(fork.root, "status", "--porcelain") == " M README.md\n"


def test_a_child_without_changes_begins_with_the_users_commit(tmp_path: Path, repository: Path) -> None:
    parent = new(tmp_path / "parent")
    base = parent.populate(repository, history="full")
    child = new(tmp_path / "child")
    child.populate_from_parent(tmp_path / "parent" / "git", base, parent.root)
    assert git(child.root, "rev-parse", "HEAD").strip() == base
    assert subjects(child) == subjects(parent)


def shape(repository: Path, kind: str) -> tuple[Path, list[str]]:
    """Another repository with the same commits, and those that a job can show."""
    place = repository.parent / kind
    everything = ["merge", "topic", "third", "second", "first"]
    url = f"file://{repository}"
    match kind:
        case "bare":
            git(repository.parent, "clone", "--quiet", "--bare", str(repository), kind)
        case "linked work tree":
            git(repository, "worktree", "add", "--quiet", "--detach", str(place), "main")
        case "shallow clone":
            git(repository.parent, "clone", "--quiet", "--depth=2", "--branch=main", url, kind)
            everything = ["merge", "topic", "third"]
        case "clone that borrows":
            git(repository.parent, "clone", "--quiet", "--shared", "--branch=main", str(repository), kind)
        case "loose objects":
            shutil.copytree(repository, place)
            packs = place / ".git" / "objects" / "pack"
            assert not list(packs.glob("*.pack"))
        case "with a commit graph":
            shutil.copytree(repository, place)
            git(place, "commit-graph", "write", "--reachable")
        case "read-only":
            shutil.copytree(repository, place)
            for path in (place, *place.rglob("*")):
                path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
        case "with a submodule":
            git(repository.parent, "clone", "--quiet", "--branch=main", str(repository), kind)
            git(
                place,
                "-c",
                "protocol.file.allow=always",
                "submodule",
                "--quiet",
                "add",
                str(repository),
                "module",
            )
            commit(place, "module")
            everything = ["module", *everything]
    return place, everything


@pytest.mark.parametrize(
    "kind",
    [
        "bare",
        "linked work tree",
        "shallow clone",
        "clone that borrows",
        "loose objects",
        "with a commit graph",
        "read-only",
        "with a submodule",
    ],
)
@pytest.mark.parametrize("extent", ["full", "shallow"])
def test_every_shape_of_repository(tmp_path: Path, repository: Path, kind: str, extent: Extent) -> None:
    place, wanted = shape(repository, kind)
    workspace = new(tmp_path / "job")
    workspace.populate(place, history=extent)
    assert workspace.why_history_is_missing is None
    assert subjects(workspace) == wanted
    assert "missing" not in git(workspace.root, "fsck", "--full")
    shutil.rmtree(workspace.root / ".git")
    workspace.disarm_git()
    assert subjects(workspace) == wanted


def test_names_by_sha256(tmp_path: Path) -> None:
    place = tmp_path / "long"
    place.mkdir()
    git(place, "init", "--quiet", "--object-format=sha256", "--initial-branch", "main")
    for number in (1, 2, 3):
        commit(place, f"number {number}", a_txt=f"{number}\n")
    workspace = new(tmp_path / "job")
    workspace.populate(place, history="full")
    assert subjects(workspace) == ["number 3", "number 2", "number 1"]
    (workspace.root / "a.txt").write_text("mine\n")
    kept = workspace.create_checkpoint("work").commit
    child = new(tmp_path / "child")
    child.populate_from_parent(tmp_path / "job" / "git", kept)
    assert len(subjects(child)) == 4
    require_sound(child)


def test_a_partial_clone_has_no_past_and_says_so(tmp_path: Path, repository: Path) -> None:
    git(repository, "config", "uploadpack.allowFilter", "true")
    git(
        tmp_path, "clone", "--quiet", "--filter=blob:none", "--branch=main", f"file://{repository}", "partial"
    )
    held = names(tmp_path / "partial")
    workspace = new(tmp_path / "job")
    base = workspace.populate(tmp_path / "partial", history="full")
    assert workspace.why_history_is_missing == (
        "no past commits in the workspace (workspace.history: full): a partial clone lacks old files; to fetch them: "
        f"git fetch --refetch --no-filter ({tmp_path / 'partial' / '.git'})"
    )
    assert names(tmp_path / "partial") == held, "nothing was fetched"
    assert subjects(workspace) == ["merge"]
    assert git(workspace.root, "rev-parse", "HEAD").strip() == base
    require_sound(workspace)

    git(tmp_path / "partial", "fetch", "--quiet", "--refetch", "--no-filter")
    again = new(tmp_path / "again")
    again.populate(tmp_path / "partial", history="full")
    assert again.why_history_is_missing is None
    assert len(subjects(again)) == 5


def test_a_repository_that_is_gone(tmp_path: Path, repository: Path) -> None:
    workspace = new(tmp_path / "job")
    workspace.populate(repository, history="full")
    shutil.rmtree(repository)
    shutil.rmtree(workspace.root / ".git")
    workspace.disarm_git()
    assert workspace.why_history_is_missing == (
        "no past commits in the workspace (workspace.history: full): git repository not found "
        f"({repository / '.git'})"
    )
    assert subjects(workspace) == ["merge"]
    require_sound(workspace)


def test_a_commit_that_is_gone(tmp_path: Path, repository: Path) -> None:
    workspace = new(tmp_path / "job")
    workspace.populate(repository, history="shallow")
    shutil.rmtree(repository)
    support.make_repository(repository)
    shutil.rmtree(workspace.root / ".git")
    workspace.disarm_git()
    assert workspace.why_history_is_missing is not None
    assert "git rev-list failed" in workspace.why_history_is_missing
    assert subjects(workspace) == ["merge"]


@pytest.mark.parametrize("kind", ["nothing", "no commits"])
def test_without_commits_there_is_no_past(tmp_path: Path, kind: str) -> None:
    workspace = new(tmp_path / "job")
    if kind == "nothing":
        workspace.populate(None, history="full")
    else:
        git(tmp_path, "init", "--quiet", "empty")
        workspace.populate(tmp_path / "empty", history="full")
    assert workspace.why_history_is_missing is None
    assert subjects(workspace) == ["Empty workspace"]


def test_settings_and_hooks_of_the_repository_do_nothing(tmp_path: Path, repository: Path) -> None:
    evil = tmp_path / "evil"
    evil.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\nexec "$@"\n')
    evil.chmod(0o755)
    for name in (
        "uploadpack.packObjectsHook",
        "core.fsmonitor",
        "core.sshCommand",
        "diff.external",
        "core.pager",
    ):
        git(repository, "config", name, str(evil))
    git(repository, "config", "pack.window", "250")
    workspace = new(tmp_path / "job")
    workspace.populate(repository, history="full")
    assert len(subjects(workspace)) == 5
    assert not (tmp_path / "ran").exists()


RECORDS = {
    "another directory": {"inode": 1},
    "another extent": {"extent": "everything"},
    "a number": {"objects": 3},
    "an option instead of a commit": {"starts": {"--all": "--all"}},
    "a list": {"starts": ["ab"]},
}


@pytest.mark.parametrize("change", RECORDS)
def test_a_record_that_is_not_ours_shows_nothing(tmp_path: Path, repository: Path, change: str) -> None:
    """A job can come with a clone, and name any repository of this machine."""
    workspace = new(tmp_path / "job")
    workspace.populate(repository, history="full")
    record = tmp_path / "job" / "git" / readable_history.RECORD
    record.write_text(json.dumps(json.loads(record.read_text()) | RECORDS[change]))
    shutil.rmtree(workspace.root / ".git")
    workspace.disarm_git()
    assert subjects(workspace) == ["merge"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[" * 100_000, b"\xff", b" " * 200_000])
def test_a_damaged_record_shows_nothing(tmp_path: Path, repository: Path, content: bytes) -> None:
    workspace = new(tmp_path / "job")
    workspace.populate(repository, history="full")
    (tmp_path / "job" / "git" / readable_history.RECORD).write_bytes(content)
    shutil.rmtree(workspace.root / ".git")
    workspace.disarm_git()
    assert subjects(workspace) == ["merge"]


def test_a_copied_job_shows_nothing_new(tmp_path: Path, repository: Path) -> None:
    new(tmp_path / "job").populate(repository, history="full")
    shutil.copytree(tmp_path / "job", tmp_path / "copy")
    assert readable_history.load_history(tmp_path / "job" / "git") is not None
    assert readable_history.load_history(tmp_path / "copy" / "git") is None


def test_many_commits_are_bounded(tmp_path: Path) -> None:
    """100 times as many commits as `shallow` shows cost no more of them, and none is left out of `full`."""
    place, count = tmp_path / "long", 100_000 if support.is_deep() else 5_000
    place.mkdir()
    git(place, "init", "--quiet", "--initial-branch", "main")
    person = b"A Tester <tester@example.org>"
    stream = b"".join(
        b"commit refs/heads/main\ncommitter %b %d +0000\ndata 2\nc\nM 644 inline f%d\ndata 2\n%d\n"
        % (person, 1_700_000_000 + number, number % 100, number % 10)
        for number in range(count)
    )
    subprocess.run(["git", "-C", str(place), "fast-import", "--quiet"], input=stream, check=True)
    expected: tuple[tuple[Extent, int], ...] = (
        ("shallow", readable_history.SHALLOW_COMMITS + 1),
        ("full", count),
    )
    for extent, wanted in expected:
        workspace = new(tmp_path / extent)
        workspace.populate(place, history=extent)
        assert int(git(workspace.root, "rev-list", "--count", "HEAD")) == wanted
    sizes = [
        sum(path.stat().st_size for path in (tmp_path / e / "workspace/.git").rglob("*.pack"))
        for e in ("shallow", "full")
    ]
    assert sizes[0] < sizes[1]


def test_unusual_paths(tmp_path: Path, repository: Path) -> None:
    strange = tmp_path / 'a:b "c" \\ \n d'
    os.rename(repository, strange)
    workspace = new(tmp_path / "job")
    workspace.populate(strange, history="full")
    assert len(subjects(workspace)) == 5
