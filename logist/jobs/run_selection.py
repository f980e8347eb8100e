"""Which jobs a `logist run` begins: `--tag`, `--status` and `--max-jobs`."""

from __future__ import annotations

from typing import Protocol

from logist.core.model import MAX_DEPTH
from logist.errors import LogistError
from logist.store.job_index import JobBrief


class FamilyReader(Protocol):
    """Reads what a selection needs to know about jobs."""

    def read(self, job_id: str) -> JobBrief:
        """Read a job. Raises LogistError."""
        ...

    def has_tag(self, job_id: str, tag: str) -> bool:
        """Whether a job has a tag. Raises LogistError."""
        ...


class RunSelection:
    """Selects the jobs of a run. A job and its child jobs, at all levels, count as one."""

    def __init__(
        self,
        *,
        tag: str | None = None,
        statuses: frozenset[str] = frozenset(),
        most_jobs: int | None = None,
    ) -> None:
        self.tag, self.statuses, self._most_jobs = tag, statuses, most_jobs
        self._begun: set[str] = set()
        """The jobs without a parent that were begun, or whose child jobs were."""

    @property
    def is_everything(self) -> bool:
        """Whether every job is selected."""
        return self.tag is None and not self.statuses and self._most_jobs is None

    @property
    def is_full(self) -> bool:
        """Whether the run has begun as many jobs as it may."""
        return self._most_jobs is not None and len(self._begun) >= self._most_jobs

    def without_limit(self) -> RunSelection:
        """Return the same selection, for a run that may begin any number of jobs."""
        return RunSelection(tag=self.tag, statuses=self.statuses)

    def admits(self, job_id: str, jobs: FamilyReader) -> bool:
        """Whether the run may begin a job now, or go on with it."""
        if self.is_everything:
            return True
        family = list_family(job_id, jobs)
        if family[-1] in self._begun:
            return True
        if self.is_full:
            return False
        try:
            has_status = not self.statuses or jobs.read(job_id).status in self.statuses
            return has_status and self._has_tag(family, jobs)
        except LogistError:
            return True  # it can't be read: its run reports the problem

    def covers(self, job_id: str, jobs: FamilyReader) -> bool:
        """Whether the run is about a job, in whatever state that is."""
        try:
            return self.tag is None or self._has_tag(list_family(job_id, jobs), jobs)
        except LogistError:
            return True

    def _has_tag(self, family: list[str], jobs: FamilyReader) -> bool:
        return self.tag is None or any(jobs.has_tag(each, self.tag) for each in family)

    def add_begun(self, job_id: str, jobs: FamilyReader) -> None:
        """The run begins a job."""
        if not self.is_everything:
            self._begun.add(list_family(job_id, jobs)[-1])


def list_family(job_id: str, jobs: FamilyReader) -> list[str]:
    """Return a job and those that it does a part of, from below; without those that can't be read."""
    family = [job_id]
    try:
        while len(family) <= MAX_DEPTH and (parent := jobs.read(family[-1]).parent) is not None:
            family.append(parent)
    except LogistError:
        pass
    return family
