"""Split a template into text and actions, and parse each action."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from logist.core.template.tree import ActionPlace, Holds, Name, TemplateError
from logist.core.text import paths
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

MAX_CHARACTERS = 1 << 18
"""The maximum length of a template."""
_ACTION = compile_on_use(r"\{\{([^{}]{0,1000}+)\}\}")
_QUOTED_ACTION = compile_on_use(
    r"""\{\{((?>(?:[^{}"\[]{1,200}+|"(?>(?:[^"\\\n]|\\.){0,200})"|\['(?>(?:[^'\\\n]|\\.){0,200})'\]|\[){0,200}))\}\}"""
)
"""An action with braces in a text or key; every quantifier is possessive or in an atomic group, so that matching is fast."""
_COMMENT = compile_on_use(r"\{\{-?\s{0,100}/\*")
_COMMENT_END = compile_on_use(r"\s{0,100}-?\}\}")
_KEYWORD = compile_on_use(r"(if|else|end|range|with|define|template|block|break|continue)(?![^\s.])")
_WORD = compile_on_use(r"""\s*("(?:[^"\\]|\\.)*"|\S+)""")
_ESCAPE = compile_on_use(r"\\(.)")
_NUMBER = compile_on_use(r"[+-]?[0-9]{1,300}(?:\.[0-9]{1,300})?")
_NAMED: dict[str, bool | None] = {"true": True, "false": False, "nil": None, "null": None}
_SPACE = " \t\r\n"

Keyword: TypeAlias = Literal["if", "else", "else if", "end", "range", "look", "unknown"]


@dataclass(frozen=True)
class TemplateAction:
    """One `{{...}}`: its keyword and what follows it, parsed."""

    keyword: Keyword
    place: ActionPlace
    name: Name | None = None
    holds: Holds | None = None
    message: str = ""


def split_pieces(text: str) -> Iterator[str | TemplateAction]:
    """Yield the texts and actions of a template in order, with white space trimmed by `{{-` and `-}}`."""
    if len(text) > MAX_CHARACTERS:
        raise TemplateError(
            f"the template is too long: {len(text):,} characters, at most {MAX_CHARACTERS:,}", 1, 1
        )
    done, trim = 0, False
    for start, end, place in _find_actions(text):
        before = text[done:start]
        inner = text[start + 2 : end - 2]
        before = before.lstrip(_SPACE) if trim else before
        before = before.rstrip(_SPACE) if inner.startswith("-") else before
        if before:
            yield before
        body = inner.removeprefix("-")
        trim, done = body.endswith("-"), end
        body = body.removesuffix("-").strip()
        if not body.startswith("/*"):
            yield _parse_action(body, place)
    rest = text[done:].lstrip(_SPACE) if trim else text[done:]
    if rest:
        yield rest


def find_unclosed(text: str) -> Iterator[ActionPlace]:
    """Yield the places where `{{` is plain text, because no matching `}}` follows."""
    counter = _Counter(text)
    done = 0
    spans = [*((start, end) for start, end, _ in _find_actions(text)), (len(text), len(text))]
    for start, end in spans:
        here = text.find("{{", done, start)
        if here >= 0:
            yield counter.locate_span(here, here + 2)
        done = end


def _find_actions(text: str) -> Iterator[tuple[int, int, ActionPlace]]:
    """Yield the start and end of each action or comment, and its place."""
    counter = _Counter(text)
    here = text.find("{{")
    while here >= 0:
        end = here + 1
        if _COMMENT.match(text, here):
            end = _find_comment_end(text, here, counter)
            yield here, end, counter.locate_span(here, end)
        elif match := _match_action(text, here):
            end = match.end()
            yield here, end, counter.locate_span(here, end)
        here = text.find("{{", end)


def _match_action(text: str, here: int) -> re.Match[str] | None:
    plain = _ACTION.match(text, here)
    if plain and plain[1].count('"') % 2 == 0 and not ("['" in plain[1] and plain[1].count("'") % 2):
        return plain
    return _QUOTED_ACTION.match(text, here) or plain


def _find_comment_end(text: str, start: int, counter: _Counter) -> int:
    close = text.find("*/", start)
    match = _COMMENT_END.match(text, close + 2) if close >= 0 else None
    if match is None:
        place = counter.locate_span(start, start + 2)
        raise TemplateError("the comment is not closed: `*/}}` is missing", place.line, place.column)
    return match.end()


class _Counter:
    """Computes lines and columns of positions, in increasing order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._done = 0
        self._line = 1
        self._line_start = 0

    def locate_span(self, start: int, end: int) -> ActionPlace:
        """Return the place of the text from `start` to `end`."""
        if breaks := self._text.count("\n", self._done, start):
            self._line += breaks
            self._line_start = self._text.rindex("\n", self._done, start) + 1
        self._done = start
        return ActionPlace(self._line, start - self._line_start + 1, self._text[start:end])


def _parse_action(body: str, place: ActionPlace) -> TemplateAction:
    match = _KEYWORD.match(body)
    if match is None:
        name = _parse_name(body)
        if name is None:
            return TemplateAction(
                "unknown", place, message=f"`{place.written[:80]}` is neither a path nor a known keyword"
            )
        return TemplateAction("look", place, name=name)
    keyword, rest = match[1], body[match.end() :].strip()
    if keyword == "else" and re.match(r"if(?!\S)", rest):
        return TemplateAction("else if", place, holds=_parse_condition(rest[2:], place))
    if keyword == "if":
        return TemplateAction("if", place, holds=_parse_condition(rest, place))
    if keyword == "range":
        name = _parse_name(rest)
        if name is None:
            raise TemplateError("`range` needs one path, as in `{{range .Items}}`", place.line, place.column)
        return TemplateAction("range", place, name=name)
    if keyword in ("else", "end"):
        if rest:
            raise TemplateError(f"unexpected text after `{keyword}`", place.line, place.column)
        return TemplateAction("else" if keyword == "else" else "end", place)
    raise TemplateError(f"`{keyword}` is not supported; use if, else, range or end", place.line, place.column)


def _parse_name(text: str) -> Name | None:
    """Return the path, or None if the text is not a path."""
    if text == "$":
        return Name(("$",), dotted=False)
    try:
        path = paths.parse(text)
    except paths.PathError:
        return None
    return Name(path, dotted=text.startswith("."))


def _parse_condition(text: str, place: ActionPlace) -> Holds:
    """Parse the condition of an `if`."""
    words = _split_words(text)
    negated = False
    while words and words[0] == "not":
        negated = not negated
        del words[0]
    if words and words[0] in ("eq", "ne") and len(words) == 3:
        negated ^= words[0] == "ne"
        return Holds(
            _parse_operand(words[1], place), _parse_operand(words[2], place), compares=True, negated=negated
        )
    if len(words) != 1:
        raise TemplateError(
            '`if` needs a path, `not` and a path, or `eq` with a path and a value, as in `{{if eq .Kind "bug"}}`',
            place.line,
            place.column,
        )
    return Holds(_parse_operand(words[0], place), negated=negated)


def _split_words(text: str) -> list[str]:
    """Return the words of a text; a path whose key is quoted is one word."""
    words: list[str] = []
    here = 0
    while match := _WORD.match(text, here):
        path, end = paths.scan_path(text, match.start(1))
        here = max(end, match.end()) if path else match.end()
        words.append(text[match.start(1) : here])
    return words


def _parse_operand(word: str, place: ActionPlace) -> Name | str | float | bool | None:
    if word in _NAMED:
        return _NAMED[word]
    if word.startswith('"') and word.endswith('"') and len(word) > 1:
        return _ESCAPE.sub(r"\1", word[1:-1])
    if _NUMBER.fullmatch(word):
        return float(word)
    name = _parse_name(word)
    if name is None:
        raise TemplateError(f"`{word[:80]}` is not a path", place.line, place.column)
    return name
