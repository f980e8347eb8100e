"""A foreach whose role is a template: each item is done by the role that it names, if it may be given that."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from logist.core.history.workflow_state import ASSIGNEE
from logist.core.model import Doer, Kind, Status
from logist.core.model.commands import ApproveCommand, ResubmitCommand
from logist.core.whatif.rules import ChangedRules
from logist.errors import InvalidFile
from logist.jobs.archive.archive_replay import replay_file
from logist.jobs.steward.role_switch import switch_role
from logist.jobs.steward.steward_decisions import record_decision, restep_job
from tests.jobs.bench import PLAN, Bench, Json, gave
from tests.jobs.conftest import MakeBench
from tests.replay.test_fixtures import SCHEMA

PLAN_STEP: Json = {"id": "plan", "role": "Commander", "prompt": "Cut it up."}
WORK: Json = {
    "id": "work",
    "stepType": "foreach",
    "itemsPath": "output.assignments",
    "role": "{{item.role}}",
    "prompt": "{{item.task}}",
}
JOIN: Json = {"id": "judge", "stepType": "join", "prompt": "Judge {{aggregatedResults}}."}


def assigned(*roles: Any) -> Json:
    """What a Commander gives: an assignment for each of these roles."""
    parts = [
        {"number": number, "role": role, "task": f"Part {number}."} for number, role in enumerate(roles, 1)
    ]
    return gave({"goal": "g", "assignments": parts})


def named(value: Any) -> Json:
    """Any output of a step that has no schema."""
    return gave({"assignments": value})


def follow(b: Bench, place: Path, *answers: Json, steps: Any = None, **spec: Any) -> Any:
    """The job `j`, run as far as it goes; the answers are those at `plan`."""
    flow = {"name": "dispatch", "steps": steps or [PLAN_STEP, WORK, JOIN]}
    (place / "dispatch.json").write_text(json.dumps(flow), "utf-8")
    done = {"work[1]": [gave(PLAN)] * 2, "work[2]": [gave({"n": 2})] * 2, "judge": [gave("fine")]}
    b.follow(place / "dispatch.json", steps={"plan": list(answers), **done}, review=False, **spec)
    b.run()
    return b.state()


def doers(b: Bench) -> list[str]:
    """The roles of the agents that were asked for the items."""
    asked = [[each for each in b.history(child) if each.kind is Kind.ASK] for child in b.children()]
    return [entries[0].observed.role for entries in asked if entries and entries[0].observed]


def test_each_item_is_done_by_the_role_it_names(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    state = follow(b, tmp_path, assigned("Planner", "Actor"))
    assert (state.status, doers(b)) == (Status.SUCCESS, ["Planner", "Actor"])
    spawned = next(each for each in b.history() if each.kind is Kind.SPAWN)
    assert [child["role"] for child in spawned.command["children"]] == ["Planner", "Actor"]
    assert state.doers.keys() == {"plan", ""}, "the template is nobody"
    flow = b.history(b.children()[1])[0].spec
    assert flow is not None
    assert flow.workflow is not None
    assert flow.workflow.steps[0].role == "Actor"


@pytest.mark.parametrize(
    ("roles", "reason"),
    [
        (("Planner", "Wizard"), 'output.assignments[1]: unknown role "Wizard" (known: Actor, Planner)'),
        (("actor", "Actor"), 'output.assignments[0]: unknown role "actor" (did you mean `Actor`?)'),
        (
            ("Tester",),
            "output.assignments[0]: the role Commander may not delegate work to Tester; allowed roles: Planner, Actor",
        ),
        (("",), "output.assignments[0]: no role: `{{item.role}}` is empty"),
        (("Tester",) * 5, "; and 2 more"),
    ],
    ids=str,
)
def test_an_item_with_a_role_that_can_not_do_it_stops_the_job_before_any_is_made(
    bench: MakeBench, tmp_path: Path, roles: tuple[str, ...], reason: str
) -> None:
    b = bench()
    plain = [{key: value for key, value in PLAN_STEP.items() if key != "role"}, WORK, JOIN]
    steps = plain if roles == ("",) else None  # the schema of a Commander's output wants a role
    state = follow(b, tmp_path, assigned(*roles), steps=steps)
    assert (state.status, b.children()) == (Status.STUCK, [])
    assert state.stuck.kind == "agent"
    assert reason in state.stuck.reason
    assert b.project.open_job("j").verify() == []


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("just a word", "can't fill the placeholders of `{{item.role}}`"),
        ({"role": None}, 'unknown role "null"'),
        ({"role": {"name": "Actor"}}, 'unknown role "{'),
        ({"role": "x" * 500}, 'unknown role "' + "x" * 60 + '..."'),
        ({"role": "\x1b[31mActor"}, 'unknown role "\\u001b[31mActor"'),
        ({"role": "\u202eActor"}, 'unknown role "\\u202eActor"'),
    ],
    ids=["no field", "null", "an object", "long", "control characters", "invisible characters"],
)
def test_an_item_that_names_no_role(bench: MakeBench, tmp_path: Path, item: Any, reason: str) -> None:
    b = bench()
    state = follow(
        b, tmp_path, named([{"role": "Actor"}, item]), steps=[{"id": "plan", "prompt": "x"}, WORK, JOIN]
    )
    assert (state.status, b.children()) == (Status.STUCK, [])
    assert "output.assignments[1]: " in state.stuck.reason
    assert reason in state.stuck.reason


def test_a_steward_has_the_items_named_anew(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    assert follow(b, tmp_path, assigned("Wizard"), assigned("Planner", "Actor")).status is Status.STUCK
    record_decision(b.project, "j", Kind.RESUBMIT)
    b.run()
    assert b.state().status is Status.STUCK, "the same items, the same roles"
    record_decision(
        b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(step="plan"), note="Only Planner and Actor."
    )
    b.run()
    assert (b.state().status, doers(b)) == (Status.SUCCESS, ["Planner", "Actor"])


def test_a_role_that_is_there_by_then_does_its_item(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    plain = [{"id": "plan", "prompt": "x"}, WORK, JOIN]
    assert follow(b, tmp_path, named([{"role": "Wizard", "task": "x"}]), steps=plain).status is Status.STUCK
    known = dict(b.project.roles.by_name)
    wizard = known["Worker"].role.model_copy(update={"name": "Wizard"})
    known["Wizard"] = type(known["Worker"])(wizard, Path("wizard.yaml"))
    b.change(roles=type(b.project.roles)(known, [], {}))
    record_decision(b.project, "j", Kind.RESUBMIT)
    b.run()
    assert (b.state().status, doers(b)) == (Status.SUCCESS, ["Wizard"])


def test_a_role_whose_file_is_broken_does_nothing(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    plain = [{"id": "plan", "prompt": "x"}, WORK, JOIN]
    broken = {"Wizard": InvalidFile("it has no instructions", where="wizard.yaml", fix="write some")}
    b.change(roles=type(b.project.roles)(b.project.roles.by_name, [], broken))
    state = follow(b, tmp_path, named([{"role": "Wizard", "task": "x"}]), steps=plain)
    assert "[0]: can't use the role Wizard: it has no instructions" in state.stuck.reason


BOUNDS: dict[str, tuple[dict[str, Any], Json, str, bool]] = {
    "the job's role": ({"role": "Commander"}, {}, "output.assignments", False),
    "a role that the steward has switched to": ({"switch": "Commander"}, {}, "output.assignments", False),
    "the role that wrote the items": ({}, {"role": "Commander"}, "output.assignments", False),
    "that of an earlier step": ({}, {"role": "Commander"}, "steps.plan.output.assignments", False),
    "that whose output is laid over the input": ({}, {"role": "Commander"}, "input.assignments", False),
    "nobody, of what the job was given": ({}, {"role": "Commander"}, "input.given", True),
    "nobody": ({}, {}, "output.assignments", True),
}


@pytest.mark.parametrize(("spec", "plan", "path", "fine"), BOUNDS.values(), ids=BOUNDS)
def test_who_bounds_the_roles_of_items(
    bench: MakeBench, tmp_path: Path, spec: dict[str, Any], plan: Json, path: str, fine: bool
) -> None:
    b = bench()
    steps = [{"id": "plan", "prompt": "x", **plan}, {**WORK, "itemsPath": path}, JOIN]
    flow = {"name": "dispatch", "steps": steps}
    (tmp_path / "w.json").write_text(json.dumps(flow), "utf-8")
    answers = {
        "plan": [assigned("Tester")],
        "work[1]": [gave({"passed": 1, "failed": 0})],
        "judge": [gave({"goal": "g", "assignments": []})],
    }
    given = [{"role": "Tester", "task": "x"}]
    roles = {"role": spec["role"]} if "role" in spec else {}
    b.follow(tmp_path / "w.json", steps=answers, review=False, input={"given": given}, **roles)
    if "switch" in spec:
        switch_role(b.project, "j", spec["switch"])
    b.run()
    spawned = next(each for each in b.history() if each.kind is Kind.SPAWN)
    refused = "the role Commander may not delegate work to Tester" in spawned.reason
    assert (refused, bool(b.children())) == (not fine, fine), spawned.reason


def test_the_steps_of_a_workflow_for_each_item_are_given_in_its_role(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = bench()
    (tmp_path / "part.yaml").write_text("name: part\nsteps:\n- {id: t, prompt: x, role: Tester}\n", "utf-8")
    work = {key: value for key, value in WORK.items() if key != "prompt"} | {"subflowId": "part.yaml"}
    steps = [{"id": "plan", "prompt": "x"}, work, JOIN]
    state = follow(b, tmp_path, named([{"role": "Actor"}, {"role": "Commander"}]), steps=steps)
    assert state.stuck.reason.startswith(
        "output.assignments[1]: the role Commander may not delegate work to Tester"
    )


def handed(place: Path, *steps: Json, **step: Any) -> Json:
    """A step that gives its work to another workflow."""
    (place / "inner.json").write_text(json.dumps({"name": "inner", "steps": steps}), "utf-8")
    return {"id": "hand", "stepType": "subflow", "subflowId": "inner.json", **step}


PARTS: Json = {**WORK, "itemsPath": "input.parts"}
EACH: Json = {"stepType": "foreach", "itemsPath": "output.groups"}
WAYS: dict[str, Any] = {
    "mapped into a subflow": lambda p: [
        PLAN_STEP, handed(p, PARTS, JOIN, inputMapping={"output.assignments": "parts"}),
    ],
    "into a subflow with all of the input": lambda p: [
        PLAN_STEP, handed(p, {**PARTS, "itemsPath": "input.assignments"}, JOIN),
    ],
    "into a subflow in another role": lambda p: [
        PLAN_STEP, handed(p, PARTS, JOIN, role="Actor", inputMapping={"output.assignments": "parts"}),
    ],
    "as a part of an item": lambda p: [
        PLAN_STEP,
        handed(p, {**PARTS, "itemsPath": "item.parts"}, JOIN, **EACH),
        {**JOIN, "id": "all"},
    ],
    "beside the items of a person": lambda p: [
        PLAN_STEP,
        {**WORK, "itemsPath": "input.given", "role": "{{steps.plan.output.assignments[0].role}}"},
        JOIN,
    ],
    "in a range": lambda p: [
        PLAN_STEP,
        {**WORK, "itemsPath": "input.given", "role": "{{range output.assignments}}{{.role}}{{end}}"},
        JOIN,
    ],
    "from a subflow": lambda p: [handed(p, PLAN_STEP), WORK, JOIN],
    "from an item": lambda p: [
        {"id": "plan", "stepType": "foreach", "itemsPath": "input.given", "role": "{{item.by}}", "prompt": "x"},
        {**WORK, "itemsPath": "output[0].assignments"},
        JOIN,
    ],
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("role", ["Tester", "Actor"])
def test_a_name_is_bound_by_the_role_that_wrote_it_however_it_was_handed_on(
    bench: MakeBench, tmp_path: Path, way: Any, role: str
) -> None:
    b = bench()
    parts = [{"number": 1, "role": role, "task": "x"}]
    plan = gave({"goal": "g", "assignments": parts, "groups": [{"parts": parts}]})
    given = [{"by": "Commander"}]
    (tmp_path / "w.json").write_text(json.dumps({"name": "w", "steps": way(tmp_path)}), "utf-8")
    steps = {"plan": [plan], "plan[1]": [plan], "work[1]": [gave("done")], "judge": [gave("fine")] * 2}
    steps |= {"all": [gave("fine")]}
    loose = dict(b.project.roles.by_name)  # other outputs than the shipped ones
    for name, each in loose.items():
        loose[name] = type(each)(each.role.model_copy(update={"output_schema": None}), each.path)
    b.change(roles=type(b.project.roles)(loose, [], {}))
    b.follow(tmp_path / "w.json", steps=steps, review=False, input={"given": given})
    b.run()
    family = [b.state(one) for one in ("j", *b.children())]
    reasons = [one.place.stuck.reason for one in family if one.place.stuck]
    if role == "Actor":
        assert (reasons, b.state().status) == ([], Status.SUCCESS)
    else:
        assert len(reasons) == 1
        assert "the role Commander may not delegate work to Tester" in reasons[0]


def test_the_role_that_did_the_step_counts_also_after_a_switch_back(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    flow = {"name": "w", "steps": [{"id": "plan", "prompt": "x"}, WORK, JOIN]}
    (tmp_path / "w.json").write_text(json.dumps(flow), "utf-8")
    tester = {"work[1]": [gave({"passed": True, "commands": []})], "judge": [gave("fine")]}
    b.follow(tmp_path / "w.json", steps={"plan": [assigned("Tester")] * 2, **tester}, review=False)
    switch_role(b.project, "j", "Commander")
    b.step()
    switch_role(b.project, "j", "Worker")
    b.run()
    assert "the role Commander may not delegate work to Tester" in b.state().reason
    restep_job(b.project, "j", 3)
    assert b.state().step == "plan"
    switch_role(b.project, "j", "Worker")
    b.run()
    assert b.state().status is Status.SUCCESS, "a Worker may give work to any role"


def test_what_a_person_gave_in_place_of_an_agent_is_bound_by_nobody(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    manual = {"id": "plan", "execution": "manual", "role": "Commander", "prompt": "x"}
    flow = {"name": "w", "steps": [manual, WORK, JOIN]}
    (tmp_path / "w.json").write_text(json.dumps(flow), "utf-8")
    steps = {"work[1]": [gave({"passed": True, "commands": []})], "judge": [gave("fine")]}
    b.follow(tmp_path / "w.json", steps=steps, review=False)
    record_decision(
        b.project,
        "j",
        Kind.APPROVE,
        command=ApproveCommand(output={"assignments": [{"role": "Tester", "task": "x"}]}),
    )
    b.run()
    assert b.state().status is Status.SUCCESS


def test_a_replay_needs_no_files(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    follow(b, tmp_path, assigned("Wizard"), assigned("Planner", "Actor"))
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(step="plan"))
    b.run()
    alone = tmp_path / "elsewhere" / "jobHistory.json"
    alone.parent.mkdir()
    shutil.copy(b.folder() / "jobHistory.json", alone)
    replayed = replay_file(SCHEMA, alone)
    assert (replayed.differences, replayed.disagreements) == ((), ())


def test_what_if_keeps_the_role_that_the_item_named(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    follow(b, tmp_path, assigned("Planner", "Actor"))
    recorded = b.history(b.children()[1])[0].spec
    whole = b.history()[0].spec
    assert recorded is not None
    assert whole is not None
    assert whole.workflow is not None
    person = {"id": "plan", "execution": "manual", "role": "alice", "prompt": "x"}
    other = whole.workflow.model_copy(
        update={
            "steps": tuple(
                each if each.id != "plan" else each.model_validate({**person, "name": "plan"})
                for each in whole.workflow.steps
            )
        }
    )
    rules = ChangedRules(SCHEMA, workflow=other)
    flow = rules.spec(recorded).workflow
    assert flow is not None
    assert flow.steps[0].role == "Actor"
    assert rules.spec(whole).doers == {"plan": Doer(role="alice", source=ASSIGNEE)}
