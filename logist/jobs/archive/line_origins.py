"""Finds which interaction of which job a line of a merged file came from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from logist.core.model import Interaction, JsonObject, Kind, Phase
from logist.core.model.commands import AskCommand, CollectCommand, MergeCommand
from logist.core.money import amounts
from logist.errors import LogistError, StorageError, UsageError
from logist.jobs.base.job_reader import read_interactions
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.store import JobDir
from logist.store.listing import list_job_ids
from logist.workspace import source
from logist.workspace.git import Git
from logist.workspace.line_blame import BlamedLine, blame_lines
from logist.workspace.merge.drafting import build_job_trailer
from logist.workspace.merge.target import find_target

if TYPE_CHECKING:
    from logist.core.model import CheckResult

MOST_DEPTH = 5
"""How many levels of child jobs are searched."""
_TRAILER = build_job_trailer("")


@dataclass(frozen=True)
class LineOrigin:
    """What is known of some lines that have the same origin."""

    commit: str | None
    """The commit in the repository of the file; None if the lines are not committed."""
    summary: str = ""
    """Its first line."""
    job: str | None = None
    """The job whose work the commit is; None if it is not that of a job."""
    interaction: Interaction | None = None
    """The one after which the lines were there for the first time."""
    review: Interaction | None = None
    """The first review after that."""
    decision: Interaction | None = None
    """The approval of a steward, or their override, after that."""
    merge: Interaction | None = None
    edited_before: int | None = None
    """A person wrote the lines into the workspace of the job, before this interaction."""
    note: str = ""
    """Why more is not known."""

    @property
    def cost_microcents(self) -> int | None:
        """What the interaction cost; None without one."""
        used = self.interaction.usage if self.interaction is not None else None
        return None if used is None else amounts.join_cents(used.cost_cents, used.cost_microcents)

    @property
    def checks(self) -> Sequence[CheckResult]:
        """The results of the checks after the interaction."""
        observed = self.interaction.observed if self.interaction is not None else None
        return observed.checks if observed is not None else ()

    @property
    def verdict(self) -> str | None:
        """What the review said; None without one."""
        return None if self.review is None else AskCommand.read(self.review.command).verdict


class OriginatedLines(NamedTuple):
    """Lines that follow each other, and their common origin."""

    first: int
    last: int
    texts: Sequence[str]
    origin: LineOrigin


def find_line_origins(
    jobs: Path, file: Path, first: int | None = None, last: int | None = None
) -> list[OriginatedLines]:
    """Return where the lines of a file came from, those that belong together as one.

    `jobs`: the directory of the jobs. Raises UsageError for a file that is not in a repository, or has not so many lines, and Damaged if
    the history of a job is.
    """
    repository = source.find_repository(file.absolute().parent)
    if repository is None:
        raise UsageError("not in a git repository", where=str(file))
    if not file.is_file():
        raise UsageError("no such file", where=str(file))
    path = os.path.relpath(os.path.realpath(file.parent), os.path.realpath(repository))
    name = os.path.normpath(os.path.join(path, file.name))
    git = find_target(repository).git
    ranges = [] if first is None else [(first, first if last is None else last)]
    try:
        lines = blame_lines(git, name, ranges, work_tree=repository)
    except StorageError as error:
        raise UsageError(
            f"git can't blame it: {error.message.rpartition('fatal: ')[2]}", where=str(file)
        ) from error
    finder = _OriginFinder(jobs, git, repository)
    return list(_join_lines((line, finder.find_origin(line)) for line in lines))


def _join_lines(found: Iterable[tuple[BlamedLine, LineOrigin]]) -> Iterator[OriginatedLines]:
    joined: OriginatedLines | None = None
    for line, origin in found:
        if joined is not None and joined.origin == origin and joined.last == line.number - 1:
            joined = joined._replace(last=line.number, texts=[*joined.texts, line.text])
            continue
        if joined is not None:
            yield joined
        joined = OriginatedLines(line.number, line.number, [line.text], origin)
    if joined is not None:
        yield joined


class _Commit(NamedTuple):
    summary: str
    job: str | None
    """The job that its message names."""


class _JobHistory:
    """A job, read and verified once."""

    def __init__(self, job: JobDir) -> None:
        self.id = job.id
        self.git = Git(job.git_dir, of_job=True)
        self.entries = [*read_interactions(job)]
        self.made_by = {
            commit: entry
            for entry in self.entries
            for commit in (entry.checkpoint_after, entry.observed.found if entry.observed else None)
            if commit and commit != entry.checkpoint_before
        }
        """By checkpoint: the interaction that it was made after."""
        self.edited_before = {
            entry.checkpoint_before: entry.sequence
            for entry in reversed(self.entries)
            if entry.checkpoint_before and entry.checkpoint_before not in self.made_by
        }
        """Checkpoints with what a person has changed in the workspace, and the interaction after it."""
        self._blamed: dict[tuple[str, str], list[BlamedLine]] = {}

    def find_merge(self, commit: str) -> Interaction | None:
        """Return the merge that made a commit of the user's repository; the last one if none names it."""
        merges = [entry for entry in self.entries if entry.kind == Kind.MERGE]
        named = [entry for entry in merges if commit in _list_commits(entry)]
        return next(reversed(named or merges), None)

    def blame(self, path: str, until: Interaction | None) -> list[BlamedLine]:
        """Return the lines of a file at the last checkpoint before an interaction; none if it is not there."""
        commits = [
            commit
            for entry in self.entries
            if until is None or entry.sequence < until.sequence
            for commit in (entry.checkpoint_before, entry.checkpoint_after)
            if commit
        ]
        if not commits:
            return []
        key = (commits[-1], path)
        if key not in self._blamed:
            try:
                self._blamed[key] = blame_lines(self.git, path, commit=commits[-1])
            except StorageError:  # deleted, or the checkpoints are gone
                self._blamed[key] = []
        return self._blamed[key]

    def find_next(
        self, after: int, *, until: int, kinds: frozenset[Kind] | None = None
    ) -> Interaction | None:
        """Return the first review between two interactions, or the last decision of these kinds."""
        between = [entry for entry in self.entries if after < entry.sequence < until]
        if kinds is not None:
            return next((entry for entry in reversed(between) if entry.kind in kinds), None)
        reviews = (
            entry
            for entry in between
            if entry.kind == Kind.ASK
            and entry.observed is not None
            and entry.observed.phase == Phase.REVIEWER
        )
        return next(reviews, None)


def _list_commits(entry: Interaction) -> list[str]:
    command = MergeCommand.read(entry.command)
    return [commit for commit in (command.commit, command.after) if commit]


class _OriginFinder:
    def __init__(self, jobs: Path, git: Git, repository: Path) -> None:
        self._jobs, self._git, self._repository = jobs, git, repository
        self._commits: dict[str, _Commit] = {}
        self._histories: dict[str, _JobHistory | None] = {}
        self._by_commit: dict[str, str] | None = None

    def find_origin(self, line: BlamedLine) -> LineOrigin:
        """Return where a line came from. Raises Damaged."""
        if not line.is_committed:
            return LineOrigin(None, note="not committed")
        known = self._read_commit(line.commit)
        job_id = known.job or self._find_merged_job(line.commit)
        if job_id is None:
            return LineOrigin(line.commit, known.summary, note="not the work of a job")
        history = self._read_history(job_id)
        if history is None:
            return LineOrigin(
                line.commit,
                known.summary,
                job_id,
                note="the job is not here: it was deleted, packed, or is in another project",
            )
        merge = history.find_merge(line.commit)
        return self._find_in_job(
            history, line, merge, LineOrigin(line.commit, known.summary, job_id, merge=merge)
        )

    def _find_in_job(
        self,
        history: _JobHistory,
        line: BlamedLine,
        until: Interaction | None,
        found: LineOrigin,
        depth: int = 0,
    ) -> LineOrigin:
        same = [each for each in history.blame(line.path, until) if each.text == line.text]
        if not same:
            note = "the line is not in the files of the job: it was changed when it was merged, or the checkpoints were removed"
            return replace(found, note=note)
        nearest = min(same, key=lambda each: abs(each.number - line.old_number))
        entry = history.made_by.get(nearest.commit)
        if (entry is None or entry.kind == Kind.COLLECT) and depth < MOST_DEPTH:
            below = self._find_in_children(history, until, nearest, found, depth)
            if below is not None:
                return below
        if entry is None:
            edited = history.edited_before.get(nearest.commit)
            if edited is not None:
                return replace(found, edited_before=edited)
            return replace(found, note="the line was there before the job began")
        end = until.sequence if until is not None else history.entries[-1].sequence + 1
        return replace(
            found,
            job=history.id,
            interaction=entry,
            review=history.find_next(entry.sequence, until=end),
            decision=found.decision or history.find_next(entry.sequence, until=end, kinds=_DECISIONS),
        )

    def _find_in_children(
        self, history: _JobHistory, until: Interaction | None, line: BlamedLine, found: LineOrigin, depth: int
    ) -> LineOrigin | None:
        """Return the origin in the latest child job whose files have the line, and that wrote it itself."""
        for entry in reversed(history.entries):
            if entry.kind != Kind.COLLECT or (until is not None and entry.sequence >= until.sequence):
                continue
            for child in CollectCommand.read(entry.command).children:
                below = self._read_history(child.id) if child.id else None
                origin = None if below is None else self._find_in_job(below, line, None, found, depth + 1)
                if origin is not None and origin.interaction is not None:
                    return origin
        return None

    def _read_commit(self, commit: str) -> _Commit:
        if commit not in self._commits:
            message = self._git.run("log", "-1", "--format=%B", commit).decode("utf-8", "replace")
            lines = message.splitlines()
            named = [each.removeprefix(_TRAILER).strip() for each in lines if each.startswith(_TRAILER)]
            self._commits[commit] = _Commit(lines[0] if lines else "", named[-1] if named else None)
        return self._commits[commit]

    def _find_merged_job(self, commit: str) -> str | None:
        """Return the job whose merge made a commit without a trailer, as after a squash by hand."""
        if self._by_commit is None:
            self._by_commit = {}
            for job_id in list_job_ids(str(self._jobs)):
                for each in self._list_merges(job_id):
                    self._by_commit.setdefault(each, job_id)
        return self._by_commit.get(commit)

    def _list_merges(self, job_id: str) -> list[str]:
        try:
            entries: Iterator[JsonObject] = JobDir.open(self._jobs, job_id).read_entries()
            merges = [entry for entry in entries if entry.get("kind") == Kind.MERGE]
        except LogistError:
            return []  # damaged: it is reported if a commit names this job
        commands = (entry.get("command") or {} for entry in merges)
        return [
            str(command[name]) for command in commands for name in ("commit", "after") if command.get(name)
        ]

    def _read_history(self, job_id: str) -> _JobHistory | None:
        if job_id not in self._histories:
            try:
                job = JobDir.open(self._jobs, job_id)
            except UsageError:
                self._histories[job_id] = None
            else:
                self._histories[job_id] = _JobHistory(job)
        return self._histories[job_id]


_DECISIONS = frozenset({Kind.APPROVE})
