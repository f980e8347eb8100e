"""Files that people write, in YAML or JSON: read with positions, validated with a model, edited in place."""

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
from logist.documents.editing import dump_yaml, edit_text
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
