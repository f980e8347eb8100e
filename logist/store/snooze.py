"""snooze.json: until when the inbox hides a job. It is not part of the state or the history.

Deleting it is harmless: the inbox shows the job again. Has few imports, because the inbox reads it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular

NAME = "snooze.json"
LATEST = 253402300799.0
"""The last second of the year 9999; a later time was not written by Logist."""
_MOST_BYTES = 1 << 12


class Snooze(NamedTuple):
    """Until when a job is hidden."""

    until: float
    """Seconds since 1970."""
    revision: int
    """The revision of the job's state: once the job has changed, it is shown again."""


def read_snooze(folder: str, revision: object) -> Snooze | None:
    """Return the snooze of the job in `folder`; None if there is none that is readable and of this revision."""
    try:
        data = json.loads(read_regular(f"{folder}/{NAME}", _MOST_BYTES))
        until, of_revision = data["until"], data["revision"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    is_number = isinstance(until, int | float) and not isinstance(until, bool)
    if not is_number or not 0 <= until <= LATEST or of_revision != revision:
        return None
    return Snooze(float(until), of_revision)


def write_snooze(folder: str, snooze: Snooze) -> None:
    """Hide a job in the inbox. Raises StorageError."""
    from pathlib import Path  # noqa: PLC0415 - reading needs neither

    from logist.store import files  # noqa: PLC0415

    files.replace_file(Path(folder, NAME), files.dump_json(snooze._asdict()))


def end_snooze(folder: str) -> None:
    """Show the job again."""
    with suppress(OSError):
        os.unlink(f"{folder}/{NAME}")
