"""Files that an agent named: opened safely, read for a prompt, or checked as evidence.

A problem is a value, not an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from logist.core.prompt.shown_files import FileText
from logist.digests import start_hash
from logist.workspace.files import file_names, safe_open

if TYPE_CHECKING:  # commands that only compare a workspace need no models
    from logist.core.model import Evidence

UNREADABLE = "unreadable: permission denied"
NOT_TEXT = "not text"
"""How the note about a file begins that is binary, or not UTF-8."""


def check_evidence(workspace: Path, path: str, max_bytes: int) -> Evidence:
    """Check whether `path` is a regular file without hard links in the workspace, and hash it (sha256; no hash above
    `max_bytes`).
    """
    from logist.core.model import Evidence  # noqa: PLC0415 - see above

    exists, digest = hash_evidence(workspace, path, max_bytes)
    return Evidence(path=escape_surrogates(path), exists=exists, sha256=digest)


def hash_evidence(workspace: Path, path: str, max_bytes: int) -> tuple[bool, str | None]:
    """Return the same as plain values: whether the file exists, and its hash."""
    try:
        with open_agent_file(workspace, path) as (descriptor, size):
            return True, _hash_content(descriptor, size) if size <= max_bytes else None
    except OSError:
        return False, None


def read_file(workspace: Path, path: str, max_bytes: int) -> FileText:
    """Return the text of a file of at most `max_bytes`, or a note that depends only on the workspace."""
    return _read_text(workspace, path, max_bytes, is_cut=False)[0]


def read_beginning(workspace: Path, path: str, most: int) -> tuple[FileText, int]:
    """Return the text of the first `most` bytes of a file, and the size of the whole file.

    A note instead of the text as `read_file` has it. If the file is larger, remove secrets from the text, and then call
    `drop_uncertain_end`.
    """
    return _read_text(workspace, path, most, is_cut=True)


def _read_text(workspace: Path, path: str, most: int, *, is_cut: bool) -> tuple[FileText, int]:
    name = escape_surrogates(path)
    try:
        with open_agent_file(workspace, path) as (descriptor, size):
            if size > most and not is_cut:
                return FileText(name, None, f"too large: {size} bytes, the limit is {most}"), size
            data = b"".join(safe_open.read_exactly(descriptor, min(size, most)))
    except PermissionError:
        return FileText(name, None, UNREADABLE), 0
    except OSError:
        return FileText(name, None, "not found, or not a regular file in the workspace"), 0
    return _decode_text(name, data if size <= most else _drop_last_character(data)), size


def _drop_last_character(data: bytes) -> bytes:
    """Remove the last character, which may be incomplete, unless it is ASCII."""
    end = len(data)
    while end > len(data) - _LONGEST_CHARACTER and data[end - 1 : end] >= b"\x80":
        end -= 1
        if data[end] >= 0xC0:  # its first byte
            break
    return data[:end]


_LONGEST_CHARACTER = 4
LONGEST_SECRET = 16_384
"""Characters, such as those of a key in a settings file."""


def drop_uncertain_end(text: str) -> str:
    """Remove the end of a text that is the beginning of a file: if a secret is cut in two there, its first part was not
    recognized. Also removes the incomplete last line, unless it is the only one.
    """
    kept = text[:-LONGEST_SECRET]
    end = kept.rfind("\n") + 1
    return kept[:end] if end else kept


def _decode_text(name: str, data: bytes) -> FileText:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return FileText(name, None, f"{NOT_TEXT}: {len(data)} bytes")
    if "\0" in text:
        return FileText(name, None, f"{NOT_TEXT}: {len(data)} bytes")
    return FileText(name, text)


@contextmanager
def open_agent_file(workspace: Path, path: str) -> Iterator[tuple[int, int]]:
    """Open the file; yield its descriptor and size.

    Raises FileNotFoundError for a path or a kind of file that is not allowed.
    """
    parts = file_names.split_agent_path(path)
    if parts is None:
        raise FileNotFoundError(path)
    with safe_open.open_root(workspace) as top, safe_open.open_regular_below(top, parts) as descriptor:
        file_status = os.fstat(descriptor)
        # A hard link may be a file outside of the workspace.
        if file_status.st_nlink != 1:
            raise FileNotFoundError(path)
        yield descriptor, file_status.st_size


def _hash_content(descriptor: int, size: int) -> str:
    digest = start_hash("sha256", size)
    for piece in safe_open.read_exactly(descriptor, size):
        digest.update(piece)
    return digest.hexdigest()


def escape_surrogates(path: str) -> str:
    """Escape lone surrogates, which can't be written to a file."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")
