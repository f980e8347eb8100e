"""Files an agent named: opened safely, read for a prompt, or weighed as evidence. Whatever is wrong is a value."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from logist.core.model import Evidence
from logist.workspace import beneath, names


@dataclass(frozen=True)
class FileText:
    """A file for a prompt: its text, or a note on why there is none."""

    path: str
    text: str | None = None
    note: str | None = None


def evidence(workspace: Path, path: str, max_bytes: int) -> Evidence:
    """Whether `path` is a regular file of one name in the workspace, and its sha256 (none above `max_bytes`)."""
    shown = _clean(path)
    try:
        with _opened(workspace, path) as (descriptor, size):
            digest = _sha256(descriptor, size) if size <= max_bytes else None
            return Evidence(path=shown, exists=True, sha256=digest)
    except OSError:
        return Evidence(path=shown, exists=False)


def read_file(workspace: Path, path: str, max_bytes: int) -> FileText:
    """The text of a file of at most `max_bytes`; the same workspace always gives the same note."""
    shown = _clean(path)
    try:
        with _opened(workspace, path) as (descriptor, size):
            if size > max_bytes:
                return FileText(shown, note=f"too large: {size} bytes, at most {max_bytes} are shown")
            data = b"".join(beneath.exactly(descriptor, size))
    except OSError:
        return FileText(shown, note="not there, or not a regular file of the workspace")
    return _as_text(shown, data)


def _as_text(shown: str, data: bytes) -> FileText:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return FileText(shown, note=f"not text: {len(data)} bytes")
    if "\0" in text:
        return FileText(shown, note=f"not text: {len(data)} bytes")
    return FileText(shown, text=text)


@contextmanager
def _opened(workspace: Path, path: str) -> Iterator[tuple[int, int]]:
    """Descriptor and size of the file; FileNotFoundError for a path or a thing that is refused."""
    parts = names.given(path)
    if parts is None:
        raise FileNotFoundError(path)
    with beneath.root(workspace) as top, beneath.regular(top, parts) as descriptor:
        found = os.fstat(descriptor)
        # A second name may be one of a file outside.
        if found.st_nlink != 1:
            raise FileNotFoundError(path)
        yield descriptor, found.st_size


def _sha256(descriptor: int, size: int) -> str:
    digest = hashlib.sha256()
    for piece in beneath.exactly(descriptor, size):
        digest.update(piece)
    return digest.hexdigest()


def _clean(path: str) -> str:
    """Lone surrogates cannot be written to a file."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")
