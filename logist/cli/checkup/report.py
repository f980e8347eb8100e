"""What `logist doctor` finds and repairs, from all checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote

from logist.cli.checkup.model_checks import examine_models
from logist.cli.checkup.project_checks import PROJECT_CHECKS, list_project_jobs
from logist.cli.checkup.surroundings import surroundings
from logist.cli.show.progress import ProgressBar
from logist.config.environment import Environment
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.truncation import Forks
from logist.jobs.doctor import checks, job_checks
from logist.jobs.doctor.backup import Backup
from logist.jobs.doctor.checks import Finding, Fixed, Repairs
from logist.quick_tuple import NamedTuple

DELAY_SECONDS = 1.0
"""Without --deep, the checks of most projects are done before a bar could be read."""


class Report(NamedTuple):
    """The findings, and what was repaired before the checks ran."""

    findings: list[Finding]
    fixed: tuple[Fixed, ...] = ()
    backup: Path | None = None
    project: ProjectContext | None = None
    """What was examined."""


def examine(
    environment: Environment, jobs_dir: str | None, *, deep: bool, fix: bool, ping: bool = False
) -> Report:
    """Return all findings, the machine's first. With `fix`, repair first what can be repaired safely.

    With `ping`, send each model a small request, which costs money.
    """
    project = surroundings(environment, jobs_dir)
    done = Repairs(Backup(project))
    if fix:
        checks.repair(PROJECT_CHECKS, lambda: project, done, deep=deep)
        forks = Forks(project.jobs_dir)
        for job in list_project_jobs(project):
            job_checks.repair(project, job, done, deep=deep, forks=forks)
    findings = [found for _, found in checks.diagnose(PROJECT_CHECKS, lambda: project, deep=deep)]
    findings += examine_models(project, ping=ping)
    forks = Forks(project.jobs_dir)
    jobs = list_project_jobs(project)
    progress = ProgressBar(len(jobs), "job", delay=DELAY_SECONDS)
    try:
        for job in jobs:
            findings += job_checks.examine(project, job, deep=deep, forks=forks)
            progress.count_history()
    finally:
        progress.clear()
    printed = [_as_printed(found, jobs_dir) for found in (*findings, *done.left)]
    return Report(printed, tuple(done.fixed), done.backup.path, project)


def _as_printed(found: Finding, jobs_dir: str | None) -> Finding:
    """Add --jobs-dir to suggested commands, so that they work on the same jobs."""
    if not jobs_dir or not (found.fix or "").startswith(("logist job ", "logist doctor")):
        return found
    return replace(found, fix=f"{found.fix} --jobs-dir {quote(jobs_dir)}")
