"""Logist: LLM-agent work as plain directories. The Python interface is `__all__`; docs/python.md explains it.

Names are loaded on first use: the quick commands of the command line need none of them. Type checkers read
`__init__.pyi`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from logist.version import __version__

_MODULES = {
    "logist.agents.function": ("AgentAnswer", "AgentFunction", "AgentRequest"),
    "logist.api": ("Job", "Project"),
    "logist.core.model": ("Interaction", "JobSpec", "Kind", "State", "Status", "Usage"),
    "logist.errors": (
        "Busy",
        "Damaged",
        "InvalidFile",
        "LogistError",
        "LowOnSpace",
        "ProviderError",
        "Refused",
        "ReplayDiffers",
        "SetupFailed",
        "Stopped",
        "StorageError",
        "UsageError",
    ),
    "logist.jobs.archive.archive_replay": ("Replayed",),
    "logist.jobs.archive.archive_statistics": ("Gathered",),
    "logist.jobs.archive.fixture_export": ("ExportedFixture",),
    "logist.jobs.base.job_reader": ("Verified",),
    "logist.jobs.base.result": ("CommandResult",),
    "logist.jobs.job_queue": ("EndedJob",),
    "logist.jobs.steward.inbox": ("InboxItem",),
    "logist.jobs.steward.job_merge": ("MergeResult",),
    "logist.jobs.steward.retention": ("GarbageCollection", "RemovedFiles", "SparedJob"),
    "logist.jobs.steward.job_update": ("UpdateResult",),
}
_SOURCES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", *sorted(_SOURCES)]  # noqa: PLE0604 - the table says where each name comes from


def __getattr__(name: str) -> Any:
    module = _SOURCES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
