"""The job directory: file names, lock, atomic replace, history append, exchanges in flight.

Names are loaded on first use, so that importing `logist.store.listing` loads no other module of this package, and opening a job
only what the command uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.store import cleaned as cleaned
    from logist.store import flushing as flushing
    from logist.store import hidden_folders as hidden_folders
    from logist.store import inflight as inflight
    from logist.store import job_batches as job_batches
    from logist.store import job_index as job_index
    from logist.store import last_answer as last_answer
    from logist.store import lock as lock
    from logist.store import provider_wait as provider_wait
    from logist.store import restore_record as restore_record
    from logist.store import scrubs as scrubs
    from logist.store import segments as segments
    from logist.store import verification as verification
    from logist.store.entries import Position
    from logist.store.files import dump_json, replace_file
    from logist.store.filesystem import describe_problem, filesystem_type, require_local
    from logist.store.history import REPLACE_BELOW, Appended, HistoryProblem, ProblemKind
    from logist.store.inflight import Exchange, Exchanges
    from logist.store.jobdir import IN_THE_MAKING, JobDir, LoadedJob, list_jobs
    from logist.store.lock import Holder, Lock, LockProcess

HISTORY = "jobHistory.json"
"""The file name of a history, in jobs, fixtures and archives."""
SIGNATURES = "lock"
"""The file in a job's directory that the holders of its lock sign."""
SCRUBS = ".scrubs"
"""The directory, in that of the jobs, with copies of jobs that are being scrubbed."""
INDEX_FOLDER = ".index"
"""The directory, in that of the jobs, with the index of the jobs, if there is one."""
WAIT = "provider-wait.json"
"""The file in a job's directory with its wait for a provider."""

__all__ = [
    "HISTORY",
    "IN_THE_MAKING",
    "REPLACE_BELOW",
    "Appended",
    "Exchange",
    "Exchanges",
    "HistoryProblem",
    "Holder",
    "JobDir",
    "LoadedJob",
    "Lock",
    "LockProcess",
    "Position",
    "ProblemKind",
    "describe_problem",
    "dump_json",
    "filesystem_type",
    "list_jobs",
    "replace_file",
    "require_local",
]

load_on_use(
    globals(),
    {
        "entries": ("Position",),
        "files": ("dump_json", "replace_file"),
        "filesystem": ("describe_problem", "filesystem_type", "require_local"),
        "history": ("REPLACE_BELOW", "Appended", "HistoryProblem", "ProblemKind"),
        "inflight": ("Exchange", "Exchanges"),
        "jobdir": ("IN_THE_MAKING", "JobDir", "LoadedJob", "list_jobs"),
        "lock": ("Holder", "Lock", "LockProcess"),
    },
)
