"""Subgraphs of a diagram: separate workflows if no edge connects them, otherwise only frames around steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from logist.core.mermaid.graph import Graph, Link, Node
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.places import make_problem
from logist.quick_dataclass import dataclass


@dataclass(frozen=True)
class DiagramPart:
    """The nodes and edges of one workflow of a diagram; `title` is empty if it is the complete diagram."""

    title: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]


def resolve_edges(graph: Graph) -> tuple[Graph, list[WorkflowProblem]]:
    """Return the diagram with edges between steps only, each in the direction it points.

    An edge to a subgraph leads to its first step; an edge from a subgraph starts at its last steps. Invisible
    edges are dropped; an edge with two heads becomes two.
    """
    inside = _find_members(graph)
    nodes = tuple(node for node in graph.nodes if node.id not in inside)
    known = inside.keys() | {node.id for node in graph.nodes}
    links: list[Link] = []
    problems: list[WorkflowProblem] = []
    for link in graph.links:
        if link.stroke == "invisible" or not _has_ends(link, known, problems):
            continue
        for step_link in _expand_link(link, inside, graph, problems):
            links.append(step_link)
            if step_link.heads[0] == step_link.heads[1] == "arrow":
                links.append(replace(step_link, source=step_link.target, target=step_link.source))
    return replace(graph, nodes=nodes, links=tuple(links)), problems


def _has_ends(link: Link, known: Collection[str], problems: list[WorkflowProblem]) -> bool:
    """Whether both ends are nodes: mermaid lets an edge name the id of another edge, and draws nothing."""
    missing_ends = [end for end in (link.source, link.target) if end not in known]
    for end in missing_ends:
        message = f"an edge refers to `{end}`, which is the id of an edge, not of a node"
        problems.append(
            make_problem("error", "no_node", message, (f"@{end}", link.line), "connect it to a step")
        )
    return not missing_ends


def _find_members(graph: Graph) -> dict[str, frozenset[str]]:
    """Return the steps in each subgraph, including those of the subgraphs inside it."""
    direct = {group.id: group.members for group in graph.groups}
    steps_by_group: dict[str, frozenset[str]] = {}
    for name in direct:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            for member in direct.get(waiting.pop(), ()):
                if member not in seen:
                    seen.add(member)
                    waiting.append(member)
        steps_by_group[name] = frozenset(seen - direct.keys())
    return steps_by_group


def _expand_link(
    link: Link, inside: dict[str, frozenset[str]], graph: Graph, problems: list[WorkflowProblem]
) -> Iterator[Link]:
    sources, targets = [link.source], [link.target]
    if link.source in inside:
        sources = _find_border_steps(graph, inside[link.source], leaving=True)
    if link.target in inside:
        targets = _find_border_steps(graph, inside[link.target], leaving=False)
    if len(targets) != 1 or not sources:
        name = link.target if len(targets) != 1 else link.source
        message = f"can't connect an edge to the subgraph `{name}`: the step that it belongs to is ambiguous"
        place = (f"@{link.source}", link.line)
        problems.append(make_problem("error", "edge_to_group", message, place, "connect it to a step"))
        return
    for source in sources:
        yield replace(link, source=source, target=targets[0])


def _find_border_steps(graph: Graph, members: frozenset[str], *, leaving: bool) -> list[str]:
    """Return the steps of a subgraph that no edge inside it leaves, or that none leads to."""
    drawn = [link for link in graph.links if link.stroke != "invisible"]
    within = [link for link in drawn if link.source in members and link.target in members]
    taken = {link.source if leaving else link.target for link in within}
    return [node.id for node in graph.nodes if node.id in members and node.id not in taken]


def split_diagram(graph: Graph, name: str) -> list[DiagramPart]:
    """Return the workflows of a diagram in which all edges are between steps."""
    inside = _find_members(graph)
    nested = {member for group in graph.groups for member in group.members}
    outermost = [group for group in graph.groups if group.id not in nested and inside[group.id]]
    group_by_node = {node: group.id for group in outermost for node in inside[group.id]}
    is_separable = len(outermost) > 1 and all(node.id in group_by_node for node in graph.nodes)
    if not is_separable or any(
        group_by_node[link.source] != group_by_node[link.target] for link in graph.links
    ):
        return [DiagramPart("", graph.nodes, graph.links)]
    return [
        DiagramPart(
            group.title or group.id,
            tuple(node for node in graph.nodes if group_by_node[node.id] == group.id),
            tuple(link for link in graph.links if group_by_node[link.source] == group.id),
        )
        for group in outermost
    ]
