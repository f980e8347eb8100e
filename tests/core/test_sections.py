"""Answers in sections: the corpus of raw answers, what each section is read as, and what no text may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.answer.exit_command import MAX_CHARACTERS, ExitCommand, Verdict
from logist.core.model import ExitAction
from logist.core.sections import (
    NextAction,
    Sections,
    SectionStatus,
    combine_action,
    judge_sections,
    read_sections,
)
from logist.core.text.layers import BASE
from tests.support import ROOT, examples

SCHEMA = json.loads((ROOT / "schemas" / "llm-chat-schema.json").read_text(encoding="utf-8"))
REPLIES = ROOT / "fixtures" / "replies" / "sections"
VALID = sorted((REPLIES / "valid").glob("*.txt"))
STUCK = sorted((REPLIES / "stuck").glob("*.txt"))
REASONS: dict[str, str] = json.loads((REPLIES / "stuck" / "reasons.json").read_text(encoding="utf-8"))

fuzz = settings(deadline=None, database=None, max_examples=examples(100))


def name(path: Path) -> str:
    return path.stem


def of(path: Path) -> Verdict:
    return judge_sections(path.read_bytes().decode("utf-8"), SCHEMA)


def command(text: str) -> ExitCommand:
    verdict = judge_sections(text, SCHEMA)
    assert verdict.command is not None, verdict.reason
    return verdict.command


def valid(file: str) -> ExitCommand:
    return command((REPLIES / "valid" / f"{file}.txt").read_bytes().decode("utf-8"))


def answer(status: str = "SUCCESS", next_action: str = "COMPLETE", **more: str) -> str:
    """An answer as the base prompt asks for it; `more` are sections by their heading."""
    parts = {"Status": status, "Summary": "Done.", **more, "Next Action": next_action}
    return "\n\n".join(f"## {heading}\n{text}" for heading, text in parts.items()) + "\n"


def sections(text: str) -> Sections:
    found = read_sections(text)
    assert isinstance(found, Sections), found
    return found


@pytest.mark.parametrize("path", VALID, ids=name)
def test_valid_reply(path: Path) -> None:
    verdict = of(path)
    assert verdict.reason == ""
    assert verdict.command is not None
    assert verdict.command.action == path.stem.split("-")[0].upper()


@pytest.mark.parametrize("path", STUCK, ids=name)
def test_stuck_reply(path: Path) -> None:
    verdict = of(path)
    assert verdict.command is None
    assert REASONS[path.stem] in verdict.reason


def test_the_corpus_is_whole() -> None:
    assert len(VALID) + len(STUCK) >= 60
    assert set(REASONS) == {path.stem for path in STUCK}
    assert {path.stem.split("-")[0].upper() for path in VALID} == set(ExitAction)


@pytest.mark.parametrize("path", VALID, ids=name)
def test_prose_around_changes_nothing(path: Path) -> None:
    text = path.read_bytes().decode("utf-8").removeprefix("\ufeff")
    around = f"Sure! Here is what I found, in short.\n\n{text}\n\nTell me if you need more.\n"
    assert command(around).action == command(text).action


TABLE = {
    ("SUCCESS", "COMPLETE"): "COMPLETED",
    ("SUCCESS", "CONTINUE"): "COMPLETED",
    ("PARTIAL", "COMPLETE"): "COMPLETED",
    ("PARTIAL", "CONTINUE"): "RETRY",
}


@pytest.mark.parametrize("status", SectionStatus)
@pytest.mark.parametrize("next_action", NextAction)
def test_the_action(status: SectionStatus, next_action: NextAction) -> None:
    expected = TABLE.get((status.value, next_action.value), "STUCK")
    assert command(answer(status, next_action)).action == expected
    assert combine_action(Sections(status, next_action)) == expected


@pytest.mark.parametrize("status", SectionStatus)
def test_only_a_status_that_stops_needs_no_next_action(status: SectionStatus) -> None:
    verdict = judge_sections(f"## Status\n{status}\n## Summary\nSo it is.\n", SCHEMA)
    if status in (SectionStatus.BLOCKED, SectionStatus.FAILED):
        assert verdict.command is not None
        assert verdict.command.action is ExitAction.STUCK
    else:
        assert f"{status} alone does not decide what happens next" in verdict.reason


def test_everything_it_says() -> None:
    text = (
        answer(
            next_action="CONTINUE - merge it",
            Output='{"n": [1, true]}',
            Evidence="- ./a.txt\n- `b.txt`, `c.txt`: new",
        )
        + '## Metadata\n{"confidence": 0.5, "suggested_tags": ["x"], "suggested_next_stage": " C ", "own": 1}\n'
    )
    assert judge_sections(text, SCHEMA) == Verdict(
        ExitCommand(
            action=ExitAction.COMPLETED,
            evidence_files=("a.txt", "b.txt", "c.txt"),
            summary="Done.",
            output={"n": [1, True]},
            metadata={
                "own": 1,
                "confidence": 0.5,
                "suggested_tags": ["x"],
                "suggested_next_stage": "C",
                "status": "SUCCESS",
                "next_action": "CONTINUE",
                "reason": "merge it",
            },
        ),
        warnings=('evidence "./a.txt" is read as "a.txt"',),
    )


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("42", 42),
        ("null", None),
        ('"a"', "a"),
        ("[1, 2]", [1, 2]),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('~~~\n{"a": 1}\n~~~', {"a": 1}),
        ('{"a": 1}\n\n## Remarks\nOnly one.', {"a": 1}),
        ('Look:\n```json\n{"a": 1}\n```', 'Look:\n```json\n{"a": 1}\n```'),
        ("```python\nprint(1)\n```", "```python\nprint(1)\n```"),
        ("```\n1\n```\n\n```\n2\n```", "```\n1\n```\n\n```\n2\n```"),
        ("text\n\n### Part\nmore\n\n## Other\nrest", "text\n\n### Part\nmore\n\n## Other\nrest"),
        ("  indented\n\n", "  indented"),
        ("NaN", "NaN"),
        ("", None),
    ],
)
def test_output(written: str, value: Any) -> None:
    assert command(answer(Output=written)).output == value


@pytest.mark.parametrize(
    ("written", "warning"),
    [
        ("{'a': 1}", "straight double quotes"),
        ('{"a": 1, "a": 2}', 'the key "a" 2 times'),
        ("[" * 200 + "]" * 200, "200 levels deep"),
        ('{"a": Infinity}', "the value Infinity"),
    ],
)
def test_output_that_is_almost_json_is_text(written: str, warning: str) -> None:
    verdict = judge_sections(answer(Output=written), SCHEMA)
    assert verdict.command is not None
    assert verdict.command.output == written
    assert warning in verdict.warnings[0]


@pytest.mark.parametrize(
    ("written", "paths"),
    [
        ("- a.txt\n- b/c d.txt", ("a.txt", "b/c d.txt")),
        ("* `a.txt` — the first\n* [b](b.txt)", ("a.txt", "b.txt")),
        ("1. a.txt (new)\n2. b.txt: changed", ("a.txt", "b.txt")),
        ("- a.txt, b.txt", ("a.txt", "b.txt")),
        ("- a, b and c.txt", ("a, b and c.txt",)),
        ("a.txt\nb.txt", ("a.txt", "b.txt")),
        ("```\na.txt\nb.txt\n```", ("a.txt", "b.txt")),
        ("I changed these files:\n\n- a.txt", ("a.txt",)),
        ('["a.txt", "b.txt"]', ("a.txt", "b.txt")),
        ("- **a.txt**: new", ("a.txt",)),
        ("- None", ()),
        ("N/A", ()),
        ("No files were changed.", ()),
        ("[]", ()),
        ("", ()),
    ],
)
def test_evidence(written: str, paths: tuple[str, ...]) -> None:
    assert command(answer(Evidence=written)).evidence_files == paths


@pytest.mark.parametrize(
    ("written", "values", "warning"),
    [
        ('{"confidence": 0}', {"confidence": 0}, ""),
        ('{"confidence": 1.01}', {}, "`confidence` is 1.01; it is ignored"),
        ('{"confidence": -0.1}', {}, "`confidence` is -0.1; it is ignored"),
        ('{"confidence": true}', {}, "`confidence` is true; it is ignored"),
        ('{"confidence": "0.9"}', {}, '`confidence` is "0.9"; it is ignored'),
        ('{"confidence": null, "suggested_next_stage": null}', {}, ""),
        ('{"suggested_tags": ["a", 1]}', {}, "`suggested_tags` is an array; it is ignored"),
        ('{"suggested_next_stage": 3}', {}, "`suggested_next_stage` is 3; it is ignored"),
        ('{"suggested_next_stage": "stage_name_or_null"}', {}, ""),
        *(
            (
                f'{{"confidence": {placeholder}}}',
                {},
                "`Metadata` still contains the placeholders of the template; it is ignored",
            )
            for placeholder in ("[a number from 0 to 1]", "0.0-1.0")
        ),
        (
            '{"confidence": 0.5, "confidence": 0.6}',
            {},
            '`Metadata` has the key "confidence" 2 times; expected each key once; it is ignored',
        ),
        ('{"confidence": 0.5}\n{"confidence": 0.6}', {}, "`Metadata` has 2 JSON objects; all are ignored"),
        ('```json\n{"confidence": 0.5\n```', {}, "`Metadata` is cut off: its end is missing; it is ignored"),
        (
            '{"url": "http://a//b#c", "confidence": 0.5, // sure\n}',
            {"url": "http://a//b#c", "confidence": 0.5},
            "",
        ),
        ('```json\n{"confidence": 0.5}\n```\nI used {"a": 1}.', {"confidence": 0.5}, ""),
        ("```yaml\nconfidence: 0.5\n```", {}, "`Metadata` has no JSON object; it is ignored"),
        ("", {}, "`Metadata` has no JSON object; it is ignored"),
    ],
)
def test_metadata(written: str, values: dict[str, Any], warning: str) -> None:
    found = sections(answer(Metadata=written))
    assert (found.metadata or {}) == values
    assert found.warnings == ((warning,) if warning else ())


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("CONTINUE\n- If CONTINUE: test it\n- If HOLD: N/A", "test it"),
        ("**CONTINUE**: test it\nand ship it", "test it\nand ship it"),
        ("`CONTINUE` (test it)", "test it"),
        ("CONTINUE to the tests", "to the tests"),
        ("[CONTINUE] test it", "test it"),
        ("Continue", ""),
    ],
)
def test_reason(written: str, reason: str) -> None:
    assert sections(answer(next_action=written)).reason == reason


@pytest.mark.parametrize(
    "heading",
    [
        "# Status",
        "#### Status",
        "##Status",
        "## Status:",
        "## STATUS ##",
        "## **Status**",
        "## 1) Status",
        "## 🚦 Status",
        "**Status**",
        "__Status:__",
        "- **Status:**",
        "Status:",
        "Status",
    ],
)
def test_headings(heading: str) -> None:
    assert (
        command(
            f"{heading}\nSUCCESS\n\n{heading.replace('tatus', 'ummary').replace('TATUS', 'UMMARY')}\nFine.\n\n{heading.replace('Status', 'Next Action').replace('STATUS', 'NEXT ACTION')}\nCOMPLETE\n"
        ).summary
        == "Fine."
    )


@pytest.mark.parametrize(
    "heading", ["##### Status", "    ## Status", "## Status report", "## Status of SUCCESS", "Statuses"]
)
def test_no_headings(heading: str) -> None:
    assert (
        read_sections(f"{heading}\nSUCCESS\n\n## Next Action\nCOMPLETE\n")
        == "no sections: the answer has no `Status` heading"
    )


def test_the_base_prompt_asks_for_what_is_read() -> None:
    """The template alone is no answer; with its alternatives chosen it is one."""
    template = BASE[BASE.index("## Status") : BASE.index("SUCCESS: the task")]
    assert isinstance(read_sections(template), str)
    chosen = template.replace("[SUCCESS | PARTIAL | BLOCKED | FAILED]", "SUCCESS").replace(
        "[COMPLETE | CONTINUE | ESCALATE | HOLD]", "COMPLETE"
    )
    found = sections(chosen)
    assert (found.status, found.next_action, found.metadata) == (
        SectionStatus.SUCCESS,
        NextAction.COMPLETE,
        None,
    )
    assert "`Metadata` still contains the placeholders of the template; it is ignored" in found.warnings


def test_the_agent_cannot_replace_what_was_read() -> None:
    found = command(answer(Metadata='{"status": "mine", "reason": "mine", "other": 1}'))
    assert found.metadata == {"other": 1, "status": "SUCCESS", "next_action": "COMPLETE", "reason": ""}


def test_a_text_that_is_too_long_is_not_read() -> None:
    assert "is too long" in judge_sections(answer() + "x" * MAX_CHARACTERS, SCHEMA).reason


@pytest.mark.parametrize(
    "status",
    [
        "success, failed",
        "SUCCESS - partial",
        "SUCCESS: not really",
        "SUCCESS?",
        "success with warnings",
        "!SUCCESS",
        "SUCCESS (not FAILED)",
        "[SUCCESS] [PARTIAL]",
        "SUCCESS\u2028FAILED",
        "SUCCESS|PARTIAL",
        "ſuccess",
    ],
)
def test_a_word_that_is_in_doubt_is_none(status: str) -> None:
    assert isinstance(read_sections(answer(status)), str)


def test_the_reason_stands_for_a_missing_summary() -> None:
    found = command("## Status\nFAILED\n## Next Action\nESCALATE: " + "x" * 2000)
    assert found.summary == "x" * 300
    assert found.metadata is not None
    assert found.metadata["reason"] == "x" * 2000


HOSTILE = {
    "two metadata fences": answer(Metadata="```\n" + "``` a\n" * 40_000),
    "headings": "## Status\nSUCCESS\n" * 13_000,
    "unknown headings": "# \n" * 80_000,
    "fences": "```a\n" * 50_000,
    "deep": answer(Output="[" * 200_000),
    "deep metadata": answer(Metadata='{"a":' * 50_000),
    "many objects": answer(Metadata='{"a":1}' * 30_000),
    "blanks": "## Status\n" + " " * 200_000 + "x",
    "bullets": "- " * 100_000 + "Status",
    "marks": "**" * 100_000 + "Status",
    "number signs": "## " + "# " * 100_000 + "x",
    "underscores": "## Status" + "_" * 200_000 + "x",
    "quotes": answer(Output='{"' * 90_000),
    "backticks": answer(Evidence="`" * 200_000),
    "links": answer(Evidence="- " + "[" * 200_000),
    "comments": answer(Metadata='{"a": 1 ' + "// {" * 50_000 + "\n}"),
    "commas": answer(Metadata='{"a": [' + ", " * 90_000 + "]}"),
    "decorated": "## Status\n" + "✅[x]1." * 30_000 + "SUCCESS",
}


@pytest.mark.deep
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_ends(text: str) -> None:
    assert len(text) <= MAX_CHARACTERS
    assert isinstance(judge_sections(text, SCHEMA), Verdict)


WORDS = [
    "## Status",
    "SUCCESS",
    "FAILED",
    "\n",
    "## Next Action",
    "COMPLETE",
    "```",
    "```json",
    "**Status:**",
    "## Output",
    '{"a": 1}',
    "{",
    "- If HOLD: x",
    "## Metadata",
    "[",
    "|",
    "✅",
    " ",
    "~~~",
    "## Evidence",
    "- ../x",
    "\r\n",
    "# ",
]


@fuzz
@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=40).map("".join))
def test_no_text_raises(text: str) -> None:
    verdict = judge_sections(text, SCHEMA)
    assert (verdict.command is None) == bool(verdict.reason)


SENTENCES = st.lists(st.text("abc xyz,.;!?()äß你\t", min_size=1, max_size=30), max_size=4).map("\n".join)


@fuzz
@given(SENTENCES, SENTENCES, st.sampled_from(SectionStatus), st.sampled_from(NextAction))
def test_prose_never_changes_the_action(
    before: str, after: str, status: SectionStatus, next_action: NextAction
) -> None:
    text = answer(status, next_action, Output="text")
    assert command(f"{before}\n{text}\n{after}").action == command(text).action
