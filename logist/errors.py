"""The errors that a person can act on; each class has one exit code.

    LogistError                 1   internal: an unexpected error
    ├── StorageError            1   the disk is full, read-only or failing
    ├── UsageError              2   wrong argument, unknown job, invalid id
    ├── InvalidFile             5   config, job.yaml, role, workflow or schema is invalid
    ├── SetupFailed             5   a command of `workspace.setup` failed
    ├── ProviderError           6   the model's provider: auth, rate limit, network, timeout, missing extra
    ├── Refused                 8   not allowed in the current state of the job
    │   ├── Busy                8   another process is working on the job
    │   └── LowOnSpace          8   too little space is left on the disk to begin a step
    │   └── NewerFormat         8   a newer Logist wrote the file, in a format that this one can't read
    ├── ReplayDiffers           9   a recorded history now gives a different result
    ├── Damaged                10   history or state don't verify; nothing was written
    └── Stopped          130, 143   stopped by SIGINT or SIGTERM

An agent's answer never raises an error: it is data, and is recorded as an interaction.
"""

from __future__ import annotations

import errno

_ADVICE = {
    errno.ENOSPC: "free some disk space and run the command again; no recorded data was lost",
    errno.EDQUOT: "free some of your disk quota and run the command again; no recorded data was lost",
    errno.EFBIG: "raise the file size limit (ulimit -f) and run the command again",
    errno.EROFS: "the file system is read-only: remount it writable, or choose another one with --jobs-dir",
    errno.EACCES: "check the owner and permissions of the directory",
    errno.EPERM: "check the owner and permissions of the directory",
    errno.ELOOP: "remove the symbolic link: Logist expects a regular file here",
}


class LogistError(Exception):
    """An error that a person can act on: what happened, where, and what to do next."""

    exit_code = 1
    code = "internal"

    def __init__(self, message: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix
        self.details: tuple[LogistError, ...] = ()
        """The single problems, if there are several; printed before the error itself."""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" ({self.fix})" if self.fix else ""
        return "".join([f"{place}{self.message}{advice}", *(f"\n{detail}" for detail in self.details)])


class StorageError(LogistError):
    """The disk is full, read-only or failing. Exit code 1."""

    code = "storage"


class UsageError(LogistError):
    """A wrong argument, an unknown job or an invalid id. Exit code 2."""

    exit_code = 2
    code = "usage"


class InvalidFile(LogistError):
    """A config, job.yaml, role, workflow or schema is invalid. Exit code 5."""

    exit_code = 5
    code = "invalid_file"


class SetupFailed(LogistError):
    """A command of `workspace.setup` failed. Exit code 5."""

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
        """The setup worked until an agent changed the lock files."""
        self.output = output
        """Output of the command that failed."""


class ProviderError(LogistError):
    """The model's provider failed: authentication, rate limit, network, timeout. Exit code 6."""

    exit_code = 6
    code = "provider"


class Refused(LogistError):
    """The current state of the job does not allow it. Exit code 8."""

    exit_code = 8
    code = "refused"


class Busy(Refused):
    """Another process works on the job. Exit code 8."""

    code = "busy"


class LowOnSpace(Refused):
    """Less than `min_free_bytes` is left on the disk, so no step begins. Exit code 8."""

    code = "low_on_space"


class NewerFormat(Refused):
    """A newer Logist wrote the file, in a format that this one can't read. Exit code 8."""

    code = "newer_format"


class ReplayDiffers(LogistError):
    """A recorded history now gives a different result. Exit code 9."""

    exit_code = 9
    code = "replay_differs"


class Damaged(LogistError):
    """The history or the state does not verify; nothing was written. Exit code 10."""

    exit_code = 10
    code = "damaged"


class Stopped(LogistError):
    """A stop was requested, by a signal or by the program. Exit code 130 or 143."""

    exit_code = 130
    code = "stopped"

    def __init__(self, message: str, *, exit_code: int = 130, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.exit_code = exit_code


def storage_advice(number: int | None) -> str:
    """What to do about an errno of a disk operation."""
    return _ADVICE.get(number or 0, "check the disk, then run the command again")
