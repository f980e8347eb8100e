"""Rebuilds the state of a job from its history, without writing, if state.json is missing or out of date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logist.core.text.counts import format_count
from logist.jobs.base.stored_records import build_current_state, dump_state
from logist.store import JobDir


def rebuild_state(jobs_dir: str, job_id: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the state and messages about it. Raises UsageError, Damaged."""
    job = JobDir.open(Path(jobs_dir), job_id)
    loaded = job.load()
    state = dump_state(build_current_state(job, loaded), loaded.position)
    at_work = job.find_lock_holder() is not None  # then state.json is just about to be updated
    return state, () if at_work else _explain_rebuild(loaded.state, len(loaded.entries), loaded.torn)


def _explain_rebuild(state: dict[str, Any] | None, behind: int, torn: bytes) -> tuple[str, ...]:
    again = "the next change of the job writes it again"
    messages = []
    if state is None:
        messages.append(f"state.json is missing: the state was rebuilt from the history; {again}")
    elif behind:
        messages.append(
            f"state.json lacks the last {format_count(behind, 'interaction')}: the state was rebuilt from the history; {again}"
        )
    if torn:
        messages.append("the history ends with an incomplete entry; the next change moves it to logs/")
    return tuple(messages)
