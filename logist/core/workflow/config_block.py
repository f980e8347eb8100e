"""Read the comments of a diagram that configure its steps.

    %% === WORKFLOW_CONFIG ===
    %% @review: {
    %%   "stepType": "task"
    %% }
    %% === END_CONFIG ===

An entry spans as many `%%` lines as its JSON needs. `%% @step(ID): {...}` means the same, and may also
be on one line anywhere in the diagram. Mermaid ignores all of these comments.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NoReturn

from logist.core.mermaid.graph import ConfigEntry
from logist.core.text.outermost_json import measure_depth
from logist.core.text.problem import WorkflowProblem
from logist.quick_dataclass import dataclass

MAX_DEPTH = 64
"""Maximum nesting of an entry, the same as `documents` allows in YAML or JSON."""

_BEGIN = re.compile(r"[ \t]*%%[ \t]*=+[ \t]*WORKFLOW_CONFIG[ \t]*=+[ \t]*")
_END = re.compile(r"[ \t]*%%[ \t]*=+[ \t]*END_CONFIG[ \t]*=+[ \t]*")
_STEP = re.compile(r"[ \t]*%%[ \t]*@step\([ \t]*(?P<id>[^\s()]+)[ \t]*\)[ \t]*:")
_ID = re.compile(r"[ \t]*%%[ \t]*@(?P<id>[^\s()]+?)[ \t]*:(?=[\s{\[\"]|$)")
_MARKED = re.compile(r"[ \t]*%%[ \t]*@")
_PREFIX = re.compile(r"[ \t]*%%")
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_BLANK = " \t\r\n"
_SPELLING = 'write an entry as `%% @ID: {"key": "value"}`'


@dataclass(frozen=True)
class _Line:
    """A line without its break; `start` is its offset in the text, `number` counts from 1."""

    text: str
    start: int
    number: int


class _BrokenError(ValueError):
    """Raised for text that is not valid JSON; `position` is an offset in it."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def read_config_entries(text: str) -> tuple[list[ConfigEntry], list[WorkflowProblem]]:
    """Return the entries of a diagram in the order of the text, and every problem with them. Never raises."""
    lines = _split_lines(text)
    span, problems = _find_block(lines)
    entries_by_id: dict[str, ConfigEntry] = {}
    for piece in _group_entry_lines(lines, span, problems):
        entry = _parse_entry(piece, problems)
        if entry is None:
            continue
        if entry.id in entries_by_id:
            where = f"the first is in line {entries_by_id[entry.id].line}"
            problems.append(
                _make_error(
                    "config_twice", f"duplicate entry for `{entry.id}`: {where}", entry.id, entry.line
                )
            )
        else:
            entries_by_id[entry.id] = entry
    return list(entries_by_id.values()), sorted(
        problems, key=lambda problem: (problem.line or 0, problem.column or 0)
    )


def _split_lines(text: str) -> list[_Line]:
    matches = [match for match in _LINE.finditer(text) if match[0]]
    lines = [_Line(match[1], match.start(), number) for number, match in enumerate(matches, 1)]
    if lines and lines[0].text.startswith("\ufeff"):
        lines[0] = _Line(lines[0].text[1:], 1, 1)
    return lines


def _find_block(lines: list[_Line]) -> tuple[tuple[int, int] | None, list[WorkflowProblem]]:
    """Return the indices of the first and the last line of the block; the
    second is past the end if the block is not closed.
    """
    problems: list[WorkflowProblem] = []
    begin = end = None
    for index, line in enumerate(lines):
        if _BEGIN.fullmatch(line.text):
            if begin is None:
                begin = index
            else:
                problems.append(_make_error("config_block", "duplicate config block", "", line.number))
        elif _END.fullmatch(line.text) and begin is None:
            problems.append(
                _make_error("config_block", "END_CONFIG without a WORKFLOW_CONFIG before it", "", line.number)
            )
        elif _END.fullmatch(line.text) and end is None:
            end = index
    if begin is None:
        return None, problems
    if end is None:
        fix = "end it with the line `%% === END_CONFIG ===`"
        problems.append(
            _make_error("config_block", "the config block is not closed", "", lines[begin].number, fix=fix)
        )
    return (begin, len(lines) if end is None else end), problems


def _group_entry_lines(
    lines: list[_Line], span: tuple[int, int] | None, problems: list[WorkflowProblem]
) -> Iterator[list[_Line]]:
    """Yield the lines of each entry: inside the block, up to the next entry; elsewhere, its one line."""
    begin, end = span or (len(lines), len(lines))
    piece: list[_Line] = []
    idle = False
    for index, line in enumerate(lines):
        inside = begin < index < end
        if _STEP.match(line.text) or (inside and _ID.match(line.text)):
            yield from filter(None, [piece])
            piece = [line]
        elif inside and _MARKED.match(line.text):
            column = line.text.index("@") + 1
            problems.append(
                _make_error("config_entry", "invalid entry", "", line.number, column, fix=_SPELLING)
            )
        elif inside and piece:
            piece.append(line)
        elif inside and not idle and _PREFIX.sub("", line.text, count=1).strip():
            problems.append(_warn_of_text(line))
            idle = True
        if piece and not inside:
            yield piece
            piece = []
    yield from filter(None, [piece])


def _parse_entry(piece: list[_Line], problems: list[WorkflowProblem]) -> ConfigEntry | None:
    """Return the entry of these lines; text after its JSON on later lines is skipped with a warning."""
    first = piece[0]
    head = _STEP.match(first.text) or _ID.match(first.text)
    if head is None:
        return None
    starts, texts = _extract_json_lines(piece, head.end())
    try:
        data, end = _parse_json_object("\n".join(texts))
        row = bisect_right(starts, end - 1) - 1
        if rest := texts[row][end - starts[row] :].strip():
            raise _BrokenError(f"unexpected `{rest[:20]}` after the JSON", end)
    except _BrokenError as error:
        row = bisect_right(starts, error.position) - 1
        line = piece[row]
        column = len(line.text) - len(texts[row]) + error.position - starts[row] + 1
        column += line.number == 1 and line.start == 1  # the byte order mark
        message = f"the entry of `{head['id']}`: {error}"
        problems.append(_make_error("config_json", message, head["id"], line.number, column))
        return None
    later = zip(piece[row + 1 :], texts[row + 1 :], strict=True)
    problems.extend(_warn_of_text(line) for line in [line for line, rest in later if rest.strip()][:1])
    return ConfigEntry(head["id"], data, first.number)


def _parse_json_object(text: str) -> tuple[dict[str, object], int]:
    """Return the object that the text begins with, and where it ends.

    Raises _BrokenError if there is none.
    """
    begin = len(text) - len(text.lstrip(_BLANK))
    if (depth := measure_depth(text, begin)) > MAX_DEPTH:
        raise _BrokenError(f"the JSON is nested {depth} levels deep; the limit is {MAX_DEPTH}", begin)
    try:
        data, end = _DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        position = min(error.pos, max(len(text) - 1, 0))
        raise _BrokenError(f"invalid JSON: {error.msg.removesuffix(' at')}", position) from None
    except ValueError as error:
        raise _BrokenError(str(error), begin) from None
    if not isinstance(data, dict):
        raise _BrokenError("expected a JSON object", begin)
    return data, end


def _extract_json_lines(piece: list[_Line], start: int) -> tuple[list[int], list[str]]:
    """Return the text after `%%` of each line, and where each begins when they are joined by line breaks."""
    texts = [piece[0].text[start:]]
    for line in piece[1:]:
        prefix = _PREFIX.match(line.text)
        texts.append(line.text[prefix.end() if prefix else 0 :])
    starts = [0]
    for text in texts[:-1]:
        starts.append(starts[-1] + len(text) + 1)
    return starts, texts


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise ValueError(f"duplicate key `{key}`")
        value[key] = item
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"`{name}` is not valid JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_duplicate_keys, parse_constant=_refuse_constant)


def _warn_of_text(line: _Line) -> WorkflowProblem:
    message = "this text in the config block is not part of an entry"
    return WorkflowProblem("warning", "config_text", message, line=line.number, column=1, fix=_SPELLING)


def _make_error(
    code: str, message: str, step: str, line: int, column: int = 1, fix: str = ""
) -> WorkflowProblem:
    return WorkflowProblem("error", code, message, f"@{step}" if step else "", line, column, fix)
