"""Reads the simple YAML that most configs and job.yaml files consist of, without a YAML library, which takes as long to
load as a short command takes altogether.

Simple are mappings with plain names as keys, lists of values, values on one line (plain or quoted), literal blocks
(`|`, `|-`), folded blocks (`>`, `>-`) without empty lines, and comments. Everything else is left to `documents.reading`, which also finds all errors: what is read here
has the same values there.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

# The core schema of YAML 1.2: `no`, `1_000` and dates are text, `010` is ten.
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
# Compiled on first use: most files need only two of them.
_INT = r"[-+]?[0-9]+"
_BASED = r"0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
_NOT_FINITE = r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
MAX_DIGITS = 1000

_LINE = r"( *)(?:([A-Za-z][A-Za-z0-9_-]*):|(-))(?: +(.*))?"
_PLAIN = r"(?:[^\W_]|[^\x00-\x7f])[^#:]*(?::(?=[^\s#:])[^#:]*)*|[./][A-Za-z0-9_./-]*|[-+][0-9][0-9.]*"
"""A value without quotes that means the same wherever it is: no `: ` and no `#`, and no sign of YAML at its beginning."""
_ITEM = r"""(?:[A-Za-z0-9_./][A-Za-z0-9_./-]*|-[A-Za-z][A-Za-z0-9_-]*|"[^"\\]*")"""
_DELIMITED = {
    '"': r'"(?:[^"\\]|\\["\\/nrt])*"',
    "'": r"'(?:[^']|'')*'",
    "[": rf"\[ *(?:{_ITEM}(?: *, *{_ITEM})*)? *\]",
}
"""Values that begin with a sign, by that sign."""
_MAX_DEPTH = 16


class NotSimpleError(ValueError):
    """The text needs a YAML library."""


def resolve_scalar(word: str) -> Any:
    """Return the value of a word without quotes; infinity for every number that is not finite.

    Raises ValueError for a number with too many digits.
    """
    if word in _NULL:
        return None
    if word in _BOOL:
        return _BOOL[word]
    if word[0].isalpha():
        return word
    whole = re.fullmatch(_INT, word)
    if whole or re.fullmatch(_BASED, word):
        if len(word) > MAX_DIGITS:
            raise ValueError("the number has too many digits")
        return int(word, 10 if whole else 0)
    if re.fullmatch(_FLOAT, word):
        return float(word)
    return math.inf if re.fullmatch(_NOT_FINITE, word) else word


def parse_simple_yaml(text: str) -> dict[str, Any] | None:
    """Parse a mapping; None if the text is not simple, which may be an error."""
    parsed = parse_with_lines(text)
    return parsed[0] if parsed else None


def parse_with_lines(text: str) -> tuple[dict[str, Any], dict[str, int]] | None:
    """Parse a mapping; also return the line (from 1) of each field by its path, such as `limits.cost_threshold`, and
    that of the first field as "".
    """
    try:
        parser = _SimpleYamlParser(text)
        return parser.parse(), parser.field_lines
    except ValueError:
        return None


class _SimpleYamlParser:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._at = 0
        self.field_lines: dict[str, int] = {}
        if not all(line.isprintable() for line in self._lines) or "\ufeff" in text:
            raise NotSimpleError  # other line breaks, tabs, surrogates

    def parse(self) -> dict[str, Any]:
        if self._peek_indent() not in (0, -1):
            raise NotSimpleError
        if self._at < len(self._lines):
            self.field_lines[""] = self._at + 1
        data = self._read_mapping(0, 0, "")
        if self._peek_indent() != -1:
            raise NotSimpleError
        return data

    def _peek_indent(self) -> int:
        """Skip blank lines and comments; return the indentation of the next line, -1 at the end."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            content = line.lstrip(" ")
            if content and not content.startswith("#"):
                return len(line) - len(content)
            self._at += 1
        return -1

    def _read_mapping(self, indent: int, depth: int, path: str) -> dict[str, Any]:
        if depth > _MAX_DEPTH:
            raise NotSimpleError
        mapping: dict[str, Any] = {}
        while self._peek_indent() == indent:
            match = re.fullmatch(_LINE, self._lines[self._at])
            if match is None:
                raise NotSimpleError
            key = match[2]
            if key is None or key in mapping or not isinstance(resolve_scalar(key), str):
                raise NotSimpleError
            self._at += 1
            field = f"{path}.{key}" if path else key
            self.field_lines[field] = self._at
            mapping[key] = self._read_value(match[4] or "", indent, depth, field)
        if self._peek_indent() > indent:
            raise NotSimpleError
        return mapping

    def _read_value(self, written: str, indent: int, depth: int, path: str) -> Any:
        written = written.rstrip(" ")
        if written in ("|", "|-"):
            return self._read_literal(written, indent)
        if written in (">", ">-"):
            return self._read_folded(written, indent)
        is_absent = not written or written.startswith("#")
        following = self._peek_indent()
        is_list = following >= indent and self._lines[self._at].lstrip(" ").startswith("-")
        if is_absent and is_list:
            return self._read_list(following, path)
        if is_absent and following > indent:
            return self._read_mapping(following, depth + 1, path)
        if following > indent or is_list:
            raise NotSimpleError  # the value continues on the next line
        value = _read_scalar(written)
        self._add_lines(path, value)
        return value

    def _add_lines(self, path: str, value: Any) -> None:
        """Add the lines of the items of a list that is written on one line."""
        if isinstance(value, list):
            line = self.field_lines[path]
            self.field_lines |= {f"{path}[{number}]": line for number in range(len(value))}

    def _read_list(self, indent: int, path: str) -> list[Any]:
        items: list[Any] = []
        while self._peek_indent() == indent and self._lines[self._at].lstrip(" ").startswith("-"):
            match = re.fullmatch(_LINE, self._lines[self._at])
            if match is None or match[3] is None or not match[4]:
                raise NotSimpleError
            self._at += 1
            item = f"{path}[{len(items)}]"
            self.field_lines[item] = self._at
            items.append(_read_scalar(match[4].rstrip(" ")))
            self._add_lines(item, items[-1])
            if self._peek_indent() > indent:
                raise NotSimpleError
        return items

    def _read_literal(self, written: str, above: int) -> str:
        lines: list[str] = []
        indent = 0
        while self._at < len(self._lines):
            line = self._lines[self._at]
            content = line.lstrip(" ")
            own = len(line) - len(content)
            if not content and line:
                raise NotSimpleError  # spaces at the end of a line may belong to the text
            if content and not indent:
                indent = own
            if content and own <= above:
                break
            if content and own < indent:
                raise NotSimpleError
            lines.append(line[indent:])
            self._at += 1
        text = "\n".join(lines).rstrip("\n")
        if (
            not text or not lines[0] or (lines[-1] and self._at == len(self._lines))
        ):  # no line break at the end
            raise NotSimpleError
        return text if written == "|-" else f"{text}\n"

    def _read_folded(self, written: str, above: int) -> str:
        """Read a block of lines that are joined by spaces."""
        lines = self._read_literal("|-", above).split("\n")
        if any(not line or line[0] == " " or line[-1] == " " for line in lines):
            raise NotSimpleError  # line breaks that stay
        text = " ".join(lines)
        return text if written == ">-" else f"{text}\n"


def _read_scalar(written: str) -> Any:
    """Read a value on one line, which a comment may follow."""
    if written.startswith("#"):
        return None
    if pattern := _DELIMITED.get(written[:1]):
        match = re.match(pattern, written)
        rest = written[match.end() :] if match else ""
        if match is None or (rest and not re.match(" +#", rest)):
            raise NotSimpleError
        return _read_delimited(match[0])
    plain = written.partition(" #")[0].rstrip(" ")
    if plain and not re.fullmatch(_PLAIN, plain):
        raise NotSimpleError
    return _require_finite(resolve_scalar(plain))


def _read_delimited(written: str) -> Any:
    if written.startswith('"'):
        return json.loads(written)
    if written.startswith("'"):
        return written[1:-1].replace("''", "'")
    items = re.findall(_ITEM, written)
    return [item[1:-1] if item.startswith('"') else _require_finite(resolve_scalar(item)) for item in items]


def _require_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise NotSimpleError
    return value
