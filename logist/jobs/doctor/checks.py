"""What a check of `logist doctor` is: a row of a table, with a diagnosis, and a repair where one is safe.

The rows about a job are in `job_checks`, those about the machine and the project in `cli/checkup/project_checks`.
`diagnose` and `repair` run either table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

from logist.core.model import State
from logist.errors import Damaged, InvalidFile, LogistError
from logist.jobs.base import job_reader
from logist.jobs.base.job_reader import Verified
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.session import build_current_state
from logist.jobs.base.truncation import Forks
from logist.jobs.doctor.backup import Backup
from logist.store import JobDir, LoadedJob

FIX = "logist doctor --fix"
FIX_DEEP = f"{FIX} --deep"
"""For what only a reading of the whole history shows."""

Subject = TypeVar("Subject")
Repair = Callable[[Subject, tuple[Path, ...], Backup], None]
"""Repairs these files of the subject, each after a copy in the backup; raises LogistError or OSError if it can't."""


@dataclass(frozen=True)
class Finding:
    """One line of a check-up."""

    check: str
    level: Literal["ok", "warning", "error"]
    message: str
    fix: str | None = None
    """A command that works as printed, where there is one; else words."""
    exit_code: int = 0
    paths: tuple[Path, ...] = ()
    """Files for the repair of its row; empty where a person has to act."""


def warning(check: str, message: str, fix: str | None) -> Finding:
    """Something that loses nothing as it is."""
    return Finding(check, "warning", message, fix)


def invalid(check: str, message: str, fix: str | None) -> Finding:
    """A file or a setting that keeps Logist from working (exit code 5)."""
    return Finding(check, "error", message, fix, InvalidFile.exit_code)


def damage(check: str, message: str, fix: str | None) -> Finding:
    """A file of a job that is not what Logist wrote (exit code 10)."""
    return Finding(check, "error", message, fix, Damaged.exit_code)


def repairable(found: Finding, *paths: Path) -> Finding:
    """The finding, with the files that `doctor --fix` repairs."""
    return replace(found, fix=FIX, paths=paths)


@dataclass(frozen=True)
class HealthCheck(Generic[Subject]):
    """A row of the table."""

    name: str
    diagnose: Callable[[Subject], Iterable[Finding]]
    """Reads and writes nothing."""
    repair: Repair[Subject] | None = None
    repaired: str = ""
    """What the repair has done, as the report says it."""
    applies: Callable[[Subject], bool] = lambda subject: True
    deep: bool = False
    """Only with --deep: it reads everything."""
    stops: bool = False
    """Where it finds something, no later row is looked at."""


class Fixed(NamedTuple):
    """One thing that was repaired."""

    check: str
    message: str


@dataclass
class Repairs:
    """What a run of --fix did, and what it could not do."""

    backup: Backup
    fixed: list[Fixed] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)

    def fail(self, check: str, error: LogistError | OSError, what: str = "") -> None:
        """Notes why something stayed as it was."""
        if isinstance(error, LogistError):
            self.left.append(warning(check, f"{what}not repaired: {error.message}", error.fix))
        else:
            message = f"{what}not repaired: {error.strerror} ({error.filename})"
            self.left.append(warning(check, message, None))


def diagnose(
    checks: Iterable[HealthCheck[Subject]], look: Callable[[], Subject], *, deep: bool
) -> Iterator[tuple[HealthCheck[Subject], Finding]]:
    """What the rows find, in their order, each with its row. `look` gives each row its subject."""
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
    """Repairs what each row finds before the next one looks. `look` gives the subject as it is then."""
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
    """A job that is looked at; what several rows need of it is read once."""

    project: ProjectContext
    job: JobDir
    deep: bool = False
    held: bool = False
    """The caller holds its lock."""
    forks: Forks | None = None
    """As in job_reader.verify_job."""

    @property
    def check(self) -> str:
        """What a finding about it is filed under."""
        return f"job {self.job.id}"

    def is_quiet(self) -> bool:
        """Whether nobody else is at work on it; else what is under way is not taken for a fault."""
        try:
            return self.held or self.job.find_lock_holder() is None
        except LogistError:
            return True  # no readable lock file, which has a row of its own

    def is_loaded(self) -> bool:
        """Whether its files read."""
        return self.unreadable is None

    def is_idle(self) -> bool:
        """Whether nobody else is at work on it and its files can be read."""
        return self.is_quiet() and self.is_loaded()

    @cached_property
    def loaded(self) -> LoadedJob:
        """Its state.json and the end of its history."""
        return self.job.load()

    @cached_property
    def state(self) -> State:
        """Where it stands."""
        return build_current_state(self.job, self.loaded)

    @cached_property
    def unreadable(self) -> LogistError | None:
        """Why it can't be loaded; else None, and the properties around this one don't raise."""
        try:
            _ = self.state
        except LogistError as error:
            return error
        return None

    @cached_property
    def verified(self) -> Verified:
        """What a reading of all of it tells."""
        return job_reader.verify_job(self.project, self.job, forks=self.forks, read_all=True)
