"""Templates: what each action gives, what stays as it is written, and what is found before there is data."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.condition import compile_condition
from logist.core.template import Rendered, TemplateError, find_template_problems, render

DATA: dict[str, Any] = {
    "input": {"prNumber": 42, "score": 79.5, "note": None, "ok": True, "empty": ""},
    "file": {"path": "src/a.py", "tags": ["x", "ü"]},
    "index": 0,
    "total": 3,
    "parentId": "job-1",
    "Title": "Größe <b>",
    "Items": ["p", "q"],
    "Files": [{"path": "a", "lines": [1, 2]}, {"path": "b", "lines": []}],
    "Map": {"b": 2, "a": 1},
    "quoted key": {"x y": "found"},
    "trap": "{{Title}} {{if x}}",
    "pr-no": 1,
    "list": [],
    "object": {},
    "nan": float("nan"),
}

SHOWN = [
    # The templates of the documents this follows.
    (
        "Fetch PR #{{input.prNumber}} metadata. Output: {title, author}",
        "Fetch PR #42 metadata. Output: {title, author}",
    ),
    ("Output: {files: [{path, additions}]}", "Output: {files: [{path, additions}]}"),
    ("Review {{file.path}} for bugs.", "Review src/a.py for bugs."),
    ("Score: {{input.score}}/100.", "Score: 79.5/100."),
    ("foreach:{{parentId}}", "foreach:job-1"),
    # Lookups.
    ("", ""),
    ("{{ index }} of {{total}}", "0 of 3"),
    ("{{.Title}}{{Title}}{{$.Title}}", "Größe <b>" * 3),
    ("{{file.tags[1]}}{{file.tags.0}}{{.file.tags.length}}", "üx2"),
    ('{{["quoted key"]["x y"]}}', "found"),
    ("{{pr-no}}", "1"),
    ("{{input.note}} {{input.ok}}", "null true"),
    ("{{file.tags}}", '[\n  "x",\n  "ü"\n]'),
    ("{{Map}}", '{\n  "b": 2,\n  "a": 1\n}'),
    ("{{list}}{{object}}", "[]{}"),
    ("{{{index}}}", "{0}"),
    ("{{trap}}", "{{Title}} {{if x}}"),
    ("{{\n index\n}}", "0"),
    # White space and comments.
    ("a \n {{- index -}} \n b", "a0b"),
    ("a {{- /* gone */ -}} b", "ab"),
    ("a{{/* {{ }} \n */}}b", "ab"),
    ("{{-index}} x", "0 x"),
    # Conditions.
    ("{{if Title}}yes{{end}}", "yes"),
    ("{{if .Gone}}yes{{end}}", ""),
    ("{{if .Gone}}yes{{else}}no{{end}}", "no"),
    ("{{if not .Gone}}none{{end}}", "none"),
    (
        "{{if list}}y{{end}}{{if object}}y{{end}}{{if index}}y{{end}}{{if input.empty}}y{{end}}{{if input.note}}y{{end}}",
        "",
    ),
    ("{{if nan}}y{{end}}{{nan}}", "yNaN"),
    ("{{if Map}}y{{end}}{{if Items}}y{{end}}{{if input.ok}}y{{end}}{{if total}}y{{end}}", "yyyy"),
    ("{{if .a}}1{{else if .Title}}2{{else}}3{{end}}", "2"),
    ("{{if .a}}1{{else if .b}}2{{else if not .c}}3{{end}}", "3"),
    ('{{if eq .parentId "job-1"}}y{{end}}', "y"),
    ('{{if eq parentId "job-2"}}y{{else}}n{{end}}', "n"),
    ('{{if ne parentId "job-2"}}y{{end}}', "y"),
    ('{{if not eq .parentId "}}"}}y{{end}}', "y"),
    ('{{if eq "a\\"{b}" parentId}}y{{end}}', ""),
    ("{{if eq total 3}}y{{end}}{{if eq input.score 79.5}}y{{end}}{{if eq total -3}}n{{end}}", "yy"),
    ("{{if eq input.ok true}}y{{end}}{{if eq index false}}n{{end}}{{if eq input.note nil}}y{{end}}", "yy"),
    ("{{if eq file.path file.path}}y{{end}}{{if eq gone gone}}n{{end}}{{if eq total parentId}}n{{end}}", "y"),
    ('{{if ["quoted key"]["x y"]}}y{{end}}', "y"),
    ("{{if Title}}{{if .Gone}}a{{else}}b{{end}}c{{end}}", "bc"),
    # Ranges.
    ("{{range Items}}<{{.}}>{{end}}", "<p><q>"),
    ("{{range .Gone}}x{{else}}none{{end}}", "none"),
    ("{{range list}}x{{end}}{{range input.note}}x{{end}}", ""),
    ("{{range .Files}}{{.path}}:{{range .lines}}{{.}},{{end}} {{end}}", "a:1,2, b: "),
    ("{{range Files}}{{path}}/{{index}}/{{$.total}} {{end}}", "a/0/3 b/0/3 "),
    ("{{range Map}}{{.}}{{end}}", "12"),
    ('{{range Files}}{{if eq .path "b"}}{{.path}}{{end}}{{end}}', "b"),
    ("{{range Items}}{{range $.Items}}{{.}}{{end}};{{end}}", "pq;pq;"),
    ("{{- range .Items}}\n- {{.}}{{end}}", "\n- p\n- q"),
    ("Do:\n{{range .Items}}\n  - {{.}}\n{{- end}}\nend", "Do:\n\n  - p\n  - q\nend"),
    ("{{range .file.tags}}{{.length}}{{end}}", "11"),
]


@pytest.mark.parametrize(("template", "text"), SHOWN)
def test_what_a_template_gives(template: str, text: str) -> None:
    assert render(template, DATA) == Rendered(text)
    assert render(template, DATA, strict=True) == Rendered(text)


STAYS = [
    ("{{gone}}", "{{gone}}", ["line 1, column 1: `{{gone}}` not found in the data; left unchanged"]),
    (
        "a\nb {{ input.x.y }}{{gone}}",
        "a\nb {{ input.x.y }}{{gone}}",
        [
            "line 2, column 3: `{{ input.x.y }}` not found in the data; left unchanged",
            "line 2, column 18: `{{gone}}` not found in the data; left unchanged",
        ],
    ),
    (
        "${{ secrets.TOKEN }}",
        "${{ secrets.TOKEN }}",
        ["line 1, column 2: `{{ secrets.TOKEN }}` not found in the data; left unchanged"],
    ),
    (
        "{{ a b }}{{#each x}}",
        "{{ a b }}{{#each x}}",
        [
            "line 1, column 1: `{{ a b }}` is neither a path nor a known keyword; left unchanged",
            "line 1, column 10: `{{#each x}}` is neither a path nor a known keyword; left unchanged",
        ],
    ),
    (
        "{{range Items}}{{.x}}{{end}}",
        "{{.x}}{{.x}}",
        ["line 1, column 16: `{{.x}}` not found in the data; left unchanged"],
    ),
    (
        "{{range Files}}{{.Title}}{{end}}",
        "{{.Title}}{{.Title}}",
        ["line 1, column 16: `{{.Title}}` not found in the data; left unchanged"],
    ),
    (
        "{{range Title}}x{{end}}",
        "",
        ["line 1, column 1: `{{range Title}}` is not a list; treated as empty"],
    ),
]


@pytest.mark.parametrize(("template", "text", "warnings"), STAYS)
def test_what_is_not_in_the_data_stays_and_is_an_error_if_strict(
    template: str, text: str, warnings: list[str]
) -> None:
    assert render(template, DATA) == Rendered(text, tuple(warnings))
    with pytest.raises(TemplateError) as caught:
        render(template, DATA, strict=True)
    assert str(caught.value) == warnings[0].removesuffix("; left unchanged").removesuffix(
        "; treated as empty"
    )


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("<{{Gone}}>", "<>"),
        ("<{{.Gone.deeper}}>", "<>"),
        ("<{{$.Gone}}>", "<>"),
        ("<{{input.maybe}}>", "<>"),
        ("{{range Items}}<{{Gone}}>{{end}}", "<><>"),
    ],
)
def test_a_declared_field_that_is_absent_is_empty(template: str, text: str) -> None:
    assert render(template, DATA, strict=True, declared={"Gone", "input.maybe"}) == Rendered(text)


def test_a_declared_field_is_none_of_an_item() -> None:
    assert render("{{range Items}}{{.Gone}}{{end}}", DATA, declared=["Gone"]).text == "{{.Gone}}{{.Gone}}"


ROLE = """\
You are implementing a feature in a software project.

## Task
{{.Title}}

{{if .Description}}
## Description
{{.Description}}
{{end}}

{{if .AcceptanceCriteria}}
## Acceptance Criteria
{{range .AcceptanceCriteria}}
- {{.}}
{{end}}
{{end}}

## Repository Context
{{.RepoContext}}

{{if .CustomInstructions}}
## Project-Specific Instructions
{{.CustomInstructions}}
{{end}}
"""

HEAD = "You are implementing a feature in a software project.\n\n## Task\nAdd {{x}}\n\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            {
                "Description": "Why {{.Title}}",
                "AcceptanceCriteria": ["one", "two"],
                "CustomInstructions": "Be kind.",
            },
            HEAD
            + "\n## Description\nWhy {{.Title}}\n\n\n"
            + "\n## Acceptance Criteria\n\n- one\n\n- two\n\n\n\n## Repository Context\ntree\n\n"
            + "\n## Project-Specific Instructions\nBe kind.\n\n",
        ),
        ({}, HEAD + "\n\n\n\n## Repository Context\ntree\n\n\n"),
        ({"Description": "", "AcceptanceCriteria": []}, HEAD + "\n\n\n\n## Repository Context\ntree\n\n\n"),
    ],
)
def test_the_role_of_the_seed_renders_as_go_renders_it(data: dict[str, Any], text: str) -> None:
    given = {"Title": "Add {{x}}", "RepoContext": "tree", **data}
    assert render(ROLE, given, strict=True, declared=["Description", "CustomInstructions"]) == Rendered(text)


BROKEN = [
    ("{{if x}}", 1, 1, "`if` has no `end`"),
    ("a\n {{range x}}{{if y}}{{end}}", 2, 2, "`range` has no `end`"),
    ("x{{end}}", 1, 2, "`end` without a matching `if` or `range`"),
    ("{{else}}", 1, 1, "`else` without a matching `if` or `range`"),
    ("{{if x}}{{else}}{{else}}{{end}}", 1, 17, "unexpected `else` after `else`"),
    ("{{if x}}{{else}}{{else if y}}{{end}}", 1, 17, "unexpected `else if` after `else`"),
    ("{{range x}}{{else if y}}{{end}}", 1, 12, "`else if` is only allowed in an `if` block"),
    ("{{if}}{{end}}", 1, 1, "`if` needs a path"),
    ("{{if x y}}{{end}}", 1, 1, "`if` needs a path"),
    ("{{if x >= 1}}{{end}}", 1, 1, "`if` needs a path"),
    ('{{if eq x "a}}{{end}}', 1, 1, '`"a` is not a path'),
    ("{{if (x)}}{{end}}", 1, 1, "`(x)` is not a path"),
    ("{{range}}{{end}}", 1, 1, "`range` needs one path"),
    ("{{range $i, $x := .Xs}}{{end}}", 1, 1, "`range` needs one path"),
    ("{{with x}}{{end}}", 1, 1, "`with` is not supported"),
    ("{{if x}}{{end if}}", 1, 9, "unexpected text after `end`"),
    ("{{if x}}{{else x}}{{end}}", 1, 9, "unexpected text after `else`"),
    ("\n\n  {{/* open", 3, 3, "the comment is not closed"),
]


@pytest.mark.parametrize(("template", "line", "column", "message"), BROKEN)
def test_a_broken_block_is_an_error_with_its_place(
    template: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        render(template, {})
    assert (caught.value.line, caught.value.column) == (line, column)
    assert message in caught.value.message
    found = find_template_problems(template, [])
    assert [(problem.severity, problem.line, problem.column) for problem in found] == [
        ("error", line, column)
    ]
    assert found[0].message == caught.value.message


FOUND: list[tuple[str, list[tuple[str, int, int, str]]]] = [
    ("{{input.x}}{{.Title}}{{$.input}}{{.}}{{$}}", []),
    ("{{imput.x}}", [("warning", 1, 1, "unknown name `imput` in `{{imput.x}}`")]),
    ("{{$.x}}", [("warning", 1, 1, "unknown name `x`")]),
    ("{{if not x}}{{else if eq y 1}}{{end}}", [("warning", 1, 1, "`x`"), ("warning", 1, 13, "`y`")]),
    (
        "{{range x}}{{y}}{{.z}}{{$.w}}{{else}}{{v}}{{end}}",
        [("warning", 1, 1, "`x`"), ("warning", 1, 23, "`w`"), ("warning", 1, 38, "`v`")],
    ),
    ("a\n{{ b c }} {{input", [("error", 2, 1, "neither a path"), ("warning", 2, 11, "not closed")]),
]


@pytest.mark.parametrize(("template", "expected"), FOUND)
def test_what_is_wrong_is_found_before_there_is_data(
    template: str, expected: list[tuple[str, int, int, str]]
) -> None:
    found = find_template_problems(template, ["input", "Title"])
    places = [(problem.severity, problem.line, problem.column) for problem in found]
    assert places == [(severity, line, column) for severity, line, column, _ in expected]
    for problem, (*_, message) in zip(found, expected, strict=True):
        assert message in problem.message


def test_a_name_that_is_nearly_known_is_suggested() -> None:
    assert [problem.fix for problem in find_template_problems("{{imput}}{{q}}", ["input"])] == [
        "did you mean `input`?",
        "known: input",
    ]


@pytest.mark.parametrize(
    ("value", "length"),
    [
        ([1, 2], 2),
        ("größe", 5),
        ("\U0001f600", 2),
        ({"length": 9}, 9),
        ({"a": 1, "b": 2}, None),
        (5, None),
        (None, None),
    ],
)
def test_a_length_is_that_of_conditions(value: object, length: int | None) -> None:
    data = {"output": {"x": value}}
    text = "{{output.x.length}}"
    assert render(text, data).text == (text if length is None else str(length))
    verdict = compile_condition("output.x.length >= 0", ["output"]).judge_data(data)
    assert verdict.values.get("output.x.length") == length
    assert verdict.missing == (("output.x.length",) if length is None else ())
