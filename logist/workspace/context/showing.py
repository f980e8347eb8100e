"""Reads a file for a prompt: whole if there is room for it, else the parts that match the task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from logist.core.prompt.shown_files import FileText
from logist.core.relevance import Task, file_parts, kinds, mentions, words
from logist.core.text.counts import format_count
from logist.quick_dataclass import dataclass
from logist.workspace.context.walking import MAX_FILE_BYTES
from logist.workspace.files import agent_files

FOR_AGENTS = ", with line numbers; read the file for the rest"
"""The end of a note about parts, which only a reader of the parts needs."""
TOO_LARGE = "too large"
LEAST_ROOM = 600
"""Bytes; fewer are too few for parts of a file."""


@dataclass(frozen=True)
class PromptReader:
    """Reads files for the prompt of a task."""

    task: Task
    redact: Callable[[str], str]
    """Removes secrets from a whole text, and keeps its line breaks. A secret of several lines, or in a long line, would
    not be recognized any more in parts."""

    def read_file(self, root: Path, path: str, room: int) -> FileText:
        """Return a file whole if it has at most `room` bytes, else its parts; or a note that explains why there is no text."""
        most = max(room, MAX_FILE_BYTES)
        file, size = agent_files.read_beginning(root, path, most)
        if file.text is None or size <= room:
            return file
        too_large = FileText(file.path, None, f"{TOO_LARGE}: {size} bytes, the limit is {room}")
        if room < LEAST_ROOM:
            return too_large
        matches = file_parts.Matches(words.find_keywords(self.task), mentions.find_lines(self.task, path))
        text = self.redact(file.text)
        if size > most:
            text = agent_files.drop_uncertain_end(text)
        parts = file_parts.show_file(text, matches, room, headings=kinds.classify_file(path).prose)
        if not parts.text:
            return too_large
        return FileText(file.path, parts.text, _describe_parts(parts.total, size, most))


def _describe_parts(lines: int, size: int, most: int) -> str:
    whole = f"a file of {format_count(lines, 'line')}"
    if size > most:
        whole = f"the first {format_count(lines, 'line')} of a file of {size:,} bytes"
    return f"parts of {whole}{FOR_AGENTS}"
