"""Merges the work of a job into the checked-out branch; if it is killed
and repeated, the result is still one merge.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Literal

from logist.errors import Refused, StorageError, UsageError
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.workspace import source
from logist.workspace.checkpoint import objects, repository
from logist.workspace.git import GIT_PATH, Git, open_unnamed_file
from logist.workspace.merge import drafting, refs, selecting, staging, worktree
from logist.workspace.merge.drafting import FileChange, Scratch, Words
from logist.workspace.merge.refs import Update
from logist.workspace.merge.target import Person, Target, require_idle

MODES = ("merge", "branch", "look")
"""Merge; only create the branch; change nothing and show what a merge would do."""

BRANCH_COMMITS = "logist-branch"
"""The file with the commits that `--branch` has made, one a line."""

_AUTHORED = compile_on_use(rb"> (\d{1,11}) [+-]\d{4}$")
"""Matches the time at the end of the author line of a commit, in seconds since 1970."""

How = Literal["fast_forward", "merge", "already", "nothing", "conflict", "branch"]


@dataclass(frozen=True)
class JobWork:
    """The work of a job in its repository of checkpoints."""

    job_id: str
    title: str
    git: Git
    base: str
    """The commit that the work is based on: the first checkpoint of the job, or what it was updated to."""
    commit: str
    """The last checkpoint of the job."""
    previous: str | None
    """The commit of an earlier merge of this job."""
    author: Person
    """The author of the commits if git has no user name and email."""
    seconds: int
    """The time of the commits in seconds since 1970: it must be the same if the merge is repeated."""
    now: int
    """The current time, for the reflog."""
    jobs_dir: Path
    """The directory of the jobs, which is never part of the work."""
    recorded: tuple[str, ...] = ()
    """All commits of the job in its history."""


@dataclass(frozen=True)
class Published:
    """The result of a merge, or of its preview."""

    place: Path
    into: str
    branch: str
    how: How
    commit: str | None = None
    """The commit with the work of the job."""
    before: str | None = None
    """The checked-out commit before the merge; `after`: the one after it."""
    after: str | None = None
    files: tuple[FileChange, ...] = ()
    left_out: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    revert: str = ""
    """The command that undoes the merge."""
    ahead: int = 0
    """How many commits the checked-out branch has that the work is not based on."""
    blocked: Refused | None = None
    """For a preview: what prevents the merge."""
    patch: str = ""
    whole: bool = True
    """Whether the patch is complete."""


def publish_work(work: JobWork, target: Target, mode: str, *, patch: bool = False) -> Published:
    """Merge the work into the checked-out branch of `target`, whose lock the caller holds if anything can
    change.

    A conflict is returned and changes nothing. Raises Refused if another git operation is in progress, if files are
    in the way or changed, or if the commit that the job started from is missing; raises StorageError too.
    """
    try:
        return _merge_work(work, target, mode, patch=patch)
    except OSError as error:
        name = os.fsdecode(error.filename or b"") if not isinstance(error.filename, int) else ""
        where = str(target.place / name)
        fix = "check the disk, its free space and the owner of the repository, then run the command again"
        raise StorageError(error.strerror or str(error), where=where, fix=fix) from error


class Brought(NamedTuple):
    """The commit on the branch of a job in a repository of the user."""

    commit: str
    parent: str | None
    seconds: int
    """Its author time, which is that of the last interaction before the merge."""


def find_commit(place: Path, job_id: str, path: str = GIT_PATH) -> Brought | None:
    """Return the commit at the end of `logist/<job>` in the repository at `place`; None if the job has made none.

    Writes nothing, and runs no programs that the repository configures.
    """
    try:
        repository = source.resolve_source(place)
    except UsageError:
        return None
    git = Git(repository / ".git" if (repository / ".git").exists() else repository, path)
    status, name, _ = git.run_for_status(
        "rev-parse", "--verify", "--quiet", f"refs/heads/logist/{job_id}^{{commit}}"
    )
    if status:
        return None
    commit = name.decode("ascii").strip()
    head, _, message = git.run("cat-file", "commit", commit).partition(b"\n\n")
    if drafting.build_job_trailer(job_id).encode() not in message.splitlines():
        return None
    fields = dict(line.split(b" ", 1) for line in reversed(head.split(b"\n")) if b" " in line)
    author_time = _AUTHORED.search(fields.get(b"author", b""))
    if author_time is None:
        return None
    parent = fields[b"parent"].decode("ascii", "replace") if b"parent" in fields else None
    return Brought(commit, parent, int(author_time[1]))


def _merge_work(work: JobWork, target: Target, mode: str, *, patch: bool) -> Published:
    if mode != "look":
        worktree.remove_merge_leftovers(target)
    branch = f"refs/heads/logist/{work.job_id}"
    if target.branch == branch:
        fix = "check out the branch to merge into"
        raise Refused(
            "can't merge: the branch of the job itself is checked out", where=str(target.place), fix=fix
        )
    author = target.choose_author(work.author)
    with drafting.open_scratch(work.git, target, author, work.seconds, beside=mode != "look") as made:
        drafted = _draft_commit(work, target, made)
        published = _preview_merge(work, target, made, drafted, mode, patch=patch)
        if published.commit is None:
            return published
        if mode == "look":
            return replace(
                _leave_out_scratch(published, target), blocked=_find_obstacle(work, target, made, published)
            )
        if mode == "branch":
            _note_branch_commit(work.git, published.commit)
            with worktree.mark_merge(target, work.job_id, index=False):
                with _prepare_branches(work, target, made, replace(published, after=None)) as move:
                    move()
                _flush_branches(target)
            return replace(published, how="branch", before=None, after=None, revert="")
        if published.how in ("already", "conflict"):
            return published
        require_idle(target)
        with worktree.mark_merge(target, work.job_id, index=target.top is not None):
            # Check again while holding the lock: everything above was checked without it, and a commit by the
            # user in between must stop the merge instead of being left out.
            _require_unmoved(target)
            ready = (
                staging.stage_move(_build_move(target, made, published), target.git.git_dir)
                if target.top
                else None
            )
            with _prepare_branches(work, target, made, published) as move:
                # Files first, then the branches. If killed in between, the work tree is ahead of the branch, and
                # the next command finishes the merge. In the other order, git would show the work as deleted
                # by the user.
                if ready is not None:
                    worktree.apply_staged(ready)
                move()
            _flush_branches(target)
        return published


def _note_branch_commit(git: Git, commit: str) -> None:
    """Note in the job's repository which commit its branch gets: `--branch` records nothing in the history, and later
    work may replace this commit, but not one of the user.
    """
    known = _read_branch_commits(git)
    if commit not in known:
        repository.replace_file(git, BRANCH_COMMITS, "".join(f"{each}\n" for each in (*known, commit)))


def _read_branch_commits(git: Git) -> tuple[str, ...]:
    try:
        return tuple(read_regular(git.git_dir / BRANCH_COMMITS).decode("ascii", "replace").split())
    except FileNotFoundError:
        return ()


def _leave_out_scratch(found: Published, target: Target) -> Published:
    """Return the preview without commits that exist only in the scratch repository, and without the command
    that reverts them.
    """
    if found.how == "already":
        return found
    commit = found.commit if found.commit is not None and target.has_commit(found.commit) else None
    return replace(found, commit=commit, after=None, revert="")


def _require_unmoved(target: Target) -> None:
    """Raise Refused if the checked-out branch or commit has changed meanwhile."""
    now = target.reload_head()
    if (now.branch, now.head) != (target.branch, target.head):
        message = "the checked-out branch changed during the merge"
        raise Refused(message, where=str(target.place), fix="run the command again")


@dataclass(frozen=True)
class _Draft:
    commit: str | None
    """None if the job has changed nothing."""
    parent: str | None
    selected: selecting.Selected


def _draft_commit(work: JobWork, target: Target, made: Scratch) -> _Draft:
    """Create the commit of the job."""
    parent = _choose_parent(work, target)
    selected = selecting.select_changes(work.git, work.base, work.commit, _find_reserved(work, target))
    base = work.base if target.has_commit(work.base) else None
    tree = drafting.write_job_tree(made, work.git, target, base, selected, work.commit)
    if parent is not None and tree == drafting.read_tree_id(made.git, parent):
        return _Draft(work.previous if parent == work.previous else None, parent, selected)
    if parent is None and not objects.read_tree(made.git, tree):
        return _Draft(None, None, selected)
    text = Words(work.title, work.job_id).build_text()
    commit = drafting.create_commit(made.git, tree, [parent] if parent else [], text)
    return _Draft(commit, parent, selected)


def _choose_parent(work: JobWork, target: Target) -> str | None:
    """Return the parent of the job's commit: its earlier commit if that was merged, otherwise the commit that
    the work is based on. An update since that merge has made the work a change of a later commit.
    """
    previous = work.previous
    if (
        previous is not None
        and target.has_in_history(previous)
        and not _is_updated_since(work, target, previous)
    ):
        return previous
    if target.has_commit(work.base):
        return work.base
    if not objects.read_tree(work.git, work.base):
        return None  # it started with an empty workspace
    short = work.base[:12]
    message = f"commit {short}, which the work is based on, is no longer in this repository"
    update = f"logist job update --job {work.job_id} --onto HEAD"
    fix = f"choose the repository that has it: --repo DIR; or move the work onto the current state: {update}"
    raise Refused(message, where=str(target.place), fix=fix)


def _is_updated_since(work: JobWork, target: Target, previous: str) -> bool:
    return target.has_commit(work.base) and not drafting.is_ancestor(target.git, work.base, previous)


def _find_reserved(work: JobWork, target: Target) -> bytes | None:
    if target.top is None:
        return None
    try:
        return os.fsencode(work.jobs_dir.resolve().relative_to(target.top.resolve()))
    except ValueError:
        return None


def _preview_merge(
    work: JobWork, target: Target, made: Scratch, draft: _Draft, mode: str, *, patch: bool
) -> Published:
    """Return the result of a merge, with its commits in the scratch repository."""
    left_out = tuple(selecting.describe_left_out(draft.selected.left_out))
    preview = Published(
        target.place,
        target.checked_out_name,
        f"logist/{work.job_id}",
        "nothing",
        left_out=left_out,
        before=target.head,
    )
    if draft.commit is None:
        return preview
    git, commit, head = made.git, draft.commit, target.head
    begin = draft.parent or drafting.write_empty_tree(git)
    if commit == work.previous:
        begin = commit
    preview = replace(preview, commit=commit, files=tuple(drafting.list_file_changes(git, begin, commit)))
    if patch:
        text, complete = drafting.read_patch(git, begin, commit)
        preview = replace(preview, patch=text, whole=complete)
    if head is not None and drafting.is_ancestor(git, commit, head):
        return replace(preview, how="already", after=head, revert=_find_revert(target, git, commit))
    if head is None or drafting.is_ancestor(git, head, commit):
        return replace(
            preview, how="fast_forward", after=commit, revert=_build_revert(target, commit, "fast_forward")
        )
    if mode == "branch":
        return replace(preview, ahead=drafting.count_commits(git, commit, head))
    preview = replace(preview, ahead=drafting.count_commits(git, commit, head))
    tree, conflicts = drafting.merge_trees(git, head, commit, target)
    if conflicts:
        return replace(preview, how="conflict", conflicts=tuple(conflicts))
    if tree == drafting.read_tree_id(git, head):  # for example a pull request that was squashed or rebased
        known = commit if target.has_commit(commit) else None
        return replace(preview, how="already", commit=known, after=head, ahead=0)
    text = Words(work.title, work.job_id).build_text(f"Merge job {work.job_id}: ")
    merged = drafting.create_commit(git, tree, [head, commit], text)
    return replace(preview, how="merge", after=merged, revert=_build_revert(target, merged, "merge"))


def _build_revert(target: Target, commit: str, how: str) -> str:
    place = quote(str(target.place))
    if target.top is None:
        before = target.head or ""
        return f"git -C {place} update-ref {target.branch or 'HEAD'} {before} {commit}".replace("  ", " ")
    return f"git -C {place} revert --no-edit {'-m 1 ' if how == 'merge' else ''}{commit}"


def _find_revert(target: Target, git: Git, commit: str) -> str:
    """Return the command that reverts an earlier merge; "" if no command reverts only this."""
    assert target.head is not None
    merged = drafting.find_introducing_commit(git, commit, target.head)
    if target.top is not None:
        return _build_revert(target, merged, "fast_forward" if merged == commit else "merge")
    if merged != target.head:
        return ""
    before = drafting.find_first_parent(git, merged)
    return _build_revert(replace(target, head=before), merged, "merge") if before else ""


def _build_move(target: Target, made: Scratch, found: Published) -> staging.Move:
    assert found.after is not None
    head = target.head or drafting.write_empty_tree(made.git)
    before = objects.read_tree(made.git, target.head) if target.head else {}
    after = objects.read_tree(made.git, found.after)
    return staging.Move(target, drafting.borrow_objects(target, made), before, after, head, found.after)


def _find_obstacle(work: JobWork, target: Target, made: Scratch, found: Published) -> Refused | None:
    """Return what prevents the merge; checks everything without changing the target."""
    if found.how not in ("fast_forward", "merge"):
        return None
    try:
        require_idle(target)
        _require_free_branch(work, target, made, found)
        if target.top is not None:
            staging.stage_move(_build_move(target, made, found), made.tree.parent)
    except Refused as error:
        return error
    return None


@contextmanager
def _prepare_branches(
    work: JobWork, target: Target, made: Scratch, found: Published
) -> Iterator[Callable[[], None]]:
    """Yield a function that moves the job's branch and, if `after` is set, the checked-out branch, at once.

    All needed objects are durable in the target before, and no other process can move the branches inside the
    block. Raises Refused.
    """
    assert found.commit is not None
    old = _require_free_branch(work, target, made, found)
    moved = [Update(f"refs/heads/{found.branch}", found.commit, old)] if old != found.commit else []
    moved += [Update(refs.HEAD, found.after, target.head)] if found.after else []
    refs.require_free(target, moved)
    wanted = [found.commit, *([found.after] if found.after else [])]
    # Send only what the target lacks, in one pack: loose objects would be flushed one by one.
    known = [name for name in (target.head, work.base, work.previous) if name and target.has_commit(name)]
    revisions = "\n".join([*wanted, "--not", *known, ""]).encode("ascii")
    send_objects(made.git, target.git, revisions)
    worktree.flush_folder(target.common / "objects" / "pack")
    reason = f"logist job merge --job {work.job_id}"
    with refs.prepare_updates(target, _set_log_identity(work, target), moved, reason) as move:
        yield move


def _flush_branches(target: Target) -> None:
    heads = target.common / "refs" / "heads"
    for folder in (heads / "logist", heads, (target.common / (target.branch or "HEAD")).parent):
        worktree.flush_folder(folder)
    worktree.flush_folder(target.git.git_dir)


def send_objects(origin: Git, to: Git, revisions: bytes) -> None:
    """Copy the objects of these commits to a repository, as one pack."""
    with open_unnamed_file() as revision_file:
        revision_file.write(revisions)
        revision_file.seek(0)
        with (
            origin.open_stream("pack-objects", "--revs", "--stdout", "-q", stdin=revision_file) as packing,
            to.open_stream("index-pack", "--stdin", "--fix-thin", stdin=subprocess.PIPE) as indexing,
        ):
            assert packing.stdout is not None
            assert indexing.stdin is not None
            assert indexing.stdout is not None
            shutil.copyfileobj(packing.stdout, indexing.stdin, 1 << 20)
            indexing.stdin.close()
            indexing.stdout.read()


def _require_free_branch(work: JobWork, target: Target, made: Scratch, found: Published) -> str | None:
    """Return the commit of the job's branch. Raises Refused if the branch has
    commits of others, or is checked out.
    """
    name = f"refs/heads/{found.branch}"
    git = made.git
    output = target.git.run("for-each-ref", "--format=%(objectname) %(worktreepath)", name).rstrip(b"\n")
    tip, _, checked_out = output.decode("utf-8", "replace").partition(" ")
    if not tip or tip == found.commit:
        return tip or None
    ours = (
        tip in (work.previous, *work.recorded, *_read_branch_commits(work.git))
        or drafting.is_same(git, tip, found.commit or tip)
        or (target.head is not None and drafting.is_ancestor(git, tip, target.head))
    )
    if not ours or checked_out:
        what = f"is checked out in {checked_out}" if checked_out else "has other commits"
        fix = f"git -C {quote(str(target.place))} branch -m {found.branch} OTHER-NAME"
        raise Refused(f"can't move the branch {found.branch}: it {what}", where=str(target.place), fix=fix)
    return tip


def _set_log_identity(work: JobWork, target: Target) -> Git:
    """Return git with name and time for its reflog."""
    name, email = target.choose_author(work.author)
    who = (
        ("GIT_COMMITTER_NAME", name),
        ("GIT_COMMITTER_EMAIL", email),
        ("GIT_COMMITTER_DATE", f"@{work.now} +0000"),
    )
    return replace(target.git, variables=(*target.git.variables, *who))
