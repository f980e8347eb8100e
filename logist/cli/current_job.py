"""The job chosen with `logist job select`, and the current directory. Has few imports, to start fast."""

from __future__ import annotations

import os

from logist.config.environment import Environment
from logist.errors import UsageError
from logist.regular_files import read_regular

SELECTED_JOB_FILE = "current_job"
"""File in the home directory that `logist job select` writes."""
_MAX_FILE_BYTES = 300
"""Maximum size of the file; an id is shorter."""


def find_selected_job(environment: Environment) -> str | None:
    """Return the id chosen with `logist job select`, if any."""
    return read_selected_job(environment.home_name(get_current_directory())[0])


def read_selected_job(home: str) -> str | None:
    """Return the id in the file `current_job` of that home directory; None if it can't be read."""
    try:
        return read_regular(os.path.join(home, SELECTED_JOB_FILE), _MAX_FILE_BYTES).decode().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def get_current_directory() -> str:
    """Return the current directory. Raises UsageError if it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise UsageError("the current directory no longer exists", fix="cd to another directory") from error
