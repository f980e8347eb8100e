"""Whether a state.json has seen the whole history, without reading that: for `job status` and `job list`."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from logist.errors import StorageError
from logist.regular_files import READING, read_regular
from logist.store.files import dump_json

_ENDING = b'"checksum":"%b"}\n]}\n'
"""How a history ends: the seal of its last entry, and the closing."""


def settled(folder: str) -> dict[str, Any] | None:
    """The state of the job in `folder`, if it verifies and nothing follows that it does not know.

    None for whatever must be looked at closely.
    """
    try:
        state: dict[str, Any] = json.loads(read_regular(f"{folder}/state.json"))
        verified = state["checksum"] == checksum(state)
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return None
    return state if verified and has_seen_all(folder, state) else None


def has_seen_all(folder: str, state: dict[str, Any]) -> bool:
    """Whether the history of the job in `folder` ends with the entry that `state` names as its head.

    False also for a history that must be looked at closely: one that is missing, or cut off or damaged at its end.
    """
    try:
        ending: bytes = _ENDING % state["head"]["hash"].encode()
        # A listing asks this of every job, so each system call counts. What is no regular file can't be sought in,
        # or does not end like this; and no more is read than that.
        history = os.open(f"{folder}/jobHistory.json", READING)
        try:
            os.lseek(history, -len(ending), os.SEEK_END)
            return os.read(history, len(ending)) == ending
        finally:
            os.close(history)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def checksum(state: dict[str, Any]) -> str:
    """Of everything in a state but the checksum itself; empty for what could not have been written."""
    body = {key: value for key, value in state.items() if key != "checksum"}
    try:
        return hashlib.sha256(dump_json(body)).hexdigest()
    except StorageError:
        return ""
