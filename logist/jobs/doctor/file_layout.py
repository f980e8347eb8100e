"""The files of a job as they should lie: kinds, modes, owners, and what killed commands left among them."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote

from logist.errors import LogistError
from logist.jobs.doctor.finding import Cure, Finding, curable, damage, invalid, warning
from logist.store import JobDir, files, history, segments
from logist.store.entries import Header, read_header
from logist.workspace.checkpoint import leftovers

NAMED = 4
"""Files that a message names; of more it says how many."""

FROM_BACKUP = "put it back from a backup"


def check_name(job: JobDir) -> str:
    """What a finding about the job is filed under."""
    return f"job {job.id}"


def faults(job: JobDir) -> Iterator[Finding]:
    """What is missing, what is of the wrong kind, and who else can read or owns it."""
    closed = segments.found(job.history_file).values()
    for path in (*_files(job), job.history_file, *closed, job.restoring):
        if not _is(path, stat.S_ISREG):
            yield _foreign(job, path, "file")
    for path in (job.workspace, job.git_dir, job.logs, job.attachments, job.inflight):
        if not _is(path, stat.S_ISDIR):
            yield _foreign(job, path, "directory")
    yield from _missing(job)
    yield from _missing_segments(job)
    yield from _modes(job)
    yield from _owners(job)


def _files(job: JobDir) -> tuple[Path, ...]:
    return (job.spec_file, job.workflow_file, job.state_file, job.lock_file, job.setup_file)


def left_behind(job: JobDir) -> Iterator[Finding]:
    """What commands that were killed left. Only to be believed while nobody is at work on the job."""
    half = [*_half_written(job), *filter(os.path.lexists, [job.path / ".inflight-done"])]
    if half:
        message = f"half-written files of a command that was killed: {_names(job, half)}"
        yield curable(warning(check_name(job), message, None), Cure.TAKE_AWAY, *half)
    yield from _segments_of_nobody(job)
    stale = sorted(_stale_in_git(job.git_dir))
    if stale:
        message = f"a git that was killed left its locks: {_names(job, stale)}"
        yield curable(warning(check_name(job), message, None), Cure.TAKE_AWAY, *stale)


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether it is of that kind, or not there at all."""
    try:
        return kind(path.lstat().st_mode)
    except OSError:
        return True


def _foreign(job: JobDir, path: Path, wanted: str) -> Finding:
    what = _kind(path)
    found = damage(check_name(job), f"{path.name} is {what}, not a {wanted}", files.moving_away(path))
    if path == job.state_file:
        return curable(found, Cure.REBUILD, path)
    if path == job.workspace:
        return found
    if path.is_symlink() and wanted == "file" and path.is_file():
        name = quote(str(path))
        fix = f'cp --remove-destination "$(readlink -f {name})" {name}'
        return (warning if path == job.spec_file else damage)(found.check, found.message, fix)
    if path in (job.history_file, job.git_dir) or segments.NAME.fullmatch(path.name):
        return damage(found.check, found.message, FROM_BACKUP)
    return found


def _kind(path: Path) -> str:
    if path.is_symlink():
        return "a symbolic link"
    return "a directory" if path.is_dir() else "a file" if path.is_file() else "a pipe, socket or device"


def _missing(job: JobDir) -> Iterator[Finding]:
    name = check_name(job)
    if not os.path.lexists(job.spec_file):
        yield curable(invalid(name, "job.yaml is missing", None), Cure.RESPELL, job.spec_file)
    if not os.path.lexists(job.lock_file):
        yield curable(warning(name, "the file lock is missing", None), Cure.SIGN, job.lock_file)
    if not os.path.lexists(job.logs):
        yield curable(warning(name, "the directory logs is missing", None), Cure.MAKE, job.logs)
    if not os.path.lexists(job.git_dir):
        message = "the directory git is missing: it holds the checkpoints, and nothing else does"
        yield damage(name, message, FROM_BACKUP)


def _live(job: JobDir) -> Header | None:
    """What the first line of jobHistory.json says; None if that does not read, which is told elsewhere."""
    try:
        with history.opened(job.history_file) as file:
            return read_header(file, job.history_file)
    except LogistError:
        return None


def _missing_segments(job: JobDir) -> Iterator[Finding]:
    live = _live(job)
    for _, _, message in segments.lacking(job.history_file, live) if live else ():
        yield damage(check_name(job), f"{message}: a part of the history", FROM_BACKUP)


def _segments_of_nobody(job: JobDir) -> Iterator[Finding]:
    """Segments that jobHistory.json does not go on from. A rotation that was cut off leaves one of them."""
    live = _live(job)
    for number, path in segments.found(job.history_file).items():
        if live is None or number < live.segment or not path.is_file() or path.is_symlink():
            continue
        if _is_copy(job, number, live):
            message = f"{path.name} was left by a command that was killed; jobHistory.json holds it all"
            yield curable(warning(check_name(job), message, None), Cure.TAKE_AWAY, path)
        else:
            message = f"{path.name} does not belong to jobHistory.json, which is segment {live.segment}"
            fix = (
                f"put back the jobHistory.json that goes with it, or move it away: {files.moving_away(path)}"
            )
            yield warning(check_name(job), message, fix)


def _is_copy(job: JobDir, number: int, live: Header) -> bool:
    """Whether a segment holds nothing but what jobHistory.json begins with."""
    segment = segments.HistorySegment(job.history_file, number)
    try:
        if segment.header() != live:
            return False
        for _ in segment:
            pass
        return segment.position is not None and history.holds(job.history_file, segment.position)
    except LogistError:
        return False


def _modes(job: JobDir) -> Iterator[Finding]:
    half = set(_half_written(job))
    wrong = [path for path, status in _own_files(job) if _has_wrong_mode(status.st_mode) and path not in half]
    if wrong:
        message = f"open to other users, or closed to you: {_names(job, wrong)}"
        yield curable(warning(check_name(job), message, None), Cure.NARROW, *wrong)


def _has_wrong_mode(mode: int) -> bool:
    wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
    return bool(mode & 0o077) or mode & wanted != wanted


def _owners(job: JobDir) -> Iterator[Finding]:
    own = os.geteuid()
    foreign = sorted({status.st_uid for _, status in _own_files(job)} - {own})
    if foreign:
        message = f"files of the job belong to {', '.join(map(_user, foreign))}, and you are {_user(own)}"
        yield warning(check_name(job), message, f"chown -R {own} {quote(str(job.path))}")


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _own_files(job: JobDir) -> Iterator[tuple[Path, os.stat_result]]:
    """What Logist wrote: not the inside of workspace and git, which are closed by their directory."""
    yield job.path, job.path.lstat()
    folders = [job.path]
    while folders:
        for path, status in _entries(folders.pop()):
            if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                yield path, status
            if stat.S_ISDIR(status.st_mode) and path in (job.logs, job.attachments, job.inflight):
                folders.append(path)


def _entries(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """What is in a directory; nothing if that can't be read, which its own mode says."""
    try:
        return sorted((path, path.lstat()) for path in folder.iterdir())
    except OSError:
        return []


def _half_written(job: JobDir) -> list[Path]:
    folders = (job.path, job.logs, job.attachments, job.inflight)
    found = [path for folder in folders if not folder.is_symlink() for path, _ in _entries(folder)]
    return [path for path in found if path.name.startswith(".") and path.name.endswith(files.TEMPORARY)]


def _stale_in_git(git_dir: Path) -> Iterator[Path]:
    if git_dir.is_symlink():
        return
    for place, directories, names in os.walk(git_dir):
        directories[:] = [name for name in directories if len(name) != 2]
        for name in names:
            if name.endswith(leftovers.NAMES) or name.startswith(leftovers.PREFIXES):
                yield Path(place, name)


def _names(job: JobDir, paths: list[Path]) -> str:
    shown = [str(path.relative_to(job.path)) if path != job.path else "the job itself" for path in paths]
    more = [f"and {len(shown) - NAMED} more"] if len(shown) > NAMED else []
    return ", ".join(shown[:NAMED] + more)
