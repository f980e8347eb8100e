"""Builds the functions that evaluate an expression: one for each node of its tree, from the data to a value.

A node is used as a test (`build_test`), as a value (`build_value`) or as part of a calculation
(`build_term`). A node that can't be evaluated with any data is an error while building; the functions that
are built raise only Unusable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from logist.core.condition import tree, values
from logist.core.condition.fault import ConditionError, Unusable
from logist.core.text import paths

Lookup: TypeAlias = Callable[[Any, paths.Path], Any]
"""(data, path) -> the value at the path, or MISSING."""
Evaluate: TypeAlias = Callable[[Any], Any]
"""data -> a value; raises Unusable."""
Test: TypeAlias = Callable[[Any], bool]
"""data -> whether the condition matches; raises Unusable."""

MAX_READS = 1_000
"""How often one condition may read from the data. Limits the time of an evaluation and the size of its record."""

_YES_OR_NO = tree.ComparisonNode | tree.MembershipNode | tree.CallNode | tree.NotNode


class DataReader:
    """Reads the data for a condition, and collects every path that it reads."""

    def __init__(self, *, javascript: bool = True) -> None:
        self.javascript = javascript
        self.lookup: Lookup = paths.lookup if javascript else values.lookup_of_earlier_versions
        self.paths: dict[paths.Path, None] = {}
        """In the order in which the condition names them."""
        self._reads = 0

    def add_path(self, path: paths.Path) -> None:
        """Record that the condition reads this path. Raises ConditionError if it reads too many values."""
        self._reads += 1
        if self._reads > MAX_READS:
            raise ConditionError(f"the condition reads too many values: at most {MAX_READS:,} are allowed")
        self.paths[path] = None

    def build_read(self, path: paths.Path, convert: Callable[[Any], Any]) -> Evaluate:
        """Return a function that reads the value at a path and converts it; it raises Unusable for a missing value."""
        self.add_path(path)
        lookup = self.lookup

        def evaluate(data: Any) -> Any:
            value = lookup(data, path)
            if value is paths.MISSING:
                raise Unusable(f"`{name_path(path)}` is missing")
            try:
                return convert(value)
            except Unusable as fault:
                raise Unusable(f"`{name_path(path)}` {fault}") from None

        return evaluate

    def build_null_test(self, path: paths.Path) -> Test:
        """Return a test whether the value is null or missing."""
        self.add_path(path)
        lookup = self.lookup
        return lambda data: lookup(data, path) in (None, paths.MISSING)

    def build_truth_test(self, path: paths.Path) -> Test:
        """Return a test whether the value counts as true; a missing value does not."""
        self.add_path(path)
        lookup = self.lookup
        return lambda data: values.is_truthy(lookup(data, path))


def build_test(node: tree.Node, reader: DataReader) -> Test:
    """Return a test whether the node is true. Raises ConditionError for a node that is neither true nor false."""
    match node:
        case tree.PathNode():
            return reader.build_read(node.path, values.is_truthy)
        case tree.ConstantNode(value=bool() as constant):
            return lambda data: constant
        case tree.NotNode():
            return negate_test(build_test(node.node, reader))
        case tree.LogicNode():
            return join_tests(node.sign, [build_test(part, reader) for part in node.nodes])
        case tree.ChoiceNode():
            return _build_choice(node, build_test, reader)
        case tree.ComparisonNode():
            return _build_comparison(node, reader)
        case tree.MembershipNode():
            item, holder = build_value(node.item, reader), build_value(node.holder, reader)
            return lambda data: values.is_member(item(data), holder(data))
        case tree.CallNode():
            return _build_call(node, reader)
    raise ConditionError(
        f"{_describe_node(node)} is neither true nor false: compare it, as in `... > 0`", node.column
    )


def build_value(node: tree.Node, reader: DataReader) -> Evaluate:
    """Return a function that computes the value of the node."""
    match node:
        case tree.PathNode():
            return reader.build_read(node.path, values.to_plain)
        case tree.ConstantNode():
            constant = _check_text(node)
            return lambda data: constant
        case tree.ListNode():
            items = [build_value(item, reader) for item in node.items]
            return lambda data: [item(data) for item in items]
        case tree.NegativeNode():
            number = build_term(node.node, reader)
            _refuse_lists(node.column, node.node)
            return lambda data: values.calculate_result("-", -0.0, number(data))
        case tree.ArithmeticNode():
            return _build_arithmetic(node, reader)
        case tree.ChoiceNode():
            return _build_choice(node, build_value, reader)
        case tree.LogicNode():
            return _build_default(node, reader)
    return build_test(node, reader)


def build_term(node: tree.Node, reader: DataReader) -> Evaluate:
    """Return a function that computes the value of the node, for use in a calculation."""
    if isinstance(node, tree.PathNode):
        return reader.build_read(node.path, values.to_term)
    constant = isinstance(node, tree.ConstantNode) and (node.value is None or isinstance(node.value, bool))
    if constant or isinstance(node, tree.ListNode | _YES_OR_NO):
        raise ConditionError("can't calculate with this value: expected a number or text", node.column)
    return build_value(node, reader)


def negate_test(test: Test) -> Test:
    """Return a test that is true if the given one is false."""
    return lambda data: not test(data)


def join_tests(sign: Literal["&&", "||"], tests: Sequence[Test]) -> Test:
    """Return a test that is true if all of the tests are true (`&&`), or any of them (`||`).

    One test that decides the result is enough: then it doesn't matter if another test is Unusable, even an
    earlier one.
    """
    if len(tests) == 1:
        return tests[0]
    decisive = sign == "||"

    def test_together(data: Any) -> bool:
        first_fault: Unusable | None = None
        for test in tests:
            try:
                if test(data) is decisive:
                    return decisive
            except Unusable as fault:
                first_fault = first_fault or fault
        if first_fault is not None:
            raise first_fault
        return not decisive

    return test_together


def _build_choice(
    node: tree.ChoiceNode, build: Callable[[tree.Node, DataReader], Evaluate], reader: DataReader
) -> Evaluate:
    condition = build_test(node.condition, reader)
    yes, no = build(node.yes, reader), build(node.no, reader)
    return lambda data: yes(data) if condition(data) else no(data)


def _build_comparison(node: tree.ComparisonNode, reader: DataReader) -> Test:
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if not isinstance(other, tree.ConstantNode) or other.value is not None:
            continue
        if node.sign not in ("==", "!="):
            raise ConditionError("can't order null: compare it with `==` or `!=`", node.column)
        if isinstance(one, tree.PathNode):
            is_null = reader.build_null_test(one.path)
            return is_null if node.sign == "==" else negate_test(is_null)
    if node.sign not in ("==", "!="):
        return _build_order(node, reader)
    left, right = build_value(node.left, reader), build_value(node.right, reader)
    if node.sign == "==":
        return lambda data: values.is_equal(left(data), right(data))
    return lambda data: not values.is_equal(left(data), right(data))


def _build_order(node: tree.ComparisonNode, reader: DataReader) -> Test:
    """Return a test for `<`, `<=`, `>` or `>=`.

    Paths and constants are converted as in JavaScript. Calculated values must have the same type; by the rules
    of earlier versions, all values must.
    """
    sign = node.sign
    if reader.javascript and _is_operand(node.left) and _is_operand(node.right):
        left, right = _build_operand(node.left, reader), _build_operand(node.right, reader)
        return lambda data: values.is_ordered_in_javascript(sign, left(data), right(data))
    left, right = build_value(node.left, reader), build_value(node.right, reader)
    _refuse_lists(node.column, node.left, node.right)
    return lambda data: values.is_ordered(sign, left(data), right(data))


def _is_operand(node: tree.Node) -> bool:
    """Whether the node is a path or a constant, with or without a minus."""
    constant = node.node if isinstance(node, tree.NegativeNode) else node
    return isinstance(node, tree.PathNode) or isinstance(constant, tree.ConstantNode)


def _build_operand(node: tree.Node, reader: DataReader) -> Evaluate:
    if isinstance(node, tree.PathNode):
        return reader.build_read(node.path, values.to_primitive)
    if isinstance(node, tree.NegativeNode):
        assert isinstance(node.node, tree.ConstantNode)
        number = -values.to_number(_check_text(node.node))
        return lambda data: number
    return build_value(node, reader)


def _build_call(node: tree.CallNode, reader: DataReader) -> Test:
    argument, function, holder = build_value(node.argument, reader), node.function, node.holder
    if isinstance(holder, tree.ListNode) and function == "includes":
        items = build_value(holder, reader)
        return lambda data: values.is_member(argument(data), items(data))
    is_text = isinstance(holder, tree.ConstantNode) and isinstance(holder.value, str)
    if not is_text and not isinstance(holder, tree.PathNode):
        raise ConditionError(f"`.{function}(...)` needs a path, a list or text before it", node.column)
    value = build_value(holder, reader)
    _refuse_lists(node.column, node.argument)
    return lambda data: values.call_function(function, value(data), argument(data))


def _build_arithmetic(node: tree.ArithmeticNode, reader: DataReader) -> Evaluate:
    first = build_term(node.first, reader)
    rest = [(sign, build_term(part, reader)) for sign, part in node.rest]
    if any(sign != "+" for sign, _ in rest):
        _refuse_lists(node.column, node)

    def evaluate(data: Any) -> Any:
        result = first(data)
        for sign, term in rest:
            result = values.calculate_result(sign, result, term(data))
        return result

    return evaluate


def _build_default(node: tree.LogicNode, reader: DataReader) -> Evaluate:
    """Build `output.score || 0`: the first value that counts as true, else the last one."""
    if all(isinstance(part, _YES_OR_NO) for part in node.nodes):
        return build_test(node, reader)
    *first, last = node.nodes
    if node.sign == "&&" or not all(isinstance(part, tree.PathNode) for part in first):
        raise ConditionError(f"`{node.sign}` can only combine values that are true or false", node.column)
    candidates = [
        (reader.build_truth_test(part.path), build_value(part, reader))
        for part in first
        if isinstance(part, tree.PathNode)
    ]
    default = build_value(last, reader)

    def evaluate(data: Any) -> Any:
        for is_truthy, value in candidates:
            if is_truthy(data):
                return value(data)
        return default(data)

    return evaluate


def _refuse_lists(column: int, *nodes: tree.Node) -> None:
    if any(map(_is_list, nodes)):
        raise ConditionError("can't compare or calculate with a list here", column)


def _is_list(node: tree.Node) -> bool:
    """Whether the node is a list for any data."""
    match node:
        case tree.ListNode():
            return True
        case tree.ChoiceNode():
            return _is_list(node.yes) and _is_list(node.no)
        case tree.ArithmeticNode():
            return _is_list(node.first) or any(_is_list(part) for _, part in node.rest)
    return False


def _check_text(node: tree.ConstantNode) -> str | float | bool | None:
    if isinstance(node.value, str) and any("\ud800" <= letter <= "\udfff" for letter in node.value):
        raise ConditionError("the text is not valid Unicode", node.column)
    return node.value


def _describe_node(node: tree.Node) -> str:
    if isinstance(node, tree.ConstantNode):
        return "null" if node.value is None else "a text" if isinstance(node.value, str) else "a number"
    return "a list" if isinstance(node, tree.ListNode) else "a number"


def name_path(path: paths.Path) -> str:
    """Format a path for a message; a very long one is cut."""
    return paths.path_to_text(path)[:200]
