"""`job export --fixture`: a history as a directory that can be shared, and that replays as the original does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from logist import __version__
from logist.core import share
from logist.core.model import JsonObject
from logist.core.replay import Difference
from logist.core.share import Private, Replacing
from logist.errors import Damaged, Refused, ReplayDiffers, StorageError, UsageError
from logist.jobs import fixtures, leaking
from logist.jobs.archives import Archive
from logist.jobs.fixtures import HISTORY, MANIFEST, Manifest, Moves, transition
from logist.jobs.project import Project
from logist.jobs.replaying import Replayed, replay_archive
from logist.store import JobDir, files
from logist.store.entries import CLOSING, header_line, seal

BEFORE = "jobHistory.before.json"
"""What the history of a fixture was before it was recorded again."""
JOB_DIR = "${JOB_DIR}"
"""Stands for the directory of the job."""
ROUNDS = 3
"""How often an interaction is looked through: what was taken out may have stood between the parts of a secret."""
TOLD = 10
"""Places of secrets that are named one by one."""
SAME = ("status", "actions", "finish", "redactions")
"""Of a response: what has to be as it was, to the letter."""


@dataclass(frozen=True)
class Exported:
    """A fixture that was written."""

    path: Path
    manifest: Manifest
    differences: int
    """Interactions that go another way today, in the original as in the fixture."""
    skipped: int
    """Interactions that were not replayed: only a newer Logist knows them whole."""


@dataclass
class _Survey:
    """What a first reading tells of a history."""

    count: int = 0
    head: str = ""
    places: dict[str, str] = field(default_factory=dict)
    """Directories the job lay in."""
    named: set[str] = field(default_factory=set)
    """Hashes of entries that other entries name."""


@dataclass
class _Written:
    """What the second reading has made."""

    head: str = ""
    transitions: Moves = field(default_factory=Moves)
    leaks: list[str] = field(default_factory=list)
    """Where secrets were found, in words."""
    more: int = 0


def export(
    project: Project, job: JobDir, folder: Path, *, redacted: bool = False, force: bool = False
) -> Exported:
    """Writes the job's history to `folder`, which is made; whole or not at all. Takes no lock.

    One interaction is in memory at a time, and of each a line for the manifest. Raises UsageError for a folder
    that won't do, Refused where a secret is still in what would be written, ReplayDiffers where the result does
    not go the way of the original.
    """
    folder = Path(os.path.realpath(folder))
    _require_place(project, job, folder, redacted=redacted, force=force)
    try:
        return _exported(project, job, folder, redacted=redacted)
    except RecursionError as error:
        message = "an interaction is nested too deep to be exported; nothing was written"
        raise Refused(message, where=str(job.history_file)) from error


def _exported(project: Project, job: JobDir, folder: Path, *, redacted: bool) -> Exported:
    private = _private(project) if redacted else None
    survey = _surveyed(job, private)
    replacing = Replacing(survey.places, private)
    with _beside(folder) as made:
        written = _Written()
        secrets = {**leaking.known(project), **replacing.known}
        files.replace_chunks(made / HISTORY, _lines(job, survey, replacing, secrets, written))
        replacing.look(job.id)
        name = replacing.text(job.id)
        for _, kind in (*share.leaks({"job": name}, name, secrets), *_unmatched({"job": name}, replacing)):
            _keep(written, f"the id of the job: {kind}")
        _require_clean(job.id, written, redacted=redacted)
        original, copy = _replayed(project, job, made, survey.count)
        manifest = Manifest(
            logist=__version__,
            job=name,
            head=survey.head,
            fixture_head=written.head,
            interactions=survey.count,
            redacted=redacted,
            replaced=replacing.stand_ins.counts,
            transitions=written.transitions,
            certified=True,
        )
        fixtures.write(made, manifest)
        _publish(made, folder)
    return Exported(folder, manifest, len({each.sequence for each in original}), len(copy.skipped))


def _private(project: Project) -> Private:
    patterns = [re.compile(pattern) for pattern in project.settings.redact.patterns]
    private = Private(leaking.known(project), patterns, [os.uname().nodename])
    private.user(project.steward)
    private.text(project.environment.child().get("HOME", ""))  # its owner may act under another name
    return private


def _surveyed(job: JobDir, private: Private | None) -> _Survey:
    """The first reading; Damaged for a history that does not verify or is empty."""
    found = _Survey()
    if private is not None:
        private.line(job.id)
    for place in (str(job.path), os.path.realpath(job.path)):
        found.places[place] = JOB_DIR
    for entry in job.entries():
        found.count, found.head = entry["sequence"], entry["checksum"]
        lay, exchange = entry.get("workspace_path"), entry.get("exchange")
        if isinstance(lay, str) and lay.endswith("/workspace") and lay.count("/") > 2:
            found.places[lay.removesuffix("/workspace")] = JOB_DIR
        if isinstance(exchange, str):
            found.named.add(exchange)
        if private is not None:
            _look(entry, private)
    if not found.count:
        raise Damaged("the history is empty", where=str(job.history_file), fix="restore it from a backup")
    return found


def _look(entry: JsonObject, private: Private) -> None:
    private.line(files.dump_json(entry).decode())
    for each in share.texts(entry):
        private.text(each.text)
    steward = entry.get("steward")
    if isinstance(steward, dict) and isinstance(steward.get("name"), str):
        private.user(steward["name"])


def _unmatched(entry: JsonObject, replacing: Replacing) -> list[tuple[str, str]]:
    """What patterns still find in what would be written, as `leaks` tells it."""
    return [(place, "what redact.patterns finds") for place in share.unmatched(entry, replacing)]


def _lines(
    job: JobDir, survey: _Survey, replacing: Replacing, secrets: dict[str, str], written: _Written
) -> Iterator[bytes]:
    """The second reading: the bytes of the new history."""
    hashes: dict[str, str] = {}
    previous: str | None = None
    yield header_line()
    for entry in islice(job.entries(), survey.count):
        number = entry["sequence"]
        made = share.changed(entry, replacing, hashes)
        for _ in range(ROUNDS if replacing.redacts else 1):
            complete, line = seal(made, number, previous)
            leaks = [*share.leaks(complete, line.decode(), secrets), *_unmatched(complete, replacing)]
            if not leaks:
                break
            made = share.changed(made, replacing, {})
        previous = complete["checksum"]
        if entry["checksum"] in survey.named:
            hashes[entry["checksum"]] = complete["checksum"]
        _require_same(entry, complete)
        written.transitions.append(transition(complete))
        for place, kind in leaks:
            _keep(written, f"interaction {number}, {place}: {kind}")
        if not written.leaks:  # what is refused later does not even lie on the disk meanwhile
            yield b"%b%b\n" % (b"," if number > 1 else b"", line)
    if previous is None or number != survey.count:
        raise Damaged(f"the history ends before interaction {survey.count}", where=str(job.history_file))
    written.head = previous
    yield CLOSING


def _keep(written: _Written, leak: str) -> None:
    if len(written.leaks) < TOLD:
        written.leaks.append(leak)
    else:
        written.more += 1


def _require_same(entry: JsonObject, made: JsonObject) -> None:
    """ReplayDiffers unless the job moves as it did, and the answer was the same in all that decides."""
    number = entry["sequence"]
    if transition(entry) != transition(made):
        raise _differs(number, "the state", "a secret or a name is a word of the history's own")
    was, now = entry.get("response") or {}, made.get("response") or {}
    for name in SAME:
        if was.get(name) != now.get(name):
            raise _differs(number, f"response.{name}", "a secret or a name is a word of the history's own")
    if len(was.get("evidence_files") or ()) != len(now.get("evidence_files") or ()):
        raise _differs(number, "response.evidence_files", "two names became one")


def _differs(number: int, where: str, why: str) -> ReplayDiffers:
    message = f"interaction {number}: {where} would not be what it was; nothing was written ({why})"
    return ReplayDiffers(message, fix="export it without --redact, or change redact.patterns")


def _require_clean(job_id: str, written: _Written, *, redacted: bool) -> None:
    """Refused where a secret would be written; where it stands is told, and nothing of it."""
    if not written.leaks:
        return
    fix = f"logist job export --job {job_id} --fixture DIR --redact"
    if redacted:
        fix = f"'logist job history --job {job_id}' shows it; a pattern in redact.patterns can take it out"
    more = f", and {written.more} more places" if written.more else ""
    error = Refused(
        f"a secret is in what would be written: {written.leaks[0]}{more}; nothing was written", fix=fix
    )
    error.details = tuple(Refused(f"also in {leak}") for leak in written.leaks[1:])
    raise error


def _replayed(project: Project, job: JobDir, made: Path, count: int) -> tuple[list[Difference], Replayed]:
    """What differs today in the original, and the replay of the fixture, which must be the same."""
    copy = replay_archive(Archive("the fixture", made / HISTORY), project.schema)
    if copy.error:
        raise copy.error
    original = replay_archive(Archive.of(job), project.schema)
    here = [each for each in original.differences if each.sequence <= count]
    as_before = {(each.sequence, each.field) for each in here}
    for each in copy.differences:
        if (each.sequence, each.field) not in as_before:
            raise _differs(each.sequence, each.field, "its replay goes another way than that of the original")
    if len(copy.differences) != len(here):
        raise _differs(here[0].sequence, here[0].field, "the original goes another way today, and this not")
    return here, copy


def _require_place(project: Project, job: JobDir, folder: Path, *, redacted: bool, force: bool) -> None:
    """UsageError for a folder that a fixture can't be written to."""
    where = "--fixture"
    if folder.is_relative_to(os.path.realpath(job.path)):
        raise UsageError("a fixture does not lie in the job itself", where=where, fix="name another DIR")
    if folder.is_relative_to(os.path.realpath(project.jobs_dir)):
        raise UsageError("a fixture does not lie among the jobs", where=where, fix="name another DIR")
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is no directory", where=where, fix="name another DIR")
    with files.storage(folder):
        holds = sorted(os.listdir(folder))
    if not holds:
        return
    manifest = fixtures.read(folder) if MANIFEST in holds else None
    if manifest is None:
        message = f"{folder} is not empty, and holds no fixture"
        raise UsageError(message, where=where, fix="name a DIR that is empty or not there")
    if not force:
        raise UsageError(f"{folder} holds a fixture", where=where, fix="--force writes it again")
    _require_replaceable(manifest, holds, job, folder, redacted=redacted)


def _require_replaceable(
    manifest: Manifest, holds: list[str], job: JobDir, folder: Path, *, redacted: bool
) -> None:
    """UsageError where a fixture that is there is of another job, or what is private would come or stay there."""
    where, fix = "--fixture", "name another DIR"
    if not any(entry["checksum"] == manifest.head for entry in job.entries()):
        raise UsageError(f"{folder} holds a fixture of another job, {manifest.job}", where=where, fix=fix)
    if manifest.redacted and not redacted:
        message = f"{folder} holds a fixture that was redacted"
        raise UsageError(message, where=where, fix=f"give --redact too, or {fix}")
    older = [name for name in holds if name.startswith(BEFORE.removesuffix(".json"))]
    if redacted and not manifest.redacted and older:
        message = f"{folder / older[-1]} is not redacted, and would stay there"
        raise UsageError(message, where=where, fix=f"move it away, or {fix}")


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A directory beside `folder` to write to; it is gone afterwards, unless it was put in its place."""
    with files.storage(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    made = folder.with_name(f".{folder.name}.{os.urandom(6).hex()}{files.TEMPORARY}")
    if not files.make_directory(made):
        raise StorageError("the temporary directory is taken", where=str(made), fix="run it again")
    try:
        yield made
    finally:
        files.remove_tree(made)


def _publish(made: Path, folder: Path) -> None:
    """One rename puts all of it there. Of a fixture that was there, each file is replaced, the manifest last:
    until then it says that the history is not the one it was written for.
    """
    with files.storage(folder):
        if folder.is_dir() and os.listdir(folder):
            for name in (HISTORY, MANIFEST):
                os.rename(made / name, folder / name)
            files.sync_directory(folder)
        else:
            os.rename(made, folder)
            files.sync_directory(folder.parent)
