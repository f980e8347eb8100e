"""Build the graph of a diagram from its tree, statement by statement, as mermaid does."""

from __future__ import annotations

from dataclasses import field
from functools import partialmethod
from typing import Any, Literal

from lark import Token, Tree
from lark.exceptions import VisitError
from lark.visitors import Transformer_NonRecursive

from logist.core.mermaid import attributes
from logist.core.mermaid.error import MermaidError
from logist.core.mermaid.graph import SHAPES, Graph, Group, Link, Node, Shape
from logist.core.mermaid.source import BLANKS, DiagramSource
from logist.core.mermaid.text import decode_entities
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

MAX_LINKS = 20_000
"""A diagram with more edges is rejected: `A & B & ... --> C & D & ...` makes an edge for each pair."""

_SIGNED = {"<": "RL", "^": "BT", ">": "LR", "v": "TB", "TD": "TB"}

Stroke = Literal["normal", "thick", "dotted", "invisible"]

_STROKES: dict[str, Stroke] = {"=": "thick", "~": "invisible"}
_HEADS = {">": "arrow", "<": "arrow", "o": "circle", "x": "cross"}


class _Name(NamedTuple):
    """An id, and its offset."""

    text: str
    offset: int


class _Arrow(NamedTuple):
    stroke: Stroke
    heads: tuple[str, str]
    offset: int
    label: str = ""
    id: str = ""


class _Chain(NamedTuple):
    last: list[_Name]
    """Where the next arrow starts."""
    nodes: list[_Name]


class _Direction(NamedTuple):
    value: str


class _Subgraph(NamedTuple):
    id: str


@dataclass
class _Vertex:
    label: str
    offset: int
    shape: Shape = "plain"
    classes: list[str] = field(default_factory=list)


@dataclass
class _Diagram:
    direction: str = "TB"
    vertices: dict[str, _Vertex] = field(default_factory=dict)
    links: list[tuple[str, str, _Arrow]] = field(default_factory=list)
    link_ids: set[str] = field(default_factory=set)
    between: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many edges lead from one node to another."""
    groups: list[tuple[int, Group]] = field(default_factory=list)
    group_ids: set[str] = field(default_factory=set)
    grouped: set[str] = field(default_factory=set)
    """Nodes and subgraphs that are already in a subgraph: they belong to the first one that ends."""


def build_graph(tree: Tree[Token], source: DiagramSource) -> Graph:
    """Return the graph of a diagram. Raises MermaidError for what the grammar allows but mermaid does not."""
    builder = _DiagramBuilder(source)
    try:
        builder.transform(tree)
    except VisitError as error:
        if isinstance(error.orig_exc, MermaidError):
            raise error.orig_exc from None
        raise
    return _make_graph(builder.diagram, source)


def _make_graph(diagram: _Diagram, source: DiagramSource) -> Graph:
    def find_line(offset: int) -> int:
        return source.locate_offset(offset)[0]

    known = diagram.vertices.keys() | diagram.group_ids
    return Graph(
        direction=diagram.direction,
        nodes=tuple(
            Node(
                name,
                decode_entities(vertex.label),
                vertex.shape,
                tuple(vertex.classes),
                find_line(vertex.offset),
            )
            for name, vertex in diagram.vertices.items()
            if name not in diagram.group_ids
        ),
        links=tuple(
            Link(
                start,
                end,
                decode_entities(arrow.label) or None,
                arrow.stroke,
                arrow.heads,
                find_line(arrow.offset),
            )
            for start, end, arrow in diagram.links
        ),
        groups=tuple(
            Group(
                group.id,
                decode_entities(group.title),
                tuple(member for member in group.members if member in known),
                find_line(offset),
                group.direction,
            )
            for offset, group in sorted(diagram.groups, key=lambda item: item[0])
        ),
        title=source.title,
    )


class _DiagramBuilder(Transformer_NonRecursive[Token, Any]):
    """Called by lark for every part of the tree, the inner ones first; `diagram` grows with it."""

    def __init__(self, source: DiagramSource) -> None:
        super().__init__()
        self.diagram = _Diagram()
        self._source = source

    def start(self, parts: list[Any]) -> None:
        sign = str(parts[1]).strip(BLANKS)
        self.diagram.direction = _SIGNED.get(sign, sign or "TB")

    def document(self, parts: list[Any]) -> list[Any]:
        return [part for part in parts if isinstance(part, _Chain | _Direction | _Subgraph)]

    # Words.

    def spaces(self, parts: list[Any]) -> None:
        """Do nothing: spaces only separate the words."""

    space = note = click = class_def = name = spaces

    def id(self, parts: list[Token]) -> _Name:
        return _Name("".join(parts), parts[0].start_pos or 0)

    def text(self, parts: list[Token]) -> str:
        return "".join(parts)

    edge_text = title = text

    def attributes(self, parts: list[Token]) -> Token:
        """Join the lines; a line break in a quoted text, with the spaces after it, becomes `<br/>`."""
        texts = []
        for part in parts:
            if part == "@{":
                continue
            lines = part.split("\n") if part.type == "ATTRIBUTE_TEXT" else [str(part)]
            texts.append("<br/>".join([lines[0], *(line.lstrip(BLANKS) for line in lines[1:])]))
        return Token("ATTRIBUTES", "".join(texts), start_pos=parts[0].start_pos)

    def numbers(self, parts: list[Token]) -> list[Token]:
        return [part for part in parts if part.type == "NUMBER"]

    # Nodes.

    def vertex(self, parts: list[Any]) -> _Name:
        self._get_vertex(parts[0])
        return parts[0]  # type: ignore[no-any-return]

    def _add_shaped_vertex(self, shape: Shape, parts: list[Any]) -> _Name:
        name: _Name = parts[0]
        label = _unquote_label(parts[-1])
        if vertex := self._get_vertex(name):
            vertex.label, vertex.shape, vertex.offset = label, shape, name.offset
        return name

    square = partialmethod(_add_shaped_vertex, "square")
    round = partialmethod(_add_shaped_vertex, "round")
    stadium = partialmethod(_add_shaped_vertex, "stadium")
    subroutine = partialmethod(_add_shaped_vertex, "subroutine")
    cylinder = partialmethod(_add_shaped_vertex, "cylinder")
    circle = partialmethod(_add_shaped_vertex, "circle")
    doublecircle = partialmethod(_add_shaped_vertex, "doublecircle")
    ellipse = partialmethod(_add_shaped_vertex, "ellipse")
    diamond = partialmethod(_add_shaped_vertex, "diamond")
    hexagon = partialmethod(_add_shaped_vertex, "hexagon")
    odd = partialmethod(_add_shaped_vertex, "odd")
    trapezoid = partialmethod(_add_shaped_vertex, "trapezoid")
    inv_trapezoid = partialmethod(_add_shaped_vertex, "inv_trapezoid")
    lean_right = partialmethod(_add_shaped_vertex, "lean_right")
    lean_left = partialmethod(_add_shaped_vertex, "lean_left")

    def _get_vertex(self, name: _Name) -> _Vertex | None:
        """Return the node with that id, a new one if need be; None if it is the id of an edge."""
        if name.text in self.diagram.link_ids:
            return None
        return self.diagram.vertices.setdefault(name.text, _Vertex(name.text, name.offset))

    def styled(self, parts: list[Any]) -> _Name:
        name, class_name = parts
        self._add_class(name.text, class_name.text)
        return name  # type: ignore[no-any-return]

    def _add_class(self, ids: str, class_name: str) -> None:
        for name in ids.split(","):
            if vertex := self.diagram.vertices.get(name):
                vertex.classes.append(class_name)

    def class_of(self, parts: list[Any]) -> None:
        ids, class_name = (part for part in parts if isinstance(part, _Name))
        self._add_class(ids.text, class_name.text)

    def style(self, parts: list[Any]) -> None:
        """Create the node if it does not exist."""
        self._get_vertex(parts[2])

    def _apply_attributes(self, name: _Name, text: Token) -> None:
        """Apply the attributes in `@{ ... }` to a node; those of an edge or a subgraph are ignored."""
        try:
            values = attributes.read_attributes(text)
        except ValueError as error:
            raise self._make_error(str(error), text.start_pos or 0) from None
        vertex = None if name.text in self.diagram.group_ids else self._get_vertex(name)
        if vertex is None:
            return
        if shape := values.get("shape"):
            if not isinstance(shape, str) or shape not in SHAPES:
                raise self._make_error(f"unknown shape `{shape}`", text.start_pos or 0)
            vertex.shape, vertex.offset = SHAPES[shape], name.offset
        if label := values.get("label"):
            vertex.label = _value_to_text(label)
        for picture in ("icon", "img"):
            if values.get(picture):
                if not isinstance(label or "", str):
                    raise self._make_error(
                        "`label` must be text if there is an icon or an image", text.start_pos or 0
                    )
                vertex.shape = "square"
                if vertex.label == name.text and not str(label or "").strip():
                    vertex.label = ""

    # Edges.

    def fan(self, parts: list[Any]) -> list[_Name]:
        """Return the nodes of `A & B & C`."""
        names: list[_Name] = [] if isinstance(parts[0], _Name) else parts[0]
        if len(parts) > 1 and isinstance(parts[1], Token) and parts[1].type == "ATTRIBUTES":
            self._apply_attributes(names[-1], parts[1])
        names.append(parts[-1])
        return names

    def chain(self, parts: list[Any]) -> _Chain:
        before = parts[0] if isinstance(parts[0], _Chain) else None
        names = next(part for part in parts if isinstance(part, list))
        if isinstance(parts[-1], Token):
            self._apply_attributes(names[-1], parts[-1])
        if before is None:
            return _Chain(names, list(names))
        self._join_nodes(before.last, names, next(part for part in parts if isinstance(part, _Arrow)))
        before.nodes.extend(names)
        return _Chain(names, before.nodes)

    def link(self, parts: list[Any]) -> _Arrow:
        tokens = {part.type: part for part in parts if isinstance(part, Token)}
        end, start, edge_id = tokens["LINK"], tokens.get("LINK_START"), tokens.get("EDGE_ID")
        label = _unquote_label(next((part for part in parts if not isinstance(part, Token)), ""))
        stroke, heads = _read_arrow(end.strip(BLANKS), start.strip(BLANKS) if start else "")
        first = start or end
        offset = (first.start_pos or 0) + len(first) - len(first.lstrip(BLANKS))
        return _Arrow(stroke, heads, offset, label, edge_id.replace("@", "", 1) if edge_id else "")

    def _join_nodes(self, sources: list[_Name], targets: list[_Name], arrow: _Arrow) -> None:
        links = self.diagram.links
        if len(links) + len(sources) * len(targets) > MAX_LINKS:
            raise self._make_error(f"the diagram has more than {MAX_LINKS:,} edges", arrow.offset)
        for source in sources:
            for target in targets:
                has_edge_id = source.text == sources[-1].text and target.text == targets[0].text
                self._add_link(source.text, target.text, arrow, arrow.id if has_edge_id else "")

    def _add_link(self, source: str, target: str, arrow: _Arrow, edge_id: str) -> None:
        """Add an edge. An edge without an id gets one, and then no node may have that id."""
        before = self.diagram.between.get((source, target), 0)
        if not edge_id or edge_id in self.diagram.link_ids:
            edge_id = f"L_{source}_{target}_{before + 1 if before else 0}"
        self.diagram.link_ids.add(edge_id)
        self.diagram.between[source, target] = before + 1
        self.diagram.links.append((source, target, arrow))

    def link_style(self, parts: list[Any]) -> None:
        """Check that the edges it names, by number from 0, exist."""
        for number in next((part for part in parts if isinstance(part, list)), []):
            exists = len(number) < 9 and int(number) < len(self.diagram.links)
            if not exists or str(int(number)) != number:
                count = len(self.diagram.links)
                raise self._make_error(
                    f"edge {number[:20]} not found: {count} defined so far, numbered from 0", number.start_pos
                )

    # Subgraphs.

    def direction(self, parts: list[Token]) -> _Direction:
        value = parts[0].type.removeprefix("DIRECTION_")
        return _Direction(_SIGNED.get(value, value))

    def subgraph(self, parts: list[Any]) -> _Subgraph:
        content = next(part for part in parts if isinstance(part, list))
        texts = [part for part in parts if isinstance(part, str) and not isinstance(part, Token)]
        name, title = texts[0].strip(BLANKS), texts[-1].strip(BLANKS)
        if not name or (len(texts) == 1 and any(blank in texts[0] for blank in BLANKS)):
            name = f"subGraph{len(self.diagram.groups)}"
        directions = [part.value for part in content if isinstance(part, _Direction)]
        members = self._collect_members(content)
        group = Group(name, title, members, direction=directions[-1] if directions else "")
        self.diagram.groups.append((parts[0].start_pos, group))
        self.diagram.group_ids.add(name)
        return _Subgraph(name)

    def _collect_members(self, content: list[Any]) -> tuple[str, ...]:
        """Return the members of a subgraph, in the order of the text, without those of an inner one."""
        names: dict[str, None] = {}
        for part in content:
            if isinstance(part, _Chain):
                names.update((name.text, None) for name in part.nodes)
            elif isinstance(part, _Subgraph):
                names[part.id] = None
        free = tuple(name for name in names if name not in self.diagram.grouped)
        self.diagram.grouped.update(free)
        return free

    def _make_error(self, message: str, offset: int) -> MermaidError:
        return MermaidError(message, *self._source.locate_offset(offset))


def _unquote_label(text: str) -> str:
    """Return a label without the spaces and the quotes around it."""
    text = text.strip(BLANKS)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _value_to_text(value: attributes.Value) -> str:
    """Return a value of YAML as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read_arrow(end: str, start: str) -> tuple[Stroke, tuple[str, str]]:
    """Return the stroke and the heads of an arrow; in `-- text -->`, `start` is the part before the text.

    If the two sides differ, as in `x-- text ==>`, mermaid draws a plain arrow.
    """
    head = _HEADS.get(end[-1], "") if end[-1] != "<" else ""
    tail = head if head and end[0] == ("<" if end[-1] == ">" else end[-1]) else ""
    stroke = _read_stroke(end[1:-1] if tail else end[:-1])
    if not start:
        return stroke, (tail, head)
    before = _HEADS.get(start[0], "")
    if _read_stroke(start[1:] if before else start) != stroke or (before and (tail or before != head)):
        return "normal", ("", "arrow")
    return stroke, (before or tail, head)


def _read_stroke(line: str) -> Stroke:
    if "." in line:
        return "dotted"
    return _STROKES.get(line[:1], "normal")
