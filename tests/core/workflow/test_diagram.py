"""From diagrams to steps: shapes, prefixes, config, labels, subgraphs."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.model import END, Step, Workflow
from logist.core.workflow.parsing import read_mermaid
from logist.core.workflow.places import Read

BLOCK = "%% === WORKFLOW_CONFIG ===\n{}\n%% === END_CONFIG ===\n"


def read(lines: str, *entries: str) -> list[Read]:
    block = BLOCK.format("\n".join(f"%% {entry}" for entry in entries)) if entries else ""
    return read_mermaid(f"graph TD\n{lines}\n{block}", "flow")


def flow(lines: str, *entries: str) -> Workflow:
    found = read(lines, *entries)[0]
    assert found.workflow is not None
    assert not found.is_broken, found.problems
    return found.workflow


def step(shape: str, entry: str = "") -> Step:
    found = read(f"Z --> {shape}", *([f"@A: {entry}"] if entry else []))[0].workflow
    assert found is not None
    return next(step for step in found.steps if step.id != "Z")


SHAPES = {
    "A[x]": "task automated",
    "A(x)": "task manual",
    "A((x))": "task manual",
    "A{x}": "decision automated",
    "A{{x}}": "task automated external",
    "A[[Each: x]]": "foreach automated",
    "A[[each:x]]": "foreach automated",
    "A[[Run: x]]": "subflow automated",
    "A[[Join: x]]": "join automated",
    "A[Join: x]": "join automated",
    "A[Join x]": "join automated",
    "A[join the results]": "join automated",
    "A[Joinery]": "task automated",
    "A(Join the call)": "task manual",
    "A{Join?}": "decision automated",
    "A(Each: x)": "foreach automated",
    "A{Run: x}": "subflow automated",
    "A[[x]]": "task automated",
    "A([x])": "task automated",
    "A[(x)]": "task automated",
    "A>x]": "task automated",
    "A[/x/]": "task automated",
    "A": "task automated",
    "A[x]:::red": "task automated",
}


@pytest.mark.parametrize(("shape", "wanted"), SHAPES.items())
def test_what_a_shape_and_a_prefix_mean(shape: str, wanted: str) -> None:
    found = step(shape)
    assert f"{found.step_type} {found.execution}{' external' if found.external else ''}" == wanted


NAMES = {
    "A[[Each: Review File]]": ("Review File", None),
    "A[[Run: Security Scan]]": ("Security Scan", "Security Scan"),
    "A[Join Reviews]": ("Join Reviews", None),
    "A[Join: Reviews]": ("Reviews", None),
    "A[two<br/>lines]": ("two lines", None),
    'A["#quot;so#quot; & more"]': ('"so" & more', None),
    "A": ("A", None),
    "A[[Each:]]": ("A", None),
}


@pytest.mark.parametrize(("shape", "wanted"), NAMES.items())
def test_the_name_is_the_label_without_its_prefix(shape: str, wanted: tuple[str, str | None]) -> None:
    found = step(shape)
    assert (found.name, found.subflow) == wanted


PRECEDENCE: list[tuple[str, str, str, Any]] = [
    ("A[[Each: x]]", '{"stepType": "task"}', "step_type", "task"),
    ("A[Join x]", '{"stepType": "task"}', "step_type", "task"),
    ("A[[Run: x]]", '{"stepType": "foreach", "itemsPath": "output.x"}', "subflow", None),
    ("A[[Run: x]]", '{"subflowId": "other"}', "subflow", "other"),
    ("A[[Run: x]]", '{"stepType": "flow"}', "subflow", "x"),
    ("A(x)", '{"stepType": "join"}', "execution", "automated"),
    ("A(x)", '{"stepType": "task"}', "execution", "manual"),
    ("A(x)", '{"execution": "automated"}', "execution", "automated"),
    ("A(x)", '{"type": "automated"}', "execution", "automated"),
    ("A[x]", '{"execution": "manual"}', "execution", "manual"),
    ("A{{x}}", '{"stepType": "join"}', "external", False),
    ("A{x}", '{"stepType": "task"}', "step_type", "task"),
    ("A[x]", '{"name": "y"}', "name", "y"),
    ("A[x]", '{"id": "a step"}', "id", "a step"),
]


@pytest.mark.parametrize(("shape", "entry", "field", "value"), PRECEDENCE)
def test_config_goes_before_prefix_before_shape(shape: str, entry: str, field: str, value: Any) -> None:
    assert getattr(step(shape, entry), field) == value


LABELS: dict[str, tuple[str | None, Any]] = {
    'A{x} -->|"output.score >= 80"| B': ("output.score >= 80", "output.score >= 80"),
    "A{x} -->|Needs Fix| B": ("Needs Fix", "Needs Fix"),
    "A{x} -->|default| B": ("default", None),
    "A{x} -->|Else| B": ("Else", None),
    "A{x} -- otherwise --> B": ("otherwise", None),
    "A{x} --> B": (None, None),
    "A[x] -->|sends it| B": ("sends it", None),
    'A[x] -->|"output.ok"| B': ("output.ok", "output.ok"),
    "A[x] -. sends it .-> B": ("sends it", None),
    "A[x] ==> B": (None, None),
}


@pytest.mark.parametrize(("line", "wanted"), LABELS.items())
def test_a_label_is_a_condition(line: str, wanted: tuple[str | None, Any]) -> None:
    edge = flow(line).edges[0]
    assert (edge.label, edge.condition) == wanted


def test_words_on_the_only_way_on_decide_nothing_and_are_reported() -> None:
    found = read("A[x] -->|sends it| B[y]")[0]
    assert [(problem.severity, problem.code, problem.line) for problem in found.problems] == [
        ("warning", "label_no_effect", 2)
    ]
    both = flow("A[x] -->|good| B[y]\nA -->|bad| C[z]")
    assert [edge.condition for edge in both.edges] == ["good", "bad"]


WAYS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "in the order of the diagram": ("B --> C\nA --> B\nC --> D", [("B", "C"), ("A", "B"), ("C", "D")]),
    "chains and fans": ("A --> B & C --> D", [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")]),
    "no head is an edge": ("A --- B", [("A", "B")]),
    "two heads are two": ("A <--> B", [("A", "B"), ("B", "A")]),
    "an invisible one is none": ("A --> B\nA ~~~ B", [("A", "B")]),
    "to a subgraph": ("A --> s\nsubgraph s\nB --> C\nend", [("A", "B"), ("B", "C")]),
    "from a subgraph": ("subgraph s\nB --> C\nend\ns --> D", [("B", "C"), ("C", "D")]),
    "to the end": ("A{x} -->|yes| E(((end)))\nA -->|no| B", [("A", END), ("A", "B")]),
    "an only way to the end is none": ("A --> B\nB --> E(((end)))", [("A", "B")]),
    "to oneself": ("A{x} -->|again| A\nA --> B", [("A", "A"), ("A", "B")]),
}


@pytest.mark.parametrize(("lines", "wanted"), WAYS.values(), ids=WAYS)
def test_edges(lines: str, wanted: list[tuple[str, str]]) -> None:
    found = read(lines)[0].workflow
    assert found is not None
    assert [(edge.source, edge.target) for edge in found.edges] == wanted


STARTS = {
    "the only one with none before it": ("B --> C\nA --> B", (), "A"),
    "of a circle, the first": ("B --> C\nC --> B", (), "B"),
    "the one that says so": ("A --> B\nB --> A", ('@B: {"start": true}',), "B"),
}


@pytest.mark.parametrize(("lines", "entries", "start"), STARTS.values(), ids=STARTS)
def test_where_it_begins(lines: str, entries: tuple[str, ...], start: str) -> None:
    assert flow(lines, *entries).start == start


AGREEING: dict[str, tuple[str, list[Any]]] = {
    "captions": (
        '{"branches": [{"condition": "output.a", "to": "B"}, {"condition": null, "to": "C"}]}',
        ["output.a", None],
    ),
    "an object": (
        '{"branches": [{"condition": {"var": "output.a"}, "to": "B"}], "defaultBranch": "C"}',
        [{"var": "output.a"}, None],
    ),
    "only a default": ('{"defaultBranch": "C"}', ["Yes", None]),
    "the default first": (
        '{"branches": [{"condition": null, "to": "C"}, {"condition": "output.a", "to": "B"}]}',
        ["output.a", None],
    ),
}


@pytest.mark.parametrize(("entry", "conditions"), AGREEING.values(), ids=AGREEING)
def test_branches_in_the_config_that_agree(entry: str, conditions: list[Any]) -> None:
    found = flow("A{x} -->|Yes| B[b]\nA --> C[c]", f"@A: {entry}")
    assert [edge.condition for edge in found.edges] == conditions


DISAGREEING = {
    "another target": '{"branches": [{"condition": "output.a", "to": "C"}], "defaultBranch": "B"}',
    "one more": '{"branches": [{"condition": "output.a", "to": "B"}, {"condition": "output.b", "to": "B"}, {"condition": null, "to": "C"}]}',
    "one less": '{"branches": [{"condition": "output.a", "to": "B"}]}',
    "another default": '{"defaultBranch": "B"}',
}


@pytest.mark.parametrize("entry", DISAGREEING.values(), ids=DISAGREEING)
def test_branches_in_the_config_that_do_not_agree(entry: str) -> None:
    found = read("A{x} -->|Yes| B[b]\nA --> C[c]", f"@A: {entry}")[0]
    assert {(problem.severity, problem.code, problem.path) for problem in found.problems} == {
        ("error", "disagree", "@A.branches")
    }


def test_the_same_condition_may_be_spaced_otherwise() -> None:
    found = flow(
        'A{x} -->|"output.a  >=  80"| B[b]\nA --> C[c]',
        '@A: {"branches": [{"condition": "output.a >= 80", "to": "B"}], "defaultBranch": "C"}',
    )
    assert found.edges[0].condition == "output.a >= 80"


def test_subgraphs_that_nothing_connects_are_workflows_of_their_own() -> None:
    lines = "subgraph one [First]\nA --> B\nend\nsubgraph two\nC\nend"
    found = read(lines, '@B: {"prompt": "b"}', '@C: {"prompt": "c"}')
    assert [(one.name, [s.id for s in one.workflow.steps] if one.workflow else None) for one in found] == [
        ("First", ["A", "B"]),
        ("two", ["C"]),
    ]
    assert found[1].workflow is not None
    assert found[1].workflow.steps[0].prompt == "c"
    assert len(read(lines + "\nB --> C")) == 1
    assert len(read(lines + "\nD")) == 1


def test_the_text_of_a_diagram_is_kept_byte_for_byte() -> None:
    text = 'graph  TD\r\n A-->B;\r\n  %% why\r\n%% @step(A): {  "prompt" :"x" }\r\n'
    found = read_mermaid(text, "w")[0].workflow
    assert found is not None
    assert found.mermaid == text


def test_lines_count_from_the_file_the_diagram_stands_in() -> None:
    found = read_mermaid('graph TD\n A --> B\n%% @step(C): {"prompt": "x"}\n', "w", before=10)[0]
    assert [(problem.code, problem.line) for problem in found.problems] == [("no_node", 13)]
    assert found.places.locate_step("B", "") == ("@B", 12)
    broken = read_mermaid("graph TD\n A[x --> B\n", "w", before=10)[0]
    assert [(problem.code, problem.line) for problem in broken.problems] == [("mermaid", 12)]


def test_one_subgraph_around_everything_is_only_a_frame() -> None:
    found = read("subgraph one [First]\nA --> B\nend")
    assert [one.name for one in found] == ["flow"]
    assert found[0].workflow is not None
    assert found[0].workflow.mermaid is not None
