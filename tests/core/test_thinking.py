"""What a model thought is no part of its answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.answer.exit_command import extract_text_before_command
from logist.core.answer.thinking import remove_thinking
from logist.core.machine.rules import TODAY, Rule
from logist.core.model import Reply, Status
from logist.core.step import step
from tests.core.builders import spec, state
from tests.support import examples

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "llm-chat-schema.json").read_text("utf-8"))
COMMAND = '{"action": "COMPLETED", "evidence_files": ["a"], "summary_for_supervisor": "It works."}'
OTHER = COMMAND.replace("COMPLETED", "RETRY")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a</think>b", "b"),
        ("  <think>\na\nb\n</think>\n\nc", "\n\nc"),
        ("<Think>a</THINK>b", "b"),
        ("<thinking>a</think> b</thinking>c", "c"),
        ("<think>a</think>b\n<think>c</think>d", "b\nd"),
        ("a\n</think>\nb", "\nb"),  # the template of the model has the opening tag
        ("<think>İ</think>b", "b"),  # it has two letters in lower case
    ],
)
def test_what_is_thought_is_removed(text: str, answer: str) -> None:
    assert remove_thinking(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "<think>never closed", "say <think>a</think>", "<thinker>a</thinker>"),
        f"{COMMAND}\n</think>\n",  # nothing follows: it is the answer
        '{"summary_for_supervisor": "removes </think> and <think>"}',
        "it ends with </think> here\nb",
    ],
)
def test_everything_else_is_the_answer(text: str) -> None:
    assert remove_thinking(text) == text


def judged(text: str, *without: Rule) -> str:
    verdict = step.judge_answer(
        spec(), state(Status.PENDING), Reply(text=text), SCHEMA, TODAY - {*without}
    ).verdict
    return verdict.command.action if verdict.command else verdict.reason


def test_an_example_that_is_thought_is_no_second_exit_command() -> None:
    text = f"<think>I could end with\n{OTHER}\n</think>\nDone.\n{COMMAND}"
    assert judged(text) == "COMPLETED"
    assert judged(text, Rule.THINKING_APART).startswith("2 different exit commands")
    assert extract_text_before_command(text) == "Done."


def test_an_exit_command_that_is_only_thought_is_none() -> None:
    assert judged(f"<think>{COMMAND}</think>\n") == "no exit command: the answer has only a <think> block"
    assert judged(f"<think>{COMMAND}</think>\nDone.") == (
        "no exit command: the answer has no JSON object with an `action` key"
    )


def test_a_long_thought_is_not_an_answer_that_is_too_long() -> None:
    assert judged(f"<think>{'a' * (1 << 18)}</think>{COMMAND}") == "COMPLETED"


@settings(deadline=None, database=None, max_examples=examples(300))
@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<thinking>", "</thinking>", "\n", "a", COMMAND, "İ"]))
)
def test_what_is_left_is_in_the_text_and_nothing_thought_is_in_it(parts: list[str]) -> None:
    text = "".join(parts)
    left = remove_thinking(text)
    assert len(left) <= len(text)
    assert remove_thinking(f"<think>{COMMAND.replace('COMPLETED', 'X')}</think>{COMMAND}") == COMMAND
