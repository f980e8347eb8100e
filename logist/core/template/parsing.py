"""Parse the text of a template into its tree."""

from __future__ import annotations

from dataclasses import field

from logist.core.template.actions import TemplateAction, split_pieces
from logist.core.template.tree import ActionPlace, Branch, If, Look, Name, Node, Range, TemplateError, Unknown
from logist.quick_dataclass import dataclass

MAX_DEPTH = 20
"""The maximum nesting of blocks."""


@dataclass
class _Block:
    """An `if` or `range` that waits for its `end`."""

    action: TemplateAction
    branches: list[tuple[TemplateAction, list[Node]]] = field(default_factory=list)
    """The branches, each with its body, before an `else`."""
    otherwise: list[Node] | None = None

    @property
    def body(self) -> list[Node]:
        return self.branches[-1][1] if self.otherwise is None else self.otherwise

    def make_node(self) -> If | Range:
        otherwise = tuple(self.otherwise or ())
        if self.action.keyword == "range":
            assert self.action.name is not None
            return Range(self.action.name, tuple(self.branches[0][1]), otherwise, self.action.place)
        branches = [
            Branch(action.holds, tuple(body), action.place)
            for action, body in self.branches
            if action.holds is not None
        ]
        return If(tuple(branches), otherwise)


def parse_template(text: str) -> tuple[Node, ...]:
    """Return the tree of a template. Raises TemplateError for unmatched blocks, and for a template that is too long or
    too deeply nested.
    """
    top: list[Node] = []
    blocks: list[_Block] = []
    for piece in split_pieces(text):
        body = blocks[-1].body if blocks else top
        if isinstance(piece, str):
            body.append(piece)
        elif piece.keyword == "unknown":
            body.append(Unknown(piece.message, piece.place))
        elif piece.keyword == "look":
            body.append(Look(_get_name(piece), piece.place))
        elif piece.keyword in ("if", "range"):
            _open_block(blocks, piece)
        elif not blocks:
            raise _make_error(f"`{piece.keyword}` without a matching `if` or `range`", piece.place)
        elif piece.keyword == "end":
            node = blocks.pop().make_node()
            (blocks[-1].body if blocks else top).append(node)
        else:
            _add_else(blocks[-1], piece)
    if blocks:
        raise _make_error(f"`{blocks[-1].action.keyword}` has no `end`", blocks[-1].action.place)
    return tuple(top)


def _get_name(action: TemplateAction) -> Name:
    assert action.name is not None
    return action.name


def _open_block(blocks: list[_Block], action: TemplateAction) -> None:
    if len(blocks) == MAX_DEPTH:
        raise _make_error(f"blocks are nested too deeply: at most {MAX_DEPTH} levels", action.place)
    blocks.append(_Block(action, [(action, [])]))


def _add_else(block: _Block, action: TemplateAction) -> None:
    if block.otherwise is not None:
        raise _make_error(f"unexpected `{action.keyword}` after `else`", action.place)
    if action.keyword == "else":
        block.otherwise = []
    elif block.action.keyword == "range":
        raise _make_error("`else if` is only allowed in an `if` block", action.place)
    else:
        block.branches.append((action, []))


def _make_error(message: str, place: ActionPlace) -> TemplateError:
    return TemplateError(message, place.line, place.column)
