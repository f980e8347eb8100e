"""Every file under fixtures/workflows/files: what is read from it, and all that is wrong with it.

To add a case, add a file, and beside it what is expected: one line for each workflow of the file, and one for each
problem, in the order of the lines.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from logist.core.model import Role
from logist.core.workflow import exporting
from logist.core.workflow.checking import Around
from logist.documents import parse_document
from logist.workflows import (
    LoadedWorkflow,
    find_workflow_problems,
    freeze_subflows,
    load_workflow,
    read_workflow_file,
)

FILES = Path(__file__).parents[2] / "fixtures" / "workflows" / "files"
POSITIVE = FILES / "positive"
ROLES = {
    name: Role(name=name, description="d", instructions=f"You are {name}.", llm_model="m")
    for name in ("Worker", "Supervisor")
}


def cases(folder: str) -> list[Path]:
    return sorted(path for path in (FILES / folder).iterdir() if path.suffix != ".expect")


def loaded(path: Path) -> list[LoadedWorkflow]:
    """Every workflow of a file, each by its name."""
    names = [read.name for read in read_workflow_file(path)]
    if len(names) == 1:
        return [load_workflow(str(path), [path.parent])]
    return [load_workflow(f"{path}#{name}", [path.parent]) for name in names]


def report(path: Path) -> str:
    lines = []
    for one in loaded(path):
        flow = one.draft
        size = f"{len(flow.steps)} steps, {len(flow.edges)} edges, from {flow.start}" if flow else "nothing"
        lines.append(f"{one.name}: {size}")
        for found in find_workflow_problems(one, [path.parent], Around(roles=ROLES)):
            place = ":".join(str(part) for part in (found.line, found.column) if part)
            lines.append(f"  {found.severity} {found.code} {place} {found.path}".rstrip())
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", [*cases("positive"), *cases("negative")], ids=lambda path: path.name)
def test_a_file_says_what_is_expected_of_it(path: Path) -> None:
    expected = path.with_name(path.name + ".expect").read_text("utf-8")
    assert report(path) == expected


@pytest.mark.parametrize("path", cases("positive"), ids=lambda path: path.name)
def test_a_good_file_can_be_used_and_a_job_gets_all_of_it(path: Path) -> None:
    for one in loaded(path):
        assert one.workflow is not None
        whole = freeze_subflows(one, [path.parent])
        assert whole.workflow is not None
        assert type(whole.workflow).model_validate_json(whole.workflow.model_dump_json()) == whole.workflow


@pytest.mark.parametrize("path", cases("negative"), ids=lambda path: path.name)
def test_a_bad_file_has_an_error_and_every_error_says_what_and_where(path: Path) -> None:
    found = [
        problem
        for one in loaded(path)
        for problem in find_workflow_problems(one, [path.parent], Around(roles=ROLES))
        if problem.severity == "error"
    ]
    assert found
    assert all(problem.message and problem.line for problem in found)


@pytest.mark.parametrize("path", cases("positive"), ids=lambda path: path.name)
def test_importing_an_export_gives_an_equal_workflow(path: Path) -> None:
    for one in loaded(path):
        workflow = freeze_subflows(one, [path.parent]).workflow
        assert workflow is not None
        data = exporting.export_workflow(workflow, ROLES, "2025-01-15T10:00:00Z")
        read = exporting.import_workflow(data, {}, "other")
        assert [found for found in read.problems if found.code == "disagree"] == []
        assert read.workflow == workflow
        if workflow.mermaid is not None:
            assert data["workflow"]["mermaidSource"] == workflow.mermaid


def test_the_pr_review_example_has_eleven_steps_twelve_edges_and_its_own_bytes() -> None:
    path = POSITIVE / "pr-review.mmd"
    workflow = load_workflow("pr-review", [POSITIVE]).workflow
    assert workflow is not None
    assert (len(workflow.steps), len(workflow.edges)) == (11, 12)
    assert workflow.mermaid == path.read_text("utf-8")
    kinds = {step.id: f"{step.step_type} {step.execution}" for step in workflow.steps}
    assert {kinds[name] for name in "ABFHIK"} == {"task automated"}
    assert (kinds["C"][:7], kinds["D"][:4], kinds["E"][:8], kinds["J"][:8], kinds["G"]) == (
        "foreach",
        "join",
        "decision",
        "decision",
        "task manual",
    )
    each = workflow.find_step("C")
    assert each is not None
    assert (each.items_path, each.item_variable, each.name) == ("output.files", "file", "Review File")
    assert [(edge.target, edge.condition) for edge in workflow.find_edges_from("E")] == [
        ("F", "output.score >= 80"),
        ("G", "output.score >= 50"),
        ("H", None),
    ]
    assert [edge.target for edge in workflow.find_edges_from("J")] == ["A", "K"]


def test_an_export_names_the_agents_of_its_steps_and_its_version() -> None:
    workflow = load_workflow("article", [POSITIVE]).workflow
    assert workflow is not None
    data = exporting.export_workflow(workflow, ROLES, "2025-01-15T10:00:00Z")
    assert (data["exportVersion"], data["exportedAt"]) == ("2.0", "2025-01-15T10:00:00Z")
    assert data["agents"] == [
        {"id": "Worker", "displayName": "Worker", "agentPrompt": "You are Worker."},
        {"id": "Supervisor", "displayName": "Supervisor", "agentPrompt": "You are Supervisor."},
    ]
    assert exporting.list_agents(data) == data["agents"]
    assert list(data["workflow"]) == ["name", "description", "mermaidSource", "steps"]


def test_the_agents_of_an_import_are_only_those_that_are_whole() -> None:
    text = (POSITIVE / "export.json").read_text("utf-8")
    data = parse_document(text, "export.json").data
    data["agents"] += [{"id": "x"}, "y", {"id": 1, "displayName": "a", "agentPrompt": "b"}]
    assert [agent["id"] for agent in exporting.list_agents(data)] == ["Worker"]
    assert exporting.list_agents({"agents": "none"}) == []
