"""Work of a job into the user's repository: every layout a repository may have, and everything that may be in the way."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from logist import systems
from logist.errors import Busy, LogistError, Refused, StorageError
from logist.workspace import Workspace
from logist.workspace.git import Git
from logist.workspace.merge import (
    JobWork,
    Person,
    Published,
    find_target,
    lock_target,
    publish_work,
    refs,
    staging,
    swapping,
    worktree,
)
from tests import support
from tests.support import git

Change = Callable[[Path], None]
AUTHOR = Person("ada", "ada@localhost")


def text(content: str) -> Change:
    return lambda path: _written(path, content.encode())


def program(content: str) -> Change:
    def make(path: Path) -> None:
        _written(path, content.encode())
        path.chmod(0o755)

    return make


def link(to: str) -> Change:
    def make(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(to)

    return make


def gone(path: Path) -> None:
    path.unlink()
    for parent in path.parents:
        if any(parent.iterdir()):
            return
        parent.rmdir()


def _written(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def in_place_of_a_link(path: Path) -> None:
    path.unlink()
    text("x")(path)


WORK: dict[str, Change] = {
    "src/app.py": text("ANSWER = 43\n"),
    "new/deep/file.txt": text("new\n"),
    "README.md": gone,
}


class Desk:
    """A repository, and a job that began from it."""

    def __init__(
        self, place: Path, repository: Path, *, source: Path | None = None, base: str | None = None
    ) -> None:
        self.place, self.repository = place, repository
        self.source = source or repository
        self.workspace = Workspace(place / "workspace", place / "checkpoints", max_checkpoint_bytes=100_000)
        self.base = base or self.workspace.populate(self.source)
        self.previous: str | None = None

    def work(self, changes: Mapping[str, Change]) -> Desk:
        for name, change in changes.items():
            change(self.workspace.root / name)
        return self

    def publish(
        self, mode: str = "merge", *, between: Callable[[], None] = lambda: None, **options: Any
    ) -> Published:
        """`between`: what somebody else does after it was looked at."""
        work = JobWork(
            job_id="j",
            title="Do it",
            git=self.workspace.git,
            base=self.base,
            commit=self.workspace.create_checkpoint("done").commit,
            previous=self.previous,
            author=AUTHOR,
            seconds=1_700_000_000,
            now=1_700_000_100,
            jobs_dir=self.repository / ".logist" / "jobs",
        )
        with lock_target(
            find_target(self.source, by_branch="logist job merge --job j --branch"), 0.0
        ) as target:
            between()
            return publish_work(work, target, mode, **options)

    def bytes(self) -> dict[str, bytes | None]:
        return support.tree(self.repository)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A job that began from a repository and did nothing yet; to be copied."""
    place = tmp_path_factory.mktemp("template")
    return Desk(place, support.make_repository(place / "repo"))


@pytest.fixture
def desk(template: Desk, tmp_path: Path) -> Desk:
    place = tmp_path / "desk"
    shutil.copytree(template.place, place, symlinks=True)
    return Desk(place, place / "repo", base=template.base)


def commit(repository: Path, changes: Mapping[str, Change], message: str = "theirs") -> None:
    for name, change in changes.items():
        change(repository / name)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", message)


def status(repository: Path) -> str:
    return git(repository, "status", "--porcelain")


def content(repository: Path, revision: str = "HEAD") -> set[str]:
    return set(git(repository, "ls-tree", "-r", "--name-only", "-z", revision).split("\0")) - {""}


# ---- layouts


def checked_out(place: Path) -> Desk:
    return Desk(place, support.make_repository(place / "repo"))


def detached(place: Path) -> Desk:
    found = checked_out(place)
    git(found.repository, "checkout", "--quiet", "--detach")
    return found


def bare(place: Path) -> Desk:
    support.make_repository(place / "first")
    git(place, "clone", "--quiet", "--bare", "first", "repo.git")
    return Desk(place, place / "repo.git")


def subdirectory(place: Path) -> Desk:
    repository = support.make_repository(place / "repo")
    (repository / "src" / ".logist" / "jobs").mkdir(parents=True)
    return Desk(place, repository, source=repository / "src")


def moved_on(place: Path) -> Desk:
    found = checked_out(place)
    commit(found.repository, {"src/other.py": text("OTHER = 1\n"), "run.sh": program("#!/bin/sh\necho 43\n")})
    return found


def linked_work_tree(place: Path) -> Desk:
    repository = support.make_repository(place / "repo")
    git(repository, "worktree", "add", "--quiet", "-b", "side", str(place / "side"))
    return Desk(place, place / "side")


def long_names(place: Path) -> Desk:
    (place / "repo").mkdir()
    git(place / "repo", "init", "--quiet", "--object-format=sha256", "--initial-branch", "main")
    files = {"README.md": text("# Example\n"), "src/app.py": text("ANSWER = 42\n")}
    commit(place / "repo", files)
    return Desk(place, place / "repo")


def a_submodule_of_another(place: Path) -> Desk:
    support.make_repository(place / "inner")
    outer = support.make_repository(place / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(place / "inner"), "lib")
    return Desk(place, outer / "lib")


def with_a_submodule(place: Path) -> Desk:
    support.make_repository(place / "inner")
    outer = support.make_repository(place / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(place / "inner"), "lib")
    git(outer, "commit", "--quiet", "--message", "a submodule")
    return Desk(place, outer)


def shallow(place: Path) -> Desk:
    support.make_repository(place / "first")
    git(place, "clone", "--quiet", "--depth=1", f"file://{place / 'first'}", "repo")
    found = Desk(place, place / "repo")
    commit(found.repository, {"theirs.txt": text("theirs\n")})
    return found


def packed_and_borrowing(place: Path) -> Desk:
    support.make_repository(place / "first")
    git(place, "clone", "--quiet", "--shared", "first", "repo")
    git(place / "repo", "pack-refs", "--all")
    return Desk(place, place / "repo")


def a_name_with_a_line_break(place: Path) -> Desk:
    return Desk(place, support.make_repository(place / 're\npo: "x"'))


LAYOUTS = [
    *(checked_out, detached, bare, subdirectory, moved_on, linked_work_tree, long_names),
    *(a_submodule_of_another, with_a_submodule, shallow, packed_and_borrowing, a_name_with_a_line_break),
]


@pytest.mark.deep_beyond(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_work_goes_in_whatever_the_layout(layout: Callable[[Path], Desk], tmp_path: Path) -> None:
    desk = layout(tmp_path)
    repository = desk.repository
    before, head = content(repository), git(repository, "rev-parse", "HEAD").strip()
    untouched = desk.bytes()
    desk.work(WORK)
    desk.workspace.create_checkpoint("done")
    assert desk.bytes() == untouched

    found = desk.publish()

    assert found.how == ("merge" if layout in (moved_on, shallow) else "fast_forward")
    assert content(repository) == (before - {"README.md"}) | {"new/deep/file.txt"}
    assert content(repository, "logist/j") >= {"src/app.py", "new/deep/file.txt"}
    assert git(repository, "show", "HEAD:src/app.py") == "ANSWER = 43\n"
    assert git(repository, "rev-parse", "HEAD").strip() == found.after
    assert git(repository, "rev-list", "--count", f"{head}..HEAD").strip() == (
        "2" if found.how == "merge" else "1"
    )
    assert git(repository, "fsck", "--full", "--no-dangling") == ""
    if layout is not bare:
        assert status(repository) == ""
        assert (repository / "src" / "app.py").read_text() == "ANSWER = 43\n"
        assert not (repository / "README.md").exists()

    done = desk.bytes()
    again = desk.publish()
    assert (again.how, again.commit) == ("already", found.commit)
    assert desk.bytes() == done


@pytest.mark.parametrize("layout", [checked_out, moved_on, bare])
def test_the_advised_command_takes_it_back(layout: Callable[[Path], Desk], tmp_path: Path) -> None:
    desk = layout(tmp_path).work(WORK)
    before = git(desk.repository, "rev-parse", "HEAD^{tree}")
    found = desk.publish()
    env = {
        "GIT_COMMITTER_NAME": "x",
        "GIT_COMMITTER_EMAIL": "x",
        "GIT_AUTHOR_NAME": "x",
        "GIT_AUTHOR_EMAIL": "x",
    }
    subprocess.run(["sh", "-c", found.revert], env=dict(os.environ) | env, check=True, capture_output=True)
    assert git(desk.repository, "rev-parse", "HEAD^{tree}") == before


def test_a_repository_without_a_commit_gets_its_first(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "--quiet", "--initial-branch", "main")
    desk = Desk(tmp_path, tmp_path / "repo").work({"a.txt": text("a\n")})
    assert desk.publish().how == "fast_forward"
    assert content(desk.repository) == {"a.txt"}
    assert status(desk.repository) == ""


def test_a_repository_that_got_its_first_commit_meanwhile_is_for_a_person_to_merge(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "--quiet", "--initial-branch", "main")
    desk = Desk(tmp_path, tmp_path / "repo").work({"a.txt": text("a\n")})
    commit(desk.repository, {"b.txt": text("b\n")})
    with pytest.raises(Refused, match="has no common history"):
        desk.publish()
    assert content(desk.repository) == {"b.txt"}
    assert desk.publish("branch").how == "branch"
    git(desk.repository, "merge", "--quiet", "--no-edit", "--allow-unrelated-histories", "logist/j")
    assert desk.publish().how == "already"
    assert content(desk.repository) == {"a.txt", "b.txt"}


# ---- what goes in

KINDS: dict[str, tuple[dict[str, Change], dict[str, Change]]] = {
    "files": (
        {"old": link("run.sh"), "way": text("x")},
        {
            "tool": program("#!/bin/sh\n"),
            "src/app.py": program("ANSWER = 42\n"),
            "run.sh": lambda path: path.chmod(0o644),
            "README.md": gone,
            "docs/README.md": text("# Example\n"),
            "outside": link("/etc/passwd"),
            "way": link("run.sh"),
            "old": in_place_of_a_link,
            "empty": text(""),
            "data": lambda path: _written(path, bytes(range(256))),
        },
    ),
    "odd names": (
        {},
        {
            "a\nb": text("x\n"),
            ' "q" \\ ü': text("x\n"),
            "-x": text("x\n"),
            ":(top)": text("x"),
            os.fsdecode(b"n\xff\xfe"): text("x\n"),
            **{f"many/{n:03}": text(f"{n}\n") for n in range(210)},
        },
    ),
    "files in the place of directories": (
        {"link/x": text("x"), "deep/er/x": text("x")},
        {
            "src/app.py": gone,
            "src": text("file\n"),
            "link/x": gone,
            "link": link("/tmp"),
            "run.sh": gone,
            "run.sh/now/here": text("x\n"),
            "deep/er/x": gone,
            "deep/er": text("x"),
        },
    ),
    "spelled for windows": (
        {".gitattributes": text("*.txt text eol=crlf\n"), "w.txt": text("one\r\ntwo\r\n")},
        {"w.txt": text("one\nthree\n"), "v.txt": text("new\r\n")},
    ),
    "what was ignored and is tracked": (
        {".gitignore": text("*.log\n"), "kept.txt": text("x")},
        {".gitignore": gone, "a.log": text("now wanted\n")},
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_change_goes_in(name: str, tmp_path: Path) -> None:
    theirs, ours = KINDS[name]
    repository = support.make_repository(tmp_path / "repo")
    if theirs:
        commit(repository, theirs)
    desk = Desk(tmp_path, repository).work(ours)
    wanted = files(desk.workspace.root)
    found = desk.publish()
    assert found.how == "fast_forward"
    assert found.left_out == ()
    assert status(repository) == ""
    got = files(repository)
    assert got.keys() == wanted.keys()
    assert {path: _lines(value) for path, value in got.items()} == {
        path: _lines(v) for path, v in wanted.items()
    }
    for path in got:
        mode = (repository / path).lstat().st_mode
        assert bool(mode & 0o100) == bool((desk.workspace.root / path).lstat().st_mode & 0o100), path
        assert mode & 0o044 == 0o044, path  # as the umask of the user says


def files(place: Path) -> dict[str, bytes | None]:
    return {path: value for path, value in support.tree(place).items() if not f"{path}/".startswith(".git/")}


def _lines(value: bytes | None) -> bytes | None:
    return value if value is None or b"\0" in value else value.replace(b"\r\n", b"\n")


def test_the_ends_of_lines_are_those_that_the_repository_wants(tmp_path: Path) -> None:
    theirs, ours = KINDS["spelled for windows"]
    repository = support.make_repository(tmp_path / "repo")
    commit(repository, theirs)
    Desk(tmp_path, repository).work(ours).publish()
    assert git(repository, "show", "HEAD:v.txt") == "new\n"
    assert (repository / "v.txt").read_bytes() == b"new\r\n"
    assert (repository / "w.txt").read_bytes() == b"one\r\nthree\r\n"


LEFT_OUT: dict[str, tuple[Change, str]] = {
    "build/a.o": (text("x"), "git-ignored"),
    "b.o": (text("x"), "git-ignored"),
    "sub/x.tmp": (text("x"), "git-ignored"),
    "mine.secret": (text("x"), "git-ignored"),
    "sub/.git/hooks/post-merge": (program("#!/bin/sh\ntouch ran\n"), "part of a git repository"),
    ".GIT/config": (text("x"), "part of a git repository"),
    "a/.Git/x": (text("x"), "part of a git repository"),
    ".g\u200cit/config": (text("x"), "part of a git repository"),
    "git~1/config": (text("x"), "part of a git repository"),
    ".logist/jobs/k/state.json": (text("{}"), "Logist's own jobs"),
    ".gitmodules": (link("/etc/passwd"), "a link instead of a file that git reads"),
    "big": (lambda path: _written(path, bytes(200_000)), "too large"),
    "README.md": (lambda path: _written(path, bytes(200_001)), "too large"),
    "pipe": (os.mkfifo, "fifo"),
}


def test_what_is_nobodys_work_stays_out(desk: Desk) -> None:
    repository = desk.repository
    _written(repository / ".git" / "info" / "exclude", b"*.secret\n")
    rules = {".gitignore": text("*.o\nbuild/\n"), "sub/.gitignore": text("*.tmp\n")}
    changes = {path: change for path, (change, _) in LEFT_OUT.items()}
    found = desk.work({"src/app.py": text("changed\n"), **rules, **changes}).publish()
    assert sorted(found.left_out) == sorted(f"{path} ({why})" for path, (_, why) in LEFT_OUT.items())
    assert content(repository) == {"README.md", "run.sh", "src/app.py", *rules}
    assert git(repository, "show", "HEAD:README.md") == "# Example\n"
    assert status(repository) == ""


def test_a_submodule_stays_as_it_is(tmp_path: Path) -> None:
    desk = with_a_submodule(tmp_path).work({"src/app.py": text("changed\n"), "lib/evil": text("x\n")})
    inner = support.tree(desk.repository / "lib")
    found = desk.publish()
    assert set(found.left_out) == {"lib (submodule)", "lib/evil (submodule)"}
    assert git(desk.repository, "diff", "--name-only", "HEAD^", "HEAD") == "src/app.py\n"
    assert support.tree(desk.repository / "lib") == inner


def test_nothing_changed_is_nothing_to_merge(desk: Desk) -> None:
    before = desk.bytes()
    assert desk.publish().how == "nothing"
    assert desk.bytes() == before


def test_later_work_of_the_same_job_comes_on_top(desk: Desk) -> None:
    first = desk.work(WORK).publish()
    commit(desk.repository, {"theirs.txt": text("x\n")})
    desk.previous = first.commit
    second = desk.work({"src/app.py": text("ANSWER = 44\n")}).publish()
    assert second.how == "merge"
    assert [change.path for change in second.files] == ["src/app.py"]
    assert git(desk.repository, "show", "HEAD:src/app.py") == "ANSWER = 44\n"
    assert content(desk.repository) >= {"theirs.txt", "new/deep/file.txt"}


# ---- who, and what it says


@pytest.mark.parametrize(
    ("settings", "author"),
    [
        ({}, "ada <ada@localhost>"),
        ({"user.name": "Grace", "user.email": "grace@example.org"}, "Grace <grace@example.org>"),
        ({"user.name": "Grace"}, "ada <ada@localhost>"),
    ],
)
def test_the_author_is_whom_the_repository_names(desk: Desk, settings: dict[str, str], author: str) -> None:
    for name, value in settings.items():
        git(desk.repository, "config", name, value)
    found = desk.work(WORK).publish()
    told = git(desk.repository, "log", "-1", "--format=%an <%ae>|%cn <%ce>|%at|%B", found.commit or "")
    assert told.rstrip() == f"{author}|{author}|1700000000|Do it\n\nLogist-Job: j"
    log = git(desk.repository, "reflog", "-1", "--format=%gn %gs")
    assert log == f"{author.partition(' ')[0]} logist job merge --job j\n"


def test_the_users_own_settings_count(desk: Desk, tmp_path: Path) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\nname = Grace\nemail = g@example.org\n[core]\nautocrlf = true\n")
    found = find_target(desk.repository, [str(settings)])
    assert found.choose_author(AUTHOR) == Person("Grace", "g@example.org")
    assert found.settings["core.autocrlf"] == "true"


# ---- what the user has there


def test_what_the_user_is_at_elsewhere_stays_as_it_is(desk: Desk) -> None:
    repository = desk.repository
    commit(repository, {"staged.txt": text("1\n"), "changed.txt": text("1\n"), "removed.txt": text("1\n")})
    (repository / "staged.txt").write_text("2\n")
    (repository / "new.txt").write_text("new\n")
    git(repository, "add", "staged.txt", "new.txt")
    (repository / "changed.txt").write_text("2\n")
    (repository / "removed.txt").unlink()
    (repository / "untracked.txt").write_text("mine\n")
    before = status(repository)
    desk.work(WORK).publish()
    assert status(repository) == before
    assert git(repository, "show", ":staged.txt") == "2\n"
    assert (repository / "untracked.txt").read_text() == "mine\n"


def rewritten(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "--orphan", "fresh")
    git(repository, "commit", "--quiet", "--message", "fresh")


def pruned(repository: Path) -> None:
    rewritten(repository)
    git(repository, "branch", "-D", "main")
    git(repository, "reflog", "expire", "--expire=now", "--all")
    git(repository, "gc", "--quiet", "--prune=now")


def own_branch(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "logist/j")


def taken_branch(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "logist/j")
    commit(repository, {"mine.txt": text("x\n")})
    git(repository, "checkout", "--quiet", "main")


def conflicting_merge(repository: Path) -> None:
    for branch in ("one", "two"):
        git(repository, "checkout", "--quiet", "-b", branch, "main")
        commit(repository, {"other.txt": text(branch)})
    _try_to_merge(repository, "one")


def _try_to_merge(repository: Path, branch: str) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "merge", branch)


def unmerged(repository: Path) -> None:
    conflicting_merge(repository)
    (repository / ".git" / "MERGE_HEAD").unlink()


def assumed_unchanged(repository: Path) -> None:
    git(repository, "update-index", "--assume-unchanged", "src/app.py")
    (repository / "src/app.py").write_text("MINE = 1\n")


def link_above(repository: Path) -> None:
    (repository.parent / "outside").mkdir()
    (repository / "new").symlink_to(repository.parent / "outside")


def replaced_by_a_link(repository: Path) -> None:
    shutil.move(repository / "src", repository.parent / "outside")
    (repository / "src").symlink_to(repository.parent / "outside")


def filtered(repository: Path) -> None:
    commit(repository, {".gitattributes": text("*.py filter=mine\n")})
    git(repository, "config", "filter.mine.smudge", "touch ran; cat")


def staged(repository: Path) -> None:
    text("MINE = 1\n")(repository / "src/app.py")
    git(repository, "add", "--all")


def ignored(repository: Path) -> None:
    commit(repository, {".gitignore": text("new/\n")})
    text("x")(repository / "new/deep/file.txt")


def sparse(repository: Path) -> None:
    git(repository, "sparse-checkout", "set", "src")


def sparse_without_a_value(repository: Path) -> None:
    sparse(repository)
    (repository / ".git" / "config.worktree").write_text("[core]\n\tsparseCheckout\n")


def skipped(repository: Path) -> None:
    git(repository, "update-index", "--skip-worktree", "src/app.py")
    (repository / "src/app.py").write_text("MINE = 1\n")


def elsewhere(repository: Path) -> None:
    (repository.parent / "outside").mkdir()
    git(repository, "config", "core.worktree", str(repository.parent / "outside"))


def locked_by_another(name: str) -> Change:
    return lambda repository: text("")(repository / ".git" / f"{name}.lock")


IN_THE_WAY: dict[str, tuple[Change, str]] = {
    "a changed file": (lambda r: text("MINE = 1\n")(r / "src/app.py"), "uncommitted changes.*: src/app.py"),
    "a changed file that is to go": (
        lambda r: text("mine\n")(r / "README.md"),
        "uncommitted changes.*: README.md",
    ),
    "a changed mode": (lambda r: (r / "src/app.py").chmod(0o755), "uncommitted changes.*: src/app.py"),
    "a link in its place": (lambda r: link("run.sh")(r / "src/app.py"), "uncommitted changes.*: src/app.py"),
    "a staged change": (staged, "staged changes.*: src/app.py"),
    "a change nobody is to see": (assumed_unchanged, "uncommitted changes.*: src/app.py"),
    "an untracked file": (
        lambda r: text("mine\n")(r / "new/deep/file.txt"),
        "in the way.*: new/deep/file.txt",
    ),
    "an ignored file": (
        ignored,
        "in the way.*: new/deep/file.txt",
    ),
    "a file above it": (lambda r: text("mine\n")(r / "new"), "in the way.*: new/deep/file.txt"),
    "a link above it": (link_above, "in the way.*: new/deep/file.txt"),
    "a directory in its place": (
        lambda r: text("x")(r / "new/deep/file.txt/x"),
        "in the way.*: new/deep/file.txt",
    ),
    "a link in the place of a directory": (replaced_by_a_link, "in the way.*: src/app.py"),
    "a merge": (conflicting_merge, "a merge is in progress"),
    "a rebase": (lambda r: (r / ".git/rebase-merge").mkdir(), "a rebase is in progress"),
    "a bisect": (lambda r: text("x")(r / ".git/BISECT_LOG"), "a bisect is in progress"),
    "files that are not merged": (unmerged, "staged changes.*: other.txt"),
    "another git": (
        lambda r: text("")(r / ".git/index.lock"),
        "another git process is using this repository",
    ),
    "another git on the branch": (
        locked_by_another("refs/heads/main"),
        "main.lock: another git process is using this repository",
    ),
    "another git on HEAD": (
        locked_by_another("HEAD"),
        "HEAD.lock: another git process is using this repository",
    ),
    "another git on the branch of the job": (
        locked_by_another("refs/heads/logist/j"),
        "another git process is using this repository",
    ),
    "the branch of the job": (own_branch, "branch of the job itself"),
    "a branch of that name": (taken_branch, "can't move the branch logist/j: it has other commits"),
    "other commits": (rewritten, "has no common history"),
    "the first commit is gone": (
        pruned,
        "is no longer in this repository .*move the work onto the current state: logist job update --job j --onto HEAD",
    ),
    "a part only": (sparse, "only a part"),
    "a part only, said without a value": (sparse_without_a_value, "only a part"),
    "a file that git is to skip": (skipped, "set to skip .skip-worktree.: src/app.py"),
    "files elsewhere": (elsewhere, "files are in another directory"),
    "a filter": (filtered, "files that need git filters: src/app.py"),
}


@pytest.mark.deep_beyond(4)
@pytest.mark.parametrize("name", IN_THE_WAY)
def test_what_would_cost_the_user_something_is_refused(name: str, desk: Desk) -> None:
    prepare, told = IN_THE_WAY[name]
    desk.work({**WORK, "README.md": gone})
    prepare(desk.repository)
    outside = support.tree(desk.repository.parent / "outside") if (desk.place / "outside").exists() else None
    before = desk.bytes()
    with pytest.raises(Refused, match=told) as refused:
        desk.publish()
    assert refused.value.fix
    assert desk.bytes() == before
    if outside is not None:
        assert support.tree(desk.place / "outside") == outside
    if name in ("a changed file", "an untracked file", "a merge", "a branch of that name"):
        looked = desk.publish("look")
        assert looked.blocked is not None
        assert looked.blocked.message == refused.value.message
        assert desk.bytes() == before


def test_a_conflict_names_the_files_and_changes_nothing(desk: Desk) -> None:
    desk.work({**WORK, "both.txt": text("ours\n")})
    commit(desk.repository, {"src/app.py": text("ANSWER = 1\n"), "both.txt": text("theirs\n")})
    before = desk.bytes()
    found = desk.publish()
    assert (found.how, sorted(found.conflicts)) == ("conflict", ["both.txt", "src/app.py"])
    assert desk.bytes() == before


def test_a_conflict_is_resolved_by_hand_on_the_branch(desk: Desk) -> None:
    desk.work(WORK)
    commit(desk.repository, {"src/app.py": text("ANSWER = 1\n")})
    head = git(desk.repository, "rev-parse", "HEAD")
    assert desk.publish("branch").how == "branch"
    assert git(desk.repository, "rev-parse", "HEAD") == head
    assert status(desk.repository) == ""
    _try_to_merge(desk.repository, "logist/j")
    commit(desk.repository, {"src/app.py": text("ANSWER = 2\n")}, "merged by hand")
    assert desk.publish().how == "already"


def test_nothing_that_the_repository_has_set_up_is_run(desk: Desk) -> None:
    repository = desk.repository
    attributes = "*.md filter=bad diff=bad merge=bad\n*.py diff=bad merge=bad\n"
    commit(repository, {".gitattributes": text(attributes), "src/app.py": text("ANSWER = 42\n\n\n\n# end\n")})
    desk = Desk(desk.place / "second", repository)
    commit(repository, {"src/app.py": text("ANSWER = 42\n\n\n\n# the end\n")})
    ran = desk.place / "ran"
    evil = desk.place / "evil"
    program(f"#!/bin/sh\necho $0 >> {ran}\ncat\n")(evil)
    for hook in ("post-merge", "post-checkout", "pre-commit", "reference-transaction", "post-index-change"):
        shutil.copy(evil, repository / ".git" / "hooks" / hook)
    for key in ("core.fsmonitor", "core.pager", "diff.external", "diff.bad.command", "diff.bad.textconv"):
        git(repository, "config", key, str(evil))
    for key in ("merge.bad.driver", "core.sshCommand", "gpg.program", "core.editor"):
        git(repository, "config", key, str(evil))
    git(repository, "config", "commit.gpgSign", "true")
    git(repository, "config", "filter.other.clean", str(evil))
    ran.unlink(missing_ok=True)
    found = desk.work({"src/app.py": text("ANSWER = 43\n\n\n\n# end\n")}).publish(patch=True)
    assert found.how == "merge"
    assert "+ANSWER = 43" in found.patch
    assert not ran.exists()


def checkpoints(desk: Desk) -> dict[str, bytes | None]:
    found = support.tree(desk.place / "checkpoints")
    del found["logist-stamps"]
    return found


@pytest.mark.parametrize("layout", [moved_on, bare])
def test_a_look_changes_nothing(layout: Callable[[Path], Desk], tmp_path: Path) -> None:
    desk = layout(tmp_path).work(WORK)
    desk.workspace.create_checkpoint("done")
    before, job = desk.bytes(), checkpoints(desk)
    looked = desk.publish("look", patch=True)
    assert desk.bytes() == before
    assert checkpoints(desk) == job
    assert looked.blocked is None
    assert (looked.commit, looked.after, looked.revert) == (None, None, "")  # there is no commit yet
    made = desk.publish("branch")
    again = desk.publish("look")
    assert (again.commit, again.after, again.revert) == (made.commit, None, "")
    done = desk.publish()
    assert (looked.how, looked.before, looked.files) == (done.how, done.before, done.files)
    assert "+ANSWER = 43" in looked.patch
    there = desk.publish("look")
    assert (there.how, there.commit, there.after) == ("already", done.commit, done.after)


def test_who_commits_in_that_moment_loses_nothing(desk: Desk) -> None:
    desk.work(WORK)
    with pytest.raises(Refused, match="changed during the merge"):
        desk.publish(between=lambda: commit(desk.repository, {"theirs.txt": text("x\n")}))
    assert status(desk.repository) == ""
    assert git(desk.repository, "log", "--all", "--format=%s") == "theirs\nsecond\nfirst\n"
    assert desk.publish().how == "merge"


def test_others_wait_while_work_is_merged(desk: Desk) -> None:
    desk.work(WORK)
    with (
        lock_target(find_target(desk.repository), 0.0),
        pytest.raises(Busy, match="another job is being merged"),
    ):
        desk.publish()
    assert desk.publish().how == "fast_forward"


# ---- what somebody does at the same time


def saved(path: Path) -> None:
    path.write_text("MINE = 43\n")


def saved_by_a_rename(path: Path) -> None:
    path.with_name("mine~").write_text("MINE = 43\n")
    path.with_name("mine~").rename(path)


def made(path: Path) -> None:
    text("mine\n")(path)


MEANWHILE: dict[str, tuple[str, Change]] = {
    "a save": ("src/app.py", saved),
    "a save by a rename": ("src/app.py", saved_by_a_rename),
    "a save of what is to go": ("README.md", saved),
    "a file where one comes": ("new/deep/file.txt", made),
    "a deletion": ("src/app.py", Path.unlink),
}


def _loses_nothing(desk: Desk, name: str, told: str) -> None:
    """A merge into which somebody has changed this file is refused, and is done when that is put away."""
    repository, mine = desk.repository, desk.repository / name
    before = {path: kept for path, kept in desk.bytes().items() if not path.startswith(".git")}
    with pytest.raises(Refused, match=told):
        desk.publish()
    saved_text = mine.read_text() if mine.exists() else None
    after = {path: kept for path, kept in desk.bytes().items() if not path.startswith(".git")}
    above = {str(path) for path in Path(name).parents}
    assert {path: kept for path, kept in after.items() if path not in {name, *above}} == {
        path: kept for path, kept in before.items() if path not in {name, *above}
    }
    assert saved_text is None or "mine" in saved_text.lower()
    assert git(repository, "log", "--format=%s") == "second\nfirst\n"
    assert [path for path in (repository / ".git").rglob("*") if "logist-" in path.name] == []


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("name", MEANWHILE)
def test_what_is_saved_while_work_is_merged_is_not_lost(
    name: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, change = MEANWHILE[name]
    desk.work(WORK)
    apply = worktree.apply_staged

    def after_the_user(ready: staging.Staged) -> None:
        change(desk.repository / path)
        apply(ready)

    with monkeypatch.context() as patched:
        patched.setattr(worktree, "apply_staged", after_the_user)
        _loses_nothing(desk, path, f"files changed during the merge: {path}")
    (desk.repository / path).unlink(missing_ok=True)
    git(desk.repository, "checkout", "--quiet", "--", ".")
    assert desk.publish().how == "fast_forward"
    assert status(desk.repository) == ""


@pytest.mark.parametrize("path", ["src/app.py", "README.md", "new/deep/file.txt"])
def test_not_even_in_the_moment_of_the_swap(path: str, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.work(WORK)
    swap = swapping.rename_with_flag
    done: list[str] = []

    def just_before(source: int, old: bytes, folder: int, new: bytes, flag: int) -> None:
        mine = os.fsencode(Path(path).name)
        if mine in (old, new) and not done:
            done.append(path)
            saved_by_a_rename(desk.repository / path)
        swap(source, old, folder, new, flag)

    monkeypatch.setattr(swapping, "rename_with_flag", just_before)
    _loses_nothing(desk, path, "files changed during the merge")
    assert (desk.repository / path).read_text() == "MINE = 43\n"


def test_no_other_git_moves_the_branch_while_files_are_moved(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.work(WORK)
    apply = worktree.apply_staged

    def with_another_git(ready: staging.Staged) -> None:
        with pytest.raises(subprocess.CalledProcessError):
            git(desk.repository, "update-ref", "refs/heads/main", "HEAD^")
        apply(ready)

    monkeypatch.setattr(worktree, "apply_staged", with_another_git)
    assert desk.publish().how == "fast_forward"
    assert status(desk.repository) == ""


def apart(source: int, old: bytes, folder: int, new: bytes, flag: int) -> None:
    """As between two file systems."""
    if source != folder:
        raise OSError(errno.EXDEV, "apart")
    RENAME(source, old, folder, new, flag)


def without_flags(source: int, old: bytes, folder: int, new: bytes, flag: int) -> int:
    ctypes.set_errno(errno.EINVAL)
    return -1


RENAME = swapping.rename_with_flag


def test_a_work_tree_on_another_file_system(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = desk.repository / "src" / ".logist-app.py"
    mine.write_text("mine\n")
    monkeypatch.setattr(swapping, "rename_with_flag", apart)
    assert desk.work({**WORK, "link": link("run.sh")}).publish().how == "fast_forward"
    assert status(desk.repository) == "?? src/.logist-app.py\n"
    assert mine.read_text() == "mine\n"


def test_a_file_system_without_swaps(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems._load_library(), "renameat2", without_flags)
    assert desk.work({**WORK, "link": link("run.sh")}).publish().how == "fast_forward"
    assert status(desk.repository) == ""


@pytest.mark.parametrize("rename", [RENAME, apart])
def test_a_full_disk_is_told_and_everything_is_as_it_was(
    rename: Any, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.work(WORK)
    before = {path: kept for path, kept in desk.bytes().items() if not path.startswith(".git")}

    def full(source: int, old: bytes, folder: int, new: bytes, flag: int) -> None:
        if b"app.py" in (old, new):
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, old, folder, new, flag)

    with monkeypatch.context() as patched:
        patched.setattr(swapping, "rename_with_flag", full)
        with pytest.raises(StorageError, match="No space left") as told:
            desk.publish()
    monkeypatch.setattr(swapping, "rename_with_flag", rename)
    assert told.value.fix
    assert {path: kept for path, kept in desk.bytes().items() if not path.startswith(".git")} == before
    assert not [path for path in desk.repository.rglob("*") if "logist-" in path.name]
    assert desk.publish().how == "fast_forward"


def test_a_commit_that_was_amended_is_not_ours(desk: Desk) -> None:
    repository = desk.repository
    desk.work(WORK).publish("branch")
    git(repository, "checkout", "--quiet", "logist/j")
    text("a day of work\n")(repository / "mine.txt")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--amend", "--no-edit")
    git(repository, "checkout", "--quiet", "main")
    before = git(repository, "rev-parse", "logist/j")
    with pytest.raises(Refused, match="has other commits") as refused:
        desk.publish()
    assert "branch -m logist/j" in str(refused.value.fix)
    assert git(repository, "rev-parse", "logist/j") == before


@pytest.mark.parametrize("layout", [checked_out, moved_on, bare])
def test_what_is_in_already_can_be_taken_back_as_well(layout: Callable[[Path], Desk], tmp_path: Path) -> None:
    desk = layout(tmp_path).work(WORK)
    first = desk.publish()
    again = desk.publish()
    assert again.how == "already"
    assert again.revert == first.revert


# ---- cut off


def killed_before_anything(repository: Path) -> None:
    """The lock is taken, and no more."""
    _leave_lock(repository)


def killed_among_the_files(repository: Path) -> None:
    _leave_lock(repository)
    text("ANSWER = 43\n")(repository / "src/app.py")
    (repository / "README.md").unlink()


def killed_with_the_files(repository: Path) -> None:
    killed_among_the_files(repository)
    text("new\n")(repository / "new/deep/file.txt")


def killed_before_the_branch_moves(repository: Path) -> None:
    _finish(repository)
    git(repository, "update-ref", "HEAD", "HEAD^")
    _leave_lock(repository)


def killed_as_the_branch_moves(repository: Path) -> None:
    killed_before_the_branch_moves(repository)
    folder, marker = repository / ".git", repository / ".git" / "logist-merge"
    locks = [folder / name for name in ("HEAD.lock", "refs/heads/main.lock")]
    marker.write_bytes(b"\0".join([marker.read_bytes(), *(b"lock " + os.fsencode(lock) for lock in locks)]))
    for lock in locks:
        lock.touch()


def killed_at_the_end(repository: Path) -> None:
    _finish(repository)
    _leave_lock(repository)


def killed_as_it_lets_go(repository: Path) -> None:
    _finish(repository)
    (repository / ".git" / "logist-merge").write_text("logist job merge --job j\n")


def _finish(repository: Path) -> None:
    git(repository, "merge", "--quiet", "logist/j")


def _leave_lock(repository: Path) -> None:
    folder = repository / ".git"
    (folder / "logist-merge").write_text("logist job merge --job j\n")
    os.link(folder / "logist-merge", folder / "index.lock")
    (folder / "logist-staging" / "new").mkdir(parents=True)
    (folder / "logist-index.lock").touch()


CUTS = [
    *(killed_before_anything, killed_among_the_files, killed_with_the_files, killed_before_the_branch_moves),
    *(killed_as_the_branch_moves, killed_at_the_end, killed_as_it_lets_go),
]


@pytest.mark.deep_beyond(2)
@pytest.mark.parametrize("cut", CUTS)
def test_whatever_was_cut_off_it_is_one_merge_in_the_end(cut: Change, desk: Desk) -> None:
    desk.work(WORK).publish("branch")
    other = desk.repository / "run.sh"
    cut(desk.repository)
    other.write_text("mine\n")
    found = desk.publish()
    assert found.how in ("fast_forward", "already")
    assert git(desk.repository, "log", "--format=%s") == "Do it\nsecond\nfirst\n"
    assert status(desk.repository) == " M run.sh\n"
    assert content(desk.repository) == {"src/app.py", "new/deep/file.txt", "run.sh"}
    left = [path.name for path in (desk.repository / ".git").rglob("*") if "logist-" in path.name]
    assert left == []
    assert not [*(desk.repository / ".git").rglob("*.lock")]


def test_a_git_of_ours_that_was_killed_leaves_no_lock(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = desk.repository / ".git"

    def killed(process: subprocess.Popen[bytes], lines: object, answer: object) -> bool:
        (folder / "HEAD.lock").touch()
        process.kill()
        return False

    desk.work(WORK)
    with monkeypatch.context() as patch:
        patch.setattr(refs, "_send_lines", killed)
        with pytest.raises(StorageError):
            desk.publish()
    assert not [*folder.rglob("*.lock")]
    assert desk.publish().how == "fast_forward"


def test_a_git_that_was_killed_has_said_nothing(tmp_path: Path) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(StorageError, match="status -9"):
        Git(tmp_path, str(tmp_path)).run_for_status("merge-base", "--is-ancestor", "a", "b")


def test_a_lock_of_another_git_is_not_ours_to_remove(desk: Desk) -> None:
    folder = desk.repository / ".git"
    (folder / "logist-merge").write_text("logist job merge --job j\n")
    (folder / "index.lock").touch()
    with pytest.raises(Refused, match="another git"):
        desk.work(WORK).publish()
    assert (folder / "index.lock").exists()


def test_nor_is_a_lock_of_a_branch_that_was_taken_since(desk: Desk) -> None:
    folder = desk.repository / ".git"
    lock = folder / "refs" / "heads" / "main.lock"
    _leave_lock(desk.repository)
    (folder / "logist-merge").write_bytes(b"logist job merge --job j\n\0lock " + os.fsencode(lock))
    lock.write_text("0" * 40 + "\n")
    with pytest.raises(Refused, match="another git"):
        desk.work(WORK).publish()
    assert lock.exists()


def test_what_is_no_repository_is_told(tmp_path: Path) -> None:
    with pytest.raises(LogistError, match="not in a git repository"):
        find_target(tmp_path)
