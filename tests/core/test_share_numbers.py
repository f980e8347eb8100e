"""What patterns find is taken out of numbers too; what is of every machine, and Logist's own counters, stay."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logist.core.share import Private, Replacing, unmatched
from logist.core.share.standins import StandIns
from tests.core.test_share import entry, shared
from tests.support import examples

SIX = r"\b\d{6}\b"


def said(raw: str) -> dict[str, Any]:
    """An interaction whose answer has this output, as raw text and as what was read of it."""
    whole = entry()
    whole["response"] |= {"raw_response": raw, "output": json.loads(raw)}
    whole["spec"]["input"] = json.loads(raw)
    return whole


@pytest.mark.parametrize(
    ("pattern", "raw", "gone"),
    [
        (SIX, '{"employee": 123456, "ratio": 123456.5}', "123456"),
        (SIX, '{"a": [-123456, {"b": 0.123456, "c": 123456.50}]}', "123456"),
        (r"\d+\.\d+", '{"a": 12345.60, "b": 12345.6, "c": 1.5e+16}', "12345"),
        (r"\d{4,}", '{"a": 9876543210987654321, "b": 98765.4321, "c": 1e22}', "9876"),
        (r"employee\W+(?P<secret>\d+)", '{"employee": 98765, "copy": 98765, "text": "98765"}', "98765"),
        (r"^\d{6}$", '{"employee": 123456, "copy": "of 123456"}', "123456"),
        (r"\d", '{"a": 7, "b": 70.25, "c": 100}', "70"),
    ],
)
def test_a_number_that_a_pattern_finds_is_another_of_that_length(pattern: str, raw: str, gone: str) -> None:
    done, replacing = shared([said(raw)], patterns=[pattern])
    response = done[0]["response"]
    assert json.loads(response["raw_response"]) == response["output"] == done[0]["spec"]["input"]
    assert len(response["raw_response"]) == len(raw)
    assert len(json.dumps(response["output"])) == len(json.dumps(json.loads(raw)))
    assert gone not in json.dumps(done)
    assert list(unmatched(done[0], replacing)) == []


@given(st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False), max_size=6))
@settings(max_examples=examples(40), deadline=None)
@example([1000000.0, 0.1, 100, 0, -0.0, 2.4329650160018624e16])
def test_an_answer_full_of_numbers_still_reads(numbers: list[float]) -> None:
    done, replacing = shared([said(json.dumps({"n": numbers}))], patterns=[r"\d{3,}"])
    response = done[0]["response"]
    assert json.loads(response["raw_response"]) == response["output"]
    assert list(unmatched(done[0], replacing)) == []


def test_counters_stay() -> None:
    whole = entry() | {"usage": {"input_tokens": 123456, "output_tokens": 123456789}, "sequence": 123456}
    whole["request"]["metadata"] |= {"max_output_tokens": 123456, "context": [{"tokens": 123456}]}
    whole["response"]["tools"] = {"read": 123456}
    whole["response"]["metadata"] = {"confidence": 123456}
    done, replacing = shared([whole], patterns=[SIX, r"\d{9}"])
    for name in ("usage", "sequence"):
        assert done[0][name] == whole[name]
    assert done[0]["request"]["metadata"]["max_output_tokens"] == 123456
    assert done[0]["request"]["metadata"]["context"] == [{"tokens": 123456}]
    assert done[0]["response"]["tools"] == {"read": 123456}
    assert done[0]["response"]["metadata"] != {"confidence": 123456}
    assert list(unmatched(done[0], replacing)) == []


def test_what_a_pattern_still_finds_is_told_by_its_field() -> None:
    replacing = Replacing({}, Private({}, [re.compile(SIX), re.compile(r"a\nb")]))
    stand_in = replacing.text("123456")
    made = {
        "reason": f"{stand_in} 123457",
        "step": json.dumps({"x": "a\nb"}),
        "usage": {"input_tokens": 123458},
    }
    assert list(unmatched(made, replacing)) == ["reason", "step"]
    assert list(unmatched({"reason": stand_in}, replacing)) == []


def test_what_an_export_changed_of_a_request_is_marked() -> None:
    """By an earlier export too; whatever else stands there in an archive is not taken over."""
    whole = entry()
    whole["request"]["prompt"] = "Ada's worker here" + whole["request"]["prompt"][17:]
    whole["request"]["metadata"] |= {
        "endpoint": "https://10.20.30.40/v1",
        "redacted": [1, "tools", "ada", {}],
    }
    request = shared([whole])[0][0]["request"]
    assert request["metadata"]["redacted"] == [0, 1, "endpoint", "tools"]


def test_one_number_has_one_stand_in_however_it_is_written() -> None:
    one = StandIns()
    short, long = one.phrase("pattern", "12.5"), one.phrase("pattern", "12.500")
    assert (float(short), len(short), len(long)) == (float(long), 4, 6)
    assert one.made(f"{short} {long}")
    assert not one.made("12.5")
