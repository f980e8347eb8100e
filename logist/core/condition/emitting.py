"""From the tree of an expression to CEL: JavaScript's truth and its numbers, CEL's way with errors.

An expression stands either where a yes or no is wanted (`truth`), where a value is (`value`), or where it is
calculated with (`term`); every path and constant becomes a name, so no text of an author ever enters a program.
"""

from __future__ import annotations

from collections.abc import Callable

from logist.core.condition import cel, tree, values
from logist.core.condition.fault import ConditionError
from logist.core.condition.slots import Operand, Slots

_YES_OR_NO = tree.Comparison | tree.Member | tree.Call | tree.Not


def truth(node: tree.Node, slots: Slots) -> str:
    """CEL for whether it holds. ConditionError for what is no yes or no."""
    match node:
        case tree.Read():
            return slots.truth(node.path)
        case tree.Constant(value=bool()):
            return "true" if node.value else "false"
        case tree.Not():
            return f"!{_group(truth(node.node, slots))}"
        case tree.Logic():
            return _bounded(f" {node.sign} ".join(_group(truth(part, slots)) for part in node.nodes))
        case tree.Choice():
            return _choice(node, truth, slots)
        case tree.Comparison():
            return _comparison(node, slots)
        case tree.Member():
            return _bounded(f"{_group(value(node.item, slots))} in {_group(value(node.holder, slots))}")
        case tree.Call():
            return _call(node, slots)
    raise ConditionError(f"{_word(node)} is no yes or no: compare it, as in `... > 0`", node.column)


def value(node: tree.Node, slots: Slots) -> str:
    """CEL for what it is."""
    match node:
        case tree.Read():
            return slots.value(node.path)
        case tree.Constant(value=bool()):
            return f"dyn({truth(node, slots)})"
        case tree.Constant():
            return slots.constant(_clean(node))
        case tree.Items():
            return _bounded(f"[{', '.join(value(item, slots) for item in node.items)}]")
        case tree.Negative():
            return f"-{_group(term(node.node, slots))}"
        case tree.Arithmetic():
            return _arithmetic(node, slots)
        case tree.Choice():
            return _choice(node, value, slots)
        case tree.Logic():
            return _either(node, slots)
    return f"dyn({truth(node, slots)})"


def _choice(node: tree.Choice, use: Callable[[tree.Node, Slots], str], slots: Slots) -> str:
    parts = [truth(node.condition, slots), use(node.yes, slots), use(node.no, slots)]
    return _bounded("{} ? {} : {}".format(*map(_group, parts)))


def term(node: tree.Node, slots: Slots) -> str:
    """CEL for what can be calculated with."""
    if isinstance(node, tree.Read):
        return slots.term(node.path)
    constant = isinstance(node, tree.Constant) and (node.value is None or isinstance(node.value, bool))
    if constant or isinstance(node, tree.Items | _YES_OR_NO):
        raise ConditionError("only numbers and texts are calculated with", node.column)
    return value(node, slots)


def _comparison(node: tree.Comparison, slots: Slots) -> str:
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if not isinstance(other, tree.Constant) or other.value is not None:
            continue
        if node.sign not in ("==", "!="):
            raise ConditionError("null is neither more nor less than anything", node.column)
        if isinstance(one, tree.Read):
            return slots.nothing(one.path) if node.sign == "==" else f"!{slots.nothing(one.path)}"
    sides = (node.left, node.right)
    if slots.javascript and node.sign not in ("==", "!=") and all(map(_is_operand, sides)):
        return slots.ordered(node.sign, *map(_operand, sides))
    left, right = value(node.left, slots), value(node.right, slots)
    return _bounded(f"{_group(left)} {node.sign} {_group(right)}")


def _is_operand(node: tree.Node) -> bool:
    """Whether a side of an order is a path or a constant: what is calculated has its kind from CEL."""
    constant = node.node if isinstance(node, tree.Negative) else node
    return isinstance(node, tree.Read | tree.Constant) or isinstance(constant, tree.Constant)


def _operand(node: tree.Node) -> Operand:
    if isinstance(node, tree.Read):
        return node.path
    if isinstance(node, tree.Negative):
        return -values.to_number(_operand(node.node))
    assert isinstance(node, tree.Constant)
    return _clean(node)


def _call(node: tree.Call, slots: Slots) -> str:
    argument = _group(value(node.argument, slots))
    holder = node.holder
    if isinstance(holder, tree.Items) and node.function == "includes":
        return _bounded(f"{argument} in {value(holder, slots)}")
    if not isinstance(holder, tree.Read) and not (
        isinstance(holder, tree.Constant) and isinstance(holder.value, str)
    ):
        raise ConditionError(
            f"`.{node.function}(...)` is a function of a path, a list or a text", node.column
        )
    name = value(holder, slots)
    if node.function != "includes":
        return _bounded(f"{name}.{node.function}({argument})")
    return _bounded(f"type({name}) == list ? {argument} in {name} : {name}.contains({argument})")


def _arithmetic(node: tree.Arithmetic, slots: Slots) -> str:
    text = _group(term(node.first, slots))
    for sign, part in node.rest:
        other = _group(term(part, slots))
        if sign == "%":  # CEL has it for whole numbers only
            text = _bounded(f"({text} - {other} * double(int({text} / {other})))")
        else:
            text = _bounded(f"{text} {sign} {other}")
    return text


def _either(node: tree.Logic, slots: Slots) -> str:
    """`output.score || 0` is the first of them that counts as true, else the last."""
    if all(isinstance(part, _YES_OR_NO) for part in node.nodes):
        return f"dyn({truth(node, slots)})"
    *first, last = node.nodes
    if node.sign == "&&" or not all(isinstance(part, tree.Read) for part in first):
        raise ConditionError(f"`{node.sign}` joins what is true or false", node.column)
    found = [
        (slots.given(part.path), slots.value(part.path)) for part in first if isinstance(part, tree.Read)
    ]
    text = value(last, slots)
    for given, there in reversed(found):
        text = _bounded(f"{given} ? {there} : {_group(text)}")
    return text


def _group(text: str) -> str:
    """In brackets, unless it is one name or true or false: CEL allows few brackets within each other."""
    return text if text.isalnum() or text in ("dyn(true)", "dyn(false)") else f"({text})"


def _bounded(text: str) -> str:
    if len(text) > cel.MAX_CHARACTERS:
        raise ConditionError("the condition is too long: take it apart into several decisions")
    return text


def _clean(node: tree.Constant) -> str | float | bool | None:
    if isinstance(node.value, str) and any("\ud800" <= letter <= "\udfff" for letter in node.value):
        raise ConditionError("the text is not valid Unicode", node.column)
    return node.value


def _word(node: tree.Node) -> str:
    if isinstance(node, tree.Constant):
        return "null" if node.value is None else "a text" if isinstance(node.value, str) else "a number"
    return "a list" if isinstance(node, tree.Items) else "a number"
