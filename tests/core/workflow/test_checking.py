"""All that is wrong with a workflow, found in one go."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.model import Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.checking import Around, check_workflow
from logist.core.workflow.linting import lint_workflow
from logist.core.workflow.listed import read_step_list
from logist.core.workflow.nesting import find_nested_workflows
from logist.workflows import parse_workflow_text


def flow(*steps: Any, name: str = "W") -> Workflow:
    found = read_step_list({"name": name, "steps": list(steps)}, {}, name)
    assert found.workflow is not None, found.problems
    return found.workflow


def codes(workflow: Workflow, around: Around | None = None) -> list[str]:
    return [f"{found.severity} {found.code}" for found in check_workflow(workflow, around)]


def decision(*branches: tuple[Any, str], default: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "d",
        "stepType": "decision",
        "branches": [{"condition": condition, "to": target} for condition, target in branches],
        **({"defaultBranch": default} if default else {}),
        **more,
    }


def task(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "prompt": "Do it.", **more}


def each(name: str = "e", **more: Any) -> dict[str, Any]:
    return {"id": name, "stepType": "foreach", "prompt": "x", "itemsPath": "output.files", **more}


JOIN = {"id": "j", "stepType": "join", "prompt": "x"}
FOUND: dict[str, tuple[list[Any], list[str]]] = {
    "nothing": ([task("a"), task("b")], []),
    "a decision with a default": ([decision(("output.x", "end"), default="a"), task("a")], []),
    "one without": ([decision(("output.x", "a")), task("a")], ["warning no_default"]),
    "one that only says never": ([decision((False, "a")), task("a")], ["error no_branch"]),
    "one without a branch": ([decision()], ["error no_branch"]),
    "visits without a default": ([decision(("output.x", "a"), maxVisits=2), task("a")], ["error no_default"]),
    "two ways on": ([task("a", next=["b", "c"]), task("b", next="end"), task("c")], ["error several_ways"]),
    "an unknown root": ([task("a", when="outptu.x > 1")], ["error condition"]),
    "half an expression": ([decision(("output.x >", "end"), default="end")], ["error condition"]),
    "a condition to confirm": ([task("a", confirm={"var": "x", "equals": 1})], []),
    "one that is none": ([task("a", confirm={"vra": "x"})], ["error condition"]),
    "a foreach with its join": ([each(), JOIN], []),
    "a foreach without": ([each()], ["warning no_join"]),
    "a join without": ([JOIN], ["warning no_foreach"]),
    "a join of a loop": ([decision(("output.x", "e"), default="end"), each(), {**JOIN, "next": "d"}], []),
    "no items": ([each(itemsPath=None), JOIN], ["error missing"]),
    "a path that is none": ([each(itemsPath="output.[x"), JOIN], ["error bad_path"]),
    "a path from nowhere": ([each(itemsPath="files"), JOIN], ["error unknown_root"]),
    "a path of an older step": ([each(itemsPath="steps.a.output.files"), JOIN], []),
    "an item with a name that is taken": ([each(itemVariable="output"), JOIN], ["error bad_name"]),
    "the item in a template": ([each(prompt="{{item.x}} {{index}} {{total}}"), JOIN], []),
    "another item": ([each(prompt="{{item.x}}", itemVariable="file"), JOIN], ["warning unknown_name"]),
    "a broken template": ([task("a", prompt="{{if output.x}}")], ["error template"]),
    "the tag of a join": ([each(), {**JOIN, "awaitTag": "foreach:{{parentId}}"}], []),
    "the tag of a join, by an id": ([each(), {**JOIN, "awaitTag": "foreach:notes"}], []),
    "the tag of a join, by a template": ([each(), {**JOIN, "awaitTag": "{{input.tag}}"}], []),
    "a tag that no job has": ([each(), {**JOIN, "awaitTag": "batch:{{parentId}}"}], ["error await_tag"]),
    "a tag without an id": ([each(), {**JOIN, "awaitTag": "foreach:"}], ["error await_tag"]),
    "a tag of another kind": ([each(), {**JOIN, "awaitTag": "reviews"}], ["error await_tag"]),
    "a subflow without a name": ([{"id": "s", "stepType": "subflow"}], ["error missing"]),
    "a subflow that is not there": (
        [{"id": "s", "stepType": "subflow", "subflowId": "x"}],
        ["error no_subflow"],
    ),
    "ids that differ in case": ([task("a"), task("A")], ["warning similar_ids"]),
    "an island": ([task("a", next="end"), task("b")], ["error several_starts"]),
    "an island with no beginning": (
        [task("a", next="end"), task("b", next="c"), task("c", next="b")],
        ["error unreachable", "error unreachable"],
    ),
    "a circle with a task in it": ([task("a"), decision(("output.x", "a"), default="end")], []),
    "a circle without": (
        [decision(("output.x", "f"), default="end"), {**decision(default="d"), "id": "f"}],
        ["error endless"],
    ),
    "one that ends by itself": (
        [decision(("output.x", "f"), default="end", maxVisits=3), {**decision(default="d"), "id": "f"}],
        [],
    ),
    "a foreach in a circle may have no items": (
        [each(next="d"), decision(("output.x", "e"), default="j"), JOIN],
        ["error endless"],
    ),
    "no end": ([task("a", next="b"), task("b", next="a")], ["warning no_end"]),
}


@pytest.mark.parametrize(("steps", "wanted"), FOUND.values(), ids=FOUND)
def test_what_is_found(steps: list[Any], wanted: list[str]) -> None:
    assert codes(flow(*steps)) == wanted


def test_all_of_it_is_found_in_one_go() -> None:
    workflow = flow(
        task("a", when="x.y > 1", role="Nobody", next=["d", "b"]),
        decision(("output.x >=", "b")),
        task("b", prompt="{{nope.x}}"),
        task("c", next="end"),
    )
    assert sorted(codes(workflow, Around(roles=["Worker"]))) == [
        "error condition",
        "error condition",
        "error several_ways",
        "error unknown_role",
        "warning no_default",
        "warning unknown_name",
    ]


def test_a_role_nobody_knows_gets_the_one_that_was_meant() -> None:
    found = check_workflow(
        flow(task("a", role="Wroker", reviewRole="Boss")), Around(roles=["Worker", "Supervisor"])
    )
    assert [(problem.path, problem.fix) for problem in found] == [
        ("@a.role", "did you mean `Worker`?"),
        ("@a.reviewRole", "known: Supervisor, Worker"),
    ]


NAMED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an item's": (each(role="{{item.role}}"), []),
    "an item's, of a workflow": (each(role="{{item.role}}", subflowId="inner", prompt=""), []),
    "a name that nothing gives": (each(role="{{itme.role}}"), ["warning unknown_name"]),
    "a block that is not closed": (each(role="{{if item}}Actor"), ["error template"]),
    "a template at another step": (task("a", role="{{input.role}}"), ["error unknown_role"]),
    "a person": (task("a", role="alice", execution="manual"), []),
    "a person at an agent's step": (task("a", role="alice"), ["error unknown_role"]),
    "no name of a person": (task("a", role="al\nice", execution="manual"), ["error invalid"]),
    "a role, whatever its name": (task("a", role=" odd ", execution="manual"), []),
}


@pytest.mark.parametrize(("step", "wanted"), NAMED.values(), ids=NAMED)
def test_who_does_a_step_may_be_a_person_or_what_an_item_names(
    step: dict[str, Any], wanted: list[str]
) -> None:
    inner = flow(task("i", role="Worker"), name="inner")
    around = Around(
        roles=["Worker", " odd "],
        delegates={"Boss": ()},
        job_role="Worker",
        find={"inner": inner}.__getitem__,
    )
    assert codes(flow(step, *([JOIN] if step.get("stepType") == "foreach" else [])), around) == wanted


def test_a_role_that_may_give_work_to_some_may_have_a_person_do_a_step() -> None:
    inner = flow(task("i", role="alice", execution="manual"), name="inner")
    around = Around(delegates=DELEGATES, job_role="Commander", find={"inner": inner}.__getitem__)
    assert codes(flow({"id": "s", "stepType": "subflow", "subflowId": "inner"}), around) == []


INNER = flow(task("i", role="Actor"), name="inner")
DELEGATES = {"Commander": ("Planner",), "Open": ()}
GIVEN: dict[str, tuple[dict[str, Any], str | None, list[str]]] = {
    "to one that is listed": (each(role="Planner"), "Commander", []),
    "to one that is not": (each(role="Actor"), "Commander", ["error delegation"]),
    "to itself": (each(role="Commander"), "Commander", []),
    "by a role that lists none": (each(role="Actor"), "Open", ["error delegation"]),
    "by a role nobody restricts": (each(role="Actor"), "Worker", []),
    "by nobody": (each(role="Actor"), None, []),
    "through a subflow": (
        {"id": "s", "stepType": "subflow", "subflowId": "inner"},
        "Commander",
        ["error delegation"],
    ),
    "through a foreach": (each(subflowId="inner", prompt=""), "Commander", ["error delegation"]),
    "by the role of the step": (
        {"id": "s", "stepType": "subflow", "subflowId": "inner", "role": "Commander"},
        "Worker",
        ["error delegation"],
    ),
}


@pytest.mark.parametrize(("step", "role", "wanted"), GIVEN.values(), ids=GIVEN)
def test_a_role_gives_work_only_to_the_roles_it_lists(
    step: dict[str, Any], role: str | None, wanted: list[str]
) -> None:
    around = Around(delegates=DELEGATES, job_role=role, find={"inner": INNER}.__getitem__)
    steps = [step, JOIN] if step["stepType"] == "foreach" else [step]
    assert codes(flow(*steps), around) == wanted


def subflow(name: str, step: str = "s") -> dict[str, Any]:
    return {"id": step, "stepType": "subflow", "subflowId": name}


def test_a_workflow_within_itself_is_named_with_the_way_to_it() -> None:
    flows = {"a": flow(subflow("b"), name="a"), "b": flow(subflow("a"), name="b")}
    found = check_workflow(flow(subflow("a")), Around(find=flows.__getitem__))
    assert [problem.code for problem in found] == ["subflow_cycle"]
    assert "a > b > a" in found[0].message


@pytest.mark.parametrize(("height", "wanted"), [(4, []), (5, ["too_deep"]), (30, ["too_deep"])])
def test_five_workflows_may_be_within_each_other(height: int, wanted: list[str]) -> None:
    flows = {f"w{n}": flow(subflow(f"w{n - 1}"), name=f"w{n}") for n in range(2, height + 1)}
    flows["w1"] = flow(task("a"), name="w1")
    found = check_workflow(flow(subflow(f"w{height}")), Around(find=flows.__getitem__))
    assert [problem.code for problem in found] == wanted


def test_many_ways_to_the_same_workflows_take_no_time() -> None:
    wide = [subflow(f"{level}", f"s{n}") for level in (1,) for n in range(100)]
    flows = {
        str(level): flow(*[subflow(str(level + 1), f"s{n}") for n in range(100)], name=str(level))
        for level in range(1, 4)
    }
    flows["4"] = flow(task("a"), name="4")
    assert check_workflow(flow(*wide), Around(find=flows.__getitem__)) == []


def test_errors_of_a_workflow_within_are_reported_at_the_step_that_leads_to_it() -> None:
    inner = flow(task("x", when="nope.y > 1"), task("y", prompt="{{nope.z}} {{file.name}}"), name="inner")
    outer = flow(each(subflowId="inner", itemVariable="file", prompt=""), JOIN)
    found = check_workflow(outer, Around(find={"inner": inner}.__getitem__))
    assert [(problem.code, problem.path) for problem in found] == [("condition", "@e")]
    assert found[0].message.startswith("in the workflow `inner`: step `x`")


def test_the_workflows_within_are_collected_once() -> None:
    flows = {"a": flow(subflow("b"), name="a"), "b": flow(task("x"), name="b")}
    found = find_nested_workflows(flow(subflow("a"), subflow("b", "t")), flows.__getitem__)
    assert (found.subflows, found.heights) == (flows, {"b": 1, "a": 2})


LINT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": (task("a"), []),
    "mixed": (task("a", prompt="Hello\n\n**Agent's Role:** x"), ["mixed_prompt"]),
    "mixed, another apostrophe": (task("a", prompt="**Agent’s role**: x"), ["mixed_prompt"]),
    "no prompt": ({"id": "a"}, ["no_prompt"]),
    "only spaces": ({"id": "a", "prompt": " \n"}, ["no_prompt"]),
    "a subflow needs none": (subflow("x"), []),
    "a dot": (task("a.b"), ["dotted_id"]),
    "a role for a person": (task("a", execution="manual", agentRole="Be brief, please."), ["no_effect"]),
}


def test_lint_recommends_migrate_only_for_what_it_moves() -> None:
    (leading,) = lint_workflow(flow(task("a", prompt="**Agent's Role:** Be very kind.\n\nJudge it.")))
    (inside,) = lint_workflow(flow(task("a", prompt="Judge it.\n\n**Agent's Role:** Be very kind.")))
    assert (leading.fix, inside.fix) == (
        "move it to agentRole: logist workflow migrate",
        "move it to agentRole by hand",
    )


@pytest.mark.parametrize(("step", "wanted"), LINT.values(), ids=LINT)
def test_lint(step: dict[str, Any], wanted: list[str]) -> None:
    found = lint_workflow(flow(step))
    assert [problem.code for problem in found] == wanted
    assert {problem.severity for problem in found} <= {"warning"}


@pytest.mark.parametrize(
    ("fields", "unread"),
    [
        ({"stepType": "subflow", "subflowId": "inner", "prompt": "x"}, ["@s.prompt"]),
        ({"stepType": "subflow", "subflowId": "inner", "review": True, "guidance": ["g"]}, ["@s.guidance", "@s.review"]),
        ({"stepType": "foreach", "itemsPath": "output.x", "subflowId": "inner", "agentRole": "Be very careful."}, ["@s.agentRole"]),
        ({"execution": "manual", "prompt": "x", "review": True, "confirm": True}, ["@s.review", "@s.confirm"]),
        ({"prompt": "x", "review": True, "confirm": True, "agentRole": "Be very careful."}, []),
    ],
)  # fmt: skip
def test_m16_what_nobody_reads_at_a_step_is_told(fields: dict[str, Any], unread: list[str]) -> None:
    found = check_workflow(flow({"id": "s", **fields}), Around(find={"inner": flow(task("x"))}.__getitem__))
    assert [problem.path for problem in found if problem.code == "unread"] == unread


def test_m50_items_may_be_what_the_workflow_was_given() -> None:
    flowing = flow(each(itemsPath="files"), JOIN)
    assert "unknown_root" in {problem.code for problem in check_workflow(flowing)}
    assert check_workflow(flowing, Around(roots=("files",))) == []


IN_A_LIST = "name: W\nsteps:\n"
ADVICE: dict[str, tuple[str, str, str]] = {
    "no default": (
        "- {id: d, stepType: decision, branches: [{condition: output.x, to: end}]}\n",
        "graph TD\nd{D} -->|output.x| e[E]\n",
        "no_default",
    ),
    "no branch": ("- {id: d, stepType: decision}\n", "graph TD\nd{D}\n", "no_branch"),
    "two ways": (
        "- {id: d, next: [e, f]}\n- {id: e, next: f}\n- {id: f}\n",
        "graph TD\nd --> e\nd --> f\n",
        "several_ways",
    ),
    "no end": ("- {id: d, next: e}\n- {id: e, next: d}\n", "graph TD\nd --> e --> d\n", "no_end"),
}


@pytest.mark.parametrize(("listed", "drawn", "code"), ADVICE.values(), ids=ADVICE)
def test_advice_speaks_of_what_the_file_is(listed: str, drawn: str, code: str) -> None:
    told, workflow = {}, flow(task("a"))
    for form, text in (("w.yaml", IN_A_LIST + listed), ("w.mmd", drawn)):
        (read,) = parse_workflow_text(text, form)
        assert read.workflow is not None
        workflow = read.workflow
        (told[form],) = [p.fix for p in check_workflow(workflow, None, read.places) if p.code == code]
    assert [word for word in ("draw", "edge", "labelled", "on all but") if word in told["w.yaml"]] == []
    assert told["w.yaml"] != told["w.mmd"]
    (unknown,) = [p.fix for p in check_workflow(workflow) if p.code == code]
    assert told["w.mmd"].split(",")[0] in unknown


BEGINNINGS = {
    "list": ("w.yaml", IN_A_LIST + "- {id: a, next: end}\n- {id: b, next: a}\n", "start: b\n"),
    "diagram": (
        "w.mmd",
        'graph TD\nb --> a\n%% @step(a): {"start": true}\n',
        'graph TD\nb --> a\n%% @step(b): {"start": true}\n',
    ),
}


@pytest.mark.parametrize(("name", "text", "cured"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_the_advice_for_several_starts_cures_them(name: str, text: str, cured: str) -> None:
    def fixes(text: str) -> list[str]:
        (read,) = parse_workflow_text(text, name)
        assert read.workflow is not None
        return [p.fix for p in check_workflow(read.workflow, None, read.places) if p.severity == "error"]

    (fix,) = fixes(text)
    assert fix.startswith("connect it, or remove it, or make it the start: ")
    assert ("`start: b`" if name == "w.yaml" else '`"start": true` only at `b`') in fix
    assert fixes(text + cured if name == "w.yaml" else cured) == []


def test_an_island_is_not_told_to_begin_there() -> None:
    (found,) = check_workflow(flow(task("a", next="end"), task("b")))
    assert (found.code, found.fix) == ("several_starts", "connect it, or remove it")


@pytest.mark.parametrize(
    ("path", "message", "said"),
    [
        ("@A.agentRole", "`@A.agentRole` must be text", "`@A.agentRole` must be text"),
        ("steps[1]", "`steps[1].role` is odd", "`steps[1].role` is odd"),
        ("steps[1]", "`steps[10]` is odd", "steps[1]: `steps[10]` is odd"),
        ("@A", "`@AB` is odd", "@A: `@AB` is odd"),
        ("", "is odd", "is odd"),
    ],
)
def test_a_path_is_said_once(path: str, message: str, said: str) -> None:
    assert WorkflowProblem("error", "odd", message, path).full_message == said
