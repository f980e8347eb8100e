"""Which values a template reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from logist.core.template.parsing import parse_template
from logist.core.template.tree import If, Look, Name, Node, Range
from logist.core.text import paths


def list_names(text: str, *, inserted: bool = False) -> frozenset[str]:
    """Return the first names of all paths in a template; with `inserted`, without those that are only in conditions and
    ranges. Raises TemplateError.

    The names of fields of items, in a `range`, are among them.
    """
    names = _iter_names(parse_template(text), inserted=inserted)
    return frozenset(str(path[0]) for path in map(_get_path, names) if path)


def find_only_path(text: str) -> paths.Path | None:
    """Return the path of a template that is nothing but one placeholder; None for any other. Raises TemplateError."""
    nodes = tuple(parse_template(text))
    return _get_path(nodes[0].name) if len(nodes) == 1 and isinstance(nodes[0], Look) else None


def _get_path(name: Name) -> paths.Path:
    return name.path[1:] if name.from_root else name.path


def _iter_names(nodes: Iterable[Node], *, inserted: bool) -> Iterator[Name]:
    for node in nodes:
        match node:
            case Look():
                yield node.name
            case If():
                for branch in node.branches:
                    operands = () if inserted else (branch.holds.left, branch.holds.right)
                    yield from (operand for operand in operands if isinstance(operand, Name))
                    yield from _iter_names(branch.body, inserted=inserted)
                yield from _iter_names(node.otherwise, inserted=inserted)
            case Range():
                if not inserted:
                    yield node.name
                    yield from _iter_names(node.body, inserted=inserted)
                yield from _iter_names(node.otherwise, inserted=inserted)
