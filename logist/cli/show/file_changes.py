"""Lists the files that a merge or an update changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from logist.cli.show.output import Line, StyledText

if TYPE_CHECKING:
    from logist.workspace.merge import FileChange


def format_file_changes(files: Sequence[FileChange], most: int) -> Iterator[Line]:
    """Yield a line for each file, at most `most`, and how many more there are."""
    for change in files[:most]:
        yield (f"  {_format_counts(change):>12}  ", StyledText(change.path))
    if len(files) > most:
        yield f"  and {len(files) - most} more"


def _format_counts(change: FileChange) -> str:
    return "binary file" if change.added is None else f"+{change.added} -{change.deleted}"
