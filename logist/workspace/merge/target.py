"""The user's repository as the target of a merge: its paths, the
checked-out branch, and operations in progress.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from logist import systems
from logist.errors import Busy, Refused, StorageError
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.workspace import source
from logist.workspace.files import file_names
from logist.workspace.git import GIT_PATH, Git

POLL_SECONDS = 0.05

UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisect",
}
"""Files in the git directory while an operation is in progress."""


class Person(NamedTuple):
    """The author of a commit."""

    name: str
    email: str


@dataclass(frozen=True)
class Target:
    """A repository of the user. `git` runs no programs that the repository or the user has configured."""

    place: Path
    """The path for messages: the work tree, or a bare repository itself."""
    top: Path | None
    """The work tree; None for a bare repository."""
    git: Git
    common: Path
    """The git directory that several work trees may share."""
    branch: str | None
    """The checked-out reference; None for a detached HEAD."""
    head: str | None
    """The checked-out commit; None if there is none yet."""
    settings: dict[str, str]
    """The settings in its config and the user's, by lower-case name."""
    by_branch: str = ""
    """What to do if Logist can't merge: the command that creates the branch, and the git command that merges it."""

    @property
    def checked_out_name(self) -> str:
        """The name of the checked-out branch."""
        return self.branch.removeprefix("refs/heads/") if self.branch else "the detached HEAD"

    def choose_author(self, otherwise: Person) -> Person:
        """Return the user name and email that git is configured with, otherwise `otherwise`."""
        name, email = self.settings.get("user.name", ""), self.settings.get("user.email", "")
        return (
            Person(_clean_name(name), _clean_name(email))
            if _clean_name(name) and _clean_name(email)
            else otherwise
        )

    def is_enabled(self, name: str) -> bool:
        """Whether a boolean setting is on."""
        value = self.settings.get(name, "").lower()
        return value in ("true", "yes", "on") or (value.lstrip("+-").isdecimal() and int(value) != 0)

    def has_commit(self, commit: str) -> bool:
        """Whether the repository has that commit."""
        return self.git.run_for_status("cat-file", "-e", f"{commit}^{{commit}}")[0] == 0

    def has_in_history(self, commit: str) -> bool:
        """Whether the checked-out commit has that commit in its history."""
        if self.head is None or not self.has_commit(commit):
            return False
        return self.git.run_for_status("merge-base", "--is-ancestor", commit, self.head)[0] == 0

    def reload_head(self) -> Target:
        """Return the same with the current branch and commit."""
        branch, head = _read_head(self.git)
        return replace(self, branch=branch, head=head)


def _clean_name(text: str) -> str:
    """Return a name in a form that a commit can contain."""
    return " ".join("".join(each for each in text if each not in "<>\0").split())


def find_target(
    place: Path, config_files: Sequence[str] = (), path: str = GIT_PATH, *, by_branch: str = ""
) -> Target:
    """Return the repository at `place`, or the one whose work tree contains it. Raises UsageError, StorageError.

    `config_files`: the user's own git config files; only names and values of settings are read. `by_branch`: see
    Target.
    """
    repository = source.resolve_source(place)
    top = repository if (repository / ".git").exists() else None
    outer = Git(repository / ".git" if top else repository, path, umask=systems.read_umask())
    own_dir, common = (_read_path(outer, each) for each in ("--absolute-git-dir", "--git-common-dir"))
    bare = outer.run("rev-parse", "--is-bare-repository").strip()
    git = source.disable_filters(replace(outer, git_dir=own_dir))
    if bare == b"true" and top is not None:
        top = None  # `.git` of a bare repository with linked work trees
    branch, head = _read_head(git)
    settings = _read_settings(outer, config_files)
    return Target(repository, top, git, common.resolve(), branch, head, settings, by_branch)


def _read_path(git: Git, which: str) -> Path:
    return Path("/", os.fsdecode(git.run("rev-parse", which).removesuffix(b"\n")))


def _read_head(git: Git) -> tuple[str | None, str | None]:
    status, name, _ = git.run_for_status("symbolic-ref", "--quiet", "HEAD")
    branch = os.fsdecode(name.rstrip(b"\n")) if status == 0 else None
    status, commit, _ = git.run_for_status("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return branch, commit.decode("ascii").strip() if status == 0 else None


def _read_settings(git: Git, config_files: Sequence[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    places = [("--file", name) for name in config_files if os.path.isfile(name)]
    for where in (*places, ("--local",), ("--worktree",)):
        status, output, _ = git.run_for_status("config", *where, "--includes", "--list", "-z")
        for entry in output.split(b"\0") if status == 0 else ():
            name, has_value, value = entry.partition(b"\n")
            if entry:  # a setting without a value is true
                settings[file_names.to_display(name).lower()] = (
                    file_names.to_display(value) if has_value else "true"
                )
    return settings


@contextmanager
def lock_target(target: Target, wait: float, on_wait: Callable[[], None] = lambda: None) -> Iterator[Target]:
    """Keep other Logist processes from merging into the target, and reload its HEAD. Raises Busy after `wait` seconds.

    The lock is on the directory itself: it needs no file, and ends with the process.
    """
    try:
        descriptor = os.open(target.common, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(error.strerror or str(error), where=str(target.common)) from error
    try:
        _acquire_lock(descriptor, target, wait, on_wait)
        yield target.reload_head()
    finally:
        os.close(descriptor)


def _acquire_lock(descriptor: int, target: Target, wait: float, on_wait: Callable[[], None]) -> None:
    until = time.monotonic() + wait
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                message, fix = "another job is being merged into this repository", "run the command again"
                raise Busy(message, where=str(target.place), fix=fix) from None
        on_wait()
        time.sleep(POLL_SECONDS)


def require_idle(target: Target) -> None:
    """Raise Refused if another git operation is in progress, or if only a part is checked out."""
    for name, what in UNDER_WAY.items():
        if os.path.lexists(target.git.git_dir / name):
            fix = "finish or abort it, then run the command again"
            raise Refused(f"{what} is in progress", where=str(target.place), fix=fix)
    if target.top is not None and target.is_enabled("core.sparsecheckout"):
        fix = target.by_branch
        raise Refused("only a part of the repository is checked out", where=str(target.place), fix=fix)
    if not _is_at_home(target):
        fix = target.by_branch
        message = "its files are in another directory (core.worktree)"
        raise Refused(message, where=str(target.place), fix=fix)


def _is_at_home(target: Target) -> bool:
    """Whether the work tree is the one around the repository; linked ones ignore that setting."""
    configured = target.settings.get("core.worktree")
    if configured is None or target.top is None or target.git.git_dir.resolve() != target.common:
        return True
    return (target.git.git_dir / configured).resolve() == target.top.resolve()
