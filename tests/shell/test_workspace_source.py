"""Where a workspace comes from: any shape of repository, which stays as it was to the byte."""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path

import pytest

from logist.errors import InvalidFile, StorageError, UsageError
from logist.workspace import Workspace, find_repository, list_uncommitted
from logist.workspace.checkpoint import sharing
from logist.workspace.checkpoint.baseline import load_baseline, read_file_system_time
from logist.workspace.checkpoint.packs import list_indexes
from logist.workspace.checkpoint.repository import create_repository
from logist.workspace.checkpoint.scan import make_stamp, pack_stamp
from tests import support


def new(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "job" / "workspace", tmp_path / "job" / "git")


def state(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything below `root` by path: mode, time, number of names, content."""
    found = {}
    for path in sorted(root.rglob("*")):
        seen = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(seen.st_mode) else b""
        found[str(path)] = (seen.st_mode, seen.st_mtime_ns, seen.st_nlink, content)
    return found


def test_the_workspace_is_the_committed_head_and_the_source_is_untouched(
    tmp_path: Path, git_repo: Path
) -> None:
    (git_repo / "README.md").write_text("changed, not committed\n")
    (git_repo / "new").write_text("new\n")
    before = state(git_repo)
    workspace = new(tmp_path)
    base = workspace.populate(git_repo)
    assert list_uncommitted(git_repo) == ["README.md", "new"]
    assert state(git_repo) == before

    assert base == support.git(git_repo, "rev-parse", "HEAD").strip()
    assert (workspace.root / "README.md").read_text() == "# Example\n"
    assert os.access(workspace.root / "run.sh", os.X_OK)
    assert workspace.list_files().paths == ("README.md", "run.sh", "src/app.py")
    assert workspace.create_checkpoint("nothing done").commit == base
    assert stat.S_IMODE(workspace.root.stat().st_mode) == 0o700
    assert not workspace.source_has_no_commits


def test_nothing_is_shared_with_the_source(tmp_path: Path, git_repo: Path) -> None:
    workspace = new(tmp_path)
    workspace.populate(git_repo)
    for place in (tmp_path / "job").rglob("*"):
        assert place.is_dir() or place.lstat().st_nlink == 1
        assert place.name != "alternates"
        assert place.is_dir() or str(git_repo).encode() not in place.read_bytes()


def test_the_job_directory_may_be_moved(tmp_path: Path, git_repo: Path) -> None:
    base = new(tmp_path).populate(git_repo)
    (tmp_path / "job").rename(tmp_path / "moved")
    git_repo.rename(tmp_path / "gone")
    workspace = Workspace(tmp_path / "moved" / "workspace", tmp_path / "moved" / "git")
    assert workspace.create_checkpoint("same").commit == base
    assert support.git(workspace.root, "status", "--porcelain") == ""


def test_the_agents_git_is_clean_and_knows_only_the_base(tmp_path: Path, git_repo: Path) -> None:
    workspace = new(tmp_path)
    base = workspace.populate(git_repo)
    assert support.git(workspace.root, "status", "--porcelain") == ""
    assert support.git(workspace.root, "log", "--format=%H").split() == [base]
    assert support.git(workspace.root, "remote") == ""
    (workspace.root / "README.md").write_text("# Better\n")
    assert "+# Better" in support.git(workspace.root, "diff")
    support.git(workspace.root, "commit", "--quiet", "--all", "--message", "the agent's own")
    after = workspace.create_checkpoint("after").commit
    assert support.git(workspace.git.git_dir, "rev-parse", f"{after}^").strip() == base


def test_without_a_source_the_workspace_is_empty_and_the_agents_git_works(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    base = workspace.populate(None)
    assert workspace.list_files().paths == ()
    assert support.git(workspace.root, "log", "--format=%H %s").strip() == f"{base} Empty workspace"
    assert support.git(workspace.root, "status", "--porcelain") == ""


def test_a_source_without_commits_is_empty_and_says_so(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    support.git(source, "init", "--quiet")
    (source / "file").write_text("not committed")
    workspace = new(tmp_path)
    workspace.populate(source)
    assert workspace.source_has_no_commits
    assert workspace.list_files().paths == ()
    assert list_uncommitted(source) == ["file"]


def test_a_place_inside_a_repository_means_the_whole(tmp_path: Path, git_repo: Path) -> None:
    workspace = new(tmp_path)
    workspace.populate(git_repo / "src")
    assert "README.md" in workspace.list_files().paths


def test_a_detached_head(tmp_path: Path, git_repo: Path) -> None:
    support.git(git_repo, "checkout", "--quiet", "--detach", "HEAD~1")
    workspace = new(tmp_path)
    assert workspace.populate(git_repo) == support.git(git_repo, "rev-parse", "HEAD").strip()
    assert workspace.list_files().paths == ("README.md",)


def test_a_shallow_source(tmp_path: Path, git_repo: Path) -> None:
    shallow = tmp_path / "shallow"
    support.git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{git_repo}", str(shallow))
    workspace = new(tmp_path)
    assert workspace.populate(shallow) == support.git(git_repo, "rev-parse", "HEAD").strip()
    assert workspace.create_checkpoint("same").commit == support.git(git_repo, "rev-parse", "HEAD").strip()


def test_a_linked_work_tree(tmp_path: Path, git_repo: Path) -> None:
    linked = tmp_path / "linked"
    support.git(git_repo, "worktree", "add", "--quiet", "--detach", str(linked), "HEAD~1")
    (linked / "new").write_text("new")
    workspace = new(tmp_path)
    assert workspace.populate(linked) == support.git(git_repo, "rev-parse", "HEAD~1").strip()
    assert list_uncommitted(linked) == ["new"]


def test_a_bare_source(tmp_path: Path, git_repo: Path) -> None:
    bare = tmp_path / "bare.git"
    support.git(tmp_path, "clone", "--quiet", "--bare", str(git_repo), str(bare))
    workspace = new(tmp_path)
    assert workspace.populate(bare) == support.git(git_repo, "rev-parse", "HEAD").strip()


def test_a_source_with_long_object_names(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    support.git(source, "init", "--quiet", "--object-format=sha256")
    (source / "file").write_text("one")
    support.git(source, "add", "file")
    support.git(source, "commit", "--quiet", "--message", "one")
    workspace = new(tmp_path)
    base = workspace.populate(source)
    assert len(base) == 64
    assert workspace.create_checkpoint("same").commit == base
    (workspace.root / "file").write_text("two")
    assert [
        each.path for each in workspace.list_changes(base, workspace.create_checkpoint("two").commit)[0]
    ] == ["file"]


def test_a_source_with_an_awkward_path(tmp_path: Path, git_repo: Path) -> None:
    awkward = tmp_path / "it's 100%41 'odd' $(touch x) : -v\n"
    git_repo.rename(awkward)
    assert len(new(tmp_path).populate(awkward)) == 40


def test_a_source_of_somebody_else(tmp_path: Path, git_repo: Path) -> None:
    """Only root can make one; for others it is one of their own."""
    if os.getuid() == 0:
        for path in [git_repo, *git_repo.rglob("*")]:
            os.lchown(path, 65534, 65534)
    assert len(new(tmp_path).populate(git_repo)) == 40
    assert list_uncommitted(git_repo) == []


def test_a_place_outside_any_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not in a git repository"):
        new(tmp_path).populate(tmp_path)
    assert find_repository(tmp_path) is None


def test_a_broken_source_is_named(tmp_path: Path, git_repo: Path) -> None:
    (git_repo / ".git" / "config").write_text("[broken")
    with pytest.raises(StorageError, match="git ls-remote failed") as raised:
        new(tmp_path).populate(git_repo)
    assert raised.value.where == str(git_repo)


def test_submodules_are_carried_along_and_files_that_look_like_caches_are_kept(
    tmp_path: Path, git_repo: Path
) -> None:
    commit = support.git(git_repo, "rev-parse", "HEAD").strip()
    (git_repo / "node_modules").mkdir()
    (git_repo / "node_modules" / "patched.js").write_text("1")
    support.git(git_repo, "add", "--force", "node_modules")
    support.git(git_repo, "update-index", "--add", "--cacheinfo", f"160000,{commit},vendor/sub")
    support.git(git_repo, "commit", "--quiet", "--message", "a submodule and a committed cache")
    workspace = new(tmp_path)
    base = workspace.populate(git_repo)
    assert support.git(workspace.root, "status", "--porcelain") == ""
    assert (workspace.root / "vendor" / "sub").is_dir()
    assert workspace.create_checkpoint("same").commit == base

    (workspace.root / "node_modules" / "patched.js").write_text("2")
    (workspace.root / "new").write_text("new")
    after = workspace.create_checkpoint("after").commit
    changes = [(each.kind, each.path) for each in workspace.list_changes(base, after)[0]]
    assert changes == [("created", "new"), ("modified", "node_modules/patched.js")]
    listed = support.git(workspace.git.git_dir, "ls-tree", after, "vendor/sub")
    assert listed.startswith(f"160000 commit {commit}")

    (workspace.root / "vendor" / "sub").rmdir()
    gone = workspace.create_checkpoint("gone").commit
    assert [(each.kind, each.path) for each in workspace.list_changes(after, gone)[0]] == [
        ("deleted", "vendor/sub")
    ]
    workspace.restore(base)
    assert (workspace.root / "vendor" / "sub").is_dir()


def test_a_committed_cache_that_was_made_anew_is_restored_exactly(tmp_path: Path, git_repo: Path) -> None:
    module = Path("node_modules", "patched.js")
    (git_repo / module.parent).mkdir()
    (git_repo / module).write_text("1")
    support.git(git_repo, "add", "--force", "node_modules")
    support.git(git_repo, "commit", "--quiet", "--message", "a committed cache")
    workspace = new(tmp_path)
    base = workspace.populate(git_repo)
    (workspace.root / module).unlink()
    (workspace.root / module.parent).rmdir()
    workspace.create_checkpoint("removed")
    (workspace.root / module.parent).mkdir()
    (workspace.root / module.parent / "other").write_text("2")
    assert workspace.create_checkpoint("made anew").skipped == ("node_modules/ (cache)",)
    workspace.restore(base)
    assert [path.name for path in (workspace.root / module.parent).iterdir()] == ["patched.js"]
    assert workspace.create_checkpoint("same").commit == base


def test_line_ends_of_the_base_are_those_in_the_repository(tmp_path: Path, git_repo: Path) -> None:
    (git_repo / ".gitattributes").write_text("*.txt text eol=crlf\n")
    (git_repo / "a.txt").write_text("one\ntwo\n")
    support.git(git_repo, "add", "--all")
    support.git(git_repo, "commit", "--quiet", "--message", "attributes")
    workspace = new(tmp_path)
    base = workspace.populate(git_repo)
    assert (workspace.root / "a.txt").read_bytes() == b"one\ntwo\n"
    assert support.git(workspace.root, "status", "--porcelain") == ""
    assert workspace.create_checkpoint("same").commit == base


def test_no_attribute_of_the_source_changes_what_is_written(tmp_path: Path, git_repo: Path) -> None:
    blob = "one $Id$ \u00e9\n"
    (git_repo / "a.txt").write_text(blob, "utf-8")
    (git_repo / "b.txt").write_text(blob, "utf-8")
    support.git(git_repo, "add", "--all")
    (git_repo / ".gitattributes").write_text("a.txt ident eol=crlf\nb.txt working-tree-encoding=UTF-16\n")
    (git_repo / ".git" / "info" / "attributes").write_text("* ident\n")
    support.git(git_repo, "add", ".gitattributes")
    support.git(git_repo, "commit", "--quiet", "--message", "attributes")
    workspace = new(tmp_path)
    base = workspace.populate(git_repo)
    assert (workspace.root / "a.txt").read_text("utf-8") == blob
    assert (workspace.root / "b.txt").read_text("utf-8") == blob
    assert not (workspace.root / ".git" / "info").exists()
    assert workspace.create_checkpoint("same").commit == base


def test_names_that_look_like_escaped_ones_are_restored_like_in_any_checkpoint(
    tmp_path: Path, git_repo: Path
) -> None:
    names = (".logist~.git/config", "empty/.logist~", ".logist~.logist~x", "d/.logist~.git")
    for name in names:
        (git_repo / name).parent.mkdir(exist_ok=True)
        (git_repo / name).write_text("")
    support.git(git_repo, "add", "--all")
    support.git(git_repo, "commit", "--quiet", "--message", "odd names")
    workspace = new(tmp_path)
    # The first name is that of the agent's own repository, which no checkpoint contains.
    with pytest.raises(InvalidFile, match=r"can't contain a file named '\.git/config'"):
        workspace.populate(git_repo)
    support.git(git_repo, "rm", "--quiet", "-r", ".logist~.git")
    support.git(git_repo, "commit", "--quiet", "--message", "fewer odd names")
    workspace = Workspace(tmp_path / "other" / "workspace", tmp_path / "other" / "git")
    base = workspace.populate(git_repo)
    assert list((workspace.root / "empty").iterdir()) == []
    assert {path.name for path in workspace.root.iterdir()} >= {".logist~x", "empty", "d"}
    assert (workspace.root / "d" / ".git").read_text() == ""
    assert workspace.create_checkpoint("same").commit == base


def test_links_and_programs_of_the_source(tmp_path: Path, git_repo: Path) -> None:
    (git_repo / "link").symlink_to("../outside")
    (git_repo / "dangling").symlink_to("src")
    support.git(git_repo, "add", "--all")
    support.git(git_repo, "commit", "--quiet", "--message", "links")
    workspace = new(tmp_path)
    base = workspace.populate(git_repo)
    assert os.readlink(workspace.root / "link") == "../outside"
    modes = {name: stat.S_IMODE((workspace.root / name).stat().st_mode) for name in ("run.sh", "README.md")}
    assert modes == {"run.sh": 0o700, "README.md": 0o600}
    assert stat.S_IMODE((workspace.root / "src").stat().st_mode) == 0o700
    assert workspace.create_checkpoint("same").commit == base


def test_edited_files_of_the_source_are_not_in_the_workspace(tmp_path: Path, git_repo: Path) -> None:
    """Even if they have the size of the committed ones, on a file system that can clone files."""
    committed = (git_repo / "README.md").read_bytes()
    (git_repo / "README.md").write_bytes(committed.swapcase())
    (git_repo / "src" / "app.py").unlink()
    (git_repo / "src" / "app.py").symlink_to("/etc/passwd")
    workspace = new(tmp_path)
    base = workspace.populate(git_repo)
    assert (workspace.root / "README.md").read_bytes() == committed
    assert not (workspace.root / "src" / "app.py").is_symlink()
    assert support.git(workspace.root, "status", "--porcelain") == ""
    assert workspace.create_checkpoint("same").commit == base


def test_a_source_that_borrows_its_objects_is_copied_without_its_history(
    tmp_path: Path, git_repo: Path
) -> None:
    shared = tmp_path / "shared"
    support.git(tmp_path, "clone", "--quiet", "--shared", str(git_repo), str(shared))
    support.git(git_repo, "gc", "--quiet")
    workspace = new(tmp_path)
    base = workspace.populate(shared)
    for repository in (workspace.git.git_dir, workspace.root):
        held = support.git(repository, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
        assert held.split().count("commit") == 1
        assert support.git(repository, "fsck", "--full", "--strict", "--no-progress", base) == ""


def test_the_first_checkpoint_after_the_start_reads_no_file(tmp_path: Path, git_repo: Path) -> None:
    workspace = new(tmp_path)
    workspace.populate(git_repo)
    known = load_baseline(workspace.git)
    clock = read_file_system_time(workspace.git)
    for name in ("README.md", "run.sh", "src/app.py"):
        stamp = known.stamps.get(name.encode())
        status = (workspace.root / name).lstat()
        # A file that was written in the last tick may have been changed in it.
        assert stamp == pack_stamp(make_stamp(status)) or clock - status.st_ctime_ns < 10**9


@pytest.fixture
def forged_repo(git_repo: Path) -> Path:
    (git_repo / "link").symlink_to("README.md")
    support.git(git_repo, "add", "--all")
    support.git(git_repo, "commit", "--quiet", "--message", "With a link")
    return git_repo


def forge(repository: Path, what: str, old: bytes, other: bytes) -> None:
    """Replace a part of the content of an object; its name stays."""
    name = support.git(repository, "rev-parse", what).strip()
    forged = repository / ".git" / "objects" / name[:2] / name[2:]
    content = zlib.decompress(forged.read_bytes())
    assert content.count(old) == 1
    forged.chmod(0o600)
    forged.write_bytes(zlib.compress(content.replace(old, other)))


@pytest.mark.parametrize(
    ("what", "old", "other"),
    [
        ("HEAD:README.md", b"Example", b"exAmple"),
        ("HEAD:src/app.py", b"42", b"43"),
        ("HEAD:link", b"README.md", b"READYOU.m"),
        ("HEAD:src", b"app.py", b"abc.py"),
        ("HEAD^{tree}", b"README.md", b"READYOU.m"),
        ("HEAD", b"With a link", b"Forged link"),
    ],
)
@pytest.mark.parametrize("more", ["", "a name\nof two lines", ".logist~.git"])
@pytest.mark.parametrize("least", [1, 4000])
def test_an_object_with_other_content_than_its_name_says_is_refused(
    tmp_path: Path,
    forged_repo: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    old: bytes,
    other: bytes,
    more: str,
    least: int,
) -> None:
    """From `least` objects on, files are verified instead of packs, except with a name that git can't store (`more`)."""
    monkeypatch.setattr(sharing, "_LEAST_LEFT", least)
    if more:
        (forged_repo / more).write_text("more\n")
        support.git(forged_repo, "add", "--all")
        support.git(forged_repo, "commit", "--quiet", "--message", "With a link")
    forge(forged_repo, what, old, other)
    with pytest.raises(StorageError, match="index-pack failed"):
        new(tmp_path).populate(forged_repo)


def test_no_pack_is_in_place_before_it_is_verified(tmp_path: Path, forged_repo: Path) -> None:
    workspace = new(tmp_path)
    start = workspace.populate(forged_repo)
    forge(forged_repo, "HEAD:README.md", b"Example", b"exAmple")
    later = Workspace(tmp_path / "later" / "workspace", tmp_path / "later" / "git")
    create_repository(later.git.git_dir, bare=True, long_names=False)
    with pytest.raises(StorageError, match="index-pack failed"):
        sharing.copy_commit(later.git, forged_repo / ".git" / "objects", start, None)
    assert list_indexes(later.git.git_dir) == []


def test_the_nearest_repository_upward_is_found(tmp_path: Path, git_repo: Path) -> None:
    assert find_repository(git_repo) == git_repo
    assert find_repository(git_repo / "src") == git_repo
    assert find_repository(git_repo / "src" / "app.py") == git_repo
    (git_repo / "src" / ".git").mkdir()
    assert find_repository(git_repo / "src") == git_repo
    assert find_repository(tmp_path / "nowhere") is None


def test_what_is_uncommitted_is_listed_by_name(git_repo: Path) -> None:
    assert list_uncommitted(git_repo) == []
    (git_repo / "src" / "app.py").write_text("changed")
    (git_repo / "run.sh").unlink()
    (git_repo / "added").write_text("added")
    support.git(git_repo, "add", "added")
    (git_repo / "d").mkdir()
    (git_repo / "d" / "new\nline").write_text("untracked")
    (git_repo / ".gitignore").write_text("*.log\n")
    (git_repo / "x.log").write_text("ignored")
    assert sorted(list_uncommitted(git_repo)) == [".gitignore", "added", "d/", "run.sh", "src/app.py"]
