"""The tree of errors a person can act on; each class is one exit code.

LogistError                 1   internal: a surprise, or storage that failed ├── StorageError            1   a
disk that is full, read-only or failing ├── UsageError              2   a wrong argument, an unknown job, a
bad id ├── InvalidFile             5   config, job.yaml, role, workflow or schema does not validate ├──
SetupFailed             5   the commands of `workspace.setup` failed ├── ProviderError           6   the
model's side: auth, rate, network, time-out, missing extra ├── Refused                 8   the job's state
forbids it │   └── Busy                8   another process is at work on the job ├── ReplayDiffers           9
a recorded run goes another way today ├── Damaged                10   history or state do not verify; nothing
was written └── Stopped          130, 143   a person or the system asked to stop: SIGINT, SIGTERM

What an agent says is never an error: it is data, and ends as an interaction.
"""

from __future__ import annotations

import errno

_ADVICE = {
    errno.ENOSPC: "free some space and run the command again; nothing recorded was lost",
    errno.EDQUOT: "free some of your quota and run the command again; nothing recorded was lost",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f) and run the command again",
    errno.EROFS: "the file system is read-only: remount it writable, or choose another with --jobs-dir",
    errno.EACCES: "check who owns the directory and its permissions",
    errno.EPERM: "check who owns the directory and its permissions",
    errno.ELOOP: "a symbolic link stands where a file of the job belongs: remove it",
}


class LogistError(Exception):
    """Something a person can act on: what went wrong, where, and what to do next."""

    exit_code = 1
    code = "internal"

    def __init__(self, message: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix
        self.details: tuple[LogistError, ...] = ()
        """What is wrong one by one, where it is several things; shown before the error itself."""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" ({self.fix})" if self.fix else ""
        return "".join([f"{place}{self.message}{advice}", *(f"\n{detail}" for detail in self.details)])


class StorageError(LogistError):
    code = "storage"


class UsageError(LogistError):
    exit_code = 2
    code = "usage"


class InvalidFile(LogistError):
    exit_code = 5
    code = "invalid_file"


class SetupFailed(LogistError):
    exit_code = 5
    code = "setup_failed"

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        fix: str | None = None,
        output: str = "",
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.by_agent = False
        """It worked until an agent changed the lock files."""
        self.output = output
        """What the command wrote that failed."""


class ProviderError(LogistError):
    exit_code = 6
    code = "provider"


class Refused(LogistError):
    exit_code = 8
    code = "refused"


class Busy(Refused):
    code = "busy"


class ReplayDiffers(LogistError):
    exit_code = 9
    code = "replay_differs"


class Damaged(LogistError):
    exit_code = 10
    code = "damaged"


class Stopped(LogistError):
    exit_code = 130
    code = "stopped"

    def __init__(self, message: str, *, exit_code: int = 130, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.exit_code = exit_code


def storage_advice(number: int | None) -> str:
    """What to do about an errno that a disk gave."""
    return _ADVICE.get(number or 0, "check the disk, then run the command again")
