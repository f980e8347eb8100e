"""Replaces complete jobs by new copies of them, all or none: for `job scrub`.

The copies are made in `.scrubs/<random>` of the jobs directory. When all are complete and durable, a plan is written;
until then a kill leaves the jobs as they were. From then on, the copies take the places of the jobs, and if that is
interrupted, the next command that takes the lock of one of these jobs finishes it: the copies are all it needs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from logist import store, systems
from logist.core.text.ids import is_job_id
from logist.errors import StorageError
from logist.store import files, hidden_folders, job_index

FOLDER = store.SCRUBS
MARKER = f".scrubbed{files.TEMPORARY}"
"""Is in a copy that is not in its place yet. The next command that changes the job removes it, as a half-written file."""
_PLAN = "plan.json"
_ASIDE = ".old"


class Scrub:
    """The copies that will take the places of jobs."""

    def __init__(self, jobs_dir: Path, folder: Path) -> None:
        self._jobs_dir, self.folder = jobs_dir, folder

    def make_copy(self, job_id: str) -> Path:
        """Create the directory of the copy of a job."""
        copy = self.folder / job_id
        files.make_directory(copy)
        with files.convert_os_errors(copy):
            os.close(os.open(copy / MARKER, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return copy

    def replace_jobs(self, job_ids: Sequence[str]) -> None:
        """Put the copies in the places of these jobs, whose locks the caller holds. The copies are complete."""
        store.flushing.flush_tree(self.folder, bulk=self.folder)
        files.sync_directory(self.folder.parent)
        files.sync_directory(self._jobs_dir)
        plan = {job_id: _identify_marker(self.folder / job_id) for job_id in job_ids}
        files.replace_file(self.folder / _PLAN, files.dump_json({"jobs": plan}))
        _carry_out(self._jobs_dir, self.folder, job_ids)


@contextmanager
def begin_scrub(jobs_dir: Path) -> Iterator[Scrub]:
    """Make a directory for copies; it is removed at the end of the block, with all that is in it then."""
    with ExitStack() as held:
        folder = hidden_folders.reserve_folder(jobs_dir / FOLDER, held)
        try:
            yield Scrub(jobs_dir, folder)
        finally:
            # If the jobs could not be replaced, the plan stays, and the next command tries again.
            if not os.path.lexists(folder / _PLAN):
                _remove(jobs_dir, folder)


def is_planned(jobs_dir: Path, job_id: str) -> bool:
    """Whether a scrub that was interrupted has yet to replace a job, so that nothing may be written to it before."""
    return any(job_id in _read_plan(folder) for folder in hidden_folders.list_folders(jobs_dir / FOLDER))


def finish_scrubs(jobs_dir: Path) -> None:
    """Finish the scrubs whose process was killed, or remove what they left. The caller holds no lock of a job."""
    for folder in hidden_folders.list_folders(jobs_dir / FOLDER):
        with store.lock.claim_unfinished_job(folder) as is_claimed, ExitStack() as locks:
            if not is_claimed:
                continue
            jobs = _read_plan(folder)
            claimed = [
                locks.enter_context(store.lock.claim_unfinished_job(jobs_dir / job_id))
                for job_id in jobs
                if (jobs_dir / job_id).is_dir()
            ]
            if not all(claimed):
                continue
            if jobs:
                _carry_out(jobs_dir, folder, jobs)
            else:
                _remove(jobs_dir, folder)


def _read_plan(folder: Path) -> list[str]:
    """Return the jobs that are to be replaced; none before all copies are complete.

    None either if Logist has not written the plan here: a clone may contain one, with jobs of its author's choice and
    names of other directories, and a backup one whose copies are incomplete. The author can't choose the number of a file
    and the time of its last change. Raises StorageError.
    """
    data = files.read_bytes(folder / _PLAN)
    try:
        plan = json.loads(data)["jobs"] if data is not None else {}
        is_ours = all(
            is_job_id(job_id) and _identify_marker(folder / job_id) in (None, marker)
            for job_id, marker in plan.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    return list(plan) if is_ours else []


def _identify_marker(copy: Path) -> list[int] | None:
    """Return what no other file has; None for the old job, after the copy has taken its place."""
    try:
        status = os.lstat(copy / MARKER)
    except OSError:
        return None
    return [status.st_ino, status.st_ctime_ns]


def _carry_out(jobs_dir: Path, folder: Path, job_ids: Sequence[str]) -> None:
    with files.convert_os_errors(folder):
        for job_id in job_ids:
            if (
                folder / job_id / MARKER
            ).exists():  # otherwise it is the old job, and the copy is in its place
                _exchange(folder / job_id, jobs_dir / job_id)
    files.sync_directory(jobs_dir)
    files.sync_directory(folder)
    for job_id in job_ids:
        for name in (job_id, job_id + _ASIDE):
            files.remove_tree(folder / name)
        with suppress(OSError):
            os.unlink(jobs_dir / job_id / MARKER)
    # Only now: until the jobs were exchanged, a listing could have made a new index from the old ones.
    job_index.discard(str(jobs_dir))
    _remove(jobs_dir, folder)


def _exchange(copy: Path, job: Path) -> None:
    """Exchange two directories: at every moment, both names exist, if the file system can do that."""
    if job.exists():
        if systems.exchange_names(None, os.fsencode(copy), None, os.fsencode(job)):
            return
        os.rename(job, copy.with_name(copy.name + _ASIDE))
    os.rename(copy, job)


def _remove(jobs_dir: Path, folder: Path) -> None:
    """Remove a directory with copies. The plan is removed last: without it, nothing that is left may be used."""
    with suppress(StorageError):
        with files.convert_os_errors(folder):
            names = [name for name in os.listdir(folder) if name != _PLAN]
            # Without a valid plan, the only copy of a job may be here.
            for name in names:
                job_id = name.removesuffix(_ASIDE)
                if name != job_id and is_job_id(job_id) and not os.path.lexists(jobs_dir / job_id):
                    os.rename(folder / name, jobs_dir / job_id)
        for name in names:
            files.remove_tree(folder / name)
        files.remove_tree(folder)
    with suppress(OSError):
        os.rmdir(jobs_dir / FOLDER)
