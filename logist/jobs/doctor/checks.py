"""A check of `logist doctor` is a row of a table, with a diagnosis, and a repair if one is safe.

The rows about a job are in `job_checks`, those about the machine and the project in `cli/checkup/project_checks`.
`diagnose` and `repair` run either table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Generic, Literal, TypeVar

from logist.core.model import State
from logist.errors import Damaged, InvalidFile, LogistError
from logist.jobs.base import job_reader
from logist.jobs.base.job_reader import Verified
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.stored_records import build_current_state
from logist.jobs.base.truncation import Forks
from logist.jobs.doctor.backup import Backup
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.store import JobDir, LoadedJob
from logist.store.cleaned import describe_removal

FIX = "logist doctor --fix"
FIX_DEEP = f"{FIX} --deep"
"""Repairs problems that only reading all of the history finds."""

Subject = TypeVar("Subject")
Repair = Callable[[Subject, tuple[Path, ...], Backup], None]
"""Repairs these files of the subject, each after a backup; raises LogistError or OSError if it can't."""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    check: str
    level: Literal["ok", "warning", "error"]
    message: str
    fix: str | None = None
    """A command that can be run as printed, or, if there is none, advice in words."""
    exit_code: int = 0
    paths: tuple[Path, ...] = ()
    """Files for the repair of its row; empty if a person must act."""


def warning(check: str, message: str, fix: str | None) -> Finding:
    """A problem that loses no data."""
    return Finding(check, "warning", message, fix)


def invalid(check: str, message: str, fix: str | None) -> Finding:
    """A file or setting that prevents Logist from working (exit code 5)."""
    return Finding(check, "error", message, fix, InvalidFile.exit_code)


def damage(check: str, message: str, fix: str | None) -> Finding:
    """A file of a job that was changed or damaged (exit code 10)."""
    return Finding(check, "error", message, fix, Damaged.exit_code)


def repairable(found: Finding, *paths: Path) -> Finding:
    """The finding, with the files that `doctor --fix` repairs."""
    return replace(found, fix=FIX, paths=paths)


@dataclass(frozen=True)
class HealthCheck(Generic[Subject]):
    """A row of the table."""

    name: str
    diagnose: Callable[[Subject], Iterable[Finding]]
    """Only reads; writes nothing."""
    repair: Repair[Subject] | None = None
    repaired: str = ""
    """What the repair has done, for the report."""
    applies: Callable[[Subject], bool] = lambda subject: True
    deep: bool = False
    """Only with --deep: it reads everything."""
    stops: bool = False
    """If it finds something, the later rows are skipped."""


class Fixed(NamedTuple):
    """One thing that was repaired."""

    check: str
    message: str


@dataclass
class Repairs:
    """What a run of --fix repaired, and what it could not repair."""

    backup: Backup
    fixed: list[Fixed] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)

    def fail(self, check: str, error: LogistError | OSError, what: str = "") -> None:
        """Record why something was not repaired."""
        if isinstance(error, LogistError):
            self.left.append(warning(check, f"{what}not repaired: {error.message}", error.fix))
        else:
            message = f"{what}not repaired: {error.strerror} ({error.filename})"
            self.left.append(warning(check, message, None))


def diagnose(
    checks: Iterable[HealthCheck[Subject]], look: Callable[[], Subject], *, deep: bool
) -> Iterator[tuple[HealthCheck[Subject], Finding]]:
    """Yield the findings of the rows in order, each with its row. `look` returns the subject for each row."""
    for check in checks:
        subject = look()
        if (check.deep and not deep) or not check.applies(subject):
            continue
        found = list(check.diagnose(subject))
        yield from ((check, finding) for finding in found)
        if check.stops and found:
            return


def repair(
    checks: Iterable[HealthCheck[Subject]], look: Callable[[], Subject], repairs: Repairs, *, deep: bool
) -> None:
    """Repair what each row finds before the next row runs. `look` returns the current subject."""
    tried = set()
    rows = [check for check in checks if check.repair or check.stops]
    for check, finding in diagnose(rows, look, deep=deep):
        if check.repair is None or not finding.paths or (check.repair, finding.paths) in tried:
            continue
        tried.add((check.repair, finding.paths))
        try:
            check.repair(look(), finding.paths, repairs.backup)
        except (LogistError, OSError) as error:
            repairs.fail(finding.check, error, f"{finding.message}: ")
        else:
            repairs.fixed.append(Fixed(finding.check, f"{finding.message}: {check.repaired}"))


@dataclass
class ExaminedJob:
    """A job that is checked; what several rows need is read once."""

    project: ProjectContext
    job: JobDir
    deep: bool = False
    held: bool = False
    """The caller holds its lock."""
    forks: Forks | None = None
    """As in job_reader.verify_job."""

    @property
    def check(self) -> str:
        """The name of the check in findings about this job."""
        return f"job {self.job.id}"

    def is_quiet(self) -> bool:
        """True if no other process works on it; work in progress is not a problem."""
        try:
            return self.held or self.job.find_lock_holder() is None
        except LogistError:
            return True  # the lock file is unreadable: another row reports that

    def has_files(self) -> bool:
        """True unless `logist gc` has removed the workspace and the checkpoints, or is about to."""
        return describe_removal(str(self.job.path)) is None

    def is_loaded_with_files(self) -> bool:
        """True if its files can be read, and the workspace and the checkpoints should be there."""
        return self.has_files() and self.is_loaded()

    def is_loaded(self) -> bool:
        """True if its files can be read."""
        return self.unreadable is None

    def is_idle(self) -> bool:
        """True if no other process works on it, and its files can be read."""
        return self.is_quiet() and self.is_loaded()

    @cached_property
    def loaded(self) -> LoadedJob:
        """Its state.json and the end of its history."""
        return self.job.load()

    @cached_property
    def state(self) -> State:
        """Its current state."""
        return build_current_state(self.job, self.loaded)

    @cached_property
    def unreadable(self) -> LogistError | None:
        """Why it can't be loaded; None if it can: then `loaded` and `state` don't raise."""
        try:
            _ = self.state
        except LogistError as error:
            return error
        return None

    @cached_property
    def verified(self) -> Verified:
        """The result of reading and verifying all of it."""
        return job_reader.verify_job(self.project, self.job, forks=self.forks, read_all=True)
