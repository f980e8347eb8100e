"""The directory of a worker's machine: copies of jobs that tasks work in, and the results that no dispatcher has yet.

All worker processes of one user on one machine share it, so a worker that was restarted finds the tasks of the one before.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from logist.config.environment import Environment
from logist.core.model import JsonObject
from logist.core.text.ids import is_job_id
from logist.errors import Damaged, StorageError
from logist.lazy_patterns import compile_on_use
from logist.regular_files import read_regular
from logist.store import files
from logist.workspace.files import removal

TASK = "task.json"
RESULT = "result.json"
PACK = "result.pack"
FENCE = "given-up"
UPDATE = "install the same version of Logist on both machines"
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
            for name in ("mirrors", "tasks"):
                (path / name).mkdir(mode=0o700, exist_ok=True)
        return cls(path)

    @property
    def machine(self) -> str:
        """The name by which a dispatcher finds this directory again, whichever process answers for it."""
        place = self.path / "machine"
        for _ in range(2):
            with suppress(FileNotFoundError):
                return read_regular(place, 100).decode("ascii", "replace").strip()
            name = f"{secrets.token_hex(16)}\n".encode("ascii")
            # Two processes may start at the same time: the first name stays.
            written = place.with_name(f".machine-{secrets.token_hex(4)}")
            files.replace_file(written, name)
            with suppress(FileExistsError):
                os.link(written, place)
            written.unlink()
            files.sync_directory(self.path)
        raise StorageError(
            "can't write the name of this machine", where=str(place), fix="check this directory"
        )

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
        folder = self.find_task(ticket)
        if not _make_once(folder):
            return False
        files.replace_file(folder / TASK, files.dump_json(record))
        files.sync_directory(folder.parent)
        return True

    def fence_task(self, ticket: str) -> bool:
        """Make sure that a task which has not begun here never begins; False if it has begun."""
        folder = self.find_task(ticket)
        if not _make_once(folder):
            return (folder / FENCE).exists()
        files.touch(folder / FENCE)
        files.sync_directory(folder.parent)
        return True

    def read_task(self, ticket: str) -> JsonObject | None:
        """Return what `begin_task` recorded; None if that process was killed before."""
        return _read_json(self.find_task(ticket) / TASK)

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
        return result, files.read_bytes(folder / PACK) or b""

    def list_tickets(self) -> Iterator[str]:
        """Yield the tickets of all tasks, also of those that are running."""
        yield from filter(_TICKET.fullmatch, sorted(os.listdir(self.path / "tasks")))

    def forget(self, ticket: str) -> None:
        """Remove a task whose result the dispatcher has. It can't begin again."""
        folder = self.find_task(ticket)
        if folder.is_dir():
            files.touch(folder / FENCE)
            for name in (RESULT, PACK, TASK):
                with suppress(FileNotFoundError):
                    os.unlink(folder / name)
            removal.remove_directory(folder / "ledger")


def _make_once(folder: Path) -> bool:
    """Create a directory; False if it exists: of several processes, one succeeds."""
    with files.convert_os_errors(folder), suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        return True
    return False


def _read_json(path: Path) -> JsonObject | None:
    data = files.read_bytes(path, _MOST_RECORD) if path.exists() else None
    if data is None:
        return None
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Damaged("can't read the record of a task", where=str(path), fix="remove its directory")
    return value
