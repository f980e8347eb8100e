"""The file `restoring`: the workspace is being restored for an interaction that is not recorded yet."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from logist.core.text.ids import is_commit
from logist.store import files

_MOST = 4096
"""Bytes; a record has about a hundred."""


def begin_restore(path: Path, sequence: int, kept: str, *, setup: bool = False) -> None:
    """Record that the workspace leaves checkpoint `kept`, for the coming interaction `sequence`.

    `setup`: the restore is for the setup of the workspace.
    """
    begun = {"sequence": sequence, "kept": kept, **({"setup": True} if setup else {})}
    files.replace_file(path, files.dump_json(begun))


def find_unfinished_restore(path: Path, recorded: Callable[[int], bool]) -> str | None:
    """The checkpoint to return to, if a restore was interrupted before its interaction was `recorded`.

    Raises Damaged if the record can't be read.
    """
    begun = _read_record(path)
    return None if begun is None or recorded(begun["sequence"]) else begun["kept"]


def read_restore_sequence(path: Path) -> int | None:
    """The number of the interaction that the workspace is restored for, or None. Raises Damaged as above."""
    begun = _read_record(path)
    return None if begun is None else begun["sequence"]


def is_restore_for_setup(path: Path) -> bool:
    """True if a restore was begun for the setup of the workspace. Raises Damaged as above."""
    begun = _read_record(path)
    return begun is not None and begun["setup"]


class _Begun(TypedDict):
    """The record."""

    sequence: int
    kept: str
    setup: bool


def _read_record(path: Path) -> _Begun | None:
    data = files.read_bytes(path, _MOST)
    if data is None:
        return None
    try:
        begun = json.loads(data)
    except (ValueError, RecursionError):
        begun = None
    match begun:
        case {"sequence": int(sequence), "kept": str(kept)} if is_commit(kept):
            return {"sequence": sequence, "kept": kept, "setup": begun.get("setup") is True}
    raise files.damaged_file_error(path, "can't read the record of a restore")


def end_restore(path: Path) -> None:
    """Remove the record of a restore: the history has it, or it is undone."""
    with files.convert_os_errors(path), suppress(FileNotFoundError):
        os.unlink(path)
