"""Workflows by name, by file, and within each other."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from logist.core.workflow.checking import Around
from logist.core.workflow.places import Read
from logist.errors import UsageError
from logist.workflows import (
    LoadedWorkflow,
    find_workflow_problems,
    finding,
    freeze_subflows,
    list_workflows,
    load_workflow,
    parse_workflow_text,
    read_workflow_file,
)

ONE = "name: '{}'\nsteps:\n  - {{id: a, prompt: '{}'}}\n"
TWO = "graph TD\nsubgraph one [First]\nA --> B\nend\nsubgraph two [Second]\nC\nend\n"


def put(directory: Path, name: str, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    """The project's, the user's and the shipped directory, in this order."""
    project, user, shipped = (tmp_path / name for name in ("project", "user", "shipped"))
    put(project, "build.yaml", ONE.format("Build", "project"))
    put(user, "build.yaml", ONE.format("Build", "user"))
    put(user, "scan.mmd", "graph TD\n A[Scan]\n")
    put(shipped, "two.mmd", TWO)
    put(shipped, "security-scan.yaml", ONE.format("Security: the Scan", "shipped"))
    return [project, user, shipped]


NAMED = {
    "build": ("Build", "project/build.yaml"),
    "Build": ("Build", "project/build.yaml"),
    "BUILD": ("Build", "project/build.yaml"),
    "build.yaml": ("Build", "project/build.yaml"),
    "scan": ("scan", "user/scan.mmd"),
    "security-scan": ("Security: the Scan", "shipped/security-scan.yaml"),
    "Security Scan": ("Security: the Scan", "shipped/security-scan.yaml"),
    "security the scan": ("Security: the Scan", "shipped/security-scan.yaml"),
    "First": ("First", "shipped/two.mmd"),
    "two#Second": ("Second", "shipped/two.mmd"),
    "two#second": ("Second", "shipped/two.mmd"),
}


@pytest.mark.parametrize(("name", "wanted"), NAMED.items())
def test_a_workflow_by_name_the_project_over_the_user_over_the_shipped(
    name: str, wanted: tuple[str, str], homes: list[Path], tmp_path: Path
) -> None:
    found = load_workflow(name, homes)
    assert found.workflow is not None
    assert (found.workflow.name, str(found.path.relative_to(tmp_path))) == wanted


def test_a_file_by_its_path(homes: list[Path]) -> None:
    path = homes[2] / "two.mmd"
    second = load_workflow(f"{path}#Second", [])
    assert second.workflow is not None
    assert [step.id for step in second.workflow.steps] == ["C"]
    os.chdir(homes[2])
    assert load_workflow("two.mmd#First", []).name == "First"
    assert load_workflow("./build.yaml", [], homes[1]).workflow is not None


UNKNOWN = {
    "biuld": ("workflow `biuld` not found", "did you mean `Build`?"),
    "": ("``", "use a file or a name"),
    "#First": ("missing file or workflow name in `#First`", "use a file or a name"),
    "two": ("two.mmd contains 2 workflows", "First, Second"),
    "Two": ("two.mmd contains 2 workflows", "First, Second"),
    "no/such.mmd": ("workflow file `no/such.mmd` not found", "check the path"),
    "scan#x": ("has no workflow `x`", "known: scan"),
}


@pytest.mark.parametrize(("name", "wanted"), UNKNOWN.items())
def test_what_is_not_there(name: str, wanted: tuple[str, str], homes: list[Path]) -> None:
    with pytest.raises(UsageError) as caught:
        load_workflow(name, homes)
    assert wanted[0] in caught.value.message
    assert wanted[1] in (caught.value.fix or "")


def test_of_a_file_with_several_one_has_to_be_named(homes: list[Path]) -> None:
    path = homes[2] / "two.mmd"
    with pytest.raises(UsageError, match="contains 2 workflows") as caught:
        load_workflow(str(path), homes)
    assert caught.value.fix == f"choose one, for example '{path}#First': First, Second"


def test_a_listing_has_every_workflow_once_and_a_broken_file_stops_nothing(homes: list[Path]) -> None:
    put(homes[0], "broken.json", "{,}")
    put(homes[0], "README.md", "# Only words\n")
    put(homes[0], "notes.txt", "no workflow")
    put(homes[0], ".hidden.yaml", "no workflow")
    (homes[0] / "dir.yaml").mkdir()
    found = list_workflows([*homes, homes[0] / "missing"])
    assert [(one.loaded.name, one.loaded.path.parent.name, one.hides is not None) for one in found] == [
        ("broken", "project", False),
        ("Build", "project", True),
        ("First", "shipped", False),
        ("scan", "user", False),
        ("Second", "shipped", False),
        ("Security: the Scan", "shipped", False),
    ]
    assert [one.loaded.workflow is None for one in found] == [True, False, False, False, False, False]
    assert found[1].hides == homes[1] / "build.yaml"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert [one.loaded.problems[0].message for one in list_workflows([tmp_path])] == [
        "can't read the file: not a regular file"
    ]


UNREADABLE = {
    "too large": (b"#" * (1024 * 1024 + 1), "must not be larger than 1,048,576 bytes", None),
    "no text": (b"graph TD\n\xff\n", "not valid UTF-8", 2),
}


@pytest.mark.parametrize(("content", "message", "line"), UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("suffix", ["mmd", "md", "yaml"])
def test_what_cannot_be_read_says_why(
    content: bytes, message: str, line: int | None, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"w.{suffix}"
    path.write_bytes(content)
    found = load_workflow(str(path), [])
    assert found.workflow is None
    assert [(problem.message, problem.line) for problem in found.problems] == [(message, line)]


def test_a_missing_permission_is_a_problem_like_others(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.symlink_to(tmp_path / "nowhere")
    assert (
        list_workflows([tmp_path])[0].loaded.problems[0].message
        == "can't read the file: No such file or directory"
    )


def chain(directory: Path, *names: str) -> Path:
    """Each a workflow with a subflow, the last a plain one; the first is outermost."""
    for name, inner in pairwise(names):
        put(directory, f"{name}.mmd", f"graph TD\n A[[Run: {inner}]]\n")
    put(directory, f"{names[-1]}.mmd", "graph TD\n A[Do it]\n")
    return directory / f"{names[0]}.mmd"


def test_a_frozen_workflow_has_every_other_and_does_not_look_at_files_again(tmp_path: Path) -> None:
    path = chain(tmp_path, "outer", "middle", "inner")
    whole = freeze_subflows(load_workflow(str(path), []), [tmp_path]).workflow
    put(tmp_path, "inner.mmd", "graph TD\n B[Another]\n")
    assert whole is not None
    assert {name: [step.id for step in flow.steps] for name, flow in whole.subflows.items()} == {
        "middle": ["A"],
        "inner": ["A"],
    }
    assert all(not flow.subflows for flow in whole.subflows.values())


def test_a_subflow_is_looked_for_in_the_file_itself_first(tmp_path: Path) -> None:
    path = put(tmp_path / "here", "two.mmd", TWO.replace("A --> B", "A[[Run: Second]]"))
    put(tmp_path / "home", "Second.yaml", ONE.format("Second", "x"))
    whole = freeze_subflows(load_workflow(f"{path}#First", []), [tmp_path / "home"]).workflow
    assert whole is not None
    assert [step.id for step in whole.subflows["Second"].steps] == ["C"]


def named(loaded: LoadedWorkflow) -> dict[str, list[str]]:
    """The prompts of every workflow within one, once it is frozen."""
    assert loaded.workflow is not None, loaded.problems
    return {name: [step.prompt for step in flow.steps] for name, flow in loaded.workflow.subflows.items()}


SUB = "name: {}\nsteps:\n  - {{id: s, stepType: subflow, subflowId: {}}}\n"


@pytest.mark.parametrize("name", ["inner", "The inner one", "inner.yaml", "./inner.yaml"])
def test_a_subflow_may_stand_beside_the_file_that_names_it(name: str, tmp_path: Path) -> None:
    outer = put(tmp_path, "outer.yaml", SUB.format("Outer", name))
    put(tmp_path, "inner.yaml", ONE.format("The inner one", "beside"))
    home = tmp_path / "home"
    assert named(freeze_subflows(load_workflow(str(outer), [home]), [home])) == {name: ["beside"]}
    assert not [
        p for p in find_workflow_problems(load_workflow(str(outer), [home]), [home]) if p.severity == "error"
    ]


def test_what_stands_beside_is_looked_at_last(tmp_path: Path) -> None:
    outer = put(tmp_path, "outer.yaml", SUB.format("Outer", "inner"))
    put(tmp_path, "inner.yaml", ONE.format("inner", "beside"))
    put(tmp_path / "home", "other.yaml", ONE.format("inner", "of the project"))
    directories = [tmp_path / "home"]
    assert named(freeze_subflows(load_workflow(str(outer), directories), directories)) == {
        "inner": ["of the project"]
    }


def test_a_neighbour_has_neighbours_of_its_own(tmp_path: Path) -> None:
    outer = put(tmp_path, "outer.yaml", SUB.format("Outer", "there/middle.yaml"))
    put(tmp_path / "there", "middle.yaml", SUB.format("Middle", "inner"))
    put(tmp_path / "there", "inner.yaml", ONE.format("inner", "far"))
    assert named(freeze_subflows(load_workflow(str(outer), []), [])) == {
        "there/middle.yaml": [""],
        "inner": ["far"],
    }


def test_every_file_beside_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = "".join(f"  - {{id: s{n}, stepType: subflow, subflowId: no{n}}}\n" for n in range(5))
    outer = load_workflow(str(put(tmp_path, "outer.yaml", f"name: Outer\nsteps:\n{steps}")), [])
    for number in range(3):
        put(tmp_path, f"{number}.yaml", ONE.format(number, "x"))
    read: list[str] = []

    def counted(path: Path) -> list[Read]:
        read.append(path.name)
        return read_workflow_file(path)

    monkeypatch.setattr(finding, "read_workflow_file", counted)
    assert len(freeze_subflows(outer, []).errors) == 5
    assert sorted(read) == ["0.yaml", "1.yaml", "2.yaml", "outer.yaml"]


LOOP = """{"name": "Do all", "metaGuidance": [], "steps": [
  {"id": "all", "title": "All", "type": "loop", "loop": {"type": "forEach", "items": "files"},
   "body": [{"id": "one", "title": "One", "prompt": "Do one."}]},
  {"id": "last", "title": "Last", "prompt": "%s"}
]}"""


@pytest.mark.parametrize("name", ["w.json#Do all#all", "w.json#all", "w#all", "Do all#all"])
def test_the_body_of_a_loop_can_be_named(name: str, tmp_path: Path) -> None:
    put(tmp_path, "w.json", LOOP % "Look.")
    body = load_workflow(name, [tmp_path], tmp_path)
    assert body.workflow is not None, body.problems
    assert (body.name, [step.prompt for step in body.workflow.steps]) == ("Do all#all", ["Do one."])
    assert find_workflow_problems(body, [tmp_path]) == []


def test_the_body_of_a_loop_in_a_broken_file_is_broken_too(tmp_path: Path) -> None:
    path = put(tmp_path, "w.json", LOOP.replace('"id": "last"', '"id": "last", "guidance": 3') % "x")
    assert load_workflow(str(path), []).workflow is None
    body = load_workflow(f"{path}#all", [])
    assert (body.workflow, [problem.line for problem in body.errors]) == (None, [4])
    with pytest.raises(UsageError) as caught:
        load_workflow(f"{path}#al", [])
    assert caught.value.fix == "known: Do all, Do all#all"


BROKEN = {
    "missing": ("graph TD\n A[[Run: nowhere]]\n", "workflow `nowhere` not found"),
    "broken": ("graph TD\n A[[Run: bad]]\n", "the workflow `bad` is invalid"),
    "itself": ("graph TD\n A[[Run: itself]]\n", "contains itself: itself > itself"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_workflow_with_a_subflow_that_cannot_be_used_is_not_frozen(name: str, tmp_path: Path) -> None:
    put(tmp_path, "bad.yaml", "name: bad\nsteps: 3\n")
    path = put(tmp_path, f"{name}.mmd", BROKEN[name][0])
    found = freeze_subflows(load_workflow(str(path), []), [tmp_path])
    assert found.workflow is None
    assert [(problem.path, problem.line) for problem in found.errors] == [("@A.subflowId", 2)]
    assert BROKEN[name][1] in found.errors[0].message
    assert [p.message for p in find_workflow_problems(found, [tmp_path]) if p.severity == "error"] == [
        problem.message for problem in found.errors
    ]


def test_every_problem_of_a_workflow_comes_in_the_order_of_its_file(tmp_path: Path) -> None:
    text = (
        "name: W\nsteps:\n  - id: a\n    role: Nobody\n    agentRole: short\n    when: x.y >\n"
        "  - id: b\n    prompt: '{{nope}}'\n    colour: red\n"
    )
    found = load_workflow(str(put(tmp_path, "w.yaml", text)), [])
    assert found.workflow is None
    assert [(p.line, p.code) for p in find_workflow_problems(found, [], Around(roles=["Worker"]))] == [
        (3, "no_prompt"),
        (4, "unknown_role"),
        (5, "agent_role"),
        (6, "condition"),
        (8, "unknown_name"),
        (9, "unknown_field"),
    ]


NAMES = {
    "w.md": ("# H\n\n```mermaid\ngraph TD\nA\n```\n", ["w"]),
    "front.md": ("---\nname: N\n---\n```mermaid\ngraph TD\nA\n```\n", ["N"]),
    "title.md": ("---\ntitle: T\n---\n```mermaid\n---\ntitle: Own\n---\ngraph TD\nA\n```\n", ["Own"]),
    "same.md": ("# H\n" + 2 * "```mermaid\ngraph TD\nA\n```\n", ["H", "H 2"]),
    "bad-front.md": ("---\na: [\n---\n```mermaid\ngraph TD\nA\n```\n", ["bad-front"]),
    "quote.md": ("> ```mermaid\n> graph TD\n> A\n> ```\n", ["quote"]),
    "open.md": ("  ~~~~ mermaid\n  graph TD\n  A\n  ~~~\n", ["open"]),
    "w.json": ('{"steps": [{"id": "a"}]}', ["w"]),
}


@pytest.mark.parametrize(("name", "wanted"), [(name, told[1]) for name, told in NAMES.items()])
def test_what_a_workflow_is_called(name: str, wanted: list[str]) -> None:
    found = parse_workflow_text(NAMES[name][0], name)
    assert [one.name for one in found] == wanted
    assert all(one.workflow is None or one.workflow.name == one.name for one in found)


def test_front_matter_that_cannot_be_read_is_a_problem_with_its_line() -> None:
    found = parse_workflow_text(NAMES["bad-front.md"][0], "x.md")[0]
    assert [(problem.path, problem.line) for problem in found.problems] == [("front matter", 3)]


TWICE = """{"name": "W", %s "steps": [
  {"id": "a", "title": "A",
   "prompt": "first, {with} [signs] \\"and\\" more",
   "x": {"prompt": 1},
   "prompt": "second",
   "prompt": "third"}
]}"""


def test_a_key_that_is_there_twice_holds_as_last_in_a_foreign_file_and_is_an_error_in_ours() -> None:
    found = parse_workflow_text(TWICE % '"metaGuidance": [],', "w.json")[0]
    assert found.workflow is not None
    assert [(step.prompt, step.config) for step in found.workflow.steps] == [("third", {"x": {"prompt": 1}})]
    assert [(p.severity, p.code, p.line) for p in found.problems if p.code == "twice"] == [
        ("warning", "twice", 3),
        ("warning", "twice", 5),
    ]
    ours = parse_workflow_text((TWICE % "").replace("title", "name"), "w.json")[0]
    assert ours.workflow is None
    assert [(p.severity, p.line, p.message) for p in ours.problems] == [
        ("error", 5, "duplicate key `steps[0].prompt`: already defined on line 3")
    ]


def test_a_shorter_fence_closes_none() -> None:
    inside = parse_workflow_text("````mermaid\ngraph TD\nA\n```\nB\n````\n", "w.md")[0].workflow
    closed = parse_workflow_text("```mermaid\ngraph TD\nA\n````\nB\n", "w.md")[0].workflow
    assert inside is not None
    assert closed is not None
    assert [step.id for step in inside.steps] == ["A", "```", "B"]
    assert [step.id for step in closed.steps] == ["A"]
