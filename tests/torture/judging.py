"""Checks a disk state after a power cut: reads it, writes to it as the next command would, and reads it
again.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from logist.agents.courier import ask_files
from logist.core.model import TERMINAL, Kind, Status
from logist.errors import Damaged, LogistError
from logist.jobs import step_job
from logist.jobs.base import job_reader
from logist.jobs.base.project import Clock, ProjectContext
from logist.jobs.base.session import load_session
from logist.jobs.steward import steward_decisions
from logist.jobs.turn.next_request import Choice
from logist.store import JobDir
from tests.torture import lab
from tests.torture.filesystem import Tree
from tests.torture.lab import JOB, World
from tests.torture.recording import Entry, Promise
from tests.torture.shelf import Shelf, digest

Json = dict[str, Any]

FIXED = Clock(now=lambda: datetime(2026, 1, 2, tzinfo=UTC), monotonic=lambda: 0.0)
"""The same recovery leaves the same bytes, so most of its results are known already."""

NO_JOB = "no job"


class Judge:
    """Writes one disk state after the other to `place`, and lists the problems of each."""

    def __init__(self, place: Path, *, may_refuse: bool = False) -> None:
        """`may_refuse`: the disk lost durable data, so a job may be reported as damaged; but it may never be
        read wrongly.
        """
        self.shelf = Shelf(place)
        self.world = World(place)
        self.may_refuse = may_refuse
        self.kind = ""
        """What was found in the last state, as text: states with the same text are alike."""
        self.said: list[str] = []
        self.sound: set[tuple[bytes, bytes]] = set()
        """Histories with their states that were verified before."""
        self.repositories: dict[tuple[bytes, tuple[str, ...]], str] = {}
        """The problem of a repository, by the digest of it and of the named checkpoints; "" for no problem.
        """
        self._project: ProjectContext | None = None

    def problems(
        self, tree: Tree, promise: Promise, *, step: bool = False, commands: bool = False
    ) -> list[str]:
        """Return the problems of one state. `step`: also run a complete step in it; `commands`: also read it with the
        command line too.
        """
        self.shelf.put(tree)
        self.said.clear()
        self.kind = NO_JOB
        if f".logist/jobs/{JOB}" not in tree:
            return ["the job is gone"] if promise.acknowledged else []
        self.kind = "damaged"
        try:
            return list(self._wrong(tree, promise, step, commands))
        except Damaged as error:
            return [] if self.may_refuse else [f"damaged: {error} {error.where}"]
        except LogistError as error:
            return [f"{type(error).__name__}: {error} {error.where}"]

    @property
    def project(self) -> ProjectContext:
        """The project at this place, with a fixed clock; its messages are saved."""
        if self._project is None:
            self._project = replace(self.world.project(), clock=FIXED, say=self.said.append)
        return self._project

    def _wrong(self, tree: Tree, promise: Promise, step: bool, commands: bool) -> Iterator[str]:
        job = JobDir.open(self.world.jobs, JOB)
        if commands:
            yield from unreadable(self.world)
        session = load_session(self.project, job)
        before = list(job.read_entries())
        told = _told(before)
        yield from _missing(told, promise.acknowledged)
        yield from (f"interaction {entry[0]} was never made" for entry in told if entry not in promise.known)
        yield from self._bad_checkpoints(tree, before)
        flight = ask_files.collect_ask(job.read_exchanges())
        self.kind = (
            f"{session.state.status}{' torn' * bool(session.torn)}{' behind' * session.behind} {flight.kind}"
        )
        yield from _paid_twice(len(before), flight, promise)
        yield from self._after_next(job, told, flight, step)
        if commands:
            yield from lab.broken(self.world)

    def _after_next(
        self, job: JobDir, before: list[Entry], flight: ask_files.Collected, step: bool
    ) -> Iterator[str]:
        """Yield the problems after the next command that writes."""
        self._next(step)
        yield from (
            f"the next command said: {each}"
            for each in self.said
            if "can't record" in each or "can't cancel" in each
        )
        after = list(job.read_entries())
        yield from _missing(_told(after), before)
        if _open(flight, len(before)):
            yield from _not_concluded(after[len(before) :], flight)
        pair = (job.history_file.read_bytes(), job.state_file.read_bytes())
        if pair not in self.sound:
            found = job_reader.verify_job(self.project, job)
            yield from (f"after the next command: {problem.message}" for problem in found.problems)
            yield from (note for note in found.notes if note.startswith("state.json"))
            if not found.problems:
                self.sound.add(pair)

    def _next(self, step: bool) -> None:
        status = load_session(self.project, JobDir.open(self.world.jobs, JOB)).state.status
        if step and status in (Status.PENDING, Status.REVIEW_REQUIRED):
            step_job.do_step(self.project, JOB, Choice())
        elif status in TERMINAL:
            steward_decisions.rerun_job(self.project, JOB, clean=False)
        else:
            steward_decisions.record_decision(self.project, JOB, Kind.CANCEL)

    def _bad_checkpoints(self, tree: Tree, entries: list[Json]) -> Iterator[str]:
        """Checkpoints that the history names, and that are missing or incomplete in the repository."""
        top = f".logist/jobs/{JOB}/git/"
        skipped = ("logist-", "tmp_")
        own = {
            path: content
            for path, content in tree.items()
            if path.startswith(top) and not path.rpartition("/")[2].startswith(skipped)
        }
        named = _named(entries)
        key = (digest(own), tuple(named))
        if key not in self.repositories:
            self.repositories[key] = _fsck(self.world, named)
        if self.repositories[key]:
            yield f"checkpoints: {self.repositories[key]}"


def _named(entries: Sequence[Json]) -> list[str]:
    """The checkpoints that a history names."""
    keys = ("checkpoint_before", "checkpoint_after")
    return sorted({entry[key] for entry in entries for key in keys if entry.get(key)})


def _fsck(world: World, commits: Sequence[str]) -> str:
    argv = ["git", f"--git-dir={world.folder / 'git'}", "fsck", "--full", "--no-dangling", "--no-progress"]
    done = subprocess.run([*argv, *commits], env=world.env, capture_output=True, text=True, check=False)
    return f"git fsck ends with {done.returncode}: {done.stderr}{done.stdout}" if done.returncode else ""


def bad_checkpoints(world: World) -> Iterator[str]:
    """Return what the history names and the repository does not have."""
    wrong = _fsck(world, _named(world.history()))
    if wrong:
        yield f"checkpoints: {wrong}"


def _told(entries: Sequence[Json]) -> list[Entry]:
    """Return the entries of a history, with checksums that are computed here: the stored ones prove nothing."""
    return [(entry["sequence"], _checksum(entry)) for entry in entries]


def _checksum(entry: Json) -> str:
    body = {key: value for key, value in entry.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def lost(entries: Sequence[Json], promised: Sequence[Entry]) -> Iterator[str]:
    """Yield what was promised and is missing."""
    return _missing(_told(entries), promised)


def _missing(told: Sequence[Entry], promised: Sequence[Entry]) -> Iterator[str]:
    found = set(told)
    return (f"interaction {entry[0]} is gone" for entry in promised if entry not in found)


def _open(flight: ask_files.Collected, recorded: int) -> bool:
    """Whether an unfinished call must be concluded."""
    if flight.ask is None or flight.kind not in ("answered", "in_doubt"):
        return False
    return flight.ask.sequence > recorded


def _paid_twice(recorded: int, flight: ask_files.Collected, promise: Promise) -> Iterator[str]:
    """Yield what would make the next step pay for an ask again, or lose its answer."""
    if recorded >= promise.sent:
        return
    if flight.outage is not None:
        return  # refused at no cost: it is sent again once the provider is available
    if not _open(flight, recorded):
        yield f"ask {promise.sent} was sent, and counts as {flight.kind}"
    elif promise.answered and flight.kind != "answered":
        yield f"ask {promise.sent} was answered, and counts as {flight.kind}"


def _not_concluded(new: Sequence[Json], flight: ask_files.Collected) -> Iterator[str]:
    kind = {"answered": "ask", "in_doubt": "recover"}[flight.kind]
    if not new or new[0]["kind"] != kind:
        yield f"what was {flight.kind} became {[entry['kind'] for entry in new]}"


def unreadable(world: World) -> Iterator[str]:
    """Yield the reading commands that fail."""
    for name in lab.READING:
        ran = world.run("job", name, JOB)
        if ran.code not in lab.WAITING:
            yield f"job {name} ends with {ran.code}: {ran.err.strip()}"


@contextmanager
def unsynced() -> Iterator[None]:
    """Disable fsync: what a judge writes does not have to be durable."""
    real = os.fsync
    os.fsync = lambda fd: None
    try:
        yield
    finally:
        os.fsync = real
