"""The definitions of a file (classes, functions, types, headings) and the lines that belong to each.

The extent of a definition follows from indentation, which is the same idea in all languages that formatters format.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from logist.core.relevance.occurrences import find_definitions
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

# Definitions that a search for names doesn't need, but a reader of an outline does. All repetitions are bounded.
_FUNCTION_OF_C = (  # starts in the first column, and its line doesn't end with a semicolon
    rb"^(?!(?:else|return|if|for|while|switch|typedef)\b)[A-Za-z_][\w:<>,*& \t]{0,120}[ \t*&]([A-Za-z_~][\w:~]{0,100})"
    rb"\([^;\n]{0,300}$"
)
_METHOD_OF_JAVASCRIPT = (
    rb"^[ \t]{1,12}(?:(?:async|static|get|set|readonly|override|public|private|protected)[ \t]{1,4}){0,4}[*#]{0,2}"
    rb"(?!(?:if|for|while|switch|catch|function|return|with|else|do)\b)([A-Za-z_$][\w$]{0,100})"
    rb"(?:<[^>\n]{0,100}>)?\([^;\n]{0,300}\)[^;=\n]{0,100}\{[ \t]{0,4}$"
)
_ASSIGNED_FUNCTION = (  # `app.handle = function handle(...) {`
    rb"^[A-Za-z_$][\w$.]{0,100}\.([A-Za-z_$][\w$]{0,100})[ \t]{0,4}=[ \t]{0,4}(?:async[ \t]{1,4})?"
    rb"(?:function\b|\([^)\n]{0,200}\)[ \t]{0,4}=>)"
)
_TRAIT_OF_RUST = (  # `impl<T> fmt::Display for Name`: the type says more than the trait
    rb"^[ \t]{0,12}(?:unsafe[ \t]{1,4})?impl\b[^\n{;]{1,150}?[ \t]for[ \t]{1,4}(?:&|mut[ \t]|'\w{1,20}[ \t]|\w{1,60}::){0,6}"
    rb"([A-Za-z_]\w{0,100})"
)
_IMPL_OF_RUST = rb"^[ \t]{0,12}(?:unsafe[ \t]{1,4})?impl<[^\n]{1,100}?>[ \t]{1,4}([A-Za-z_]\w{0,100})"
_MACRO_OF_C = rb"^#[ \t]{0,4}define[ \t]{1,4}([A-Za-z_]\w{0,100})\("
_STATIC_METHOD = (  # of Java and C#: without this, its type would be taken for its name
    rb"^[ \t]{1,20}(?:(?:public|private|protected|internal)[ \t]{1,4})?static[ \t]{1,4}(?:(?:final|async)[ \t]{1,4})?"
    rb"[\w<>\[\],.?]{1,100}[ \t]{1,4}(\w{1,100})[ \t]{0,4}\("
)
_OTHERS = [
    compile_on_use(form, re.MULTILINE)
    for form in (
        _FUNCTION_OF_C,
        _METHOD_OF_JAVASCRIPT,
        _ASSIGNED_FUNCTION,
        _TRAIT_OF_RUST,
        _IMPL_OF_RUST,
        _MACRO_OF_C,
        _STATIC_METHOD,
    )
]
_HEADING = compile_on_use(r"(#{1,6})[ \t]{1,4}(\S.{0,100})")
_VALUE = compile_on_use(
    rb"[ \t]{0,60}(?:(?:export|default|pub|public|private|static|final|declare)[ \t]{1,4}){0,4}"
    rb"(?:const|let|var|val|static|object|type|mod|sub|module)\b"
)
"""Inside of another definition this is mostly a local variable, and at the top it is often an import."""
_AFTER_NAME = compile_on_use(rb"[!?=]?[ \t]{0,4}(?:$|[({\[<:=;,|*\w&])")
_PROSE_AFTER_NAME = compile_on_use(
    rb"[ \t]{1,4}(?:of|is|are|for|to|that|and|or|in|with|from|which|has|can|will|as)\b"
)
_CONTINUES = compile_on_use(
    r"[)\]}{]|end\b|(?:rescue|ensure|else)\b|(?:public|private|protected)\b[^;]*:\s*$"
)
"""A line that belongs to the definition above although it is not indented."""
_MAX_FOUND = 20_000


@dataclass(frozen=True)
class Definition:
    """A definition, and its first and last line; lines count from 0."""

    name: str
    first: int
    last: int
    depth: int
    """The number of definitions around it."""
    parent: int | None = None
    """The first line of the definition around it."""


def list_definitions(
    data: bytes, lines: Sequence[str], starts: Sequence[int], *, headings: bool
) -> list[Definition]:
    """Return the definitions of a file in order; of a text for people, its headings.

    `lines` are those of `data`, and `starts` where each starts in it.
    """
    if headings:
        return _list_headings(lines)
    names: dict[int, str] = {}
    for start, name in _iter_names(data):
        names.setdefault(bisect_right(starts, start) - 1, name)
        if len(names) >= _MAX_FOUND:
            break
    return _find_ends(lines, names)


def _iter_names(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield where definitions start, and their names; of several names for one line, the better ones first."""
    for form in _OTHERS:
        for match in form.finditer(data):
            yield match.start(), match[1].decode("utf-8", "replace")
    for start, end, name in find_definitions(data):
        after = data[end : end + 200].partition(b"\n")[0].rstrip()
        if not _AFTER_NAME.match(after) or (
            _PROSE_AFTER_NAME.match(after) and not after.endswith((b"{", b":", b"where"))
        ):
            continue
        if _VALUE.match(data, start) and (data[start : start + 1].isspace() or b"require(" in after):
            continue
        yield start, name


def _list_headings(lines: Sequence[str]) -> list[Definition]:
    """Return the headings of a Markdown text. A section ends before the next heading of any level."""
    names: dict[int, re.Match[str]] = {}
    is_fenced = False
    for number, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            is_fenced = not is_fenced
        elif not is_fenced and (match := _HEADING.match(line)):
            names[number] = match
            if len(names) >= _MAX_FOUND:
                break
    ends = [*(number - 1 for number in [*names][1:]), len(lines) - 1]
    return [
        Definition(match[2], number, end, len(match[1]) - 1)
        for (number, match), end in zip(names.items(), ends, strict=False)
    ]


def _find_ends(lines: Sequence[str], names: dict[int, str]) -> list[Definition]:
    """Find the last line of each definition: the last one that is indented more, or continues it."""
    ended: list[Definition] = []
    around: list[_OpenDefinition] = []  # the innermost is the last one
    for number, line in enumerate(lines):
        text = line.lstrip()
        if not text:
            continue
        indent = len(line) - len(text)
        while around and indent <= around[-1].indent:
            if indent == around[-1].indent and _CONTINUES.match(text):
                around[-1].last = number
                break
            if text[0] == "#" and indent == 0 and number not in names:
                break  # the preprocessor of C, or a comment
            ended.append(_end_innermost(around, names))
        else:
            if around:
                around[-1].last = number
            if number in names:
                around.append(_OpenDefinition(number, indent, number))
    while around:
        ended.append(_end_innermost(around, names))
    return sorted(ended, key=lambda definition: definition.first)


@dataclass
class _OpenDefinition:
    """A definition whose end was not reached yet."""

    first: int
    indent: int
    last: int
    """The last line so far."""


def _end_innermost(around: list[_OpenDefinition], names: dict[int, str]) -> Definition:
    ended = around.pop()
    if around:
        around[-1].last = max(around[-1].last, ended.last)
    parent = around[-1].first if around else None
    return Definition(names[ended.first], ended.first, ended.last, len(around), parent)
