"""Finds and reads session files of other agent programs. They may contain anything; no link is followed."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from logist import regular_files
from logist.core.adoption import claude, codex, mini
from logist.core.adoption.session import AgentSession, NotASessionError, Redact, keep_text
from logist.core.text.json_object import JsonObject
from logist.digests import compute_sha256
from logist.errors import UsageError
from logist.quick_tuple import NamedTuple

LARGEST = 1 << 27
"""Maximum size of a session with one JSON object per line, in bytes."""
LARGEST_DOCUMENT = 1 << 25
"""Maximum size of a session that is one JSON document."""
MOST_FILES = 100_000
"""Maximum number of files in a folder."""
SUBAGENTS = "subagents"
"""The folder with the files of subagents, beside those of a session of Claude Code."""
ENDINGS = (".jsonl", ".traj.json")
"""How the names of sessions end, in a folder."""
UNKNOWN = "it is not a session of Claude Code, Codex or mini-swe-agent"


class SessionFile(NamedTuple):
    """A session, and its file as it was read."""

    session: AgentSession
    sha256: str


def find_session_files(paths: Iterable[str]) -> list[Path]:
    """List the files that `paths` name: files, and the sessions in folders, each once. Raises UsageError."""
    found: dict[str, Path] = {}
    for path in paths:
        if not os.path.lexists(path):
            raise UsageError(
                f"session not found: {path}", where="PATH", fix="use a session file, or a folder with some"
            )
        files = list(_walk_folder(path)) if os.path.isdir(path) else [path]
        if not files:
            fix = f"names of sessions end with {' or '.join(ENDINGS)}; pass other files by name"
            raise UsageError(f"no session found in {path}", where="PATH", fix=fix)
        found.update({os.path.abspath(file): Path(file) for file in files})
    return list(found.values())


def _walk_folder(root: str) -> Iterator[str]:
    count = 0
    for folder, folders, files in os.walk(root, onerror=_raise_unlistable):
        folders[:] = sorted(name for name in folders if name != SUBAGENTS)
        for name in sorted(files):
            path = os.path.join(folder, name)
            if name.endswith(ENDINGS) and not os.path.islink(path):
                count += 1
                if count > MOST_FILES:
                    raise UsageError(
                        f"more than {MOST_FILES:,} sessions in {root}", where="PATH", fix="pass parts of it"
                    )
                yield path


def _raise_unlistable(error: OSError) -> NoReturn:
    fix = "check its owner and permissions"
    raise UsageError(
        f"can't list the directory: {error.strerror}", where=str(error.filename), fix=fix
    ) from error


def read_session_file(path: Path, elsewhere: set[str], redact: Redact = keep_text) -> SessionFile:
    """Read a session of any known format.

    `elsewhere` has the lines of the sessions that were read before (see `claude.read_claude_session`). `redact`
    removes secrets from its texts before they are shortened. Raises NotASessionError with the reason if the file can't be adopted.
    """
    data = _read_bytes(path, LARGEST)
    digest = compute_sha256(data)
    skipped: list[str] = []
    first = next(_read_lines(data, []), None)
    if first is not None and codex.is_codex_line(first):
        session = codex.read_codex_session(_read_lines(data, skipped), redact)
    elif any(map(claude.is_claude_line, _first_lines(data))):
        for line in _first_lines(data):
            claude.require_whole_session(line)
        subagents = (
            line
            for part in _list_subagents(path)
            for line in _read_lines(_read_bytes(part, LARGEST), skipped)
        )
        session = claude.read_claude_session(_read_lines(data, skipped), subagents, elsewhere, redact)
    else:
        session = _read_document(data, digest, redact)
    for reason in skipped:
        session.notes[reason] += 1
    if not session.turns:
        raise NotASessionError("it has no prompt of a person")
    if not any(turn.answer or turn.calls or turn.error for turn in session.turns):
        raise NotASessionError("the model never answered in it")
    return SessionFile(session, digest)


def _first_lines(data: bytes) -> list[JsonObject]:
    lines = _read_lines(data[: 1 << 20], [])
    return [line for _, line in zip(range(20), lines, strict=False)]


def _read_document(data: bytes, digest: str, redact: Redact) -> AgentSession:
    if len(data) > LARGEST_DOCUMENT:
        raise NotASessionError(
            f"it is larger than {LARGEST_DOCUMENT:,} bytes, and not one JSON object per line"
        )
    document = _parse_object(data)
    if document is None or not mini.is_mini_document(document):
        raise NotASessionError(UNKNOWN)
    return mini.read_mini_session(document, digest, redact)


def _list_subagents(path: Path) -> list[Path]:
    folder = path.with_suffix("") / SUBAGENTS
    if folder.is_symlink() or path.with_suffix("").is_symlink() or not folder.is_dir():
        return []
    return sorted(each for each in folder.iterdir() if each.suffix == ".jsonl" and not each.is_symlink())[
        :1_000
    ]


def _read_bytes(path: Path, largest: int) -> bytes:
    try:
        return regular_files.read_regular(path, largest)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotASessionError("it is a symbolic link: pass the file itself") from error
        if error.errno == errno.EFBIG:
            raise NotASessionError(f"it is larger than {largest:,} bytes") from error
        raise NotASessionError(f"it can't be read: {error.strerror or error}") from error


def _read_lines(data: bytes, skipped: list[str]) -> Iterator[JsonObject]:
    """Yield the object of each line; what is no object is added to `skipped`, as text."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        line = data[start : len(data) if end < 0 else end].strip()
        if line:
            value = _parse_object(line)
            if value is not None:
                yield value
            elif end < 0:
                skipped.append("the last line is incomplete: the program was stopped, or is still running")
            else:
                skipped.append("lines that are not JSON objects were left out")
        start = len(data) if end < 0 else end + 1


def _parse_object(text: bytes) -> JsonObject | None:
    try:
        value: Any = json.loads(text.decode("utf-8", "replace"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
