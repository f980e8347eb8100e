"""A state.json that verifies and has seen the whole history, without reading that: for `job status`."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from logist.errors import StorageError
from logist.regular_files import read_regular
from logist.store.files import dump_json
from logist.store.listing import has_seen_all


def load_settled_state(folder: str) -> dict[str, Any] | None:
    """The state of the job in `folder`, if it verifies and nothing follows that it does not know.

    None for whatever must be looked at closely.
    """
    try:
        state: dict[str, Any] = json.loads(read_regular(f"{folder}/state.json"))
        verified = state["checksum"] == compute_checksum(state)
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return None
    return state if verified and has_seen_all(folder, state) else None


def compute_checksum(state: dict[str, Any]) -> str:
    """Of everything in a state but the checksum itself; empty for what could not have been written."""
    body = {key: value for key, value in state.items() if key != "checksum"}
    try:
        return hashlib.sha256(dump_json(body)).hexdigest()
    except StorageError:
        return ""
