"""What an export took out of a request, as its metadata say it: that can't be compared with today's files."""

from __future__ import annotations

from logist.core.model import JsonObject

MARKED = "redacted"
"""In `request.metadata`: parts of the prompt by their number, and other metadata by name."""


def read_redaction_marks(metadata: JsonObject) -> frozenset[int | str]:
    """The parts and the metadata of a request that are not as they were sent; an archive may say anything."""
    marks = metadata.get(MARKED)
    return (
        frozenset(each for each in marks if isinstance(each, int | str))
        if isinstance(marks, list)
        else frozenset()
    )
