"""`--logist-record rewrite`: calls the configured agent again for a recorded history, and replaces the history."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from pathlib import Path

import pytest

from logist.cli import context
from logist.cli.show.render import clean_for_terminal
from logist.config.environment import Environment
from logist.core.history import fold
from logist.core.machine import kinds
from logist.core.model import EffectiveSpec, Interaction, JobSpec, JsonObject, Kind
from logist.core.model.commands import CreateCommand, RerunCommand, RestepCommand, RoleCommand
from logist.core.money.amounts import format_money
from logist.core.text.counts import format_count
from logist.errors import LogistError
from logist.jobs.archive import fixture_export, job_fixture
from logist.jobs.archive.recorded_jobs import Archive
from logist.jobs.base.create import ChildOrigin, create_job
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import load_session
from logist.jobs.doctor import repairs
from logist.jobs.step_job import GivenAnswer, do_poststep, do_step
from logist.jobs.steward import job_edits, role_switch, steward_decisions
from logist.jobs.turn.next_request import Choice
from logist.quick_dataclass import dataclass
from logist.store import HISTORY, files
from logist.testing.replayed import DiffersError, Replay
from logist.workspace import Workspace

BEFORE = fixture_export.BEFORE
"""Name of the copy of the old history; an older copy of that name is kept with a number."""
START = "workspace"
"""Folder next to the history with the files of the workspace at the start."""
OWN = ("job.yaml", "state.json", "git")
"""Files that a job has, but a fixture doesn't."""


class NotRecordedError(Exception):
    """The old history was not replaced; the message says why."""


@dataclass(frozen=True)
class Rewritten:
    """A history that was recorded again."""

    asks: int
    microcents: int
    """Their cost."""
    changes: tuple[str, ...]
    """Interactions with a different result than in the old history, and what was left out, as text."""

    def format_lines(self, name: str) -> Iterator[str]:
        """The summary for a person."""
        yield f"{name}: recorded again with {format_count(self.asks, 'request')} ({format_money(self.microcents)}); old history saved as {BEFORE}"
        yield from (f"  {change}" for change in self.changes)


@dataclass
class _Course:
    """The new job while it repeats the old history."""

    project: ProjectContext
    job_id: str
    start: Path | None
    asked: dict[tuple[str, ...], object] = field(default_factory=dict)
    """The values of the old job.yaml so far, by the paths of its fields."""
    numbers: dict[int, int] = field(default_factory=dict)
    """Maps numbers of old interactions to those in the new history."""
    asks: int = 0
    microcents: int = 0
    changes: list[str] = field(default_factory=list)


def rewrite_history(project: ProjectContext, archive: Archive, say: Callable[[str], None]) -> Rewritten:
    """Repeat the requests of `archive` with the current prompts, and replace it with the result.

    Steps run as by `job step`; a decision of a person is repeated if the job has the same status as before.
    Raises NotRecordedError if that is impossible; the old history and the new answers are then kept.
    """
    entries = list(archive.read_interactions())
    _require_fixture(archive, entries)
    manifest = job_fixture.read_manifest(archive.path.parent)
    scratch = Path(tempfile.mkdtemp(prefix="logist-record-"))
    start = archive.path.parent / START
    course = _Course(
        replace(project, jobs_dir=scratch / "jobs"),
        manifest.job if manifest else archive.path.parent.name,
        start if start.is_dir() else None,
    )
    try:
        _repeat_history(course, entries, scratch)
        fixture_folder = scratch / "fixture"
        redacted = manifest.redacted if manifest else False
        fixture_export.export_fixture(
            course.project, course.project.open_job(course.job_id), fixture_folder, redacted=redacted
        )
        _replace_fixture(fixture_folder, archive.path)
    except (LogistError, NotRecordedError) as error:
        raise NotRecordedError(
            f"{archive.name} not changed: {error}{_describe_kept_answers(course)}"
        ) from error
    except BaseException:  # an interrupted run
        say(f"{archive.name} not changed: the run was interrupted{_describe_kept_answers(course)}")
        raise
    shutil.rmtree(scratch)
    return Rewritten(course.asks, course.microcents, tuple(course.changes))


def _describe_kept_answers(course: _Course) -> str:
    """Describe where the paid but unused answers are kept; empty if there are none."""
    if not course.asks:
        shutil.rmtree(course.project.jobs_dir.parent)
        return ""
    cost = f"{format_count(course.asks, 'request')}, {format_money(course.microcents)}"
    return f"; the new answers ({cost}) are kept in {course.project.jobs_dir}"


def _require_fixture(archive: Archive, entries: list[Interaction]) -> None:
    """Raise NotRecordedError for histories that can't be recorded again from their entries alone."""
    folder = archive.path.parent
    if archive.path.name != HISTORY or any((folder / name).exists() for name in OWN):
        fix = "create a fixture first: logist job export JOB --fixture DIR"
        raise NotRecordedError(
            f"{archive.name} is not a fixture, and only fixtures can be recorded again; {fix}"
        )
    for entry in entries:
        if entry.kind in kinds.NEEDS_MORE:
            raise NotRecordedError(
                f"{archive.name} not changed: interaction {entry.sequence} ({entry.kind}) can't be repeated from a history alone"
            )
    asks = [entry for entry in entries if entry.kind is Kind.ASK]
    if not entries or entries[0].spec is None or not asks:
        raise NotRecordedError(f"{archive.name} not changed: it has no requests to an agent")
    if not (folder / START).is_dir() and any(_read_listed_files(asks[0])):
        first = ", ".join(list(_read_listed_files(asks[0]))[:3])
        raise NotRecordedError(
            f"{archive.name} not changed: its workspace had files at the start ({first}); "
            f"put them into {folder / START}"
        )


def _read_listed_files(ask: Interaction) -> Iterator[str]:
    """Yield the files in the listing of an agent's prompt."""
    for part in ask.request.parts:
        if part.source == "listing":
            lines = ask.request.prompt[part.start : part.end].split("\n")
            yield from (line.removeprefix("- ") for line in lines if line.startswith("- "))


def _repeat_history(course: _Course, entries: list[Interaction], scratch: Path) -> None:
    first, spec = entries[0], entries[0].spec
    assert spec
    fields = repairs.as_asked(spec)
    course.asked = _flatten_fields(fields)
    job_spec = JobSpec.model_validate({**fields, "repo": False})
    draft = bool(CreateCommand.read(first.command).draft)
    create_job(
        course.project, course.job_id, job_spec, draft=draft, child=_build_beginning(course, spec, scratch)
    )
    for entry in entries[1:]:
        if not _repeat_interaction(course, entry):
            break


def _build_beginning(course: _Course, spec: EffectiveSpec, scratch: Path) -> ChildOrigin:
    """Return the start of the job: the original files as a checkpoint, and the frozen workflow."""
    workspace = Workspace(scratch / "start", scratch / "git")
    workspace.populate(None)
    if course.start is not None:
        shutil.copytree(course.start, scratch / "start", symlinks=True, dirs_exist_ok=True)
    commit = workspace.create_checkpoint("start").commit
    return ChildOrigin(scratch / "git", scratch / "start", commit, spec.workflow)


def _repeat_interaction(course: _Course, entry: Interaction) -> bool:
    """Repeat what `entry` did; return False if the job makes no more requests."""
    if entry.kind is Kind.SPEC:
        _repeat_spec_change(course, entry)
        return True
    if entry.kind is Kind.HALT or (entry.kind is Kind.ASK and not entry.simulated):
        result = do_step(course.project, course.job_id, Choice())
        if not result.entries:
            course.changes.append(
                f"the job ended before interaction {entry.sequence}, with status {result.state.status}"
            )
            return False
    elif entry.kind is Kind.ASK:
        answer = GivenAnswer(entry.response.raw_response, broken=entry.response.finish == "broken_encoding")
        result = do_poststep(course.project, course.job_id, answer, Choice())
    else:
        result = _repeat_decision(course, entry)
    _record_outcome(course, entry, result)
    return True


def _repeat_spec_change(course: _Course, entry: Interaction) -> None:
    """Repeat a person's changes of job.yaml; role files and config are used in their current version."""
    assert entry.spec
    fields = _flatten_fields(repairs.as_asked(entry.spec))
    changes = {
        path: fields.get(path)
        for path in {*fields, *course.asked}
        if fields.get(path) != course.asked.get(path)
    }
    course.asked = fields
    if changes:
        job_edits.configure_job(course.project, course.job_id, changes)


def _flatten_fields(asked: JsonObject) -> dict[tuple[str, ...], object]:
    """Return the fields of a job.yaml by their paths; only the limits are nested."""
    limits = asked.get("limits") or {}
    top_fields: dict[tuple[str, ...], object] = {
        (key,): value for key, value in asked.items() if key not in ("limits", "workflow")
    }
    return {**top_fields, **{("limits", name): value for name, value in limits.items()}}


def _record_outcome(course: _Course, entry: Interaction, result: CommandResult) -> None:
    """Record the outcome. Raises NotRecordedError for a request without an answer."""
    course.numbers[entry.sequence] = result.entries[-1].sequence
    for made in result.entries:
        if made.kind is Kind.ASK and not made.simulated:
            course.asks += 1
            course.microcents += fold.usage_microcents(made.usage)
        error = made.response.error
        if error is not None and entry.response.error is None:
            raise NotRecordedError(f"no answer for interaction {entry.sequence}: {error.message}")
    status = result.state.status
    if status is not entry.state_after:
        course.changes.append(f"interaction {entry.sequence}: was {entry.state_after}, now {status}")


def _repeat_decision(course: _Course, entry: Interaction) -> CommandResult:
    """Repeat a person's decision, if the job has the same status as before."""
    project, job_id, command = course.project, course.job_id, kinds.command_of(entry)
    status = load_session(project, project.open_job(job_id)).state.status
    if status is not entry.state_before:
        raise NotRecordedError(
            f"can't repeat interaction {entry.sequence} ({entry.kind}): the job was {entry.state_before}, "
            f"and now it is {status}"
        )
    note = entry.steward.note if entry.steward else None
    if isinstance(command, RestepCommand):
        to = course.numbers.get(command.to or 0, 0)
        return steward_decisions.restep_job(project, job_id, to, note=note)
    if isinstance(command, RerunCommand):
        clean, keep = command.clean_git is not False, bool(command.keep_files)
        return steward_decisions.rerun_job(project, job_id, clean=clean, keep_files=keep, note=note)
    if isinstance(command, RoleCommand):
        name = command.to if command.source == "switch" else None
        return role_switch.switch_role(project, job_id, name, note=note)
    if entry.kind in kinds.DECISIONS:
        options = command.model_copy(update={"note": None})
        return steward_decisions.record_decision(project, job_id, entry.kind, note=note, command=options)
    raise NotRecordedError(f"can't repeat interaction {entry.sequence} ({entry.kind})")


def _replace_fixture(made: Path, history: Path) -> None:
    """Replace both files, the manifest last: after an interruption it shows that the two don't match."""
    mode = history.stat().st_mode & 0o777
    before = history.with_name(BEFORE)
    if before.exists():
        numbers = itertools.count(2)
        others = (before.with_name(f"jobHistory.before-{number}.json") for number in numbers)
        before.rename(next(path for path in others if not path.exists()))
    files.replace_file(before, history.read_bytes(), mode)
    for name in (HISTORY, job_fixture.MANIFEST):
        files.replace_file(history.with_name(name), (made / name).read_bytes(), mode)


class Rewrite(Replay):
    """One history that is recorded again and then replayed, with the test id of its replay."""

    def setup(self) -> None:
        """Do nothing: the history is recorded before it is replayed."""

    def runtest(self) -> None:
        try:
            rewritten = rewrite_history(_load_project(self.config), self.archive, self._add_summary_line)
        except (NotRecordedError, LogistError) as error:
            raise DiffersError(str(error)) from error
        for line in rewritten.format_lines(self.archive.name):
            self._add_summary_line(line)
        super().setup()
        super().runtest()

    def _add_summary_line(self, line: str) -> None:
        self.config.stash.setdefault(TOLD, []).append(clean_for_terminal(line))


TOLD = pytest.StashKey[list[str]]()
"""Lines about recorded histories, for the summary of the run."""
_PROJECT = pytest.StashKey[ProjectContext]()


def _load_project(config: pytest.Config) -> ProjectContext:
    """Return the project of the current directory, as for `job step`; the same for the entire run."""
    if _PROJECT not in config.stash:
        config.stash[_PROJECT] = context.open_project(Environment.from_process())
    return config.stash[_PROJECT]
