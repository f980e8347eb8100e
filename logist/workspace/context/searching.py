"""Counts how often words occur in the files of a workspace: up to a
limit of bytes, the likelier files first.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from logist.core.relevance.occurrences import count_definitions, make_counter
from logist.core.relevance.ranking import Text
from logist.core.relevance.words import Keyword
from logist.workspace.context.descending import Descent
from logist.workspace.files import safe_open

MAX_BYTES = 16_000_000
"""Maximum bytes of all files together; of the other files only the names are used."""
MAX_FILE_BYTES = 2_000_000
"""A larger file is not searched: it is data, and would use up the limit for all files."""
SNIFFED = 8_192
"""A file with a zero in its first bytes, up to this number, is not text."""


def choose_files(files: Mapping[str, int], likely: Callable[[str], float]) -> list[str]:
    """Return the paths to search, from files with their sizes, grouped by directory.

    If there are too many, returns the likelier ones; of equally likely ones, the first in `files`.
    """
    small = [path for path, size in files.items() if 0 < size <= MAX_FILE_BYTES]
    if sum(files[path] for path in small) > MAX_BYTES:
        equals: dict[float, list[str]] = {}
        for path in small:
            equals.setdefault(likely(path), []).append(path)
        small = list(
            _take_fitting(files, [path for much in sorted(equals, reverse=True) for path in equals[much]])
        )
    return sorted(small, key=_get_directory)


def _take_fitting(files: Mapping[str, int], ranked: Sequence[str]) -> Iterator[str]:
    room = MAX_BYTES
    for path in ranked:
        room -= files[path]
        if room < 0:
            return
        yield path


def _get_directory(path: str) -> str:
    return path[: path.rfind("/") + 1]


def count_words(
    top: int, files: Mapping[str, int], chosen: Sequence[str], keywords: Sequence[Keyword]
) -> Iterator[tuple[str, Text]]:
    """Yield the chosen files that contain any of the words.

    `chosen` is in the order of `choose_files`, so that a directory is opened once.
    """
    counters = [make_counter(keyword) for keyword in keywords]
    for path, data in _read_texts(top, files, chosen):
        low = data.lower()
        counts = [count(data, low) for count in counters]
        if any(counts):
            yield path, Text(counts, len(data))


def find_definitions(
    top: int, files: Mapping[str, int], chosen: Sequence[str], keywords: Sequence[Keyword]
) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield for each chosen file how many of its definitions have each keyword in their name."""
    for path, data in _read_texts(top, files, sorted(chosen, key=_get_directory)):
        yield path, count_definitions(data, keywords)


def _read_texts(top: int, files: Mapping[str, int], chosen: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the contents of the files, without deleted, locked and binary ones."""
    with Descent(top) as way:
        for directory, group in groupby(chosen, key=_get_directory):
            try:
                descriptor = way.open_path(directory[:-1])
                for path in group:
                    data = _read_if_text(descriptor, os.fsencode(path[len(directory) :]), files[path])
                    if data is not None:
                        yield path, data
            except OSError:
                continue


def _read_if_text(parent: int, name: bytes, size: int) -> bytes | None:
    """Return the complete file if it is still a regular text file of this size without hard links."""
    try:
        descriptor = os.open(name, safe_open.FILE, dir_fd=parent)
    except OSError:
        return None
    try:
        file_status = os.fstat(descriptor)
        if not stat.S_ISREG(file_status.st_mode) or file_status.st_nlink != 1 or file_status.st_size != size:
            return None
        data = os.read(descriptor, SNIFFED)
        if b"\0" in data:
            return None
        if size > SNIFFED:
            data += b"".join(safe_open.read_exactly(descriptor, size - len(data)))
        return data
    finally:
        os.close(descriptor)
