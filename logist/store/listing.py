"""Ids and states of many jobs, read cheaply for `job list`. Imports next to nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from logist.core.text.ids import is_job_id
from logist.errors import StorageError, UsageError
from logist.formats import describe_newer, is_newer
from logist.quick_tuple import NamedTuple
from logist.regular_files import READING, read_regular

_ASKED = ("PENDING", "REVIEW_REQUIRED")
"""The states of a job while an agent works; in other states, no exchange is looked for."""

REBUILD = "logist doctor --fix"
"""Recreates an unreadable state.json from the history."""

CANDIDATES = 5
COMPARED = 2_000
"""With more jobs, an unknown id is not compared with theirs: it would take too long."""
"""How many jobs an error names."""
BATCHES = ".batches"
"""The directory, in that of the jobs, where the jobs of batches are made; see `job_batches`."""
UNPUBLISHED = "unpublished"
"""The file in the directory of a batch that names its jobs, each with the inode of its directory, until they are published."""
_LONGEST_LIST = 1 << 26

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
    is_newer: bool = False
    """A newer Logist wrote the job, in a format that this one can't read."""


def list_job_ids(jobs_dir: str) -> list[str]:
    """The ids of all jobs in a directory, sorted; empty if the directory does not exist."""
    try:
        unpublished = list_unpublished(jobs_dir)
        with os.scandir(jobs_dir) as scanned:
            ids = sorted(e.name for e in scanned if is_job_id(e.name) and e.is_dir(follow_symlinks=False))
        # Before and after: a batch may have begun, or been published, while the directory was read.
        unpublished |= list_unpublished(jobs_dir)
        return [job_id for job_id in ids if job_id not in unpublished] if unpublished else ids
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        fix = "check --jobs-dir or $LOGIST_JOBS_DIR"
        raise UsageError("must be a directory", where=jobs_dir, fix=fix) from error
    except OSError as error:
        fix = "check its owner and permissions"
        raise StorageError(f"can't list the jobs: {error.strerror}", where=jobs_dir, fix=fix) from error


def find_job_id(jobs_dir: str, text: str) -> str:
    """The id of the only job that `text` begins; an exact id is returned as it is, without listing the jobs, and so is a
    text that begins none.

    Raises UsageError, with some of the ids, if it begins several.
    """
    if not is_job_id(text) or os.path.lexists(f"{jobs_dir}/{text}"):
        return text
    try:
        ids = [job_id for job_id in list_job_ids(jobs_dir) if job_id.startswith(text)]
    except (UsageError, StorageError):  # the command reports it
        return text
    if len(ids) > 1:
        named = ", ".join(ids[:CANDIDATES]) + (
            f" and {len(ids) - CANDIDATES:,} more" if len(ids) > CANDIDATES else ""
        )
        message = f"{text!r} is not unique: {len(ids):,} jobs have ids that begin with it"
        raise UsageError(message, where=jobs_dir, fix=f"type more of the id: {named}")
    return ids[0] if ids else text


def build_not_found_error(jobs_dir: str, job_id: str) -> UsageError:
    """The error for an unknown job, with the ids that look like it. Raises StorageError if the jobs can't be listed."""
    fix = "to see all jobs, run: logist job list"
    ids = list_job_ids(jobs_dir)
    if not ids:
        fix = "there are no jobs here: run the command in the directory of the project, or use --jobs-dir"
    elif len(ids) <= COMPARED and (similar := _find_similar(job_id, ids)):
        fix = f"did you mean {', '.join(f'`{each}`' for each in similar)}? {fix}"
    return UsageError(f"job {job_id!r} not found", where=jobs_dir, fix=fix)


def _find_similar(job_id: str, ids: list[str]) -> list[str]:
    """Return the ids that look like this one, whatever their case."""
    from difflib import get_close_matches  # noqa: PLC0415 - only an error needs it

    folded = {each.lower(): each for each in ids}
    return [folded[each] for each in get_close_matches(job_id.lower(), folded, n=3, cutoff=0.7)]


def list_unpublished(jobs_dir: str) -> frozenset[str]:
    """The jobs that must not be seen yet, because they are a part of a batch; see `job_batches`."""
    try:
        names = os.listdir(f"{jobs_dir}/{BATCHES}")
    except OSError:
        return frozenset()
    lists = (read_unpublished(f"{jobs_dir}/{BATCHES}/{name}") for name in names)
    return frozenset(job_id for each in lists for job_id in each or ())


def is_unpublished(jobs_dir: str, job_id: str) -> bool:
    """Whether a job must not be seen yet."""
    # Almost always there is no batch, which is quicker to find out than to list.
    return os.path.lexists(f"{jobs_dir}/{BATCHES}") and job_id in list_unpublished(jobs_dir)


def read_unpublished(folder: str) -> dict[str, int] | None:
    """The jobs of the batch in `folder` and their inodes; None if they are published, or not complete."""
    try:
        inodes = json.loads(read_regular(f"{folder}/{UNPUBLISHED}", _LONGEST_LIST))
    except (OSError, ValueError, RecursionError):
        return None
    return inodes if isinstance(inodes, dict) else None


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
            if isinstance(state, dict) and is_newer(version := state.get("version", 1)):
                message = describe_newer(f"job {job_id}", version, state.get("logist"))
                yield Glance(job_id, None, message, is_newer=True)
            elif isinstance(state, dict):
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
