"""Finds where lines of a merged file come from: the job, the interaction, and what was decided about its work.

git names the commit of a line, the commit names its job, and the history of that job proves it: its chain is verified, and it
names the commit that was merged. Then the checkpoints of the job show which interaction wrote the line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from logist.core.model import Actor, Interaction, Kind
from logist.core.model.commands import CollectCommand, MergeCommand, UpdateCommand
from logist.core.money import amounts
from logist.core.text.ids import is_job_id
from logist.errors import Damaged, InvalidFile, Refused, StorageError, UsageError
from logist.jobs.base import cleaned_files
from logist.jobs.base.job_reader import read_interactions
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.workspace import line_blame
from logist.workspace import merge as publishing
from logist.workspace.files import file_names
from logist.workspace.git import Git

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.workspace.line_blame import BlamedLine
    from logist.workspace.merge import Target

MOST_BYTES = 16 << 20
TRAILER = b"Logist-Job: "
BINARY = 8000
"""git takes a file for binary if one of its first bytes is 0."""


class RecordedCheck(NamedTuple):
    """The result of a check of the work."""

    name: str
    outcome: str
    interaction: int


class RecordedDecision(NamedTuple):
    """What a steward decided about the work."""

    kind: str
    interaction: int
    steward: str | None
    override: bool


class WorkStep(NamedTuple):
    """The interaction that wrote a line."""

    job: str
    interaction: int
    kind: str
    by: str
    """`agent`, `hand` (an answer that a person supplied), `edit` (files that a person or the setup changed before the
    interaction), `steward`, `system`, or `start` (the files that the job began with)."""
    step: str | None
    role: str
    model: str
    parts: tuple[str, ...]
    """The parts of the prompt that were given for this task, by their source."""
    cost_microcents: int
    timestamp: str


class LineOrigin(NamedTuple):
    """Where consecutive lines come from."""

    first: int
    last: int
    commit: str
    """"" if they are not committed."""
    kind: str
    """`job`, `person`, `uncommitted`, or `unknown` (a job of which not enough is here)."""
    message: str = ""
    """Why it is not known, or not from a job."""
    job: str | None = None
    """The job with which the lines were merged; a child of it may have written them."""
    recorded: bool = False
    """Whether the history of the job names the commit; otherwise only the message of the commit names the job."""
    work: WorkStep | None = None
    checks: tuple[RecordedCheck, ...] = ()
    decisions: tuple[RecordedDecision, ...] = ()


class CheckedJob(NamedTuple):
    """What is known of the history of a job."""

    id: str
    interactions: int
    problem: str | None
    is_damaged: bool = False


class FileOrigins(NamedTuple):
    """The origins of the lines of a file."""

    path: str
    origins: list[LineOrigin]
    jobs: list[CheckedJob]


@dataclass
class _JobWork:
    """What the history of a job says about its checkpoints; it is verified while it is read."""

    id: str
    git: Git
    interactions: int = 0
    last: str = ""
    """The last checkpoint."""
    steps: dict[str, WorkStep] = field(default_factory=dict)
    """By checkpoint: the interaction in which it appeared first."""
    merged: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By commit in a repository of the user: the checkpoint that was merged, and the interaction."""
    checks: list[RecordedCheck] = field(default_factory=list)
    decisions: list[RecordedDecision] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    """The commits of the source that the work was based on."""

    def add_entry(self, entry: Interaction) -> None:
        self.interactions = entry.sequence
        for checkpoint, is_after in ((entry.checkpoint_before, False), (entry.checkpoint_after, True)):
            if checkpoint and checkpoint not in self.steps:
                is_start = not self.steps and (entry.kind is Kind.CREATE or not is_after)
                self.steps[checkpoint] = _describe_step(self.id, entry, is_after=is_after, is_start=is_start)
                if is_start:
                    self.sources.append(checkpoint)
        self.last = entry.checkpoint_after or entry.checkpoint_before or self.last
        for check in entry.observed.checks if entry.observed else ():
            self.checks.append(RecordedCheck(check.check, check.outcome, entry.sequence))
        self._add_command(entry)

    def _add_command(self, entry: Interaction) -> None:
        if entry.kind is Kind.APPROVE:
            name = entry.steward.name if entry.steward else None
            override = bool(entry.command.get("override"))
            self.decisions.append(RecordedDecision(entry.kind.value, entry.sequence, name, override))
        elif entry.kind is Kind.COLLECT:
            self.children += [child.id for child in CollectCommand.read(entry.command).children]
        elif entry.kind is Kind.UPDATE:
            after = UpdateCommand.read(entry.command).after
            self.sources += [after] if after else []
        elif entry.kind is Kind.MERGE:
            merge = MergeCommand.read(entry.command)
            for commit in (merge.commit, merge.after) if not merge.conflicts and merge.commit else ():
                if commit:
                    self.merged.setdefault(commit, (self.last, entry.sequence))


def _describe_step(job: str, entry: Interaction, *, is_after: bool, is_start: bool) -> WorkStep:
    if is_start:
        by = "start"
    elif not is_after:
        by = "edit"
    elif entry.kind is Kind.ASK:
        by = "hand" if entry.simulated else "agent"
    else:
        by = "steward" if entry.actor is Actor.STEWARD else "system"
    metadata = entry.request.metadata
    return WorkStep(
        job,
        entry.sequence,
        entry.kind.value,
        by,
        entry.step,
        str(metadata.get("role") or "") if by in ("agent", "hand") else "",
        str(metadata.get("provider_model") or "") if by == "agent" else "",
        tuple(dict.fromkeys(part.source for part in entry.request.parts if part.kind == "given")),
        amounts.join_cents(entry.usage.cost_cents, entry.usage.cost_microcents) if by == "agent" else 0,
        entry.timestamp,
    )


def find_origins(
    project: ProjectContext, file: Path, first: int | None = None, last: int | None = None
) -> FileOrigins:
    """Find where the lines of a file of the user's repository come from; by default, all lines.

    Raises UsageError if there is no such file in a repository, or no such line.
    """
    target, path = _find_in_repository(project, file)
    content = _read_file(file)
    lines = line_blame.blame_work_tree(target, path, content)
    begin, end = first or 1, last or first or len(lines)
    if end > len(lines):
        raise UsageError(f"no line {end}: the file has {len(lines)}", where=str(file))
    finder = _OriginFinder(project, target)
    origins: list[LineOrigin] = []
    for number in range(begin, end + 1):
        found = finder.find_origin(lines[number - 1])._replace(first=number, last=number)
        if origins and origins[-1]._replace(first=number, last=number) == found:
            origins[-1] = origins[-1]._replace(last=number)
        else:
            origins.append(found)
    return FileOrigins(file_names.to_display(path), origins, finder.list_jobs())


def _find_in_repository(project: ProjectContext, file: Path) -> tuple[Target, bytes]:
    if file.is_symlink() or not file.is_file():
        what = (
            "a symbolic link: use the file that it leads to"
            if file.is_symlink()
            else "file not found"
            if not os.path.lexists(file)
            else "not a regular file"
        )
        raise UsageError(what, where=str(file))
    real = file.parent.resolve() / file.name
    try:
        target = publishing.find_target(real.parent, project.environment.git_config_files())
    except UsageError as error:
        fix = "name a file in the repository that the work was merged into"
        raise UsageError("the file is not in a git repository", where=str(file), fix=fix) from error
    if target.top is None or not real.is_relative_to(target.top.resolve()):
        raise UsageError("the file is not in the work tree of its git repository", where=str(file))
    path = os.fsencode(real.relative_to(target.top.resolve()))
    if target.head is None or target.git.run_for_status("cat-file", "-e", b"HEAD:" + path)[0]:
        raise UsageError(
            "the checked-out commit doesn't have this file", where=str(file), fix="commit the file first"
        )
    return target, path


def _read_file(file: Path) -> bytes:
    try:
        content = read_regular(file, MOST_BYTES)
    except OSError as error:
        raise InvalidFile(f"can't read the file: {error.strerror or error}", where=str(file)) from error
    if b"\0" in content[:BINARY]:
        raise UsageError("a binary file has no lines", where=str(file))
    return content


class _OriginFinder:
    """Finds the origins of lines of one file; each commit, job and blame is read once."""

    def __init__(self, project: ProjectContext, target: Target) -> None:
        self._project = project
        self._target = target
        self._named: dict[str, list[str]] = {}
        self._works: dict[str, _JobWork | CheckedJob] = {}
        self._lines: dict[tuple[Path, str, bytes], list[bytes] | None] = {}
        self._blames: dict[tuple[Path, str, bytes], list[BlamedLine]] = {}

    def list_jobs(self) -> list[CheckedJob]:
        """List the jobs whose history was read, with what is wrong with it."""
        return [
            CheckedJob(name, work.interactions, None) if isinstance(work, _JobWork) else work
            for name, work in sorted(self._works.items())
        ]

    def find_origin(self, line: BlamedLine) -> LineOrigin:
        """Find where a line comes from; its number in the file is left to the caller."""
        if not line.commit:
            return LineOrigin(0, 0, "", "uncommitted", "not committed yet")
        origin = LineOrigin(0, 0, line.commit, "person", "not from a job")
        for job_id in self._list_named_jobs(line.commit):
            work = self._load_work(job_id)
            if isinstance(work, CheckedJob):
                why = f"the job {job_id} is damaged" if work.is_damaged else work.problem or ""
                origin = origin._replace(kind="unknown", message=why, job=job_id)
                continue
            try:
                found = self._find_in_job(work, line)
            except (Damaged, StorageError) as error:
                problem = f"the checkpoints of the job {job_id} can't be read: {error}"
                self._works[job_id] = CheckedJob(job_id, work.interactions, problem, is_damaged=True)
                origin = origin._replace(kind="unknown", message=f"the job {job_id} is damaged", job=job_id)
                continue
            if found is not None:
                return found
            if origin.kind == "person":
                why = f"a person changed it: the work of the job {job_id} doesn't have this line"
                origin = origin._replace(message=why)
        return origin

    def _list_named_jobs(self, commit: str) -> list[str]:
        """List the jobs that the message of a commit names: a squashed commit may name several."""
        if commit not in self._named:
            message = self._target.git.run("cat-file", "commit", commit).partition(b"\n\n")[2]
            named = (
                line.strip().removeprefix(TRAILER).decode("utf-8", "replace").strip()
                for line in message.splitlines()
                if line.strip().startswith(TRAILER)
            )
            self._named[commit] = list(dict.fromkeys(filter(is_job_id, named)))
        return self._named[commit]

    def _load_work(self, job_id: str) -> _JobWork | CheckedJob:
        if job_id not in self._works:
            self._works[job_id] = self._read_work(job_id)
        return self._works[job_id]

    def _read_work(self, job_id: str) -> _JobWork | CheckedJob:
        try:
            job = self._project.open_job(job_id)
            work = _JobWork(job_id, Git(job.git_dir, of_job=True))
            for entry in read_interactions(job):
                work.add_entry(entry)
            cleaned_files.require_files(job, "look for lines in")
        except UsageError:
            return CheckedJob(
                job_id, 0, f"the job {job_id} is not here: it was deleted, packed, or made elsewhere"
            )
        except (Damaged, InvalidFile, Refused, StorageError) as error:
            return CheckedJob(job_id, 0, str(error), isinstance(error, Damaged))
        return work

    def _find_in_job(self, work: _JobWork, line: BlamedLine) -> LineOrigin | None:
        """Find a line in the work of a job; None if the job hasn't written it."""
        checkpoint, merge = work.merged.get(line.commit, (work.last, None))
        stored = file_names.to_stored(line.path)
        theirs = self._read_lines(work.git, checkpoint, stored) if checkpoint else None
        ours = self._read_lines(self._target.git, line.commit, line.path)
        number = (
            None if theirs is None or ours is None else line_blame.find_same_line(ours, line.number, theirs)
        )
        if number is None:
            return None
        key = (work.git.git_dir, checkpoint, stored)
        if key not in self._blames:
            self._blames[key] = line_blame.blame_commit(work.git, checkpoint, stored)
        written = self._blames[key][number - 1].commit
        origin = LineOrigin(0, 0, line.commit, "job", "", work.id, merge is not None)
        step, owner = self._find_step(work, written)
        if step is None:
            if any(_is_ancestor(work.git, written, source) for source in work.sources):
                return None
            why = f"a child of the job {work.id} wrote it, and that is not here"
            return origin._replace(kind="unknown", message=why)
        if step.by == "start" or written in work.sources:
            return None
        end = merge or work.interactions
        before_merge = [each for each in owner.checks if owner is not work or each.interaction <= end]
        checks = {each.name: each for each in before_merge if each.interaction >= step.interaction}
        since = step.interaction if owner is work else 0
        decisions = tuple(each for each in work.decisions if since <= each.interaction <= end)
        return origin._replace(
            work=step, checks=tuple(checks[name] for name in sorted(checks)), decisions=decisions
        )

    def _find_step(self, work: _JobWork, checkpoint: str) -> tuple[WorkStep | None, _JobWork]:
        """Find the interaction that made a checkpoint, also of a child: a gathered checkpoint has theirs as parents."""
        for each in self._walk_family(work, set()):
            step = each.steps.get(checkpoint)
            if step is not None:
                return step, each
        return None, work

    def _walk_family(self, work: _JobWork, seen: set[str]) -> Iterator[_JobWork]:
        yield work
        for child in work.children:
            if child not in seen and is_job_id(child):
                seen.add(child)
                loaded = self._load_work(child)
                if isinstance(loaded, _JobWork):
                    yield from self._walk_family(loaded, seen)

    def _read_lines(self, git: Git, commit: str, path: bytes) -> list[bytes] | None:
        key = (git.git_dir, commit, path)
        if key not in self._lines:
            self._lines[key] = line_blame.read_lines(git, commit, path)
        return self._lines[key]


def _is_ancestor(git: Git, older: str, newer: str) -> bool:
    return git.run_for_status("merge-base", "--is-ancestor", older, newer)[0] == 0
