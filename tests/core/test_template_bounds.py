"""Templates against hostile text and data: bounded, data never read as template, nothing but TemplateError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.template import Rendered, TemplateError, find_template_problems, render
from logist.core.template.actions import MAX_CHARACTERS
from tests.support import examples

fuzz = settings(deadline=None, database=None, max_examples=examples(150))


def deep(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def endless() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["x"] = [data, data]
    return data


BOMBS: list[tuple[str, Any, str]] = [
    ("{{range x}}" * 10 + "{{end}}" * 10, {"x": [0] * 100}, "too many steps"),
    ("{{range x}}{{end}}", {"x": [0] * 100_001}, "too many steps"),
    ("{{range .x}}" * 20 + "{{end}}" * 20, endless(), "too many steps"),
    ("{{x}}" * 200, {"x": "y" * 10_000}, "the rendered text is too long"),
    ("{{x}}", {"x": [0] * 1_000_000}, "the rendered text is too long"),
    ("{{x}}", {"x": deep(100_000)}, "nested too deeply|the rendered text is too long"),
    ("{{x}}", endless(), "nested too deeply"),
    ("{{x}}", {"x": {1, 2}}, "not a JSON value"),
    ("{{x}}", {"x": 10**5_000}, "not a JSON value"),
    ("{{if x}}" * 30_000, {}, "nested too deeply: at most 20 levels"),
    ("{{range x}}" * 21 + "{{end}}" * 21, {}, "nested too deeply: at most 20 levels"),
    ("x" * (MAX_CHARACTERS + 1), {}, "the template is too long"),
    ("{{/*" * 60_000, {}, "not closed"),
]


@pytest.mark.parametrize(("template", "data", "message"), BOMBS, ids=[message for *_, message in BOMBS])
def test_a_bomb_ends_at_once(template: str, data: Any, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        render(template, data)


@pytest.mark.parametrize(
    "piece", ["{{", '{{"', "{{'", "{{x 'a' ", "{{ ", "{{x.", "}}", '{{["', "{{\\", '{{"{{"']
)
def test_text_that_only_opens_is_read_in_linear_time(piece: str) -> None:
    text = piece * (30_000 // len(piece))
    assert render(text, {}).text == text
    assert len(find_template_problems(text, [])) <= 200


def test_warnings_and_problems_are_bounded() -> None:
    text = "".join(f"{{{{x{number}}}}}" for number in range(500))
    assert len(render(text, {}).warnings) == 50
    assert len(find_template_problems(text, [])) == 100


ACTIONS = """
{{ }} {{- -}} {{end}} {{else}} {{if·x}} {{else·if·.y}} {{if·not·x}} {{if·eq·x·"{{"}} {{range·x}} {{range·.}} {{.}} {{x}} {{.y}}
{{$.x}} {{$}} {{x[0].y}} {{/*·c·*/}} {{/* { } " ' text · {{with·x}} {{·a·b·}} {{["k"]}} {{x.length}} \ud800 \0
"""
PIECES = [piece.replace("·", " ") for piece in ACTIONS.split()]
TEXTS = st.lists(st.sampled_from([*PIECES, "\n"]), max_size=10).map("".join) | st.text(max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "k"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@fuzz
@given(TEXTS, JSON, st.booleans())
def test_only_a_template_error_comes_out(template: str, data: Any, strict: bool) -> None:
    found = find_template_problems(template, ["x"])
    try:
        rendered = render(template, data, strict=strict, declared=["y"])
    except TemplateError as error:
        rendered = Rendered(str(error))
    assert not (strict and rendered.warnings)
    if any("has no `end`" in problem.message for problem in found):
        assert "has no `end`" in rendered.text


@fuzz
@given(TEXTS)
def test_what_comes_from_the_data_is_never_read_as_a_template(value: str) -> None:
    data = {"x": value, "xs": [value], "o": {"k": value}}
    assert render("<{{x}}>", data) == Rendered(f"<{value}>")
    assert render("{{range xs}}{{.}}{{end}}{{o.k}}", data) == Rendered(value * 2)
    assert render("{{o}}", data) == Rendered(json.dumps({"k": value}, ensure_ascii=False, indent=2))


@fuzz
@given(st.text(st.characters(exclude_characters="{")))
def test_a_text_without_braces_is_itself(text: str) -> None:
    assert render(text, {}) == Rendered(text)
    assert find_template_problems(text, []) == []
