"""The state of a job whose state.json is missing or behind: folded from
the history, without writing anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logist.jobs.base.session import build_current_state, dump_state
from logist.store import JobDir


def rebuild_state(jobs_dir: str, job_id: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return `(state, messages about it for a person)`. Raises UsageError, Damaged."""
    job = JobDir.open(Path(jobs_dir), job_id)
    loaded = job.load()
    state = dump_state(build_current_state(job, loaded), loaded.position)
    at_work = job.find_lock_holder() is not None  # then a state that is behind is only about to be written
    return state, () if at_work else _explain_rebuild(loaded.state, len(loaded.entries), loaded.torn)


def _explain_rebuild(state: dict[str, Any] | None, behind: int, torn: bytes) -> tuple[str, ...]:
    again = "it is made again with the next change"
    messages = []
    if state is None:
        messages.append(f"state.json is missing: this is what the history says; {again}")
    elif behind:
        messages.append(
            f"state.json is behind by {behind} of the history's interactions: this is what the history says; {again}"
        )
    if torn:
        messages.append("the history ends in an append that was cut off; the next change moves it to logs/")
    return tuple(messages)
