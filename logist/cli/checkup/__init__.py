"""What `logist doctor` looks at: the machine, the project, and each job; and what --fix does about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from logist.cli.checkup import machine, place
from logist.cli.checkup.surroundings import surroundings
from logist.config.environment import Environment
from logist.errors import LogistError
from logist.jobs.base.project import Project
from logist.jobs.base.truncation import Forks
from logist.jobs.doctor import job_health, repairs
from logist.jobs.doctor.backup import Backup
from logist.jobs.doctor.finding import Finding
from logist.jobs.doctor.repairs import Fixed
from logist.store import JobDir, list_jobs


class Report(NamedTuple):
    """What was found, and what was repaired before that look."""

    findings: list[Finding]
    fixed: tuple[Fixed, ...] = ()
    backup: Path | None = None


def examine(environment: Environment, jobs_dir: str | None, *, deep: bool, fix: bool) -> Report:
    """Every finding, the machine first. With `fix`, what can be repaired safely is repaired before."""
    project = surroundings(environment, jobs_dir)
    fixed: tuple[Fixed, ...] = ()
    left: list[Finding] = []
    backup = Backup(project)
    if fix:
        repaired = [repairs.mend_place(project, place.look(environment, project), backup)]
        forks = Forks(project.jobs_dir)
        repaired += [repairs.mend_job(project, job, backup, deep=deep, forks=forks) for job in _jobs(project)]
        fixed = tuple(one for each in repaired for one in each.fixed)
        left = [one for each in repaired for one in each.left]
    findings = [*_findings(environment, project, deep=deep), *left]
    return Report([_as_printed(found, jobs_dir) for found in findings], fixed, backup.path)


def _findings(environment: Environment, project: Project, *, deep: bool) -> Iterator[Finding]:
    yield from machine.look(environment)
    yield from place.look(environment, project)
    jobs = _jobs(project)
    yield from [found for job in jobs if (found := job_health.clock_fault(job, project.clock))][:1]
    forks = Forks(project.jobs_dir)
    for job in jobs:
        yield from job_health.look(project, job, deep=deep, forks=forks)


def _jobs(project: Project) -> list[JobDir]:
    try:
        return [JobDir(project.jobs_dir / job_id, job_id) for job_id in list_jobs(project.jobs_dir)]
    except LogistError:
        return []  # no directory, or none that can be read: what is said about the place says so


def _as_printed(found: Finding, jobs_dir: str | None) -> Finding:
    """A command that is advised has to be about the same jobs."""
    if not jobs_dir or not (found.fix or "").startswith(("logist job ", "logist doctor")):
        return found
    return replace(found, fix=f"{found.fix} --jobs-dir {quote(jobs_dir)}")
