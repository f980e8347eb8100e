"""A look at one job, as `doctor` takes it: quick, and writing nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import TypeGuard

from logist.agents.courier import ask_files
from logist.core.history import newer_versions
from logist.core.model import State, Status, Workflow
from logist.errors import LogistError, Refused
from logist.jobs.base import job_reader, specs
from logist.jobs.base.job_reader import Edits, Verified
from logist.jobs.base.project import Clock, Project
from logist.jobs.base.session import Session, load, state_of
from logist.jobs.base.truncation import Forks
from logist.jobs.doctor import checkpoint_health, file_layout
from logist.jobs.doctor.file_layout import check_name
from logist.jobs.doctor.finding import FIX_DEEP, Cure, Finding, curable, damage, invalid, warning
from logist.jobs.turn.answer_recording import is_recorded
from logist.store import JobDir, LoadedJob, files

EDITS_NAMED = 5
"""Changes of a workspace that a finding names."""
CLOCK_TOLERANCE = timedelta(minutes=1)

_CLOSING = b"\n]}\n"
_CHILD = re.compile(r"(?P<parent>.+)--\d+-\d+")
_ENDED = (Status.SUCCESS, Status.FAILED, Status.CANCELED)


def look(
    project: Project, job: JobDir, *, deep: bool, held: bool = False, forks: Forks | None = None
) -> list[Finding]:
    """What is to say about a job; one `ok` finding if all is well.

    Reads ends of files only, and with `deep` everything. `held`: the caller holds the job's lock. While
    another does, what is under way is not taken for a fault. `forks`: as in job_reader.verify.
    """
    if _is_closed_to_us(job):
        return [
            damage(check_name(job), "the job can't be read and written", f"chmod 700 {quote(str(job.path))}")
        ]
    if not os.path.lexists(job.history_file):
        return [damage(check_name(job), "the history is missing", _without_history(job))]
    quiet = held or not _at_work(job)
    found = list(file_layout.faults(job))
    found += file_layout.left_behind(job) if quiet else ()
    try:
        loaded = job.load()
        state = state_of(job, loaded)
    except LogistError as error:
        return found + _unreadable(project, job, error, deep=deep)
    found += _files_of(job, loaded) if quiet else ()
    found += _under_way(project, job) if quiet else ()
    found += _place(project, job, state, deep=deep)
    verified = job_reader.verify(project, job, forks=forks, read_all=True) if deep else None
    found += _damage_of(job, verified) if verified else ()
    if found:
        return found
    edited = f"; {edits_in_short(verified.edits)}" if verified and has_edits(verified.edits) else ""
    return [Finding(check_name(job), "ok", f"{loaded.position.sequence} interactions{edited}")]


def clock_fault(job: JobDir, clock: Clock) -> Finding | None:
    """The job was last changed at a time that is still to come."""
    try:
        stamp = str((job.read_state() or {}).get("updated_at"))
        changed = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except (LogistError, ValueError):
        return None
    if changed <= clock.now() + CLOCK_TOLERANCE:
        return None
    message = f"it is {clock.timestamp()} here, and job {job.id} was last changed at {stamp}"
    return warning("clock", message, "set the clock of this machine; entries keep their order without it")


def _is_closed_to_us(job: JobDir) -> bool:
    """Also to writing, unless the whole file system is: that is said about the place."""
    wanted = os.R_OK | os.X_OK
    if not os.access(job.path, wanted):
        return True
    return not os.access(job.path, os.W_OK) and not os.statvfs(job.path).f_flag & os.ST_RDONLY


def _without_history(job: JobDir) -> str:
    return (
        "put jobHistory.json back from a backup"
        if any(job.path.iterdir())
        else f"rmdir {quote(str(job.path))}"
    )


def _at_work(job: JobDir) -> bool:
    try:
        return job.holder() is not None
    except LogistError:
        return False  # no readable lock file; the layout says so


def _unreadable(project: Project, job: JobDir, error: LogistError, *, deep: bool) -> list[Finding]:
    """Why the job can't be loaded, unless the layout has said it."""
    name = check_name(job)
    if error.where == str(job.state_file):
        found = curable(damage(name, error.message, None), Cure.REBUILD, job.state_file)
        return [found] if job.state_file.is_file() and not job.state_file.is_symlink() else []
    if job.history_file.is_symlink() or not job.history_file.is_file():
        return []
    found = damage(name, error.message, f"logist job verify --job {job.id}")
    if not deep:
        return [found]
    trusted = job_reader.verify(project, job).proof.trusted
    extent = f"interactions {trusted} verify" if trusted else "no interaction is proven"
    return [damage(name, f"{error.message}; {extent}", found.fix)]


def _files_of(job: JobDir, loaded: LoadedJob) -> Iterator[Finding]:
    """What the next change repairs by itself: of the history's end, and of state.json."""
    name = check_name(job)
    if loaded.torn:
        message = f"{len(loaded.torn)} bytes of an append that was cut off"
        yield curable(warning(name, message, None), Cure.CUT, job.history_file)
    elif not _is_closed(job):
        yield curable(warning(name, "the closing line is not whole", None), Cure.CUT, job.history_file)
    if loaded.state is None:
        yield curable(warning(name, "state.json is missing", None), Cure.REBUILD, job.state_file)
    elif loaded.entries:
        message = f"state.json is behind the history by {len(loaded.entries)}"
        yield curable(warning(name, message, None), Cure.REBUILD, job.state_file)


def _is_closed(job: JobDir) -> bool:
    with open(job.history_file, "rb") as file:
        file.seek(-len(_CLOSING), os.SEEK_END)
        return file.read() == _CLOSING


def _under_way(project: Project, job: JobDir) -> Iterator[Finding]:
    """What a killed command had in hand: an agent that was asked, a restore."""
    name, step = check_name(job), f"logist job step --job {job.id}"
    session = load(project, job)
    try:
        got = ask_files.collect(job.exchanges())
    except LogistError as error:
        yield damage(name, error.message, files.moving_away(job.inflight))
    else:
        if os.path.lexists(job.inflight):
            yield warning(name, _left_by_an_ask(session, got), step)
    try:
        cut_off = session.unfinished_restore()
    except LogistError as error:
        if _is_plain(job.restoring):
            yield damage(name, error.message, files.moving_away(job.restoring))
    else:
        if cut_off:
            yield warning(name, "a restep or rerun was cut off; the next step undoes it first", step)
        elif job.restoring.exists():
            found = warning(name, "a restep is recorded, and its file was left", None)
            yield curable(found, Cure.TAKE_AWAY, job.restoring)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _left_by_an_ask(session: Session, got: ask_files.Collected) -> str:
    if got.ask is not None and is_recorded(session, got.ask):
        return "inflight/ holds an answer that is recorded already; the next step clears it"
    if got.kind == "answered":
        return (
            "an agent's answer waits in inflight/ to be recorded; the next step records it, and asks nobody"
        )
    if got.kind == "unfinished":
        return "an agent was ended between two of its turns; the next step goes on from there"
    if got.kind == "in_doubt":
        return "an agent was asked, and no answer came: in doubt; the next step books the worst case"
    return "a command was killed before it had asked an agent"


def _place(project: Project, job: JobDir, state: State, *, deep: bool) -> Iterator[Finding]:
    """Where the job stands, and what it stands on: job.yaml, workspace, checkpoints."""
    name = check_name(job)
    yield from _spec(project, job, state)
    yield from _frozen(job, state)
    if not os.path.lexists(job.workspace):
        yield _no_workspace(job, state)
    yield from checkpoint_health.faults(project, job, state.checkpoint, deep=deep)
    try:
        newer_versions.refuse_to_move(state)
    except Refused as error:
        yield warning(name, error.message, error.fix)
    child = _CHILD.fullmatch(job.id)
    if child and not (job.path.parent / child["parent"]).is_dir() and state.status not in _ENDED:
        message = f"its parent, job {child['parent']}, is not there"
        yield warning(name, message, f"logist job cancel --job {job.id}")


def _no_workspace(job: JobDir, state: State) -> Finding:
    found = damage(
        check_name(job), "the directory workspace is missing", f"mkdir -m 700 {quote(str(job.workspace))}"
    )
    busy = os.path.lexists(job.inflight) or os.path.lexists(job.restoring)
    if busy or not state.checkpoint or not job.git_dir.is_dir():
        return found
    return curable(found, Cure.REFILL, job.workspace)


def _spec(project: Project, job: JobDir, state: State) -> Iterator[Finding]:
    if not os.path.lexists(job.spec_file):
        return  # the layout says so
    name = check_name(job)
    said: list[str] = []
    try:
        spec = specs.read(job, draft=state.status is Status.DRAFT, say=said.append)
        specs.known(project, spec)
    except LogistError as error:
        if error.where == str(job.workflow_file):
            return
        where = f"{error.where}: " if error.where else f"{job.spec_file}: "
        yield invalid(name, where + error.message, error.fix or "edit the file")
    for each in said:
        yield warning(name, each, "edit the file, unless a newer Logist is to read it")


def _frozen(job: JobDir, state: State) -> Iterator[Finding]:
    """The workflow that the job follows; the history has it as well."""
    name = check_name(job)
    try:
        flow = specs.frozen(job)
    except LogistError as error:
        yield curable(invalid(name, f"{error.where}: {error.message}", None), Cure.FREEZE, job.workflow_file)
        return
    if flow is None and state.workflow is not None:
        yield curable(invalid(name, "workflow.json is missing", None), Cure.FREEZE, job.workflow_file)
    elif flow != _made_with(job, flow):
        message = "workflow.json is not the one that the job was made with"
        yield curable(invalid(name, message, None), Cure.FREEZE, job.workflow_file)


def _made_with(job: JobDir, flow: Workflow | None) -> Workflow | None:
    """The workflow as the history has it; `flow` where that can't be read, which is told elsewhere."""
    try:
        return next((entry.spec.workflow for entry in job_reader.interactions(job) if entry.spec), None)
    except LogistError:
        return flow


def _damage_of(job: JobDir, verified: Verified) -> Iterator[Finding]:
    """What only a reading of the whole history, and of all that goes with it, shows."""
    faults = [problem for problem in verified.problems if problem != verified.proof.ending]
    if not faults:
        return  # a cut end is told already
    first = faults[0]
    number = f"interaction {first.sequence}: " if first.sequence else ""
    wrong = damage(check_name(job), number + first.message, f"logist job verify --job {job.id}")
    only_state = verified.proof.first_bad is None and first.message.startswith("state.json")
    if only_state:
        wrong = replace(curable(wrong, Cure.REBUILD, job.state_file), fix=FIX_DEEP)
    yield wrong


def has_edits(edits: Edits | None) -> TypeGuard[Edits]:
    """Whether somebody changed the workspace since the last checkpoint."""
    return edits is not None and bool(edits.changes)


def edits_in_short(edits: Edits) -> str:
    """What was changed in the workspace, on one line."""
    count = len(edits.changes) + edits.omitted
    named = ", ".join(f"{change.kind} {change.path}" for change in edits.changes[:EDITS_NAMED])
    more = f" and {count - EDITS_NAMED} more" if count > EDITS_NAMED else ""
    return f"workspace changed since the last checkpoint: {named}{more}"
