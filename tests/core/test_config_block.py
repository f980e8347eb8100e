"""The config block: its entries, what is wrong with it, and its bytes."""

from __future__ import annotations

import pytest

from logist.core.mermaid.graph import ConfigEntry
from logist.core.workflow.config_block import read_config_entries

BEGIN, END = "%% === WORKFLOW_CONFIG ===\n", "%% === END_CONFIG ===\n"


def within(lines: str) -> str:
    """A diagram with these lines in its block, which begin in line 4."""
    return f"graph TD\nA --> B\n{BEGIN}{lines}\n{END}"


def nested(levels: int) -> str:
    """An entry of so many levels."""
    return "%% @A: " + '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (within('%% @A: {"stepType": "task"}'), [ConfigEntry("A", {"stepType": "task"}, 4)]),
        (within('%% @A: {\n%%   "a": [1,\n%%   2]\n%% }'), [ConfigEntry("A", {"a": [1, 2]}, 4)]),
        (within("%% @A:\n%% {}\n%%\n%% @B: { }"), [ConfigEntry("A", {}, 4), ConfigEntry("B", {}, 7)]),
        (within('%% @step(A): {"a": 1}'), [ConfigEntry("A", {"a": 1}, 4)]),
        (within("%%@step.one-a: {}\n  %%  @审查 : {}\n%% @ns:x: {}"), [ConfigEntry("step.one-a", {}, 4), ConfigEntry("审查", {}, 5), ConfigEntry("ns:x", {}, 6)]),
        (within('%% @A: {"a": "%% @B: {} "}'), [ConfigEntry("A", {"a": "%% @B: {} "}, 4)]),
        (within('%% @A: {"a": "line\\nbreak \\u00e9 \u2028"}'), [ConfigEntry("A", {"a": "line\nbreak é \u2028"}, 4)]),
        ('%% @step(A): {"a": 1}\ngraph TD\nA\n  %% @step( B ) : {}\n', [ConfigEntry("A", {"a": 1}, 1), ConfigEntry("B", {}, 4)]),
        ('\ufeff%% @step(A): {}\r\ngraph TD\r\n', [ConfigEntry("A", {}, 1)]),
        (within('%% @A: {\n%%   "a": 1\n%% }').replace("\n", "\r\n"), [ConfigEntry("A", {"a": 1}, 4)]),
        (within('%% @A: {\n%%   "a": 1\n%% }').replace("\n", "\r"), [ConfigEntry("A", {"a": 1}, 4)]),
        ("%%===WORKFLOW_CONFIG===\n%% @A: {}\n%%===END_CONFIG===", [ConfigEntry("A", {}, 2)]),
        ("graph TD\n%% @A: {}\n%% a comment\n", []),
        ("", []),
    ],
)  # fmt: skip
def test_entries_are_read_without_a_word(text: str, expected: list[ConfigEntry]) -> None:
    assert read_config_entries(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "code", "path", "place", "message"),
    [
        (within('%% @A: {"a": tru}'), "config_json", "@A", (4, 14), "invalid JSON: Expecting value"),
        (within('%% @A: {\n%%   "a": 1\n%%   "b": 2\n%% }'), "config_json", "@A", (6, 6), "invalid JSON"),
        (within('%% @A: {\n%%   "a" 1\n%% }'), "config_json", "@A", (5, 10), "Expecting ':'"),
        (within('%% @a.b-é: {"a": "x\n%% y"}'), "config_json", "@a.b-é", (4, 20), "control character"),
        (within("%% @A: {"), "config_json", "@A", (4, 8), "invalid JSON"),
        (within("%% @A:"), "config_json", "@A", (4, 7), "invalid JSON"),
        (within('%% @A: {"a": 1, "a": 2}'), "config_json", "@A", (4, 8), "duplicate key `a`"),
        (within('%% @A: {"a": NaN}'), "config_json", "@A", (4, 8), "`NaN` is not valid JSON"),
        (within("%% @A: [1]"), "config_json", "@A", (4, 8), "expected a JSON object"),
        (within("%% @A: {} }"), "config_json", "@A", (4, 10), "unexpected `}` after the JSON"),
        (within("%% @A: " + '{"a":' * 500_000), "config_json", "@A", (4, 8), "nested 500000 levels deep"),
        (within(nested(65)), "config_json", "@A", (4, 8), "nested 65 levels deep; the limit is 64"),
        (within("%% @A: {'a': 1}"), "config_json", "@A", (4, 9), "property name"),
        (within("%% @A: {}\n%% @A: {}"), "config_twice", "@A", (5, 1), "the first is in line 4"),
        (within("%% @A {}"), "config_entry", "", (4, 4), "invalid entry"),
        (f"graph TD\n{BEGIN}%% @A: {{}}\n", "config_block", "", (2, 1), "is not closed"),
        (f"graph TD\n{END}", "config_block", "", (2, 1), "END_CONFIG without a WORKFLOW_CONFIG before it"),
        (within("%% @A: {}") + within(""), "config_block", "", (8, 1), "duplicate config block"),
        ('\ufeff%% @step(A): {"a": x}', "config_json", "@A", (1, 21), "Expecting value"),
        ("graph TD\r\n%% @step(A): {", "config_json", "@A", (2, 14), "invalid JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_step_and_place(
    text: str, code: str, path: str, place: tuple[int, int], message: str
) -> None:
    _, problems = read_config_entries(text)
    (problem,) = problems
    assert (problem.severity, problem.code, problem.path) == ("error", code, path)
    assert (problem.line, problem.column) == place
    assert message in problem.message


def test_all_that_is_wrong_is_told_in_one_go_and_the_rest_is_read() -> None:
    found, problems = read_config_entries(within('%% @A: {\n%% @B: {"b": 1}\n%% @C: [\n%% @B: {}'))
    assert found == [ConfigEntry("B", {"b": 1}, 5)]
    assert [(problem.path, problem.line) for problem in problems] == [("@A", 4), ("@C", 6), ("@B", 7)]


@pytest.mark.parametrize(
    "lines", ["%% a note\n%% @A: {}", "%% @A: {}\n%% a note\n%% and more", "%% @A: {}\nA --> C"]
)
def test_text_between_entries_is_a_warning(lines: str) -> None:
    found, (problem,) = read_config_entries(within(lines))
    assert [entry.id for entry in found] == ["A"]
    assert (problem.severity, problem.code) == ("warning", "config_text")


@pytest.mark.parametrize(
    "text",
    [
        BEGIN + "%% @A: {\n" * 5_000,
        BEGIN + "%% @A: {}\n" + "%% x\n" * 50_000,
        BEGIN + "%% @A: " + "[" * 500_000,
        BEGIN + '%% @A: {"a": ' + "9" * 100_000 + "}",
        " " * 1_000_000,
        "%%" * 500_000,
        "%% @" + "a" * 1_000_000,
        "%% @step(" + " " * 1_000_000,
    ],
    ids=range(8),
)
def test_a_text_made_to_hurt_ends(text: str) -> None:
    found, problems = read_config_entries(text)
    assert len(found) <= 1
    assert len(problems) <= 5_001
