"""Reading a job: its history, and whether its files verify. Nothing here writes or locks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from logist.core import newer
from logist.core.folding import Folding, restep_to
from logist.core.ids import is_commit
from logist.core.model import Interaction, JsonObject, State
from logist.errors import Damaged, InvalidFile, UsageError
from logist.jobs import specs
from logist.jobs.project import Project
from logist.jobs.session import dump_state, interaction_of
from logist.store import JobDir, Position, Problem
from logist.store.proof import Proof
from logist.workspace import packs

SHOWN = 5
"""Checkpoints that are named one by one when they are missing."""
AT_ONCE = 10_000
"""Checkpoints that are looked for in one reading of the pack indexes; so many are in memory."""


def interactions(job: JobDir) -> Iterator[Interaction]:
    """The whole history, checked line by line. Raises Damaged at the first bad entry."""
    return (interaction_of(entry) for entry in job.entries())


def interaction(job: JobDir, sequence: int) -> Interaction:
    """One entry; UsageError when there is none with this number."""
    for entry in interactions(job):
        if entry.sequence == sequence:
            return entry
    fix = f"'logist job history --job {job.id}' shows them"
    raise UsageError(f"no interaction {sequence} in {job.id}", fix=fix)


@dataclass(frozen=True)
class Verified:
    """What is wrong with a job's files, and what is only worth knowing."""

    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    proof: Proof = field(default=Proof(), compare=False)
    """How far the history is proven; not part of the verdict."""


def verify(project: Project, job: JobDir) -> Verified:
    """All that is wrong with a job's files; reads the history once or twice, an entry at a time.

    Hash chain, numbering and files; that the fold of the history gives state.json; that git has the
    checkpoints that the history names. The last two only where all before is well.
    """
    seen = _Seen(project.workspace(job).git.git_dir)
    proof = job.examine(seen.look)
    notes = list(_spec_notes(job))
    if proof.problems:
        return Verified(proof.problems, tuple(notes), proof)
    wrong = (*_state_differs(job, proof.position, seen.targets, notes), *seen.lost_checkpoints())
    return Verified(wrong, tuple(notes), proof)


class _Seen:
    """What the first reading of a history is to remember."""

    def __init__(self, git_dir: Path) -> None:
        self.targets: set[int] = set()
        """Interactions that a restep went back before."""
        self._git_dir = git_dir
        self._named: dict[str, int] = {}
        self._lost: dict[str, int] = {}

    def look(self, entry: JsonObject) -> None:
        """Takes the next entry."""
        self.targets.update(restep_to(entry))
        for name in ("checkpoint_before", "checkpoint_after"):
            commit = entry.get(name)
            if isinstance(commit, str) and is_commit(commit):
                self._named.setdefault(commit, entry["sequence"])
        if len(self._named) >= AT_ONCE:
            self._find()

    def lost_checkpoints(self) -> tuple[Problem, ...]:
        """The commits that entries name and that git does not have, each with the first that names it."""
        self._find()
        first = sorted((number, commit) for commit, number in self._lost.items())[:SHOWN]
        lost = [Problem(f"its checkpoint {commit} is not in git", number) for number, commit in first]
        more = len(self._lost) - len(first)
        return (*lost, *([Problem(f"{more} more checkpoints are not in git")] if more else []))

    def _find(self) -> None:
        for commit in packs.lacking(self._git_dir, set(self._named)):
            self._lost.setdefault(commit, self._named[commit])
        self._named.clear()


def _state_differs(
    job: JobDir, end: Position | None, targets: set[int], notes: list[str]
) -> Iterator[Problem]:
    """Where state.json, which verifies, is not what the history gives; where it need not be, that is noted."""
    newer_ones: list[str] = []
    try:
        state = folded(interactions(job), targets, newer_ones)
        recorded = job.read_state()
    except Damaged as error:
        yield Problem(error.message)
        return
    notes += newer_ones[:SHOWN]
    if state is None or end is None:
        yield Problem("the history is empty")
    elif recorded is None or recorded.get("head") != _head(end):
        what = "missing" if recorded is None else "behind the history"
        notes.append(f"state.json is {what}; the next change makes it anew")
    elif newer_ones or newer.is_newer(recorded):
        notes.append("state.json was not compared with the history: a newer Logist wrote it")
    else:
        yield from _differences(recorded, dump_state(state, end))


def _head(end: Position) -> JsonObject:
    return {"sequence": end.sequence, "hash": end.hash, "offset": end.offset}


def _differences(recorded: JsonObject, expected: JsonObject) -> Iterator[Problem]:
    for name, value in expected.items():
        if not newer.holds(recorded.get(name), value):
            yield Problem(f"state.json: {name} is {_short(recorded.get(name))}, not {_short(value)}")


def folded(entries: Iterable[Interaction], targets: set[int], warned: list[str]) -> State | None:
    """fold.fold with one interaction in memory, and the states that a restep went back to.

    `warned` gets what a newer Logist wrote.
    """
    folding = Folding(targets)
    for entry in entries:
        warned += newer.warnings([entry])
        folding.take(entry)
    return folding.state


def _spec_notes(job: JobDir) -> Iterator[str]:
    """Why job.yaml can't be used. A person may edit it, and the history has what was asked: no damage."""
    said: list[str] = []
    try:
        specs.read(job, draft=True, say=said.append)
    except InvalidFile as error:
        said.append(error.message)
    yield from (f"job.yaml: {each}" for each in said)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 80 else text[:77] + "..."
