"""Loads a state.json that verifies and is up to date, without reading the history: for `job status`."""

from __future__ import annotations

import json
from typing import Any

from logist.digests import compute_sha256
from logist.errors import StorageError
from logist.formats import is_newer
from logist.regular_files import read_regular
from logist.store.files import dump_json
from logist.store.listing import has_seen_all


def load_settled_state(folder: str) -> dict[str, Any] | None:
    """Load the state of the job in `folder` if it verifies and covers the whole history.

    None for anything that needs a closer look.
    """
    try:
        state: dict[str, Any] = json.loads(read_regular(f"{folder}/state.json"))
        verified = state["checksum"] == compute_checksum(state) and not is_newer(state.get("version", 1))
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return None
    return state if verified and has_seen_all(folder, state) else None


def compute_checksum(state: dict[str, Any]) -> str:
    """The checksum of a state without its `checksum` member; empty for a
    state that could not have been written.
    """
    body = {key: value for key, value in state.items() if key != "checksum"}
    try:
        return compute_sha256(dump_json(body))
    except StorageError:
        return ""
