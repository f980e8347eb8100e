"""Ids and states of many jobs, read cheaply for `job list`. Imports next to nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from logist.core.text.ids import is_job_id
from logist.errors import StorageError, UsageError
from logist.quick_tuple import NamedTuple
from logist.regular_files import READING, read_regular

_ASKED = ("PENDING", "REVIEW_REQUIRED")
"""The states of a job while an agent works; in other states, no exchange is looked for."""

REBUILD = "logist doctor --fix"
"""Recreates an unreadable state.json from the history."""

_ENDING = b'"checksum":"%b"}\n]}\n'
"""How a history ends: the checksum of its last entry, and the closing."""


class Glance(NamedTuple):
    """A job as a listing shows it."""

    id: str
    state: dict[str, Any] | None
    """state.json, its checksum not verified; None if it is missing or unreadable."""
    problem: str | None = None
    """Why there is no state."""
    asked: bool = False
    """An exchange is in flight, or was when a command was killed; the holder of the lock shows which."""
    behind: bool = False
    """The history does not end with the last interaction that `state` includes."""


def list_job_ids(jobs_dir: str) -> list[str]:
    """The ids of all jobs in a directory, sorted; empty if the directory does not exist."""
    try:
        with os.scandir(jobs_dir) as scanned:
            return sorted(e.name for e in scanned if is_job_id(e.name) and e.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        fix = "check --jobs-dir or $LOGIST_JOBS_DIR"
        raise UsageError("must be a directory", where=jobs_dir, fix=fix) from error
    except OSError as error:
        fix = "check its owner and permissions"
        raise StorageError(f"can't list the jobs: {error.strerror}", where=jobs_dir, fix=fix) from error


def read_glances(jobs_dir: str, ids: list[str] | None = None) -> Iterator[Glance]:
    """Read every job of a directory, or those with the given ids; an
    unreadable job does not hide the others.
    """
    for job_id in list_job_ids(jobs_dir) if ids is None else ids:
        folder = f"{jobs_dir}/{job_id}"
        try:
            state = json.loads(read_regular(f"{folder}/state.json"))
        except FileNotFoundError:
            yield Glance(
                job_id,
                None,
                "state.json is missing; the next change of the job recreates it from the history",
            )
        except OSError as error:
            yield Glance(job_id, None, f"state.json can't be read: {error.strerror}")
        except (ValueError, RecursionError):
            yield Glance(job_id, None, "state.json is not valid JSON")
        else:
            if isinstance(state, dict):
                asked = state.get("status") in _ASKED and os.access(f"{folder}/inflight/1.request", os.F_OK)
                yield Glance(job_id, state, None, asked, behind=not has_seen_all(folder, state))
            else:
                yield Glance(job_id, None, "state.json is not a JSON object")


def has_seen_all(folder: str, state: dict[str, Any]) -> bool:
    """True if the history of the job in `folder` ends with the entry that `state` names as its head.

    False also for a history that needs a closer look: missing, truncated, or damaged at its end.
    """
    try:
        ending: bytes = _ENDING % state["head"]["hash"].encode()
        # A listing does this for every job, so each system call counts. No check for a regular file is needed:
        # others can't be seeked in, or don't end like this, and only these few bytes are read.
        history = os.open(f"{folder}/jobHistory.json", READING)
        try:
            os.lseek(history, -len(ending), os.SEEK_END)
            return os.read(history, len(ending)) == ending
        finally:
            os.close(history)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False
