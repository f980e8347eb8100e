"""Cut an answer into its sections: find the lines that are headings and those inside code fences.

Models write headings in several manners (`MANNERS`), so an answer is cut in several ways, the strictest
first; the reader uses the first result in which nothing is missing. If something is still missing,
fences are read as nested: a fence with a language opens another one inside the first, which is not Markdown,
but models write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

Name = Literal["status", "summary", "output", "next action", "metadata", "evidence"]
Manner = Literal["level", "headings", "bold", "plain"]


MANNERS: tuple[Manner, ...] = ("level", "headings", "bold", "plain")
"""What counts as a heading: a Markdown heading of the same level as that of the status; any Markdown heading; also a
line that starts in bold; also a line that starts with the name."""


@dataclass(frozen=True)
class Section:
    """A section: its name (None if it is not part of the format), its text, and whether the text ends in an open
    fence.
    """

    name: Name | None
    lines: tuple[str, ...]
    open_fence: bool = False
    extra: int | None = None
    """Of an output: the number of lines before the first heading inside it."""

    @property
    def text(self) -> str:
        """The text without the empty lines and rules around it."""
        return "\n".join(_trim_lines(self.lines))

    @property
    def head(self) -> str:
        """The text up to the first heading inside it."""
        return "\n".join(_trim_lines(self.lines[: self.extra]))


@dataclass(frozen=True)
class _Head:
    """A heading: the first manner that recognizes it, the section that it names (None: not part of the format),
    and its value.
    """

    line: int
    manner: Manner
    name: Name | None
    value: str
    level: int = 0


_NAMES: dict[str, Name] = {
    "status": "status",
    "summary": "summary",
    "output": "output",
    "nextaction": "next action",
    "nextactions": "next action",
    "metadata": "metadata",
    "evidence": "evidence",
    "evidencefiles": "evidence",
}
# After its name a heading has decoration (bold, brackets, emojis), then perhaps a colon or a dash, then a value.
_TITLE = compile_on_use(
    r"""
    [\W\d_]*+
    (?P<name> status | summary | output | next[\s_-]*actions? | meta[\s_-]?data | evidence (?:[\s_-]*files)? )
    (?![^\W_])
    (?P<close> [^\w:：=–—-]*+ _* \s*+ )
    (?P<colon> [:：=] | (?<=\s)[–—-](?=\s) )?
    (?(colon) [*_]{0,3} )
    \s*+ (?P<value> .* )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORD = compile_on_use(r"(?:SUCCESS|PARTIAL|BLOCKED|FAILED|COMPLETE|CONTINUE|ESCALATE|HOLD)\b")
# Possessive (`++`) where two parts could share the same characters, so that a hostile line takes linear time.
_ATX = compile_on_use(r" {0,3}(#{1,4})(?!#)(.*)")
_MARKED = r"""\s{0,3}(?:[-*+•]\s++)?(?:\(?\d{1,2}[.):]\s*+)?[^\w\s*#"'{\[(]*+\s*+"""
_BOLD = compile_on_use(rf"{_MARKED}(?:\*\*|__)(.*)")
_PLAIN = compile_on_use(rf"{_MARKED}(\w.*)")
_FENCE = compile_on_use(r"[ \t]*(`{3,}|~{3,})(.*)")
_RULE = compile_on_use(r"\s*+(?:-{3,}|={3,}|\*{3,}|_{3,})?\s*+")


def split_lines(text: str) -> list[str]:
    """Return the lines of an answer, whatever ends them."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def cut_sections(lines: list[str]) -> Iterator[list[Section]]:
    """Yield the sections in their order, for every way of cutting that may differ from the one before it.

    Text before the first heading is a section without a name.
    """
    heads = [head for number, line in enumerate(lines) if (head := _parse_heading(number, line))]
    before: tuple[list[bool], bool] | None = None
    for nested in (False, True):
        fences = find_fenced_lines(lines, nested=nested)
        if fences == before:
            return
        before = fences
        outside = [head for head in heads if not fences[0][head.line]]
        counted: list[_Head] | None = None
        for manner in MANNERS:
            if (more := list(_filter_headings(outside, manner))) != counted:
                yield _cut_at_headings(lines, more, open_fence=fences[1])
            counted = more


def _cut_at_headings(lines: list[str], heads: list[_Head], *, open_fence: bool) -> list[Section]:
    sections: list[Section] = []
    name: Name | None = None
    content: list[str] = []
    extra: int | None = None
    position = 0
    for head in heads:
        content += lines[position : head.line]
        position = head.line
        if head.name is None and name == "output":
            extra = len(content) if extra is None else extra
            continue
        sections.append(Section(name, tuple(content), extra=extra))
        name, content, extra, position = head.name, [head.value], None, head.line + 1
    return [*sections, Section(name, (*content, *lines[position:]), open_fence, extra)]


def unwrap_fence(lines: list[str]) -> list[str] | None:
    """Return the lines without the code fence around the whole answer; None if there is no such fence."""
    opener, mark = 0, ""
    for number, line in enumerate(lines):
        fence = _parse_fence(line)
        if fence and not mark:
            opener, mark = number, fence[0]
        elif fence and fence[0].startswith(mark) and not fence[1]:
            mark = ""
        elif mark and _is_status_heading(line):
            return _remove_fence(lines, opener)
    return None


def _remove_fence(lines: list[str], opener: int) -> list[str]:
    """Remove the mark at `opener`, and the last one if that is its partner."""
    rest = lines[opener + 1 :]
    marks = [number for number, line in enumerate(rest) if _parse_fence(line)]
    if len(marks) % 2:
        del rest[marks[-1]]
    return lines[:opener] + rest


def find_fenced_lines(lines: list[str], *, nested: bool) -> tuple[list[bool], bool]:
    """Return for each line whether it belongs to a code fence, its marks
    included; and whether one is left open.
    """
    inside: list[bool] = []
    stack: list[str] = []
    for line in lines:
        mark = _parse_fence(line)
        before = bool(stack)
        if mark and not stack:
            stack.append(mark[0])
        elif mark and mark[0].startswith(stack[-1]) and not mark[1]:
            stack.pop()
        elif mark and nested and mark[1]:
            stack.append(mark[0])
        inside.append(before or bool(stack))
    return inside, bool(stack)


def _parse_fence(line: str) -> tuple[str, str] | None:
    """Return the marks and the language of a line that opens or closes a fence, or None."""
    fence_match = _FENCE.fullmatch(line)
    if fence_match is None or "`" in fence_match[2]:
        return None
    return fence_match[1], fence_match[2].strip()


def _parse_heading(number: int, line: str) -> _Head | None:
    if atx := _ATX.fullmatch(line):
        name, value = _parse_title(atx[2].rstrip(" \t#")) or (None, "")
        return _Head(number, "headings", name, value, len(atx[1]))
    if (bold := _BOLD.fullmatch(line)) and (name_and_value := _parse_title(bold[1])):
        return _Head(number, "bold", *name_and_value)
    if (plain := _PLAIN.fullmatch(line)) and (name_and_value := _parse_title(plain[1])):
        return _Head(number, "plain", *name_and_value)
    return None


def _filter_headings(heads: list[_Head], manner: Manner) -> Iterator[_Head]:
    """Yield the headings that count in a manner."""
    statuses = (head.level for head in heads if head.name == "status" and head.manner == "headings")
    deepest = next(statuses, 4) if manner == "level" else 4
    last = MANNERS.index(manner)
    for head in heads:
        if head.level <= deepest and MANNERS.index(head.manner) <= max(last, 1):
            yield head


def _is_status_heading(line: str) -> bool:
    head = _parse_heading(0, line)
    return head is not None and head.name == "status" and (not head.value or bool(_WORD.search(head.value)))


def _parse_title(title: str) -> tuple[Name, str] | None:
    """Return the section that a title names and its value, empty or after a colon; None if it names none."""
    title_match = _TITLE.fullmatch(title)
    if title_match is None:
        return None
    value = title_match["value"].strip()
    if value and not title_match["colon"] and not _WORD.match(value):
        return None
    return _NAMES[re.sub(r"[\W_]", "", title_match["name"]).lower()], value


def _trim_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    first, last = 0, len(lines)
    while first < last and _RULE.fullmatch(lines[first]):
        first += 1
    while last > first and _RULE.fullmatch(lines[last - 1]):
        last -= 1
    return lines[first:last]
