"""cleaned.json: `logist gc --keep-history` has removed the workspace, the checkpoints and the logs of a job.

It is written when they are gone. While they are being removed, the directory `.cleaning` exists, which was the workspace:
renaming it needs no space on the disk, and a later command sees what a killed one has begun. Has few imports, because
`job status` reads it.
"""

from __future__ import annotations

import json
import os

from logist.errors import Damaged
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular

NAME = "cleaned.json"
UNDER_WAY = ".cleaning"
WORKSPACE, CHECKPOINTS = "workspace", "git"
WHAT = "the workspace, the checkpoints and the logs"
_MOST_BYTES = 1 << 14


class Cleaned(NamedTuple):
    """Who has removed the files of a job, and when."""

    at: str
    """UTC, like the times of a history."""
    by: str
    revision: int
    """The last interaction at that time."""
    head: str
    """Its checksum: the record belongs to this history and no other."""

    def describe(self) -> str:
        """Say it in a sentence without its end."""
        return f"{WHAT} were removed by {self.by} at {self.at} (logist gc)"


def is_being_cleaned(folder: str) -> bool:
    """Whether the removal of files from the job in `folder` was begun, and has not ended."""
    return os.path.lexists(f"{folder}/{UNDER_WAY}")


def read_cleaned(folder: str) -> Cleaned | None:
    """Return the record of the job in `folder`; None if there is none, or if the files are there: somebody has restored
    them from a backup.

    Raises Damaged if it can't be read.
    """
    if any(os.path.lexists(f"{folder}/{each}") for each in (WORKSPACE, CHECKPOINTS)):
        return None
    return read_record(folder)


def read_record(folder: str) -> Cleaned | None:
    """Do the same, whether or not the files are there."""
    path = f"{folder}/{NAME}"
    if not os.path.lexists(path):
        return None
    try:
        record = json.loads(read_regular(path, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        record = None
    match record:
        case {"at": str(at), "by": str(by), "revision": int(revision), "head": str(head)}:
            return Cleaned(at, by, revision, head)
    fix = f"the files may have been removed by `logist gc`, or lost; to delete the job: logist job delete --job {os.path.basename(folder)} --force"
    raise Damaged("can't read the record of a removal", where=path, fix=fix)


def describe_removal(folder: str) -> str | None:
    """Say that files of the job in `folder` were removed, or are being removed; None if they are not."""
    if is_being_cleaned(folder):
        return f"{WHAT} are being removed (logist gc); if it was interrupted, the next gc finishes it"
    try:
        cleaned = read_cleaned(folder)
    except Damaged as error:
        return f"{error.where}: {error.message}"
    return cleaned.describe() if cleaned else None


def build_removal_data(folder: str) -> dict[str, str | None] | None:
    """Return the same for --json: `at` and `by` are None if they are not known."""
    message = describe_removal(folder)
    if message is None:
        return None
    try:
        cleaned = read_cleaned(folder)
    except Damaged:
        cleaned = None
    return {"at": cleaned and cleaned.at, "by": cleaned and cleaned.by, "message": message}
