"""Imports a history: creates a job with it as its past, which can continue from there."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from logist import documents
from logist.core.history import newer_versions
from logist.core.history.fold import Folding
from logist.core.model import EffectiveSpec, Interaction, JobSpec, JsonObject, Kind, State
from logist.core.model.commands import CreateCommand
from logist.core.secrets.leaks import find_leaks
from logist.core.text.counts import format_count
from logist.errors import Damaged, Refused
from logist.jobs.archive import archive_replay, recorded_jobs
from logist.jobs.archive.recorded_jobs import Archive
from logist.jobs.base import family, job_names, project_home, specs
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.stored_records import dump_interaction, dump_state, parse_interaction
from logist.jobs.doctor import leaked_secrets, repairs
from logist.quick_dataclass import dataclass
from logist.store import HISTORY, JobDir, files, history, history_copy, replace_file, segments

MOST_NAMES = 1_000
LONGEST_NAME = 200
"""Maximum length of the name of the kept file, in bytes; its temporary name is longer."""
NOTED = 50
"""How many notes the history keeps."""
DIFFERENCES = 5
"""How many differences in the replay of the new job are listed."""

_ELSEWHERE = ("checkpoint_before", "checkpoint_after", "exchange")
"""Fields of an entry that refer to the directory it came from."""


@dataclass(frozen=True)
class Imported:
    """A job that was created from a history."""

    job: JobDir
    state: State
    sha256: str
    """The hash of the imported file."""
    interactions: int
    notes: tuple[str, ...]
    """What had to be rebuilt, and what was not imported."""
    differences: tuple[str, ...] = ()
    """Where the job replays with a different result: another tool may have had other rules."""


@dataclass
class _Past:
    """The history as it is written for the new job, and its fold so far."""

    project: ProjectContext
    archive: Archive
    create: JsonObject
    """Fields that are added to the command of the `create` interaction."""
    start: str
    """The checkpoint that the job begins with: an empty workspace."""
    folding: Folding
    spec: EffectiveSpec | None = None
    redacted: int = 0
    _names: dict[str, str] = field(default_factory=dict)

    def build_entries(self) -> Iterator[JsonObject]:
        """Yield the interactions as the new job has them."""
        for place, entry in enumerate(self.archive.read_interactions(), 1):
            if entry.sequence != place or (place == 1) != (entry.kind is Kind.CREATE):
                message = f"interaction {entry.sequence} ({entry.kind}) is at position {place}"
                fix = "a history must begin with its create interaction and have no gaps"
                raise Damaged(message, where=str(self.archive.path), fix=fix)
            yield self._convert_entry(entry)

    def _convert_entry(self, entry: Interaction) -> JsonObject:
        try:
            dumped = dump_interaction(entry)
        except ValueError as error:  # models raise it for values that are nested too deeply
            raise Damaged(
                f"interaction {entry.sequence} is nested too deeply", where=str(self.archive.path)
            ) from error
        converted: JsonObject = self._redact_value(dumped)
        if converted != dumped:
            self.redacted += 1
            converted["request"] = {
                **converted["request"],
                "parts": [],
            }  # they count characters that were removed
        converted = {name: value for name, value in converted.items() if name not in _ELSEWHERE}
        if "observed" in converted:
            converted["observed"] = {
                name: value for name, value in converted["observed"].items() if name != "found"
            }
        if entry.spec is not None:  # the family and the predecessors are jobs of another project
            elsewhere = {"parent", "shares_limits", "after"}.intersection(converted["spec"])
            converted["spec"] = {**converted["spec"], **dict.fromkeys(elsewhere)}
        if entry.kind is Kind.CREATE:
            command = {name: value for name, value in converted["command"].items() if name != "source"}
            converted |= {"command": {**command, **self.create}, "checkpoint_after": self.start}
        return converted

    def _redact_value(self, value: Any) -> Any:
        """The value without secrets, in the names of members too: any tool may have written the history."""
        if isinstance(value, list):
            return [self._redact_value(item) for item in value]
        if isinstance(value, dict):
            return {self._redact_name(key): self._redact_value(item) for key, item in value.items()}
        return self.project.redact_text(value) if isinstance(value, str) else value

    def _redact_name(self, name: str) -> str:
        """The name without secrets; cached, because there are few names and they repeat."""
        if name in self._names:
            return self._names[name]
        redacted_name = self.project.redact_text(name)
        if len(self._names) < MOST_NAMES:
            self._names[name] = redacted_name
        return redacted_name

    def add_written_entry(self, complete: JsonObject) -> None:
        """Fold an entry after it was written."""
        entry = parse_interaction(complete)
        self.spec = entry.spec or self.spec
        self.folding.take(entry)


def import_history(project: ProjectContext, path: Path, *, new_id: str | None = None) -> Imported:
    """Create a job from the history at `path`, a file or its directory, of any shape that can be replayed.

    The job gets a new chain and an empty workspace; the file is only read, and kept in `attachments/` byte
    for byte, unless it contains a secret. The job appears complete, or not at all. Raises UsageError, Damaged
    for a file that is not a history, Refused for an id that is taken and for a job that waits for others.
    """
    archive = recorded_jobs.find_history(Path(os.path.realpath(path)))
    if format_error := recorded_jobs.find_format_error(archive.path):
        raise format_error
    try:
        notes = [project.redact_text(line) for line in archive.read_notes()]
    except Damaged as error:  # it may quote the file
        raise Damaged(project.redact_text(error.message), where=error.where, fix=error.fix) from None
    made = job_names.create_under_free_name(
        project, new_id, _suggest_ids(archive.path), lambda name: _create_job(project, archive, name, notes)
    )
    return replace(made, differences=tuple(_describe_differences(project, made.job)))


def _describe_differences(project: ProjectContext, job: JobDir) -> Iterator[str]:
    """Describe where the job replays with a different result, one line for each interaction and field."""
    replayed = archive_replay.replay_archive(Archive.from_job(job), project.schema)
    if replayed.error:
        yield f"the replay failed: {replayed.error}"
    for each in replayed.differences[:DIFFERENCES]:
        values = f"{each.field} is {each.recorded}, but would be {each.today} now"
        yield f"interaction {each.sequence} replays with a different result: {values}: {each.cause}"
    if (more := len(replayed.differences) + replayed.more - DIFFERENCES) > 0:
        yield f"and {more} more differences; to list them: logist job replay --job {job.id}"


def _suggest_ids(path: Path) -> Iterator[str]:
    """Yield ids made from the name of the file, or of its directory; the best one first."""
    name = path.parent.name if path.name == HISTORY else path.stem
    stem = re.sub(r"[^a-zA-Z0-9_-]+", "-", name).strip("-") or "imported"
    return job_names.generate_ids(stem, ("", *(f"-{number}" for number in range(2, MOST_NAMES + 1))))


def _create_job(project: ProjectContext, archive: Archive, name: str, notes: list[str]) -> Imported:
    if project.jobs_dir.is_relative_to(project.home):
        project_home.ensure_project_home(project.home)
    with JobDir.create_job(project.jobs_dir, name) as job:
        start = project.open_workspace(job).populate(None)
        digest = recorded_jobs.hash_history_file(archive.path)
        create = CreateCommand(imported=digest, notes=notes[:NOTED] or None).write()
        past = _Past(project, archive, create, start, Folding(archive.find_restep_targets()))
        end = history_copy.rechain_history(job.history_file, past.build_entries(), past.add_written_entry)
        archive.require_complete(end.sequence)
        state = past.folding.state
        if state is None or past.spec is None:
            raise Damaged("the history is empty", where=str(archive.path))
        _require_no_children(state, archive.path)
        newer_versions.refuse_to_move(state)
        replace_file(job.spec_file, _build_spec_text(project, name, past.spec).encode("utf-8"))
        if past.spec.workflow is not None:
            specs.write_frozen_workflow(job, past.spec.workflow)
        is_kept = not past.redacted and not _holds_secret(project, archive.path)
        if (
            _keep_file(job, archive.path) if is_kept else recorded_jobs.hash_history_file(archive.path)
        ) != digest:
            raise Refused(
                "the file was changed while it was read", where=str(archive.path), fix="run the command again"
            )
        job.write_state(dump_state(state, end))
    made = project.open_job(name)
    return Imported(made, state, digest, end.sequence, (*notes, *_describe_losses(past, kept=is_kept)))


def _require_no_children(state: State, path: Path) -> None:
    if family.is_waiting(state):
        names = f": {', '.join(state.children[:3])}" if state.children else ""
        message = f"can't import a job that waits for child jobs{names}"
        raise Refused(
            message,
            where=str(path),
            fix="'logist replay' and 'logist stats' can read the file without an import",
        )


def _build_spec_text(project: ProjectContext, name: str, spec: EffectiveSpec) -> str:
    """The text of a job.yaml that results in the last effective spec of the history."""
    fields = repairs.in_short(project, repairs.as_asked(spec), spec.workflow)
    JobSpec.model_validate(fields)
    return documents.dump_yaml({"id": name, **fields})


def _read_pieces(path: Path) -> Iterator[bytes]:
    with history.open_history(path) as file:
        while piece := file.read(1 << 20):
            yield piece


def _keep_file(job: JobDir, path: Path) -> str:
    """Copy the file unchanged to attachments/ and return the sha256 of the copy."""
    files.ensure_directory(job.attachments)
    target = job.attachments / (path.name if len(os.fsencode(path.name)) <= LONGEST_NAME else HISTORY)
    files.replace_chunks(target, _read_pieces(path))
    return recorded_jobs.hash_history_file(target)


def _holds_secret(project: ProjectContext, path: Path) -> bool:
    """True if a secret is anywhere in the file, even outside of the interactions."""
    text = codecs.iterdecode(_read_pieces(path), "utf-8", "surrogateescape")
    return any(True for _ in find_leaks(text, leaked_secrets.known(project)))


def _describe_losses(past: _Past, *, kept: bool) -> Iterator[str]:
    """Describe what the new job lacks, compared with the original job."""
    yield "the workspace is empty: a history does not contain the agents' files"
    if not past.redacted and not kept:
        yield "the file itself was not kept: it contains a secret outside of the interactions"
    if past.spec and not past.spec.prompt and past.spec.workflow is None:
        yield "the history has no prompt: add a `prompt` to job.yaml before the next step"
    if past.redacted:
        yield f"secrets were removed from {format_count(past.redacted, 'interaction')}, so the file itself was not kept"
    if kept and past.archive.path.name == HISTORY and segments.find_segments(past.archive.path):
        yield "only the last file of the history was kept in attachments/; the entries of all files were imported"
