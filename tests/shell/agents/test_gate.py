"""The spend gate over real HTTP: each format, and what is recorded when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logist.agents.clients.answers import Tokens
from tests.endpoint import Endpoint
from tests.shell.agents.gate_bench import FORMATS, KEY, TOKEN, open_gate

STEP = {"text": "A gate is a door without a house.", "usage": {"input": 1000, "cached": 400, "output": 50}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_an_answer_is_passed_on_and_recorded(tmp_path: Path, form: str, stream: bool) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        got = bench.ask(form, stream=stream)
    assert got.status == 200
    assert "door" in got.body.decode().replace("\\", "") or "".join(map(str, got.data))
    end = bench.recorder.ends[1]
    assert end.answer.failure is None
    assert end.text == STEP["text"]
    assert end.answer.finish == "stop"
    assert end.answer.tokens == Tokens(read=1000, written=50, cached=400)
    assert bench.recorder.events == [("admit", 1), ("sent", 1), ("end", 1)]
    sent = endpoint.requests[0]
    assert TOKEN not in json.dumps(sent)
    assert KEY in json.dumps(sent["headers"])
    assert KEY.encode() not in got.body
    assert bench.recorder.requests[0].stream is stream
    assert json.loads(bench.recorder.bodies[0]) == sent["body"]
    if not stream:
        assert bench.recorder.read_stream() == got.body
