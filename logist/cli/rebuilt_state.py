"""The state of a job whose state.json is missing or behind: folded from the history, nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logist.jobs.base.session import dump_state, state_of
from logist.store import JobDir


def rebuilt(jobs_dir: str, job_id: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`(state, what a person should know about it)`. Raises UsageError, Damaged."""
    job = JobDir.open(Path(jobs_dir), job_id)
    loaded = job.load()
    state = dump_state(state_of(job, loaded), loaded.position)
    at_work = job.holder() is not None  # then a state that is behind is only about to be written
    return state, () if at_work else _why(loaded.state, len(loaded.entries), loaded.torn)


def _why(state: dict[str, Any] | None, behind: int, torn: bytes) -> tuple[str, ...]:
    again = "it is made again with the next change"
    said = []
    if state is None:
        said.append(f"state.json is missing: this is what the history says; {again}")
    elif behind:
        said.append(
            f"state.json is behind by {behind} of the history's interactions: this is what the history says; {again}"
        )
    if torn:
        said.append("the history ends in an append that was cut off; the next change moves it to logs/")
    return tuple(said)
