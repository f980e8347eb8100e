"""Build the data for templates and conditions: one object from the spec and the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from logist.core.model import EffectiveSpec, JsonObject, State, Step, StepType, Workflow

FIELDS = ("title", "prompt", "description", "acceptance_criteria", "task_type", "tags")
"""The fields of the task that are part of the data."""


class _Unchanged:
    """The type of UNCHANGED, which means that no step has just ended."""


UNCHANGED: Final = _Unchanged()


def build_step_data(
    spec: EffectiveSpec,
    state: State | None,
    step_id: str = "",
    output: Any = UNCHANGED,
    results: Any = None,
    items: list[JsonObject] | None = None,
) -> JsonObject:
    """Return the data at a step. `output`: the output that step `step_id` has just produced, which is not in the
    state yet.

    `results`: the results of the children that have just been collected, and `items` the item of each. Results
    that a steward supplies by hand replace them.
    """
    outputs = dict(state.outputs) if state else {}
    last = outputs.get(state.output_of) if state and state.output_of else None
    if output is not UNCHANGED:
        outputs[step_id] = last = output
        results = to_children_results(spec, step_id, output) if results is None else results
    if results is None and state is not None:
        results, items = state.results, state.result_items
    input_fields = spec.input if isinstance(spec.input, dict) else {}
    data: JsonObject = {
        **input_fields,
        **{name: _tuple_to_list(getattr(spec, name)) for name in FIELDS},
        "input": _overlay_output(_overlay_outputs(spec, outputs), last),
        "output": last,
        "steps": {name: {"output": value} for name, value in outputs.items()},
    }
    if state and spec.workflow and (step := spec.workflow.find_step(step_id or state.step)):
        data |= number_rounds(spec.workflow, step, state.visits or {})
    if spec.parent is not None:
        data["parentId"] = spec.parent
    if results is not None:
        data["aggregatedResults"] = aggregate_results(results, items)
    return data


def number_rounds(flow: Workflow, step: Step, visits: Mapping[str, int]) -> JsonObject:
    """Return the number of the current round of each loop around a step, by variable name; `visits` is the number of
    visits of each decision.
    """
    return {name: visits.get(loop, 0) + _asks_after(flow, loop) for name, loop in step.rounds.items()}


def _asks_after(flow: Workflow, decision: str) -> bool:
    step = flow.find_step(decision)
    return step is not None and step.asks_after


def aggregate_results(results: Sequence[Any], items: Sequence[JsonObject] | None) -> list[JsonObject]:
    """Return the results of the children, each with its item if the items are known."""
    if items is None or len(items) != len(results):
        return [{"output": each} for each in results]
    return [{"output": each, **item} for each, item in zip(results, items, strict=True)]


def to_children_results(spec: EffectiveSpec, step_id: str, output: Any) -> list[Any] | None:
    """Return the output that a steward supplies for a step of child jobs, as their results; None for other steps."""
    step = spec.workflow.find_step(step_id) if spec.workflow else None
    if step is None or step.step_type not in (StepType.FOREACH, StepType.SUBFLOW):
        return None
    if step.step_type is StepType.FOREACH and (output is None or isinstance(output, list)):
        return output or []
    return [output]


def _overlay_outputs(spec: EffectiveSpec, outputs: JsonObject) -> Any:
    """Return the input; in workflows of other programs, variables keep their values, so all outputs are merged into
    it.
    """
    known = spec.input
    for given in outputs.values() if spec.workflow and spec.workflow.foreign else ():
        known = _overlay_output(known, given)
    return known


def _tuple_to_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _overlay_output(given: Any, last: Any) -> Any:
    """Return the workflow's input, overridden by the last task's output."""
    if isinstance(given, dict) or given is None:
        return {**(given or {}), **(last if isinstance(last, dict) else {})}
    return last if isinstance(last, dict) else given
