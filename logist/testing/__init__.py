"""Logist in users' own tests: the parts of the pytest plugin, and the job of its fixture.

Names are imported on first use, because a replay doesn't need what creates a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logist.testing.job import LogistJob, answer
    from logist.testing.replayed import PromptDrift

__all__ = ["LogistJob", "PromptDrift", "answer"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from logist.testing import job, replayed  # noqa: PLC0415 - see above

        return getattr(job, name, None) or getattr(replayed, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
