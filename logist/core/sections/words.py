"""The status and action words of the sections format, read without guessing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import TypeVar

from logist.core.answer.answer_faults import describe_value
from logist.lazy_patterns import compile_on_use


class SectionStatus(StrEnum):
    """How much of the task is done."""

    SUCCESS = "SUCCESS"
    PARTIAL = "PARTIAL"
    BLOCKED = "BLOCKED"
    FAILED = "FAILED"


class NextAction(StrEnum):
    """What should happen next, according to the agent."""

    COMPLETE = "COMPLETE"
    CONTINUE = "CONTINUE"
    ESCALATE = "ESCALATE"
    HOLD = "HOLD"


Word = TypeVar("Word", bound=StrEnum)

# Before the word: bullets, numbers, bold, a bracket, a checked box, an emoji. Never a sign that may negate it (`!`,
# `~~`).
_DECORATION = r"""(?>(?:\[[xX✓]\]|[\s>*+•\-_`"'“”\[(:：]|\d{1,2}[.)]|[^\w\s!-~¬≠])*)"""
_SAID = compile_on_use(rf"{_DECORATION}(?P<word>[A-Za-z]+)(?P<rest>.*)")
_CLOSED = compile_on_use(
    r"""(?>(?:[\s*_`"'”)]++|[^\w\s!-~–—])*)(?P<mark>\][\s*_`]*+[–—:：.,-]?|[–—:：.,;!(]|-(?=\s)|$)(?P<reason>.*)"""
)
_TAKEN_BACK = compile_on_use(r"\W*not\b", re.IGNORECASE)
_BECAUSE = compile_on_use(r"\s+(?:with|to|by|until|for|because|since)\b.*")
_PURSUED = frozenset({NextAction.CONTINUE, NextAction.ESCALATE, NextAction.HOLD})
"""In upper case, these words may be followed by an explanation without punctuation in between."""
_CONDITIONAL = compile_on_use(
    rf"{_DECORATION}if\s+(?P<word>[A-Za-z]+)[*_`]*\s*[:：]\s*(?P<reason>.*)", re.IGNORECASE
)
_UNTICKED = compile_on_use(r"\s*(?:[-*+]\s+)?(?:\[ ?\]|☐)\s")
_NO_WORD = compile_on_use(r"[\W_]*")


def read_word(text: str, kind: type[Word], title: str) -> tuple[Word, str] | str:
    """Return the word of a section and the explanation next to it; or, as a string, why there is no such word.

    The word is at the start of the first line that has one. A second word of the same kind makes it ambiguous:
    on that line in upper case or directly after the first, or at the start of a later line.
    """
    lines = [line for line in text.split("\n") if not _UNTICKED.match(line) and not _NO_WORD.fullmatch(line)]
    plain = [line for line in lines if not _CONDITIONAL.fullmatch(line)]
    if not plain:
        return f"`{title}` is empty; expected one of {', '.join(kind)}"
    first = _parse_line(plain[0], kind)
    if first is None:
        return f"`{title}` is {describe_value(plain[0].strip())}; expected one of {', '.join(kind)}"
    word, reason = first
    if others := _find_other_words(plain, kind, word):
        words_found = ", ".join(dict.fromkeys([word, *others]))
        return f"`{title}` has more than one value ({words_found}); expected exactly one"
    pieces = [
        reason,
        *_find_conditional_reasons(lines, word),
        *(_extract_explanation(line, kind) for line in plain[1:]),
    ]
    return word, "\n".join(piece for piece in pieces if piece)


def _parse_line(line: str, kind: type[Word]) -> tuple[Word, str] | None:
    line_match = _SAID.fullmatch(line)
    word = _to_word(line_match["word"], kind) if line_match else None
    if line_match is None or word is None:
        return None
    closed = _CLOSED.fullmatch(line_match["rest"])
    if closed and not _TAKEN_BACK.match(closed["reason"]):
        reason = closed["reason"].strip()
        return word, reason.removesuffix(")") if closed["mark"] == "(" else reason
    if line_match["word"] in _PURSUED and _BECAUSE.fullmatch(line_match["rest"]):
        return word, line_match["rest"].strip()
    return None


def _extract_explanation(line: str, kind: type[Word]) -> str:
    """Return a later line, or only the text after the word if the line repeats it."""
    parsed = _parse_line(line, kind)
    return parsed[1] if parsed else line.strip()


def _to_word(written: str, kind: type[Word]) -> Word | None:
    upper = written.upper()
    return kind(upper) if upper in set(kind) else None


def _find_other_words(lines: list[str], kind: type[Word], word: Word) -> list[Word]:
    capital_words = [kind(found) for found in re.findall(r"\b[A-Z]+\b", lines[0]) if found in set(kind)]
    first = _parse_line(lines[0], kind)
    starts = [
        said[0] for line in [first[1] if first else "", *lines[1:]] if (said := _parse_line(line, kind))
    ]
    return [other for other in [*capital_words, *starts] if other != word]


def _find_conditional_reasons(lines: list[str], word: Word) -> Iterator[str]:
    """Yield the text of the template's line `- If CONTINUE: ...` for the chosen word."""
    for line in lines:
        line_match = _CONDITIONAL.fullmatch(line)
        if line_match and line_match["word"].upper() == word:
            yield line_match["reason"].strip()
