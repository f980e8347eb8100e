"""The grammar of flowcharts over the tokens of the lexer, and the parser made from it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer as LarkLexer

from logist.core.mermaid.error import MermaidError
from logist.core.mermaid.lexer import Lexer
from logist.core.mermaid.source import BLANKS, ENTITY_CLOSE, ENTITY_OPEN, DiagramSource

GRAMMAR = r"""
start: GRAPH (NO_DIRECTION | DIRECTION _first_end) document

_first_end: _SEMICOLON | _LINE_BREAK | spaces _LINE_BREAK
_end: _SEMICOLON | _LINE_BREAK | _END_OF_TEXT

document: _line*
_line: _statement | _SEMICOLON | _LINE_BREAK | space | _END_OF_TEXT
_statement: chain _end
    | style _end
    | class_def _end
    | class_of _end
    | link_style _end
    | click _end
    | subgraph
    | direction
    | note

subgraph: SUBGRAPH SPACE title _SQUARE text _SQUARE_END _end document END
    | SUBGRAPH SPACE title _end document END
direction: DIRECTION_TB | DIRECTION_BT | DIRECTION_RL | DIRECTION_LR | DIRECTION_TD
note: NOTE

chain: _hop | chain link _hop
_hop: fan | fan spaces | fan attributes
fan: _node | fan spaces AMPERSAND spaces _node | fan attributes spaces AMPERSAND spaces _node
_node: vertex | styled
styled: vertex _CLASSES id
attributes: (ATTRIBUTES | ATTRIBUTE_TEXT)+

vertex: id
    | id _SQUARE text _SQUARE_END -> square
    | id _ROUND text _ROUND_END -> round
    | id _ROUND _ROUND text _ROUND_END _ROUND_END -> circle
    | id _DOUBLECIRCLE text _DOUBLECIRCLE_END -> doublecircle
    | id _ELLIPSE text _ELLIPSE_END -> ellipse
    | id _STADIUM text _STADIUM_END -> stadium
    | id _SUBROUTINE text _SUBROUTINE_END -> subroutine
    | id _PROPERTIES NAME COLON NAME _PIPE text _SQUARE_END -> square
    | id _CYLINDER text _CYLINDER_END -> cylinder
    | id _BRACE text _BRACE_END -> diamond
    | id _BRACE _BRACE text _BRACE_END _BRACE_END -> hexagon
    | id GREATER text _SQUARE_END -> odd
    | id _SLASH text _BACKSLASH_END -> trapezoid
    | id _BACKSLASH text _SLASH_END -> inv_trapezoid
    | id _SLASH text _SLASH_END -> lean_right
    | id _BACKSLASH text _BACKSLASH_END -> lean_left

link: _arrow | _arrow _arrow_text | _arrow _arrow_text SPACE
    | LINK_START edge_text LINK
    | EDGE_ID LINK_START edge_text LINK
_arrow: LINK | EDGE_ID LINK
_arrow_text: _PIPE text _PIPE

text: (_text_word | STRING) _text_word*
_text_word: TEXT | LESS | GREATER | LETTERS
edge_text: (EDGE_TEXT | STRING) EDGE_TEXT*
title: (_title_word | STRING) _title_word*
_title_word: NUMBER | NAME | SPACE | MINUS | AMPERSAND | LETTERS | COLON | STAR | HASH | LINK_START
    | STYLE | LINK_STYLE | CLASS_DEF | CLASS | CLICK | GRAPH | SUBGRAPH | END | V | CARET

id: _id_word+
_id_word: NUMBER | NAME | V | MINUS | DEFAULT | COMMA | COLON | AMPERSAND | HASH | STAR | LETTERS
name: (NUMBER | LETTERS | NAME | V | MINUS | COMMA | COLON | AMPERSAND | HASH | STAR)+

style: STYLE SPACE id SPACE _styles
class_def: CLASS_DEF SPACE id SPACE _styles
class_of: CLASS SPACE id SPACE id
_styles: _style+ (COMMA _style+)*
_style: NUMBER | NAME | COLON | SPACE | HASH | STYLE

link_style: LINK_STYLE SPACE (DEFAULT | numbers) SPACE _styles
    | LINK_STYLE SPACE (DEFAULT | numbers) SPACE INTERPOLATE SPACE name
    | LINK_STYLE SPACE (DEFAULT | numbers) SPACE INTERPOLATE SPACE name SPACE _styles
numbers: NUMBER (COMMA NUMBER)*

click: CLICK CALLBACK [ARGUMENTS] [SPACE STRING]
    | CLICK name [SPACE STRING]
    | CLICK [HREF] STRING [SPACE STRING] [SPACE LINK_TARGET]

spaces: SPACE+
space: SPACE

%declare GRAPH NO_DIRECTION DIRECTION _SEMICOLON _LINE_BREAK _END_OF_TEXT SPACE
%declare SUBGRAPH END DIRECTION_TB DIRECTION_BT DIRECTION_RL DIRECTION_LR DIRECTION_TD NOTE
%declare NUMBER NAME LETTERS V MINUS DEFAULT COMMA COLON AMPERSAND HASH STAR CARET BAR LESS GREATER
%declare ATTRIBUTES ATTRIBUTE_TEXT TEXT EDGE_TEXT STRING LINK LINK_START EDGE_ID
%declare _CLASSES _PROPERTIES _PIPE _SQUARE _SQUARE_END _ROUND _ROUND_END _BRACE _BRACE_END
%declare _DOUBLECIRCLE _DOUBLECIRCLE_END _ELLIPSE _ELLIPSE_END _STADIUM _STADIUM_END
%declare _SUBROUTINE _SUBROUTINE_END _CYLINDER _CYLINDER_END _SLASH _SLASH_END _BACKSLASH _BACKSLASH_END
%declare STYLE CLASS_DEF CLASS LINK_STYLE INTERPOLATE CLICK CALLBACK ARGUMENTS HREF LINK_TARGET
"""

_RESERVED = frozenset(
    ["GRAPH", "SUBGRAPH", "STYLE", "LINK_STYLE", "CLASS_DEF", "CLASS", "INTERPOLATE", "HREF", "LINK_TARGET"]
)


class _Adapter(LarkLexer):
    """Hands our tokens to lark, which calls the lexer itself."""

    def __init__(self, conf: object) -> None:
        del conf

    def lex(self, source: DiagramSource) -> Iterator[Token]:  # type: ignore[override]
        return Lexer(source).read_tokens()


def parse(source: DiagramSource) -> Tree[Token]:
    """Return the tree of a diagram. Raises MermaidError with the place of
    the first token that does not fit.
    """
    try:
        return _build_parser().parse(source)
    except UnexpectedToken as error:
        message, offset = _describe_fault(error, source)
        raise MermaidError(message, *source.locate_offset(offset)) from None


@cache
def _build_parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer=_Adapter, maybe_placeholders=False)


def _describe_fault(error: UnexpectedToken, source: DiagramSource) -> tuple[str, int]:
    """Return the error message for an unexpected token, and its offset."""
    token = error.token
    offset = token.start_pos or 0
    shown = str(token).strip()[:40].replace(ENTITY_OPEN, "#").replace(ENTITY_CLOSE, ";")
    if set(error.expected) == {"GRAPH"}:
        return "a flowchart must begin with `graph` or `flowchart`", offset
    if token.type == "$END":
        return "missing `end` of this subgraph", _find_open_subgraph(source)
    if token.type == "_END_OF_TEXT":
        return "unexpected end of the diagram", len(source.text.rstrip(BLANKS))
    if token.type == "_LINE_BREAK":
        return "unexpected end of line", offset
    if token.type == "END":
        return "unexpected `end`: no subgraph is open, and `end` can't be an id", offset
    if token.type in _RESERVED:
        return f"`{shown}` is a reserved word and can't be an id", offset
    if source.text.startswith("->", offset):
        return "unexpected `->`: an arrow is `-->`", offset
    if any(name.endswith("_END") for name in error.expected):
        return (
            f'unexpected `{shown}` in a label: close the label before it, or quote its text, as in ["a (b)"]',
            offset,
        )
    return f"unexpected `{shown or str(token)[:40]}`", offset


def _find_open_subgraph(source: DiagramSource) -> int:
    """Return where the innermost subgraph that is not closed begins."""
    opened = [0]
    for token in Lexer(source).read_tokens():
        if token.type == "SUBGRAPH":
            opened.append(token.start_pos or 0)
        elif token.type == "END" and len(opened) > 1:
            opened.pop()
    return opened[-1]
