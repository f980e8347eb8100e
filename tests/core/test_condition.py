"""Conditions: which form a text has, what every form says of data, and what is refused when it is loaded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from logist.core import condition
from logist.core.condition import ROOTS, ConditionError, ConditionVerdict, compile_condition, render_condition
from logist.core.text.paths import path_to_text
from tests import support

NAN = float("nan")
GOOD: dict[str, Any] = {
    "output": {
        "score": 80,
        "half": 79.5,
        "status": "approved",
        "items": [1, "x", 2.5],
        "none": [],
        "object": {},
        "map": {"k": 1},
        "empty": "",
        "zero": 0,
        "null": None,
        "yes": True,
        "no": False,
        "nan": NAN,
        "pr-number": 7,
        "choice": " needs  FIX ",
        "big": 2**60,
        "huge": 10**400,
    },
    "input": {"min": 80.0, "name": "b"},
    "steps": {"phase 1.2": {"output": {"done": True}}, "A": {"output": {"n": 1}}},
    "index": 0,
}


def judge(form: Any, data: Any = GOOD, roots: frozenset[str] = ROOTS) -> ConditionVerdict:
    return compile_condition(form, roots).judge_data(data)


# The expressions of the documents this follows, each on data that decide it either way.
SEED = [
    ("output.score >= 80", {"score": 80}, True),
    ("output.score >= 80", {"score": 80.0}, True),
    ("output.score >= 80", {"score": 100}, True),
    ("output.score >= 80", {"score": 79.5}, False),
    ("output.score >= 80", {"score": -1}, False),
    ("output.score >= 80", {"score": "95"}, True),
    ("output.score >= 80", {"score": None}, False),
    ("output.score >= 80", {}, None),
    ("output.score >= 50", {"score": 50}, True),
    ("output.score >= 50", {"score": 49.999}, False),
    ("output.shouldRetry", {"shouldRetry": True}, True),
    ("output.shouldRetry", {"shouldRetry": False}, False),
    ("output.shouldRetry", {"shouldRetry": "false"}, True),
    ("output.shouldRetry", {}, None),
    ("output.status === 'approved'", {"status": "approved"}, True),
    ('output.status === "approved"', {"status": "approved"}, True),
    ("output.status === 'approved'", {"status": "Approved"}, False),
    ("output.status === 'approved'", {"status": 1}, False),
    ("output.status === 'approved'", {"status": None}, False),
    ("output.status === 'approved'", {}, None),
    ("output.items.length > 0", {"items": [0]}, True),
    ("output.items.length > 0", {"items": []}, False),
    ("output.items.length > 0", {"items": "text"}, True),
    ("output.items.length > 0", {"items": 5}, None),
    ("output.items.length > 0", {"items": {"a": 1}}, None),
    ("output.items.length > 0", {"items": {"length": 1}}, True),
    ("output.items.length === 2", {"items": "\U0001f600"}, True),
    ("output.score >= 80", {"score": " 8.5e1 "}, True),
    ("output.score >= 80", {"score": "high"}, None),
    ("output.score >= 80", {"score": True}, False),
    ("output.score < 80", {"score": None}, True),
    ("output.score < 80", {"score": ""}, True),
    ("output.score >= 80", {"score": [85]}, True),
    ("output.score >= 80", {"score": [85, 1]}, None),
    ("output.score >= 80", {"score": {}}, None),
    ("output.score >= 80", {"score": "0x50"}, True),
    ("output.score > -1", {"score": "0"}, True),
    ("output.score >= '80'", {"score": "9"}, True),
    ("output.score >= '80'", {"score": 9}, False),
    ("output.score > '\uffff'", {"score": "\U0001f600"}, False),
    ("output.isValid", {"isValid": {}}, True),
    ("output.isValid", {"isValid": 0}, False),
]


@pytest.mark.parametrize(("text", "output", "taken"), SEED)
def test_the_expressions_of_the_seeds(text: str, output: dict[str, Any], taken: bool | None) -> None:
    """None is an error, which counts as not taken."""
    verdict = judge(text, {"output": output})
    assert (verdict.taken, verdict.error is not None) == (taken is True, taken is None)


TRUE = """
output.half < 80
output.half >= 79.5 && output.half <= 79.5
output.score == input.min
output.score === 8e1
output.score !== 80.5
output.score > 79 && output.score < 81
output.status != 'rejected'
output.status !== 80
80 === output.score
output.pr-number === 7
output.score - 5 > 70 && output.score -5 === 75
output.score / 3 > 26.6 && output.score * 2 + 1 === 161
output.score % 7 === 3 && -output.score % 7 === -3
1 + 2 * 3 === 7 && (1 + 2) * 3 === 9
10 - 3 - 2 === 5 && 16 / 4 / 2 === 2
--output.score > 0
-output.score < 0 && +output.score > 0
output.status + '!' === 'approved!'
'it\\'s' === "it's"
'a\\nb\\u00e4' === "a\\nbä"
"output.score >= 80" !== 'x || y'
output.items.includes('x') && output.items.includes(2.5) && !output.items.includes(3)
output.items.contains(1)
output.status.includes('prov') && output.status.startsWith('app') && output.status.endsWith('ed')
['approved', 'merged'].includes(output.status)
'approved'.includes(output.status)
output.status in ['approved', "merged"]
'x' in output.items
'k' in output.map
!(5 in output.items)
output.items[1] === 'x' && output.items.length === 3
output.items === [1.0, 'x', 2.5]
output.status.length === 8
!output.zero && !output.empty && !output.null && !output.nan && !output.no
output.none && output.object && output.yes && output.status
output.score >= 80 ? output.yes : output.no
(output.yes ? 1 : 2) === 1
output.no ? false : output.zero ? false : true
output.yes === true && output.no !== true
(output.score > 1) === output.yes
output.yes && output.score > 50 || output.gone
output.gone > 1 || output.yes
output.yes || output.gone > 1
!(output.gone > 1 && output.no)
output.gone === undefined && output.gone == null && output.null === null
output.score !== undefined && null !== output.score
(output.gone || 0) < 5 && (output.gone || output.score || 0) === 80
output.nan !== output.nan
output.huge > output.big
output.big > 1e18
steps["phase 1.2"].output.done
steps.A.output.n === 1
.output.score > 1
.5 < 1 && 1e-3 < .5
((((output.score)))) > 1
index === 0
output.map === output.map && output.map !== output.object
[output.map, output.null] === [output.map, null]
output.null in [null] && output.map in [output.map]
!(output.nan in [output.nan]) && output.items !== [output.nan]
!(true in [1]) && !(1 in [true]) && [true] !== [1]
!(80 in output.map) && !(true in output.map)
(output.gone || output.items) + (output.gone || [3]) === [1, 'x', 2.5, 3]
(output.score > 1) > (output.score < 1)
output.yes > (output.score < 1)
'a' + 'b' < 'b' + 'a'
'\\uffff' + '' < '\U0001f600' + ''
1 / output.zero > 1e308 && -1 / output.zero < -1e308
output.zero / output.zero !== output.zero / output.zero
1e308 * 10 === 1 / 0
-7.5 % 2 === -1.5 && 7.5 % -2 === 1.5 && 9e18 % 1 === 0
-output.zero === 0 && 1 / -output.zero < 0
'' in [''] && ''.includes('') && 'a'.startsWith('')
output.gone === null && (output.gone || null) === null
(output.gone || output.null || 'x') === 'x'
output.items.includes(output.score % 79)
"""

FALSE = """
output.score < 79.5
output.status === 80
output.score === '80'
output.yes === 1
output.null === 0
output.gone !== null
output.nan > 1 || output.nan < 1 || output.nan === output.nan
output.status in []
output.score > 80 && output.gone
output.yes && false
output.no
output.empty
output.zero
output.nan
output.null
!output.items
output.none.includes(1)
output.empty.includes('a')
"""

# Not decided, hence not taken: what the steward is told.
UNDECIDED = [
    ("output.gone", "`output.gone` is missing"),
    ("!output.gone", "`output.gone` is missing"),
    ("output.gone.deeper.still === 1", "`output.gone.deeper.still` is missing"),
    ("output.gone !== 'x'", "`output.gone` is missing"),
    ("output.gone > 1 || output.no", "`output.gone` is missing"),
    ("output.gone > 1 && output.yes", "`output.gone` is missing"),
    ("output.status > 80", "the types of the values don't match: `output.status` is text"),
    ("output.items > 1", "the types of the values don't match: `output.items` is a list"),
    ("output.status - 1 > 0", "the types of the values don't match: `output.status` is text"),
    ("output.yes + 1 > 0", "`output.yes` is true or false, not a number"),
    ("output.map.includes(1)", "the types of the values don't match: `output.map` is an object"),
    ("output.score.startsWith('8')", "the types of the values don't match: `output.score` is a number"),
    ("output.score % 0 === 0", "the types of the values don't match: `output.score` is a number"),
    ("1 % 0 === 0", "the condition can't be evaluated with any data"),
    ("1 % 1e-300 === 0", "the condition can't be evaluated with any data"),
    ("1e19 % 1 === 0", "the condition can't be evaluated with any data"),
    ("output.huge % 2 === 0", "the types of the values don't match: `output.huge` is a number"),
    ("null in output.map", "the types of the values don't match: `output.map` is an object"),
    (
        "output.items in output.map",
        "the types of the values don't match: `output.items` is a list, `output.map` is an object",
    ),
    ("'a' in output.status", "the types of the values don't match: `output.status` is text"),
    ("output.status.includes(1)", "the types of the values don't match: `output.status` is text"),
    ("output.status + 1 === 'approved1'", "the types of the values don't match: `output.status` is text"),
    ("-output.status > 1", "the types of the values don't match: `output.status` is text"),
    ("output.score < (output.score > 1)", "the types of the values don't match: `output.score` is a number"),
    ("output.items - 1 > 0", "`output.items` is a list, not a number"),
    ("1 < output.yes + 1", "`output.yes` is true or false, not a number"),
    ("(output.gone ? 1 : 2) > 1", "`output.gone` is missing"),
    ("output.gone.startsWith(output.missing)", "`output.gone` is missing"),
    ("output.status.startsWith(output.missing)", "`output.missing` is missing"),
    ("output.missing > 1 || output.no || output.gone > 1", "`output.missing` is missing"),
    ("Yes", "`output.choice` is missing"),
    ("status:open", "`output.status` is missing"),
]


@pytest.mark.parametrize("text", TRUE.strip().splitlines())
def test_what_holds(text: str) -> None:
    verdict = judge(text)
    assert (verdict.taken, verdict.error) == (True, None)


@pytest.mark.parametrize("text", FALSE.strip().splitlines())
def test_what_does_not_hold(text: str) -> None:
    verdict = judge(text)
    assert (verdict.taken, verdict.error) == (False, None)


@pytest.mark.parametrize(("text", "error"), UNDECIDED)
def test_what_can_not_be_decided_is_not_taken(text: str, error: str) -> None:
    data = {"output": {}} if text in ("Yes", "status:open") else GOOD
    verdict = judge(text, data)
    assert (verdict.taken, verdict.error) == (False, error)


def differences_in_the_docs() -> list[tuple[str, str, str]]:
    """The rows of the table: condition, output, and what Logist makes of them."""
    page = (support.ROOT / "docs/workflows.md").read_text("utf-8")
    table = page.partition("### Differences from JavaScript")[2].partition("\n## ")[0]
    rows = [
        line.replace("\\|", "\0").strip("|").split("|") for line in table.splitlines() if line[:3] == "| `"
    ]
    return [
        (text.strip().strip("`").replace("\0", "|"), output.strip().strip("`"), ours.strip())
        for text, output, _, ours in rows
    ]


@pytest.mark.parametrize(("text", "output", "ours"), differences_in_the_docs())
def test_the_differences_from_javascript_are_those_of_the_docs(text: str, output: str, ours: str) -> None:
    try:
        verdict = judge(text, {"output": json.loads(output)})
    except ConditionError:
        assert ours == "refused"
    else:
        assert ours == ("not taken" if verdict.error else str(verdict.taken).lower())


def test_an_earlier_version_ordered_other_kinds_as_not_taken_and_counted_keys() -> None:
    def judged(text: str, output: Any) -> bool:
        return compile_condition(text, ROOTS, javascript=False).judge_data({"output": output}).taken

    assert not judged("output.x >= 80", {"x": "85"})
    assert judged("output.x.length > 0", {"x": {"a": 1}})
    assert judged("output.x.length === 1", {"x": "\U0001f600"})
    assert judged("output.x.length === 9", {"x": {"length": 9}})


# What form a text has: the paths it looks at tell. A word looks at output.choice.
WORD, CHOICE = "word", ["output.choice"]
FORMS: list[tuple[Any, list[str] | str]] = [
    ("Yes", WORD),
    ("approved", WORD),
    ("  Needs Fix ", WORD),
    ("needs<br/>fix", WORD),
    ("pass/fail", WORD),
    ("Don't merge", WORD),
    ("Don't merge, won't fix", WORD),
    ("Looks good!", WORD),
    ("Ready?", WORD),
    ("fix(es) needed", WORD),
    ("[1, 2", WORD),
    ("'Retry(3)'", WORD),
    ("'a > b'", WORD),
    ('"output"', WORD),
    ("opt in", WORD),
    ("input needed", WORD),
    ("80%", WORD),
    ("80", WORD),
    ("1.5", WORD),
    ("-1", WORD),
    ("true", WORD),
    ("re-run", WORD),
    ("Ja, natürlich (später)", WORD),
    ("はい", WORD),
    ("a & b", WORD),
    ("Done.", WORD),
    ("'v1.2'", WORD),
    ('"Yes"', WORD),
    ("default", WORD),
    ("output", ["output"]),
    (".output", ["output"]),
    (" output.x ", ["output.x"]),
    ("output['a b'][0]", ['output["a b"][0]']),
    ("output.x.length", ["output.x.length"]),
    ("status:a,b", ["output.status"]),
    ("output.status : a", ["output.status"]),
    ("input:a", ["input"]),
    ("a.b:c", ["output.a.b"]),
    ("output.a>1", ["output.a"]),
    ("output.a ? input.b : index", ["output.a", "input.b", "index"]),
    ("output.a === 'x:y'", ["output.a"]),
    ("'a' in output.b", ["output.b"]),
    ("!output", ["output"]),
    ("output.a + output.b > total", ["output.a", "output.b", "total"]),
    (True, []),
    (False, []),
    ({}, []),
    ({"var": "scope"}, ["output.scope", "input.scope"]),
    ({"var": "output.scope"}, ["output.scope"]),
]


@pytest.mark.parametrize(("form", "looks_at"), FORMS)
def test_the_form_of_a_condition(form: Any, looks_at: list[str] | str) -> None:
    expected = CHOICE if looks_at == WORD else looks_at
    assert [path_to_text(path) for path in condition.find_paths(form)] == expected
    assert [path_to_text(path) for path in compile_condition(form, ROOTS).paths] == expected
    assert condition.find_roots(form) == {path.split(".")[0].split("[")[0] for path in expected}
    assert compile_condition(form, ROOTS).roots == condition.find_roots(form)


REFUSED: list[tuple[Any, int | None, str]] = [
    ("a.b", 1, "unknown name `a`; for a field of the last answer, write `output.a.b`"),
    ("  outptu.score", 3, "did you mean `output`?"),
    ("score > 80", 1, "unknown name `score`"),
    ("output.a > 1 && score > 80", 17, "unknown name `score`"),
    ("!approved", 2, "unknown name `approved`"),
    ("v1.2", 1, "unknown name `v1`"),
    (".Title", 1, "unknown name `Title`"),
    (">= 80", 1, "missing value before `>=`"),
    ("output.score >=", 16, "missing value"),
    ("output.score >= >= 1", 17, "unexpected `>=`"),
    ("output.score = 80", 14, "write `===`"),
    ("output.a > 1 & output.b", 14, "write `&&`"),
    ("output.a > 1 and output.b", 14, "write `&&` instead of `and`"),
    ("output.a < 1 < 2", 14, "can't chain comparisons"),
    ("output.a > 'x", 12, "unclosed quote"),
    ("(output.a > 1", 14, "missing `)`"),
    ("output.a > 1)", 13, "unexpected `)`"),
    ("output.a[input.b] > 1", 9, "an index must be a number from 0"),
    ("output.a.map(x)", 1, "unknown function `map`"),
    ("output.a.matches('x') && true", 1, "unknown function `matches`"),
    ("output.a.includes('x').length > 1", 23, "only a path can have fields"),
    ("('a' + 'b').foo > 1", 12, "only a path can have fields"),
    ("Retry(3)", 1, "unknown function `Retry`"),
    ("size(output.a) > 1", 1, "unknown function `size`"),
    ("__import__('os').system('x')", 1, "unknown function `__import__`"),
    ("output.a && 5", 13, "a number is neither true nor false"),
    ("output.a && 'x'", 13, "a text is neither true nor false"),
    ("output.a + 1 > 1 ? 2 : 3", 20, "a number is neither true nor false"),
    ("output.a - 1", 10, "a number is neither true nor false"),
    ("!null", 2, "null is neither true nor false"),
    ("output.a && []", 13, "a list is neither true nor false"),
    ("output.a > null", 10, "can't order null"),
    ("output.a + true > 1", 12, "can't calculate with this value: expected a number or text"),
    ("(output.a && 1) > 1", 2, "`&&` can only combine values that are true or false"),
    ("output.a > [1]", 10, "can't compare or calculate with a list here"),
    ("output.a.includes([1])", 1, "can't compare or calculate with a list here"),
    ("output.a.startsWith([1])", 1, "can't compare or calculate with a list here"),
    ("(output.a ? [1] : [2]) - 1 > 0", 24, "can't compare or calculate with a list here"),
    ("-(output.a ? [1] : [2]) > 0", 1, "can't compare or calculate with a list here"),
    ("output.a ? input.b", 19, "missing `:`"),
    ("1 in [1, 2", 11, "missing `,`"),
    ('"output.score >= 80"', 1, "remove the quotes"),
    ("'output.score'", 1, "remove the quotes"),
    ("", 1, "empty"),
    ("  ", 1, "empty"),
    ("''", 1, "empty"),
    ("status:", 8, "missing value"),
    ("status:a,,b", 10, "missing value"),
    ("output.a === '\\ud800'", 14, "not valid Unicode"),
    (None, None, "a condition must be text or an object, not null"),
    (5, None, "a condition must be text or an object, not a number"),
    (["Yes"], None, "a condition must be text or an object, not a list"),
]


@pytest.mark.parametrize(("form", "column", "message"), REFUSED)
def test_what_no_data_could_decide_is_refused_when_it_is_loaded(
    form: Any, column: int | None, message: str
) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition(form, ROOTS)
    assert message in caught.value.message
    assert caught.value.column == column


CHOICES: list[tuple[str, Any, bool]] = [
    ("Needs Fix", "needs fix", True),
    ("Needs<br>Fix", " NEEDS  FIX\n", True),
    ("needs fix", "needs fixing", False),
    ("STRASSE", "straße", True),
    ("yes", True, True),
    ("No", False, True),
    ("yes", False, False),
    ("80", 80.0, True),
    ("80", "80", True),
    ("80", 81, False),
    ("'v1.2'", "V1.2", True),
    ("Yes", None, False),
    ("Yes", ["Yes"], False),
    ("choice:a, needs fix ,c", "Needs Fix", True),
    ("choice:'a,b',c", "a,b", True),
    ("choice:a,b", "a,b", False),
    ("output.choice:1,2", 2, True),
    ("choice:true", True, True),
]


@pytest.mark.parametrize(("form", "choice", "taken"), CHOICES)
def test_words_are_compared_as_people_do(form: str, choice: Any, taken: bool) -> None:
    verdict = judge(form, {"output": {"choice": choice}})
    assert (verdict.taken, verdict.error) == (taken, None)


def test_a_verdict_says_what_it_saw_and_what_was_missing() -> None:
    verdict = judge("output.score >= 80 && output.gone.x > 1 || input.long === output.items")
    assert verdict.values == {"output.score": 80, "output.items": [1, "x", 2.5]}
    assert verdict.missing == ("output.gone.x", "input.long")
    assert verdict.error is not None


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("x" * 300, "x" * 200 + "..."),
        (list(range(300)), "a list of 300: " + str(list(range(300)))[:200] + "..."),
        ({"a": {"b": [1, None]}}, {"a": {"b": [1, None]}}),
        (NAN, "nan"),
        (10**300, "1" + "0" * 199 + "..."),
        ("\ud800", "\\ud800"),
        ({1, 2}, "(set)"),
        ([{1, 2}], "a list that is not JSON"),
        (True, True),
    ],
)
def test_the_values_it_saw_are_json_and_short(value: Any, seen: Any) -> None:
    assert judge("output", {"output": value}).values == {"output": seen}


@pytest.mark.parametrize("data", [None, 5, [], "x", {}, {1: 2}, {"output": None}, {"output": [1]}])
def test_data_of_any_shape_is_judged(data: Any) -> None:
    verdict = judge("output.score >= 80", data)
    assert (verdict.taken, verdict.error) == (False, "`output.score` is missing")


RENDERED: list[tuple[Any, str]] = [
    (None, "default"),
    (True, "always"),
    (False, "never"),
    ({}, "always"),
    ("output.score\n  >= 80", "output.score >= 80"),
    ("Yes", "Yes"),
    ("x" * 600, "x" * 500 + "..."),
    ({"var": "output.score", "gte": 50, "lt": 80}, "output.score >= 50 and output.score < 80"),
    ({"var": "a"}, "a"),
    ({"var": "a", "equals": "x"}, 'a = "x"'),
    ({"or": [{"var": "a", "in": [1, 2]}, "Yes"]}, "a in [1, 2] or Yes"),
    (
        {"and": [{"or": [{"var": "a"}, {"var": "b"}]}, {"not": {"var": "c", "exists": True}}]},
        "(a or b) and not (c exists true)",
    ),
    ({"or": [{"var": "a", "gt": 1, "lt": 3}, {"var": "b"}]}, "(a > 1 and a < 3) or b"),
    ({"nonsense": 1}, '{"nonsense": 1}'),
    ([1], "[1]"),
]


@pytest.mark.parametrize(("form", "text"), RENDERED)
def test_every_form_is_one_line_for_people(form: Any, text: str) -> None:
    assert render_condition(form) == text
