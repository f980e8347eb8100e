"""Counts how often words occur in the files of a workspace: up to a
limit of bytes, the likelier files first.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter

from logist.core.relevance.candidates import Candidates
from logist.core.relevance.occurrences import CodeNames, count_definitions
from logist.core.relevance.ranking import Texts
from logist.core.relevance.word_table import TextCounts, WordTableBuilder
from logist.core.relevance.words import Keyword
from logist.digests import start_hash
from logist.quick_dataclass import dataclass
from logist.workspace.context.descending import Descent
from logist.workspace.context.walking import MAX_FILE_BYTES
from logist.workspace.context.word_index import (
    LEAST_BYTES,
    MOST_FOLDER_BYTES,
    DamagedPart,
    IndexPart,
    WordIndex,
)
from logist.workspace.files import safe_open

MAX_BYTES = 400_000_000
"""Maximum bytes of all files together; of the other files only the names are used."""
SNIFFED = 8_192
"""A file with a zero in its first bytes, up to this number, is not text."""
_LONG_ID_BYTES = 32
"""In a repository with SHA-256."""


def choose_files(files: Candidates, likely: Callable[[int], float]) -> list[int]:
    """Return the numbers of the files to search.

    If there are too many, returns the likelier ones; of equally likely ones, the first level by level.
    """
    sizes = files.sizes
    small = [number for number, size in enumerate(sizes) if 0 < size <= MAX_FILE_BYTES]
    if sum(map(sizes.__getitem__, small)) > MAX_BYTES:
        equals: dict[float, list[int]] = {}
        parts = [path.split("/") for path in files.paths]
        for number in sorted(small, key=lambda number: (len(parts[number]), parts[number])):
            equals.setdefault(likely(number), []).append(number)
        small = list(
            _take_fitting(sizes, [number for much in sorted(equals, reverse=True) for number in equals[much]])
        )
    return small


def _take_fitting(sizes: Sequence[int], ranked: Sequence[int]) -> Iterator[int]:
    room = MAX_BYTES
    for number in ranked:
        room -= sizes[number]
        if room < 0:
            return
        yield number


@dataclass(frozen=True)
class KnownTexts:
    """What is known about the contents of files without reading them."""

    index: WordIndex
    ids: Sequence[bytes | None]
    """For each file in the table of the workspace, its id in git if it has not changed since the last checkpoint; if
    nothing is known about any file, the list may be empty.
    """

    def name_content(self, data: bytes) -> bytes:
        """Return the id of a content in git."""
        is_long = len(next(filter(None, self.ids), b"")) == _LONG_ID_BYTES
        digest = start_hash("sha256" if is_long else "sha1", len(data))
        digest.update(b"blob %d\0" % len(data))
        digest.update(data)
        return bytes.fromhex(digest.hexdigest())


NOTHING_KNOWN = KnownTexts(WordIndex(None), ())


def count_words(
    top: int,
    files: Candidates,
    chosen: Sequence[int],
    keywords: Sequence[Keyword],
    known: KnownTexts = NOTHING_KNOWN,
) -> Texts:
    """Return which of the words the chosen files contain.

    The result does not depend on what is known: the counts always come from a `WordTable`, from the disk or made just now.
    """
    part_names = known.index.list_parts()
    ids: list[bytes | None] = [None] * len(chosen)
    if known.ids:
        ids = list(map(known.ids.__getitem__, map(files.rows.__getitem__, chosen)))
    if part_names and None in ids:  # without parts, all files are read anyway
        places = {number: place for place, number in enumerate(chosen) if ids[place] is None}
        for number, data in _read_files(top, files, places):
            ids[places[number]] = known.name_content(data)
    texts = Texts([TextCounts() for _ in keywords])
    sizes = list(map(files.sizes.__getitem__, chosen))
    contents = _look_up_counts(texts, known.index, part_names, ids, sizes, keywords)
    texts.contents = [-1] * len(files.paths)
    for number, content in zip(chosen, contents, strict=True):
        texts.contents[number] = content
    new = [number for number, content in zip(chosen, contents, strict=True) if content < 0]
    room = MOST_FOLDER_BYTES
    for part, groups, size in _iter_new_parts(top, files, new, known):
        first = _add_counts(
            texts, part.table.count_keywords(keywords), [files.sizes[same[0]] for same in groups]
        )
        for content, same in enumerate(groups, first):
            for number in same:
                texts.contents[number] = content
        if size >= LEAST_BYTES and room > 0:
            room -= known.index.save_part(part)
    return texts


def _look_up_counts(
    texts: Texts,
    index: WordIndex,
    part_names: Sequence[str],
    ids: Sequence[bytes | None],
    sizes: Sequence[int],
    keywords: Sequence[Keyword],
) -> list[int]:
    """Add the counts of the contents that the index has to `texts`; return their numbers, -1 for what it doesn't have.

    `ids`: of the contents of the files, with the sizes of these.
    """
    contents = [-1] * len(ids)
    missing = list(ids)
    for part_name in part_names:
        if not any(missing):
            break
        with index.open_part(part_name) as part, suppress(DamagedPart):
            found = _find_in_part(texts, part, missing, sizes, keywords) if part else None
            if found:
                contents = list(map(max, contents, found))
                missing = [name if content < 0 else None for name, content in zip(ids, contents, strict=True)]
                index.mark_used(part_name)
    return contents


def _find_in_part(
    texts: Texts,
    part: IndexPart,
    ids: Sequence[bytes | None],
    sizes: Sequence[int],
    keywords: Sequence[Keyword],
) -> list[int] | None:
    """Add the counts of the contents that a part has to `texts`; return as `_look_up_counts`, None if it has none.

    Raises DamagedPart, and then adds nothing.
    """
    first = len(texts.sizes)
    numbers = dict(zip(part.ids, range(first, first + len(part.ids)), strict=True))
    found = [numbers.get(name, -1) if name else -1 for name in ids]
    if max(found) < 0:
        return None
    columns, own_sizes = part.table.count_keywords(keywords), [_NOT_HERE] * len(part.ids)
    for content, size in zip(found, sizes, strict=True):
        if content >= 0:
            own_sizes[content - first] = size
    if _NOT_HERE in own_sizes:
        others = {number for number, size in enumerate(own_sizes) if size == _NOT_HERE}
        columns = [column.drop(others) for column in columns]
    _add_counts(texts, columns, own_sizes)
    return found


_NOT_HERE = -1
"""Instead of the size of a content that is not in this workspace, or was found already."""


def _add_counts(texts: Texts, columns: Sequence[TextCounts], sizes: Sequence[int]) -> int:
    """Add the counts of further contents, which have numbers from 0; return the number of the first one in `texts`."""
    first = len(texts.sizes)
    texts.sizes += sizes
    if not first:  # nothing was counted before
        texts.columns[:] = columns
        return first
    texts.columns[:] = [
        known.append(column, first) for known, column in zip(texts.columns, columns, strict=True)
    ]
    return first


def _iter_new_parts(
    top: int, files: Candidates, chosen: Sequence[int], known: KnownTexts
) -> Iterator[tuple[IndexPart, list[list[int]], int]]:
    """Read files; yield parts of the index, each with the files that have each of its contents, and their size."""
    builder, inside, size = WordTableBuilder(), dict[bytes, list[int]](), 0
    for number, data in _read_files(top, files, chosen):
        name = known.name_content(data)
        if name in inside:
            inside[name].append(number)
            continue
        inside[name] = [number]
        builder.add_text(b"" if _is_binary(data) else data)
        size += len(data)
        if builder.is_full:
            yield IndexPart(list(inside), builder.finish()), list(inside.values()), size
            builder, inside, size = WordTableBuilder(), {}, 0
    if inside:
        yield IndexPart(list(inside), builder.finish()), list(inside.values()), size


def find_definitions(
    top: int, files: Candidates, chosen: Iterable[int], keywords: Sequence[Keyword]
) -> dict[int, Sequence[int]]:
    """Return for each chosen file that is text how many of its definitions have each keyword in their name."""
    names = CodeNames(keywords)
    return {
        number: count_definitions(data, names)
        for number, data in _read_files(top, files, chosen)
        if not _is_binary(data)
    }


def _is_binary(data: bytes) -> bool:
    return data.find(b"\0", 0, SNIFFED) >= 0


def _get_directory(path: str) -> str:
    return path[: path.rfind("/") + 1]


def _read_files(top: int, files: Candidates, chosen: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the contents of files with their numbers, directory by directory, without deleted and locked ones."""
    in_order = sorted((_get_directory(files.paths[number]), number) for number in chosen)
    with Descent(top) as way:
        for directory, group in groupby(in_order, key=itemgetter(0)):
            try:
                descriptor = way.open_path(directory[:-1])
                for _, number in group:
                    data = _read_complete(descriptor, os.fsencode(files.names[number]), files.sizes[number])
                    if data is not None:
                        yield number, data
            except OSError:
                continue


def _read_complete(parent: int, name: bytes, size: int) -> bytes | None:
    """Return the complete file if it is still a regular file of this size without hard links."""
    try:
        descriptor = os.open(name, safe_open.FILE, dir_fd=parent)
    except OSError:
        return None
    try:
        file_status = os.fstat(descriptor)
        if not stat.S_ISREG(file_status.st_mode) or file_status.st_nlink != 1 or file_status.st_size != size:
            return None
        return b"".join(safe_open.read_exactly(descriptor, size))
    finally:
        os.close(descriptor)
