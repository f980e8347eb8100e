"""The exit command: the corpus of raw answers, each rule, and what no text may ever do."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.answer.answer_faults import find_schema_faults
from logist.core.answer.exit_command import (
    EXAMPLE,
    EXAMPLE_COPIED,
    Verdict,
    _count_sentences,
    decode_answer,
    judge_answer,
)
from logist.core.model import ExitAction
from logist.core.prompt.prompt import CONTRACT
from logist.core.text.outermost_json import JsonSpan, find_outermost_json
from logist.core.text.surrogates import replace_surrogates
from tests.support import examples

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "schemas" / "llm-chat-schema.json").read_text(encoding="utf-8"))
REPLIES = ROOT / "fixtures" / "replies"
VALID = sorted((REPLIES / "valid").glob("*.txt"))
STUCK = sorted((REPLIES / "stuck").glob("*.txt"))
REASONS: dict[str, str] = json.loads((REPLIES / "stuck" / "reasons.json").read_text(encoding="utf-8"))
NOT_COMPLETED = {"stuck": ExitAction.STUCK, "retry": ExitAction.RETRY}

COMMAND = {"action": "COMPLETED", "evidence_files": ["a.txt"], "summary_for_supervisor": "Done."}
BARE = json.dumps(COMMAND)
OTHER = BARE.replace("COMPLETED", "RETRY")

fuzz = settings(deadline=None, database=None, max_examples=examples(300))


def name(path: Path) -> str:
    return path.stem


def read(path: Path) -> Verdict:
    return judge_answer(decode_answer(path.read_bytes())[0], SCHEMA)


def of(text: str) -> Verdict:
    return judge_answer(text, SCHEMA)


def with_(**fields: Any) -> str:
    return json.dumps(COMMAND | fields)


@pytest.mark.parametrize("path", VALID, ids=name)
def test_valid_reply(path: Path) -> None:
    verdict = read(path)
    assert verdict.reason == ""
    assert verdict.command is not None
    assert verdict.command.action is NOT_COMPLETED.get(path.stem, ExitAction.COMPLETED)


@pytest.mark.parametrize("path", STUCK, ids=name)
def test_stuck_reply(path: Path) -> None:
    verdict = read(path)
    assert verdict.command is None
    assert REASONS[path.stem] in verdict.reason


def test_the_corpus_is_whole() -> None:
    assert len(VALID) + len(STUCK) >= 70
    assert set(REASONS) == {path.stem for path in STUCK}
    assert set(NOT_COMPLETED) <= {path.stem for path in VALID}


def test_a_command_is_returned_as_written() -> None:
    text = with_(evidence_files=["b", "a", "b"], output={"n": 1.5, "t": [True, None]}, metadata={"k": "v"})
    assert asdict(of(text)) == {
        "command": {
            "action": "COMPLETED",
            "evidence_files": ("b", "a", "b"),
            "summary": "Done.",
            "output": {"n": 1.5, "t": [True, None]},
            "metadata": {"k": "v"},
        },
        "reason": "",
        "warnings": (),
    }


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("./a", "a"), ("a//b", "a/b"), ("a/./b/", "a/b"), ("a b", "a b"), ("..a", "..a"), ("a\\b", "a\\b")],
)
def test_paths(written: str, read_as: str) -> None:
    verdict = of(with_(evidence_files=[written]))
    assert verdict.command is not None
    assert verdict.command.evidence_files == (read_as,)
    assert bool(verdict.warnings) == (written != read_as)


OUTSIDE = ("/", "/a", "//a", "\\a", "a/..", "..", "../a", "a/../b", "a\\..\\b", "..\\a", "~", "~me/a")
NO_PATH = ("", ".", "./", "./.", "C:", "C:a", "c:/a", "file:///a", "https://a/b", "x" * 1025)
UNPRINTABLE = ("a\0b", "a\nb", "a\n", "\x1b[1m", "a\x7f")


@pytest.mark.parametrize("path", OUTSIDE + NO_PATH + UNPRINTABLE)
def test_refused_paths(path: str) -> None:
    verdict = of(with_(evidence_files=["fine.txt", path]))
    assert verdict.command is None
    assert verdict.reason.startswith("`evidence_files[1]` ")


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (BARE + "\nBye", "the answer has text after its exit command"),
        (f"Done.\n```json\n{BARE}\n```", "the exit command is in a code fence"),
        (f"```json\n{BARE}\n```", "the exit command is in a code fence"),
        (f"```json\n{BARE}\n```\nBye", "the answer has text after its exit command"),
        (f'{{"response": {BARE}}}', "the exit command is wrapped in `response`"),
        (f"{BARE}\n{BARE}\n", "the exit command appears 2 times"),
        (
            with_(summary_for_supervisor="A. B! C? D. E… F"),
            "`summary_for_supervisor` has 6 sentences; expected two to five",
        ),
    ],
)
def test_warnings(text: str, warning: str) -> None:
    verdict = of(text)
    assert verdict.command is not None
    assert verdict.warnings == (warning,)


@pytest.mark.parametrize(
    "before", ["Done.\n", "Done. ", "Ran:\n```\nmake\n```\n", 'It has {"a": 1}.\n\n', "\ufeff\n"]
)
def test_text_before_the_exit_command_needs_no_warning(before: str) -> None:
    verdict = of(before + BARE + "\n")
    assert verdict.command is not None
    assert verdict.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE,
        f"Done.\n\n{EXAMPLE}\n",
        f"```json\n{EXAMPLE}\n```",
        f'{{"response": {EXAMPLE}}}',
        CONTRACT,
        json.dumps({**json.loads(EXAMPLE), "output": {"goal": "g"}}),
    ],
)
def test_a_copy_of_the_example_in_the_prompt_is_not_valid(text: str) -> None:
    assert of(text) == Verdict(reason=EXAMPLE_COPIED)
    assert "the example in the prompt" in EXAMPLE_COPIED


def test_the_example_has_the_required_keys_of_the_schema_and_breaks_it_only_by_its_action() -> None:
    example, response = json.loads(EXAMPLE), SCHEMA["properties"]["response"]
    assert CONTRACT.count(EXAMPLE) == 1
    assert list(example) == response["required"]
    assert all(f"- `{key}`" in CONTRACT for key in response["properties"])
    assert all(f"`{action}`" in CONTRACT for action in response["properties"]["action"]["enum"])
    faults = find_schema_faults({"response": example}, SCHEMA)
    assert [fault.partition(" ")[0] for fault in faults] == ["`action`"]
    assert of(json.dumps({**example, "action": "RETRY"})).command is not None


def test_the_example_next_to_an_answer_is_ambiguous() -> None:
    assert "2 different exit commands" in of(f"{EXAMPLE}\n{BARE}").reason


def test_the_prompt_and_the_schema_say_the_same_of_text_around_it() -> None:
    """One rule: what the prompt allows gets no warning, and the schema's description agrees with both."""
    assert "Write any other text first. Then write the exit command on a line of its own" in CONTRACT
    assert CONTRACT.endswith("stop there.")
    described = SCHEMA["properties"]["response"]["description"]
    assert "Text before it is allowed; text after it is a warning." in described


@pytest.mark.parametrize("summary", ["", "A. B! C? D. E.", "Version 1.2.3 of a.b.c is out", "One... two…"])
def test_five_sentences_need_no_warning(summary: str) -> None:
    assert of(with_(summary_for_supervisor=summary)).warnings == ()


def test_one_and_true_are_different_commands() -> None:
    assert "2 different" in of(with_(output=1) + with_(output=True)).reason


def test_different_requests_beside_one_response() -> None:
    both = [f'{{"request": {{"action": "run", "job_id": "{job}"}}, "response": {BARE}}}' for job in "ab"]
    assert "different `request` objects" in of("\n".join(both)).reason
    assert of(both[0] + both[0] + BARE).command is not None


AROUND = (
    "@",
    "`{` @",
    'a "{" @',
    "'{' @",
    "don't \"quote\n@",
    "@ }",
    "}}}} @",
    "{} @",
    "[x] @",
    "[1] @",
    "[see @]",
    "`[\"']` @",
    "f(x) { y; }\n@",
    "int main() { return\n@",
    "\x1b[31m@\x1b[0m",
    '```\n{"a":\n```\n@',
    'c = {"a", "b"}; @',
    "```c\nint f() {\n```\n@\n}",
    "int f() {std::string s; @",
    '{ msg: "Action: completed" } @',
    '{"loss": NaN} @',
)


@pytest.mark.parametrize("around", AROUND)
def test_what_stands_around_does_not_hide_the_command(around: str) -> None:
    assert of(around.replace("@", BARE)).command is not None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (f"{{{{{BARE}", "the answer ends inside a JSON object or list"),
        (f"{{response: {BARE}", "the answer ends inside a JSON object or list"),
        (f"{{'response': {BARE}", "the answer ends inside a JSON object or list"),
        (f"{{ // wrapped\n {BARE}", "the answer ends inside a JSON object or list"),
        (f"[{BARE}, ", "the answer ends inside a JSON object or list"),
        (f'[1, "a", {BARE}]', "inside a list"),
        (f"[[{BARE}]]", "inside a list"),
        (f"{BARE}\n{{", "the answer ends inside a JSON object or list"),
        (f'{BARE}\n{{"', "the answer ends inside a JSON object or list"),
        (f"{BARE}\n[{{", "the answer ends inside a JSON object or list"),
        (f'{BARE}\n```json\n{{"action": "STU\n```', "is cut off"),
        (f"if (ok) {{ send({BARE}); }}", "inside code or other braces"),
    ],
)
def test_what_is_not_outermost_or_breaks_off(text: str, part: str) -> None:
    verdict = of(text)
    assert verdict.command is None
    assert part in verdict.reason


def test_a_reason_names_the_line() -> None:
    assert "(line 3 of the answer)" in of('Done.\n\n{"action": "COMPLETED",}').reason


def test_several_faults_are_named_together() -> None:
    reason = of('{"action": "DONE", "evidence_files": 1}').reason
    assert [part in reason for part in ("`action`", "`evidence_files`", "`summary_for_supervisor`")] == [
        True
    ] * 3


def test_a_long_value_is_cut_in_the_reason() -> None:
    assert len(of(with_(action="x" * 100_000)).reason) < 200
    assert len(of(with_(**{"k" * 100_000: 1})).reason) < 200


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ("", False)),
        ("é🚀".encode(), ("é🚀", False)),
        (b"\xef\xbb\xbfa", ("\ufeffa", False)),
        (b"a\xffb", ("a\\udcffb", True)),
        (b"\xc3", ("\\udcc3", True)),
        (b"\xed\xa0\x80", ("\\udced\\udca0\\udc80", True)),
        (b"\\udcff", ("\\udcff", False)),
    ],
)
def test_decode(data: bytes, expected: tuple[str, bool]) -> None:
    assert decode_answer(data) == expected


def test_clean() -> None:
    assert replace_surrogates("a\ud800b🚀") == ("a\\ud800b🚀", True)
    assert replace_surrogates("a\\ud800b🚀") == ("a\\ud800b🚀", False)


@pytest.mark.parametrize("text", ["\ud800", BARE + "\udfff", with_() + "\ud83d"])
def test_lone_surrogates_are_stuck(text: str) -> None:
    assert "lone surrogates" in of(text).reason


characters = st.characters() | st.sampled_from("{}[]\"'\\:,`~\n\r\t \ud800\udfff\0\ufeff")
fragments = st.sampled_from(
    ['{"action":', '"COMPLETED"', BARE, OTHER, '{"response":', "}", "[", "]", "```\n", "NaN", "//", "\\u"]
)


@fuzz
@given(st.text(characters) | st.lists(fragments | st.text(characters, max_size=5)).map("".join))
def test_no_text_ever_raises(text: str) -> None:
    verdict = of(text)
    assert (verdict.command is None) == bool(verdict.reason)


@fuzz
@given(st.binary())
def test_no_bytes_ever_raise(data: bytes) -> None:
    text, broken = decode_answer(data)
    assert text.encode("utf-8").decode("utf-8") == text
    assert broken or text.encode("utf-8") == data
    of(text)


storable = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | storable,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(storable, inner, max_size=3),
    max_leaves=8,
)
commands = st.fixed_dictionaries(
    {
        "action": st.sampled_from([action.value for action in ExitAction]),
        "evidence_files": st.lists(st.from_regex(r"[a-z]{1,8}(/[a-z.]{1,4}x)?", fullmatch=True), max_size=4),
        "summary_for_supervisor": storable,
    },
    optional={"output": json_values, "metadata": st.dictionaries(storable, json_values, max_size=3)},
)
harmless = st.text(st.characters(exclude_characters="{}[`~", exclude_categories=["Cs"]), max_size=60)


@fuzz
@given(commands, harmless, harmless, st.booleans(), st.sampled_from([None, 2]), st.booleans())
def test_a_command_survives_prose_and_fences(
    command: dict[str, Any], before: str, after: str, fenced: bool, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(command, indent=indent, ensure_ascii=ascii_only)
    fence = f"\n```json\n{text}\n```\n" if fenced else f"\n{text}\n"
    verdict = of(before + fence + after)
    assert verdict.command is not None, verdict.reason
    assert verdict.command.action == command["action"]
    assert verdict.command.evidence_files == tuple(command["evidence_files"])
    assert verdict.command.summary == command["summary_for_supervisor"]
    assert verdict.command.output == command.get("output")


@pytest.mark.parametrize(
    "path",
    [path for path in VALID if path.stem in ("seed-example", "wrapped", "fenced", "two-equal", "unicode")],
    ids=name,
)
def test_no_truncation_is_completed_unless_the_whole_object_is_there(path: Path) -> None:
    data = path.read_bytes()
    whole = 1 + data.index(b"}}" if path.stem == "wrapped" else b"}") + (path.stem == "wrapped")
    for length in range(len(data)):
        verdict = judge_answer(decode_answer(data[:length])[0], SCHEMA)
        if length < whole:
            assert verdict.command is None, length
    assert judge_answer(decode_answer(data[:whole])[0], SCHEMA).command is not None


@fuzz
@given(st.integers(1, len(BARE) - 1), harmless)
def test_a_second_command_that_is_cut_off_is_stuck(length: int, between: str) -> None:
    assert of(f"{BARE}\n{between}\n{OTHER[:length]}").command is None


@given(st.text("{}[]\"'a:, \n`\\"))
def test_an_answer_that_begins_with_an_object_is_searched_like_any_other(rest: str) -> None:
    """The shortcut for answers that are only an object finds what the pattern finds, which a space before it needs."""
    quick = find_outermost_json(f'{{"{rest}')
    slow = find_outermost_json(f' {{"{rest}')

    def move(spans: tuple[JsonSpan, ...]) -> list[JsonSpan]:
        return [JsonSpan(each.start + 1, each.end + 1, each.depth, each.ending) for each in spans]

    assert (move(quick.spans), move(quick.hidden)) == ([*slow.spans], [*slow.hidden])


@given(st.text(".!?… a\n\"'"))
def test_a_short_summary_has_as_many_sentences_as_a_long_one(summary: str) -> None:
    """One sentence is counted without the pattern, which two sentences need."""
    assert _count_sentences(f"One. Two. {summary}") == 2 + _count_sentences(summary)
