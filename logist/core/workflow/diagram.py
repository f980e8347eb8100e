"""Turn a diagram and its config block into workflows: shapes and prefixes become types, labels conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from logist.core.mermaid.graph import ConfigEntry, Graph, Link, Node
from logist.core.model import END, JsonObject, Step, StepType
from logist.core.model.flow import MOST_STEPS
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.agreement import match_branches
from logist.core.workflow.assembly import Assembly
from logist.core.workflow.drawing import is_drawn
from logist.core.workflow.groups import DiagramPart, resolve_edges, split_diagram
from logist.core.workflow.places import Read, make_problem, suggest_name
from logist.core.workflow.shapes import is_default_word, is_end, read_node
from logist.core.workflow.steps import StepRead, read_step

_WORDS = re.compile(r"[^\W\d_][\w'’ ,?!-]*")
MAX_LINKS = 5 * MOST_STEPS


def read_diagram(
    graph: Graph, entries: Sequence[ConfigEntry], text: str, name: str, description: str = ""
) -> list[Read]:
    """Return the workflows of a diagram: one, or one for each of several subgraphs that no edge connects.

    `name` is for a diagram without a title; a subgraph's own title names its workflow. The first reading also
    holds the problems that belong to no workflow in particular, such as an entry for a node that does not
    exist.
    """
    name = graph.title or name
    if not graph.nodes:
        return [Read(name, None, (make_problem("error", "no_steps", "the diagram has no nodes", ("", 1)),))]
    if len(graph.nodes) > MOST_STEPS or len(graph.links) > MAX_LINKS:
        message = f"the diagram is too large: {len(graph.nodes):,} nodes and {len(graph.links):,} edges"
        return [Read(name, None, (make_problem("error", "too_large", message, ("", 1)),))]
    resolved_graph, problems = resolve_edges(graph)
    problems += _check_entries(resolved_graph, entries)
    reads = [
        _read_part(part, entries, text, name, description) for part in split_diagram(resolved_graph, name)
    ]
    first = reads[0]
    reads[0] = Read(first.name, first.workflow, (*problems, *first.problems), first.places)
    return reads


def _check_entries(graph: Graph, entries: Sequence[ConfigEntry]) -> list[WorkflowProblem]:
    """Report entries for no node, or for the end."""
    nodes = {node.id: node for node in graph.nodes}
    problems = []
    for entry in entries:
        place = (f"@{entry.id}", entry.line)
        if entry.id not in nodes:
            message = f"the config has an entry for `{entry.id}`, which is not a node of the diagram"
            fix = suggest_name(entry.id, nodes) or "remove it, or draw the node"
            problems.append(make_problem("error", "no_node", message, place, fix))
        elif is_end(nodes[entry.id]):
            message = f"`{entry.id}` is drawn as the end, (((...))), which is not a step"
            problems.append(make_problem("error", "no_node", message, place, "give it another shape"))
    return problems


def _read_part(
    part: DiagramPart, entries: Sequence[ConfigEntry], text: str, name: str, description: str
) -> Read:
    by_id: dict[str, ConfigEntry] = {}
    for entry in entries:
        by_id.setdefault(entry.id, entry)
    nodes = [node for node in part.nodes if not is_end(node)]
    assembly = Assembly(_collect_lines(nodes, by_id))
    ids = {node.id: END for node in part.nodes}
    for node in nodes:
        data = by_id[node.id].data if node.id in by_id else {}
        step = assembly.add_step(_read_node_step(node, data, assembly.lines), f"@{node.id}")
        ids[node.id] = step.id if step else node.id
        if node.shape == "subroutine" and step and step.step_type == StepType.TASK and "stepType" not in data:
            message = f"`[[{node.label}]]` is a task because its label has no prefix"
            fix = "write [[Each: ...]] for a foreach, [[Run: ...]] for a subflow, or [...]"
            place = (f"@{node.id}", node.line)
            assembly.problems.append(make_problem("warning", "no_prefix", message, place, fix))
    links = [replace(link, source=ids[link.source], target=ids[link.target]) for link in part.links]
    links_by_source: dict[str, list[Link]] = {}
    for link in links:
        links_by_source.setdefault(link.source, []).append(link)
    for step in assembly.steps:
        _add_edges(assembly, step, links_by_source.get(step.id, []))
    _sort_edges(assembly, links)
    own = part.title or name
    return assembly.finish_workflow(
        own, description, None, mermaid=None if part.title or is_drawn(text) else text
    )


def _collect_lines(nodes: Sequence[Node], entries: Mapping[str, ConfigEntry]) -> dict[str, int]:
    """Return the line of every step (of its entry, if it has one), and of the fields in it."""
    lines: dict[str, int] = {}
    for node in nodes:
        entry = entries.get(node.id)
        lines[f"@{node.id}"] = entry.line if entry else node.line
        for key in entry.data if entry else ():
            lines[f"@{node.id}.{key}"] = entry.line if entry else node.line
    return lines


def _read_node_step(node: Node, data: Mapping[str, object], lines: Mapping[str, int]) -> StepRead:
    drawn_fields = {"id": node.id, **read_node(node)}
    config: JsonObject = dict(data)
    kind = config.get("stepType") or config.get("step_type") or config.get("type")
    drawn = drawn_fields.get("stepType", "task")
    if kind and ("subflow" if kind == "flow" else kind) not in {drawn, "automated", "manual"}:
        drawn_fields = {key: value for key, value in drawn_fields.items() if key in {"id", "name"}}
    elif config.get("execution") or kind in {"automated", "manual"}:
        drawn_fields.pop("execution", None)
    return read_step(config, f"@{node.id}", lines, given=drawn_fields)


def _add_edges(assembly: Assembly, step: Step, links: Sequence[Link]) -> None:
    """Add the edges of one step, in the order of the diagram, with what its config says about them."""
    targets_and_labels = [(link.target, _strip_label(link)) for link in links]
    form = assembly.forms[step.id]
    if "next" in form.model_fields_set:
        message = "`next` is only for lists of steps; a diagram has edges instead"
        place = assembly.collect_places().locate_step(step.id, "next")
        assembly.problems.append(make_problem("error", "other_type", message, place, "remove it"))
    if step.step_type == StepType.DECISION and (form.branches is not None or form.default_branch is not None):
        conditions, problems = match_branches(
            step.id, targets_and_labels, form, assembly.collect_places().locate_step(step.id, "branches")
        )
        assembly.problems.extend(problems)
    else:
        conditions = [
            _find_condition(step, label, len(targets_and_labels)) for _, label in targets_and_labels
        ]
    for link, (target, label), condition in zip(links, targets_and_labels, conditions, strict=True):
        place = (assembly.paths[step.id], link.line)
        if label is not None and condition is None and not is_default_word(label):
            message = (
                f"the label `{label}` has no effect: this is the only edge from a step that is not a decision"
            )
            assembly.problems.append(make_problem("warning", "label_no_effect", message, place))
        if (
            target != END
            or step.step_type == StepType.DECISION
            or len(targets_and_labels) > 1
            or condition is not None
        ):
            assembly.add_edge(step.id, target, place, condition, label)


def _strip_label(link: Link) -> str | None:
    return (link.label or "").strip() or None


def _find_condition(step: Step, label: str | None, ways: int) -> str | None:
    """Return the condition that a label states, or None: an empty or default label
    is none, nor are words on the only edge of a task.
    """
    if label is None or is_default_word(label):
        return None
    if ways == 1 and step.step_type != StepType.DECISION and _WORDS.fullmatch(label):
        return None
    return label


def _sort_edges(assembly: Assembly, links: Sequence[Link]) -> None:
    """Put the edges in the order of the diagram: they were added step by step."""
    order: dict[str, list[int]] = {}
    for number, link in enumerate(links):
        order.setdefault(link.source, []).append(number)
    pairs = list(zip(assembly.edges, assembly.edge_places, strict=True))
    numbers = [order[edge.source].pop(0) for edge, _ in pairs]
    ordered = [pair for _, pair in sorted(zip(numbers, pairs, strict=True), key=lambda each: each[0])]
    assembly.edges = [edge for edge, _ in ordered]
    assembly.edge_places = [place for _, place in ordered]
