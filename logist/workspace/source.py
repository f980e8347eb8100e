"""The source of a workspace: the user's repository, which is only read,
and the `.git` for the agent's tools.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from logist.errors import StorageError, UsageError
from logist.workspace import readable_history, throwaway
from logist.workspace.checkpoint import checkout, objects, repository, sharing
from logist.workspace.files import file_names, removal, safe_open
from logist.workspace.git import GIT_PATH, UPLOAD_PACK, Git

MAKING = "logist-making"
MAIN = "refs/heads/main"
USUAL_FILES = (b".git/HEAD", b".git", b"HEAD")
"""One of these is a file in every work tree or repository."""


def find_repository(start: Path) -> Path | None:
    """Return the git work tree of `start`: the nearest parent directory (or itself) whose `.git` is a valid
    repository.
    """
    here = start.absolute()
    return next((place for place in (here, *here.parents) if _is_work_tree(place)), None)


def _is_work_tree(place: Path) -> bool:
    marker = place / ".git"
    try:
        return _is_repository(marker) or (marker.is_file() and _has_prefix(marker, b"gitdir:"))
    except PermissionError:
        return False


def _has_prefix(file: Path, wanted: bytes) -> bool:
    """Whether the file starts with these bytes; reads no more than these."""
    with open(file, "rb") as opened:
        return opened.read(len(wanted)) == wanted


def _is_repository(place: Path) -> bool:
    return (place / "HEAD").is_file() and (place / "objects").is_dir() and (place / "refs").is_dir()


def resolve_source(source: Path) -> Path:
    """Return the repository to start from: a bare repository itself, otherwise
    the work tree that contains `source`. Raises UsageError.
    """
    bare = _is_repository(source) and source.name != ".git"
    repository_path = source.absolute() if bare else find_repository(source)
    if repository_path is None:
        raise UsageError(
            "not in a git repository", where=str(source), fix="choose a git repository, or start without one"
        )
    return repository_path


def read_head_commit(repository: Path, path: str = GIT_PATH) -> str | None:
    """Return the commit at HEAD; None if there are no commits yet."""
    nowhere = Git(Path("/nonexistent"), path)
    try:
        fields = nowhere.run("ls-remote", f"--upload-pack={UPLOAD_PACK}", "--", repository, "HEAD").split()
    except StorageError as error:
        raise StorageError(
            error.message, where=str(repository), fix="check that it is a valid git repository"
        ) from None
    return fields[0].decode("ascii") if fields else None


def find_objects(repository: Path, path: str = GIT_PATH) -> Path:
    """Return the directory with the objects of a repository, which is elsewhere for a linked work tree."""
    git_dir = repository / ".git"
    if not git_dir.exists():
        git_dir = repository
    if git_dir.is_dir() and not (git_dir / "commondir").exists():
        return git_dir / "objects"
    git = Git(git_dir, path)
    return Path(os.fsdecode(git.run("rev-parse", "--git-path", "objects").removesuffix(b"\n")))


def create_agent_git(git: Git, root: Path) -> str | None:
    """Create `root/.git` for the agent's own use if it is missing, with the first checkpoint as its last commit.

    Returns why the past is missing in it if it should be readable there.
    Logist never reads it again. Its objects are copies, so nothing in it refers to other places. It is created
    outside of the workspace and moved in when it is complete.
    """
    if os.path.lexists(root / ".git"):
        return None
    base = objects.find_first(git)
    with make_agent_git(git, root, base) as inner:

        def copy_alone() -> None:
            shares = sharing.find_shares(git, git.git_dir, [base], "--no-walk")
            sharing.copy_objects(inner, git.git_dir, shares)

        why_missing = copy_commits(git, inner, base, copy_alone)
        borrowing = inner.borrow_objects(git.git_dir / "objects")
        checkout.write_index(borrowing, base, f"--work-tree={root}", "reset", "--quiet", "--mixed")
    return why_missing


def copy_commits(git: Git, inner: Git, base: str, copy_alone: Callable[[], object]) -> str | None:
    """Copy the commit `base` from the repository of checkpoints into that of the agent: with its past if the job makes it
    readable, else alone, which `copy_alone` does. Returns why the past is missing.
    """
    history = readable_history.load_history(git.git_dir)
    why_missing = readable_history.copy_history(git, inner, base, history) if history else None
    if history is None or why_missing:
        copy_alone()
        sharing.copy_shallow(git.git_dir, inner.git_dir)
    return why_missing


@contextmanager
def make_agent_git(git: Git, root: Path, base: str) -> Iterator[Git]:
    """Create an empty repository outside of the workspace, with `base` as its branch; at the end of the block, move it
    in.
    """
    inner = _make_outside(git, base)
    yield inner
    with safe_open.open_root(root) as top:
        safe_open.make_writable(top)
        os.rename(inner.git_dir, b".git", dst_dir_fd=top)
    inner.git_dir.parent.rmdir()


def _make_outside(git: Git, base: str) -> Git:
    making = git.git_dir / MAKING
    if os.path.lexists(making):  # left by a killed command
        import shutil  # noqa: PLC0415 - loads the libraries of three compressions

        shutil.rmtree(making, ignore_errors=True)
    inner = replace(git, git_dir=making / ".git")
    making.mkdir(0o700)
    repository.create_repository(inner.git_dir, bare=False, long_names=len(base) == 64)
    repository.write_file(inner.git_dir / MAIN, f"{base}\n".encode("ascii"))
    return inner


def lend_objects(git: Git, inner: Git, root: Path) -> None:
    """Let the new `.git` of the workspace, `inner`, read the objects of the repository of checkpoints.

    That is for people, and for programs without a sandbox. Before any other program runs, `give_objects` copies what it
    may read. The path is relative, so that the job may be moved.
    """
    (inner.git_dir / "objects" / "info").mkdir(0o700)
    repository.write_file(
        inner.git_dir / Path(*map(os.fsdecode, throwaway.ALTERNATES)), _describe_loan(git, root)
    )


def _describe_loan(git: Git, root: Path) -> bytes:
    return os.fsencode(os.path.relpath(git.git_dir / "objects", root / ".git" / "objects")) + b"\n"


def borrows_objects(git: Git, root: Path, top: int) -> bool:
    """Whether the `.git` of the workspace `root` (its descriptor is `top`) reads the objects of the repository of
    checkpoints, as `lend_objects` has arranged.
    """
    loan = _describe_loan(git, root)
    try:
        with safe_open.open_regular_below(
            top, [b".git", *throwaway.ALTERNATES], unlocking=True
        ) as descriptor:
            return os.read(descriptor, len(loan) + 1) == loan
    except OSError as error:
        if error.errno not in safe_open.GONE:
            raise
        return False


def give_objects(git: Git, top: int) -> None:
    """Copy the objects of the job's first checkpoint into the `.git` of the workspace `top`, which borrows them. Removes
    that `.git` if it can't have them.
    """
    base = objects.find_first(git)
    made = _make_outside(git, base)
    sharing.copy_objects(made, git.git_dir, sharing.find_shares(git, git.git_dir, [base], "--no-walk"))
    new = (made.git_dir / sharing.PACKS).iterdir()
    try:
        with safe_open.open_below(top, [b".git", b"objects", b"pack"], unlocking=True) as target:
            safe_open.make_writable(target)
            for path in sorted(
                new, key=lambda path: path.suffix == ".idx"
            ):  # git uses a pack that has an index
                with open(path, "rb") as file:
                    git.flush(file.fileno())
                os.rename(path, path.name, dst_dir_fd=target)
            git.flush(target)
        throwaway.remove_entry(git, top, [b".git", *throwaway.ALTERNATES])
    except OSError as error:
        if error.errno not in safe_open.GONE:
            raise
        throwaway.remove_git(git, top)
    finally:
        removal.remove_directory(made.git_dir.parent)


def list_uncommitted(repo: Path) -> list[str]:
    """Return paths that differ from the last commit, or are new and not ignored.

    Runs nothing that the repository sets up.
    """
    output = disable_filters(Git(repo / ".git")).run(
        f"--work-tree={repo}",
        "status",
        "--porcelain",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=dirty",
    )
    return [file_names.to_display(line[3:]) for line in output.split(b"\0") if line]


def disable_filters(git: Git) -> Git:
    """Return the same with settings that override the repository's own filter drivers, which are programs."""
    names = git.run("config", "--list", "--name-only", "-z").split(b"\0")
    drivers = {name.rpartition(b".")[0] for name in names if name.startswith(b"filter.")}
    overrides = ((b".clean", b""), (b".process", b""), (b".required", b"false"))
    settings = tuple((driver + key, value) for driver in sorted(drivers) for key, value in overrides)
    return replace(git, settings=settings)
