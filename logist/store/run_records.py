"""The records of `logist run`: `.logist/runs/ID.jsonl`, one JSON object a line, for people who look at it in the morning.

A run appends a line when it begins a job, when that job comes to rest, and when the run ends. Nothing depends on a record: what
jobs did is in their histories, and what they cost in the ledger. So a record is not flushed to the disk, and a run goes
on without it. Each line is handed to the kernel at once, so a killed run loses at most the line that it was writing.

A run holds an flock on its record as long as it lives. So a record without an end that nobody holds is that of a killed run.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from threading import Lock
from typing import Any

from logist.errors import UsageError
from logist.formats import RUN_RECORD
from logist.lazy_patterns import compile_on_use
from logist.quick_tuple import NamedTuple
from logist.regular_files import MOST, read_regular
from logist.store.files import write_all
from logist.timestamps import parse_time

FOLDER = "runs"
"""The directory of the records, in the home of a project."""
HIDDEN_FOLDER = ".runs"
"""The same in a directory of jobs that is elsewhere."""
SUFFIX = ".jsonl"
NO_RUNS = "no runs yet"
FIRST_CODES = (1, 10, 5, 2, 6, 3, 7, 4, 11, 8)
"""The exit code of a run over many jobs is the first of these that any job ended with, else 0.

Damage comes first, then what a person has to decide; last what can wait.
"""
ERROR, BUSY = "error", "busy"
"""Instead of the status of a job that can't be continued, or at which another command works."""

_IGNORE_ALL = b"*\n"
_CREATING = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = compile_on_use(r"[0-9A-Za-z][0-9A-Za-z:+-]{0,63}")
_MOST_NUMBER = 1 << 62
_READ_AT_ONCE = 1 << 16


class EndReason(StrEnum):
    """Why a run has ended."""

    NOTHING_READY = "nothing_ready"
    TIME = "time"
    """`--until` or `--for`: its time was over."""
    MAX_JOBS = "max_jobs"
    """`--max-jobs` was reached, and other jobs were ready."""
    LOW_ON_SPACE = "low_on_space"
    STOPPED = "stopped"
    """By Ctrl-C or SIGTERM."""
    UPGRADED = "upgraded"
    ERROR = "error"


class RunStart(NamedTuple):
    """The first line of a record. Times are in UTC."""

    run: str = ""
    """The name of the run, as the ledger has it."""
    at: str = ""
    arguments: tuple[str, ...] = ()
    """The options of the command."""
    pid: int = 0
    logist: str = ""
    """The version of Logist."""
    version: int = RUN_RECORD.version


class JobStart(NamedTuple):
    """The run begins to work on a job."""

    job: str = ""
    at: str = ""


class JobRest(NamedTuple):
    """A job has come to rest: it has ended, waits, or can't be continued."""

    job: str = ""
    at: str = ""
    status: str = ""
    """That of the job, or ERROR or BUSY."""
    exit_code: int = 0
    interactions: int = 0
    """How many were recorded since it was begun."""
    cost_microcents: int = 0
    """What they cost, in millionths of a cent."""
    seconds: float = 0.0
    waits: str = ""
    """What the job waits for, or the message of the error."""
    next_command: str = ""


class RunEnd(NamedTuple):
    """The last line of a record."""

    at: str = ""
    why: str = ""
    """An EndReason; a newer Logist may have more of them."""
    exit_code: int = 0
    jobs: int = 0
    """How many jobs were begun."""
    left: int = 0
    """How many jobs were ready and not begun, or not finished, because of a limit of the run."""
    cost_microcents: int = 0
    seconds: float = 0.0
    error: str = ""
    """The message of the error that ended the run."""


Event = RunStart | JobStart | JobRest | RunEnd
EVENTS: dict[str, Event] = {
    "run_begun": RunStart(),
    "job_begun": JobStart(),
    "job_rested": JobRest(),
    "run_ended": RunEnd(),
}
"""The events of a record by name, with the value of each field that a line doesn't have."""
_NAMES = {type(event): name for name, event in EVENTS.items()}


class RunRecord(NamedTuple):
    """What a record says."""

    run: str
    begun: RunStart
    events: Sequence[Event]
    """All that were read, in order."""
    ended: RunEnd | None
    is_running: bool
    """Whether the process of the run is alive."""
    unreadable: int = 0
    """Lines that are no events; the last one may be incomplete, and doesn't count."""

    @property
    def was_killed(self) -> bool:
        """Whether the run is over, and could not record that."""
        return self.ended is None and not self.is_running


class RunTotals(NamedTuple):
    """What a run has done."""

    jobs: int
    cost_microcents: int
    seconds: float


class RunRecorder:
    """Writes the record of a run, from its first job on; can be used from any thread.

    What can't be written now, because the disk is full, is written with a later line, if there is enough space then.
    """

    def __init__(self, folder: str, begun: RunStart, warn: Callable[[str], None]) -> None:
        """`warn` gets one message if a line can't be written."""
        self.path = f"{folder}/{begun.run}{SUFFIX}"
        self._warn = warn
        self._fd: int | None = None
        self._size = 0
        self._unwritten = [_format_line(begun)]
        self._has_warned = False
        self._one_at_a_time = Lock()

    def write(self, event: Event) -> None:
        """Append an event."""
        with self._one_at_a_time:
            self._unwritten.append(_format_line(event))
            try:
                if self._fd is None:
                    self._fd = _create_record(self.path)
                self._append(self._fd, b"".join(self._unwritten))
            except OSError as error:
                if not self._has_warned:
                    self._has_warned = True
                    why = f"{self.path}: {error.strerror or error}"
                    self._warn(f"can't write the record of this run: {why}; the run continues")
            else:
                self._unwritten.clear()

    def _append(self, fd: int, data: bytes) -> None:
        """Append all of the data or, if the disk is full, nothing of it."""
        try:
            write_all(fd, data)
        except OSError:
            os.ftruncate(fd, self._size)
            raise
        self._size += len(data)

    def iter_events(self) -> Iterator[Event]:
        """Yield what was written, also if the file was removed meanwhile, and what could not be written. Raises OSError."""
        torn, position = b"", 0
        while self._fd is not None and (data := os.pread(self._fd, _READ_AT_ONCE, position)):
            position += len(data)
            *lines, torn = (torn + data).split(b"\n")
            yield from filter(None, map(parse_event, lines))
        yield from filter(None, map(parse_event, self._unwritten))

    def close(self) -> None:
        """End the record: the run is over."""
        with self._one_at_a_time:
            if self._fd is None:
                return
            if not self._size:  # the disk was full all the time
                with suppress(OSError):
                    os.unlink(self.path)
            os.close(self._fd)
            self._fd = None


def _create_record(path: str) -> int:
    parent, name = os.path.split(path)
    with suppress(FileExistsError):
        os.makedirs(os.path.dirname(parent), exist_ok=True)
        os.mkdir(parent, 0o700)
    folder = os.open(parent, _FOLDER)  # no link: a clone may have one to a directory elsewhere
    try:
        with suppress(FileExistsError):
            ignoring = os.open(".gitignore", _CREATING, 0o600, dir_fd=folder)
            try:
                os.write(ignoring, _IGNORE_ALL)  # what ran on this machine is not source code
            finally:
                os.close(ignoring)
        fd = os.open(name, _CREATING, 0o600, dir_fd=folder)
        # Released by the kernel when the run dies. It is new, so only a reader can hold it, for an instant.
        fcntl.flock(fd, fcntl.LOCK_EX)
        return fd
    finally:
        os.close(folder)


def _format_line(event: Event) -> bytes:
    data = {"event": _NAMES[type(event)], **event._asdict()}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def parse_event(line: bytes) -> Event | None:
    """Return the event of a line; None if it is damaged. Fields and events that only a newer Logist knows are ignored."""
    try:
        data = json.loads(line)
        default = EVENTS[data["event"]]
        known = {
            name: _check_value(data[name], value) for name, value in default._asdict().items() if name in data
        }
        return default._replace(**known)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def _is_newer_event(line: bytes) -> bool:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and isinstance(data.get("event"), str) and data["event"] not in EVENTS


def _check_value(value: Any, default: Any) -> Any:
    """Return a value of a line if it has the type of the field: anybody can edit the file."""
    if isinstance(default, tuple):
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        raise TypeError("expected texts")
    if isinstance(default, str) or isinstance(value, bool | str):
        if isinstance(default, str) and isinstance(value, str):
            return value
        raise TypeError("wrong type")
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value < _MOST_NUMBER:
        raise ValueError("not an amount")
    return float(value) if isinstance(default, float) else int(value)


def find_runs_folder(home: str, jobs_dir: str) -> str:
    """Return the directory of the records: beside the jobs of the project, or in a directory of jobs that is elsewhere."""
    return f"{home}/{FOLDER}" if jobs_dir.startswith(f"{home}/") else f"{jobs_dir}/{HIDDEN_FOLDER}"


def list_run_ids(folder: str) -> list[str]:
    """List the runs that have records, the latest first."""
    if os.path.islink(folder):  # a clone may have one to a directory elsewhere
        return []
    with suppress(OSError):
        names = [name.removesuffix(SUFFIX) for name in os.listdir(folder) if name.endswith(SUFFIX)]
        return sorted(filter(_NAME.fullmatch, names), reverse=True)
    return []


def find_run_id(folder: str, text: str | None) -> str:
    """Return the run that a person means: the latest, or the one whose id begins or ends with this text.

    Raises UsageError.
    """
    known = list_run_ids(folder)
    meant = known[:1] if text is None else [each for each in known if each == text]
    meant = meant or [each for each in known if text and (each.startswith(text) or each.endswith(text))]
    if len(meant) == 1:
        return meant[0]
    if not known:
        raise UsageError(NO_RUNS, where=text or folder, fix="to run every ready job: logist run")
    if meant:
        raise UsageError(
            f"{len(meant)} runs match this id",
            where=text,
            fix="type more of the id; to see all runs: logist runs list",
        )
    raise UsageError("unknown run", where=text, fix="to see all runs: logist runs list")


def read_record(folder: str, run_id: str, *, with_jobs: bool = True) -> RunRecord:
    """Return the record of a run. Raises OSError.

    With `with_jobs=False`, the record of a run that has ended has only its first and its last line.
    """
    path = f"{folder}/{run_id}{SUFFIX}"
    is_running = _is_held(path)  # before it is read: a run that ends meanwhile was not killed
    lines = read_regular(path, MOST).split(b"\n")
    last = parse_event(lines[-2]) if len(lines) > 1 else None
    if isinstance(last, RunEnd) and not with_jobs:
        lines = [lines[0], lines[-2], b""]
    events, unreadable = [], 0
    for line in lines[:-1]:  # behind the last line is nothing, or a torn line
        event = parse_event(line)
        if event is not None:
            events.append(event)
        elif not _is_newer_event(line):
            unreadable += 1
    begun = next((event for event in events if isinstance(event, RunStart)), RunStart())
    ended = last if isinstance(last, RunEnd) else None
    return RunRecord(run_id, begun, events, ended, is_running and ended is None, unreadable)


def _is_held(path: str) -> bool:
    """Whether the run of a record lives."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EAGAIN)
    finally:
        os.close(fd)
    return False


def list_old_records(folder: str, cutoff: float) -> Iterator[str]:
    """Yield the records of runs that are over, and have written nothing since `cutoff` (seconds since 1970)."""
    for run_id in list_run_ids(folder):
        path = f"{folder}/{run_id}{SUFFIX}"
        with suppress(OSError):
            if os.lstat(path).st_mtime < cutoff and not _is_held(path):
                yield path


class WorkedJob(NamedTuple):
    """What a record says about one job: its last end, and the sums of all its times in the run."""

    job: str
    begun_at: str
    rested: JobRest | None
    """None if the run works on it, or was killed."""
    interactions: int = 0
    cost_microcents: int = 0
    seconds: float = 0.0


def sum_up_jobs(events: Iterable[Event]) -> list[WorkedJob]:
    """Return the jobs of a record, in the order in which they were begun."""
    jobs: dict[str, WorkedJob] = {}
    for event in events:
        if isinstance(event, JobStart | JobRest):
            add_to_jobs(jobs, event)
    return list(jobs.values())


def add_to_jobs(jobs: dict[str, WorkedJob], event: JobStart | JobRest) -> None:
    """Add an event to what is known about its job."""
    known = jobs.get(event.job)
    if isinstance(event, JobStart):
        jobs[event.job] = (known or WorkedJob(event.job, event.at, None))._replace(rested=None)
        return
    known = known or WorkedJob(event.job, "", None)
    jobs[event.job] = known._replace(
        rested=event,
        interactions=known.interactions + event.interactions,
        cost_microcents=known.cost_microcents + event.cost_microcents,
        seconds=known.seconds + event.seconds,
    )


def sum_up_run(record: RunRecord, now: float) -> RunTotals:
    """Return the sums of a run; of one that has not ended or was killed, those of what is recorded.

    `now`: seconds since 1970.
    """
    if record.ended is not None:
        return RunTotals(record.ended.jobs, record.ended.cost_microcents, record.ended.seconds)
    jobs = sum_up_jobs(record.events)
    end: float | None = now
    if not record.is_running:
        end = parse_time(record.events[-1].at) if record.events else None
    begin = parse_time(record.begun.at)
    seconds = end - begin if begin is not None and end is not None else 0.0
    return RunTotals(len(jobs), sum(each.cost_microcents for each in jobs), max(0.0, seconds))
