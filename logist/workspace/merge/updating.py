"""Merges later changes of a source repository into the work of a job. The merge is made in a scratch repository; only
when it is wanted are its objects copied into the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from logist.errors import Refused, StorageError, UsageError
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.workspace.checkpoint import checkpoint, objects, restore, sharing
from logist.workspace.checkpoint.objects import LINK_MODE
from logist.workspace.checkpoint.scan import CACHE
from logist.workspace.files import file_names
from logist.workspace.git import Git
from logist.workspace.merge import drafting, publish
from logist.workspace.merge.drafting import FileChange, Scratch
from logist.workspace.merge.target import Person, Target

OURS, THEIRS = "job", "source"
"""The two sides, as conflict markers name them: `<<<<<<< job` and `>>>>>>> source`."""
_LOGIST = Person("Logist", "logist@localhost")
_CONFLICT = "CONFLICT ("
"""git's types of messages begin so; its other messages are not about conflicts."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SHORT = 12
"""Characters of a commit's name in messages."""


class Conflict(NamedTuple):
    """A file that can't be merged."""

    path: str
    kind: str
    """How both sides changed it, in words; for rare kinds, git's own word for it."""
    has_markers: bool
    """The merged file has conflict markers; otherwise it has the content of one side."""
    is_in_the_way: bool = False
    """The workspace has something there that no checkpoint holds: an update would lose it."""

    def __str__(self) -> str:
        return f"{self.path} ({self.kind})"


@dataclass(frozen=True)
class SourceUpdate:
    """What an update does, or would do, to the workspace of a job."""

    place: Path
    """The repository."""
    branch: str
    """The checked-out branch, or the name that was passed as `onto`."""
    before: str
    """The commit that the work is based on."""
    after: str
    """The commit that it moves onto."""
    commits: int | None
    """How many commits are new; None if `before` is not in the history of `after`."""
    files: tuple[FileChange, ...] = ()
    """The files of the workspace that change."""
    conflicts: tuple[Conflict, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether the work is based on another commit than the current one."""
        return self.before != self.after


@dataclass(frozen=True)
class UpdateDraft:
    """An update in its scratch repository."""

    update: SourceUpdate
    made: Scratch
    tree: str
    """The merged files; those that conflict have markers, or the content of the job."""

    def copy_into(self, job: Git, ours: str) -> str:
        """Copy the merge into the repository of the job, durably, as a checkpoint; return its commit.

        No reference leads to it yet, so a job that is killed here has not changed. The commit of the source is its first
        parent, and the last checkpoint of the job, `ours`, its second one.
        """
        git, theirs = self.made.git, self.update.after
        (unstored,) = objects.read_unstored(job, ours)
        subject = f"before the work continues on commit {theirs[:_SHORT]}"
        text = f"{subject}\n\n{objects.build_trailer(unstored)}\n"
        commit = drafting.create_commit(git, self.tree, [theirs, ours], text)
        revisions = [f"--shallow {theirs}", commit, theirs, f"^{ours}"]
        if job_has := _read_shallow(job):
            revisions = [f"--shallow {each}" for each in job_has] + revisions
        publish.send_objects(git, job, "".join(f"{line}\n" for line in revisions).encode("ascii"))
        sharing.add_shallow(job, theirs)
        checkpoint.flush_directories(job)
        job.run("rev-list", "--objects", "--quiet", commit, f"^{ours}")  # a repository may lack objects
        return commit


def _read_shallow(git: Git) -> list[str]:
    try:
        return read_regular(git.git_dir / sharing.SHALLOW).decode("ascii").split()
    except FileNotFoundError:
        return []


def find_update(job: Git, target: Target, base: str, onto: str | None, job_id: str) -> SourceUpdate:
    """Find out onto which commit of `target` the work moves, without merging.

    `base` is the commit that the work is based on. `onto` names another commit than the checked-out one, which need not
    have `base` in its history. Raises Refused if it must, and has not; UsageError for an unknown name.
    """
    theirs = _find_commit(target, onto)
    branch = target.checked_out_name if onto is None else onto
    update = SourceUpdate(target.place, branch, base, theirs, None)
    if not update.is_needed:
        return update
    if target.has_commit(base) and drafting.is_ancestor(target.git, base, theirs):
        return replace(update, commits=drafting.count_commits(target.git, base, theirs))
    if onto is None and objects.read_tree(job, base):
        message = (
            f"the history of {branch} was rewritten, or another branch is checked out: it doesn't contain "
            f"{base[:_SHORT]}, which the work is based on"
        )
        fix = f"check out the branch that has it, or move the work anyway: logist job update --job {job_id} --onto HEAD"
        raise Refused(message, where=str(target.place), fix=fix)
    return update


def _find_commit(target: Target, onto: str | None) -> str:
    if onto is None:
        if target.head is None:
            fix = "commit something first"
            raise Refused("the repository has no commits yet", where=str(target.place), fix=fix)
        return target.head
    status, name, _ = target.git.run_for_status(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{onto}^{{commit}}"
    )
    if status:
        fix = f"choose a branch or a commit of {target.place}"
        raise UsageError(f"commit not found: {onto}", where="--onto", fix=fix)
    return name.decode("ascii").strip()


@contextmanager
def draft_update(
    job: Git, target: Target, update: SourceUpdate, ours: str, *, beside: bool
) -> Iterator[UpdateDraft]:
    """Merge the files of both sides; neither repository changes. `beside` as in `drafting.open_scratch`.

    Raises StorageError if a repository can't be read, InvalidFile for files that a workspace can't contain.
    """
    with drafting.open_scratch(job, target, _LOGIST, 0, beside=beside) as made:
        tree, conflicts = _merge_files(made.git, update.before, ours, update.after)
        merged = objects.read_tree(made.git, tree)
        restore.require_sound_tree(merged)
        conflicts += _find_unstored_in_the_way(job, ours, merged)
        files = tuple(drafting.list_file_changes(made.git, ours, tree))
        yield UpdateDraft(replace(update, files=files, conflicts=tuple(conflicts)), made, tree)


def _merge_files(git: Git, base: str, ours: str, theirs: str) -> tuple[str, list[Conflict]]:
    """Return the merged tree, and what conflicts.

    git finds the base of a merge in the history, but the job has a copy of one commit without its history, and the
    repository may have lost that commit. So the merge is one of three new commits that have nothing else above them.
    `--merge-base` would do that, but needs git 2.40.
    """
    first = drafting.create_commit(git, drafting.read_tree_id(git, base), [], "base\n")
    for name, commit in ((OURS, ours), (THEIRS, theirs)):
        side = drafting.create_commit(git, drafting.read_tree_id(git, commit), [first], f"{name}\n")
        (git.git_dir / "refs" / "heads" / name).write_text(f"{side}\n", "ascii")
    status, out, error_text = git.run_for_status("merge-tree", "--write-tree", "-z", OURS, THEIRS)
    if status not in (0, 1) or not out:
        reason = error_text or f"exit status {status}"
        fix = "install git 2.38 or newer"
        raise StorageError(f"git merge-tree failed: {reason}", where=str(git.git_dir), fix=fix)
    tree, _, rest = out.partition(b"\0")
    return tree.decode("ascii"), _read_conflicts(rest) if status else []


def _read_conflicts(output: bytes) -> list[Conflict]:
    """Read the two lists of `git merge-tree -z`: the versions of each conflicting file, and messages."""
    listed, _, messages = output.partition(b"\0\0")
    versions: dict[bytes, dict[bytes, bytes]] = {}
    for line in filter(None, listed.split(b"\0")):
        details, _, path = line.partition(b"\t")
        mode, _, stage = details.split(b" ")
        versions.setdefault(path, {})[stage] = mode
    kinds: dict[bytes, set[str]] = {}
    mentioned: set[bytes] = set()
    for paths, kind in _read_messages(messages):
        if kind.startswith(_CONFLICT):
            kinds.setdefault(paths[0], set()).add(kind.removeprefix(_CONFLICT).rstrip(")"))
            mentioned.update(paths)
    kinds |= {path: {"conflict"} for path in versions if path not in mentioned}
    return [_describe_conflict(path, kinds[path], versions.get(path, {})) for path in sorted(kinds)]


def _read_messages(output: bytes) -> Iterator[tuple[list[bytes], str]]:
    """Yield the paths and the type of each message."""
    fields = output.split(b"\0")
    position = 0
    while position < len(fields) and fields[position].strip().isdigit():
        count = int(fields[position])
        paths = fields[position + 1 : position + 1 + count]
        yield paths, fields[position + 1 + count].decode("ascii", "replace")
        position += count + 3


def _describe_conflict(path: bytes, kinds: set[str], versions: Mapping[bytes, bytes]) -> Conflict:
    shown = _show_path(file_names.from_stored(path))
    if "binary" in kinds:
        return Conflict(shown, "both changed this binary file", has_markers=False)
    if "modify/delete" in kinds:
        changed, deleted = (OURS, THEIRS) if b"2" in versions else (THEIRS, OURS)
        return Conflict(shown, f"changed in the {changed}, deleted in the {deleted}", has_markers=False)
    if "contents" in kinds and LINK_MODE.encode() in versions.values():
        return Conflict(shown, "both changed this link", has_markers=False)
    if "contents" in kinds:
        return Conflict(shown, "both changed it" if b"1" in versions else "both added it", has_markers=True)
    return Conflict(shown, ", ".join(sorted(kinds)), has_markers=False)


def _show_path(raw: bytes) -> str:
    """Return a path on one line: an agent chooses names too, and they become a part of a prompt."""
    return _CONTROL.sub(
        lambda found: found[0].encode("unicode_escape").decode("ascii"), file_names.to_display(raw)
    )


def _find_unstored_in_the_way(job: Git, ours: str, merged: objects.Tree) -> list[Conflict]:
    """Find new files of the source where the workspace has something that no checkpoint holds: it would be lost."""
    (unstored,) = objects.read_unstored(job, ours)
    kept = {path: thing for path, thing in unstored.items() if thing.why != CACHE}
    if not kept:
        return []
    above_kept = file_names.list_parents(kept)
    mine = objects.read_tree(job, ours)
    new = [file_names.from_stored(path) for path in merged if path not in mine]
    in_the_way = [
        path
        for path in new
        if path in kept or path in above_kept or not kept.keys().isdisjoint(file_names.list_parents([path]))
    ]
    reason = "the workspace has something there that no checkpoint holds"
    return [
        Conflict(_show_path(path), reason, has_markers=False, is_in_the_way=True)
        for path in sorted(in_the_way)
    ]
