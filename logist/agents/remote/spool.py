"""The directory of a worker's machine: copies of jobs that tasks work in, and the results that no dispatcher has yet.

All worker processes of one user on one machine share it, so a worker that was restarted finds the tasks of the one before.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from logist.config.environment import Environment
from logist.core.model import JsonObject
from logist.core.text.ids import is_job_id
from logist.errors import Damaged, LogistError, StorageError
from logist.lazy_patterns import compile_on_use
from logist.regular_files import read_regular
from logist.store import files
from logist.workspace.files import removal

TASK = "task.json"
RESULT = "result.json"
PACK = "result.pack"
FENCE = "given-up"
DELIVERED = "delivered"
UPDATE = "install the same version of Logist on both machines"
KEPT_SECONDS = 14 * 86_400.0
"""How long the name of a task that is over, and an unused copy of a job, are kept: no engine starts a task again after that."""
_CLEANED = "cleaned"
_CLEAN_SECONDS = 86_400.0
_TICKET = compile_on_use(r"[0-9a-f]{32}")
_KEY = compile_on_use(r"[0-9a-f]{16,64}")
_MOST_RECORD = 1 << 30


class Spool:
    """The directory of a machine for tasks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, folder: str | None = None) -> Spool:
        """Open the directory, and create it if it is missing; `folder`: None for that of the environment.

        Raises StorageError.
        """
        path = Path(folder or Environment.from_process().worker_directory_name()).absolute()
        with files.convert_os_errors(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for place in (path, path / "mirrors", path / "tasks"):
                place.mkdir(mode=0o700, exist_ok=True)
                if place.stat().st_mode & 0o077:  # it holds the files of jobs
                    place.chmod(0o700)
        return cls(path)

    @property
    def machine(self) -> str:
        """The name by which a dispatcher finds this directory again, whichever process answers for it."""
        return make_name(self.path / "machine")

    @property
    def store(self) -> Path:
        """The repository with the commits that jobs begin with."""
        return self.path / "store.git"

    def find_mirror(self, key: str, job_id: str) -> Path:
        """Return the directory in which the tasks of a job work."""
        if not (_KEY.fullmatch(key) and is_job_id(job_id)):
            raise Damaged("a task has an invalid job", where=str(self.path), fix=UPDATE)
        return self.path / "mirrors" / key / job_id

    def find_task(self, ticket: str) -> Path:
        """Return the directory of a task."""
        if not _TICKET.fullmatch(ticket):
            raise Damaged("a task has an invalid ticket", where=str(self.path), fix=UPDATE)
        return self.path / "tasks" / ticket

    def begin_task(self, ticket: str, record: JsonObject) -> bool:
        """Record durably that this process begins a task; False if any process has begun it, or it was given up."""
        return self._make_task(ticket, TASK, files.dump_json(record))

    def fence_task(self, ticket: str) -> None:
        """Make sure that a task which has not begun here never begins."""
        self._make_task(ticket, FENCE, b"")

    def give_up(self, ticket: str) -> None:
        """Record that a task which has begun, but not started its agent, must not do so any more."""
        files.touch(self.find_task(ticket) / FENCE)

    def is_given_up(self, ticket: str) -> bool:
        """Whether a task never began here, must not go on, or is over and its result forgotten."""
        return (self.find_task(ticket) / FENCE).exists()

    def read_task(self, ticket: str) -> JsonObject | None:
        """Return what `begin_task` recorded; None if the task has not begun here, or is forgotten."""
        return _read_json(self.find_task(ticket) / TASK)

    def count_age(self, ticket: str) -> float:
        """Return how many seconds ago a task was recorded; 0 if the clock was set back."""
        return max(0.0, time.time() - (self.find_task(ticket) / TASK).stat().st_mtime)

    def save_result(self, ticket: str, result: JsonObject, pack: bytes) -> None:
        """Keep the result of a task durably until the dispatcher has it."""
        folder = self.find_task(ticket)
        files.replace_file(folder / PACK, pack)
        files.replace_file(folder / RESULT, files.dump_json(result))

    def read_result(self, ticket: str) -> tuple[JsonObject, bytes] | None:
        """Return the result of a task, and its pack; None if there is none yet."""
        folder = self.find_task(ticket)
        result = _read_json(folder / RESULT)
        if result is None:
            return None
        return result, files.read_bytes(folder / PACK, _MOST_RECORD) or b""

    def list_tickets(self) -> Iterator[str]:
        """Yield the tickets of all tasks, also of those that are running."""
        yield from filter(_TICKET.fullmatch, sorted(os.listdir(self.path / "tasks")))

    def was_delivered(self, ticket: str) -> bool:
        """Whether a dispatcher has the result of a task."""
        return (self.find_task(ticket) / DELIVERED).exists()

    def forget(self, ticket: str, *, is_delivered: bool = False) -> None:
        """Remove a task that never began, or whose result the dispatcher has. It can't begin again."""
        folder = self.find_task(ticket)
        if folder.is_dir():
            files.touch(folder / FENCE)
            if is_delivered and (folder / RESULT).exists():
                files.touch(folder / DELIVERED)
            for name in (RESULT, PACK, TASK):
                with suppress(FileNotFoundError):
                    os.unlink(folder / name)
            removal.remove_directory(folder / "ledger")

    def _make_task(self, ticket: str, name: str, data: bytes) -> bool:
        """Create the directory of a task with a file in it, at once and durably; of several processes, one succeeds."""
        folder = self.find_task(ticket)
        if folder.exists():
            return False
        written = folder.with_name(f".{ticket}-{secrets.token_hex(4)}")
        with files.convert_os_errors(folder):
            files.make_directory(written)
            try:
                files.replace_file(written / name, data)
                os.rename(written, folder)  # fails if the other one has a file
            except (OSError, LogistError) as error:
                removal.remove_directory(written)
                if getattr(error, "errno", None) not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return False
        files.sync_directory(folder.parent)
        return True

    def remove_old(self) -> None:
        """Remove old tasks and copies of jobs, once a day. Results that no dispatcher has fetched are kept."""
        now, stamp = time.time(), self.path / _CLEANED
        if _is_younger(stamp, now - _CLEAN_SECONDS):
            return
        files.touch(stamp)
        os.utime(stamp, (now, now))
        tasks = self.path / "tasks"
        for name in os.listdir(tasks):
            if not (_is_younger(tasks / name, now - KEPT_SECONDS) or (tasks / name / TASK).exists()):
                removal.remove_directory(tasks / name)
        for setup in (self.path / "setups").glob("*"):
            if setup.name.startswith("."):  # a process was killed while it removed it
                removal.remove_directory(setup)
            else:
                self._remove_old_setup(setup, now)
        # A copy of a job may have the only record of what a task has done until that has a result.
        try:
            jobs = {(self.read_task(ticket) or {}).get("job") for ticket in self.list_tickets()}
        except (
            Damaged
        ):  # it doesn't say which copy it needs, so all stay; the task that comes next must not fail
            return
        for mirror in (self.path / "mirrors").glob("*/*"):
            if not (mirror.name in jobs or _is_younger(mirror, now - KEPT_SECONDS)):
                removal.remove_directory(mirror)

    def use_setups(self, project: str) -> Path:
        """Return the directory for what the setups of a project have made; from now on, it counts as just used."""
        if not _KEY.fullmatch(project):
            raise Damaged("a task has an invalid project", where=str(self.path), fix=UPDATE)
        folder = self.path / "setups" / project
        with files.lock_directory(self.path), files.convert_os_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.utime(folder)
        return folder

    def _remove_old_setup(self, folder: Path, now: float) -> None:
        with files.lock_directory(self.path):  # a task that begins to use it makes it young, under this lock
            if _is_younger(folder, now - KEPT_SECONDS):
                return
            removed = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
            os.rename(folder, removed)
        removal.remove_directory(removed)


def make_name(place: Path) -> str:
    """Return the random name in a file, which is created if it is missing. Raises StorageError."""
    for _ in range(2):
        with suppress(FileNotFoundError):
            return read_regular(place, 100).decode("ascii", "replace").strip()
        name = f"{secrets.token_hex(16)}\n".encode("ascii")
        # Two processes may start at the same time: the first name stays.
        written = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
        files.replace_file(written, name)
        with suppress(FileExistsError):
            os.link(written, place)
        written.unlink()
        files.sync_directory(place.parent)
    raise StorageError("can't write a name", where=str(place), fix="check this directory")


def find_machine_here(folder: str) -> str | None:
    """Return the name of a directory for workers; None if there is none."""
    return Spool(Path(folder)).machine if (Path(folder) / "machine").is_file() else None


def _is_younger(path: Path, at: float) -> bool:
    try:
        return path.stat().st_mtime > at
    except OSError:
        return False


def _read_json(path: Path) -> JsonObject | None:
    data = files.read_bytes(path, _MOST_RECORD) if os.path.lexists(path) else None
    if data is None:
        return None
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Damaged("can't read the record of a task", where=str(path), fix="remove its directory")
    return value
