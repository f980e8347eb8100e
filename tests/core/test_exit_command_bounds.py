"""The exit command's bounds: hostile answers end STUCK in under a second of CPU."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logist.core.answer.exit_command import MAX_CHARACTERS, Verdict, decode_answer, judge_answer

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "schemas" / "llm-chat-schema.json").read_text(encoding="utf-8")
)
COMMAND = {"action": "COMPLETED", "evidence_files": ["a.txt"], "summary_for_supervisor": "Done."}
BARE = json.dumps(COMMAND)


def of(text: str) -> Verdict:
    return judge_answer(text, SCHEMA)


def with_(**fields: Any) -> str:
    return json.dumps(COMMAND | fields)


def filled(text: str, size: int = MAX_CHARACTERS) -> str:
    return (text * (size // len(text) + 1))[:size]


FLOODS: dict[str, Callable[[], str]] = {
    "10 MB of prose": lambda: filled("word ", 10_000_000),
    "10 MB with a command": lambda: filled("word ", 10_000_000) + BARE,
    "10 MB of commands": lambda: filled(BARE, 10_000_000),
    "10 MB of broken UTF-8": lambda: decode_answer(b"a\xff\xc3(" * 2_500_000)[0],
    "100,000 brackets": lambda: "[" * 100_000,
    "100,000 brackets, closed": lambda: "[" * 100_000 + "]" * 100_000,
    "100,000 objects": lambda: '{"action":' * 50_000 + "1" + "}" * 50_000,
    "100,000 brackets in a command": lambda: with_(output=[]).replace("[]", "[" * 100_000 + "]" * 100_000),
    "200,000 braces": lambda: "{" * 200_000,
    "200,000 braces apart": lambda: "{ " * 200_000,
    "spaces after a fence": lambda: "```" + " " * 50_000 + "\n",
    "a number without end": lambda: with_(output=[]).replace("[]", "9" * 500_000),
    "a million keys": lambda: "{" + ",".join(f'"k{n}":1' for n in range(40_000)) + ',"action":1}',
    "bad paths": lambda: with_(evidence_files=["/"] * 100_000),
    "a long bad path": lambda: with_(evidence_files=["a/" * 200_000 + ".."]),
    "repeated keys": lambda: '{"action":1' + ',"a":1' * 80_000 + "}",
    **{
        f"only {part!r}": lambda part=part: filled(part)  # type: ignore[misc]
        for part in (
            '{"',
            '{"a":',
            "{a",
            "{a}",
            '{"a":1}',
            '{"action":1}',
            "[{",
            '["',
            '["a",',
            '"',
            "\\",
            "```\n",
            "}{",
        )
    },
}


@pytest.mark.deep
@pytest.mark.parametrize("flood", FLOODS)
def test_floods_end_stuck_within_a_second(flood: str) -> None:
    text = FLOODS[flood]()
    start = time.process_time()
    verdict = of(text)
    assert time.process_time() - start < 1
    assert verdict.command is None
    assert verdict.reason


def test_decoding_10_mb_of_broken_bytes_takes_less_than_a_second() -> None:
    data = bytes(range(256)) * 40_000
    start = time.process_time()
    text, broken = decode_answer(data)
    assert time.process_time() - start < 1
    assert broken
    assert text.isprintable() is False


def test_the_longest_answer_that_is_read() -> None:
    prose = " " * (MAX_CHARACTERS - len(BARE))
    assert of(prose + BARE).command is not None
    assert of(prose + " " + BARE).reason.startswith("the answer is too long: 262,145 characters")
