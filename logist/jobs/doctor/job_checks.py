"""What `logist doctor` checks in a job: the table of checks, and the functions that run it on one job.

Without --deep only names, modes and the ends of files are read, and no git is started.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from shlex import quote

from logist.agents.courier import ask_files
from logist.core.history import newer_versions
from logist.core.model import Status, Workflow
from logist.core.text.counts import format_count
from logist.errors import Busy, Damaged, LogistError, NewerFormat, Refused
from logist.jobs.base import job_reader, predecessors, specs
from logist.jobs.base import session as sessions
from logist.jobs.base.job_reader import Edits
from logist.jobs.base.predecessors import NamedPredecessors
from logist.jobs.base.project import Clock, ProjectContext
from logist.jobs.base.truncation import Forks
from logist.jobs.doctor import checks, repairs
from logist.jobs.doctor.checks import (
    FIX,
    FIX_DEEP,
    ExaminedJob,
    Finding,
    Fixed,
    HealthCheck,
    Repairs,
    damage,
    invalid,
    repairable,
    warning,
)
from logist.jobs.turn import answer_recording, errands
from logist.regular_files import read_regular
from logist.store import JobDir, files, history, lock, segments
from logist.store.entries import Header, read_header
from logist.timestamps import format_local
from logist.workspace.checkpoint import leftovers, objects, packs
from logist.workspace.git import Git

NAMED = 4
"""The maximum number of files that a message names; the others are counted."""
EDITS_NAMED = 5
"""The maximum number of changes of a workspace that a finding names."""
CLOCK_TOLERANCE = timedelta(minutes=1)
FROM_BACKUP = "restore it from a backup"

_CLOSING = b"\n]}\n"
_CHILD = re.compile(r"(?P<parent>.+)--\d+-\d+")
_ENDED = (Status.SUCCESS, Status.FAILED, Status.CANCELED)


def examine(project: ProjectContext, job: JobDir, *, deep: bool, forks: Forks | None = None) -> list[Finding]:
    """Return the findings about a job; one `ok` finding if there are no problems. Writes nothing.

    `forks`: as in job_reader.verify_job.
    """
    examined = ExaminedJob(project, job, deep=deep, forks=forks)
    found = [finding for _, finding in checks.diagnose(JOB_CHECKS, lambda: examined, deep=deep)]
    if found or examined.unreadable:
        return found
    edits = examined.verified.edits if deep else None
    edited = f"; {_edits_in_short(edits)}" if edits and edits.changes else ""
    removed = "" if examined.has_files() else "; without files, which `logist gc` has removed"
    return [
        Finding(
            examined.check,
            "ok",
            f"{format_count(examined.loaded.position.sequence, 'interaction')}{edited}{removed}",
        )
    ]


def repair(
    project: ProjectContext, job: JobDir, done: Repairs, *, deep: bool, forks: Forks | None = None
) -> None:
    """Repair what can be repaired safely; nothing while another process works on the job."""
    wanted = [found for found in examine(project, job, deep=deep, forks=forks) if found.paths]
    if not wanted:
        return
    name = wanted[0].check
    has_lock_file = os.path.lexists(job.lock_file)
    unsigned = [found for found in wanted if found.paths == (job.lock_file,) and not has_lock_file]
    try:
        # Not JobDir.hold_lock, which removes half-written files: they belong in the backup.
        held = lock.acquire_lock(job.path, command="logist doctor --fix", since=project.clock.timestamp())
        try:
            # Taking the lock has already created the missing lock file.
            done.fixed += [Fixed(name, f"{found.message}: {_MADE}") for found in unsigned]
            look = partial(ExaminedJob, project, job, deep=deep, held=True)
            checks.repair(JOB_CHECKS, look, done, deep=deep)
        finally:
            held.release()
    except Busy as error:
        done.left.append(warning(name, f"not repaired: {error.message}", f"when it finishes: {FIX}"))
    except LogistError as error:
        done.fail(name, error)


def clock_fault(job: JobDir, clock: Clock) -> Finding | None:
    """A finding if the job was last changed in the future."""
    try:
        stamp = str((job.read_state() or {}).get("updated_at"))
        changed = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except (LogistError, ValueError):
        return None
    if changed <= clock.now() + CLOCK_TOLERANCE:
        return None
    now, last_change = format_local(clock.timestamp()), format_local(stamp)
    message = f"the clock of this machine says {now}, but job {job.id} was last changed at {last_change}"
    return warning("clock", message, "set the clock; the order of the history does not depend on it")


def _access(examined: ExaminedJob) -> Iterator[Finding]:
    """Also checks write access, unless the file system is read-only: a check of the project reports that."""
    path = examined.job.path
    is_writable = os.access(path, os.W_OK) or os.statvfs(path).f_flag & os.ST_RDONLY
    if not (os.access(path, os.R_OK | os.X_OK) and is_writable):
        yield damage(
            examined.check, "no permission to read and write the job", f"chmod 700 {quote(str(path))}"
        )


def _history_exists(examined: ExaminedJob) -> Iterator[Finding]:
    job = examined.job
    if not os.path.lexists(job.history_file):
        is_empty = not any(job.path.iterdir())
        fix = f"rmdir {quote(str(job.path))}" if is_empty else "restore jobHistory.json from a backup"
        yield damage(examined.check, "the history is missing", fix)


def _kinds_of_files(examined: ExaminedJob) -> Iterator[Finding]:
    job = examined.job
    closed = segments.find_segments(job.history_file).values()
    own = (job.spec_file, job.workflow_file, job.state_file, job.lock_file, job.setup_file)
    for path in (*own, job.history_file, *closed, job.restoring):
        if not _is(path, stat.S_ISREG):
            yield _of_wrong_kind(examined, path, "file")
    for path in (job.workspace, job.git_dir, job.logs, job.attachments, job.inflight):
        if not _is(path, stat.S_ISDIR):
            yield _of_wrong_kind(examined, path, "directory")


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    """True if it is of that kind, or does not exist."""
    try:
        return kind(path.lstat().st_mode)
    except OSError:
        return True


def _of_wrong_kind(examined: ExaminedJob, path: Path, wanted: str) -> Finding:
    job = examined.job
    message = f"{path.name} is {_kind(path)}, not a {wanted}"
    found = damage(examined.check, message, files.format_move_command(path))
    if path == job.state_file:
        return repairable(found, path)
    if path == job.workspace:
        return found
    if path.is_symlink() and wanted == "file" and path.is_file():
        found_as = warning if path == job.spec_file else damage
        return found_as(examined.check, message, files.format_unlink_command(path))
    if path in (job.history_file, job.git_dir) or segments.NAME.fullmatch(path.name):
        return damage(examined.check, message, FROM_BACKUP)
    return found


def _kind(path: Path) -> str:
    if path.is_symlink():
        return "a symbolic link"
    return "a directory" if path.is_dir() else "a file" if path.is_file() else "a pipe, socket or device"


def _missing(
    path: Callable[[JobDir], Path], problem: Callable[[str, str, None], Finding], message: str
) -> Callable[[ExaminedJob], Iterator[Finding]]:
    """Build the diagnosis of a missing file or directory that can be recreated."""

    def diagnose(examined: ExaminedJob) -> Iterator[Finding]:
        file = path(examined.job)
        if not os.path.lexists(file):
            yield repairable(problem(examined.check, message, None), file)

    return diagnose


def _checkpoints_exist(examined: ExaminedJob) -> Iterator[Finding]:
    if not os.path.lexists(examined.job.git_dir):
        message = "the directory 'git' is missing: it contained the checkpoints of the job"
        yield damage(examined.check, message, FROM_BACKUP)


def _removed_files(examined: ExaminedJob) -> Iterator[Finding]:
    """Find a removal of files that was interrupted, or whose record is unreadable."""
    job = examined.job
    if job.is_being_cleaned():
        message = "a `logist gc` was killed while it removed the workspace, the checkpoints and the logs"
        yield warning(examined.check, message, "logist gc --older-than 30d --keep-history")
        return
    try:
        job.read_cleaned()
    except Damaged as error:
        yield damage(examined.check, f"{error.where}: {error.message}", error.fix)


def _segments(examined: ExaminedJob) -> Iterator[Finding]:
    live = _live(examined.job)
    for _, _, message in segments.find_missing_segments(examined.job.history_file, live) if live else ():
        yield damage(examined.check, f"{message}: the history is incomplete", FROM_BACKUP)


def _live(job: JobDir) -> Header | None:
    """The first line of jobHistory.json; None if it is unreadable: another row reports that."""
    try:
        with history.open_history(job.history_file) as file:
            return read_header(file, job.history_file)
    except LogistError:
        return None


def _modes(examined: ExaminedJob) -> Iterator[Finding]:
    job = examined.job
    half = set(_temporary(job))
    wrong = [path for path, status in _own_files(job) if _has_wrong_mode(status.st_mode) and path not in half]
    if wrong:
        message = f"wrong permissions, open to other users or closed to you: {_names(job, wrong)}"
        yield repairable(warning(examined.check, message, None), *wrong)


def _has_wrong_mode(mode: int) -> bool:
    wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
    return bool(mode & 0o077) or mode & wanted != wanted


def _owners(examined: ExaminedJob) -> Iterator[Finding]:
    job, own = examined.job, os.geteuid()
    foreign = sorted({status.st_uid for _, status in _own_files(job)} - {own})
    if foreign:
        message = f"files of the job belong to {', '.join(map(_user, foreign))}, but you are {_user(own)}"
        yield warning(examined.check, message, f"chown -R {own} {quote(str(job.path))}")


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _own_files(job: JobDir) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files that Logist wrote; not those in workspace and git, which their directory protects."""
    yield job.path, job.path.lstat()
    folders = [job.path]
    while folders:
        for path, status in _entries(folders.pop()):
            if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                yield path, status
            if stat.S_ISDIR(status.st_mode) and path in (job.logs, job.attachments, job.inflight):
                folders.append(path)


def _entries(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """List a directory; empty if it can't be read: its mode is reported then."""
    try:
        return sorted((path, path.lstat()) for path in folder.iterdir())
    except OSError:
        return []


def _half_written(examined: ExaminedJob) -> Iterator[Finding]:
    job = examined.job
    half = [*_temporary(job), *filter(os.path.lexists, [job.path / ".inflight-done"])]
    if half:
        message = f"half-written files left by a killed command: {_names(job, half)}"
        yield repairable(warning(examined.check, message, None), *half)


def _temporary(job: JobDir) -> list[Path]:
    folders = (job.path, job.logs, job.attachments, job.inflight)
    found = [path for folder in folders if not folder.is_symlink() for path, _ in _entries(folder)]
    return [path for path in found if path.name.startswith(".") and path.name.endswith(files.TEMPORARY)]


def _stray_segments(examined: ExaminedJob) -> Iterator[Finding]:
    """Find segments that jobHistory.json does not continue. An interrupted rotation leaves one."""
    job, live = examined.job, _live(examined.job)
    for number, path in segments.find_segments(job.history_file).items():
        if live is None or number < live.segment or not path.is_file() or path.is_symlink():
            continue
        if _is_copy(job, number, live):
            message = f"{path.name} was left by a killed command; jobHistory.json contains everything in it"
            yield repairable(warning(examined.check, message, None), path)
        else:
            message = f"{path.name} does not belong to jobHistory.json, which is segment {live.segment}"
            fix = f"restore the jobHistory.json that belongs to it, or move it away: {files.format_move_command(path)}"
            yield warning(examined.check, message, fix)


def _is_copy(job: JobDir, number: int, live: Header) -> bool:
    """True if jobHistory.json begins with everything that the segment contains."""
    segment = segments.HistorySegment(job.history_file, number)
    try:
        if segment.load_header() != live:
            return False
        for _ in segment:
            pass
        return segment.position is not None and history.has_entry(job.history_file, segment.position)
    except LogistError:
        return False


def _locks_of_git(examined: ExaminedJob) -> Iterator[Finding]:
    stale = sorted(_stale_in_git(examined.job.git_dir))
    if stale:
        message = f"lock files left by a killed git: {_names(examined.job, stale)}"
        yield repairable(warning(examined.check, message, None), *stale)


def _stale_in_git(git_dir: Path) -> Iterator[Path]:
    if git_dir.is_symlink():
        return
    for place, directories, names in os.walk(git_dir):
        directories[:] = [name for name in directories if len(name) != 2]
        for name in names:
            if name.endswith(leftovers.NAMES) or name.startswith(leftovers.PREFIXES):
                yield Path(place, name)


def _names(job: JobDir, paths: list[Path]) -> str:
    shown = [str(path.relative_to(job.path)) if path != job.path else "the job directory" for path in paths]
    more = [f"and {len(shown) - NAMED} more"] if len(shown) > NAMED else []
    return ", ".join(shown[:NAMED] + more)


def _readable(examined: ExaminedJob) -> Iterator[Finding]:
    """Report why the job can't be loaded, unless an earlier row has."""
    job, error = examined.job, examined.unreadable
    if error is None:
        return
    if error.where == str(job.state_file):
        if _is_plain(job.state_file):
            yield repairable(damage(examined.check, error.message, None), job.state_file)
        return
    if not _is_plain(job.history_file):
        return
    message = error.message
    if examined.deep:
        trusted = job_reader.verify_job(examined.project, job).proof.trusted
        extent = f"verified interactions: {trusted}" if trusted else "no interaction could be verified"
        message = f"{message}; {extent}"
    yield damage(examined.check, message, f"logist job verify --job {job.id}")


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _end_of_history(examined: ExaminedJob) -> Iterator[Finding]:
    """An incomplete end; the next change of the job also repairs it."""
    job, torn = examined.job, examined.loaded.torn
    if torn:
        message = f"the history ends with {format_count(len(torn), 'byte')} of an incomplete append"
        yield repairable(warning(examined.check, message, None), job.history_file)
    elif not _is_closed(job):
        found = warning(examined.check, "the closing line of the history is incomplete", None)
        yield repairable(found, job.history_file)


def _is_closed(job: JobDir) -> bool:
    with open(job.history_file, "rb") as file:
        file.seek(-len(_CLOSING), os.SEEK_END)
        return file.read() == _CLOSING


def _is_behind(examined: ExaminedJob) -> Iterator[Finding]:
    """A missing or outdated state.json; the next change of the job also repairs it."""
    loaded, state_file = examined.loaded, examined.job.state_file
    if loaded.state is None:
        yield repairable(warning(examined.check, "state.json is missing", None), state_file)
    elif loaded.entries:
        message = f"state.json is behind the history; interactions missing in it: {len(loaded.entries)}"
        yield repairable(warning(examined.check, message, None), state_file)


def _under_way(examined: ExaminedJob) -> Iterator[Finding]:
    """Unfinished work of a killed command: a call of an agent, or a restore."""
    name, job = examined.check, examined.job
    step = f"logist job step --job {job.id}"
    session = sessions.load_session(examined.project, job)
    try:
        got = ask_files.collect_ask(job.read_exchanges())
    except LogistError as error:
        yield damage(name, error.message, files.format_move_command(job.inflight))
    else:
        if os.path.lexists(job.inflight):
            errand = got.ask.errand if got.ask is not None and got.ask.is_away else None
            if errand is not None:
                yield warning(
                    name, errands.describe_work(errand), errands.describe_collecting(errand, job.id)
                )
            else:
                yield warning(name, _left_by_an_ask(session, got), step)
    try:
        cut_off = session.find_unfinished_restore()
    except LogistError as error:
        if _is_plain(job.restoring):
            yield damage(name, error.message, files.format_move_command(job.restoring))
    else:
        if cut_off:
            yield warning(name, "a restep or rerun was interrupted; the next step undoes it first", step)
        elif job.restoring.exists():
            found = warning(name, "the temporary file of a recorded restep was not removed", None)
            yield repairable(found, job.restoring)


def _left_by_an_ask(session: sessions.Session, got: ask_files.Collected) -> str:
    if got.ask is not None and answer_recording.is_recorded(session, got.ask):
        return "inflight/ contains an answer that is already recorded; the next step removes it"
    if got.kind == "answered" and got.reply.error is not None and got.reply.usage.calls:
        return "the run of an agent program was cut off or has failed; the next step records its cost"
    if got.kind == "answered":
        return "inflight/ contains an answer that is not recorded yet; the next step records it without calling an agent"
    if got.outage is not None:
        return "the provider was not available; the next step tries again" + (
            ", and continues after the turns that were answered" if got.kind == "unfinished" else ""
        )
    if got.kind == "unfinished":
        return "an agent was stopped between two of its turns; the next step continues from there"
    if got.kind == "in_doubt" and got.reply.usage.calls:
        return "requests of an agent program were sent and have no answer, so they are in doubt; the next step records their maximum cost"
    if got.kind == "in_doubt":
        return "a request was sent and no answer arrived, so it is in doubt; the next step records its maximum cost"
    return "a command was killed before it called an agent"


def _spec(examined: ExaminedJob) -> Iterator[Finding]:
    job = examined.job
    if not os.path.lexists(job.spec_file):
        return  # an earlier row reports that
    said: list[str] = []
    try:
        spec = specs.read_job_spec(job, draft=examined.state.status is Status.DRAFT, say=said.append)
        specs.require_known_roles(examined.project, spec)
    except LogistError as error:
        if error.where == str(job.workflow_file):
            return
        where = f"{error.where}: " if error.where else f"{job.spec_file}: "
        yield invalid(examined.check, where + error.message, error.fix or "edit the file")
    for each in said:
        yield warning(examined.check, each, "edit the file, unless it is for a newer version of Logist")


def _predecessors(examined: ExaminedJob) -> Iterator[Finding]:
    """Check which jobs this one is to wait for, as the files say it: what was written by hand, a step would refuse."""
    job, project = examined.job, examined.project
    after = _read_after(project, job.id) if predecessors.can_wait(examined.state) else None
    if not after:
        return
    written = NamedPredecessors(project, {job.id: after}, lambda job_id: _read_after(project, job_id))
    try:
        written.require_known(job.id)
        written.require_order(job.id)
    except LogistError as error:
        fix = f"edit the file, or to wait for no other job: logist job config --job {job.id} --unset after"
        yield invalid(examined.check, f"{job.spec_file}: after: {error.message}", fix)


def _read_after(project: ProjectContext, job_id: str) -> list[str] | None:
    """Return the predecessors in job.yaml; None if it can't be read: another row reports that."""
    try:
        job = project.open_job(job_id)
        if b"after" not in read_regular(job.spec_file):  # without parsing it: almost all jobs wait for none
            return []
        return specs.read_job_spec(job, draft=True, accept_slips=True).after
    except (LogistError, OSError):
        return None


def _workflow(examined: ExaminedJob) -> Iterator[Finding]:
    """Compare workflow.json with the workflow in the history."""
    job = examined.job
    message = ""
    try:
        flow = specs.load_frozen_workflow(job)
    except LogistError as error:
        message = f"{error.where}: {error.message}"
    else:
        if flow is None and examined.state.workflow is not None:
            message = "workflow.json is missing"
        elif flow != _made_with(job, flow):
            message = "workflow.json differs from the workflow that the job was created with"
    if message:
        yield repairable(invalid(examined.check, message, None), job.workflow_file)


def _made_with(job: JobDir, flow: Workflow | None) -> Workflow | None:
    """The workflow in the history; `flow` if the history can't be read: another row reports that."""
    try:
        return next((entry.spec.workflow for entry in job_reader.read_interactions(job) if entry.spec), None)
    except LogistError:
        return flow


def _workspace(examined: ExaminedJob) -> Iterator[Finding]:
    job = examined.job
    if os.path.lexists(job.workspace):
        return
    fix = f"mkdir -m 700 {quote(str(job.workspace))}"
    found = damage(examined.check, "the directory 'workspace' is missing", fix)
    busy = os.path.lexists(job.inflight) or os.path.lexists(job.restoring)
    if busy or not examined.state.checkpoint or not job.git_dir.is_dir():
        yield found
    else:
        yield repairable(found, job.workspace)


def _checkpoints(examined: ExaminedJob) -> Iterator[Finding]:
    """A quick check: names of files, and the last bytes of packs."""
    git = _git(examined)
    for message in _at_a_glance(git, examined.state.checkpoint) if git else ():
        yield damage(examined.check, message, f"{FROM_BACKUP}: {examined.job.git_dir}")


def _checkpoints_in_depth(examined: ExaminedJob) -> Iterator[Finding]:
    """Let git check the repository, unless the quick check has found damage."""
    git = _git(examined)
    if git and shutil.which("git", path=git.path) and not any(_checkpoints(examined)):
        for message in _said_by_git(git):
            yield damage(examined.check, message, f"{FROM_BACKUP}: {examined.job.git_dir}")


def _git(examined: ExaminedJob) -> Git | None:
    """The repository of the checkpoints; None if it is not a directory: another row reports that."""
    folder = examined.job.git_dir
    is_directory = folder.is_dir() and not folder.is_symlink()
    return examined.project.open_workspace(examined.job).git if is_directory else None


def _at_a_glance(git: Git, checkpoint: str | None) -> Iterator[str]:
    """Find damage quickly. `checkpoint` is the one that the state names."""
    lost = [name for name in ("HEAD", "objects", "refs") if not (git.git_dir / name).exists()]
    if lost:
        yield f"the checkpoint repository has no {', no '.join(lost)}"
        return
    yield from (f"the checkpoint pack {name} is truncated" for name in packs.find_cut_off(git.git_dir))
    try:
        tip = objects.read_tip(git)
    except (LogistError, OSError, UnicodeDecodeError):
        yield f"can't find the last checkpoint: {objects.BRANCH} is unreadable"
        return
    if tip is None and checkpoint:
        yield f"no checkpoint found in git: {objects.BRANCH} is missing"
    named = {name for name in (tip, checkpoint) if name}
    yield from (
        f"checkpoint {name} not found in git" for name in sorted(packs.find_lacking(git.git_dir, named))
    )


def _said_by_git(git: Git) -> Iterator[str]:
    """Run the checks of git; not its full fsck, which rejects unusual but complete commits of your repository."""
    indexes = packs.list_indexes(git.git_dir)
    looks: list[tuple[str, ...]] = [
        ("fsck", "--connectivity-only", "--no-dangling", "--no-progress", "--no-reflogs")
    ]
    looks += [("verify-pack", *map(str, indexes[at : at + 100])) for at in range(0, len(indexes), 100)]
    for look in looks:
        try:
            git.run(*look)
        except LogistError as error:
            yield f"the checkpoints are damaged: {error.message}"
            return


def _format(examined: ExaminedJob) -> Iterator[Finding]:
    error = examined.unreadable
    if isinstance(error, NewerFormat):
        yield warning(examined.check, error.message, error.fix)


def _version(examined: ExaminedJob) -> Iterator[Finding]:
    try:
        newer_versions.refuse_to_move(examined.state)
    except Refused as error:
        yield warning(examined.check, error.message, error.fix)


def _parent(examined: ExaminedJob) -> Iterator[Finding]:
    job = examined.job
    child = _CHILD.fullmatch(job.id)
    if child and not (job.path.parent / child["parent"]).is_dir() and examined.state.status not in _ENDED:
        message = f"parent job {child['parent']} not found"
        yield warning(examined.check, message, f"logist job cancel --job {job.id}")


def _proof(examined: ExaminedJob) -> Iterator[Finding]:
    """Problems that are found only by reading all of the history and the files that belong to it."""
    job, proof = examined.job, examined.verified.proof
    faults = [problem for problem in examined.verified.problems if problem != proof.ending]
    if not faults:
        return  # an incomplete end is reported by another row
    first = faults[0]
    number = f"interaction {first.sequence}: " if first.sequence else ""
    found = damage(examined.check, number + first.message, f"logist job verify --job {job.id}")
    if proof.first_bad is None and first.is_about_state:
        found = replace(repairable(found, job.state_file), fix=FIX_DEEP)
    yield found


def _edits_in_short(edits: Edits) -> str:
    """List the changes in the workspace on one line."""
    count = len(edits.changes) + edits.omitted
    named = ", ".join(f"{change.kind} {change.path}" for change in edits.changes[:EDITS_NAMED])
    more = f" and {count - EDITS_NAMED} more" if count > EDITS_NAMED else ""
    return f"workspace changed since the last checkpoint: {named}{more}"


_TAKEN_AWAY = "moved to the backup"
_MADE = "recreated"
_FROM_HISTORY = "recreated from the history"
_CUT = "the end is repaired; the incomplete part is saved in logs/"
_RESPELLED = "recreated from the history; comments are lost"
_REFILLED = "recreated from the last checkpoint"
_NO_SPEC = _missing(lambda job: job.spec_file, invalid, "job.yaml is missing")
_NO_LOCK = _missing(lambda job: job.lock_file, warning, "the file 'lock' is missing")
_NO_LOGS = _missing(lambda job: job.logs, warning, "the directory 'logs' is missing")

JOB_CHECKS: tuple[HealthCheck[ExaminedJob], ...] = (
    HealthCheck("access", _access, stops=True),
    HealthCheck("history", _history_exists, stops=True),
    HealthCheck("format", _format, stops=True),  # what the other rows look for is different in a newer one
    HealthCheck("kinds of files", _kinds_of_files, repairs.rebuild_state, _FROM_HISTORY),
    HealthCheck("job.yaml", _NO_SPEC, repairs.respell, _RESPELLED),
    HealthCheck("lock", _NO_LOCK),  # taking the lock creates it
    HealthCheck("logs", _NO_LOGS, repairs.make_directories, _MADE),
    HealthCheck("git", _checkpoints_exist, applies=ExaminedJob.has_files),
    HealthCheck("removed files", _removed_files, applies=ExaminedJob.is_quiet),
    HealthCheck("segments", _segments),
    HealthCheck("modes", _modes, repairs.narrow, "closed to other users, open to you"),
    HealthCheck("owners", _owners),
    HealthCheck("half-written files", _half_written, repairs.take_away, _TAKEN_AWAY, ExaminedJob.is_quiet),
    HealthCheck("stray segments", _stray_segments, repairs.take_away, _TAKEN_AWAY, ExaminedJob.is_quiet),
    HealthCheck("locks of git", _locks_of_git, repairs.take_away, _TAKEN_AWAY, ExaminedJob.is_quiet),
    HealthCheck("readable", _readable, repairs.rebuild_state, _FROM_HISTORY),
    HealthCheck("end of the history", _end_of_history, repairs.cut, _CUT, ExaminedJob.is_idle),
    HealthCheck("state.json", _is_behind, repairs.rebuild_state, _FROM_HISTORY, ExaminedJob.is_idle),
    HealthCheck("under way", _under_way, repairs.take_away, _TAKEN_AWAY, ExaminedJob.is_idle),
    HealthCheck("spec", _spec, applies=ExaminedJob.is_loaded),
    HealthCheck("predecessors", _predecessors, applies=ExaminedJob.is_loaded),
    HealthCheck("workflow.json", _workflow, repairs.freeze, _FROM_HISTORY, ExaminedJob.is_loaded),
    HealthCheck("workspace", _workspace, repairs.refill, _REFILLED, ExaminedJob.is_loaded_with_files),
    HealthCheck("checkpoints", _checkpoints, applies=ExaminedJob.is_loaded_with_files),
    HealthCheck(
        "checkpoints in depth", _checkpoints_in_depth, applies=ExaminedJob.is_loaded_with_files, deep=True
    ),
    HealthCheck("version", _version, applies=ExaminedJob.is_loaded),
    HealthCheck("parent", _parent, applies=ExaminedJob.is_loaded),
    HealthCheck("proof", _proof, repairs.rebuild_state, _FROM_HISTORY, ExaminedJob.is_loaded, deep=True),
)
"""In the order of checking and reporting. If a row has no repair, a person must act on its findings."""
