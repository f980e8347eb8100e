"""Files of a workspace as a prompt shows them."""

from __future__ import annotations

from logist.quick_dataclass import dataclass


@dataclass(frozen=True)
class FileText:
    """A file of the workspace as the prompt shows it: its text, or a note that explains why it has none.

    With text and note, the text is not the whole file: parts with line numbers, as the note says.
    """

    path: str
    text: str | None
    note: str | None = None


@dataclass(frozen=True)
class Relevant:
    """A file that may matter for the task, and why."""

    file: FileText
    reason: str
    """For example `named in the task` or `contains parser, 3 times`."""
