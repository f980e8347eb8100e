"""The review hash: names exactly what a steward sees of a job, so that an approval applies to that and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from logist.core.model.words import TERMINAL
from logist.digests import compute_sha256
from logist.errors import LogistError, UsageError
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.model import State
    from logist.jobs.base.plain_project import JobFiles
    from logist.store import JobDir

_FORM = compile_on_use(r"([0-9]{1,9})-([0-9a-f]{40})-([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})")


@dataclass(frozen=True)
class ReviewHash:
    """What a steward sees: the job at a revision, its files, the results of its checks, and its evidence.

    Written as `REVISION-DIGEST-PARTS`. The digest covers everything. The parts are the first digits of the digests
    of files, checks and evidence, and only serve to say what has changed.
    """

    job_id: str
    revision: int
    files: str
    checks: str
    evidence: str

    def __str__(self) -> str:
        whole = _compute_digest([self.job_id, self.revision, self.files, self.checks, self.evidence])
        parts = "".join(part[:4] for part in (self.files, self.checks, self.evidence))
        return f"{self.revision}-{whole[:40]}-{parts}"

    def describe_changes(self, seen: str) -> list[str]:
        """Return what has changed since `seen`; [] if it is still current. Raises UsageError if it is not a review hash."""
        match = _FORM.fullmatch(seen)
        if match is None:
            fix = f"to see the job and its current hash: logist job diff --job {self.job_id} --json"
            raise UsageError(f"not a review hash: {seen!r}", where="--seen", fix=fix)
        if seen == str(self):
            return []
        revision, _, *parts = match.groups()
        now = {"files": self.files, "check results": self.checks, "evidence": self.evidence}
        changed = [
            name for (name, digest), part in zip(now.items(), parts, strict=True) if digest[:4] != part
        ]
        if int(revision) != self.revision:
            changed.insert(0, f"revision {revision} -> {self.revision}")
        return changed or ["it belongs to another job, or files changed"]


def compute_review_hash(
    project: JobFiles, job: JobDir, state: State, *, files: str | None = None
) -> ReviewHash:
    """Return the review hash of a job. Only reads, takes no lock.

    `files`: the digest of the files if they were read already (`Workspace.examine_content`). Raises Damaged or
    StorageError if the workspace or its checkpoints can't be read.
    """
    workspace = project.open_workspace(job)
    checks = [check.model_dump(mode="json") for check in state.checks or []]
    evidence = [workspace.hash_evidence(path) for path in state.artefacts]
    return ReviewHash(
        job.id,
        state.revision,
        files or workspace.examine_content(None).digest,
        _compute_digest(checks),
        _compute_digest(evidence),
    )


def find_review_hash(project: JobFiles, job: JobDir, state: State) -> str | None:
    """Return the review hash as text, for display; None if the job has ended or its workspace can't be read."""
    if state.status in TERMINAL:
        return None
    try:
        return str(compute_review_hash(project, job, state))
    except LogistError:
        return None


def _compute_digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return compute_sha256(text.encode("utf-8", "surrogatepass"))
