"""What litellm makes of a provider's answers and refusals, over real HTTP, in one process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from logist.agents.clients.answers import MAX_CALLS, MAX_TEXT, CallPieces
from logist.agents.clients.litellm import _add_pieces, _iter_text
from tests.loopback import Loopback

ROOT = Path(__file__).resolve().parents[2]

PROBE = """
import json, sys
from logist.agents.clients import litellm
from logist.agents.protocol import Ask
from logist.agents.courier.tool_turns import plan_next_exchange
from logist.core.model import Model, Request

client = litellm.LitellmClient(litellm.load_litellm())
results = []
for number, (url, key, timeout) in enumerate(json.load(sys.stdin)):
    model = Model(name="m", provider_model="openai/m", endpoint=url)
    ask = Ask(request=Request(prompt=f"p{number}"), model=model, role="r", max_output_tokens=50)
    pieces = []
    answer = client.call_model(ask, plan_next_exchange(ask, [], 0).sending, key, timeout, pieces.append)
    failure = answer.failure
    results.append({
        "text": "".join(pieces), "pieces": len(pieces), "tokens": answer.tokens and answer.tokens[:3], "finish": answer.finish,
        "kind": failure and failure.error.kind, "status": failure and failure.error.http_status,
        "message": failure and failure.error.message, "billed": failure and failure.billed,
        "again": failure and failure.again, "retry_after": failure and failure.retry_after,
    })
json.dump(results, sys.stdout)
"""

LONG = "an answer that is longer than one piece of the stream, by far"


def piece(content: str, finish: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "delta": {"role": "assistant", "content": content}, "finish_reason": finish}
    frame = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(frame | more)}\n\n"


def events(body: str) -> dict[str, Any]:
    return {"raw": body, "type": "text/event-stream"}


FINE = {"kind": None, "billed": None}
CUT = {"kind": "transient", "billed": True, "again": False, "tokens": None, "finish": None}
AGAIN = {"kind": "outage", "billed": False, "again": True, "text": ""}
BAD = {"kind": "bad_request", "billed": False, "again": False}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an answer": (
        {"text": LONG},
        FINE | {"text": LONG, "tokens": [100, 20, 0], "finish": "stop", "pieces": 4},
    ),
    "length": ({"text": "x", "finish": "length"}, FINE | {"text": "x", "finish": "length"}),
    "filtered": ({"text": "", "finish": "content_filter"}, FINE | {"text": "", "finish": "content_filter"}),
    "no usage told": ({"text": "x", "usage": None}, FINE | {"text": "x", "finish": "stop", "tokens": None}),
    "401": (
        {"status": 401, "message": "Incorrect API key"},
        {"kind": "auth", "billed": False, "again": False, "status": 401, "message": "Incorrect API key"},
    ),
    "402": ({"status": 402}, {"kind": "auth", "billed": False, "again": False, "status": 402}),
    "403": ({"status": 403}, {"kind": "auth", "billed": False, "again": False, "status": 403}),
    "400": ({"status": 400, "message": "context length"}, BAD | {"status": 400, "message": "context length"}),
    "404": ({"status": 404}, BAD | {"status": 404}),
    "413": ({"status": 413}, BAD | {"status": 413}),
    "422": ({"status": 422}, BAD | {"status": 422}),
    "429": (
        {"status": 429, "message": "slow down", "headers": {"retry-after": "3"}},
        AGAIN | {"status": 429, "message": "slow down", "retry_after": 3.0},
    ),
    "429 with a date": (
        {"status": 429, "headers": {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}},
        AGAIN | {"status": 429, "retry_after": 0.0},
    ),
    "500": ({"status": 500}, AGAIN | {"status": 500, "retry_after": None}),
    "503": ({"status": 503}, AGAIN | {"status": 503}),
    "529": ({"status": 529}, AGAIN | {"status": 529}),
    "425": ({"status": 425}, AGAIN | {"status": 425}),
    "502": ({"status": 502}, AGAIN | {"status": 502}),
    "408": ({"status": 408}, {"kind": "timeout", "billed": True, "again": False, "status": 408}),
    "501": ({"status": 501}, CUT | {"status": 501}),
    "520": ({"status": 520}, CUT | {"status": 520}),
    "524": ({"status": 524}, {"kind": "timeout", "billed": True, "again": False, "status": 524}),
    "504": ({"status": 504}, {"kind": "timeout", "billed": True, "again": False, "status": 504}),
    "cut in the middle": ({"text": LONG, "close": "middle"}, CUT | {"text": LONG[:48]}),
    "closed before": ({"close": "before"}, CUT | {"text": ""}),
    "a page": ({"raw": "<html>hi</html>", "type": "text/html"}, CUT | {"text": ""}),
    "garbage in the stream": (events(piece("half") + "data: {garbage\n\n"), CUT | {"text": "half"}),
    "an end without a reason": (events(piece("half")), CUT | {"text": "half"}),
    "an error in the stream": (
        events(piece("half") + 'data: {"error": {"message": "overloaded", "code": 503}}\n\n'),
        CUT | {"text": "half", "message": "overloaded"},
    ),
    "usage with the last piece": (
        events(
            piece("all", "stop", usage={"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12})
            + "data: [DONE]\n\n"
        ),
        FINE | {"text": "all", "tokens": [5, 7, 0], "finish": "stop"},
    ),
    "a read that never ends": ({"delay": 600}, {"kind": "timeout", "billed": True, "again": False}),
}
ELSEWHERE: dict[str, dict[str, Any]] = {
    "http://127.0.0.1:1/v1": {"kind": "outage", "billed": False, "again": False},
    "http://no-such-host.invalid/v1": {"kind": "outage", "billed": False, "again": False},
}


def call_all(calls: list[tuple[str, str | None, float]], home: Path) -> list[dict[str, Any]]:
    """Each `(url, key, seconds a read may take)`, all in one process: loading litellm takes seconds."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT)},
        cwd=home,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


@pytest.mark.deep
def test_every_end_of_an_exchange_is_understood(tmp_path: Path) -> None:
    with Loopback(*(step for step, _ in CASES.values())) as loopback:
        calls: list[tuple[str, str | None, float]] = [(loopback.url, "sk-test", 300.0)] * (len(CASES) - 1)
        calls += [(loopback.url, None, 1.0), *((url, None, 300.0) for url in ELSEWHERE)]
        results = call_all(calls, tmp_path)
    expected = {name: end for name, (_, end) in CASES.items()} | ELSEWHERE
    given = dict(zip(expected, results, strict=True))
    shown = {name: {key: given[name][key] for key in end} for name, end in expected.items()}
    assert shown == expected
    assert [name for name, end in given.items() if "litellm" in (end["message"] or "")] == []
    assert list(tmp_path.iterdir()) == []  # litellm left nothing behind
    _assert_requests(loopback)


def _assert_requests(loopback: Loopback) -> None:
    """One request for each exchange, with what was asked and nothing more."""
    requests = loopback.requests
    prompts = [request.body.pop("messages")[0]["content"] for request in requests]
    assert prompts == [f"p{number}" for number in range(len(CASES))]
    assert {request.path for request in requests} == {"/v1/chat/completions"}
    assert requests[0].headers["authorization"] == "Bearer sk-test"
    assert requests[-1].headers["authorization"] == "Bearer none"
    assert requests[0].body == {
        "model": "m",
        "max_tokens": 50,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def delta(index: int | None, arguments: str | None = "", *, id_: str = "i", name: str = "n") -> Any:
    function = SimpleNamespace(name=name, arguments=arguments)
    return SimpleNamespace(content=None, tool_calls=[SimpleNamespace(index=index, id=id_, function=function)])


def test_a_call_counts_with_its_names_once_and_its_arguments() -> None:
    calls = CallPieces()
    assert calls.add(0, "abc", "read_file", "{") == 64 + 3 + 9 + 1
    assert calls.add(0, "abc", "read_file", "}}") == 2
    assert _add_pieces(calls, delta(1, None, id_="", name="")) == 64
    assert calls.add(1, "later", "", "x") == 6
    assert [(call.id, call.name, call.arguments) for call in calls.list_calls()] == [
        ("abc", "read_file", "{}}"),
        ("later", "", "x"),
    ]


def test_only_the_first_calls_are_kept() -> None:
    calls = CallPieces()
    sizes = [calls.add(index, "i", "n", "") for index in range(MAX_CALLS + 10)]
    calls.add(MAX_CALLS - 1, "i", "n", "more")
    assert sizes == [66] * (MAX_CALLS + 10)
    assert len(calls.list_calls()) == MAX_CALLS
    assert calls.list_calls()[-1].arguments == "more"


@pytest.mark.deep
@pytest.mark.parametrize("more", [{"id_": "i" * 1000}, {"name": "n" * 1000}, {"id_": "", "name": ""}])
def test_an_answer_of_endless_empty_calls_is_refused(more: dict[str, str]) -> None:
    chunks = (
        SimpleNamespace(choices=[SimpleNamespace(delta=delta(index, **more))])
        for index in range(MAX_TEXT // 64 + 2)
    )
    with pytest.raises(OverflowError, match="longer than 16,777,216 characters"):
        list(_iter_text(chunks, CallPieces()))


FORKED = """
import json, os, sys
from logist.agents.clients import litellm
from logist.agents.protocol import Ask
from logist.agents.courier.tool_turns import plan_next_exchange
from logist.core.model import Model, Request

client = litellm.LitellmClient(litellm.load_litellm(late_too=True))
print(len(os.listdir("/proc/self/task")))
loaded = set(sys.modules)
model = Model(name="m", provider_model="openai/m", endpoint=sys.argv[1])
ask = Ask(request=Request(prompt="p"), model=model, role="r", max_output_tokens=50)
answer = client.call_model(ask, plan_next_exchange(ask, [], 0).sending, "sk-dummy", 60.0, lambda text: None)
assert answer.failure is None, answer
print(*sorted(set(sys.modules) - loaded))
"""


def test_a_process_that_forks_couriers_has_all_that_the_first_call_loads_and_one_thread() -> None:
    with Loopback({"text": LONG}) as loopback:
        argv = [sys.executable, "-P", "-c", FORKED, loopback.url]
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(argv, check=True, capture_output=True, text=True, env=environment)
    assert ran.stdout == "1\n\n"
