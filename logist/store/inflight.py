"""inflight/: what was requested of an agent and what came back, on disk before the history records it.

One exchange is one paid call: `<k>.request`, `<k>.sent`, `<k>.response` (k = 1, 2, ...), each present
only if that much has happened; and `<k>.tools`, the results of the tools that the response calls.

The requests that an agent program makes through the gate are in one log in `gate/` (`gate_log.py`). `<k>.stream` there has
the bytes of an answer as far as they have arrived.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from logist.core.text.json_object import JsonObject
from logist.errors import Damaged
from logist.lazy_patterns import compile_on_use
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.store import files
from logist.store.gate_log import LOG, read_gate_log

GATE = "gate"
"""The directory of the requests of an agent program, in the directory of exchanges."""
LIMITS = "limits"
"""The budgets and rate limits of a config that has changed since the courier began; written by the command that waits for it."""
_MOST_LIMITS = 1 << 22
_NAME = compile_on_use(r"([1-9]\d{0,8})\.(request|sent|response|tools)")


class Exchange(NamedTuple):
    """The files of one paid call, as far as it has progressed."""

    k: int
    request: JsonObject | None
    sent: bool
    response: JsonObject | None
    tools: JsonObject | None = None
    """The results of the tools that the response called."""


class Exchanges(list[Exchange]):
    """The exchanges of one request, and the directory they are in, so that
    an error about them can name it.
    """

    def __init__(
        self,
        found: Iterable[Exchange] = (),
        folder: Path | None = None,
        gate: Iterable[Exchange] | None = None,
    ) -> None:
        """`gate`: None if there is no log of a gate."""
        super().__init__(found)
        self.folder = folder
        self.gate = list(gate or ())
        """The requests of an agent program that went through the gate."""
        self.has_gate_log = gate is not None


def begin_exchange(folder: Path, k: int, request: JsonObject) -> None:
    """Record a request before it is sent; durable before any money is spent."""
    data = files.dump_json(request)
    files.make_directory(folder)
    files.replace_file(folder / f"{k}.request", data)
    # Even if the directory existed: its creator may have been killed before the name was durable.
    if k == 1:
        files.sync_directory(folder.parent)


def mark_exchange_sent(folder: Path, k: int) -> None:
    """Record that the bytes may leave from now on."""
    files.touch(folder / f"{k}.sent")


def withdraw_sent(folder: Path, k: int) -> None:
    """Record that a request was not sent after all."""
    with files.convert_os_errors(folder), suppress(FileNotFoundError):
        os.unlink(folder / f"{k}.sent")
        files.sync_directory(folder)


def is_exchange_file(name: str) -> bool:
    """Whether an exchange has a file with this name, below the directory of exchanges."""
    return bool(_NAME.fullmatch(name)) or name == f"{GATE}/{LOG}"


def save_response(folder: Path, k: int, response: JsonObject) -> None:
    """Record a response as soon as it arrives."""
    files.replace_file(folder / f"{k}.response", files.dump_json(response))


def save_tool_results(folder: Path, k: int, results: JsonObject) -> None:
    """Record the results of the tools before the model gets them."""
    files.replace_file(folder / f"{k}.tools", files.dump_json(results))


def save_limits(folder: Path, limits: JsonObject) -> None:
    """Write the limits that apply from the next exchange on."""
    files.replace_file(folder / LIMITS, files.dump_json(limits))


def read_limits(folder: Path) -> JsonObject | None:
    """Return the changed limits; None if they have not changed."""
    try:
        limits = json.loads(read_regular(folder / LIMITS, _MOST_LIMITS))
    except (OSError, ValueError, RecursionError):
        return None
    return limits if isinstance(limits, dict) else None


def remove_limits(folder: Path) -> None:
    """Remove the limits of an earlier courier."""
    with files.convert_os_errors(folder / LIMITS), suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(folder / LIMITS)


def put_back_exchanges(folder: Path, turns: Iterable[tuple[JsonObject, JsonObject, JsonObject]]) -> None:
    """Recreate the directory as it was after completed exchanges: request, response, tool results of each.

    All of it appears at once, or nothing.
    """
    # Finished asks are moved to the same name, so if we are killed here, the next command removes it.
    unfinished = folder.with_name(".inflight-done")
    files.remove_tree(unfinished)
    files.make_directory(unfinished)
    for k, (request, response, tools) in enumerate(turns, 1):
        files.replace_file(unfinished / f"{k}.request", files.dump_json(request))
        files.touch(unfinished / f"{k}.sent")
        save_response(unfinished, k, response)
        save_tool_results(unfinished, k, tools)
    with files.convert_os_errors(folder):
        files.remove_tree(folder)
        os.rename(unfinished, folder)
    files.sync_directory(folder.parent)


def read_exchanges(folder: Path) -> Exchanges:
    """Read the exchanges of the directory in order, and those of its gate; empty if there is none.
    Raises Damaged for an unreadable file.
    """
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return Exchanges()
    parts: dict[int, set[str]] = {}
    for match in filter(None, map(_NAME.fullmatch, names)):
        parts.setdefault(int(match[1]), set()).add(match[2])
    try:
        # Before the gate: with a response, the run is over, and the gate has all of its requests.
        own = [_read_exchange(folder, k, parts[k]) for k in sorted(parts)]
        gate = _read_gate(folder / GATE) if GATE in names else None
        return Exchanges(own, folder, gate)
    except FileNotFoundError:  # its stepper removed the directory meanwhile
        return read_exchanges(folder)


def _read_exchange(folder: Path, k: int, parts: set[str]) -> Exchange:
    request = _read_record(folder / f"{k}.request") if "request" in parts else None
    response = _read_record(folder / f"{k}.response") if "response" in parts else None
    tools = _read_record(folder / f"{k}.tools") if "tools" in parts else None
    return Exchange(k, request, "sent" in parts, response, tools)


def _read_gate(folder: Path) -> list[Exchange] | None:
    requests = read_gate_log(folder)
    if requests is None:
        return None
    return [
        Exchange(k, parts.get("request"), "sent" in parts, parts.get("response"))
        for k, parts in requests.items()
    ]


def damaged_exchange_error(folder: Path | None, message: str, where: Path | None = None) -> Damaged:
    """The error for unreadable or contradictory exchanges; its fix is to move the directory away."""
    fix = "check it, then move it away: its exchange then counts as not recorded"
    if folder is not None:
        fix = f"check it, then move it away: {files.format_move_command(folder)} (its exchange then counts as not recorded)"
    place = where or folder
    return Damaged(message, where=None if place is None else str(place), fix=fix)


def _read_record(path: Path) -> JsonObject:
    data = files.read_bytes(path)
    if data is None:
        raise FileNotFoundError(path)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise damaged_exchange_error(path.parent, "can't read the record of an exchange", path)
    return value


def set_aside_exchanges(folder: Path) -> bool:
    """Rename the directory of exchanges out of the way, all at once; False if there is none.

    Not flushed: after a power cut it may be back under its name, so whoever records the exchanges must check
    whether the history already has them.
    """
    files.remove_tree(_aside_path(folder))
    with files.convert_os_errors(folder):
        try:
            os.rename(folder, _aside_path(folder))
        except FileNotFoundError:
            return False
    return True


def discard_exchanges(folder: Path) -> None:
    """Remove what was set aside.

    The renaming must be durable before, or a part of the directory could come back.
    """
    files.remove_tree(_aside_path(folder))


def end_exchanges(folder: Path) -> None:
    """Set aside and discard, durably, with anything that a crash left of an earlier end."""
    if set_aside_exchanges(folder):
        files.sync_directory(folder.parent)
        discard_exchanges(folder)


def _aside_path(folder: Path) -> Path:
    return folder.with_name(".inflight-done")
