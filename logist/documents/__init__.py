"""Files that people write, YAML or JSON: read with positions, checked against a model, edited in place."""

from logist.documents.checking import (
    checked,
    faults,
    key_path,
    known_keys,
    misspelled_keys,
    nearest,
    nearest_key,
    unknown_keys,
    without,
)
from logist.documents.editing import dumped, edited
from logist.documents.reading import MAX_BYTES, MAX_DEPTH, Document, content, opened, parse, read, text

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "Document",
    "checked",
    "content",
    "dumped",
    "edited",
    "faults",
    "key_path",
    "known_keys",
    "misspelled_keys",
    "nearest",
    "nearest_key",
    "opened",
    "parse",
    "read",
    "text",
    "unknown_keys",
    "without",
]
