"""Files that people write, in YAML or JSON: read with positions, validated with a model, edited in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.documents.checking import (
        can_hold,
        find_document_faults,
        find_key_path,
        find_misspelled_keys,
        find_unknown_keys,
        format_path,
        list_known_keys,
        remove_keys,
        suggest_key,
        suggest_names,
        validate_document,
    )
    from logist.documents.editing import edit_text
    from logist.documents.reading import (
        MAX_BYTES,
        MAX_DEPTH,
        Document,
        open_file,
        parse_document,
        parse_json_line,
        parse_value,
        read_content,
        read_document,
        read_document_text,
    )
    from logist.documents.writing import dump_yaml

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "Document",
    "can_hold",
    "dump_yaml",
    "edit_text",
    "find_document_faults",
    "find_key_path",
    "find_misspelled_keys",
    "find_unknown_keys",
    "format_path",
    "list_known_keys",
    "open_file",
    "parse_document",
    "parse_json_line",
    "parse_value",
    "read_content",
    "read_document",
    "read_document_text",
    "remove_keys",
    "suggest_key",
    "suggest_names",
    "validate_document",
]

load_on_use(
    globals(),
    {
        "checking": (
            "can_hold",
            "find_document_faults",
            "find_key_path",
            "find_misspelled_keys",
            "find_unknown_keys",
            "format_path",
            "list_known_keys",
            "remove_keys",
            "suggest_key",
            "suggest_names",
            "validate_document",
        ),
        "editing": ("edit_text",),
        "reading": (
            "MAX_BYTES",
            "MAX_DEPTH",
            "Document",
            "open_file",
            "parse_document",
            "parse_json_line",
            "parse_value",
            "read_content",
            "read_document",
            "read_document_text",
        ),
        "writing": ("dump_yaml",),
    },
)
