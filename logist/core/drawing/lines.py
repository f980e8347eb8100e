"""Draw a workflow as lines of text: one for each step, with its branches indented below it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from logist.core.drawing.layout import Layout, lay_out_workflow
from logist.core.drawing.marks import DrawnChild, Line, LineSegment, Mark
from logist.core.model import END, Edge, Execution, Step, StepType, Workflow
from logist.core.text.columns import count_columns, shorten_to_columns, to_one_line
from logist.quick_dataclass import dataclass

MOST_CHILDREN = 20
"""The maximum number of children drawn for one step; the others are only counted."""
DEEPEST = 12
UNREACHED = "not reachable from the start:"


@dataclass(frozen=True)
class Signs:
    """The characters of a drawing."""

    standing: Mapping[str, str]
    step: str
    decision: str
    branch: str
    last: str
    through: str
    to: str
    back: str
    dot: str
    cut: str


UNICODE = Signs(
    {"done": "✓", "running": "●", "waiting": "◌", "stuck": "!", "failed": "✗", "skipped": "–", "next": "▸"},
    *("○", "◇", "├─ ", "└─ ", "│  ", "→ ", "↩ ", "·", "…"),
)
ASCII = Signs(
    {"done": "+", "running": "*", "waiting": "~", "stuck": "!", "failed": "x", "skipped": "-", "next": ">"},
    *("o", "?", "|- ", "`- ", "|  ", "-> ", "^ ", "-", "~"),
)


def draw_workflow(
    workflow: Workflow, marks: Mapping[str, Mark], width: int, *, unicode: bool = True
) -> list[Line]:
    """Return the lines of a drawing, none wider than `width` columns.

    Every step appears once, with its id, name and state, and with its kind unless it is an automated task.
    `→ X` refers to a step that is drawn elsewhere, `↩ X` goes back to an earlier step. Text that is only for
    agents is not shown.
    """
    return list(_Drawing(workflow, marks, max(1, width), unicode).draw_lines())


def strip_styles(lines: list[Line]) -> list[str]:
    """Return the lines as text without styles."""
    return ["".join(segment.text for segment in line) for line in lines]


class _Drawing:
    def __init__(self, workflow: Workflow, marks: Mapping[str, Mark], width: int, unicode: bool) -> None:
        self.steps = {step.id: step for step in workflow.steps}
        self.layout: Layout = lay_out_workflow(workflow)
        self.start = workflow.start
        self.marks = marks
        self.width = width
        self.unicode = unicode
        self.signs = UNICODE if unicode else ASCII
        self.deepest = min(DEEPEST, max(0, (width - 24) // 6))

    def draw_lines(self) -> Iterator[Line]:
        is_heading_drawn = False
        for root in self.layout.roots:
            if root != self.start and not is_heading_drawn:
                is_heading_drawn = True
                yield from ((), self._fit_line("", [LineSegment(UNREACHED, "text")]))
            yield from self._draw_sequence(root, "", "", 0)

    def _draw_sequence(self, first: str, head: str, indent: str, depth: int) -> Iterator[Line]:
        """Draw a step and everything below it; `head` comes before its line, `indent` before the others."""
        remaining = [first]
        while remaining:
            step = remaining.pop()
            inside = [edge for edge in self.layout.leaving[step] if self.layout.is_inline(edge)]
            edges = self.layout.leaving[step]
            yield self._draw_step(step, head)
            head = indent
            yield from self._draw_children(step, indent)
            if len(edges) == 1:
                yield from self._draw_label(edges[0], indent)
                remaining += reversed(self.layout.below[step])
                continue
            hoisted = self.layout.find_hoisted(step, room=depth < self.deepest)
            nested = {edge.target for edge in inside} - hoisted
            for edge in edges:
                yield from self._draw_branch(edge, indent, depth, edge is edges[-1], edge.target in nested)
            remaining += [below for below in reversed(self.layout.below[step]) if below not in nested]

    def _draw_label(self, edge: Edge, indent: str) -> Iterator[Line]:
        """Draw the label of a step's only edge, unless it is a reference, whose label is on the line of the step."""
        text = self._describe_condition(edge)
        if text and self.layout.is_inline(edge):
            yield self._fit_line(
                indent, [LineSegment(self.signs.through, "line"), LineSegment(text, "condition")]
            )

    def _draw_branch(self, edge: Edge, indent: str, depth: int, last: bool, nested: bool) -> Iterator[Line]:
        corner = self.signs.last if last else self.signs.branch
        below = indent + ("   " if last else self.signs.through)
        label = self._describe_condition(edge)
        condition = [LineSegment(label, "condition")] if label else []
        if not nested:
            gap = [LineSegment("  ")] if label else []
            yield self._fit_line(indent + corner, [*condition, *gap, *self._draw_reference(edge)], shrink=0)
        elif label:
            yield self._fit_line(indent + corner, condition)
            yield from self._draw_sequence(edge.target, below, below, depth + 1)
        else:
            yield from self._draw_sequence(edge.target, indent + corner, below, depth + 1)

    def _draw_step(self, step_id: str, head: str) -> Line:
        step = self.steps[step_id]
        mark = self.marks.get(step_id)
        edges = self.layout.leaving[step_id]
        sign = self.signs.decision if step.step_type is StepType.DECISION else self.signs.step
        style = mark.state if mark else ""
        short_id, name = self._shorten_id(step_id), to_one_line(step.name, unicode=self.unicode)
        segments = [
            LineSegment(f"{self.signs.standing[mark.state] if mark else sign} ", style),
            LineSegment(short_id, "id"),
            LineSegment(f"  {name}" if name and name != step_id else "", "name"),
        ]
        segments += [LineSegment(f" {self.signs.dot} {words}", "kind") for words in self._describe_kind(step)]
        if mark:
            segments.append(LineSegment(f" {self.signs.dot} {self._describe_state(mark)}", style))
        if len(edges) == 1 and not self.layout.is_inline(edges[0]):
            label = self._describe_condition(edges[0])
            segments.append(LineSegment(f"  {label}" if label else "", "condition"))
            segments += [LineSegment("  "), *self._draw_reference(edges[0])]
        elif not edges:
            segments.append(LineSegment(f" {self.signs.dot} end", "kind"))
        return self._fit_line(head, segments, shrink=2)

    def _describe_kind(self, step: Step) -> Iterator[str]:
        """Yield the kind of a step, and the workflow it runs; nothing for an automated task."""
        if step.step_type is StepType.TASK:
            if step.execution is Execution.MANUAL:
                yield "manual"
            return
        subflow_name = f" {to_one_line(step.subflow, unicode=self.unicode)}" if step.subflow else ""
        yield to_one_line(str(step.step_type), unicode=self.unicode) + subflow_name

    def _describe_state(self, mark: Mark) -> str:
        count = mark.count_children()
        words = [
            mark.state,
            f"{count[0]}/{count[1]}" if count else "",
            to_one_line(mark.text, unicode=self.unicode),
        ]
        return " ".join(word for word in words if word)

    def _draw_children(self, step_id: str, indent: str) -> Iterator[Line]:
        children = self.marks[step_id].children if step_id in self.marks else ()
        for child in children[:MOST_CHILDREN]:
            yield self._fit_line(indent + "    ", self._draw_child(child), shrink=1)
        more = len(children) - MOST_CHILDREN
        if more > 0:
            yield self._fit_line(indent + "    ", [LineSegment(f"and {more} more", "text")])

    def _draw_child(self, child: DrawnChild) -> list[LineSegment]:
        text = f" {to_one_line(child.text, unicode=self.unicode)}" if child.text else ""
        item = f" ({to_one_line(child.item, unicode=self.unicode)})" if child.item else ""
        return [
            LineSegment(f"{self.signs.standing[child.state]} ", child.state),
            LineSegment(to_one_line(child.name, unicode=self.unicode) + item, "name"),
            LineSegment(f" {self.signs.dot} {child.state}{text}", child.state),
        ]

    def _draw_reference(self, edge: Edge) -> list[LineSegment]:
        sign = self.signs.back if id(edge) in self.layout.back else self.signs.to
        if edge.target == END:
            return [LineSegment(f"{self.signs.to}end", "reference")]
        missing = "" if edge.target in self.steps else " (step not found)"
        return [LineSegment(f"{sign}{self._shorten_id(edge.target)}{missing}", "reference")]

    def _shorten_id(self, step_id: str) -> str:
        return shorten_to_columns(
            to_one_line(step_id, unicode=self.unicode), max(8, self.width // 3), unicode=self.unicode
        )

    def _describe_condition(self, edge: Edge) -> str:
        """Return the label as written, else the condition."""
        if edge.label:
            return to_one_line(edge.label, unicode=self.unicode)
        if edge.condition is None or edge.condition == "":
            return ""
        written = edge.condition if isinstance(edge.condition, str) else json.dumps(edge.condition)
        return to_one_line(written, unicode=self.unicode)

    def _fit_line(self, head: str, segments: list[LineSegment], shrink: int | None = None) -> Line:
        """Return the line cut to the width: first shorten the segment `shrink`, then cut the end of the line."""
        line = [LineSegment(head, "line"), *(segment for segment in segments)]
        if shrink is not None:
            over = sum(count_columns(segment.text) for segment in line) - self.width
            text, style = line[shrink + 1]
            if over > 0:
                least = min(count_columns(text), 10)
                line[shrink + 1] = LineSegment(
                    self._shorten_text(text, max(least, count_columns(text) - over)), style
                )
        fitted: list[LineSegment] = []
        columns_left = self.width
        for text, style in line:
            cut = self._shorten_text(text, columns_left)
            columns_left -= count_columns(cut)
            if cut and not (fitted and cut == self.signs.cut == fitted[-1].text[-1:]):
                fitted.append(LineSegment(cut, style))
            if cut != text:
                break
        return tuple(fitted)

    def _shorten_text(self, text: str, width: int) -> str:
        return shorten_to_columns(text, width, unicode=self.unicode)
