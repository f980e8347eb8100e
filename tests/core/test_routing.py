"""Where a workflow leads: branches in their order, conditions, suggestions, visits, circles."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.core.machine import routing
from logist.core.machine.event import Onward
from logist.core.machine.routing import Facts, Routed
from logist.core.model import Edge, JsonObject, Step, StepType, Workflow


def flow(*edges: tuple[str, str, Any], decisions: str = "D", **fields: JsonObject) -> Workflow:
    """A workflow of these edges; ids in `decisions` decide, `fields` are more of a step, by its id."""
    names = dict.fromkeys(name for source, target, _ in edges for name in (source, target) if name)
    steps = [
        Step(
            id=name,
            name=f"The {name}",
            step_type=StepType.DECISION if name[0] in decisions else StepType.TASK,
            **fields.get(name, {}),
        )
        for name in names
    ]
    made = tuple(Edge(source=source, target=target, condition=form) for source, target, form in edges)
    return Workflow(name="w", steps=tuple(steps), edges=made, start=edges[0][0])


def facts(output: Any = None, **more: Any) -> Facts:
    return Facts({"output": output, "input": {}, "steps": {}}, **more)


THREE = flow(("a", "D", None), ("D", "b", "output.n >= 80"), ("D", "c", "output.n >= 50"), ("D", "e", None))


@pytest.mark.parametrize(
    ("output", "leads", "told"),
    [
        ({"n": 90}, "b", {"condition": "output.n >= 80", "values": {"output.n": 90}}),
        ({"n": 50}, "c", {"condition": "output.n >= 50", "values": {"output.n": 50}}),
        ({"n": 1}, "e", {"condition": "default", "values": {"output.n": 1}}),
    ],
)
def test_the_first_branch_that_holds_is_taken(output: Any, leads: str, told: JsonObject) -> None:
    routed = routing.route_after_step(THREE, "a", facts(output))
    assert routed.onward.step == leads
    assert routed.route == [{"decision": "D", "branch": leads, **told}]


def test_what_fails_at_run_time_is_not_taken_and_told() -> None:
    routed = routing.route_after_step(THREE, "a", facts({"n": "many"}))
    assert routed.onward.step == "e"
    assert set(routed.route[0]["errors"]) == {"output.n >= 80", "output.n >= 50"}


def test_no_branch_names_the_decision_and_what_it_saw() -> None:
    routed = routing.route_after_step(flow(("a", "D", None), ("D", "b", "output.ok")), "a", facts({"ok": 0}))
    assert routed.onward.step is None
    assert (
        routed.onward.fault
        == "decision 'D': no branch matches and there is no default; values: output.ok = 0"
    )
    assert routed.route[0]["branch"] is None


@pytest.mark.parametrize(
    ("edges", "leads"),
    [
        ([("a", "b", None)], "b"),
        ([("a", "", None)], None),
        ([("b", "a", None)], None),  # nothing leaves it
        ([("a", "b", "output.x"), ("a", "c", None)], "c"),
        ([("a", "b", "output.y"), ("a", "c", None)], "b"),
        ([("a", "D", None), ("D", "", "output.y")], None),
        ([("a", "D", None), ("D", "D2", None), ("D2", "D3", None), ("D3", "z", "output.y")], "z"),
    ],
)
def test_what_follows_a_step(edges: list[tuple[str, str, Any]], leads: str | None) -> None:
    routed = routing.route_after_step(flow(*edges), "a", facts({"y": 1}))
    assert (routed.onward.step, routed.onward.fault) == (leads, "")


def test_decisions_in_a_row_are_all_told() -> None:
    many = [(f"D{number}", f"D{number + 1}", None) for number in range(900)]
    routed = routing.route_after_step(
        flow(("a", "D0", None), *many, ("D900", "z", "output")), "a", facts("x")
    )
    assert routed.onward.step == "z"
    assert [told["decision"] for told in routed.route] == [f"D{number}" for number in range(901)]


@pytest.mark.parametrize(
    ("form", "leads", "skips"), [(True, "b", 0), ("output.go", "b", 0), (False, "c", 1), ("output.x", "c", 1)]
)
def test_a_step_whose_condition_does_not_hold_is_passed_over(form: Any, leads: str, skips: int) -> None:
    way = flow(("a", "b", None), ("b", "c", None), b={"when": form})
    routed = routing.route_after_step(way, "a", facts({"go": True}))
    assert (routed.onward.step, len(routed.route)) == (leads, skips)
    assert routing.enter_step(way, "b", facts({"go": True})).onward.step == leads


def test_passing_over_the_last_step_is_the_end() -> None:
    way = flow(("a", "b", None), b={"when": False})
    assert routing.route_after_step(way, "a", facts()) == Routed(
        Onward(None), [{"skipped": "b", "condition": "never"}]
    )


@pytest.mark.parametrize(
    ("suggestion", "output", "leads", "by"),
    [
        ("c", {"n": 1}, "c", "c"),
        (" THE C ", {"n": 1}, "c", " THE C "),
        ("a", {"n": 1}, "e", None),
        ("", {"n": 1}, "e", None),
        (None, {"n": 1}, "e", None),
        ("e", {"n": 90}, "b", None),
    ],
)
def test_a_suggestion_counts_where_no_condition_holds(
    suggestion: str | None, output: Any, leads: str, by: str | None
) -> None:
    routed = routing.route_after_step(THREE, "a", facts(output, suggestion=suggestion))
    assert (routed.onward.step, routed.route[0].get("suggested")) == (leads, by)


CIRCLE = flow(("a", "D", None), ("D", "a", "output.again"), ("D", "z", None), D={"max_visits": 2})


@pytest.mark.parametrize(("visits", "leads"), [(0, "a"), (1, "a"), (2, "z"), (3, "z")])
def test_a_decision_takes_its_default_after_its_visits(visits: int, leads: str) -> None:
    known = facts({"again": True}, visits={"D": visits})
    assert routing.route_after_step(CIRCLE, "a", known).onward.step == leads


def test_no_suggestion_leads_round_again_after_the_visits() -> None:
    known = facts({}, visits={"D": 2}, suggestion="a")
    assert routing.route_after_step(CIRCLE, "a", known).onward.step == "z"


def test_a_circle_without_a_task_is_left_after_its_visits() -> None:
    way = flow(
        ("a", "D", None), ("D", "D2", "output"), ("D", "z", None), ("D2", "D", None), D={"max_visits": 3}
    )
    routed = routing.route_after_step(way, "a", facts(True))
    assert (routed.onward.step, routed.onward.fault) == ("z", "")
    assert [told["branch"] for told in routed.route] == ["D2", "D", "D2", "D", "D2", "D", "z"]


@pytest.mark.parametrize("most", [None, 10**9])
def test_a_circle_that_never_ends_is_told(most: int | None) -> None:
    way = flow(
        ("a", "D", None), ("D", "D2", None), ("D2", "D", None), D2={"max_visits": most} if most else {}
    )
    routed = routing.route_after_step(way, "a", facts())
    assert routed.onward.step is None
    assert "endless loop: the decisions around 'D' lead back without doing a step" in routed.onward.fault


def test_a_condition_that_does_not_compile_does_not_hold() -> None:
    verdict = routing.judge_condition("output. >", facts())
    assert not verdict.taken
    assert verdict.error


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abDEFz"), st.sampled_from("abDEFz"), st.sampled_from([None, "output", False])
        ),
        min_size=1,
    )
)
def test_every_walk_ends(edges: list[tuple[str, str, Any]]) -> None:
    way = flow(*edges, decisions="DEF")
    for step in way.steps:
        for routed in (
            routing.enter_step(way, step.id, facts(True)),
            routing.route_after_step(way, step.id, facts(True)),
        ):
            found = way.find_step(routed.onward.step or "")
            assert found is None or found.step_type is StepType.TASK
            assert not (routed.onward.fault and found)
