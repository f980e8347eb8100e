"""Files that people write, in YAML or JSON: read with positions, validated with a model, edited in place."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from logist.documents.checking import (
    find_document_faults,
    find_key_path,
    find_misspelled_keys,
    find_unknown_keys,
    list_known_keys,
    remove_keys,
    suggest_key,
    suggest_names,
    validate_document,
)
from logist.documents.reading import (
    MAX_BYTES,
    MAX_DEPTH,
    Document,
    open_file,
    parse_document,
    read_content,
    read_document,
    read_document_text,
)

if TYPE_CHECKING:
    from logist.documents.editing import dump_yaml, edit_text

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "Document",
    "dump_yaml",
    "edit_text",
    "find_document_faults",
    "find_key_path",
    "find_misspelled_keys",
    "find_unknown_keys",
    "list_known_keys",
    "open_file",
    "parse_document",
    "read_content",
    "read_document",
    "read_document_text",
    "remove_keys",
    "suggest_key",
    "suggest_names",
    "validate_document",
]


def __getattr__(name: str) -> Any:
    """Load `editing` when it is needed: it loads a YAML library, which reading simple files does not."""
    if name in ("dump_yaml", "edit_text"):
        return getattr(import_module(f"{__name__}.editing"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
