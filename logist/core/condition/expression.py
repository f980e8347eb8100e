"""Parse an expression: JavaScript's operators and precedence, and the small part of the language that a branch
needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal, cast

from logist.core.condition import tree
from logist.core.condition.fault import ConditionError
from logist.core.condition.lexer import Token, split_tokens
from logist.core.text import paths

MAX_DEPTH = 20
"""Levels of nested brackets, signs and choices."""
MAX_TERMS = 20
"""Terms of one sum or product."""

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


def parse_expression(text: str, root_fault: Callable[[paths.Path], str | None]) -> tree.Node:
    """Return the tree of an expression. Raises ConditionError, with the column, for a syntax error.

    `root_fault` returns the problem with the first name of a path, or None.
    """
    return _Parser(list(split_tokens(text)), root_fault).parse_all()


class _Parser:
    """A recursive-descent parser with one method for each level of precedence, the weakest first."""

    def __init__(self, words: list[Token], root_fault: Callable[[paths.Path], str | None]) -> None:
        self._words = words
        self._root_fault = root_fault
        self._here = 0
        self._depth = 0

    def parse_all(self) -> tree.Node:
        node = self._parse_choice()
        if self._next.kind != "end":
            raise self._make_error()
        return node

    @property
    def _next(self) -> Token:
        return self._words[self._here]

    def _take_token(self) -> Token:
        token = self._next
        self._here += 1
        return token

    def _is_at(self, signs: Collection[str]) -> bool:
        return self._next.kind == "sign" and self._next.text in signs

    def _expect_sign(self, sign: str) -> None:
        if not self._is_at((sign,)):
            raise self._make_error(f"missing `{sign}`")
        self._here += 1

    def _make_error(self, wanted: str = "") -> ConditionError:
        token = self._next
        if token.kind == "end":
            return ConditionError(wanted or "the expression is incomplete: missing value", token.column)
        if token.kind == "path" and token.text in _WORDS:
            return ConditionError(f"write `{_WORDS[token.text]}` instead of `{token.text}`", token.column)
        if token.kind == "sign" and token.text == "[":
            return ConditionError(
                "an index must be a number from 0 or a key in quotes, as in `files[0]`", token.column
            )
        return ConditionError(wanted or f"unexpected `{token.text[:40]}`", token.column)

    def _enter_level(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ConditionError(
                f"the expression is nested too deeply: at most {MAX_DEPTH} levels", self._next.column
            )

    def _parse_choice(self) -> tree.Node:
        self._enter_level()
        node = self._parse_logic("||", self._parse_all_of)
        if self._is_at("?"):
            column = self._take_token().column
            yes = self._parse_choice()
            self._expect_sign(":")
            node = tree.ChoiceNode(node, yes, self._parse_choice(), column)
        self._depth -= 1
        return node

    def _parse_all_of(self) -> tree.Node:
        return self._parse_logic("&&", self._parse_comparison)

    def _parse_logic(self, sign: Literal["&&", "||"], part: Callable[[], tree.Node]) -> tree.Node:
        column = self._next.column
        nodes = [part()]
        while self._is_at((sign,)):
            self._here += 1
            nodes.append(part())
        return nodes[0] if len(nodes) == 1 else tree.LogicNode(sign, tuple(nodes), column)

    def _parse_comparison(self) -> tree.Node:
        left = self._parse_sum()
        token = self._next
        node = left
        if self._is_at(_COMPARISONS):
            self._here += 1
            sign = cast(tree.ComparisonSign, _SIGNS.get(token.text, token.text))
            node = tree.ComparisonNode(sign, left, self._parse_sum(), token.column)
        elif token.kind == "path" and token.text == _IN:
            self._here += 1
            node = tree.MembershipNode(left, self._parse_sum(), token.column)
        if node is not left and (
            self._is_at(_COMPARISONS) or (self._next.text == _IN and self._next.kind == "path")
        ):
            raise ConditionError(
                "can't chain comparisons: join them with `&&`, or use parentheses", self._next.column
            )
        return node

    def _parse_sum(self) -> tree.Node:
        return self._parse_arithmetic("+-", self._parse_product)

    def _parse_product(self) -> tree.Node:
        return self._parse_arithmetic("*/%", self._parse_signed)

    def _parse_arithmetic(self, signs: str, part: Callable[[], tree.Node]) -> tree.Node:
        first = part()
        rest: list[tuple[str, tree.Node]] = []
        column = self._next.column
        while self._is_at(signs):
            sign = self._take_token()
            if len(rest) + 2 > MAX_TERMS:
                raise ConditionError(f"too many terms: at most {MAX_TERMS}", sign.column)
            rest.append((sign.text, part()))
        return tree.ArithmeticNode(first, tuple(rest), column) if rest else first

    def _parse_signed(self) -> tree.Node:
        if not self._is_at("!-+"):
            return self._parse_method(self._parse_primary())
        self._enter_level()
        sign = self._take_token()
        node = self._parse_signed()
        self._depth -= 1
        if sign.text == "!":
            return tree.NotNode(node, sign.column)
        if sign.text == "-":
            return tree.NegativeNode(node, sign.column)
        return node

    def _parse_primary(self) -> tree.Node:
        token = self._next
        if token.kind == "number":
            return tree.ConstantNode(self._take_token().number, token.column)
        if token.kind == "text":
            return tree.ConstantNode(self._take_token().text, token.column)
        if token.kind == "path" and token.text != _IN:
            return self._parse_path(self._take_token())
        if self._is_at("("):
            self._here += 1
            node = self._parse_choice()
            self._expect_sign(")")
            return node
        if self._is_at("["):
            return tree.ListNode(tuple(self._parse_items()), token.column)
        if self._is_at(_COMPARISONS) and self._here == 0:
            example = f"`output.score {token.text} ...`"
            raise ConditionError(
                f"missing value before `{token.text}`; write it as in {example}", token.column
            )
        raise self._make_error()

    def _parse_items(self) -> list[tree.Node]:
        self._here += 1
        items: list[tree.Node] = []
        while not self._is_at("]"):
            items.append(self._parse_choice())
            if not self._is_at("]"):
                self._expect_sign(",")
        self._here += 1
        return items

    def _parse_path(self, token: Token) -> tree.Node:
        """Parse a path, or a function called on a path: `output.tags.includes(...)`."""
        if token.path in _CONSTANTS and not token.text.startswith("."):
            return tree.ConstantNode(_CONSTANTS[token.path], token.column)
        *holder, name = token.path
        if not self._is_at("("):
            return self._make_path_node(token.path, token.column)
        function = self._find_function(str(name), token.column, bare=not holder)
        return self._parse_call(function, self._make_path_node(tuple(holder), token.column), token.column)

    def _make_path_node(self, path: paths.Path, column: int) -> tree.Node:
        if fault := self._root_fault(path):
            raise ConditionError(fault, column)
        return tree.PathNode(path, column)

    def _parse_method(self, node: tree.Node) -> tree.Node:
        """Parse a function called on something other than a path: `['a', 'b'].includes(...)`."""
        token = self._next
        if token.kind != "path" or not token.text.startswith("."):
            return node
        self._here += 1
        if len(token.path) != 1 or not self._is_at("("):
            raise ConditionError("only a path can have fields", token.column)
        return self._parse_call(
            self._find_function(str(token.path[0]), token.column, bare=False), node, token.column
        )

    def _find_function(self, name: str, column: int, *, bare: bool) -> tree.Function:
        if bare or name not in FUNCTIONS:
            known = ", ".join(f".{name}(...)" for name in FUNCTIONS)
            raise ConditionError(f"unknown function `{name}`; known: {known}", column)
        return cast(tree.Function, FUNCTIONS[name])

    def _parse_call(self, function: tree.Function, holder: tree.Node, column: int) -> tree.Node:
        self._expect_sign("(")
        argument = self._parse_choice()
        self._expect_sign(")")
        return tree.CallNode(function, holder, argument, column)
