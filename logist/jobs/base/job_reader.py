"""Reads jobs: their history, and whether their files verify. Writes nothing and takes no lock.

For the current state, see `session.load_session`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from logist.core.history import fold, newer_versions
from logist.core.model import plain
from logist.core.model.words import TERMINAL
from logist.core.text.ids import is_commit
from logist.core.text.json_object import JsonObject
from logist.errors import Damaged, InvalidFile, LogistError, UsageError
from logist.jobs.base import plain_reader, truncation
from logist.jobs.base.plain_project import JobFiles
from logist.jobs.base.truncation import Forks, VerifiedHistory
from logist.quick_dataclass import dataclass
from logist.store import HistoryProblem, JobDir, Position, ProblemKind, cleaned
from logist.store.verification import Proof
from logist.workspace.checkpoint import packs

if TYPE_CHECKING:
    from logist.core.model import Change, Interaction, State

SHOWN = 5
"""How many missing checkpoints are listed one by one."""
EDITS = 1000
"""How many changes of the workspace are listed."""
MADE_ANEW = "the next change to the job recreates it"
READINGS = 3
"""How often a job is read while a command works on it."""
AT_ONCE = 10_000
"""How many checkpoints are looked up in one pass over the pack indexes, and are in memory."""


def read_interactions(job: JobDir) -> Iterator[Interaction]:
    """Yield the whole history, verified line by line. Raises Damaged at the first bad entry."""
    from logist.jobs.base.stored_records import parse_interaction  # noqa: PLC0415 - loads the models

    return (parse_interaction(entry) for entry in job.read_entries())


def find_interaction(job: JobDir, sequence: int) -> Interaction:
    """Find the interaction with this number. Raises UsageError if there is none."""
    for entry in read_interactions(job):
        if entry.sequence == sequence:
            return entry
    fix = f"to list the interactions: logist job history --job {job.id}"
    raise UsageError(f"interaction {sequence} not found in {job.id}", fix=fix)


@dataclass(frozen=True)
class Edits:
    """The differences between the workspace and the last checkpoint in the
    history, for example files that a person has edited.
    """

    checkpoint: str
    changes: tuple[Change, ...]
    """Sorted by path, without caches; at most EDITS of them."""
    omitted: int = 0
    """How many more there are."""

    def load_models(self) -> Edits:
        """Return the same with models instead of plain records, for the users of the Python interface."""
        from logist.core.model import Change  # noqa: PLC0415 - commands need no models

        return Edits(
            self.checkpoint, tuple(Change(**change.model_dump()) for change in self.changes), self.omitted
        )


@dataclass(frozen=True)
class Verified:
    """The problems of a job's files, and notes about them."""

    problems: tuple[HistoryProblem, ...]
    notes: tuple[str, ...] = ()
    proof: Proof = field(default=Proof(), compare=False)
    """How far the history is proven; not compared."""
    edits: Edits | None = field(default=None, compare=False)
    """Not compared either; None if the workspace was not checked: there are problems, or a command is working on
    the job."""
    removal: str | None = field(default=None, compare=False)
    """Who has removed the workspace, the checkpoints and the logs with `logist gc`, and when; None if they are there."""


def verify_job(
    project: JobFiles,
    job: JobDir,
    *,
    forks: Forks | None = None,
    read_all: bool = False,
    each: Callable[[JsonObject], None] = lambda entry: None,
) -> Verified:
    """Find all problems of a job's files; reads the history once or twice, one entry at a time.

    Checks the hash chain, numbering and files; that the fold of the history equals state.json; that git has
    the checkpoints that the history names; that nothing refers to more interactions (see truncation); and
    lists edits of the workspace. Each check runs only if those before it found no problem.
    `read_all`: read every file of the workspace, even if its times are unchanged. `forks`: those of the
    project, for a caller that verifies many jobs. `each`: called with each proven interaction, perhaps several times.
    """
    for _ in range(READINGS):
        before = _read_history_stamp(job)
        seen = _Seen(project.open_workspace(job).git.git_dir, each)
        verified = _verify_once(project, job, forks or Forks(project.jobs_dir), seen, read_all=read_all)
        if not verified.problems or _read_history_stamp(job) == before:
            break  # otherwise a command has recorded something that other files referred to earlier
    return verified


def _read_history_stamp(job: JobDir) -> tuple[int, ...] | None:
    """A value that changes whenever something is appended to the history."""
    try:
        status = os.lstat(job.history_file)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _verify_once(
    project: JobFiles, job: JobDir, forks: Forks, collected: _Seen, *, read_all: bool
) -> Verified:
    removal = cleaned.describe_removal(str(job.path))
    proof = job.examine_history(collected.add_entry)
    notes = list(_spec_notes(job))
    if proof.problems:
        return Verified(proof.problems, tuple(notes), proof, removal=removal)
    state, differing = _compare_state(job, proof.position, collected.targets, notes)
    if state is not None and state.status not in TERMINAL and job.is_being_cleaned():
        removal = None  # Logist removes nothing from a job that has not ended, so what is missing is lost
    problems = (*differing, *(() if removal else collected.list_lost_checkpoints()))
    if problems or state is None or proof.position is None:
        return Verified(problems, tuple(notes), proof, removal=removal)
    history = VerifiedHistory(state, str(proof.position.hash), collected.children)
    edits = None
    try:
        problems = tuple(truncation.find_truncation_signs(project, job, history, forks))
        if problems:
            notes = [note for note in notes if not note.endswith(MADE_ANEW)]
        if removal is None:
            edits = _compare_workspace(project, job, state, notes, read_all=read_all)
    except LogistError as error:
        is_missing = isinstance(error, Damaged) and error.where == str(job.workspace)
        kind = ProblemKind.WORKSPACE if is_missing else ProblemKind.HISTORY
        problems = (*problems, HistoryProblem(error.message, kind=kind))
    return Verified(problems, tuple(notes), proof, edits, removal)


def _compare_workspace(
    project: JobFiles, job: JobDir, state: State, notes: list[str], *, read_all: bool
) -> Edits | None:
    """The changes since the last checkpoint. Raises Damaged or StorageError
    if the checkpoint or the workspace is missing.
    """
    if state.checkpoint is None:
        return None
    if not truncation.has_git(project, job):
        notes.append("the workspace and its checkpoints were not checked: git is not installed")
        return None
    holder = job.find_lock_holder()
    if holder is not None:
        notes.append(
            f"the workspace was not compared with the last checkpoint: {holder} is working on the job"
        )
        return None
    if os.path.lexists(job.inflight) or os.path.lexists(job.restoring):
        notes.append("the workspace may contain changes of a killed command; the next step resolves this")
    changes, omitted = project.open_workspace(job).list_edits(state.checkpoint, EDITS, read_all=read_all)
    redacted = (change.model_copy(update={"path": project.redact_text(change.path)}) for change in changes)
    return Edits(state.checkpoint, tuple(redacted), omitted)


class _Seen:
    """What the first pass over a history collects."""

    def __init__(self, git_dir: Path, each: Callable[[JsonObject], None]) -> None:
        self.targets: set[int] = set()
        """Interactions that a restep has reverted to the state before them."""
        self.children: set[str] = set()
        """Jobs that were created as its children."""
        self._git_dir, self._each = git_dir, each
        self._named: dict[str, int] = {}
        self._lost: dict[str, int] = {}

    def add_entry(self, entry: JsonObject) -> None:
        """Process the next entry."""
        self._each(entry)
        self.targets.update(fold.restep_to(entry))
        self.children.update(truncation.read_spawned_ids(entry))
        observed = entry.get("observed")
        found_commit = observed.get("found") if isinstance(observed, dict) else None
        for commit in (entry.get("checkpoint_before"), entry.get("checkpoint_after"), found_commit):
            if isinstance(commit, str) and is_commit(commit):
                self._named.setdefault(commit, entry["sequence"])
        if len(self._named) >= AT_ONCE:
            self._find_lost_commits()

    def list_lost_checkpoints(self) -> tuple[HistoryProblem, ...]:
        """The commits that entries name and git does not have, each with the first entry that names it."""
        self._find_lost_commits()
        first = sorted((number, commit) for commit, number in self._lost.items())[:SHOWN]
        lost = [HistoryProblem(f"checkpoint {commit} not found in git", number) for number, commit in first]
        more = len(self._lost) - len(first)
        return (*lost, *([HistoryProblem(f"more checkpoints not found in git: {more}")] if more else []))

    def _find_lost_commits(self) -> None:
        for commit in packs.find_lacking(self._git_dir, set(self._named)):
            self._lost.setdefault(commit, self._named[commit])
        self._named.clear()


def _compare_state(
    job: JobDir, end: Position | None, targets: set[int], notes: list[str]
) -> tuple[State | None, list[HistoryProblem]]:
    """The fold of the history, and the fields of state.json that differ from it.

    If they are allowed to differ, a note is added instead.
    """
    newer_ones: list[str] = []
    try:
        state = _fold_history(job, targets, newer_ones)
    except Damaged as error:
        return None, [HistoryProblem(error.message)]
    try:
        recorded = job.read_state()
    except Damaged as error:
        return None, [HistoryProblem(error.message, kind=ProblemKind.STATE_FILE)]
    notes += newer_ones[:SHOWN]
    if state is None or end is None:
        return None, [HistoryProblem("the history is empty")]
    if recorded is None or recorded.get("head") != _build_head(end):
        what = "missing" if recorded is None else "older than the history"
        notes.append(f"state.json is {what}; {MADE_ANEW}")
    elif newer_ones:
        notes.append("state.json was not compared with the history: a newer version of Logist wrote it")
    else:
        expected = {**state.model_dump(mode="json", exclude={"head"}), "head": _build_head(end)}
        return state, list(_compare_fields(recorded, expected))
    return state, []


def _fold_history(job: JobDir, targets: set[int], warned: list[str]) -> State | None:
    """Fold the whole history: as plain records, or as models if it has anything that only these can read."""
    try:
        return fold_in_one_pass(_read_plain_interactions(job), targets, warned)
    except plain.UnexpectedError:
        warned.clear()
        return fold_in_one_pass(read_interactions(job), targets, warned)


def _read_plain_interactions(job: JobDir) -> Iterator[Interaction]:
    """Yield the whole history. Raises Damaged at the first bad entry, UnexpectedError at one that only the model can read."""
    for entry in job.read_entries():
        interaction = plain.read_interaction(entry)
        if interaction is None:
            raise plain.UnexpectedError
        yield interaction


def _build_head(end: Position) -> JsonObject:
    return {"sequence": end.sequence, "hash": end.hash, "offset": end.offset}


def _compare_fields(recorded: JsonObject, expected: JsonObject) -> Iterator[HistoryProblem]:
    completed = add_missing_fields(recorded)
    for name, value in expected.items():
        if not newer_versions.has_expected_value(completed.get(name), value):
            message = f"state.json: {name} is {_shorten_value(recorded.get(name))}, expected {_shorten_value(value)}"
            yield HistoryProblem(message, kind=ProblemKind.STATE_FIELD)


def add_missing_fields(recorded: JsonObject) -> JsonObject:
    """A state.json with defaults for the fields that were added to Logist after it was written."""
    if (state := plain.read_state(recorded)) is not None:
        return recorded | state.model_dump(mode="json", exclude={"head"})
    from logist.core.model import State  # noqa: PLC0415 - see plain_reader
    from logist.jobs.base.stored_records import STORED_ONLY  # noqa: PLC0415
    from logist.quick_model import ValidationError  # noqa: PLC0415

    own = {name: value for name, value in recorded.items() if name not in STORED_ONLY}
    try:
        return recorded | State.model_validate(own).model_dump(mode="json", exclude={"head"})
    except ValidationError:  # compare the values unchanged; some will differ
        return recorded


def fold_in_one_pass(entries: Iterable[Interaction], targets: set[int], warned: list[str]) -> State | None:
    """Like fold.fold, with one interaction in memory, and the states that a restep returned to.

    `warned` gets a warning for everything that a newer Logist wrote.
    """
    folding = fold.Folding(targets)
    for entry in entries:
        warned += newer_versions.list_newer_warnings([entry])
        folding.take(entry)
    return folding.state


def _spec_notes(job: JobDir) -> Iterator[str]:
    """Why job.yaml can't be used. This is not damage: a person may edit the
    file, and the history has the spec that was used.
    """
    if plain_reader.read_plain_spec(job) is not None:
        return
    from logist.jobs.base import specs  # noqa: PLC0415 - reads job.yaml with its model, and loads half of Logist

    messages: list[str] = []
    try:
        specs.read_job_spec(job, draft=True, say=messages.append)
    except InvalidFile as error:
        messages.append(error.message)
    yield from (f"job.yaml: {each}" for each in messages)


def _shorten_value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 80 else text[:77] + "..."
