"""Merges the work of a job into the branch that is checked out; begun
again after any kill, it is still one merge.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple

from logist.errors import Refused, StorageError, UsageError
from logist.workspace import source
from logist.workspace.checkpoint import objects
from logist.workspace.git import GIT_PATH, Git, open_unnamed_file
from logist.workspace.merge import drafting, refs, selecting, staging, worktree
from logist.workspace.merge.drafting import FileChange, Scratch, Words
from logist.workspace.merge.refs import Update
from logist.workspace.merge.staging import Move
from logist.workspace.merge.target import Person, Target, require_idle

MODES = ("merge", "branch", "look")
"""Merge it; only make the branch; change nothing, and tell what a merge would do."""

_AUTHORED = re.compile(rb"> (\d{1,11}) [+-]\d{4}$")
"""When a commit was made, at the end of its author's line; in seconds since 1970."""

How = Literal["fast_forward", "merge", "already", "nothing", "conflict", "branch"]


@dataclass(frozen=True)
class JobWork:
    """The work of a job, as its repository of checkpoints holds it."""

    job_id: str
    title: str
    git: Git
    base: str
    """The checkpoint it began with."""
    commit: str
    """The one it ended with."""
    previous: str | None
    """The commit by which work of this job went in before."""
    author: Person
    """Who makes the commits where nobody is set up for it."""
    seconds: int
    """The time of the commits, since 1970: it must be the same when it is begun again."""
    now: int
    """The time it is, for the log of references."""
    jobs_dir: Path
    """Where jobs lie: no work of theirs."""
    recorded: tuple[str, ...] = ()
    """All commits of the job that its history names."""


@dataclass(frozen=True)
class Published:
    """The result of a merge, or of its preview."""

    place: Path
    into: str
    branch: str
    how: How
    commit: str | None = None
    """The work of the job."""
    before: str | None = None
    """What was checked out before, and after it."""
    after: str | None = None
    files: tuple[FileChange, ...] = ()
    left_out: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    revert: str = ""
    """The command that takes it back."""
    blocked: Refused | None = None
    """Of a look: what keeps it from being done."""
    patch: str = ""
    whole: bool = True
    """Whether the patch is all of it."""


def publish_work(work: JobWork, target: Target, mode: str, *, patch: bool = False) -> Published:
    """Merge the work into what is checked out in `target`, whose lock the caller holds where anything may
    change.

    A conflict is reported and changes nothing. Raises Refused where git is in the middle of something there,
    files are in the way or changed, or the commit that the job began from is gone; StorageError.
    """
    try:
        return _merge_work(work, target, mode, patch=patch)
    except OSError as error:
        name = os.fsdecode(error.filename or b"") if not isinstance(error.filename, int) else ""
        where = str(target.place / name)
        fix = "check the disk, the space on it and who owns the repository, then run the command again"
        raise StorageError(error.strerror or str(error), where=where, fix=fix) from error


class Brought(NamedTuple):
    """The commit on the branch of a job in a repository of the user."""

    commit: str
    parent: str | None
    seconds: int
    """The time that it names for its author: that of the last interaction before the merge."""


def find_commit(place: Path, job_id: str, path: str = GIT_PATH) -> Brought | None:
    """Return the commit at the end of `logist/<job>` in the repository at `place`; None where the job made none.

    Nothing is written, and nothing that the repository sets up is run.
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
        fix = "check out the branch that it is to be merged into"
        raise Refused("the branch of the job itself is checked out", where=str(target.place), fix=fix)
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
            with worktree.mark_merge(target, work.job_id, index=False):
                with _prepare_branches(work, target, made, replace(published, after=None)) as move:
                    move()
                _flush_branches(target)
            return replace(published, how="branch", before=None, after=None, revert="")
        if published.how in ("already", "conflict"):
            return published
        require_idle(target)
        with worktree.mark_merge(target, work.job_id, index=target.top is not None):
            # Looked at again under the lock: everything above was judged without it, and a commit by the user
            # in between must stop the merge rather than be left out of it.
            _require_unmoved(target)
            ready = (
                staging.stage_move(_build_move(target, made, published), target.git.git_dir)
                if target.top
                else None
            )
            with _prepare_branches(work, target, made, published) as move:
                # Files first, then the branches. Killed in between, the work tree is ahead of the branch,
                # which the next command finishes; the other way round, git would show the work as deleted by
                # the user.
                if ready is not None:
                    worktree.apply_staged(ready)
                move()
            _flush_branches(target)
        return published


def _leave_out_scratch(found: Published, target: Target) -> Published:
    """Return the preview without commits that only the scratch repository has, and without the command that
    reverts them.
    """
    if found.how == "already":
        return found
    commit = found.commit if found.commit is not None and target.has_commit(found.commit) else None
    return replace(found, commit=commit, after=None, revert="")


def _require_unmoved(target: Target) -> None:
    """Raise Refused where a commit was made, or another branch checked out, just now."""
    now = target.reload_head()
    if (now.branch, now.head) != (target.branch, target.head):
        message = "what is checked out there has changed just now"
        raise Refused(message, where=str(target.place), fix="run the command again")


@dataclass(frozen=True)
class _Draft:
    commit: str | None
    """None where nothing was changed."""
    parent: str | None
    selected: selecting.Selected


def _draft_commit(work: JobWork, target: Target, made: Scratch) -> _Draft:
    """Create the one commit of the job."""
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
    """Return the parent of the job's commit: its earlier commit where that was merged, else the commit the
    job began from.
    """
    if work.previous is not None and target.has_in_history(work.previous):
        return work.previous
    if target.has_commit(work.base):
        return work.base
    if not objects.read_tree(work.git, work.base):
        return None  # it began with nothing
    short = work.base[:12]
    message = f"it does not have the commit {short} any more that the job began from"
    raise Refused(message, where=str(target.place), fix="name the repository that has it: --repo DIR")


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
        return preview
    tree, conflicts = drafting.merge_trees(git, head, commit, target)
    if conflicts:
        return replace(preview, how="conflict", conflicts=tuple(conflicts))
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
    """Return the command that reverts what is merged already; "" where no command reverts only this."""
    assert target.head is not None
    merged = drafting.find_introducing_commit(git, commit, target.head)
    if target.top is not None:
        return _build_revert(target, merged, "fast_forward" if merged == commit else "merge")
    if merged != target.head:
        return ""
    before = drafting.find_first_parent(git, merged)
    return _build_revert(replace(target, head=before), merged, "merge") if before else ""


def _build_move(target: Target, made: Scratch, found: Published) -> Move:
    assert found.after is not None
    head = target.head or drafting.write_empty_tree(made.git)
    before = objects.read_tree(made.git, target.head) if target.head else {}
    after = objects.read_tree(made.git, found.after)
    return Move(target, drafting.borrow_objects(target, made), before, after, head, found.after)


def _find_obstacle(work: JobWork, target: Target, made: Scratch, found: Published) -> Refused | None:
    """Return what prevents the merge; everything is tried without changing the target."""
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
    """Yield a function that moves the job's branch, and what is checked out where there is an `after`, at once.

    Everything they need is durable in the target by then, and no other process moves them meanwhile. Raises
    Refused.
    """
    assert found.commit is not None
    old = _require_free_branch(work, target, made, found)
    moved = [Update(f"refs/heads/{found.branch}", found.commit, old)] if old != found.commit else []
    moved += [Update(refs.HEAD, found.after, target.head)] if found.after else []
    refs.require_free(target, moved)
    wanted = [found.commit, *([found.after] if found.after else [])]
    # Only what the target lacks is sent, in one pack: loose objects one by one would be flushed one by one.
    known = [name for name in (target.head, work.base, work.previous) if name and target.has_commit(name)]
    revisions = "\n".join([*wanted, "--not", *known, ""]).encode("ascii")
    _send_objects(made.git, target.git, revisions)
    worktree.flush_folder(target.common / "objects" / "pack")
    reason = f"logist job merge --job {work.job_id}"
    with refs.prepare_updates(target, _set_log_identity(work, target), moved, reason) as move:
        yield move


def _flush_branches(target: Target) -> None:
    heads = target.common / "refs" / "heads"
    for folder in (heads / "logist", heads, (target.common / (target.branch or "HEAD")).parent):
        worktree.flush_folder(folder)
    worktree.flush_folder(target.git.git_dir)


def _send_objects(origin: Git, to: Git, revisions: bytes) -> None:
    """Send a repository the objects of these commits, as one pack."""
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
    """Return the commit of the job's branch. Raises Refused where the branch
    is not the job's, or is checked out.
    """
    name = f"refs/heads/{found.branch}"
    git = made.git
    output = target.git.run("for-each-ref", "--format=%(objectname) %(worktreepath)", name).rstrip(b"\n")
    tip, _, checked_out = output.decode("utf-8", "replace").partition(" ")
    if not tip or tip == found.commit:
        return tip or None
    ours = (
        tip in (work.previous, *work.recorded)
        or drafting.is_same(git, tip, found.commit or tip)
        or (target.head is not None and drafting.is_ancestor(git, tip, target.head))
    )
    if not ours or checked_out:
        what = f"is checked out in {checked_out}" if checked_out else "holds other commits"
        fix = f"git -C {quote(str(target.place))} branch -m {found.branch} OTHER-NAME"
        raise Refused(f"the branch {found.branch} {what}", where=str(target.place), fix=fix)
    return tip


def _set_log_identity(work: JobWork, target: Target) -> Git:
    """Return git with the name and the time for its log of references."""
    name, email = target.choose_author(work.author)
    who = (
        ("GIT_COMMITTER_NAME", name),
        ("GIT_COMMITTER_EMAIL", email),
        ("GIT_COMMITTER_DATE", f"@{work.now} +0000"),
    )
    return replace(target.git, variables=(*target.git.variables, *who))
