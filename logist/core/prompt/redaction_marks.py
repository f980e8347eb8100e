"""Which parts of a request an export redacted, by its metadata: these
can't be compared with current files.
"""

from __future__ import annotations

from logist.core.model import JsonObject

MARKED = "redacted"
"""In `request.metadata`: parts of the prompt by their number, and other metadata by name."""


def read_redaction_marks(metadata: JsonObject) -> frozenset[int | str]:
    """Return the parts and the metadata of a request that are not as they were sent. Ignores malformed marks:
    an archive may contain anything.
    """
    marks = metadata.get(MARKED)
    return (
        frozenset(each for each in marks if isinstance(each, int | str))
        if isinstance(marks, list)
        else frozenset()
    )
