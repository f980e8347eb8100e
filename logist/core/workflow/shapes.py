"""Convert between nodes of a diagram and steps: the prefix of the label decides, else the shape."""

from __future__ import annotations

import re

from logist.core.mermaid.graph import Node, Shape
from logist.core.model import Execution, JsonObject, Step, StepType

DEFAULT = "default"
DEFAULTS = frozenset({DEFAULT, "else", "otherwise"})
"""Labels of an edge that is taken if no other is."""

_PREFIX = re.compile(r"(Each|Run|Join)\s*:\s*", re.IGNORECASE)
_JOIN = re.compile(r"join\b", re.IGNORECASE)
_BREAK = re.compile(r"\s*<br\s*/?>\s*|\s*\n\s*", re.IGNORECASE)
_TYPES = {"each": "foreach", "run": "subflow", "join": "join"}
_BY_SHAPE: dict[Shape, JsonObject] = {
    "round": {"execution": "manual"},
    "circle": {"execution": "manual"},
    "diamond": {"stepType": "decision"},
    "hexagon": {"external": True},
}
_MANUAL: JsonObject = {"execution": "manual"}


def read_node(node: Node) -> JsonObject:
    """Return what a node says about its step: the name, and the type, the execution or the other workflow."""
    label = _BREAK.sub(" ", node.label).strip()
    if prefix := _PREFIX.match(label):
        kind, name = _TYPES[prefix[1].lower()], label[prefix.end() :].strip()
        fields: JsonObject = {"name": name or node.id, "stepType": kind}
        return fields | ({"subflowId": name} if kind == "subflow" and name else {})
    if node.shape == "square" and _JOIN.match(label):
        return {"name": label, "stepType": "join"}
    return {"name": label or node.id, **_BY_SHAPE.get(node.shape, {})}


def is_default_word(text: object) -> bool:
    """Whether a label, or a condition that is text, only says that this edge is taken if no other is."""
    return isinstance(text, str) and text.strip().lower() in DEFAULTS


def is_end(node: Node) -> bool:
    """Whether the node is not a step but the end: `(((x)))`."""
    return node.shape == "doublecircle"


def choose_shape(step: Step) -> tuple[Shape, str]:
    """Return the shape and the label that describe the step, so that `read_node` reads the same."""
    name = step.name
    if step.step_type == StepType.DECISION:
        return "diamond", name
    if step.step_type == StepType.FOREACH:
        return "subroutine", f"Each: {name}"
    if step.step_type == StepType.SUBFLOW:
        return "subroutine", f"Run: {name}"
    if step.step_type == StepType.JOIN:
        return "square", name if _JOIN.match(name) and not _PREFIX.match(name) else f"Join: {name}"
    if step.external:
        return "hexagon", name
    return ("round" if step.execution == Execution.MANUAL else "square"), name
