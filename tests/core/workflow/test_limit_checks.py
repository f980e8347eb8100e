"""Warnings about limits that can't be enough, whatever the agents do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from logist.core.model import Edge, ItemLimits, Limits, Step, StepType, Workflow
from logist.core.workflow.limit_checks import Allowance, check_limits, check_size
from logist.core.workflow.places import Places


def flow(*steps: Step, edges: tuple[tuple[str, str], ...] | None = None) -> Workflow:
    """The steps one after the other, or along these edges."""
    ids = [step.id for step in steps]
    pairs = itertools.pairwise(ids) if edges is None else edges
    made = tuple(Edge(source=source, target=target) for source, target in pairs)
    return Workflow(name="w", steps=steps, edges=made, start=ids[0])


def task(step_id: str, **fields: Any) -> Step:
    return Step(id=step_id, name=step_id, **fields)


def each(**fields: Any) -> Step:
    return task("each", **{"step_type": StepType.FOREACH, "items_path": "input.parts", **fields})


def warnings(
    workflow: Workflow, runs: int = 50, given: Any = None, *, review: bool = True, **limits: Any
) -> list[str]:
    allowance = Allowance(Limits(max_allowed_iterations=runs, **limits), review, given)
    found = [*check_limits(workflow, workflow.subflows, allowance, Places())]
    assert {(each.severity, each.code) for each in found} <= {("warning", "limits")}
    return [each.message for each in found]


REVIEWED = flow(task("a", review=True), task("b"), task("c", execution="manual"))


def test_the_fewest_runs_are_those_of_the_cheapest_way() -> None:
    (message,) = warnings(REVIEWED, 2)
    assert message == "this workflow needs limits.max_allowed_iterations of at least 3, but it is 2"
    assert warnings(REVIEWED, 3) == []
    assert warnings(REVIEWED, 2, review=False) == []
    skipped = flow(task("a"), task("b", when="input.b"), task("c"))
    assert warnings(skipped, 2) == []
    decision = task("d", step_type=StepType.DECISION)
    short = flow(
        task("a"), decision, task("b"), task("c"), edges=(("a", "d"), ("d", "b"), ("b", "c"), ("d", "c"))
    )
    assert warnings(short, 2) == []
    assert len(warnings(short, 1)) == 1
    circle = flow(task("a"), decision, edges=(("a", "d"), ("d", "a"), ("d", "")))
    assert warnings(circle, 1) == []


@pytest.mark.parametrize(("runs", "count"), [(7, 1), (8, 0)])
def test_items_that_the_input_has_are_counted(runs: int, count: int) -> None:
    workflow = flow(each(review=True), task("join", step_type=StepType.JOIN))
    given = {"parts": [1, 2, 3]}
    assert len(warnings(workflow, runs - 1, given)) == count
    assert warnings(workflow, 2) == []
    half = flow(each(review=True, min_success_percent=50), task("join", step_type=StepType.JOIN))
    assert warnings(half, 5, given) == []


def test_a_limit_of_an_item_that_leaves_no_review() -> None:
    (message,) = warnings(flow(each(review=True, item_limits=ItemLimits(max_allowed_iterations=1))))
    assert message == "an item of `each` needs at least 2 runs, but its itemLimits allow 1"
    assert warnings(flow(each(item_limits=ItemLimits(max_allowed_iterations=1)))) == []
    assert warnings(flow(each(review=True, item_limits=ItemLimits(cost_threshold=5)))) == []
    (message,) = warnings(flow(each(item_limits=ItemLimits(cost_threshold=0))))
    assert "`cost_threshold` of the itemLimits of `each` is 0" in message


def test_as_many_items_as_the_author_allows() -> None:
    (message,) = warnings(flow(each(items_path="output.parts", max_items=40, review=True)))
    assert (
        message == "`each` may have 40 items of at least 2 runs each, but limits.max_allowed_iterations is 50"
    )
    assert warnings(flow(each(items_path="output.parts", max_items=25, review=True))) == []
    assert warnings(flow(each(items_path="output.parts", review=True))) == [], "nobody said that many"
    assert warnings(flow(each(max_items=40, review=True)), given={"parts": [1]}) == []


def test_workflows_within_it_count() -> None:
    inner = flow(task("x"), task("y", review=True))
    outer = flow(task("a"), task("s", step_type=StepType.SUBFLOW, subflow="inner"))
    outer = outer.model_copy(update={"subflows": {"inner": inner}})
    assert len(warnings(outer, 3)) == 1
    assert warnings(outer, 4) == []
    items = flow(each(subflow="inner", item_limits=ItemLimits(max_allowed_iterations=2)))
    items = items.model_copy(update={"subflows": {"inner": inner}})
    assert warnings(items) == ["an item of `each` needs at least 3 runs, but its itemLimits allow 2"]
    itself = flow(task("s", step_type=StepType.SUBFLOW, subflow="w"))
    itself = itself.model_copy(update={"subflows": {"w": itself}})
    assert warnings(itself, 0) == []


def test_workflows_that_name_each_other_many_times_are_looked_at_once() -> None:
    """Ten steps in each of twelve layers are a million million ways down."""
    many = [task(f"s{number}", step_type=StepType.SUBFLOW, subflow="next") for number in range(10)]
    inner = {
        str(layer): flow(*(step.model_copy(update={"subflow": str(layer + 1)}) for step in many))
        for layer in range(12)
    }
    inner["12"] = flow(task("x"))
    (message,) = warnings(inner["0"].model_copy(update={"subflows": inner}))
    assert "needs limits.max_allowed_iterations of at least 1000000000000, but it is 50" in message


def test_a_limit_of_zero_lets_nobody_be_asked() -> None:
    assert warnings(REVIEWED, cost_threshold=0) == ["limits.cost_threshold is 0, so no agent can run"]
    assert warnings(flow(task("a", execution="manual")), 0, cost_threshold=0) == []


def test_a_workflow_inside_has_the_same_limit() -> None:
    inner = flow(*(task(f"s{number}") for number in range(4)))
    outer = flow(task("a", step_type=StepType.SUBFLOW, subflow="In")).model_copy(
        update={"subflows": {"In": inner}}
    )
    for most, expected in ((4, []), (3, ["the workflow `In` has 4 steps; the limit is 3"])):
        found = check_size(outer, outer.subflows, Allowance(Limits(), max_steps=most), Places())
        assert [each.message for each in found] == expected


class Counting(tuple[Any, ...]):
    """Counts how often somebody goes through all items."""

    passes = 0

    def __iter__(self) -> Iterator[Any]:
        type(self).passes += 1
        return super().__iter__()


def test_a_long_workflow_is_not_searched_again_for_each_step() -> None:
    steps = Counting(task(f"s{number}") for number in range(50))
    edges = Counting(flow(*steps).edges)
    workflow = flow(*steps).model_copy(update={"steps": steps, "edges": edges})
    Counting.passes = 0
    assert list(check_limits(workflow, {}, Allowance(Limits(max_allowed_iterations=50)), Places())) == []
    assert Counting.passes < 10
    assert workflow.find_step("s7") is steps[7]
    assert workflow.find_step("s50") is None
    assert workflow.find_edges_from("s7") == [edges[7]]


def test_a_copy_with_other_steps_has_its_own() -> None:
    workflow = flow(task("a"), task("b"))
    assert workflow.find_step("a")
    changed = workflow.model_copy(update={"steps": (task("a", prompt="New."),), "edges": ()})
    assert changed.find_step("a") == task("a", prompt="New.")
    assert (changed.find_step("b"), changed.find_edges_from("a")) == (None, [])
