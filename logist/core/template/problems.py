"""The problems of a template that can be found without data."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from logist.core.template.actions import find_unclosed
from logist.core.template.parsing import parse_template
from logist.core.template.tree import ActionPlace, If, Look, Name, Node, Range, TemplateError, Unknown
from logist.core.text.problem import WorkflowProblem

MAX_PROBLEMS = 100
"""The maximum number of problems of one kind in one template."""


def find_template_problems(text: str, known_roots: Collection[str]) -> list[WorkflowProblem]:
    """Return the problems of a template that can be found without data, each with line and column.

    An invalid block or action is an error; an unknown first name is a warning.
    """
    try:
        nodes = parse_template(text)
    except TemplateError as error:
        return [WorkflowProblem("error", "template", error.message, line=error.line, column=error.column)]
    all_problems = [*islice(_check_nodes(nodes, known_roots, inside=False), MAX_PROBLEMS)]
    all_problems += [
        WorkflowProblem(
            "warning",
            "template",
            "`{{` is not closed: left unchanged",
            line=place.line,
            column=place.column,
        )
        for place in islice(find_unclosed(text), MAX_PROBLEMS)
    ]
    return sorted(all_problems, key=lambda problem: (problem.line or 0, problem.column or 0))


def _check_nodes(nodes: Iterable[Node], known: Collection[str], *, inside: bool) -> Iterator[WorkflowProblem]:
    """Yield the problems of the nodes; `inside` a range, a name may be a field of the item."""
    for node in nodes:
        match node:
            case Look():
                yield from _check_name(node.name, node.place, known, inside=inside)
            case Unknown():
                yield WorkflowProblem(
                    "error", "unknown_action", node.message, line=node.place.line, column=node.place.column
                )
            case If():
                for branch in node.branches:
                    for operand in (branch.holds.left, branch.holds.right):
                        yield from _check_name(operand, branch.place, known, inside=inside)
                    yield from _check_nodes(branch.body, known, inside=inside)
                yield from _check_nodes(node.otherwise, known, inside=inside)
            case Range():
                yield from _check_name(node.name, node.place, known, inside=inside)
                yield from _check_nodes(node.body, known, inside=True)
                yield from _check_nodes(node.otherwise, known, inside=inside)


def _check_name(
    operand: object, place: ActionPlace, known: Collection[str], *, inside: bool
) -> Iterator[WorkflowProblem]:
    if not isinstance(operand, Name) or (inside and not operand.from_root):
        return
    path = operand.path[1:] if operand.from_root else operand.path
    if not path or path[0] in known:
        return
    root = str(path[0])
    near = difflib.get_close_matches(root, [*known], n=1)
    fix = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(sorted(known))}"
    message = f"unknown name `{root[:40]}` in `{place.written[:80]}`"
    yield WorkflowProblem("warning", "unknown_name", message, line=place.line, column=place.column, fix=fix)
