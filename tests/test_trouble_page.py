"""The page for people in trouble names every exit code and every state, and quotes messages that the code has."""

from __future__ import annotations

import re
import runpy

import pytest

from logist import LogistError, Status
from logist.core.model import StuckKind
from tests.support import ROOT

PAGE = (ROOT / "docs" / "when-something-goes-wrong.md").read_text("utf-8")
QUOTED = re.findall(r"^### `{1,2} ?(.+?) ?`{1,2}$", PAGE, re.MULTILINE)
TEXTS = runpy.run_path(str(ROOT / "scripts" / "messages"))["list_texts"]


def list_errors(owner: type[LogistError] = LogistError) -> list[type[LogistError]]:
    return [owner, *(found for each in owner.__subclasses__() for found in list_errors(each))]


def test_every_exit_code_of_an_error_has_a_row() -> None:
    codes = set(re.findall(r"^\| (\d+)", PAGE, re.MULTILINE))
    assert {str(error.exit_code) for error in list_errors()} <= codes


@pytest.mark.parametrize("word", [*Status, *StuckKind])
def test_every_state_that_a_person_meets_has_a_section(word: str) -> None:
    headings = " ".join(re.findall(r"^### (.*)$", PAGE, re.MULTILINE))
    assert re.search(rf"\b{word}\b", headings)


def test_the_messages_it_explains_are_those_of_the_code() -> None:
    words = [re.findall(r"[A-Za-z']{2,}", message) for message in QUOTED]
    assert len(words) > 40
    code = " ".join(" ".join(each.text.split()) for each in TEXTS())
    code_words = " ".join(re.findall(r"[A-Za-z']{2,}", re.sub(r"\{.*?\}", " ", code)))
    missing = [
        message
        for message in QUOTED
        for part in re.split(r"\.\.\.", message)
        if (found := " ".join(re.findall(r"[A-Za-z']{2,}", part))) and found not in code_words
    ]
    assert missing == []
