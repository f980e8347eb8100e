"""Draw a workflow with the states of its steps as SVG. Colors are classes, for the style sheet of a page."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape

from logist.core.drawing.layered import DrawnEdge, Layered, PlacedBox, Point, RoutedLink, Size, place_layers
from logist.core.drawing.layout import lay_out_workflow
from logist.core.drawing.lines import UNICODE
from logist.core.drawing.marks import Mark
from logist.core.model import END, Edge, Step, StepType, Workflow
from logist.core.text.columns import count_columns, shorten_to_columns, to_one_line
from logist.quick_dataclass import dataclass

BOX = Size(212, 66)
END_BOX = Size(72, 30)
_NAME_COLUMNS, _SMALL_COLUMNS, _LABEL_COLUMNS = 25, 31, 24
_LABEL_WIDTH = 7
"""Of one column of a label, at most."""
_RADIUS = 6
NOT_REACHED = "not reached"


@dataclass(frozen=True)
class DrawnStep:
    """A step in words, for a list beside the drawing."""

    id: str
    name: str
    kind: str
    state: str
    """Such as `done`, or `not reached`."""
    text: str
    """What else is known of the state, such as `2 of 3 children done`."""
    leads_to: tuple[tuple[str, str], ...]
    """The label of each branch, and the step (or `the end`) that it leads to."""


def describe_steps(workflow: Workflow, marks: Mapping[str, Mark]) -> list[DrawnStep]:
    """Describe the steps, in the order in which they were written."""
    return [
        DrawnStep(
            step.id,
            to_one_line(step.name),
            describe_kind(step),
            marks[step.id].state if step.id in marks else NOT_REACHED,
            _describe_mark(marks.get(step.id)),
            tuple(
                (_describe_branch(edge), edge.target or "the end")
                for edge in workflow.find_edges_from(step.id)
            ),
        )
        for step in workflow.steps
    ]


def describe_kind(step: Step) -> str:
    """Return the kind of a step; a task that a person does is `manual`."""
    return "manual" if step.is_manual else str(step.step_type)


def draw_svg(
    workflow: Workflow,
    marks: Mapping[str, Mark],
    *,
    taken: Collection[tuple[str, str]] = (),
    here: str = "",
) -> str:
    """Return the drawing as an `svg` element. It can be part of a page, or a file.

    `taken`: source and target of the branches that decisions took. `here`: the current step, whose box gets the id
    `here`.
    """
    labels = _collect_labels(workflow)
    links = [DrawnEdge(*ends, _measure_label(label)) for ends, label in labels.items()]
    back = {(edge.source, edge.target) for edge in _find_back_edges(workflow)}
    sizes = {step.id: BOX for step in workflow.steps}
    if any(link.target == END for link in links):
        sizes[END] = END_BOX
    layered = place_layers(sizes, links, [link for link in links if link[:2] in back])
    return "".join(_draw(workflow, marks, layered, labels, frozenset(taken), here))


def _find_back_edges(workflow: Workflow) -> list[Edge]:
    layout = lay_out_workflow(workflow)
    return [edge for edge in workflow.edges if id(edge) in layout.back]


def _collect_labels(workflow: Workflow) -> dict[tuple[str, str], str]:
    """Return the label of each pair of connected steps: two branches to the same step are drawn as one edge."""
    known = {step.id for step in workflow.steps}
    labels: dict[tuple[str, str], list[str]] = {}
    for edge in workflow.edges:
        if edge.source in known and (edge.target in known or edge.target == END):
            labels.setdefault((edge.source, edge.target), []).append(_describe_branch(edge))
    sources = {source for source, _ in labels}
    ends = {(step.id, END): [""] for step in workflow.steps if step.id not in sources}
    return {ends: " / ".join(filter(None, each)) for ends, each in (labels | ends).items()}


def _describe_branch(edge: Edge) -> str:
    """Return the label of an edge, else its condition."""
    label = edge.label or (edge.condition if isinstance(edge.condition, str) else "")
    if not label and edge.condition is not None:
        label = "condition"
    return to_one_line(label)


def _measure_label(label: str) -> int:
    return _LABEL_WIDTH * min(count_columns(label), _LABEL_COLUMNS)


def _draw(
    workflow: Workflow,
    marks: Mapping[str, Mark],
    layered: Layered,
    labels: Mapping[tuple[str, str], str],
    taken: frozenset[tuple[str, str]],
    here: str,
) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="flow" role="img" aria-labelledby="flow-title flow-desc" '
        f'width="{layered.width}" height="{layered.height}" viewBox="0 0 {layered.width} {layered.height}">'
        f'<title id="flow-title">Workflow {_escape(to_one_line(workflow.name))}</title>'
        f'<desc id="flow-desc">{_escape(_summarize(workflow, marks))}</desc>'
        '<defs><marker id="flow-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    for route in layered.links:
        yield _draw_route(route, is_taken=(route.link.source, route.link.target) in taken)
    for route in layered.links:
        yield _draw_label(route, labels[route.link.source, route.link.target])
    for step in workflow.steps:
        yield "".join(_draw_box(step, marks.get(step.id), layered.boxes[step.id], step.id == here))
    if END in layered.boxes:
        x, y, width, height = layered.boxes[END]
        yield (
            f'<g class="box end"><rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{height // 2}"/>'
            f'<text x="{x + width // 2}" y="{y + height // 2 + 5}" text-anchor="middle">end</text></g>'
        )
    yield "</svg>"


def _summarize(workflow: Workflow, marks: Mapping[str, Mark]) -> str:
    states = [marks[step.id].state if step.id in marks else NOT_REACHED for step in workflow.steps]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    parts = ", ".join(f"{count} {state}" for state, count in counts.items())
    return f"{len(states)} steps: {parts}. A list of the steps follows the drawing."


def _draw_route(route: RoutedLink, *, is_taken: bool) -> str:
    path = _round_corners(route.points) if route.is_aside else _curve(route.points)
    names = "edge" + " aside" * route.is_aside + " taken" * is_taken
    return f'<path class="{names}" d="{path}" marker-end="url(#flow-arrow)"/>'


def _curve(points: Sequence[Point]) -> str:
    parts = [f"M{points[0][0]} {points[0][1]}"]
    for number, ((x, y), (to_x, to_y)) in enumerate(itertools.pairwise(points)):
        is_in_gap = number % 2 == 0  # between these, the edge passes a row
        middle = (y + to_y) // 2
        parts.append(
            f"C{x} {middle} {to_x} {middle} {to_x} {to_y}" if is_in_gap and x != to_x else f"L{to_x} {to_y}"
        )
    return "".join(parts)


def _round_corners(points: Sequence[Point]) -> str:
    parts = [f"M{points[0][0]} {points[0][1]}"]
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        near, far = _move_towards(at, before), _move_towards(at, after)
        parts.append(f"L{near[0]} {near[1]}Q{at[0]} {at[1]} {far[0]} {far[1]}")
    return "".join([*parts, f"L{points[-1][0]} {points[-1][1]}"])


def _move_towards(point: Point, other: Point) -> Point:
    """Return the point on the way to another, on the same vertical or horizontal line, where a corner ends."""
    x, y = (_limit(there - here) for here, there in zip(point, other, strict=True))
    return point[0] + x, point[1] + y


def _limit(distance: int) -> int:
    return max(-_RADIUS, min(_RADIUS, distance // 2 if distance > 0 else -(-distance // 2)))


def _draw_label(route: RoutedLink, label: str) -> str:
    if not label or route.label_at is None:
        return ""
    x, y = route.label_at
    anchor = "start" if route.is_aside else "middle"
    shown = shorten_to_columns(label, _LABEL_COLUMNS)
    return (
        f'<text class="label" x="{x}" y="{y}" text-anchor="{anchor}">'
        f"{_escape(shown)}<title>{_escape(label)}</title></text>"
    )


def _draw_box(step: Step, mark: Mark | None, box: PlacedBox, is_here: bool) -> Iterator[str]:
    state = mark.state if mark else "unreached"
    name, kind = to_one_line(step.name) or step.id, describe_kind(step)
    text = _describe_mark(mark)
    sign = UNICODE.standing.get(state, UNICODE.step)
    words = f"{sign} {mark.state if mark else NOT_REACHED}" + (f" · {text}" if text else "")
    yield f'<g class="box {kind if kind.isidentifier() else "task"} {state}"' + ' id="here"' * is_here + ">"
    yield f"<title>{_escape(f'{name} ({to_one_line(step.id)}, {kind}): {words}')}</title>"
    yield _draw_shape(step, box)
    is_narrow = step.step_type is StepType.DECISION or step.is_manual
    x, top = box.x + (26 if is_narrow else 14), box.y + (3 if step.step_type is StepType.JOIN else 0)
    small = f"{to_one_line(step.id)} · {kind}" if kind != "task" else to_one_line(step.id)
    for style, y, line, most in (
        ("name", 22, name, _NAME_COLUMNS),
        ("kind", 39, small, _SMALL_COLUMNS),
        ("state", 56, words, _SMALL_COLUMNS),
    ):
        shown = shorten_to_columns(line, most - 4 if is_narrow else most)
        yield f'<text class="{style}" x="{x}" y="{top + y}">{_escape(shown)}</text>'
    yield "</g>"


def _draw_shape(step: Step, box: PlacedBox) -> str:
    """Return the border: each kind of step has another form."""
    x, y, width, height = box
    if step.step_type is StepType.DECISION:
        corners = ((x, y + height // 2), (x + 18, y), (x + width - 18, y), (x + width, y + height // 2))
        lower = ((x + width - 18, y + height), (x + 18, y + height))
        points = " ".join(f"{px},{py}" for px, py in (*corners, *lower))
        return f'<polygon class="border" points="{points}"/>'
    if step.step_type is StepType.FOREACH:  # several sheets
        behind = (
            f'<rect class="border" x="{x + 6}" y="{y}" width="{width - 6}" height="{height - 6}" rx="5"/>'
        )
        return (
            behind
            + f'<rect class="border" x="{x}" y="{y + 5}" width="{width - 6}" height="{height - 5}" rx="5"/>'
        )
    radius = height // 2 if step.is_manual else 5
    shape = f'<rect class="border" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>'
    if step.step_type is StepType.SUBFLOW:
        sides = "".join(f"M{px} {y}V{y + height}" for px in (x + 6, x + width - 6))
        shape += f'<path class="border" d="{sides}"/>'
    if step.step_type is StepType.JOIN:
        shape += f'<path class="border" d="M{x} {y + 5}H{x + width}"/>'
    return shape


def _describe_mark(mark: Mark | None) -> str:
    if mark is None:
        return ""
    counts = mark.count_children()
    children = f"{counts[0]} of {counts[1]} done" if counts else ""
    return ", ".join(filter(None, (children, to_one_line(mark.text))))


def _escape(text: str) -> str:
    """Return text for XML: `to_one_line` has removed the characters that XML does not allow."""
    return escape(text)
