"""Reads YAML with a YAML library, ruamel: anything that YAML can be, and every error with its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from logist.core.text.simple_yaml import resolve_scalar
from logist.documents.reading import ParsedPiece
from logist.errors import InvalidFile


def parse_yaml_pieces(text: str, name: str) -> Iterator[ParsedPiece]:
    """Yield the tokens of a text. Raises InvalidFile."""
    documents = 0
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            documents += isinstance(event, DocumentStartEvent)
            if documents > 1:
                raise InvalidFile("must contain only one YAML document", where=_format_place(event, name))
            if piece := _to_yaml_piece(event, name):
                yield piece
    except ReaderError as error:
        raise _build_character_error(error, text, name) from error
    except YAMLError as error:
        raise _build_syntax_error(error, name) from error
    except (ValueError, OverflowError) as error:  # \U escapes beyond the last character
        raise InvalidFile(f"invalid YAML: {error}", where=name) from error


def _to_yaml_piece(event: Event, name: str) -> ParsedPiece | None:
    if isinstance(event, AliasEvent):
        raise InvalidFile(
            "YAML aliases (`*name`) are not allowed: repeat the value instead",
            where=_format_place(event, name),
        )
    if getattr(event, "anchor", None):
        raise InvalidFile(
            "YAML anchors (`&name`) are not allowed: repeat the value instead",
            where=_format_place(event, name),
        )
    if getattr(event, "tag", None):
        raise InvalidFile("YAML tags (`!name`) are not allowed", where=_format_place(event, name))
    line, column = event.start_mark.line + 1, event.start_mark.column + 1
    if isinstance(event, MappingStartEvent):
        return ParsedPiece("mapping", None, line, column)
    if isinstance(event, SequenceStartEvent):
        return ParsedPiece("list", None, line, column)
    if isinstance(event, MappingEndEvent | SequenceEndEvent):
        return ParsedPiece("end", None, line, column)
    if isinstance(event, ScalarEvent):
        plain = event.implicit[0]
        value = _resolve_scalar(event.value, _format_place(event, name)) if plain else event.value
        return ParsedPiece("scalar", value, line, column)
    return None


def _resolve_scalar(word: str, where: str) -> Any:
    try:
        return resolve_scalar(word)
    except ValueError as error:
        raise InvalidFile(str(error), where=where) from error


def _format_place(event: Event, name: str) -> str:
    return f"{name}:{event.start_mark.line + 1}:{event.start_mark.column + 1}"


def _build_syntax_error(error: YAMLError, name: str) -> InvalidFile:
    mark = getattr(error, "problem_mark", None)
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    problem = error.problem if isinstance(error, MarkedYAMLError) else str(error)
    fix = "indent with spaces, not tabs" if "\\t" in str(problem) else None
    return InvalidFile(f"invalid YAML: {problem}", where=where, fix=fix)


def _build_character_error(error: ReaderError, text: str, name: str) -> InvalidFile:
    before = text[: error.position]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    message = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
    return InvalidFile(message, where=f"{name}:{line}:{column}")
