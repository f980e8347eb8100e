"""The job directory: file names, lock, atomic replace, history append, exchanges in flight.

Names are loaded on first use, so that importing `logist.store.listing` loads no other module of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logist.store.entries import Position
    from logist.store.files import dump_json, replace_file
    from logist.store.filesystem import describe_problem, filesystem_type, require_local
    from logist.store.history import REPLACE_BELOW, Appended, HistoryProblem, ProblemKind
    from logist.store.inflight import Exchange, Exchanges
    from logist.store.jobdir import IN_THE_MAKING, JobDir, LoadedJob, list_jobs
    from logist.store.lock import Holder, Lock, LockProcess

HISTORY = "jobHistory.json"
"""The file name of a history, in jobs, fixtures and archives."""

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

_HOMES = {
    "entries": ("Position",),
    "files": ("dump_json", "replace_file"),
    "filesystem": ("describe_problem", "filesystem_type", "require_local"),
    "history": ("REPLACE_BELOW", "Appended", "HistoryProblem", "ProblemKind"),
    "inflight": ("Exchange", "Exchanges"),
    "jobdir": ("IN_THE_MAKING", "JobDir", "LoadedJob", "list_jobs"),
    "lock": ("Holder", "Lock", "LockProcess"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"logist.store.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
