"""P48: what the check of a workflow says of whom a role gives work to is what happens when it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.history.fold import SWITCH
from logist.core.model import Role, Status, Step, StepType, Workflow
from logist.core.workflow.checking import Around, check_workflow
from logist.errors import InvalidFile
from logist.jobs.base import job_workflows
from logist.jobs.children import spawn
from logist.jobs.steward.role_switch import switch_role
from logist.roles import LoadedRole, Roles
from tests.jobs.bench import Bench, gave
from tests.jobs.conftest import MakeBench
from tests.support import examples

LISTS: dict[str, tuple[str, ...]] = {"Commander": ("Actor",), "Planner": ("Tester",)}
"""Whom the roles of these tests may give work to; the others may to any."""


def roles(b: Bench, lists: dict[str, tuple[str, ...]]) -> Roles:
    """The shipped roles, with these lists and no others, and any output."""
    found = {
        name: LoadedRole(
            each.role.model_copy(
                update={"can_delegate_to_roles": lists.get(name, ()), "output_schema": None}
            ),
            each.path,
        )
        for name, each in b.project.roles.by_name.items()
    }
    return replace(b.project.roles, by_name=found)


def subflow(name: str, role: str = "") -> str:
    return f"{{id: s, stepType: subflow, subflowId: {name}.yaml{f', role: {role}' if role else ''}}}"


def each(role: str = "", name: str = "") -> str:
    by = (f", role: {role}" if role else "") + (f", subflowId: {name}.yaml" if name else ", prompt: x")
    return f"{{id: e, stepType: foreach, itemsPath: input.x, inputMapping: {{input.x: x}}{by}}}"


def task(role: str, reviewer: str = "") -> str:
    return f"{{id: t, prompt: x, role: {role}{f', reviewRole: {reviewer}' if reviewer else ''}}}"


FLOWS: dict[str, tuple[dict[str, str], str, bool]] = {
    "a subflow in another role gives in that one": (
        {"w1": subflow("w2", "Actor"), "w2": each("Tester")}, "Commander", True,
    ),
    "one in the same role does not": ({"w1": subflow("w2"), "w2": each("Tester")}, "Commander", False),
    "one that may less than the job": (
        {"w1": subflow("w2", "Planner"), "w2": each("Actor")}, "Worker", False,
    ),
    "a foreach in another role": ({"w1": each("Actor", "w2"), "w2": each("Tester")}, "Commander", True),
    "a foreach in one that may less": ({"w1": each("Planner", "w2"), "w2": each("Actor")}, "Worker", False),
    "two below": (
        {"w1": subflow("w2", "Actor"), "w2": subflow("w3", "Planner"), "w3": each("Worker")}, "Commander", False,
    ),
    "two below, to one that is listed": (
        {"w1": subflow("w2", "Actor"), "w2": subflow("w3", "Planner"), "w3": each("Tester")}, "Commander", True,
    ),
    "two below, in the role of the job": (
        {"w1": subflow("w2"), "w2": subflow("w3"), "w3": task("Tester")}, "Commander", False,
    ),
    "two below, by each of a list": (
        {"w1": each("Actor", "w2"), "w2": each("Commander", "w3"), "w3": task("Worker")}, "Worker", False,
    ),
    "three below, a reviewer": (
        {"w1": subflow("w2"), "w2": subflow("w3", "Planner"), "w3": subflow("w4"), "w4": task("Tester", "Actor")},
        "Worker", False,
    ),
}  # fmt: skip


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(("written", "role", "fine"), FLOWS.values(), ids=FLOWS)
def test_p48_what_is_refused_at_load_is_what_is_refused_at_run(
    bench: MakeBench, tmp_path: Path, written: dict[str, str], role: str, fine: bool
) -> None:
    b = bench()
    for name, step in written.items():
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\nsteps:\n- {step}\n")
    answers = {"e": [gave()], "e[1]": [gave()], "t": [gave()]}
    free, bound = roles(b, {}), roles(b, LISTS)
    b.change(roles=free)
    for job_id, spec in (("j", {"role": role}), ("k", {"role": "Tester"})):
        b.follow(tmp_path / "w1.yaml", job_id, steps=answers, input={"x": [1]}, review=False, **spec)
    b.change(roles=bound)
    if role != "Tester":
        switch_role(b.project, "k", role)
    for job_id in ("j", "k"):
        b.script(answers)
        b.run(job_id)
        family = [b.state(one) for one in (job_id, *b.children(job_id))]
        refused = [one.reason for one in family if "may not delegate work to" in one.reason]
        assert (b.state(job_id).status is Status.SUCCESS, not refused) == (fine, fine)
    if fine:
        b.follow(tmp_path / "w1.yaml", "new", role=role, input={"x": [1]})
        return
    with pytest.raises(InvalidFile, match="can't be used") as told:
        b.follow(tmp_path / "w1.yaml", "new", role=role, input={"x": [1]})
    assert all("may not delegate work to" in str(error) for error in told.value.details)


NAMES = ("A", "B", "C", "D")
WITHIN = ("one", "two", "three")
NAMED = st.sampled_from((None, *NAMES))


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    """A workflow with three within it, each of which may name those after it."""
    made: dict[str, Workflow] = {}
    for number in reversed(range(len(WITHIN) + 1)):
        steps = []
        for index in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from((StepType.FOREACH, StepType.SUBFLOW, StepType.TASK)))
            inner = draw(st.sampled_from((*WITHIN[number:], None)))
            if inner is None and kind is StepType.SUBFLOW:
                kind = StepType.TASK
            steps.append(
                Step(
                    id=f"s{index}",
                    name="s",
                    step_type=kind,
                    prompt="x",
                    role=draw(NAMED),
                    review_role=draw(NAMED),
                    subflow=inner,
                    items_path="input.x",
                )
            )
        name = ("outer", *WITHIN)[number]
        made[name] = Workflow(name=name, steps=tuple(steps), edges=(), start="s0")
    return made.pop("outer").model_copy(update={"subflows": made})


def loaded(lists: dict[str, tuple[str, ...]]) -> Roles:
    known = {
        name: LoadedRole(
            Role(
                name=name,
                description=name,
                instructions="x",
                llm_model="m",
                can_delegate_to_roles=lists.get(name, ()),
            ),
            Path(name),
        )
        for name in NAMES
    }
    return Roles(known, [], {})


def refused_at_run(flow: Workflow, known: Roles, doer: str, *, switched: str | None = None) -> bool:
    """Whether a job of that role, or one it gives a step to, is refused it by what runs."""
    state: Any = SimpleNamespace(
        agent_role=switched or doer, agent_role_source=SWITCH if switched else "job", step=""
    )
    session: Any = SimpleNamespace(project=SimpleNamespace(roles=known), state=state)
    spec: Any = SimpleNamespace(workflow=flow, doer=doer)
    for step in flow.steps:
        if step.step_type not in (StepType.FOREACH, StepType.SUBFLOW):
            continue
        if spawn._explain_forbidden_role(session, spec, step, step.role):
            return True
        if step.subflow:
            inner = flow.subflows[step.subflow].model_copy(update={"subflows": flow.subflows})
            if refused_at_run(inner, known, step.role or switched or doer):
                return True
    return False


@given(
    workflows(),
    st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=2).map(tuple)),
    st.sampled_from(NAMES),
    NAMED,
)
@settings(max_examples=examples(150), deadline=None)
def test_p48_the_check_says_what_runs(
    flow: Workflow, lists: dict[str, tuple[str, ...]], doer: str, switched: str | None
) -> None:
    known = loaded(lists)
    around: Around = job_workflows.build_check_context(known, switched or doer)
    told = [found for found in check_workflow(flow, around) if found.code == "delegation"]
    assert bool(told) == refused_at_run(flow, known, doer, switched=switched)
