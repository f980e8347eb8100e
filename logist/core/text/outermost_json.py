"""Finds the outermost JSON objects and lists in free text, in one pass and in linear time.

Prose and code contain many braces, so what follows a brace decides:

- A brace that looks like the start of an object (`{"`, `{'`, `{key:`, `{{`), or a bracket of a list with an
  object (`[{`, `[1, {`), is followed to its closing partner, skipping strings. A code fence ends it early,
  because a JSON value can't contain one.
- `{}` and a brace in quotes (`"{"`) are ignored.
- Any other brace is code or prose. Everything up to its closing partner is hidden, because it is not outermost;
  without a partner, the brace is ignored.
"""

from __future__ import annotations

import re
from typing import Literal

from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

Ending = Literal["closed", "fence", "text"]

FENCE = r"[ \t]{0,3}(?:```|~~~)"

# Possessive (`++`): no backtracking, so the search is linear. Every alternative starts with a plain character, so
# that `re` can skip prose quickly.
_STRING = r'"[^"\\\n]*+(?>(?:\\.[^"\\\n]*+)*)'
_OUTSIDE = compile_on_use(
    rf"""
      \{{ (?: (?P<empty>  \s*+ \}} )
          | (?P<quoted> (?<="\{{)(?="(?!\w)) | (?<='\{{)(?='(?!\w)) )
          | (?P<object> (?= \s*+ (?: ["'“”‘’{{] | /[/*] | \w++ \s*+ : (?!:) | \Z ) ) )
          | (?P<brace> ) )
    | \[ (?P<list> (?= \s*+ (?> (?: (?: {_STRING}" | [\w.+-]++ ) \s*+ , \s*+ )* ) [\[{{] ) )
    | \}} (?P<close> \}}*+ )
    | \n (?P<fence> {FENCE} )
    """,
    re.VERBOSE,
)
# A string ends at a line break: JSON strings contain none, and a missing quote must not hide the rest.
_INSIDE = compile_on_use(rf'{_STRING}"?|\{{|\}}|\[|\]|\n{FENCE}')
_NESTING = compile_on_use(r'"(?>(?:[^"\\]++|\\.)*)"?|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True)
class JsonSpan:
    """`text[start:end]`, which starts like a JSON object or list; `ending`: how it ends."""

    start: int
    end: int
    depth: int
    """The deepest nesting of braces and brackets; 1 is a flat object."""
    ending: Ending


@dataclass(frozen=True)
class FoundSpans:
    """The spans of a text in order, and those inside braces of code or prose."""

    spans: tuple[JsonSpan, ...]
    hidden: tuple[JsonSpan, ...]


def find_outermost_json(text: str) -> FoundSpans:
    """Return everything in `text` that starts like a JSON object or list and is not inside another one."""
    if text.startswith('{"'):  # most answers are only an object, and the pattern takes long to compile
        first = _follow_span(text, 0)
        rest = text[first.end :]
        if not any(mark in rest for mark in "{}[\n"):
            return FoundSpans((first,), ())
    spans: list[JsonSpan] = []
    hidden: list[JsonSpan] = []
    open_braces: list[int] = []  # for each: the number of spans before it
    position = 0
    while match := _OUTSIDE.search(text, position):
        position = match.end()
        match match.lastgroup:
            case "object" | "list":
                spans.append(_follow_span(text, match.start()))
                position = spans[-1].end
            case "brace":
                open_braces.append(len(spans))
            case "close" if open_braces:
                opened = open_braces[max(0, len(open_braces) - len(match[0]))]
                del open_braces[-len(match[0]) :]
                hidden += spans[opened:]
                del spans[opened:]
            case "fence":
                open_braces.clear()
    return FoundSpans(tuple(spans), tuple(hidden))


def _follow_span(text: str, start: int) -> JsonSpan:
    """Return the span from the brace or bracket at `start` to its partner, a code fence or the end of the text."""
    opener = text[start]
    closer = "}" if opener == "{" else "]"
    own = nesting = deepest = 0
    for token in _INSIDE.finditer(text, start):
        mark = token[0][0]
        if mark == "\n":
            return JsonSpan(start, token.start(), deepest, "fence")
        if mark in "{[":
            own += mark == opener
            nesting += 1
            deepest = max(deepest, nesting)
        elif mark in "}]":
            own -= mark == closer
            nesting -= 1
            if own == 0:
                return JsonSpan(start, token.end(), deepest, "closed")
    return JsonSpan(start, len(text), deepest, "text")


def measure_depth(text: str, start: int = 0) -> int:
    """Return the nesting depth of the JSON value that begins at `start`; what follows it doesn't count.

    Parsers fail with RecursionError at a depth that depends on the version of Python, so measure first.
    """
    depth = deepest = 0
    for mark in _NESTING.finditer(text, start):
        depth += (mark[0] in "[{") - (mark[0] in "]}")
        deepest = max(deepest, depth)
        if deepest and depth <= 0:
            break
    return deepest
