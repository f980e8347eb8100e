"""`job export --fixture`: writes a history as a directory that can be
shared and replays like the original.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from itertools import islice
from pathlib import Path

from logist import __version__
from logist.core.replay.replay import Difference
from logist.core.share import Replacing
from logist.errors import Damaged, Refused, StorageError, UsageError
from logist.jobs.archive import job_fixture, redaction
from logist.jobs.archive.archive_replay import Replayed, replay_archive
from logist.jobs.archive.job_fixture import MANIFEST, Manifest, Moves, read_transition
from logist.jobs.archive.recorded_jobs import Archive
from logist.jobs.archive.redaction import HistorySurvey, Leaks
from logist.jobs.base.project import ProjectContext
from logist.jobs.doctor import leaked_secrets
from logist.quick_dataclass import dataclass
from logist.store import HISTORY, JobDir, files
from logist.store.entries import CLOSING, format_header, seal_entry

BEFORE = "jobHistory.before.json"
"""The history of a fixture before it was recorded again."""


@dataclass(frozen=True)
class ExportedFixture:
    """A fixture that was written."""

    path: Path
    manifest: Manifest
    differences: int
    """Interactions that replay with a different result, in the original and in the fixture."""
    skipped: int
    """Interactions that were not replayed, because only a newer Logist knows them completely."""


@dataclass
class _Written:
    """The result of the second pass."""

    head: str = ""
    transitions: Moves = field(default_factory=Moves)
    leaks: Leaks = field(default_factory=Leaks)


def export_fixture(
    project: ProjectContext, job: JobDir, folder: Path, *, redacted: bool = False, force: bool = False
) -> ExportedFixture:
    """Write the job's history to the new directory `folder`, completely or not at all. Takes no lock.

    One interaction is in memory at a time, and one line of each for the manifest. Raises UsageError for a
    folder that can't be used, Refused if a secret is still in what would be written, ReplayDiffers if the
    result replays differently from the original.
    """
    folder = Path(os.path.realpath(folder))
    _require_usable_folder(project, job, folder, redacted=redacted, force=force)
    try:
        return _write_fixture(project, job, folder, redacted=redacted)
    except RecursionError as error:
        message = "can't export: an interaction is nested too deeply; nothing was written"
        raise Refused(message, where=str(job.history_file)) from error


def _write_fixture(project: ProjectContext, job: JobDir, folder: Path, *, redacted: bool) -> ExportedFixture:
    private = redaction.collect_private_values(project) if redacted else None
    survey = redaction.survey_history(job.id, job.history_file, job.read_entries(), private)
    replacing = Replacing(survey.places, private)
    with _make_temporary_folder(folder) as temporary:
        result = _Written()
        secrets = {**leaked_secrets.known(project), **replacing.known}
        files.replace_chunks(temporary / HISTORY, _build_lines(job, survey, replacing, secrets, result))
        name, leaks = redaction.redact_job_name(job.id, replacing, secrets)
        for leak in leaks:
            result.leaks.add_leak(leak)
        result.leaks.require_none(_suggest_fix(job.id, redacted=redacted))
        original, copy = _compare_replays(project, job, temporary, survey.count)
        manifest = Manifest(
            logist=__version__,
            job=name,
            head=survey.head,
            fixture_head=result.head,
            interactions=survey.count,
            redacted=redacted,
            replaced=replacing.stand_ins.counts,
            transitions=result.transitions,
            certified=True,
        )
        job_fixture.write_manifest(temporary, manifest)
        _move_into_place(temporary, folder)
    return ExportedFixture(folder, manifest, len({each.sequence for each in original}), len(copy.skipped))


def _build_lines(
    job: JobDir, survey: HistorySurvey, replacing: Replacing, secrets: dict[str, str], written: _Written
) -> Iterator[bytes]:
    """The second pass: yield the bytes of the new history."""
    hashes: dict[str, str] = {}
    previous: str | None = None
    yield format_header()
    for entry in islice(job.read_entries(), survey.count):
        number = entry["sequence"]
        complete, line, leaks = redaction.redact_entry(
            entry,
            replacing,
            secrets,
            hashes,
            partial(seal_entry, sequence=number, previous=previous),
            is_clean=entry["checksum"] not in survey.unclean,
        )
        previous = complete["checksum"]
        if entry["checksum"] in survey.named:
            hashes[entry["checksum"]] = complete["checksum"]
        written.transitions.append(read_transition(complete))
        for leak in leaks:
            written.leaks.add_leak(leak)
        if not written.leaks.told:  # after a leak, write nothing more to disk
            yield b"%b%b\n" % (b"," if number > 1 else b"", line)
    if previous is None or number != survey.count:
        raise Damaged(f"the history ends before interaction {survey.count}", where=str(job.history_file))
    written.head = previous
    yield CLOSING


def _suggest_fix(job_id: str, *, redacted: bool) -> str:
    """How to remove a secret."""
    if redacted:
        return f"add a pattern to redact.patterns to remove it; to see it: logist job history --job {job_id}"
    return f"logist job export --job {job_id} --fixture DIR --redact"


def _compare_replays(
    project: ProjectContext, job: JobDir, made: Path, count: int
) -> tuple[list[Difference], Replayed]:
    """The differences in the replay of the original, and the replay of the
    fixture, which must have the same ones.
    """
    copy = replay_archive(Archive("the fixture", made / HISTORY), project.schema)
    if copy.error:
        raise copy.error
    original = replay_archive(Archive.from_job(job), project.schema)
    differences = [each for each in original.differences if each.sequence <= count]
    expected = {(each.sequence, each.field) for each in differences}
    for each in copy.differences:
        if (each.sequence, each.field) not in expected:
            raise redaction.changed_entry_error(
                each.sequence, each.field, "the copy replays with a different result than the original"
            )
    if len(copy.differences) != len(differences):
        raise redaction.changed_entry_error(
            differences[0].sequence,
            differences[0].field,
            "the original replays with a different result than recorded, but the copy does not",
        )
    return differences, copy


def _require_usable_folder(
    project: ProjectContext, job: JobDir, folder: Path, *, redacted: bool, force: bool
) -> None:
    """Raise UsageError for a folder that a fixture can't be written to."""
    where = "--fixture"
    if folder.is_relative_to(os.path.realpath(job.path)):
        raise UsageError("can't write a fixture into its own job", where=where, fix="choose another DIR")
    if folder.is_relative_to(os.path.realpath(project.jobs_dir)):
        raise UsageError(
            "can't write a fixture into the jobs directory", where=where, fix="choose another DIR"
        )
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a directory", where=where, fix="choose another DIR")
    with files.convert_os_errors(folder):
        names = sorted(os.listdir(folder))
    if not names:
        return
    manifest = job_fixture.read_manifest(folder) if MANIFEST in names else None
    if manifest is None:
        message = f"{folder} is not empty and contains no fixture"
        raise UsageError(message, where=where, fix="choose an empty directory, or one that doesn't exist yet")
    if not force:
        raise UsageError(
            f"{folder} already contains a fixture", where=where, fix="use --force to overwrite it"
        )
    _require_replaceable(manifest, names, job, folder, redacted=redacted)


def _require_replaceable(
    manifest: Manifest, holds: list[str], job: JobDir, folder: Path, *, redacted: bool
) -> None:
    """Raise UsageError if the existing fixture is of another job, or private
    data would be written or remain there.
    """
    where, fix = "--fixture", "choose another DIR"
    if not any(entry["checksum"] == manifest.head for entry in job.read_entries()):
        raise UsageError(f"{folder} contains a fixture of another job, {manifest.job}", where=where, fix=fix)
    if manifest.redacted and not redacted:
        message = f"{folder} contains a redacted fixture"
        raise UsageError(message, where=where, fix=f"use --redact too, or {fix}")
    old_histories = [name for name in holds if name.startswith(BEFORE.removesuffix(".json"))]
    if redacted and not manifest.redacted and old_histories:
        message = f"{folder / old_histories[-1]} is not redacted and would remain in the fixture"
        raise UsageError(message, where=where, fix=f"move it away, or {fix}")


@contextmanager
def _make_temporary_folder(folder: Path) -> Iterator[Path]:
    """A temporary directory next to `folder`; removed afterwards, unless it was renamed to `folder`."""
    with files.convert_os_errors(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{os.urandom(6).hex()}{files.TEMPORARY}")
    if not files.make_directory(temporary):
        raise StorageError(
            "the temporary directory already exists", where=str(temporary), fix="run the command again"
        )
    try:
        yield temporary
    finally:
        files.remove_tree(temporary)


def _move_into_place(made: Path, folder: Path) -> None:
    """Put everything in place with one rename.

    In an existing fixture each file is replaced, the manifest last: until then the old manifest does not match
    the history, which readers detect.
    """
    with files.convert_os_errors(folder):
        if folder.is_dir() and os.listdir(folder):
            for name in (HISTORY, MANIFEST):
                os.rename(made / name, folder / name)
            files.sync_directory(folder)
        else:
            os.rename(made, folder)
            files.sync_directory(folder.parent)
