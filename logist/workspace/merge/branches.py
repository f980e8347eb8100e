"""The branches `logist/<job>` that merges have made in a repository of the user, and their removal."""

from __future__ import annotations

import os

from logist.core.text.ids import is_job_id
from logist.quick_tuple import NamedTuple
from logist.workspace.merge import drafting
from logist.workspace.merge.target import Target

PREFIX = "logist/"
_HEADS = f"refs/heads/{PREFIX}"


class JobBranch(NamedTuple):
    """A branch whose last commit a merge of its job has made."""

    job_id: str
    commit: str
    is_merged: bool
    """The checked-out commit contains it."""
    checked_out: str
    """The work tree where it is checked out; "" if it is not."""

    @property
    def name(self) -> str:
        """The name of the branch."""
        return f"{PREFIX}{self.job_id}"


def list_job_branches(target: Target, job_id: str | None = None) -> list[JobBranch]:
    """List the branches that Logist has made, of one job or of all; those with other last commits are left out."""
    form = "%(refname)%00%(objectname)%00%(worktreepath)"
    output = target.git.run("for-each-ref", f"--format={form}", f"{_HEADS}{job_id or ''}")
    found = []
    for line in output.splitlines():
        name, commit, place = (os.fsdecode(part) for part in line.split(b"\0"))
        job = name.removeprefix(_HEADS)
        if is_job_id(job) and job_id in (None, job) and _is_made_for(target, commit, job):
            found.append(JobBranch(job, commit, target.has_in_history(commit), place))
    return found


def _is_made_for(target: Target, commit: str, job_id: str) -> bool:
    _, _, message = target.git.run("cat-file", "commit", commit).partition(b"\n\n")
    return drafting.build_job_trailer(job_id).encode() in message.splitlines()


def delete_job_branch(target: Target, branch: JobBranch) -> None:
    """Delete a branch, unless it has moved meanwhile. Raises StorageError with git's own line."""
    target.git.run("update-ref", "-d", f"refs/heads/{branch.name}", branch.commit)
