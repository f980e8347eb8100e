"""Merges the work of a job into the repository it came from: one commit on the job's branch, merged into the
checked-out branch.
"""

from logist.workspace.merge.branches import JobBranch, delete_job_branch, list_job_branches
from logist.workspace.merge.drafting import FileChange
from logist.workspace.merge.publish import MODES, Brought, JobWork, Published, find_commit, publish_work
from logist.workspace.merge.target import Person, Target, find_target, lock_target

__all__ = [
    "MODES",
    "Brought",
    "FileChange",
    "JobBranch",
    "JobWork",
    "Person",
    "Published",
    "Target",
    "delete_job_branch",
    "find_commit",
    "find_target",
    "list_job_branches",
    "lock_target",
    "publish_work",
]
