"""Whatever the text, reading ends with workflows or problems; and what is exported is read back."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.model import Workflow
from logist.core.workflow import exporting
from logist.core.workflow.checking import check_workflow
from logist.core.workflow.following import find_next_step
from logist.core.workflow.linting import lint_workflow
from logist.core.workflow.listed import read_step_list
from logist.errors import InvalidFile
from logist.workflows import migrate_prompts, parse_workflow_text
from tests.support import examples

IDS = st.one_of(
    st.sampled_from(["a", "b", "c", "end", "graph", "1.2", "x y", "A"]),
    st.text("ab-_.é1 ", min_size=1, max_size=5),
)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CONDITIONS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(["output.x > 3", "Yes", "default", "a|b", '"quoted"', "output.x == 'a|b'"]),
    st.just({"var": "output.x", "in": ["a", "]"]}),
    WORDS,
)
ROLES = st.text(st.characters(exclude_categories=["Cs"]), min_size=10, max_size=20)


def fields(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    some: dict[str, st.SearchStrategy[Any]] = {"name": WORDS, "when": CONDITIONS, "colour": WORDS}
    if kind != "decision":
        some |= {"prompt": WORDS, "agentRole": ROLES, "guidance": st.lists(WORDS, max_size=2), "role": WORDS}
        some |= {
            "next": st.one_of(st.none(), IDS),
            "confirm": st.one_of(st.booleans(), st.just({"var": "x"})),
        }
    if kind == "task":
        some |= {"execution": st.sampled_from(["automated", "manual"]), "external": st.booleans()}
    if kind == "foreach":
        some |= {"itemsPath": WORDS, "itemVariable": st.just("file"), "maxItems": st.integers(1, 1000)}
    if kind in {"foreach", "subflow"}:
        some |= {"subflowId": WORDS, "inputMapping": st.dictionaries(WORDS, st.just("x"), max_size=1)}
    if kind == "decision":
        branch = st.fixed_dictionaries({"condition": CONDITIONS, "to": IDS})
        some |= {"branches": st.lists(branch, max_size=3), "maxVisits": st.integers(1, 5)}
    return st.fixed_dictionaries({"id": IDS, "stepType": st.just(kind)}, optional=some)


STEPS = st.lists(
    st.sampled_from(["task", "decision", "foreach", "join", "subflow"]).flatmap(fields),
    min_size=1,
    max_size=4,
    unique_by=lambda step: step["id"],
)


def repaired(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps with targets that are there, and at most one default."""
    ids = [step["id"] for step in steps]

    def there(name: str) -> str:
        return name if name in ids else ids[len(name) % len(ids)]

    for step in steps:
        if step.get("next") is not None:
            step["next"] = there(step["next"])
        for branch in step.get("branches", ()):
            branch["to"] = there(branch["to"])
        rest = [branch for branch in step.get("branches", ()) if branch["condition"] is not None]
        if "branches" in step:
            step["branches"] = rest
    return steps


@given(STEPS, WORDS)
@settings(max_examples=examples(30))
def test_what_is_exported_is_read_back_to_the_same_workflow(steps: list[dict[str, Any]], name: str) -> None:
    read = read_step_list({"name": name or "w", "steps": repaired(steps)}, {}, "w")
    if read.is_broken or read.workflow is None:
        return
    data = json.loads(json.dumps(exporting.export_workflow(read.workflow, {}, "2025-01-15T10:00:00Z")))
    again = exporting.import_workflow(data, {}, "other")
    assert [p for p in again.problems if p.severity == "error" or p.code == "disagree"] == []
    assert again.workflow == read.workflow


PIECES = st.sampled_from(
    ["graph TD\n", "A[x]", " --> ", "B{y}", "|z|", "\n", "%% @A: ", "{", "}", '"prompt": ', '"', "steps:", "- id: a", ": ", "  ", "[", "]", ",", "```mermaid\n", "```\n", "---\n", "subgraph s\n", "end\n", "(((", "é", "null", "**Agent's Role:** Be very kind.\n\n"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join)))
@settings(max_examples=examples(30))
@pytest.mark.parametrize("suffix", ["mmd", "md", "yaml", "json"])
def test_whatever_the_text_it_is_read_or_reported(suffix: str, text: str) -> None:
    for read in parse_workflow_text(text, f"w.{suffix}"):
        assert read.workflow is not None or read.problems
        if isinstance(read.workflow, Workflow):
            check_workflow(read.workflow, None, read.places)
            lint_workflow(read.workflow, read.places)
    with suppress(InvalidFile):
        assert not migrate_prompts(text, f"w.{suffix}").problems or "**Agent" in text


HOSTILE = {
    "deep json": ("w.json", '{"steps": ' + "[" * 100_000),
    "deep yaml": ("w.yaml", "steps: " + "[" * 2_000),
    "deep loops": ("w.json", '{"steps": [' + '{"id": "a", "type": "loop", "loop": {"type": "forEach"}, "body": [' * 30 + "]}" * 30 + "]}"),
    "many steps": ("w.json", json.dumps({"steps": [{"id": f"s{n}"} for n in range(10_001)]})),
    "many nodes": ("w.mmd", "graph TD\n" + "".join(f"n{n} --> n{n + 1}\n" for n in range(10_001))),
    "a page of fences": ("w.md", "```mermaid\ngraph TD\nA --> B\n```\n" * 60),
    "open fences": ("w.md", "```mermaid\n" * 5_000),
    "a block of entries": ("w.mmd", "graph TD\nA\n%% === WORKFLOW_CONFIG ===\n" + "%% @A: {\n" * 3_000),
    "subgraphs within each other": ("w.mmd", "graph TD\n" + "subgraph s\n" * 500),
}  # fmt: skip


@pytest.mark.deep_beyond(3)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_end_with_a_problem(name: str) -> None:
    file, text = HOSTILE[name]
    found = parse_workflow_text(text, file)
    assert found
    workflow = found[0].workflow
    problems = [*found[0].problems, *(check_workflow(workflow) if workflow else ())]
    assert any(problem.severity == "error" for problem in problems) is (name != "a page of fences")


@pytest.mark.parametrize("text", ["x" * 1_100_000, "graph TD\n" + "é" * 524_300])
def test_what_is_too_large_is_not_even_read(text: str) -> None:
    found = parse_workflow_text(text, "w.mmd")
    assert [problem.code for problem in found[0].problems] == ["too_large"]


def test_a_thousand_steps_are_checked_and_followed_quickly() -> None:
    steps = [{"id": f"s{n}", "prompt": "x", "when": "output.x > 1"} for n in range(1000)]
    workflow = read_step_list({"name": "w", "steps": steps}, {}, "w").workflow
    assert workflow is not None
    assert check_workflow(workflow) == []
    assert find_next_step(workflow, [], {})["isComplete"] is True
