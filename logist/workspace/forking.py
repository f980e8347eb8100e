"""Copies the checkpoints that a fork begins with from the repository of
another job, and no later ones.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from logist.errors import Damaged, StorageError
from logist.workspace.checkpoint import objects, packs
from logist.workspace.git import Git
from logist.workspace.workspace import Workspace

FROM_BACKUP = "restore the git directory of the job from a backup"


def populate_fork(
    workspace: Workspace, original: Path, commits: Collection[str], at: str, twin: Path
) -> None:
    """Create the repository with these checkpoints of `original`, and the workspace from the checkpoint `at`, one of
    them.

    `original` is the repository of another job, `twin` its workspace; both are only read, and another command may be
    using that job.
    Nothing is flushed: the caller that creates the job does that. Raises Damaged for a missing or incomplete
    checkpoint, StorageError.
    """
    _require_commits(original, {*commits, at})
    try:
        ends = _find_ends(Git(original, workspace.git.path, of_job=True), {*commits, at})
        workspace.populate_from_original(original, ends, at, twin)
    except StorageError as error:
        if Git(original, of_job=True).run_for_status("fsck", "--full", "--no-dangling", "--no-progress")[0]:
            message = f"the checkpoint repository is damaged: {error.message}"
            raise Damaged(message, where=str(original), fix=FROM_BACKUP) from error
        raise


def _require_commits(original: Path, commits: Collection[str]) -> None:
    """Raise Damaged unless the repository has all of them."""
    git = Git(original, of_job=True)
    missing = packs.find_lacking(original, {objects.require_commit(commit, git) for commit in commits})
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        message = f"missing in the checkpoint repository: {min(missing)}{more}"
        raise Damaged(message, where=str(original), fix=FROM_BACKUP)


def _find_ends(git: Git, commits: Collection[str]) -> set[str]:
    """Return the commits that are not an ancestor of another: with these come all."""
    revisions = "".join(f"{commit}\n" for commit in sorted(commits)).encode("ascii")
    lines = git.run_with_input(revisions, "rev-list", "--parents", "--stdin").decode("ascii").splitlines()
    return set(commits) - {parent for line in lines for parent in line.split()[1:]}
