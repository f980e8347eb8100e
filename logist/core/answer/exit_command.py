"""Reads the one exit command from an agent's answer, or explains why there is none. It repairs nothing.

Whatever is ambiguous is left to a person:

- Only outermost objects with an `action` key count (see core.text.outermost_json); a wrapper
  `{"response": {...}}`, alone or next to a `request`, is removed first. Lists never count.
- All of them must be equal and match the schema.
- An object that is never closed makes the answer invalid, whatever else it contains; so does text that
  looks like an exit command but is not JSON.
- Text before the exit command is allowed; text after it, or a code fence around it, causes a warning.
- Paths stay as the agent wrote them, except that `./a`, `a//b` and `a/` are read as `a`, `a/b` and `a`,
  with a warning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from logist.core.answer import answer_faults, thinking
from logist.core.answer.answer_faults import UnreadableError
from logist.core.model import ExitAction, JsonObject
from logist.core.text import outermost_json, surrogates
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

MAX_CHARACTERS = 1 << 18
"""Longer answers are rejected: an exit command has a few lines."""

BROKEN_OFF = (
    "the answer ends inside a JSON object or list: "
    "its end is missing, or a quote or line break in a string is not escaped"
)
NOT_UTF8 = "the answer is not valid UTF-8"
"""The reason if `decode_answer` found invalid bytes."""

EXAMPLE_ACTION = "<COMPLETED, RETRY or STUCK>"
EXAMPLE = json.dumps(
    {
        "action": EXAMPLE_ACTION,
        "evidence_files": ["<path of a file>"],
        "summary_for_supervisor": "<what you did and what the result is>",
    }
)
"""The form of an exit command as the prompt shows it. It is not a valid exit command, because an agent may copy it."""
EXAMPLE_COPIED = (
    "the exit command is a copy of the example in the prompt: its placeholders were not replaced; "
    "expected `action` to be exactly one of COMPLETED, STUCK, RETRY"
)

_KEY = compile_on_use(r'"action"|\\u')  # without either of these, no object has the key
_LOOKS_LIKE_ONE = compile_on_use(
    r"""["“”]action["“”]\s*["“”:]"""
    r"""|(?:['‘’]action['‘’]|(?<!["'\w])action)\s*:\s*["'“”‘’]?(?:COMPLETED|STUCK|RETRY)\b""",
    re.IGNORECASE,
)
_OTHER_KEYS = compile_on_use(r'"(?:evidence_files|summary_for_supervisor)"\s*:')
_SURROGATE = compile_on_use("[\ud800-\udfff]")
_FENCE_LINE = compile_on_use(rf"{outermost_json.FENCE}[\w+-]*\s*")
_SENTENCE_MARKS = ".!?。！？…"
_SENTENCE_END = compile_on_use(rf"[{_SENTENCE_MARKS}]+[\"')\]”’]*(?:\s|$)")


@dataclass(frozen=True)
class ExitCommand:
    """How an agent ended its run."""

    action: ExitAction
    evidence_files: tuple[str, ...]
    summary: str
    output: Any = None
    metadata: JsonObject | None = None


@dataclass(frozen=True)
class Verdict:
    """The result of reading an answer: a valid exit command, or None and the reason for the steward."""

    command: ExitCommand | None = None
    reason: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Candidate:
    """An outermost object with an `action` key. Canonical JSON is equal for equal values."""

    span: outermost_json.JsonSpan
    response: JsonObject
    canonical: str
    wrapped: bool
    request: str | None
    """The `request` object next to it, as canonical JSON."""


def judge_answer(text: str, schema: JsonObject) -> Verdict:
    """Read the exit command from an answer. `schema` is llm-chat-schema.json, parsed.

    Never raises, whatever the text.
    """
    if fault := text_fault(text):
        return Verdict(reason=fault)
    outermost_spans = outermost_json.find_outermost_json(text)
    if any(span.ending == "text" for span in outermost_spans.spans):
        return Verdict(reason=BROKEN_OFF)
    try:
        candidates = list(_find_candidates(text, outermost_spans))
    except UnreadableError as error:
        return Verdict(reason=str(error))
    fault = _candidate_count_fault(text, outermost_spans, candidates) or _candidate_fault(candidates, schema)
    if fault:
        return Verdict(reason=fault)
    return _build_verdict(text, candidates)


def extract_text_before_command(text: str) -> str:
    """Return the text of an answer before its exit command, without what the model thought; all of it if there is no
    exit command.
    """
    text = thinking.remove_thinking(text)
    spans = [
        span
        for span in outermost_json.find_outermost_json(text).spans
        if _KEY.search(text[span.start : span.end])
    ]
    return (text[: spans[-1].start] if spans else text).strip()


def decode_answer(data: bytes) -> tuple[str, bool]:
    """Decode raw bytes.

    Also returns whether they were invalid UTF-8 (such bytes are then written as backslash escapes).
    """
    return surrogates.replace_surrogates(data.decode("utf-8", "surrogateescape"))


def text_fault(text: str) -> str | None:
    """Why the text of an answer can't be read (too long, empty, not Unicode), or None."""
    if len(text) > MAX_CHARACTERS:
        return f"the answer is too long: {len(text):,} characters, at most {MAX_CHARACTERS:,} are allowed"
    if not text.strip("\ufeff \t\r\n"):
        return "no exit command: the answer is empty"
    if not text.isascii() and _SURROGATE.search(text):
        return "the answer is not valid Unicode text: it contains lone surrogates"
    return None


def _find_candidates(text: str, found: outermost_json.FoundSpans) -> Iterator[_Candidate]:
    """Yield every candidate, including repeated ones. Raises UnreadableError for one that is not JSON."""
    candidates_by_text: dict[str, _Candidate | None] = {}
    for span in found.spans:
        piece = text[span.start : span.end]
        if piece not in candidates_by_text:
            candidates_by_text[piece] = _read_candidate(text, piece, span)
        if known := candidates_by_text[piece]:
            yield known if known.span is span else replace(known, span=span)


def _read_candidate(text: str, piece: str, span: outermost_json.JsonSpan) -> _Candidate | None:
    if piece[0] == "[" or not (_KEY.search(piece) or _LOOKS_LIKE_ONE.search(piece)):
        return None
    try:
        value = answer_faults.parse_json_object(piece, span)
    except UnreadableError as error:
        if not _LOOKS_LIKE_ONE.search(piece):
            return None
        line = text.count("\n", 0, span.start) + 1
        raise UnreadableError(f"the exit command (line {line} of the answer) {error}") from None
    inner = value.get("response")
    if "action" in value:
        return _Candidate(span, value, _to_canonical_json(value), wrapped=False, request=None)
    if isinstance(inner, dict) and "action" in inner and value.keys() <= {"request", "response"}:
        request = _to_canonical_json(value["request"]) if "request" in value else None
        return _Candidate(span, inner, _to_canonical_json(inner), wrapped=True, request=request)
    return None


_CANONICAL = json.JSONEncoder(sort_keys=True)


def _to_canonical_json(value: Any) -> str:
    """Serialize a value so that equal text means equal value.

    Unlike Python's `==`, this distinguishes 1 from true.
    """
    return _CANONICAL.encode(value)


def _candidate_count_fault(
    text: str, found: outermost_json.FoundSpans, candidates: list[_Candidate]
) -> str | None:
    """Why there is not exactly one distinct candidate, or None."""
    if not candidates:
        return "no exit command: " + _describe_missing_command(text, found)
    distinct = {candidate.canonical: candidate.response for candidate in candidates}
    if len(distinct) > 1:
        actions = [answer_faults.describe_value(response["action"]) for response in distinct.values()]
        return f"{len(actions)} different exit commands ({', '.join(actions[:5])}); expected exactly one"
    if len(_collect_requests(candidates)) > 1:
        return "the exit command appears with different `request` objects; expected one"
    return None


def _collect_requests(candidates: list[_Candidate]) -> set[str]:
    return {candidate.request for candidate in candidates if candidate.request is not None}


def _describe_missing_command(text: str, found: outermost_json.FoundSpans) -> str:
    """Describe what the answer contains instead of an exit command."""
    for spans, where in ((found.spans, ""), (found.hidden, "code or other braces")):
        for span in spans:
            piece = text[span.start : span.end]
            if _KEY.search(piece) and '"action"' in piece:
                inside = where or ("a list" if piece[0] == "[" else "another object")
                return f"the object with an `action` key is inside {inside}; expected it at the top level"
            if _OTHER_KEYS.search(piece):
                return "the object has no `action` key; expected COMPLETED, STUCK or RETRY"
    return "the answer has no JSON object with an `action` key"


def _candidate_fault(candidates: list[_Candidate], schema: JsonObject) -> str | None:
    """Why the one candidate is not a valid exit command, or None."""
    if candidates[0].response["action"] == EXAMPLE_ACTION:
        return EXAMPLE_COPIED
    document: JsonObject = {"response": candidates[0].response}
    for request in _collect_requests(candidates):
        document["request"] = json.loads(request)
    written = (candidates[0].canonical, *_collect_requests(candidates))
    # Only what is written as \ud... can be a surrogate; most answers have none.
    if any("\\ud" in text for text in written) and _SURROGATE.search(
        json.dumps(document, ensure_ascii=False)
    ):
        return "the exit command is not valid Unicode text: it contains lone surrogates"
    return "; ".join(answer_faults.find_schema_faults(document, schema)) or None


def _build_verdict(text: str, candidates: list[_Candidate]) -> Verdict:
    response = candidates[0].response
    command = ExitCommand(
        action=ExitAction(response["action"]),
        evidence_files=tuple(normalize_path(path) for path in response["evidence_files"]),
        summary=response["summary_for_supervisor"],
        output=response.get("output"),
        metadata=response.get("metadata"),
    )
    return Verdict(command, warnings=tuple(_find_warnings(text, candidates, command)))


def normalize_path(path: str) -> str:
    """Remove the empty and `.` segments of a valid path."""
    return "/".join(segment for segment in path.split("/") if segment not in ("", "."))


def _find_warnings(text: str, candidates: list[_Candidate], command: ExitCommand) -> Iterator[str]:
    yield from _warn_about_surrounding_text(text, [candidate.span for candidate in candidates])
    if any(candidate.wrapped for candidate in candidates):
        yield "the exit command is wrapped in `response`"
    if len(candidates) > 1:
        yield f"the exit command appears {len(candidates)} times"
    for path in candidates[0].response["evidence_files"]:
        if path != normalize_path(path):
            yield f"evidence {answer_faults.describe_value(path)} is read as {answer_faults.describe_value(normalize_path(path))}"
    if (count := _count_sentences(command.summary)) > 5:
        yield f"`summary_for_supervisor` has {count} sentences; expected two to five"


def _warn_about_surrounding_text(text: str, spans: list[outermost_json.JsonSpan]) -> Iterator[str]:
    """Warn about text after the exit command, which may contradict it, and about a code fence around it.

    Text before it is allowed: models that work with tools describe what they did and then end with the
    command.
    """
    after = _split_nonblank_lines(text[spans[-1].end :])
    if any(_FENCE_LINE.fullmatch(line) is None for line in after):
        yield "the answer has text after its exit command"
    elif after:
        yield "the exit command is in a code fence"


def _split_nonblank_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip("\ufeff \t\r")]


def _count_sentences(summary: str) -> int:
    without_end = summary.rstrip(_SENTENCE_MARKS)
    if not any(mark in without_end for mark in _SENTENCE_MARKS):  # most are one sentence
        return int(bool(summary.strip()))
    ends = list(_SENTENCE_END.finditer(summary))
    rest = summary[ends[-1].end() if ends else 0 :]
    return len(ends) + bool(rest.strip())
