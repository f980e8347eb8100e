"""Chooses the files that are relevant for a task: files that it names, then files
whose names or texts contain its words.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from logist.core.prompt.shown_files import FileText, Relevant
from logist.core.relevance import kinds
from logist.core.relevance.candidates import Candidates
from logist.core.relevance.mentions import Mentions, find_mentions
from logist.core.relevance.ranking import Names, RankedFile, rank_files
from logist.core.relevance.task import Task
from logist.core.relevance.words import find_focus, find_keywords
from logist.quick_dataclass import dataclass
from logist.workspace.context import searching, showing
from logist.workspace.context.source_history import SourceHistory
from logist.workspace.context.walking import CONFIDENTIAL, IGNORED, FileSurvey
from logist.workspace.files import agent_files, file_names, safe_open

if TYPE_CHECKING:
    from logist.core.prompt.search_report import SearchReport, Survey

NAMED = "named in the task"
BINARY = "binary file"
NO_ROOM = "text not shown: no room left"

SHARE = 2
"""A file may take one of so many parts of the room that is left. On past bug fixes, with the default budget, one half
shows more of the lines that they changed than all of it or a third, and than the same number of bytes for each file."""
SPARE = 20
"""Files ranked beyond the limit, to replace files that are not text."""
AMBIGUOUS = 3
"""If several files match a name in the task, this number of the most relevant ones is used."""


@dataclass(frozen=True)
class ContextBounds:
    """How much of the relevant files a prompt may contain."""

    limit: int
    """Maximum number of files."""
    max_file_bytes: int
    """Of a larger file, parts are shown."""
    max_total_bytes: int
    """Of a file that doesn't fit into what is left of this, parts are shown that do."""


def find_relevant_files(
    root: Path,
    found: FileSurvey,
    task: Task,
    bounds: ContextBounds,
    redact: Callable[[str], str],
    known: Collection[str] = (),
    past: SourceHistory | None = None,
    texts: searching.KnownTexts = searching.NOTHING_KNOWN,
    report: SearchReport | None = None,
) -> list[Relevant]:
    """Return the files that are relevant for a task, the best first, each with the reason.

    Files in `known` are in the prompt anyway, so they are left out. `redact` removes secrets and keeps line breaks. The
    result depends only on workspace, task, `redact` and `past`; `texts` only saves time. `found` gets the numbers of files
    that could not be read or shown.
    `report`: filled with what a person may ask about the choice.
    """
    if report:
        report.survey, report.known, report.limit = found, known, bounds.limit
    found.unread = found.undecodable = 0
    if bounds.limit < 1:
        return []
    paths: Collection[str] = found.files.keys()
    names: Sequence[str] | None = found.table.text_names
    candidates = found.searchable
    if not (found.table.names.isascii() and found.table.directories.isascii()):
        paths, names = dict.fromkeys(filter(is_text, paths)), None
        candidates = candidates.keep(map(is_text, candidates.paths))
    if known:
        paths, names = dict.fromkeys(path for path in paths if path not in known), None
        candidates = candidates.keep(path not in known for path in candidates.paths)
    mentioned = find_mentions(task, paths, found.directories, names)
    with safe_open.open_root(root) as top:
        ranked = _rank_files(top, found, candidates, task, mentioned, bounds, past, texts, report)
        unlisted = [path for path in mentioned.unknown if path not in known and is_ignored(top, found, path)]
    shown_texts = _Texts(root, showing.PromptReader(task, redact), bounds)
    chosen: list[Relevant] = []
    for path, reason, note in _iter_best(mentioned, ranked, unlisted):
        if len(chosen) >= bounds.limit:
            break
        file = FileText(path, None, note) if note else shown_texts.read_file(path)
        if file.text is None and reason != NAMED and not _is_left_out_for_size(file):
            found.undecodable += (file.note or "").startswith(agent_files.NOT_TEXT)
            continue
        chosen.append(Relevant(file, reason))
    chosen = [Relevant(shown_texts.show_more(each.file), each.reason) for each in chosen]
    if report:
        report.named = [*_iter_named(mentioned, {one.path: one.score for one in ranked})]
        report.chosen = chosen
    return chosen


class _Texts:
    """Reads the texts of files, the best first, into a room that they share."""

    def __init__(self, root: Path, reader: showing.PromptReader, bounds: ContextBounds) -> None:
        self._root, self._reader = root, reader
        self._most = bounds.max_file_bytes
        self._room = bounds.max_total_bytes

    def read_file(self, path: str) -> FileText:
        """Read a file, or its parts, into a share of the room that is left: so the best file has the largest one."""
        share = min(self._most, self._room // SHARE)
        file = self._reader.read_file(self._root, path, share)
        if _is_left_out_for_size(file) and share < self._most:
            return FileText(path, None, NO_ROOM)
        self._room -= count_bytes(file)
        return file

    def show_more(self, file: FileText) -> FileText:
        """Show more of a file than its share allowed, in the room that the other files have left."""
        is_incomplete = file.note == NO_ROOM or (file.text is not None and file.note is not None)
        if not is_incomplete or self._room < showing.LEAST_ROOM:
            return file
        before = count_bytes(file)
        longer = self._reader.read_file(self._root, file.path, min(self._most, before + self._room))
        if longer.text is None:
            return file
        self._room -= count_bytes(longer) - before
        return longer


def count_bytes(file: FileText) -> int:
    """Count the bytes of UTF-8 of a text."""
    return len((file.text or "").encode("utf-8"))


def _is_left_out_for_size(file: FileText) -> bool:
    """Whether a file has text, but no room for it."""
    return file.text is None and (file.note or "").startswith((showing.TOO_LARGE, NO_ROOM))


def is_text(path: str) -> bool:
    """Whether a path is valid text, so that a prompt can contain it."""
    if path.isascii():
        return True
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _rank_files(
    top: int,
    survey: FileSurvey,
    files: Candidates,
    task: Task,
    named: Mentions,
    bounds: ContextBounds,
    past: SourceHistory | None,
    texts: searching.KnownTexts,
    report: SearchReport | None,
) -> list[RankedFile]:
    """Return the files with words of the task, the best first."""
    wanted = find_keywords(task)
    if not wanted:
        return []
    name_index = Names(wanted)
    chosen = searching.choose_files(
        files, lambda number: files.kinds[number].worth + any(name_index.find_hits(files.paths[number]))
    )
    if report:
        report.searched = list(map(files.paths.__getitem__, chosen))
    found = searching.count_words(top, files, chosen, wanted, texts)
    survey.unread = sum(found.contents[number] < 0 for number in chosen)
    return rank_files(
        wanted,
        name_index,
        found,
        files=files,
        searched=len(chosen),
        most=bounds.limit + len(named.files) + SPARE,
        find_definitions=lambda numbers: searching.find_definitions(
            top, files, [number for number in numbers if found.contents[number] >= 0], wanted
        ),
        votes=past.count_votes(wanted) if past else {},
        directories=named.directories,
        focus=find_focus(task),
        report=report.ranking if report else None,
    )


def _iter_best(
    named: Mentions, ranked: list[RankedFile], unlisted: list[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield path, reason, and a note if the file must not be read; each path once."""
    yielded = set()
    for path in _iter_named(named, {one.path: one.score for one in ranked}):
        yielded.add(path)
        kind = kinds.classify_file(path)
        yield path, NAMED, CONFIDENTIAL if kind.secret else "" if kind.worth else BINARY
    for path in unlisted:
        yield path, NAMED, IGNORED
    for one in ranked:
        if one.path not in yielded:
            yield one.path, one.reason, ""


def _iter_named(named: Mentions, scores: Mapping[str, float]) -> Iterator[str]:
    """Yield the named files in the order of the task, each once; of many with the same name, the most relevant few."""
    taken: set[str] = set()
    for group in named.files:
        few = sorted(group, key=lambda path: (-scores.get(path, 0.0), path))[:AMBIGUOUS]
        for path in few:
            if path not in taken:
                taken.add(path)
                yield path


def is_ignored(top: int, found: Survey, path: str) -> bool:
    """Whether a path exists but is not among the files, so it is git-ignored."""
    parts = file_names.split_agent_path(path)
    if parts is None or found.hidden.is_ignored(path):
        return False
    above = parts[:-1]
    if any(
        b"/".join(above[: end + 1]).decode("utf-8", "replace") in found.noted for end in range(len(above))
    ):
        return False
    try:
        with safe_open.open_below(top, above) as parent:
            status = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
            return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and path not in found.files
    except OSError:
        return False
