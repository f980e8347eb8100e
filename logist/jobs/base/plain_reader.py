"""Reads jobs to show them. Each part is read without the models if possible; otherwise `job_reader` and `session` read it,
with their messages. Writes nothing and takes no lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from logist.core.model import plain
from logist.core.text.json_object import JsonObject
from logist.core.text.simple_yaml import parse_simple_yaml
from logist.errors import UsageError
from logist.regular_files import read_regular
from logist.store import JobDir, LoadedJob

if TYPE_CHECKING:
    from logist.core.model import Interaction, JobSpec, State

_MOST_SPEC = 1 << 20
"""Maximum bytes of a job.yaml."""


def read_interactions(job: JobDir) -> Iterator[Interaction]:
    """Yield the whole history, verified line by line. Raises Damaged at the first bad entry."""
    return map(read_interaction, job.read_entries())


def read_interaction(entry: JsonObject) -> Interaction:
    """Read an entry of a history. Raises Damaged like `stored_records.parse_interaction`."""
    return plain.read_interaction(entry) or _parse_interaction(entry)


def _parse_interaction(entry: JsonObject) -> Interaction:
    from logist.jobs.base.stored_records import parse_interaction  # noqa: PLC0415 - loads the models

    return parse_interaction(entry)


def find_interaction(job: JobDir, sequence: int) -> Interaction:
    """Find the interaction with this number. Raises UsageError if there is none."""
    for entry in read_interactions(job):
        if entry.sequence == sequence:
            return entry
    fix = f"to list the interactions: logist job history --job {job.id}"
    raise UsageError(f"interaction {sequence} not found in {job.id}", fix=fix)


def read_state(job: JobDir) -> State:
    """Read the verified state of a job, brought up to the end of its history."""
    loaded = job.load()
    state = _read_settled_state(loaded)
    if state is None:
        from logist.jobs.base.stored_records import build_current_state  # noqa: PLC0415 - loads the models

        return build_current_state(job, loaded)
    return state


def read_settled_state(job: JobDir) -> State | None:
    """Read the verified state of a job; None if it must be computed from the history, or only its model can read it."""
    return _read_settled_state(job.load())


def _read_settled_state(loaded: LoadedJob) -> State | None:
    return plain.read_state(loaded.state) if loaded.state is not None and not loaded.entries else None


def read_job_spec(job: JobDir) -> JobSpec:
    """Read job.yaml as `specs.read_job_spec` does to show it; raises InvalidFile."""
    spec = read_plain_spec(job)
    if spec is None:
        from logist.jobs.base.specs import read_job_spec  # noqa: PLC0415 - loads the models

        spec = read_job_spec(job, draft=True, accept_slips=True)
    return spec


def read_plain_spec(job: JobDir) -> JobSpec | None:
    """Read job.yaml; None if only the models can read it, or tell what is wrong with it."""
    try:
        data = parse_simple_yaml(read_regular(job.spec_file, _MOST_SPEC).decode())
    except (OSError, ValueError):
        data = None
    spec = None if data is None else plain.read_job_spec(data)
    if spec is not None and spec.id in (None, job.id) and (not spec.workflow or job.workflow_file.exists()):
        return spec
    return None
