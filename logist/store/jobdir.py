"""The job directory: the names of its files, and the operations on each."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

# The modules of `store` are loaded on first use: few commands need more than one or two.
from logist import store, systems
from logist.core.text.ids import JOB_ID_PATTERN, is_job_id
from logist.core.text.json_object import JsonObject
from logist.errors import Damaged, LogistError, NewerFormat, Refused, StorageError, UsageError
from logist.formats import JOB, UPGRADE, describe_newer, is_newer
from logist.lazy_patterns import compile_on_use
from logist.quick_tuple import NamedTuple
from logist.regular_files import MOST
from logist.store import HISTORY, INDEX_FOLDER, SCRUBS, SIGNATURES, WAIT, files, history, job_index
from logist.store.cleaned import UNDER_WAY
from logist.store.entries import Position, suggest_restore
from logist.store.history import REPLACE_BELOW, Appended, HistoryProblem, ProblemKind
from logist.store.listing import (
    BATCHES,
    REBUILD,
    build_not_found_error,
    has_seen_all,
    is_unpublished,
    list_job_ids,
)
from logist.store.settled_state import compute_checksum
from logist.version import __version__

if TYPE_CHECKING:
    from logist.store.cleaned import Cleaned
    from logist.store.inflight import Exchanges
    from logist.store.lock import Holder, Lock
    from logist.store.provider_wait import ProviderWait
    from logist.store.verification import Proof

IN_THE_MAKING = ".new-"
"""Prefix of the directory of a job that is being created. A killed command may leave one behind."""

_UNFINISHED = compile_on_use(re.escape(IN_THE_MAKING) + JOB_ID_PATTERN.strip("^$") + "-[0-9a-f]{12}")

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


class LoadedJob(NamedTuple):
    """A job as it is on disk."""

    state: JsonObject | None
    """None if state.json is missing: then `entries` is everything from the start."""
    entries: list[JsonObject]
    """What the history has after the head of `state`: complete, verified, chained."""
    position: Position
    """The last good entry."""
    torn: bytes
    """The bytes of an interrupted append; the next append saves them in logs/ and removes them."""


class _PathInside:
    """An attribute with the path of a file in a job's directory.

    Made when it is used: a run looks at all jobs once a second, and needs one or two of these paths of each.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, job: JobDir, owner: type[JobDir]) -> Path:
        return job.path / self._name


class JobDir:
    """One job's directory. Only this class knows the names of its files; it
    takes and returns JSON objects.
    """

    spec_file = _PathInside("job.yaml")
    workflow_file = _PathInside("workflow.json")
    state_file = _PathInside("state.json")
    history_file = _PathInside(HISTORY)
    lock_file = _PathInside(SIGNATURES)
    workspace = _PathInside("workspace")
    git_dir = _PathInside("git")
    attachments = _PathInside("attachments")
    logs = _PathInside("logs")
    inflight = _PathInside("inflight")
    restoring = _PathInside("restoring")
    wait_file = _PathInside(WAIT)
    setup_file = _PathInside("setup.json")
    cleaning = _PathInside(UNDER_WAY)

    def __init__(self, path: Path, job_id: str) -> None:
        self.id = job_id
        self.path = path
        self._is_marked = False

    def _mark_change(self) -> None:
        """Until `_record_change`, readers of the index read this job from its files (see job_index)."""
        if not self._is_marked and self.path.name == self.id:  # not the hidden directory of a new job
            if _has_index(self.path.parent):
                job_index.mark_change(str(self.path.parent), self.id)
            self._is_marked = True

    def _record_change(self) -> None:
        if self.path.name == self.id and _has_index(self.path.parent):
            job_index.record_change(str(self.path.parent), self.id)
            self._is_marked = False

    @classmethod
    @contextmanager
    def create_job(cls, jobs_dir: Path, job_id: str) -> Iterator[JobDir]:
        """Create a job that appears, complete and durable, when the block ends; an error leaves nothing behind.

        Inside the block, `path` is a hidden directory in the jobs directory with an empty history, and
        nothing in it is flushed; afterwards `path` is the job's own. Raises Refused if the job exists
        already, before or after the block.
        """
        final = _job_path(jobs_dir, job_id)
        _prepare_jobs_dir(jobs_dir)
        if os.path.lexists(final):
            raise _job_exists_error(final)
        with ExitStack() as lock_stack:
            job = cls(_reserve_folder(jobs_dir, job_id, lock_stack), job_id)
            try:
                with files.defer_flushes(job.path):
                    job._create_files()
                    yield job
                job._move_to_final_path(final)
                if _has_index(jobs_dir):
                    job_index.record_change(str(jobs_dir), job_id)
            except BaseException:
                with suppress(StorageError):  # report the first error, not this one
                    files.remove_tree(job.path)
                raise
        job.path = final

    @classmethod
    @contextmanager
    def create_batch(cls, jobs_dir: Path) -> Iterator[Callable[[str], JobDir]]:
        """Create many jobs that appear at the same time, complete and durable, when the block ends; an error, or a kill
        at any time, leaves none of them.

        Inside the block, call the result for each new job: it is in a hidden directory, with an empty history.
        Raises Refused if one of the jobs exists already when the block ends.
        """
        _prepare_jobs_dir(jobs_dir)
        ids: list[str] = []
        with ExitStack() as lock_stack:
            folder = store.hidden_folders.reserve_folder(jobs_dir / BATCHES, lock_stack)

            def create_files(job_id: str) -> JobDir:
                job = cls(folder / _job_path(jobs_dir, job_id).name, job_id)
                files.make_directory(job.path)
                job._create_files()
                ids.append(job_id)
                return job

            try:
                with files.defer_flushes(folder):
                    yield create_files
                store.job_batches.publish_batch(jobs_dir, folder, ids)
            finally:
                with suppress(StorageError):  # report the first error, not this one
                    store.job_batches.remove_batch(jobs_dir, folder)

    def _create_files(self) -> None:
        files.make_directory(self.logs)
        store.lock.create_signatures(self.path)
        history.create_history(self.history_file)

    def _move_to_final_path(self, final: Path) -> None:
        store.flushing.flush_tree(self.path, bulk=self.workspace)
        with files.convert_os_errors(final):
            if _has_index(final.parent):
                job_index.mark_change(str(final.parent), self.id)
            try:
                os.rename(self.path, final)
            except OSError as error:
                # rename can only replace an empty directory, and no job is empty
                if error.errno in _TAKEN:
                    raise _job_exists_error(final) from error
                raise
        files.sync_directory(final.parent)

    @classmethod
    def open(cls, jobs_dir: Path, job_id: str) -> JobDir:
        """Open an existing job. Raises UsageError for an unknown job, or an invalid id."""
        path = _job_path(jobs_dir, job_id)
        if not _is_directory(path) and os.path.lexists(jobs_dir / SCRUBS):
            store.scrubs.finish_scrubs(jobs_dir)
        is_job = _is_directory(path) and not systems.has_other_case(path)
        if not is_job or is_unpublished(str(jobs_dir), job_id):
            raise build_not_found_error(str(jobs_dir), job_id)
        return cls(path, job_id)

    @contextmanager
    def hold_lock(
        self,
        *,
        command: str,
        since: str,
        wait: float = 0.0,
        wait_for_courier: bool = False,
        on_wait: Callable[[Holder], None] | None = None,
        on_poll: Callable[[], None] | None = None,
    ) -> Iterator[Lock]:
        """Hold the job's lock inside the block (see lock.acquire_lock); every method that writes needs it."""
        while True:
            lock = store.lock.acquire_lock(
                self.path,
                command=command,
                since=since,
                wait=wait,
                wait_for_courier=wait_for_courier,
                on_wait=on_wait,
                on_poll=on_poll,
            )
            if not _has_scrub_left(self.path, lock):
                break
            if on_poll:
                on_poll()
            time.sleep(store.lock.POLL_SECONDS)  # its own process may still be at it
        self._is_marked = False
        try:
            self._remove_half_written_files()
            yield lock
        finally:
            try:
                if self._is_marked:  # without a new state.json: a call was begun, or an error came in between
                    self._record_change()
            finally:
                lock.release()

    def _remove_half_written_files(self) -> None:
        """Remove half-written files of a process that was killed: under the lock there is no other writer."""
        with files.convert_os_errors(self.path):
            for folder in filter(_is_directory, (self.path, self.logs)):
                for name in os.listdir(folder):
                    if name.startswith(".") and name.endswith(files.TEMPORARY):
                        os.unlink(folder / name)

    def begin_removal(self) -> Path:
        """Take the job out of the jobs directory, at once and durably; return the hidden directory to remove.

        The caller holds the lock, which moves with the directory. If the command is killed, the next one that creates
        or deletes a job removes the directory, like one that was never complete.
        """
        hidden = self.path.with_name(f"{IN_THE_MAKING}{self.id}-{os.urandom(6).hex()}")
        self._mark_change()
        with files.convert_os_errors(self.path):
            os.rename(self.path, hidden)
        files.sync_directory(hidden.parent)
        self._record_change()
        return hidden

    def begin_cleaning(self) -> None:
        """Begin to remove the workspace, the checkpoints and the logs, durably and without needing space on the disk.

        From now on the workspace is gone for every command; one that holds the lock later finishes the removal.
        """
        with files.convert_os_errors(self.path):
            with suppress(OSError):  # of an earlier removal, if the files were restored from a backup since
                os.unlink(self.path / store.cleaned.NAME)
            os.rename(self.workspace, self.cleaning)
        files.sync_directory(self.path)

    def is_being_cleaned(self) -> bool:
        """True if the removal of the workspace, the checkpoints and the logs was begun and has not ended."""
        return os.path.lexists(self.cleaning)

    def end_cleaning(self, cleaned: Cleaned) -> None:
        """Record, durably, who has removed the files, once they are gone."""
        self.write_cleaned(cleaned)
        with files.convert_os_errors(self.cleaning):
            os.rmdir(self.cleaning)

    def write_cleaned(self, cleaned: Cleaned) -> None:
        """Write durably who has removed the workspace, the checkpoints and the logs."""
        files.replace_file(self.path / store.cleaned.NAME, files.dump_json(cleaned._asdict()))

    def read_cleaned(self) -> Cleaned | None:
        """Who has removed the workspace, the checkpoints and the logs; None if they are there. Raises Damaged."""
        return store.cleaned.read_cleaned(str(self.path))

    def find_lock_holder(self) -> Holder | None:
        """The processes that work on the job now, None if there are none; never blocks a writer."""
        return store.lock.find_lock_holder(self.path)

    def has_running_agent(self) -> bool:
        """True while an agent works for the job."""
        return (self.inflight / "1.request").exists() and self.find_lock_holder() is not None

    def load(self) -> LoadedJob:
        """Load the state, and what the history has after it; reads nothing before the head, writes nothing.

        Raises Damaged if state.json does not verify, if its head is not in the history, or if an entry after
        it does not verify although a complete one follows: an interrupted append only leaves an incomplete
        end.
        """
        # Read the state first: it is written after the history, so a writer can't make it newer than what we read.
        state = self._verify_state(self._parse_state(files.read_bytes(self.state_file)))
        loaded = LoadedJob(state, *history.read_entries_after(self.history_file, self._parse_head(state)))
        for entry in loaded.entries:
            self._require_known_format(entry)
        return loaded

    def read_entries(self) -> Iterator[JsonObject]:
        """Yield the whole history in order, one entry in memory at a time.
        Raises Damaged at the first bad one.
        """
        head, last = self._parse_head(self.read_state()), 0
        for entry in history.read_all_entries(self.history_file):
            last = entry["sequence"]
            self._require_known_format(entry)
            yield entry
        if head and last < head.sequence:
            message = f"interaction {last + 1} is missing or damaged"
            raise Damaged(message, where=str(self.history_file), fix=suggest_restore(self.history_file))

    def read_recent_entry(self, sequence: int, last: Position) -> JsonObject | None:
        """Read the entry with this number, which is mostly near the end; None if there is none.

        Reads the whole history if it isn't, and raises Damaged at the first bad entry.
        """
        for entries in (self.iter_recent_entries(last), self.read_entries()):
            for entry in entries:
                if entry["sequence"] == sequence:
                    return entry
        return None

    def iter_recent_entries(self, last: Position) -> Iterator[JsonObject]:
        """Yield the entries near the end, from that at `last` backwards, each verified from there; not always all."""
        return store.last_answer.iter_backwards(str(self.path), str(last.hash))

    def append_entries(
        self,
        loaded_position: Position,
        entries: list[JsonObject],
        torn: bytes = b"",
        *,
        replace_below: int = REPLACE_BELOW,
        rotate_at: int = history.NEVER,
    ) -> Appended:
        """Write all entries as one durable append after `loaded_position` (see history.append_entries).

        `sequence`, `previous` and `checksum` are filled in. Raises Refused if the history has changed.
        """
        self._mark_change()
        return history.append_entries(
            self.history_file,
            loaded_position,
            entries,
            torn=torn,
            logs=self.logs,
            replace_below=replace_below,
            rotate_at=rotate_at,
        )

    def write_state(self, state: JsonObject) -> None:
        """Replace state.json, with its checksum filled in. Raises StorageError
        for one too large to be read again.
        """
        body = {key: value for key, value in state.items() if key != "checksum"}
        body = {"version": body.pop("version", JOB.version), "logist": __version__, **body}
        data = files.dump_pretty({**body, "checksum": compute_checksum(body)})
        if len(data) > MOST:
            message = f"state.json is too large: {len(data):,} bytes, the limit is {MOST:,} bytes"
            raise StorageError(
                message, where=str(self.state_file), fix="nothing is lost: the history contains everything"
            )
        self._mark_change()
        files.replace_file(self.state_file, data)
        self._record_change()

    def read_state(self) -> JsonObject | None:
        """Read state.json quickly, without checking its checksum; None if it is missing."""
        state = self._parse_state(files.read_bytes(self.state_file))
        self._require_known_format(state or {})
        return state

    def is_behind(self, state: JsonObject) -> bool:
        """True if the history has entries that `state` does not cover, or must be read to find out."""
        return not has_seen_all(str(self.path), state)

    def _parse_state(self, data: bytes | None) -> JsonObject | None:
        if data is None:
            return None
        try:
            state = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._damaged_state_error("state.json is not valid JSON") from error
        if not isinstance(state, dict):
            raise self._damaged_state_error("state.json is not a JSON object")
        return state

    def require_known_format(self) -> None:
        """Raise NewerFormat if a newer Logist wrote the job, for a command that doesn't read its state."""
        with suppress(Damaged, StorageError):
            self.load()

    def _read_newer_writer(self) -> object:
        """The version of Logist that a state.json of a newer format names; None if the state is not the newer record."""
        with suppress(Damaged, StorageError):
            state = self._parse_state(files.read_bytes(self.state_file)) or {}
            return state.get("logist") if is_newer(state.get("version", 1)) else None
        return None

    def _require_known_format(self, record: JsonObject) -> None:
        """Raise Refused for a state or an interaction of a newer format: what else it says may mean something else."""
        if is_newer(version := record.get("version", 1)):
            message = describe_newer(f"job {self.id}", version, self._read_newer_writer())
            raise NewerFormat(message, where=str(self.path), fix=UPGRADE)

    def _verify_state(self, state: JsonObject | None) -> JsonObject | None:
        if state is not None and state.get("checksum") != compute_checksum(state):
            raise self._damaged_state_error(
                "state.json failed verification: it was changed, or a part of it was lost"
            )
        self._require_known_format(state or {})  # only now: a flipped bit is damage, and no newer format
        return state

    def _parse_head(self, state: JsonObject | None) -> Position | None:
        """The position of the last interaction that a state covers; None if there is none."""
        match state:
            case None | {"head": None}:
                return None
            case {"head": {"sequence": int(sequence), "hash": str(digest), "offset": int(offset)}}:
                return Position(sequence, digest, offset)
        raise self._damaged_state_error(
            "state.json has no valid `head`, the last interaction that it includes"
        )

    def _damaged_state_error(self, message: str) -> Damaged:
        return Damaged(message, where=str(self.state_file), fix=REBUILD)

    def verify(self) -> list[HistoryProblem]:
        """Find all problems of the history and of the state's link to it. Repairs nothing."""
        problems = list(self.examine_history().problems)
        message = "state.json is missing; the next command that changes the job recreates it"
        if os.path.lexists(self.state_file):
            return problems
        return [*problems, HistoryProblem(message, kind=ProblemKind.STATE_FILE)]

    def examine_history(self, each: Callable[[JsonObject], None] = lambda entry: None) -> Proof:
        """How far the history is proven, and all problems; `each` is called with every proven entry."""

        def take(entry: JsonObject) -> None:
            self._require_known_format(entry)
            each(entry)

        proof = store.verification.examine_history(self.history_file, take)
        state_problem = self._find_state_problem(proof)
        if state_problem is None:
            return proof
        first = state_problem if state_problem.sequence == proof.next_sequence else None
        return proof._replace(problems=(*proof.problems, state_problem), first_bad=proof.first_bad or first)

    def _find_state_problem(self, found: Proof) -> HistoryProblem | None:
        try:
            data = files.read_bytes(self.state_file)  # once: a writer may replace it at any time
            state = self._verify_state(self._parse_state(data))
            head = self._parse_head(state)
            if state is not None and data != files.dump_pretty(state):
                message = "state.json was changed after Logist wrote it"
                return HistoryProblem(message, kind=ProblemKind.STATE_FILE)
        except Damaged as error:
            return HistoryProblem(error.message, kind=ProblemKind.STATE_FILE)
        try:
            is_lost = head is not None and not history.has_entry(self.history_file, head)
        except (Damaged, Refused):
            return None  # already among the problems of the history
        return store.verification.lost_entries_problem(head, found) if head and is_lost else None

    def begin_exchange(self, k: int, request: JsonObject) -> None:
        """Record paid call `k`; durable before any money is spent."""
        if k == 1:  # the job is shown as running from now on; only the courier begins others
            self._mark_change()
        store.inflight.begin_exchange(self.inflight, k, request)

    def mark_sent(self, k: int) -> None:
        """Record durably that call `k` is about to be sent."""
        store.inflight.mark_exchange_sent(self.inflight, k)

    def save_response(self, k: int, response: JsonObject) -> None:
        """Record the answer to call `k`, durably."""
        store.inflight.save_response(self.inflight, k, response)

    def save_tool_results(self, k: int, results: JsonObject) -> None:
        """Record the results of the tools that the answer to call `k` called, durably."""
        store.inflight.save_tool_results(self.inflight, k, results)

    def put_back_exchanges(self, turns: list[tuple[JsonObject, JsonObject, JsonObject]]) -> None:
        """Recreate inflight/ as it was after these paid calls, all at once and durably."""
        self._mark_change()
        store.inflight.put_back_exchanges(self.inflight, turns)

    def read_exchanges(self) -> Exchanges:
        """The paid calls that are not recorded in the history yet, in order."""
        return store.inflight.read_exchanges(self.inflight)

    def end_exchanges(self) -> None:
        """Remove the paid calls, durably: nothing was sent, or the history has them."""
        store.inflight.end_exchanges(self.inflight)

    def set_aside_exchanges(self) -> None:
        """Move the paid calls out of the way, once the history has them; durable
        with the next write_state.
        """
        store.inflight.set_aside_exchanges(self.inflight)

    def discard_exchanges(self) -> None:
        """Remove the paid calls that were set aside; call it after write_state."""
        store.inflight.discard_exchanges(self.inflight)

    def begin_restore(self, sequence: int, kept: str, *, setup: bool = False) -> None:
        """Record that the workspace leaves checkpoint `kept`, for the coming interaction `sequence`."""
        store.restore_record.begin_restore(self.restoring, sequence, kept, setup=setup)

    def is_restore_for_setup(self) -> bool:
        """True if a restore was begun for the setup of the workspace."""
        return store.restore_record.is_restore_for_setup(self.restoring)

    def find_unfinished_restore(self, recorded: Callable[[int], bool]) -> str | None:
        """The checkpoint to return to, if a restore was interrupted (see
        restore_record.find_unfinished_restore).
        """
        return store.restore_record.find_unfinished_restore(self.restoring, recorded)

    def read_restore_sequence(self) -> int | None:
        """The number of the interaction that a restore was begun for; None if no restore was begun."""
        return store.restore_record.read_restore_sequence(self.restoring)

    def end_restore(self) -> None:
        """Remove the record of a restore: the history has it, or it is undone."""
        store.restore_record.end_restore(self.restoring)

    def write_wait(self, wait: ProviderWait) -> None:
        """Record that the job waits for its provider."""
        self._mark_change()
        files.replace_file(self.wait_file, files.dump_json(wait._asdict()))
        self._record_change()

    def read_wait(self, revision: object) -> ProviderWait | None:
        """The wait for the provider; None if there is none, or if the job has moved on."""
        return store.provider_wait.read_wait(str(self.path), revision)

    def end_wait(self) -> None:
        """Remove the record of a wait. One that can't be removed is ignored later: the job has moved on."""
        with suppress(OSError):
            os.unlink(self.wait_file)

    def write_log(self, name: str, data: bytes) -> Path:
        """Keep `data` as logs/<name>, durably."""
        files.ensure_directory(self.logs)
        files.replace_file(self.logs / name, data)
        return self.logs / name


def list_jobs(jobs_dir: Path) -> Iterator[str]:
    """The ids of all jobs in a directory, sorted; none if there is no directory."""
    return iter(list_job_ids(str(jobs_dir)))


def _has_index(jobs_dir: Path) -> bool:
    """Whether there may be an index of the jobs: only then is the module loaded, which is the largest of the package."""
    return os.path.lexists(jobs_dir / INDEX_FOLDER)


def _job_path(jobs_dir: Path, job_id: str) -> Path:
    if not is_job_id(job_id):
        fix = f"job ids match {JOB_ID_PATTERN}; to see all jobs, run: logist job list"
        raise UsageError(f"invalid job id {job_id!r}", where="job id", fix=fix)
    return jobs_dir / job_id


def _prepare_jobs_dir(jobs_dir: Path) -> None:
    """Create the jobs directory if needed, and remove what killed commands have left in it."""
    store.require_local(jobs_dir)
    with files.convert_os_errors(jobs_dir):
        jobs_dir.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.make_directory(jobs_dir)
    files.sync_directory(jobs_dir.parent)
    remove_abandoned(jobs_dir)


def _reserve_folder(jobs_dir: Path, job_id: str, held: ExitStack) -> Path:
    """Create the hidden directory of a job and take its lock, which `held` keeps."""
    while True:
        path = jobs_dir / f"{IN_THE_MAKING}{job_id}-{os.urandom(6).hex()}"
        with files.convert_os_errors(path):
            os.mkdir(path, 0o700)
        try:
            if held.enter_context(store.lock.claim_unfinished_job(path)):
                with files.convert_os_errors(path):
                    os.chmod(path, 0o700)  # whatever the umask is
                return path
            # Before we locked it, another command claimed it as left over, and removes it.
        except BaseException:
            with suppress(OSError):
                os.rmdir(path)
            raise


def remove_abandoned(jobs_dir: Path) -> None:
    """Remove directories left by commands that were killed while they created or deleted a job.

    One that can't be removed stays for `doctor`.
    """
    if os.path.lexists(jobs_dir / BATCHES):
        store.job_batches.remove_abandoned_batches(jobs_dir)
    with suppress(OSError), os.scandir(jobs_dir) as scanned:
        abandoned = [jobs_dir / entry.name for entry in scanned if _UNFINISHED.fullmatch(entry.name)]
        for path in abandoned:
            with suppress(StorageError), store.lock.claim_unfinished_job(path) as is_abandoned:
                if is_abandoned:
                    files.remove_tree(path)


def _job_exists_error(path: Path) -> Refused:
    return Refused(f"job {path.name!r} already exists", where=str(path), fix="choose another --id")


def _has_scrub_left(path: Path, lock: Lock) -> bool:
    """Whether a scrub has yet to replace the job. Then finish it, without the lock, which is that of the old directory."""
    if not os.path.lexists(path.parent / SCRUBS):
        return False
    try:
        is_planned = store.scrubs.is_planned(path.parent, path.name)
    except BaseException:
        lock.release()
        raise
    if is_planned:
        lock.release()
        store.scrubs.finish_scrubs(path.parent)
        return True
    with suppress(LogistError):  # of other jobs: their commands report it
        store.scrubs.finish_scrubs(path.parent)
    return False


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
