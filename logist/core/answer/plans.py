"""Plans: a role that may not change files writes one, and another role carries it out after approval.

Listings read plans from state.json, so this module doesn't need the models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

AWAITED = ("end", "review")
"""Approvals that a plan can wait for."""
_SHOWN = ("goal", "steps", "risks")


def find_plan_carrier(maker: str, *, approved: bool, doer: str) -> str | None:
    """Return the role that carries out a plan of the role `maker` after approval; None if there is none.

    Only another role carries it out: either the steward switched to that role, or the maker was chosen for a
    single step. If there is none, the plan itself is the result.
    """
    return doer if not approved and doer != maker else None


def find_waiting_plan(state: dict[str, Any]) -> dict[str, Any] | None:
    """Return the plan that waits for approval, from a state as in state.json.

    None if the job waits for something else.
    """
    plan = state.get("plan")
    waits = state["status"] == "APPROVAL_REQUIRED" and state["awaiting"] in AWAITED
    return plan if waits and isinstance(plan, dict) and not plan["approved"] else None


def is_plan(output: Any) -> bool:
    """Whether an output has the form that the role Planner requires: an object with `steps`."""
    steps = output.get("steps") if isinstance(output, dict) else None
    return isinstance(steps, list) and bool(steps) and all(isinstance(step, str | dict) for step in steps)


def render_plan_lines(output: Any) -> list[str]:
    """Format a plan for people. Output that is not a plan is formatted as text, or as indented JSON."""
    if isinstance(output, str):
        return output.strip().splitlines()
    if not is_plan(output):
        return json.dumps(output, ensure_ascii=False, indent=2).splitlines()
    return [
        *_render_goal(output),
        *_render_steps(output["steps"]),
        *_render_risks(output.get("risks")),
        *_render_other_fields(output),
    ]


def _render_goal(plan: dict[str, Any]) -> Iterator[str]:
    if plan.get("goal"):
        yield f"goal: {_to_one_line(plan['goal'])}"


def _render_steps(steps: list[Any]) -> Iterator[str]:
    for number, step in enumerate(steps, 1):
        if isinstance(step, str):
            yield f"{number}. {_to_one_line(step)}"
            continue
        yield f"{step.get('step_number', number)}. {_to_one_line(step.get('action', '(no action)'))}"
        details = {name: value for name, value in step.items() if name not in ("step_number", "action")}
        for name, value in details.items():
            yield f"   {_to_one_line(name).replace('_', ' ')}: {_to_one_line(value)}"


def _render_risks(risks: Any) -> Iterator[str]:
    if not risks:
        return
    yield "risks:"
    for risk in risks if isinstance(risks, list) else [risks]:
        yield f"- {_to_one_line(risk)}"


def _render_other_fields(plan: dict[str, Any]) -> Iterator[str]:
    for name, value in plan.items():
        if name not in _SHOWN:
            yield f"{_to_one_line(name)}: {_to_one_line(value)}"


def _to_one_line(value: Any) -> str:
    """Put a value on one line: text as it is, lists of texts with commas, everything else as JSON."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = ", ".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())
