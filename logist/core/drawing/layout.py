"""Order the graph of steps for drawing: which step is drawn below which, and which edges are only references.

A step with one incoming edge is drawn below that edge. A step where several edges meet is drawn below the last
step that is on every path to it (its dominator), at the same depth. The longest branch of a decision is also
drawn at the same depth if it is long, and so is every branch if there is no room to indent further: a drawing
grows down, not to the right.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from logist.core.model import Edge, Workflow
from logist.quick_dataclass import dataclass

LONG = 6
"""A branch with at least this many steps is drawn at the depth of its decision."""


@dataclass
class Layout:
    """Where the steps of a workflow are drawn."""

    roots: list[str] = field(default_factory=list)
    """The start, then one step for each part that is not reachable from the start."""
    leaving: dict[str, list[Edge]] = field(default_factory=dict)
    back: set[int] = field(default_factory=set)
    """Edges (by `id`) that lead back to an earlier step on the same path."""
    below: dict[str, list[str]] = field(default_factory=dict)
    """The steps below each dominator, in drawing order."""
    size: dict[str, int] = field(default_factory=dict)
    """The number of steps below each step, including itself."""
    forward: set[int] = field(default_factory=set)
    """Edges (by `id`) whose target comes later in drawing order."""
    entering: Counter[str] = field(default_factory=Counter)
    """The number of forward edges to each step."""

    def is_inline(self, edge: Edge) -> bool:
        """Whether the target is drawn directly below this edge."""
        return id(edge) in self.forward and self.entering[edge.target] == 1

    def find_hoisted(self, step: str, *, room: bool) -> set[str]:
        """Return the branch targets that are drawn at the depth of the step itself."""
        targets = [edge.target for edge in self.leaving[step] if self.is_inline(edge)]
        if not room:
            return set(targets)
        longest = max(targets, key=lambda target: self.size[target], default=None)
        return {longest} if longest is not None and self.size[longest] >= LONG else set()


def lay_out_workflow(workflow: Workflow) -> Layout:
    """Return the layout of a workflow, in time nearly linear in its steps and edges."""
    layout = Layout(leaving={step.id: [] for step in workflow.steps})
    for edge in workflow.edges:
        if edge.source in layout.leaving:
            layout.leaving[edge.source].append(edge)
    order: list[str] = []
    seen: set[str] = set()
    entered = {edge.target for edge in workflow.edges if edge.source != edge.target}
    unentered = [step.id for step in workflow.steps if step.id not in entered]
    for root in (workflow.start, *unentered, *layout.leaving):
        if root in layout.leaving and root not in seen:
            layout.roots.append(root)
            order += _visit_steps(root, layout, seen)
    _count_forward(layout, order)
    _place_steps(layout, order)
    return layout


def _visit_steps(root: str, layout: Layout, seen: set[str]) -> list[str]:
    """Return the steps first reached from `root`, in topological order; also record the edges that lead back.

    The last edge is followed first, because the order is reversed at the end.
    """
    seen.add(root)
    open_steps = {root}
    finished: list[str] = []
    stack = [(root, reversed(layout.leaving[root]))]
    while stack:
        step, edges = stack[-1]
        edge = next(edges, None)
        if edge is None:
            stack.pop()
            open_steps.discard(step)
            finished.append(step)
        elif edge.target in open_steps:
            layout.back.add(id(edge))
        elif edge.target in layout.leaving and edge.target not in seen:
            seen.add(edge.target)
            open_steps.add(edge.target)
            stack.append((edge.target, reversed(layout.leaving[edge.target])))
    return finished[::-1]


def _count_forward(layout: Layout, order: list[str]) -> None:
    position = {step: number for number, step in enumerate(order)}
    for step in order:
        for edge in layout.leaving[step]:
            if position.get(edge.target, -1) > position[step]:
                layout.forward.add(id(edge))
                layout.entering[edge.target] += 1


def _place_steps(layout: Layout, order: list[str]) -> None:
    """Find the dominator of every step, and count the steps below it."""
    dominator: dict[str, str | None] = {}
    depth: dict[str, int] = {}
    layout.below = {step: [] for step in order}
    for step in order:
        above = dominator.setdefault(step, None)
        depth[step] = 0 if above is None else depth[above] + 1
        if above is not None:
            layout.below[above].append(step)
        for edge in layout.leaving[step]:
            if id(edge) in layout.forward:
                known = dominator.get(edge.target, step)
                dominator[edge.target] = _find_common_dominator(step, known, dominator, depth)
    for step in reversed(order):
        layout.size[step] = 1 + sum(layout.size[other] for other in layout.below[step])


def _find_common_dominator(
    one: str | None, other: str | None, dominator: dict[str, str | None], depth: dict[str, int]
) -> str | None:
    """Return the last step that is above both. It exists, because both were reached from the same root."""
    while one is not None and other is not None and one != other:
        if depth[one] >= depth[other]:
            one = dominator[one]
        else:
            other = dominator[other]
    return one
