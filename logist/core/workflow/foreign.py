"""Read workflows of agent-guidance servers: a sequence of steps with conditions, loops and blocks of prompt.

They load without any change; what has no counterpart in Logist is kept and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import pairwise
from typing import Any

from logist.core.model import END, JsonObject, Step, Workflow
from logist.core.text.field_problems import show_value
from logist.core.workflow.assembly import Assembly
from logist.core.workflow.foreign_words import (
    find_variables,
    is_name,
    join_prompt_blocks,
    translate_condition,
    translate_confirmation,
    translate_path,
)
from logist.core.workflow.places import Place, Read, make_problem
from logist.core.workflow.shapes import DEFAULT
from logist.core.workflow.spelling import SPELLINGS
from logist.core.workflow.steps import KEPT, StepRead, read_step
from logist.quick_dataclass import dataclass

_TOP = frozenset({"metaGuidance", "preconditions", "clarificationPrompts", "functionDefinitions"})
_STEP = frozenset(
    {"title", "requireConfirmation", "runCondition", "promptBlocks", "loop", "templateCall", "askForFiles"}
)
_OURS = frozenset(
    written for written, name in SPELLINGS.items() if name in {"stepType", "branches", "next", "execution"}
)
_CONTINUE: JsonObject = {"var": "output.decision", "equals": "continue"}
"""Condition of a loop that an agent ends: the artifact `loop_control` has this field."""
_MAX_ITERATIONS = 100
_LOOP = frozenset(
    {
        "type",
        "condition",
        "conditionSource",
        "count",
        "items",
        "maxIterations",
        "iterationVar",
        "itemVar",
        "indexVar",
    }
)
_ITERATION, _ITEM, _INDEX = "currentIteration", "currentItem", "currentIndex"
"""Names of the variables of a loop that does not name them."""


def is_foreign(data: JsonObject) -> bool:
    """Whether a list of steps uses the field names of an agent-guidance server, and none of ours."""
    steps = [step for step in data["steps"] if isinstance(step, dict)]
    if any(step.keys() & _OURS for step in steps):
        return False
    return bool(data.keys() & _TOP) or any(step.keys() & _STEP for step in steps)


def read_foreign(
    steps: list[Any], lines: Mapping[str, int], prefix: str, name: str, description: str
) -> Read:
    """Return the sequence as a graph; the bodies of its forEach loops become separate workflows."""
    reader = _ForeignReader(lines, name)
    reader.read_sequence(_list_raw_steps(steps, f"{prefix}steps"))
    reader.warn_of_unset_variables()
    assembly = reader.assembly
    first = assembly.steps[0].id if assembly.steps else None
    return assembly.finish_workflow(
        name, description, reader.first or first, subflows=reader.subflows, foreign=True
    )


@dataclass(frozen=True)
class _Raw:
    path: str
    data: Any


@dataclass(frozen=True)
class _Segment:
    """A part of the sequence: the step it begins with, and the step that leads on from it."""

    first: str
    last: str


@dataclass
class _ForeignReader:
    lines: Mapping[str, int]
    name: str
    assembly: Assembly = field(init=False)
    subflows: dict[str, Workflow] = field(default_factory=dict)
    first: str | None = None
    given: frozenset[str] = frozenset()
    """Variables of the forEach loops around this sequence."""
    loop_names: set[str] = field(default_factory=lambda: {_ITERATION, _ITEM, _INDEX})
    """Every name of a variable that a loop of the file sets."""
    inner: list[_ForeignReader] = field(default_factory=list)
    reported: int = 0
    """How many of its problems the reader around it has taken over."""

    def __post_init__(self) -> None:
        self.assembly = Assembly(self.lines)

    def read_sequence(self, raws: list[_Raw]) -> _Segment | None:
        """Read the steps one after the other, without those that are only the body of a loop."""
        bodies = {
            raw.data["body"] for raw in raws if _is_loop(raw.data) and isinstance(raw.data["body"], str)
        }
        by_id = {raw.data["id"]: raw for raw in raws if isinstance(raw.data, dict) and _has_id(raw.data)}
        segments = [
            segment
            for raw in raws
            if not (isinstance(raw.data, dict) and _has_id(raw.data) and raw.data["id"] in bodies)
            if (segment := self._read_segment(raw, by_id))
        ]
        for before, after in pairwise(segments):
            self._link_steps(before.last, after.first)
        if not segments:
            return None
        self.first = self.first or segments[0].first
        self._add_way_out(segments[-1].last)
        return _Segment(segments[0].first, segments[-1].last)

    def _add_way_out(self, last: str) -> None:
        """Add an edge to the end if the last step is a decision.

        Inside a loop, the loop replaces that edge.
        """
        if self._is_loop_end(last):
            self._link_steps(last, END)

    def _link_steps(self, source: str, target: str) -> None:
        label = DEFAULT if self._is_loop_end(source) else None
        self.assembly.add_edge(source, target, self._locate_step(source), label=label)

    def _is_loop_end(self, step_id: str) -> bool:
        return self.assembly.forms[step_id].step_type == "decision"

    def _read_segment(self, raw: _Raw, by_id: Mapping[str, _Raw]) -> _Segment | None:
        if not _is_loop(raw.data):
            step = self.assembly.add_step(self._read_step(raw), raw.path)
            return _Segment(step.id, step.id) if step else None
        body = self._find_body(raw, by_id)
        for key in sorted(raw.data["loop"].keys() - _LOOP):
            self._add_warning(raw, f"unknown field `{key}` of the loop: it is kept but has no effect")
        if raw.data["loop"].get("type") == "forEach":
            return self._read_for_each(raw, body)
        return self._read_while(raw, body)

    def _read_step(self, raw: _Raw, **given: Any) -> StepRead:
        return read_step(_translate_step(raw.data), raw.path, self.lines, lenient=True, given=given)

    def _find_body(self, raw: _Raw, by_id: Mapping[str, _Raw]) -> list[_Raw]:
        body = raw.data["body"]
        if isinstance(body, list):
            return _list_raw_steps(body, f"{raw.path}.body")
        if body in by_id:
            return [by_id[body]]
        place = (f"{raw.path}.body", self.lines.get(f"{raw.path}.body"))
        message = f"the loop's body `{body}` is not a step"
        self.assembly.problems.append(make_problem("error", "unknown_step", message, place))
        self.assembly.whole = False
        return []

    def _read_for_each(self, raw: _Raw, body: list[_Raw]) -> _Segment | None:
        loop = raw.data["loop"]
        item, index = loop.get("itemVar") or _ITEM, self._choose_variable(raw, "indexVar", _INDEX)
        number = self._choose_variable(raw, "iterationVar", _ITERATION)
        names = {str(item), index, number}
        self.loop_names |= names
        inner = _ForeignReader(
            self.lines,
            f"{self.name}#{raw.data.get('id')}",
            given=self.given | names,
            loop_names=self.loop_names,
        )
        self.inner.append(inner)
        inner.read_sequence(body)
        inner_read = inner.assembly.finish_workflow(inner.name, "", inner.first, foreign=True)
        self.assembly.problems.extend(inner_read.problems)
        inner.reported = len(inner_read.problems)
        step_fields = {
            "stepType": "foreach",
            "itemsPath": translate_path(str(loop.get("items", ""))),
            "itemVariable": item,
            "indexVariable": index if index != "index" else None,
            "numberVariable": number,
            "maxItems": _to_positive_int(loop.get("maxIterations")) or _MAX_ITERATIONS,
            "subflowId": inner.name,
        }
        step = self.assembly.add_step(self._read_step(raw, **step_fields), raw.path)
        if step is None or inner_read.workflow is None:
            self.assembly.whole = False
            return None
        self.subflows |= {**inner.subflows, inner.name: inner_read.workflow}
        return _Segment(step.id, step.id)

    def _read_while(self, raw: _Raw, body: list[_Raw]) -> _Segment | None:
        """Read a loop as a decision with an edge back: after the body if an agent ends the loop, else before
        it.
        """
        loop = raw.data["loop"]
        condition, after = self._read_condition(raw)
        times = _get_max_rounds(loop)
        step_fields: JsonObject = {"stepType": "decision", **({"asksAfter": True} if after else {})}
        if not after or times > 1:
            step_fields["maxVisits"] = times - after
        step = self.assembly.add_step(self._read_step(raw, **step_fields), raw.path)
        outer, begin = self.first, len(self.assembly.steps)
        inside = self.read_sequence(body)
        self.first = outer
        self._count_rounds(raw, step, begin)
        if step is None or inside is None:
            self.assembly.whole = False
            return None
        place = self._locate_step(step.id)
        self._remove_way_out(inside.last)
        self._link_steps(inside.last, step.id)
        if not after or times > 1:
            self.assembly.add_edge(step.id, inside.first, place, condition)
        return _Segment(inside.first if after else step.id, step.id)

    def _remove_way_out(self, last: str) -> None:
        """Remove the edge to the end that the body's last decision got."""
        edges = self.assembly.edges
        if edges and (edges[-1].source, edges[-1].target) == (last, END):
            edges.pop()
            self.assembly.edge_places.pop()

    def _read_condition(self, raw: _Raw) -> tuple[Any, bool]:
        """Return the condition for another round, and whether it is checked only after a first round."""
        loop = raw.data["loop"]
        source = loop.get("conditionSource")
        condition = source.get("condition") if isinstance(source, dict) else loop.get("condition")
        by_contract = isinstance(source, dict) and source.get("kind") == "artifact_contract"
        if by_contract or (isinstance(condition, dict) and "artifact" in condition):
            self._add_warning(
                raw, "an agent ends this loop: it continues while `output.decision` is `continue`"
            )
            return _CONTINUE, True
        if loop.get("type") == "for":
            if _to_positive_int(loop.get("count")) is None:
                self._add_warning(
                    raw,
                    f"`count` is not a number: the loop runs {_get_max_rounds(loop)} times (maxIterations)",
                )
            return True, False
        if condition is None:
            self._add_warning(raw, "the loop has no condition: it runs until maxIterations")
            return True, False
        own = translate_condition(condition)
        return ({"unless": own} if loop.get("type") == "until" else own), False

    def _count_rounds(self, raw: _Raw, decision: Step | None, begin: int) -> None:
        """Give the round number to the decision and to the steps of its body, which are those from `begin`
        on.
        """
        names = dict.fromkeys((_ITERATION, self._choose_variable(raw, "iterationVar", _ITERATION)))
        self.loop_names |= names.keys()
        steps = self.assembly.steps
        for number, step in enumerate(steps):
            if decision is not None and (number >= begin or step is decision):
                rounds = {
                    **dict.fromkeys(names, decision.id),
                    **step.rounds,
                }  # the innermost loop takes precedence
                steps[number] = step.model_copy(update={"rounds": rounds})

    def _choose_variable(self, raw: _Raw, key: str, default: str) -> str:
        """Return the name of a variable of a loop."""
        name = raw.data["loop"].get(key)
        if name is None or name == "" or name == default:
            return default
        if is_name(name) or (key, name) == ("indexVar", "index"):
            return str(name)
        self._add_warning(
            raw, f"`{key}` can't be {show_value(name)}: the variable is called `{default}` instead"
        )
        return default

    def warn_of_unset_variables(self) -> None:
        """Warn of conditions that read the variable of a loop where that loop does not set it."""
        steps = {step.id: step for step in self.assembly.steps}
        conditions = [(step, form, "when") for step in steps.values() for form in (step.when, step.confirm)]
        conditions += [(steps[edge.source], edge.condition, "loop") for edge in self.assembly.edges]
        for step, form, field_name in conditions:
            unset = {*find_variables(form)} & (self.loop_names - self.given - step.rounds.keys())
            for name in sorted(unset):
                path = f"{self.assembly.paths[step.id]}.{'runCondition' if field_name == 'when' else 'loop'}"
                message = (
                    f"a condition of `{step.id}` reads `{name}`, which a loop sets only for its own steps"
                )
                place = (path, self.assembly.find_line(path))
                self.assembly.problems.append(make_problem("warning", "loop", message, place))
        for inner in self.inner:
            inner.warn_of_unset_variables()
            self.assembly.problems.extend(inner.assembly.problems[inner.reported :])
            inner.reported = len(inner.assembly.problems)

    def _add_warning(self, raw: _Raw, message: str) -> None:
        place = (f"{raw.path}.loop", self.lines.get(f"{raw.path}.loop"))
        self.assembly.problems.append(make_problem("warning", "loop", message, place))

    def _locate_step(self, step_id: str) -> Place:
        path = self.assembly.paths[step_id]
        return path, self.assembly.find_line(path)


def _list_raw_steps(steps: list[Any], path: str) -> list[_Raw]:
    return [_Raw(f"{path}[{number}]", step) for number, step in enumerate(steps)]


def _has_id(step: JsonObject) -> bool:
    return isinstance(step.get("id"), str)


def _is_loop(step: Any) -> bool:
    """Whether the step is a loop that Logist can follow; anything else is a step like others."""
    return (
        isinstance(step, dict)
        and step.get("type") == "loop"
        and isinstance(step.get("loop"), dict)
        and isinstance(step.get("body"), str | list)
        and bool(step["body"])
    )


def _translate_step(step: Any) -> Any:
    """Return the step with its confirmation and its blocks of prompt in our terms."""
    return dict(_translate_fields(step)) if isinstance(step, dict) else step


def _translate_fields(step: JsonObject) -> Iterator[tuple[str, Any]]:
    blocks = step.get("promptBlocks")
    prompt = join_prompt_blocks(blocks) if isinstance(blocks, dict) and not step.get("prompt") else ""
    used = {"loop", "body", "type"} if _is_loop(step) else {"promptBlocks"} if prompt else set()
    for key, value in step.items():
        if key == "requireConfirmation":
            yield from translate_confirmation(value).items()
        elif key == "runCondition":
            yield key, translate_condition(value)
        elif key not in used:
            yield key, value
    if prompt:
        yield "prompt", prompt
    if kept := {key: step[key] for key in used & {"loop", "promptBlocks"}}:
        yield KEPT, kept


def _to_positive_int(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 6:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _get_max_rounds(loop: JsonObject) -> int:
    """Return how often a loop may run."""
    most = _to_positive_int(loop.get("maxIterations")) or _MAX_ITERATIONS
    count = _to_positive_int(loop.get("count")) if loop.get("type") == "for" else None
    return min(most, count) if count else most
