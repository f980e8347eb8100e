"""The work of each process in a crowd: step one job, append to one history, and log what was acknowledged."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from logist.errors import Busy
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import load_session
from logist.jobs.step_job import do_step
from logist.jobs.steward import job_edits
from logist.jobs.turn.next_request import Choice
from logist.store import REPLACE_BELOW, JobDir
from tests.torture.lab import JOB, World

Json = dict[str, Any]

LIMITS = "limits: {max_attempts: 1000000, max_allowed_iterations: 1000000, time_threshold_minutes: 1000000}\n"
"""Limits high enough that the worker can be called without end."""


def step_until(place: str, log: str, revisions: int, seed: int) -> int:
    """Step the job and change its rank until it has this many revisions; return 0.

    Each interaction is written to `log` when the call that created it has returned: it is acknowledged.
    """
    project, chance = World(Path(place)).project(), random.Random(seed)
    waits = 60.0 if seed % 2 else 0.0
    ways: tuple[Callable[[], CommandResult], ...] = (
        lambda: do_step(project, JOB, Choice(wait=waits)),
        lambda: job_edits.set_rank(project, JOB, chance.randrange(1_000_000)),
    )
    with open(log, "ab", buffering=0) as told:
        while _revision(project) < revisions:
            try:
                result = ways[chance.random() < 0.25]()
            except Busy:
                time.sleep(chance.random() * 0.05)
                continue
            for entry in result.entries:
                told.write(json.dumps([entry.sequence, entry.checksum]).encode() + b"\n")
    return 0


def _revision(project: ProjectContext) -> int:
    return load_session(project, project.open_job(JOB)).state.revision


def told(logs: Path) -> list[Json]:
    """Return what the processes logged, each entry as `{"sequence": n, "checksum": "..."}`; incomplete lines
    are skipped.
    """
    lines = [line for log in sorted(logs.iterdir()) for line in log.read_bytes().split(b"\n")[:-1]]
    return [{"sequence": sequence, "checksum": checksum} for sequence, checksum in map(json.loads, lines)]


def append_for_ever(jobs: str, size: int, most: int) -> int:
    """Append entries of about `size` bytes and replace the state after each, until the file has `most` bytes."""
    job = JobDir.open(Path(jobs), JOB)
    while job.history_file.stat().st_size < most:
        with job.hold_lock(command="append", since="", wait=60.0):
            append_one(job, {"text": "ü" * (size // 2)})
    return 0


def append_one(job: JobDir, entry: Json, replace_below: int = REPLACE_BELOW) -> None:
    """Append an entry as a step does; the caller holds the lock."""
    loaded = job.load()
    done = job.append_entries(loaded.position, [entry], loaded.torn, replace_below=replace_below)
    sequence, digest, offset = done.position
    job.write_state({"revision": sequence, "head": {"sequence": sequence, "hash": digest, "offset": offset}})
