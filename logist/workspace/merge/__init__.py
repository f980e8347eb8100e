"""Merges the work of a job into the repository it came from: one commit on the job's branch, merged into the
checked-out branch. Names are loaded on first use: comparing workspaces needs two of the modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.workspace.merge.branches import JobBranch, delete_job_branch, list_job_branches
    from logist.workspace.merge.drafting import FileChange
    from logist.workspace.merge.publish import MODES, Brought, JobWork, Published, find_commit, publish_work
    from logist.workspace.merge.target import Person, Target, find_target, lock_target
    from logist.workspace.merge.updating import (
        Conflict,
        SourceUpdate,
        UpdateDraft,
        draft_update,
        find_update,
    )

__all__ = [
    "MODES",
    "Brought",
    "Conflict",
    "FileChange",
    "JobBranch",
    "JobWork",
    "Person",
    "Published",
    "SourceUpdate",
    "Target",
    "UpdateDraft",
    "delete_job_branch",
    "draft_update",
    "find_commit",
    "find_target",
    "find_update",
    "list_job_branches",
    "lock_target",
    "publish_work",
]

load_on_use(
    globals(),
    {
        "branches": ("JobBranch", "delete_job_branch", "list_job_branches"),
        "drafting": ("FileChange",),
        "publish": ("MODES", "Brought", "JobWork", "Published", "find_commit", "publish_work"),
        "updating": (
            "Conflict",
            "SourceUpdate",
            "UpdateDraft",
            "draft_update",
            "find_update",
        ),
        "target": ("Person", "Target", "find_target", "lock_target"),
    },
)
