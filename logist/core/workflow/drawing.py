"""Draw a workflow as a diagram with a config block, from which the same workflow is read."""

from __future__ import annotations

import json
import re

from logist.core import mermaid
from logist.core.mermaid.graph import Graph, Link, Node
from logist.core.model import END, JsonObject, Step, StepType, Workflow
from logist.core.workflow.shapes import choose_shape, read_node
from logist.core.workflow.written import dump_step
from logist.errors import Refused

DRAWN = "%% Drawn by Logist from the steps"
"""Marks a diagram that Logist drew: a workflow read from it does not keep the text of the diagram."""


_ID = re.compile(r"(?=.{1,64}\Z)[^\W\d_]\w*(?:-\w+)*")
"""An id that a drawing keeps, if mermaid takes it."""


def is_drawn(text: str) -> bool:
    """Whether Logist drew the diagram from steps."""
    return DRAWN in text


def get_diagram_source(workflow: Workflow) -> str:
    """Return the diagram that the workflow was read from, byte for byte, or an equivalent one.

    Raises Refused if it is too large.
    """
    return workflow.mermaid if workflow.mermaid is not None else _draw_workflow(workflow)


def _draw_workflow(workflow: Workflow) -> str:
    ids = _assign_node_ids(workflow)
    nodes = [_make_node(step, ids) for step in workflow.steps]
    ends = [Node(ids[END], "End", "doublecircle")] if END in ids else []
    links = [
        Link(ids[edge.source], ids[edge.target], edge.label) for edge in workflow.edges if edge.target in ids
    ]
    try:
        graph = mermaid.write_graph(Graph("TB", (*nodes, *ends), tuple(links)))
    except ValueError as error:
        raise Refused(f"can't draw `{workflow.name}`: {error}") from error
    entries = [_format_entry(node, step, workflow) for node, step in zip(nodes, workflow.steps, strict=True)]
    block = ["%% === WORKFLOW_CONFIG ===", *entries, "%% === END_CONFIG ==="]
    return "\n".join([graph.rstrip("\n"), "", DRAWN, *block, ""])


def _assign_node_ids(workflow: Workflow) -> dict[str, str]:
    """Return a name for every node: the id of the step if a diagram can have it."""
    ids = {step.id: step.id for step in workflow.steps if _ID.fullmatch(step.id) and mermaid.is_id(step.id)}
    taken = set(ids.values())
    names = [step.id for step in workflow.steps if step.id not in ids]
    if any(edge.target == END for edge in workflow.edges):
        names.append(END)
    for name in names:
        number = 1
        wanted = "finish" if name == END else "step"
        while f"{wanted}{number}" in taken:
            number += 1
        ids[name] = f"{wanted}{number}"
        taken.add(ids[name])
    return ids


def _make_node(step: Step, ids: dict[str, str]) -> Node:
    shape, label = choose_shape(step)
    return Node(ids[step.id], label, shape)


def _format_entry(node: Node, step: Step, workflow: Workflow) -> str:
    data = dump_step(step)
    if node.id == step.id:
        del data["id"]
    if read_node(node)["name"] == step.name:
        data.pop("name", None)
    if read_node(node).get("subflowId") and step.subflow is None:
        data["subflowId"] = ""
    if _is_start_unclear(workflow) and step.id == workflow.start:
        data["start"] = True
    if step.step_type == StepType.DECISION:
        data |= _list_branches(step, workflow)
    text = json.dumps(data, ensure_ascii=False, indent=2)
    return "\n".join(f"%% {line}" for line in f"@{node.id}: {text}".split("\n"))


def _list_branches(step: Step, workflow: Workflow) -> JsonObject:
    """Return the branches, if a label differs from its condition."""
    edges = workflow.find_edges_from(step.id)
    if all(edge.condition in (None, edge.label) for edge in edges):
        return {}
    return {
        "branches": [{"condition": edge.condition, "targetStepId": edge.target or "end"} for edge in edges]
    }


def _is_start_unclear(workflow: Workflow) -> bool:
    reached = {edge.target for edge in workflow.edges if edge.source != edge.target}
    entrances = [step.id for step in workflow.steps if step.id not in reached]
    return entrances != [workflow.start]
