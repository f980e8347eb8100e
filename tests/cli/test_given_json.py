"""JSON that a person gives with an option."""

from __future__ import annotations

import json

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
