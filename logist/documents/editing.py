"""Changes single fields of a YAML or JSON text and leaves the rest unchanged."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, SequenceNode
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from logist.documents.reading import is_json, parse_document
from logist.errors import InvalidFile

Keys = tuple[str, ...]

_BOOLEAN_OF_OLD = frozenset({"yes", "no", "on", "off", "y", "n"})

_BLANK = " \t\r\n\x85\u2028\u2029"
"""What YAML has between values. Any other space, such as U+00A0, is a value."""


def edit_text(text: str, name: str, changes: Mapping[Keys, object | None]) -> str:
    """Return the text with the field at each path set to its value, or removed if the value is None.

    A mapping that loses its last key is removed too. In YAML, every byte outside the changed fields stays:
    comments, order, quoting, line ends; JSON keeps its order and indentation. Raises InvalidFile if the text
    is not a valid document, or is written in a way that can't be changed safely.
    """
    body = text.removeprefix("\ufeff")
    byte_order_mark = text[: len(text) - len(body)]
    json_like = is_json(body, name)
    data = parse_document(body, name).data
    for keys, value in changes.items():
        wanted = _apply_change(data, keys, value, name)
        if _is_same_json(wanted, data):
            continue
        body = _dump_json_like(body, wanted) if json_like else _Edit(body, wanted).apply_at(keys)
        data = parse_document(body, name).data
        if not _is_same_json(data, wanted):
            raise InvalidFile(
                f"can't change `{'.'.join(keys)}` safely because of how the file is formatted",
                where=name,
                fix="edit the file by hand",
            )
    return byte_order_mark + body


MUCH = 1000
"""More values, or hundreds of characters, than a person will read."""


def dump_any_yaml(data: Mapping[str, object]) -> str:
    """Return the values as a new YAML text; see `writing.dump_yaml`."""
    if _estimate_weight(data) > MUCH:
        return _dump_json(data) + "\n"
    return _dump_value(dict(data), flow=False) + "\n"


def _estimate_weight(data: object) -> float:
    """Count the values, and one more for every hundred characters of text; stops counting above MUCH."""
    weight, remaining = 0.0, [data]
    while remaining and weight <= MUCH:
        value = remaining.pop()
        weight += 1 + (len(value) / 100 if isinstance(value, str) else 0)
        if isinstance(value, Mapping):
            remaining.extend(value.values())
        elif isinstance(value, list | tuple):
            remaining.extend(value)
    return weight


def _dump_json(data: Mapping[str, object], indent: str | None = " ", known: str = "") -> str:
    """Dump values as JSON, escaping characters that YAML may not accept
    unless they are in the `known` text.
    """
    text = json.dumps(dict(data), indent=indent, ensure_ascii=False)
    unprintable = {letter for letter in set(text) - set(known) if not letter.isprintable()} - {"\n"}
    return text.translate({ord(letter): json.dumps(letter)[1:-1] for letter in unprintable})


def _apply_change(data: dict[str, Any], keys: Keys, value: object | None, name: str) -> dict[str, Any]:
    """Return the values after one change."""
    key, rest = keys[0], keys[1:]
    if rest:
        inner = data.get(key)
        if not isinstance(inner, dict | None):
            raise InvalidFile(f"`{key}` is not a mapping, so it can't contain `{'.'.join(rest)}`", where=name)
        if inner is None and value is None:
            return data
        value = _apply_change(inner or {}, rest, value, name) or None
    if value is None:
        return {other: data[other] for other in data if other != key}
    return {**data, key: value}


def _is_same_json(one: object, other: object) -> bool:
    """Whether two values are equal as JSON: 1, 1.0 and true are three different values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _dump_json_like(text: str, data: dict[str, Any]) -> str:
    indent_match = re.search(r"\n([ \t]+)\"", text)
    end = "\n" if text.endswith("\n") else ""
    return _dump_json(data, indent_match[1] if indent_match else None, text) + end


class _Edit:
    """One change to a YAML text, made at the positions that the parser marks."""

    def __init__(self, text: str, wanted: dict[str, Any]) -> None:
        self.text = text
        self.wanted = wanted

    def apply_at(self, keys: Keys) -> str:
        """Return the text with the field at `keys` as in the wanted values."""
        root = YAML(typ="safe", pure=True).compose(self.text)
        if not isinstance(root, MappingNode):
            return self._insert_pair(len(self.text), 0, keys[0], self.wanted[keys[0]])
        if root.flow_style:
            flow = _render_value(self.wanted, flow=True).strip()
            return self._splice_text(root.start_mark.index, root.end_mark.index, flow)
        return self._edit_mapping(root, self.wanted, keys)

    def _edit_mapping(self, mapping: MappingNode, new: dict[str, Any], keys: Keys) -> str:
        key = keys[0]
        entry = next(((node, value) for node, value in mapping.value if node.value == key), None)
        if entry is None:
            end = self._find_next_line(self._find_end(*mapping.value[-1]))
            return self._insert_pair(end, mapping.start_mark.column, key, new[key])
        if key not in new:
            return self._remove_pair(*entry)
        inner = entry[1]
        if len(keys) > 1 and isinstance(inner, MappingNode) and not inner.flow_style:
            return self._edit_mapping(inner, new[key], keys[1:])
        return self._replace_value(*entry, new[key])

    def _insert_pair(self, at: int, column: int, key: str, value: Any) -> str:
        lines = _indent_lines(_render_pair(key, value), column)
        separate = "\n" if at > 0 and self.text[at - 1] != "\n" else ""
        return self._splice_text(at, at, f"{separate}{' ' * column}{lines}\n")

    def _remove_pair(self, key: Node, value: Node) -> str:
        start = key.start_mark.index - key.start_mark.column
        return self._splice_text(start, self._find_next_line(self._find_content_end(key, value)), "")

    def _replace_value(self, key: Node, value: Node, new: Any) -> str:
        # A text stays out of it: one of several lines would not be indented below its key.
        flow = isinstance(value, CollectionNode) and bool(value.flow_style) and isinstance(new, dict | list)
        first, newline, rest = _indent_lines(_render_value(new, flow=flow), key.start_mark.column).partition(
            "\n"
        )
        end = self._find_content_end(key, value)
        start = min(value.start_mark.index, end)
        gap = self.text[key.end_mark.index : start]
        tail = newline + rest + ("\n" if rest and end == len(self.text) else "")
        if first and re.fullmatch(
            r"[ \t]*:[ \t]+", gap
        ):  # the value stays on the line of its key: keep the spacing
            return self._splice_text(start, end, first.lstrip() + tail)
        comment = re.search(r"[ \t]+#[^\r\n]*", gap)
        head = f":{first}{comment[0] if comment else ''}"
        return self._splice_text(key.end_mark.index, end, head + tail)

    def _find_end(self, key: Node, value: Node) -> int:
        """Return where a value ends.

        The mark of a block collection is only at the next token, after any comments.
        """
        if isinstance(value, CollectionNode) and not value.flow_style:
            last = value.value[-1]
            return self._find_end(*last) if isinstance(value, MappingNode) else self._find_end(value, last)
        end: int = value.end_mark.index
        if value.start_mark.index < end:
            return end
        if isinstance(key, SequenceNode):  # an empty item: its mark is at the next token
            return len(self.text[:end].rstrip(_BLANK))
        return self.text.index(":", key.end_mark.index) + 1

    def _find_content_end(self, key: Node, value: Node) -> int:
        """Return where a value ends, without the blank lines after a block scalar."""
        return len(self.text[: self._find_end(key, value)].rstrip(_BLANK))

    def _find_next_line(self, index: int) -> int:
        """Return where the next line begins."""
        if index == 0 or self.text[index - 1] == "\n":
            return index
        newline = self.text.find("\n", index)
        return len(self.text) if newline < 0 else newline + 1

    def _splice_text(self, start: int, end: int, new: str) -> str:
        if "\r\n" in self.text:
            new = new.replace("\n", "\r\n")
        return self.text[:start] + new + self.text[end:]


def _indent_lines(text: str, column: int) -> str:
    """Indent every line of the text except the first."""
    return re.sub(r"\n(?=[^\n])", "\n" + " " * column, text)


def _render_value(value: Any, *, flow: bool) -> str:
    """Render the value in YAML as it is written after `key:`, with a leading space or line break."""
    if flow:
        return " " + _dump_value(value, flow=True)
    return _dump_value({"k": value}, flow=False).removeprefix("k:")


def _render_pair(key: str, value: Any) -> str:
    return _dump_value({key: value}, flow=False)


def _dump_value(value: Any, *, flow: bool) -> str:
    yaml = YAML()
    yaml.default_flow_style = flow
    yaml.width = 2**30
    buffer = io.StringIO()
    yaml.dump(_style_value(value), buffer)
    return buffer.getvalue().removesuffix("\n").removesuffix("\n...")


def _style_value(value: Any) -> Any:
    """Choose the style of texts: a literal block for several lines, quotes
    where YAML 1.1 would read a boolean.
    """
    if isinstance(value, dict):
        return {key: _style_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_style_value(item) for item in value]
    if isinstance(value, str) and not value.isprintable():
        lines = value.removesuffix("\n").split("\n")
        can_be_literal = all(line.isprintable() for line in lines) and value.strip() == "\n".join(lines)
        return LiteralScalarString(value) if can_be_literal else DoubleQuotedScalarString(value)
    if isinstance(value, str) and value.lower() in _BOOLEAN_OF_OLD:
        return DoubleQuotedScalarString(value)
    return value
