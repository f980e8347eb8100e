"""Reading a job: history, replay, verify. Nothing here writes or locks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from logist.core import replay
from logist.core.fold import fold
from logist.core.model import Interaction, JsonObject
from logist.errors import UsageError
from logist.jobs.project import Project
from logist.jobs.session import dump_state, interaction_of, load
from logist.store import JobDir, Problem


def interactions(job: JobDir) -> Iterator[Interaction]:
    """The whole history, checked line by line. Raises Damaged at the first bad entry."""
    return (interaction_of(entry) for entry in job.entries())


def interaction(job: JobDir, sequence: int) -> Interaction:
    """One entry; UsageError when there is none with this number."""
    for entry in interactions(job):
        if entry.sequence == sequence:
            return entry
    raise UsageError(f"no interaction {sequence} in {job.id}", fix="logist job history")


@dataclass(frozen=True)
class Replayed:
    """What a replay found."""

    interactions: int
    differences: tuple[replay.Difference, ...]


def replay_job(project: Project, job: JobDir) -> Replayed:
    """The job's history through today's rules."""
    return _replay(project.schema, list(interactions(job)))


def replay_file(schema: JsonObject, path: Path) -> Replayed:
    """An archived `jobHistory.json`, or a directory that holds one."""
    return _replay(schema, list(interactions(archived(path))))


def archived(path: Path) -> JobDir:
    """The directory of an archived history, as a job to read. Raises UsageError when there is none."""
    folder = path if path.is_dir() else path.parent
    job = JobDir(folder, folder.name)
    if not job.history_file.is_file():
        raise UsageError(f"no jobHistory.json in {path}", fix="name a job directory or its jobHistory.json")
    return job


def _replay(schema: JsonObject, entries: list[Interaction]) -> Replayed:
    return Replayed(len(entries), tuple(replay.replay(entries, schema)))


@dataclass(frozen=True)
class Verified:
    """What is wrong with a job's files, and what is only worth knowing."""

    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


def verify(project: Project, job: JobDir) -> Verified:
    """Hash chain, numbering, files; and that the fold of the history gives state.json."""
    problems = tuple(problem for problem in job.verify() if "state.json is missing" not in problem.message)
    if problems:
        return Verified(problems)
    session = load(project, job)
    recorded = job.read_state()
    if recorded is None or session.behind:
        what = "missing" if recorded is None else "behind the history"
        return Verified((), (f"state.json is {what}; the next change makes it anew",))
    expected = dump_state(fold(interactions(job)), session.position)
    return Verified(
        tuple(
            Problem(f"state.json: {name} is {_short(recorded.get(name))}, not {_short(value)}", None, None)
            for name, value in expected.items()
            if recorded.get(name) != value
        )
    )


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 80 else text[:77] + "..."
