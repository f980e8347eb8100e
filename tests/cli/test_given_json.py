"""JSON that a person gives with an option."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logist.cli.given_spec import parse_json_option
from logist.errors import UsageError


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("text", ['{"n": [1, null, "x"]}', "3", nested(64)])
def test_json_is_read(text: str) -> None:
    assert parse_json_option(text, "--output") == json.loads(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{x}", "invalid JSON: Expecting property name"),
        ('{"x": NaN}', "NaN is not a finite number"),
        ("[-Infinity]", "-Infinity is not a finite number"),
        (nested(65), "nested more than 64 levels deep"),
        (nested(900), "nested more than 64 levels deep"),
        ("[" * 100_000, "nested more than 64 levels deep"),
    ],
)
def test_what_no_file_could_hold_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_json_option(text, "--output")


def test_the_advice_fits_what_was_given(tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    file.write_text("{", "utf-8")
    with pytest.raises(UsageError) as of_file:
        parse_json_option(f"@{file}", "--input")
    with pytest.raises(UsageError) as of_text:
        parse_json_option(str(file), "--input")
    assert (of_file.value.where, of_file.value.fix) == (str(file), "correct the file")
    assert of_text.value.fix == "quote it for the shell: '{\"n\": 1}', or name a file: @FILE"
