"""Remove from a diagram what the grammar does not know, and remember where each character came from.

Removed, in mermaid's order: carriage returns, front matter, directives (`%%{...}%%`), comments, spaces
after a closing brace. An entity (`#quot;`) keeps its length: only its `#` and `;` are replaced by marks, so that
its semicolon does not end a statement. Every step is linear in the length of the text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right

from logist.core.mermaid.error import MermaidError

MAX_CHARACTERS = 1 << 22
"""A longer diagram, comments included, is rejected."""

ENTITY_OPEN = "\ufdd0"
ENTITY_CLOSE = "\ufdd1"
"""No valid text contains these two: Unicode reserves them for internal use."""

SPACE = r"[\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
"""A character that mermaid treats as a space; for patterns with re.ASCII."""

BLANKS = " \t\n\v\f\r\u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)

_FRONT_MATTER = re.compile(
    r"(?P<indent>[^\S\n]*)---\s*\n(?P<body>.*?)\n(?P=indent)---\s*(?:\n|\Z)", re.DOTALL | re.ASCII
)
_TITLE = re.compile(r"^title[ \t]*:[ \t]+(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"^[^\S\n]*%%(?!\{)[^\n]*(?:\n|\Z)", re.MULTILINE)
_DIRECTIVE = re.compile(r"%%\{\s*\w++(?:\s*:)?\s*(?:\w++|(?>(?:[^}]++|\}(?!%%))*))\s*(?:\}%%)?", re.ASCII)
_LEADING = re.compile(rf"\A{SPACE}+", re.ASCII)
_TAG = re.compile(r"<(\w++)([^<>]*+)>", re.ASCII)
_ATTRIBUTE = re.compile(r'="([^"]*)"')
_COLOUR = re.compile(r":[^\s#:]*+#")
_ENTITY = re.compile(r"#(\w+);", re.ASCII)
_AFTER_BRACE = re.compile(rf"(?<=\}}){SPACE}*\n", re.ASCII)


def extract_front_matter(text: str) -> str:
    """Return the text between the `---` lines at the beginning of a diagram; empty if there is none."""
    match = _FRONT_MATTER.match(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    return match["body"] if match else ""


class DiagramSource:
    """The text that the grammar reads."""

    def __init__(self, text: str) -> None:
        """Raises MermaidError for a text that is too long."""
        self._breaks = [match.end() for match in re.finditer(r"\r\n|\r|\n", text)]
        self._starts, self._origins = [0], [0]
        self.text = text
        self.title = ""
        if len(text) > MAX_CHARACTERS:
            raise MermaidError(f"the diagram has more than {MAX_CHARACTERS:,} characters", 1, 1)
        self._clean_text()

    def locate_offset(self, offset: int) -> tuple[int, int]:
        """Return line and column, from 1, in the original text, of a character of `text`."""
        origin = self._find_origin(offset)
        line = bisect_right(self._breaks, origin)
        return line + 1, origin - (self._breaks[line - 1] if line else 0) + 1

    def _find_origin(self, offset: int) -> int:
        piece = bisect_right(self._starts, offset) - 1
        return self._origins[piece] + offset - self._starts[piece]

    def _clean_text(self) -> None:
        self._replace_pattern(re.compile(r"\A\ufeff"), "")
        self._replace_pattern(re.compile(r"\r\n?"), "\n")
        self.text = _TAG.sub(_use_single_quotes, self.text)  # keeps its length
        self._take_front_matter()
        self._replace_pattern(_DIRECTIVE, "")
        self._replace_pattern(_COMMENT, "")
        self._replace_pattern(_LEADING, "")
        self._cut_colours()
        self.text = _ENTITY.sub(rf"{ENTITY_OPEN}\1{ENTITY_CLOSE}", self.text)  # keeps its length
        self.text += "\n"
        self._replace_pattern(_AFTER_BRACE, "\n")

    def _take_front_matter(self) -> None:
        match = _FRONT_MATTER.match(self.text)
        if match is None:
            return
        if title := _TITLE.search(match["body"]):
            self.title = _read_scalar(title[1])
        self._replace_spans([(0, match.end(), "")])

    def _cut_colours(self) -> None:
        """Remove the last semicolon of lines such as `style A fill:#f9f;`: `#f9f;` is not an entity there."""
        for word in ("style", "classDef"):
            cuts = []
            for line in re.finditer(rf"{word}([^\n]*)", self.text):
                if colour := _COLOUR.search(line[1]):
                    end = line[1].rfind(";", colour.end())
                    if end >= 0:
                        cuts.append((line.start(1) + end, line.start(1) + end + 1, ""))
            self._replace_spans(cuts)

    def _replace_pattern(self, pattern: re.Pattern[str], new: str) -> None:
        self._replace_spans([(match.start(), match.end(), new) for match in pattern.finditer(self.text)])

    def _replace_spans(self, changes: list[tuple[int, int, str]]) -> None:
        """Replace spans by texts; `changes` are in order and do not overlap."""
        pieces: list[str] = []
        starts: list[int] = []
        origins: list[int] = []
        end = length = 0
        for start, stop, new in [*changes, (len(self.text), len(self.text), "")]:
            self._record_origins(end, start, length, starts, origins)
            pieces += (self.text[end:start], new)
            length += start - end
            if new:
                starts.append(length)
                origins.append(self._find_origin(start))
                length += len(new)
            end = stop
        starts.append(length)
        origins.append(self._find_origin(len(self.text)))
        self.text, self._starts, self._origins = "".join(pieces), starts, origins

    def _record_origins(
        self, start: int, stop: int, length: int, starts: list[int], origins: list[int]
    ) -> None:
        """Record where the kept span from `start` to `stop` came from; its new offset is `length`."""
        if start == stop:
            return
        starts.append(length)
        origins.append(self._find_origin(start))
        first = bisect_right(self._starts, start)
        last = bisect_right(self._starts, stop - 1)
        starts += [length + piece - start for piece in self._starts[first:last]]
        origins += self._origins[first:last]


def _use_single_quotes(tag: re.Match[str]) -> str:
    """Replace double quotes inside an HTML tag, which would end the label that contains the tag."""
    return "<" + tag[1] + _ATTRIBUTE.sub(r"='\1'", tag[2]) + ">"


def _read_scalar(text: str) -> str:
    """Read a YAML scalar on one line, as far as titles need it."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip()
