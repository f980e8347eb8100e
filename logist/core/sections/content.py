"""Read the sections that don't decide how the job continues: output, metadata, evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from logist.core.answer import answer_faults
from logist.core.answer.answer_faults import UnreadableError, describe_value
from logist.core.answer.confidence import is_confidence
from logist.core.model import JsonObject
from logist.core.text.outermost_json import JsonSpan, find_outermost_json, measure_depth
from logist.lazy_patterns import compile_on_use

_FENCED = compile_on_use(r"[ \t]*(`{3,}|~{3,})[^`\n]*\n(?P<inside>.*)\n[ \t]*\1[`~]*[ \t]*", re.DOTALL)
_FIRST_FENCE = compile_on_use(r"\s*+(```|~~~)[^\n]*\n(?P<inside>.*?)(?<=\n)[ \t]*\1", re.DOTALL)
_COMMENT = compile_on_use(r'("(?>(?:[^"\\\n]++|\\.)*)")|//[^\n]*|(?<=[\s,])#[^\n]*')
_LAST_COMMA = compile_on_use(r'("(?>(?:[^"\\\n]++|\\.)*)")|,(?=\s*+[}\]])')
_PLACEHOLDER = compile_on_use(r":\s*(?:\[a number from 0 to 1\]|0\.0\s*[-–]\s*1\.0)")
"""The confidence in the template, today and in older prompts."""

_NONE = compile_on_use(r"(?:none|n/?a|nothing|null|no files?\b.*|\[\s*\])\.?|", re.IGNORECASE)
_BULLET = compile_on_use(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_QUOTED = compile_on_use(r"`([^`]+)`")
_BOLD = compile_on_use(r"\*\*([^*]+)\*\*")
_LINK = compile_on_use(r"\[[^\]]*\]\(([^)\s]+)\)")
_COMMA = compile_on_use(r"\s*+,\s*+")
_REMARK = compile_on_use(r"\s+(?:[-–—(#]|←|->).*|:\s.*|:$", re.DOTALL)

KNOWN = frozenset({"confidence", "suggested_tags", "suggested_next_stage"})
PLACEHOLDERS = frozenset({"stage_name_or_null", "id of a step, or null", "null", "none", "n/a", ""})
"""Values that mean no stage: the placeholders of the templates, and what models write for "none"."""


def read_output(text: str, head: str) -> tuple[Any, list[str]]:
    """Return the value and the warnings.

    The value is parsed as JSON if the complete text, its only fence, or its part `head` is JSON.
    """
    warnings: list[str] = []
    if not text:
        return None, warnings
    for piece in dict.fromkeys((text, head)):
        fenced = _FENCED.fullmatch(piece)
        inside = (fenced["inside"] if fenced else piece).strip()
        try:
            value = _parse_json(inside)
        except UnreadableError as error:
            if inside.startswith(("{", "[")) and not warnings:
                warnings.append(f"`Output` {error}; it is used as text")
        else:
            return value, []
    return text, warnings


def read_metadata(text: str, *, open_fence: bool = False) -> tuple[JsonObject, list[str], bool]:
    """Return the readable values, the warnings, and whether the text ends inside the JSON.

    If the text starts with a fence, the text after the fence is ignored.
    """
    if fence := _FIRST_FENCE.match(text):
        text = fence["inside"]
    spans = [span for span in find_outermost_json(text).spans if text[span.start] == "{"]
    if not spans:
        return {}, [] if open_fence else ["`Metadata` has no JSON object; it is ignored"], open_fence
    if spans[-1].ending == "text" and not fence:
        return {}, [], True
    json_objects: list[JsonObject] = []
    warnings: list[str] = []
    for span in spans:
        try:
            json_objects.append(_parse_leniently(text[span.start : span.end], span))
        except UnreadableError as error:
            why = "still contains the placeholders of the template" if _PLACEHOLDER.search(text) else error
            warnings.append(f"`Metadata` {why}; it is ignored")
    if len(json_objects) > 1:
        return {}, [f"`Metadata` has {len(json_objects)} JSON objects; all are ignored"], False
    if warnings or not json_objects:
        return {}, warnings[:1], False
    values, warnings = _check_values({_normalize_key(key): value for key, value in json_objects[0].items()})
    return values, warnings, False


def read_evidence(text: str) -> list[str]:
    """Return the paths of a list, unchanged; if some lines have bullets, only those lines count."""
    if (json_paths := _read_json_list(text)) is not None:
        return json_paths
    lines = [line for line in text.split("\n") if line.strip() and not re.match(r"\s*(?:```|~~~)", line)]
    bulleted = [line for line in lines if _BULLET.match(line)]
    return [
        path for line in bulleted or lines for path in _split_paths(_BULLET.sub("", line, count=1).strip())
    ]


def _read_json_list(text: str) -> list[str] | None:
    fenced = _FENCED.fullmatch(text)
    try:
        value = _parse_json((fenced["inside"] if fenced else text).strip())
    except UnreadableError:
        return None
    return value if isinstance(value, list) and all(isinstance(path, str) for path in value) else None


def _split_paths(line: str) -> Iterator[str]:
    """Yield a path, or several in backticks with commas between; the text after it is a remark."""
    if bold := _BOLD.match(line):
        line = f"`{bold[1].strip('`')}`{line[bold.end() :]}"
    if link := _LINK.match(line):
        yield link[1]
        return
    position = 0
    while quoted := _QUOTED.match(line, position):
        yield quoted[1].strip()
        comma = _COMMA.match(line, quoted.end())
        if comma is None:
            return
        position = comma.end()
    path = _REMARK.sub("", line[position:], count=1).strip()
    parts = _COMMA.split(path)
    for part in parts if all(" " not in part for part in parts) else [path]:
        if not _NONE.fullmatch(part):
            yield part


def _parse_json(text: str) -> Any:
    """Parse any JSON value, with the rules of the exit command."""
    try:
        return answer_faults.parse_json_object(text, JsonSpan(0, len(text), measure_depth(text), "closed"))
    except ValueError as error:  # rejected by the decoder itself, for example a number with too many digits
        raise UnreadableError(f"is not valid JSON: {error}") from None


def _parse_leniently(text: str, span: JsonSpan) -> JsonObject:
    """Parse an object that may contain comments, and commas before a closing bracket, as models write them."""
    try:
        return answer_faults.parse_json_object(text, span)
    except UnreadableError:
        plain = _COMMENT.sub(lambda found: found[1] or "", text)
        return answer_faults.parse_json_object(_LAST_COMMA.sub(lambda found: found[1] or "", plain), span)


def _normalize_key(key: str) -> str:
    return re.sub(r"[\s-]+", "_", key.strip().lower())


def _check_values(given: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return the values of the expected types; the others are ignored, with a warning."""
    values = {key: value for key, value in given.items() if key not in KNOWN}
    warnings = []
    for key in sorted(KNOWN & given.keys()):
        value = _validate_value(key, given[key])
        if value is not None:
            values[key] = value
        elif given[key] is not None and not _is_placeholder(given[key]):
            warnings.append(f"`{key}` is {describe_value(given[key])}; it is ignored")
    return values, warnings


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() in PLACEHOLDERS


def _validate_value(key: str, value: Any) -> Any:
    if key == "confidence":
        return value if is_confidence(value) else None
    if key == "suggested_tags":
        return value if isinstance(value, list) and all(isinstance(tag, str) for tag in value) else None
    return value.strip() if isinstance(value, str) and not _is_placeholder(value) else None
