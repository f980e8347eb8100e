"""Merges the work of children into the workspace of their parent: a three-way merge that uses only the
repositories of checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from logist.errors import StorageError
from logist.quick_tuple import NamedTuple
from logist.workspace.checkpoint import checkpoint, leftovers, objects, sharing
from logist.workspace.checkpoint.scan import CACHE, DIRECTORY_MODE, Unstored
from logist.workspace.files import file_names
from logist.workspace.git import UPLOAD_PACK, Git

MERGED = "refs/logist/merged"
_CHILDREN = "refs/children/"
SENDER = UPLOAD_PACK.replace("upload-pack", "-c uploadpack.allowAnySHA1InWant=true upload-pack")
"""Allows fetching any commit by name, even if no reference leads to it."""
COPYING = (
    *("--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules"),
    f"--upload-pack={SENDER}",
    "--",
)
"""Options of git fetch that fetch only the named checkpoints; the repository follows."""
NAMED = 100
"""Maximum number of listed files of a child that no checkpoint holds."""


class Theirs(NamedTuple):
    """The work of one child: its repository of checkpoints, and its last commit."""

    name: str
    git_dir: Path
    commit: str


class MergedChildren(NamedTuple):
    """The result of the merge."""

    commit: str
    """The work that merges without conflicts, on top of ours."""
    conflicts: dict[str, list[str]]
    """The conflicting files by child; nothing of such a child is in `commit`."""
    lost: Mapping[str, list[str]] = MappingProxyType({})
    """By child: its files that no checkpoint can hold, each as `path (reason)`; caches are not listed."""


def merge_children(git: Git, ours: str, children: Sequence[Theirs]) -> MergedChildren:
    """Merge the work of all children into `ours`, one after the other; durable, and packed like every
    checkpoint.

    A child whose work conflicts with the work merged before is left out, and its files are listed; so is a child
    that replaces a file of ours by something that no checkpoint can hold. Raises StorageError if a repository
    can't be read, or if git is older than 2.38.
    """
    leftovers.remove_leftovers(git.git_dir)
    _remove_half_written(git.git_dir / "objects")
    tip, conflicts, lost = ours, {}, {}
    (unstored,) = objects.read_unstored(git, ours)
    trailer_text = f"\n\n{objects.build_trailer(unstored)}" if unstored else ""
    for child in children:
        fetch_commit(git, child.git_dir, child.commit, _CHILDREN + child.name)
        missing = _find_unstored(git, child.commit)
        tree, conflicting = _merge_trees(git, tip, child.commit)
        conflicting += _find_replaced(git, tip, missing)
        if conflicting:
            conflicts[child.name] = list(dict.fromkeys(conflicting))
            continue
        if missing:
            lost[child.name] = _describe_missing(missing)
        if tree != _read_tree_id(git, tip):
            tip = _commit_merge(git, tree, tip, child, trailer_text)
    if tip != ours:
        git.run("update-ref", MERGED, tip)
        git.run("repack", "-d", "-q")
        checkpoint.flush_directories(git)
    return MergedChildren(tip, conflicts, lost)


def _find_unstored(git: Git, commit: str) -> dict[bytes, Unstored]:
    """Return what the workspace of a child has but its checkpoint does not hold, as recorded in the checkpoint."""
    (unstored,) = objects.read_unstored(git, commit)
    return {path: thing for path, thing in unstored.items() if thing.why != CACHE}


def _find_replaced(git: Git, tip: str, missing: Mapping[bytes, Unstored]) -> list[str]:
    """Return our files that would be lost, because the child has something
    with the same name that can't be copied.
    """
    if not missing:
        return []
    our_paths = map(file_names.from_stored, objects.read_tree(git, tip))
    return [
        file_names.to_display(path)
        for path in our_paths
        if path in missing or not missing.keys().isdisjoint(file_names.list_parents([path]))
    ]


def _describe_missing(missing: Mapping[bytes, Unstored]) -> list[str]:
    first = [f"{_format_path(path, missing[path])} ({missing[path].why})" for path in sorted(missing)[:NAMED]]
    return first + [f"... and {len(missing) - NAMED} more"] * (len(missing) > NAMED)


def _format_path(path: bytes, thing: Unstored) -> str:
    return file_names.to_display(path + b"/" if thing.mode == DIRECTORY_MODE else path)


def _remove_half_written(objects_dir: Path) -> None:
    """Remove incomplete loose objects of a killed git; only a merge creates loose objects."""
    for path in objects_dir.glob("??/tmp_obj_*"):
        path.unlink(missing_ok=True)


def _merge_trees(git: Git, ours: str, theirs: str) -> tuple[str, list[str]]:
    """Return the merged tree and the conflicting files, with readable names."""
    status, out, error_text = git.run_for_status(
        "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs
    )
    if status not in (0, 1) or not out:
        reason = error_text or f"exit status {status}"
        raise StorageError(
            f"git merge-tree failed: {reason}", where=str(git.git_dir), fix="install git 2.38 or newer"
        )
    tree, *conflicting = out.rstrip(b"\0").split(b"\0")
    conflicts = [file_names.to_display(path) for path in dict.fromkeys(conflicting) if path]
    return tree.decode("ascii"), conflicts if status else []


def _read_tree_id(git: Git, commit: str) -> str:
    return git.run("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}").decode("ascii").strip()


def _commit_merge(git: Git, tree: str, ours: str, child: Theirs, held: str) -> str:
    """Commit the merged tree.

    `held`: the trailer with what our checkpoints can't hold, which every checkpoint has at its end.
    """
    message = f"Work of {child.name}{held}"
    output = git.run("commit-tree", tree, "-p", ours, "-p", child.commit, "-m", message)
    return output.decode("ascii").strip()


def fetch_commit(git: Git, repository: Path, commit: str, reference: str) -> None:
    """Copy a commit of another repository of checkpoints, and name it `reference` here."""
    objects.require_commit(commit, git)
    sharing.require_repository(repository)
    git.run("fetch", "--quiet", *COPYING, repository, f"+{commit}:{reference}")
