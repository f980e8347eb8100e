"""The file `restoring`: a workspace is being put back for an interaction that is not recorded yet."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from logist.core.ids import is_commit
from logist.store import files

_MOST = 4096
"""Bytes; a record has about a hundred."""


def begin(path: Path, sequence: int, kept: str) -> None:
    """Record that the workspace leaves checkpoint `kept`, for what interaction `sequence` will say."""
    files.replace_file(path, files.dump_json({"sequence": sequence, "kept": kept}))


def unfinished(path: Path, recorded: Callable[[int], bool]) -> str | None:
    """The checkpoint to go back to, if a restore was cut off before its interaction was `recorded`.

    Damaged if its record does not read.
    """
    begun = _read(path)
    return None if begun is None or recorded(begun[0]) else begun[1]


def begun_for(path: Path) -> int | None:
    """The number of the interaction that the workspace is put back for; None if it is not. Damaged as above."""
    begun = _read(path)
    return None if begun is None else begun[0]


def _read(path: Path) -> tuple[int, str] | None:
    data = files.read_bytes(path, _MOST)
    if data is None:
        return None
    try:
        begun = json.loads(data)
    except (ValueError, RecursionError):
        begun = None
    match begun:
        case {"sequence": int(sequence), "kept": str(kept)} if is_commit(kept):
            return sequence, kept
    raise files.damaged(path, "the record of a restore does not read")


def end(path: Path) -> None:
    """Forget the restore: it is recorded, or undone."""
    with files.storage(path), suppress(FileNotFoundError):
        os.unlink(path)
