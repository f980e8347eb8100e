"""A state.json that verifies and has seen the whole history, found without reading that: for `job status`."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from logist.errors import StorageError
from logist.store.files import dump_json
from logist.store.listing import read_quickly

_CLOSING = b"\n]}\n"


def settled(folder: str) -> dict[str, Any] | None:
    """The state of the job in `folder`; None for whatever must be looked at closely.

    The history ends with the entry that the state names as its head, and that names the hash the
    state names: then nothing follows that the state does not know.
    """
    try:
        state = json.loads(read_quickly(f"{folder}/state.json"))
        head = state["head"]
        with open(f"{folder}/jobHistory.json", "rb", opener=_opened) as history:
            history.seek(head["offset"])
            rest = history.read()
        entry = rest.removeprefix(b",").removesuffix(_CLOSING)
        number, seal = b'{"sequence":%d,' % head["sequence"], b'"checksum":"%b"}' % head["hash"].encode()
        verified = state["checksum"] == checksum(state)
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    last = rest.endswith(_CLOSING) and b"\n" not in entry
    return state if verified and last and entry.startswith(number) and entry.endswith(seal) else None


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe would hold us for ever; it cannot be sought in


def checksum(state: dict[str, Any]) -> str:
    """Of everything in a state but the checksum itself; empty for what could not have been written."""
    body = {key: value for key, value in state.items() if key != "checksum"}
    try:
        return hashlib.sha256(dump_json(body)).hexdigest()
    except StorageError:
        return ""
