"""Reading what programs print: JSON lines or one JSON document, fields by dotted path, text without control
sequences.

The output can't be trusted: these functions never raise, and their time is linear in its length.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*+[ -/]*+[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[ -/]*+[0-~]"
    r"|\x9b[0-?]*+[ -/]*+[@-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MOST = 1 << 53
"""The highest token count that is accepted."""
_TRIED = 3
"""Positions, from the start and from the end, where a JSON document is searched."""


def strip_controls(text: str) -> str:
    """Return the text without terminal sequences, other control characters and half characters; lines end
    with a newline.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROLS.sub("", _SEQUENCES.sub("", text))
    return text.encode("utf-8", "replace").decode("utf-8")


def text_of(value: object) -> str:
    """Return a string from JSON as plain text; "" for other values."""
    return strip_controls(value).strip() if isinstance(value, str) else ""


def parse_json(text: str) -> Any:
    """Parse the text as JSON; None if it is not valid JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def iter_events(text: str) -> Iterator[Json]:
    """Yield the JSON objects of a text that has one per line; everything else in it is skipped."""
    for line in text.split("\n"):
        if line.lstrip()[:1] == "{":
            event = parse_json(line)
            if isinstance(event, dict):
                yield event


def find_document(text: str) -> Any:
    """Return the JSON object or list at the start or end of the text, ignoring other lines; None if there is
    none.
    """
    complete = parse_json(text)
    if isinstance(complete, (dict, list)):
        return complete
    starts = [found.start() for found in re.finditer(r"^[\[{]", text, re.MULTILINE)]
    tried = starts if len(starts) <= 2 * _TRIED else starts[:_TRIED] + starts[-_TRIED:]
    decoder = json.JSONDecoder()
    for start in tried:
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if end == len(text) or text[end] in "\r\n":
            return found
    return None


def get_at_path(data: object, path: str) -> Any:
    """Return the value at a dotted path, such as `stats.tokens`,
    `0.response` or `-1.text`; None if there is none.
    """
    for part in path.split(".") if path else ():
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and re.fullmatch(r"-?[0-9]{1,9}", part):
            index = int(part)
            data = data[index] if -len(data) <= index < len(data) else None
        else:
            return None
    return data


def list_objects(value: object) -> list[Json]:
    """Return the objects of a list from JSON; [] for other values."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read_count(value: object) -> int:
    """Return a count from JSON; 0 for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return min(int(value), _MOST) if math.isfinite(value) and value > 0 else 0


def dollars_to_microcents(dollars: object) -> int | None:
    """Convert an amount of US dollars from JSON to microcents; None for other values."""
    if isinstance(dollars, bool) or not isinstance(dollars, (int, float)):
        return None
    try:
        amount = round(dollars * 100_000_000)
    except (OverflowError, ValueError):
        return None
    return amount if 0 <= amount <= _MOST else None


def last_lines(text: str, most: int = 500) -> str:
    """Return the end of a text, for a message."""
    return strip_controls(text[-4 * most :]).strip()[-most:].strip()
