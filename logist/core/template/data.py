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


def build_step_data(spec: EffectiveSpec, state: State | None, step_id: str = "") -> JsonObject:
    """Return the data for a step: the same in its first attempt, its review, and each later attempt.

    `step_id`: the step; empty means the current one.
    """
    outputs = state.outputs if state else {}
    if state is None:
        return _build_data(spec, None, step_id, outputs, outputs, None)
    own_id = step_id or state.step
    start = (state.step_starts or {}).get(own_id)
    outputs_before = outputs if start is None else {**outputs, own_id: start.own_output}
    last_step = find_step_before(state, own_id)
    last = outputs_before.get(last_step) if last_step else None
    data = _build_data(spec, state, own_id, outputs, outputs_before, last)
    return _add_results(data, state.results, state.result_items)


def find_step_before(state: State, step_id: str = "") -> str | None:
    """Return the step whose output was the last one when a step began, the current one by default."""
    start = (state.step_starts or {}).get(step_id or state.step)
    return state.output_of if start is None else start.output_of


def build_data_after_step(
    spec: EffectiveSpec,
    state: State,
    step_id: str,
    output: Any = UNCHANGED,
    results: Any = None,
    items: list[JsonObject] | None = None,
) -> JsonObject:
    """Return the data after a step, for the decisions that follow it. `output`: the output that step `step_id` has
    just produced, which is not in the state yet.

    `results`: the results of the children that have just been collected, and `items` the item of each. Results
    that a steward supplies by hand replace them.
    """
    outputs = dict(state.outputs)
    last = outputs.get(state.output_of) if state.output_of else None
    if not isinstance(output, _Unchanged):
        outputs[step_id] = last = output
        results = to_children_results(spec, step_id, output) if results is None else results
    if results is None:
        results, items = state.results, state.result_items
    return _add_results(_build_data(spec, state, step_id, outputs, outputs, last), results, items)


def _build_data(
    spec: EffectiveSpec,
    state: State | None,
    step_id: str,
    outputs: JsonObject,
    overlaid_outputs: JsonObject,
    last: Any,
) -> JsonObject:
    input_fields = spec.input if isinstance(spec.input, dict) else {}
    data: JsonObject = {
        **input_fields,
        **{name: _tuple_to_list(getattr(spec, name)) for name in FIELDS},
        "input": _overlay_output(_overlay_outputs(spec, overlaid_outputs), last),
        "output": last,
        "steps": {name: {"output": value} for name, value in outputs.items()},
    }
    if state and spec.workflow and (step := spec.workflow.find_step(step_id)):
        data |= number_rounds(spec.workflow, step, state.visits or {})
    if spec.parent is not None:
        data["parentId"] = spec.parent
    return data


def _add_results(data: JsonObject, results: list[Any] | None, items: list[JsonObject] | None) -> JsonObject:
    return data if results is None else {**data, "aggregatedResults": aggregate_results(results, items)}


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
