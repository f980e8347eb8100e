"""Reads YAML or JSON text into plain values, with the line of every field."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from logist.core.text.simple_yaml import parse_with_lines
from logist.errors import InvalidFile
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64

# Without O_NONBLOCK, opening a named pipe would block forever.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_GIVEN = ("/dev/fd", "/proc/self/fd")

_JSON_TOKEN = compile_on_use(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s{}\[\],:"]+')


@dataclass(frozen=True)
class Document:
    """A file that was read: its name, its values, and the line on which each field begins."""

    path: str
    data: dict[str, Any]
    lines: dict[str, int]
    """Line (from 1) by field path, as in `limits.cost_threshold` or `steps[2].agentRole`."""


class ParsedPiece(NamedTuple):
    """One token of the text; line and column count from 1."""

    kind: Literal["mapping", "list", "end", "scalar"]
    value: Any
    line: int
    column: int


def open_file(path: str | Path) -> BinaryIO:
    """Open a file that a person names, for reading.

    Raises OSError immediately for a pipe, a socket or a device.

    Files that the shell has opened for the command, as for `<(...)`, are accepted like standard input.
    """
    name = os.fspath(path)
    if name == "/dev/stdin" or os.path.dirname(name) in _GIVEN:
        return open(name, "rb")
    try:
        fd = os.open(name, _READ)
    except OSError as error:
        if error.errno in (
            errno.ENXIO,
            errno.EOPNOTSUPP,
            errno.ENODEV,
        ):  # a socket, or a device without a driver
            raise _build_irregular_error(name) from error
        raise
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # a directory: os.fdopen raises the error
        os.close(fd)
        raise _build_irregular_error(name)
    try:
        return os.fdopen(fd, "rb")
    except OSError:
        os.close(fd)
        raise


def _build_irregular_error(name: str) -> OSError:
    return OSError(errno.EINVAL, "not a regular file", name)


def read_content(path: str | Path, most: int = MAX_BYTES) -> bytes:
    """Read all of a file that `open_file` accepts; at most one byte more than `most`."""
    with open_file(path) as file:
        return file.read(most + 1)


def read_document(path: Path) -> Document:
    """Read the document in a file. Raises InvalidFile, with the place, for every failure."""
    return parse_document(read_document_text(path), os.fspath(path))


def read_document_text(path: Path) -> str:
    """Read the text of a file with the same limits and errors as `read_document`."""
    name = os.fspath(path)
    try:
        data = read_content(path)
    except OSError as error:
        raise InvalidFile(f"can't read the file: {error.strerror}", where=name) from error
    return _decode_text(data, name)


def parse_document(text: str, name: str) -> Document:
    """Parse the document in a text.

    The suffix of `name` distinguishes YAML from JSON; without one, `{` means JSON.
    """
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidFile(f"must not be larger than {MAX_BYTES:,} bytes", where=name)
    body = text.removeprefix("\ufeff")
    if is_json(body, name):
        return _build_document(_parse_json_pieces(body, name), name)
    if simple := parse_with_lines(body):
        return Document(name, *simple)
    return parse_any_yaml(body, name)


def parse_any_yaml(text: str, name: str) -> Document:
    """Parse YAML with a YAML library, which finds every error."""
    from logist.documents.yaml_pieces import parse_yaml_pieces  # noqa: PLC0415 - slow import: ruamel

    return _build_document(parse_yaml_pieces(text, name), name)


def parse_json_line(data: bytes, name: str, line: int) -> Document:
    """Parse a line of a JSON Lines file as a document, with the place of every error in that file."""
    where = f"{name}:{line}"
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidFile("not valid UTF-8", where=f"{where}:{error.start + 1}") from error
    if not text.strip():
        raise InvalidFile("the line is empty", where=where, fix="remove it, or write a JSON object")
    return _build_document(_parse_json_pieces(text, name, line), name)


def parse_value(text: str) -> Any:
    """Parse a YAML scalar or flow collection, JSON too; anything else is returned as text."""
    if "\n" in text:
        return text
    try:
        value = parse_document(f"value: {text}\n", "VALUE").data["value"]
    except InvalidFile:
        return text
    plain = isinstance(value, str) and text[:1] not in ("'", '"')
    return text if plain else value


def _build_document(pieces: Iterator[ParsedPiece], name: str) -> Document:
    builder = _DocumentBuilder(name, pieces)
    data = builder.build_document()
    if not isinstance(data, dict):
        raise InvalidFile("must be a mapping of keys to values", where=f"{name}:{builder.lines.get('', 1)}")
    return Document(name, data, builder.lines)


def is_json(text: str, name: str) -> bool:
    """Whether a text of this name is read as JSON.

    This includes YAML that is also valid JSON, because reading JSON is much faster.
    """
    suffix = os.path.splitext(name)[1].lower()
    if suffix in {".yaml", ".yml"}:
        return _is_valid_json(text)
    if suffix == ".json":
        return True
    return text.lstrip("\ufeff \t\r\n").startswith("{")


def _is_valid_json(text: str) -> bool:
    """Whether a YAML text is also JSON with the same meaning."""
    if not text.startswith("{"):
        return False
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _reject_constant(word: str) -> None:
    """Raise ValueError for NaN and the like, which are text in YAML."""
    raise ValueError(word)


def join_field_path(path: str, key: str | int) -> str:
    """Return the field path one level down."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _decode_text(data: bytes, name: str) -> str:
    if len(data) > MAX_BYTES:
        raise InvalidFile(f"must not be larger than {MAX_BYTES:,} bytes", where=name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InvalidFile("not valid UTF-8", where=f"{name}:{line}:{column}") from error


class _DocumentBuilder:
    """Builds the values from the tokens; enforces the rules that YAML and JSON share."""

    def __init__(self, name: str, pieces: Iterator[ParsedPiece]) -> None:
        self.name = name
        self.pieces = pieces
        self.lines: dict[str, int] = {}

    def build_document(self) -> Any:
        first = next(self.pieces, None)
        if first is None:
            return {}
        self.lines[""] = first.line
        data = self._build_value(first, "", 0)
        next(self.pieces, None)  # raises for a second document
        return {} if data is None else data

    def _build_value(self, piece: ParsedPiece, path: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self._build_error(f"nested more than {MAX_DEPTH} levels deep", piece)
        if piece.kind == "mapping":
            return self._build_mapping(path, depth)
        if piece.kind == "list":
            return self._build_list(path, depth)
        return self._read_scalar(piece, path)

    def _build_mapping(self, path: str, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while (key := next(self.pieces)).kind != "end":
            name = self._read_key(key)
            field = join_field_path(path, name)
            if name in mapping:
                raise self._build_error(
                    f"duplicate key `{field}`: already defined on line {self.lines[field]}", key
                )
            self.lines[field] = key.line
            mapping[name] = self._build_value(next(self.pieces), field, depth + 1)
        return mapping

    def _build_list(self, path: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while (item := next(self.pieces)).kind != "end":
            field = join_field_path(path, len(items))
            self.lines[field] = item.line
            items.append(self._build_value(item, field, depth + 1))
        return items

    def _read_key(self, piece: ParsedPiece) -> str:
        if piece.kind != "scalar":
            raise self._build_error("keys must be text, not a list or a mapping", piece)
        if not isinstance(piece.value, str):
            shown = json.dumps(piece.value)
            raise self._build_error(f'keys must be text, not {shown}: write it in quotes: "{shown}"', piece)
        return str(self._read_scalar(piece, piece.value))

    def _read_scalar(self, piece: ParsedPiece, path: str) -> Any:
        value = piece.value
        if isinstance(value, float) and not math.isfinite(value):
            raise self._build_error(f"{_format_field(path)}must be a finite number", piece)
        if isinstance(value, str) and not value.isascii():
            return self._read_text(value, piece, path)
        return value

    def _read_text(self, value: str, piece: ParsedPiece, path: str) -> str:
        try:  # YAML reads the two halves of an escaped surrogate pair as two characters
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            message = (
                f"{_format_field(path)}contains half of a surrogate pair, which is not a valid character"
            )
            raise self._build_error(message.encode("utf-8", "replace").decode(), piece) from error

    def _build_error(self, message: str, piece: ParsedPiece) -> InvalidFile:
        return InvalidFile(message, where=f"{self.name}:{piece.line}:{piece.column}")


def _format_field(path: str) -> str:
    return f"`{path}` " if path else ""


def _parse_json_pieces(text: str, name: str, first_line: int = 1) -> Iterator[ParsedPiece]:
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        where = f"{name}:{first_line + error.lineno - 1}:{error.colno}"
        raise InvalidFile(f"invalid JSON: {error.msg}", where=where) from error
    except RecursionError as error:
        raise InvalidFile(f"nested more than {MAX_DEPTH} levels deep", where=name) from error
    line, line_start, counted_until = first_line, 0, 0
    for token in _JSON_TOKEN.finditer(text):
        if newlines := text.count("\n", counted_until, token.start()):
            line, line_start = line + newlines, text.rindex("\n", counted_until, token.start()) + 1
        counted_until = token.start()
        yield _to_json_piece(token[0], line, token.start() - line_start + 1, name)


def _to_json_piece(word: str, line: int, column: int, name: str) -> ParsedPiece:
    if word == "{":
        return ParsedPiece("mapping", None, line, column)
    if word == "[":
        return ParsedPiece("list", None, line, column)
    if word in {"}", "]"}:
        return ParsedPiece("end", None, line, column)
    try:
        return ParsedPiece("scalar", json.loads(word), line, column)
    except ValueError as error:  # an integer with thousands of digits
        raise InvalidFile("the number has too many digits", where=f"{name}:{line}:{column}") from error
