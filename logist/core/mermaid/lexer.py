"""Split a diagram into tokens. The meaning of a character depends on the brackets and quotes that are open
around it.

Every mode (inside a label, after `--`, in a string, ...) has its own list of rules; the first one that
matches wins, as in mermaid, however short its match. Modes are kept on a stack. The time is linear in the
length of the text: the two rules that look ahead over a line or a word look up positions that were collected
once.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from lark import Token

from logist.core.mermaid.error import MermaidError
from logist.core.mermaid.source import ENTITY_OPEN, SPACE, DiagramSource
from logist.quick_tuple import NamedTuple

MAX_TOKENS = 100_000
"""A diagram with more tokens is rejected."""


class _Rule(NamedTuple):
    pattern: str
    token: str | None = None
    """None if the match is not a token."""
    move: str = ""
    """The mode to enter; `pop` leaves the mode."""


_BLANK = SPACE[1:-1]
_QUOTES = [_Rule('"`', None, "markdown"), _Rule('"', None, "string")]
_INVISIBLE = _Rule(f"{SPACE}*~~~+{SPACE}*", "LINK")
_BRACKETS = [
    _Rule(r"\(-", "_ELLIPSE", "ellipse"),
    _Rule(r"\(\[", "_STADIUM", "text"),
    _Rule(r"\[\[", "_SUBROUTINE", "text"),
    _Rule(r"\[\(", "_CYLINDER", "text"),
    _Rule(r"\(\(\(", "_DOUBLECIRCLE", "text"),
    _Rule(r"\[/", "_SLASH", "slanted"),
    _Rule(r"\[\\", "_BACKSLASH", "slanted"),
    _Rule(r"\|", "_PIPE", "text"),
    _Rule(r"\(", "_ROUND", "text"),
    _Rule(r"\[", "_SQUARE", "text"),
    _Rule(r"\{", "_BRACE", "text"),
]
_ENDS = [
    _Rule(r"\]\)", "_STADIUM_END", "pop"),
    _Rule(r"\]\]", "_SUBROUTINE_END", "pop"),
    _Rule(r"\)\]", "_CYLINDER_END", "pop"),
    _Rule(r"\)\)\)", "_DOUBLECIRCLE_END", "pop"),
    _Rule(r"\|", "_PIPE", "pop"),
    _Rule(r"\)", "_ROUND_END", "pop"),
    _Rule(r"\]", "_SQUARE_END", "pop"),
    _Rule(r"\}", "_BRACE_END", "pop"),
]
_LINKS = [
    _Rule(f"[xo<]?--+[-xo>]{SPACE}*", "LINK"),
    _Rule(f"[xo<]?--{SPACE}*", "LINK_START", "edge"),
    _Rule(f"[xo<]?==+[=xo>]{SPACE}*", "LINK"),
    _Rule(f"[xo<]?=={SPACE}*", "LINK_START", "thick edge"),
    _Rule(rf"[xo<]?-?\.+-[xo>]?{SPACE}*", "LINK"),
    _Rule(rf"[xo<]?-\.{SPACE}*", "LINK_START", "dotted edge"),
    _Rule(f"~~~+{SPACE}*", "LINK"),
]
_WORDS = [
    _Rule(rf"accTitle{SPACE}*:{SPACE}*", None, "note"),
    _Rule(rf"accDescr{SPACE}*:{SPACE}*", None, "note"),
    _Rule(rf"accDescr{SPACE}*\{{{SPACE}*", None, "long note"),
    _Rule(r"@\{", "ATTRIBUTES", "attributes"),
    _Rule(f"call{SPACE}+", None, "callback"),
    *_QUOTES,
    _Rule(r"style\b", "STYLE"),
    _Rule(r"default\b", "DEFAULT"),
    _Rule(r"linkStyle\b", "LINK_STYLE"),
    _Rule(r"interpolate\b", "INTERPOLATE"),
    _Rule(r"classDef\b", "CLASS_DEF"),
    _Rule(r"class\b", "CLASS"),
    _Rule(f"href{SPACE}", "HREF"),
    _Rule(f"click{SPACE}+", None, "click"),
    _Rule(r"(?:flowchart-elk|swimlane-beta|graph|flowchart)\b", "GRAPH", "direction"),
    _Rule(r"subgraph\b", "SUBGRAPH"),
    _Rule(rf"end\b{SPACE}*", "END"),
    _Rule(r"_(?:self|blank|parent|top)\b", "LINK_TARGET"),
]
_SIGNS = [
    _Rule("[0-9]+", "NUMBER"),
    _Rule("#", "HASH"),
    _Rule(":::", "_CLASSES"),
    _Rule(":", "COLON"),
    _Rule("&", "AMPERSAND"),
    _Rule(";", "_SEMICOLON"),
    _Rule(",", "COMMA"),
    _Rule(r"\*", "STAR"),
    *_LINKS,
    *_BRACKETS[:3],
    _Rule(r"\[\|", "_PROPERTIES"),
    _Rule(">", "GREATER", "text"),
    *_BRACKETS[3:7],
    _Rule("<", "LESS"),
    _Rule(r"\^", "CARET"),
    _Rule(r"\\\|", "BAR"),
    _Rule(r"v\b", "V"),
    _Rule(r"(?:[A-Za-z0-9!\"#$%&'*+.`?\\_/]|-(?=[^>\-.]))+", "NAME"),
    _Rule("-", "MINUS"),
    *_BRACKETS[7:],
]
_MODES = {
    "words": _WORDS,
    "signs": _SIGNS,
    "links": _LINKS,
    "text": [
        *_QUOTES,
        _INVISIBLE,
        _BRACKETS[0],
        _ENDS[0],
        _BRACKETS[1],
        _ENDS[1],
        _BRACKETS[2],
        _ENDS[2],
        _BRACKETS[3],
        _ENDS[3],
        *_BRACKETS[4:7],
        _ENDS[4],
        _ENDS[5],
        _BRACKETS[8],
        _ENDS[6],
        _BRACKETS[9],
        _ENDS[7],
        _BRACKETS[10],
        _Rule(r"[^\[\](){}|\"]+", "TEXT"),
    ],
    "slanted": [
        *_QUOTES,
        _INVISIBLE,
        *_BRACKETS[:5],
        _Rule(r"[\\(?=\])]\]", "_BACKSLASH_END", "pop"),
        _Rule(r"/\]", "_SLASH_END", "pop"),
        _Rule(r"[/\\](?!\])|[^\\\[\](){}/]+", "TEXT"),
        *_BRACKETS[5:],
    ],
    "ellipse": [
        *_QUOTES,
        _INVISIBLE,
        _Rule(r"[-/)]\)", "_ELLIPSE_END", "pop"),
        _Rule(rf"{SPACE}+|[^()\[\]{{}}\"~/{_BLANK}-]+|[^()\[\]{{}}]", "TEXT"),
        *_BRACKETS,
    ],
    "edge": [
        *_QUOTES,
        _Rule(f"{SPACE}*[xo<]?--+[-xo>]{SPACE}*", "LINK", "pop"),
        _Rule(rf"{SPACE}+|[^{_BLANK}\"xo<-]+|[^-]|-(?!-)", "EDGE_TEXT"),
        _INVISIBLE,
        *_BRACKETS,
    ],
    "thick edge": [
        *_QUOTES,
        _Rule(f"{SPACE}*[xo<]?==+[=xo>]{SPACE}*", "LINK", "pop"),
        _Rule(rf"{SPACE}+|[^{_BLANK}\"xo<=]+|[^=]", "EDGE_TEXT"),
        _INVISIBLE,
        *_BRACKETS,
    ],
    "dotted edge": [
        *_QUOTES,
        _Rule(rf"{SPACE}*[xo<]?-?\.+-[xo>]?{SPACE}*", "LINK", "pop"),
        _Rule(rf"{SPACE}+|[^{_BLANK}\"xo<.-]+|[^.]", "EDGE_TEXT"),
        _INVISIBLE,
        *_BRACKETS,
    ],
    "string": [_QUOTES[0], _Rule('[^"]+', "STRING"), _Rule('"', None, "pop")],
    "markdown": [
        _Rule('[^`"]+', "STRING"),
        _Rule('`"', None, "pop"),
        *_QUOTES,
    ],
    "direction": [
        *_QUOTES,
        _Rule(rf"{SPACE}*\n", "NO_DIRECTION", "pop"),
        _Rule(rf"{SPACE}*(?:(?:LR|RL|TB|BT|TD|BR|v)\b|[<>^])", "DIRECTION", "pop"),
        _INVISIBLE,
        *_BRACKETS,
    ],
    "attributes": [
        _Rule('"', "ATTRIBUTES", "attribute string"),
        _Rule(r"[^}^\"]+", "ATTRIBUTES"),
        _Rule(r"\}", None, "pop"),
    ],
    "attribute string": [_Rule('"', "ATTRIBUTES", "pop"), _Rule('[^"]+', "ATTRIBUTE_TEXT")],
    "note": [_Rule(r"[^\n]*", "NOTE", "pop")],
    "long note": [_Rule(r"\}", None, "pop"), _Rule(r"[^}]+", "NOTE")],
    "click": [_Rule(SPACE, None, "pop"), _Rule(f"[^{_BLANK}]+", "CLICK")],
    "callback": [
        _Rule(rf"\({SPACE}*\)", None, "pop"),
        _Rule(r"\(", None, "arguments"),
        _Rule(r"[^(]+", "CALLBACK"),
    ],
    "arguments": [_Rule(r"\)", None, "pop"), _Rule(r"[^)]+", "ARGUMENTS")],
}
_PATTERNS = {
    mode: re.compile("|".join(f"({rule.pattern})" for rule in rules), re.ASCII)
    for mode, rules in _MODES.items()
}
_OPENED = {
    "text": "this text is not closed",
    "slanted": "this text is not closed",
    "ellipse": "this text is not closed",
    "string": "this quoted text is not closed",
    "markdown": "this quoted text is not closed",
    "attributes": "this `@{` is not closed",
    "attribute string": "this quoted text is not closed",
}
_DIRECTION = re.compile(rf"direction{SPACE}+(TB|BT|RL|LR|TD)")
_DIRECTIONS = ("TB", "BT", "RL", "LR", "TD")
_EDGE_ID_END = re.compile(r'@(?=[^{"])')
_EDGE_ID_STOP = re.compile(rf'{SPACE}|"')
_NO_SPACE = re.compile(rf"(?!{SPACE})", re.ASCII)
_SPACES = re.compile(f"{SPACE}*", re.ASCII)


class Lexer:
    """Reads the tokens of one text, in order. Raises MermaidError for an unexpected character."""

    def __init__(self, source: DiagramSource) -> None:
        self._source = source
        self._text = source.text
        self._stack: list[tuple[str, int]] = []
        """The modes that are open, and where each was entered."""
        self._begun = False
        """Whether the first `graph` was read; a later one is an ordinary word."""
        self._directions = [match.start() for match in _DIRECTION.finditer(self._text)]
        self._edge_ids = [match.end() for match in _EDGE_ID_END.finditer(self._text)]
        self._edge_id_stop = -1
        self._spaces_end = -1

    def read_tokens(self) -> Iterator[Token]:
        """Yield Lark tokens; `start_pos` is an offset in the cleaned text."""
        position = count = 0
        while position < len(self._text):
            kind, end, move = self._read_token(position)
            if kind is not None:
                count += 1
                if count > MAX_TOKENS:
                    raise self._make_error(f"the diagram has more than {MAX_TOKENS:,} tokens", position)
                yield Token(kind, self._text[position:end], start_pos=position)
            self._change_mode(move, position)
            position = end
        if self._stack and self._stack[-1][0] == "note":
            yield Token("NOTE", "", start_pos=position)
        elif self._stack:
            mode, opened = self._stack[-1]
            raise self._make_error(_OPENED.get(mode, "this text is not closed"), opened)
        yield Token("_END_OF_TEXT", "", start_pos=position)

    def _change_mode(self, move: str, position: int) -> None:
        if move == "pop":
            self._stack.pop()
        elif move == "arguments":
            self._stack[-1] = ("arguments", position)
        elif move == "direction":
            if not self._begun:
                self._stack.append((move, position))
            self._begun = True
        elif move:
            self._stack.append((move, position))

    def _read_token(self, position: int) -> tuple[str | None, int, str]:
        """Return kind and end of the token at a position, and the change of mode it makes."""
        if not self._stack:
            return self._read_outside_token(position)
        return self._match_rules(self._stack[-1][0], position) or self._refuse_character(position)

    def _match_rules(self, mode: str, position: int) -> tuple[str | None, int, str] | None:
        match = _PATTERNS[mode].match(self._text, position)
        if match is None or match.lastindex is None:
            return None
        rule = _MODES[mode][match.lastindex - 1]
        return rule.token, match.end(), rule.move

    def _read_outside_token(self, position: int) -> tuple[str | None, int, str]:
        """Return the token at a position that is in no label, string or the like."""
        return (
            self._match_rules("words", position)
            or self._match_direction(position)
            or self._match_edge_id(position)
            or self._match_space(position)
            or self._match_rules("signs", position)
            or self._match_letters(position)
            or self._refuse_character(position)
        )

    def _match_direction(self, position: int) -> tuple[str, int, str] | None:
        """Match `direction LR` on the current line; the token includes any text before it, as in mermaid."""
        first = bisect_left(self._directions, position)
        if first == len(self._directions):
            return None
        stop = self._text.find("\n", position)
        starts = self._directions[first : bisect_left(self._directions, stop)]
        if not starts:
            return None
        matches = [_DIRECTION.match(self._text, start) for start in starts]
        last = {match[1]: match.end() for match in matches if match}
        value = next(value for value in _DIRECTIONS if value in last)
        return f"DIRECTION_{value}", self._text.find("\n", last[value]), ""

    def _match_edge_id(self, position: int) -> tuple[str, int, str] | None:
        """Match a word that ends with `@`, as in `A e1@--> B`."""
        if not self._edge_ids:
            return None
        if position >= self._edge_id_stop:
            stop = _EDGE_ID_STOP.search(self._text, position)
            self._edge_id_stop = stop.start() if stop else len(self._text)
        index = bisect_right(self._edge_ids, self._edge_id_stop)
        if not index or self._edge_ids[index - 1] < position + 2:
            return None
        return "EDGE_ID", self._edge_ids[index - 1], ""

    def _match_space(self, position: int) -> tuple[str, int, str] | None:
        """Match a space, line breaks, or an arrow with the spaces before it."""
        if _NO_SPACE.match(self._text, position):
            return None
        if position >= self._spaces_end:
            spaces = _SPACES.match(self._text, position)
            self._spaces_end = spaces.end() if spaces else position
        link = self._match_rules("links", self._spaces_end)
        if link and link[0]:
            return link[0], link[1], link[2]
        if self._text[position] == "\n":  # a statement has ended: spaces have no meaning
            line = self._text.rfind("\n", position, self._spaces_end) + 1
            return "_LINE_BREAK", line if self._directions else self._spaces_end, ""
        return "SPACE", position + 1, ""

    def _match_letters(self, position: int) -> tuple[str, int, str] | None:
        """Match letters of any language; mermaid accepts none outside the basic multilingual plane."""
        end = position
        while "\x7f" < self._text[end] <= "\uffff" and self._text[end].isalpha():
            end += 1
        return ("LETTERS", end, "") if end > position else None

    def _refuse_character(self, position: int) -> tuple[str | None, int, str]:
        if self._stack and self._stack[-1][0] == "direction":
            raise self._make_error("invalid direction: expected TB, TD, BT, LR or RL", position)
        if self._text[position] == ENTITY_OPEN:
            raise self._make_error("an entity such as `#35;` is allowed only in a label", position)
        raise self._make_error(f"unexpected {self._text[position]!r}", position)

    def _make_error(self, message: str, position: int) -> MermaidError:
        return MermaidError(message, *self._source.locate_offset(position))
