"""Reads an expression: JavaScript's signs and precedence, and of its language only what a branch needs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal, cast

from logist.core import paths
from logist.core.condition import tree
from logist.core.condition.fault import ConditionError
from logist.core.condition.lexer import Token, tokens

MAX_DEPTH = 20
"""Brackets, signs and choices within each other."""
MAX_TERMS = 20
"""Of one sum or product."""

FUNCTIONS = {
    "includes": "includes",
    "contains": "includes",
    "startsWith": "startsWith",
    "endsWith": "endsWith",
}
_CONSTANTS: dict[paths.Path, bool | None] = {
    ("true",): True,
    ("false",): False,
    ("null",): None,
    ("undefined",): None,
}
_SIGNS = {"===": "==", "!==": "!="}
_COMPARISONS = ("===", "!==", "==", "!=", ">=", "<=", ">", "<")
_WORDS = {"and": "&&", "or": "||", "not": "!", "is": "===", "equals": "==="}
_IN = "in"


def parsed(text: str, root_fault: Callable[[paths.Path], str | None]) -> tree.Node:
    """The tree of an expression. ConditionError, with the column, for what is none.

    `root_fault` says what is wrong with the first name of a path, if anything is.
    """
    return _Reading(list(tokens(text)), root_fault).whole()


class _Reading:
    """A walk over the words of one expression, one method for each precedence, the weakest first."""

    def __init__(self, words: list[Token], root_fault: Callable[[paths.Path], str | None]) -> None:
        self._words = words
        self._root_fault = root_fault
        self._here = 0
        self._depth = 0

    def whole(self) -> tree.Node:
        node = self._choice()
        if self._next.kind != "end":
            raise self._unexpected()
        return node

    @property
    def _next(self) -> Token:
        return self._words[self._here]

    def _take(self) -> Token:
        token = self._next
        self._here += 1
        return token

    def _at(self, signs: Collection[str]) -> bool:
        return self._next.kind == "sign" and self._next.text in signs

    def _expect(self, sign: str) -> None:
        if not self._at((sign,)):
            raise self._unexpected(f"`{sign}` is missing")
        self._here += 1

    def _unexpected(self, wanted: str = "") -> ConditionError:
        token = self._next
        if token.kind == "end":
            return ConditionError(wanted or "the expression breaks off: a value is missing", token.column)
        if token.kind == "path" and token.text in _WORDS:
            return ConditionError(f"write `{_WORDS[token.text]}` for `{token.text}`", token.column)
        if token.kind == "sign" and token.text == "[":
            return ConditionError(
                "an index is a number from 0 or a key in quotes, as in `files[0]`", token.column
            )
        return ConditionError(wanted or f"`{token.text[:40]}` can't stand here", token.column)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ConditionError(
                f"the expression is nested too deep: at most {MAX_DEPTH} levels", self._next.column
            )

    def _choice(self) -> tree.Node:
        self._deeper()
        node = self._logic("||", self._all)
        if self._at("?"):
            column = self._take().column
            yes = self._choice()
            self._expect(":")
            node = tree.Choice(node, yes, self._choice(), column)
        self._depth -= 1
        return node

    def _all(self) -> tree.Node:
        return self._logic("&&", self._comparison)

    def _logic(self, sign: Literal["&&", "||"], part: Callable[[], tree.Node]) -> tree.Node:
        column = self._next.column
        nodes = [part()]
        while self._at((sign,)):
            self._here += 1
            nodes.append(part())
        return nodes[0] if len(nodes) == 1 else tree.Logic(sign, tuple(nodes), column)

    def _comparison(self) -> tree.Node:
        left = self._sum()
        token = self._next
        node = left
        if self._at(_COMPARISONS):
            self._here += 1
            sign = cast(tree.ComparisonSign, _SIGNS.get(token.text, token.text))
            node = tree.Comparison(sign, left, self._sum(), token.column)
        elif token.kind == "path" and token.text == _IN:
            self._here += 1
            node = tree.Member(left, self._sum(), token.column)
        if node is not left and (
            self._at(_COMPARISONS) or (self._next.text == _IN and self._next.kind == "path")
        ):
            raise ConditionError(
                "one comparison at a time: join two with `&&`, or use brackets", self._next.column
            )
        return node

    def _sum(self) -> tree.Node:
        return self._arithmetic("+-", self._product)

    def _product(self) -> tree.Node:
        return self._arithmetic("*/%", self._single)

    def _arithmetic(self, signs: str, part: Callable[[], tree.Node]) -> tree.Node:
        first = part()
        rest: list[tuple[str, tree.Node]] = []
        column = self._next.column
        while self._at(signs):
            sign = self._take()
            if len(rest) + 2 > MAX_TERMS:
                raise ConditionError(f"too many terms: at most {MAX_TERMS}", sign.column)
            rest.append((sign.text, part()))
        return tree.Arithmetic(first, tuple(rest), column) if rest else first

    def _single(self) -> tree.Node:
        if not self._at("!-+"):
            return self._called(self._primary())
        self._deeper()
        sign = self._take()
        node = self._single()
        self._depth -= 1
        if sign.text == "!":
            return tree.Not(node, sign.column)
        if sign.text == "-":
            return tree.Negative(node, sign.column)
        return node

    def _primary(self) -> tree.Node:
        token = self._next
        if token.kind == "number":
            return tree.Constant(self._take().number, token.column)
        if token.kind == "text":
            return tree.Constant(self._take().text, token.column)
        if token.kind == "path" and token.text != _IN:
            return self._path(self._take())
        if self._at("("):
            self._here += 1
            node = self._choice()
            self._expect(")")
            return node
        if self._at("["):
            return tree.Items(tuple(self._items()), token.column)
        if self._at(_COMPARISONS) and self._here == 0:
            example = f"`output.score {token.text} ...`"
            raise ConditionError(
                f"what is compared stands before `{token.text}`, as in {example}", token.column
            )
        raise self._unexpected()

    def _items(self) -> list[tree.Node]:
        self._here += 1
        items: list[tree.Node] = []
        while not self._at("]"):
            items.append(self._choice())
            if not self._at("]"):
                self._expect(",")
        self._here += 1
        return items

    def _path(self, token: Token) -> tree.Node:
        """A path, or a function of one: `output.tags.includes(...)`."""
        if token.path in _CONSTANTS and not token.text.startswith("."):
            return tree.Constant(_CONSTANTS[token.path], token.column)
        *holder, name = token.path
        if not self._at("("):
            return self._read(token.path, token.column)
        function = self._function(str(name), token.column, bare=not holder)
        return self._call(function, self._read(tuple(holder), token.column), token.column)

    def _read(self, path: paths.Path, column: int) -> tree.Node:
        if fault := self._root_fault(path):
            raise ConditionError(fault, column)
        return tree.Read(path, column)

    def _called(self, node: tree.Node) -> tree.Node:
        """A function of something that is no path: `['a', 'b'].includes(...)`."""
        token = self._next
        if token.kind != "path" or not token.text.startswith("."):
            return node
        self._here += 1
        if len(token.path) != 1 or not self._at("("):
            raise ConditionError("only a path has fields", token.column)
        return self._call(self._function(str(token.path[0]), token.column, bare=False), node, token.column)

    def _function(self, name: str, column: int, *, bare: bool) -> tree.Function:
        if bare or name not in FUNCTIONS:
            known = ", ".join(f".{name}(...)" for name in FUNCTIONS)
            raise ConditionError(f"unknown function `{name}`; known: {known}", column)
        return cast(tree.Function, FUNCTIONS[name])

    def _call(self, function: tree.Function, holder: tree.Node, column: int) -> tree.Node:
        self._expect("(")
        argument = self._choice()
        self._expect(")")
        return tree.Call(function, holder, argument, column)
