"""Counts how often words occur in the files of a workspace: up to a
limit of bytes, the likelier files first.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, groupby

from logist.core.relevance.occurrences import CodeNames, count_definitions
from logist.core.relevance.ranking import Texts
from logist.core.relevance.word_table import WordTableBuilder
from logist.core.relevance.words import Keyword
from logist.digests import start_hash
from logist.quick_dataclass import dataclass
from logist.workspace.context.descending import Descent
from logist.workspace.context.walking import MAX_FILE_BYTES
from logist.workspace.context.word_index import LEAST_BYTES, MOST_FOLDER_BYTES, IndexPart, WordIndex
from logist.workspace.files import safe_open

MAX_BYTES = 400_000_000
"""Maximum bytes of all files together; of the other files only the names are used."""
SNIFFED = 8_192
"""A file with a zero in its first bytes, up to this number, is not text."""
_LONG_ID_BYTES = 32
"""In a repository with SHA-256."""


def choose_files(files: Mapping[str, int], paths: Iterable[str], likely: Callable[[str], float]) -> list[str]:
    """Return those of the paths to search; `files`: their sizes.

    If there are too many, returns the likelier ones; of equally likely ones, the first level by level.
    """
    small = [path for path in paths if 0 < files[path] <= MAX_FILE_BYTES]
    if sum(map(files.__getitem__, small)) > MAX_BYTES:
        equals: dict[float, list[str]] = {}
        for path in sorted(small, key=lambda path: (path.count("/"), path.split("/"))):
            equals.setdefault(likely(path), []).append(path)
        small = list(
            _take_fitting(files, [path for much in sorted(equals, reverse=True) for path in equals[much]])
        )
    return small


def _take_fitting(files: Mapping[str, int], ranked: Sequence[str]) -> Iterator[str]:
    room = MAX_BYTES
    for path in ranked:
        room -= files[path]
        if room < 0:
            return
        yield path


def _get_directory(path: str) -> str:
    return path[: path.rfind("/") + 1]


@dataclass(frozen=True)
class KnownTexts:
    """What is known about the contents of files without reading them."""

    index: WordIndex
    ids: Mapping[str, bytes]
    """The ids in git of files that have not changed since the last checkpoint, by path."""

    def name_content(self, data: bytes) -> bytes:
        """Return the id of a content in git."""
        is_long = len(next(iter(self.ids.values()), b"")) == _LONG_ID_BYTES
        digest = start_hash("sha256" if is_long else "sha1", len(data))
        digest.update(b"blob %d\0" % len(data))
        digest.update(data)
        return bytes.fromhex(digest.hexdigest())


NOTHING_KNOWN = KnownTexts(WordIndex(None), {})


def count_words(
    top: int,
    files: Mapping[str, int],
    chosen: Sequence[str],
    keywords: Sequence[Keyword],
    known: KnownTexts = NOTHING_KNOWN,
) -> Texts:
    """Return which of the words the chosen files contain.

    The result does not depend on what is known: the counts always come from a `WordTable`, from the disk or made just now.
    """
    part_names = known.index.list_parts()
    ids = known.ids
    if part_names:  # otherwise all files are read anyway
        unknown = sorted((path for path in chosen if path not in ids), key=_get_directory)
        ids = {**ids, **{path: known.name_content(data) for path, data in _read_files(top, files, unknown)}}
    names = list(map(ids.get, chosen))
    missing = dict(zip(names, map(files.__getitem__, chosen), strict=True))
    missing.pop(None, None)
    texts = Texts([{} for _ in keywords])
    numbers = _look_up_counts(texts, known.index, part_names, missing, keywords)
    places = zip(chosen, map(numbers.get, names), strict=True)
    texts.contents = {path: number for path, number in places if number is not None}
    new = sorted((path for path in chosen if path not in texts.contents), key=_get_directory)
    room = MOST_FOLDER_BYTES
    for part, paths, size in _iter_new_parts(top, files, new, known):
        first = _add_counts(texts, part.table.count_keywords(keywords), [files[same[0]] for same in paths])
        texts.contents.update((path, first + number) for number, same in enumerate(paths) for path in same)
        if size >= LEAST_BYTES and room > 0:
            room -= known.index.save_part(part)
    return texts


def _look_up_counts(
    texts: Texts,
    index: WordIndex,
    part_names: Sequence[str],
    missing: dict[bytes | None, int],
    keywords: Sequence[Keyword],
) -> dict[bytes | None, int]:
    """Add the counts of the contents that the index has to `texts`, and return their numbers by their ids.

    `missing`: ids with the size of their contents; those that are found are removed.
    """
    found: dict[bytes | None, int] = {}
    for part_name in part_names:
        part = index.load_part(part_name) if missing else None
        if part is not None and not missing.keys().isdisjoint(part.ids):
            columns = part.table.count_keywords(keywords)
            sizes = [missing.pop(name, _NOT_HERE) for name in part.ids]
            if _NOT_HERE in sizes:
                others = {number for number, size in enumerate(sizes) if size == _NOT_HERE}
                for column in columns:
                    for number in column.keys() & others:
                        del column[number]
            first = _add_counts(texts, columns, sizes)
            numbers = zip(part.ids, range(first, first + len(sizes)), strict=True)
            found.update(compress(numbers, map(_NOT_HERE.__ne__, sizes)))
            index.mark_used(part_name)
    return found


_NOT_HERE = -1
"""Instead of the size of a content that is not in this workspace, or was found already."""


def _add_counts(texts: Texts, columns: Sequence[dict[int, int]], sizes: Sequence[int]) -> int:
    """Add the counts of further contents, which have numbers from 0; return the number of the first one in `texts`."""
    first = len(texts.sizes)
    texts.sizes += sizes
    if not first:  # nothing was counted before
        texts.columns[:] = columns
        return first
    for known, column in zip(texts.columns, columns, strict=True):
        known.update({first + number: count for number, count in column.items()})
    return first


def _iter_new_parts(
    top: int, files: Mapping[str, int], paths: Sequence[str], known: KnownTexts
) -> Iterator[tuple[IndexPart, list[list[str]], int]]:
    """Read files; yield parts of the index, each with the files that have each of its contents, and their size."""
    builder, inside, size = WordTableBuilder(), dict[bytes, list[str]](), 0
    for path, data in _read_files(top, files, paths):
        name = known.name_content(data)
        if name in inside:
            inside[name].append(path)
            continue
        inside[name] = [path]
        builder.add_text(b"" if _is_binary(data) else data)
        size += len(data)
        if builder.is_full:
            yield IndexPart(list(inside), builder.finish()), list(inside.values()), size
            builder, inside, size = WordTableBuilder(), {}, 0
    if inside:
        yield IndexPart(list(inside), builder.finish()), list(inside.values()), size


def find_definitions(
    top: int, files: Mapping[str, int], chosen: Sequence[str], keywords: Sequence[Keyword]
) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield for each chosen file how many of its definitions have each keyword in their name."""
    names = CodeNames(keywords)
    for path, data in _read_texts(top, files, sorted(chosen, key=_get_directory)):
        yield path, count_definitions(data, names)


def _read_texts(top: int, files: Mapping[str, int], chosen: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the contents of the files that are text."""
    return ((path, data) for path, data in _read_files(top, files, chosen) if not _is_binary(data))


def _is_binary(data: bytes) -> bool:
    return data.find(b"\0", 0, SNIFFED) >= 0


def _read_files(top: int, files: Mapping[str, int], chosen: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the contents of the files, without deleted and locked ones."""
    with Descent(top) as way:
        for directory, group in groupby(chosen, key=_get_directory):
            try:
                descriptor = way.open_path(directory[:-1])
                for path in group:
                    data = _read_complete(descriptor, os.fsencode(path[len(directory) :]), files[path])
                    if data is not None:
                        yield path, data
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
