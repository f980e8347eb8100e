"""The stand-in for litellm sends and returns the same as the real one, and a paid step works with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from logist.agents.protocol import LITELLM
from tests.loopback import Loopback
from tests.torture.lab import KEY, World, paid_server, standin_python

Json = dict[str, Any]

PROBE = """
import json, sys
from dataclasses import asdict
from logist.agents.clients import litellm
from logist.agents.protocol import AgentWork, Ask
from logist.agents.courier.tool_turns import plan_next_exchange
from logist.core.model import Model, Request

loaded = litellm.load_litellm()
client = litellm.LitellmClient(loaded)
answers = []
for url, timeout, offers in json.load(sys.stdin):
    model = Model(name="m", provider_model="openai/m", endpoint=url)
    work = AgentWork(tools=("read_file",) if offers else ())
    ask = Ask(request=Request(prompt="p"), model=model, role="r", max_output_tokens=50, temperature=0.5, work=work)
    pieces = []
    answer = asdict(client.call_model(ask, plan_next_exchange(ask, [], 0).sending, "sk-test", timeout, pieces.append))
    answer["text"] = "".join(pieces)
    answers.append(answer)
json.dump([loaded.__file__, answers], sys.stdout, default=lambda value: value.model_dump(mode="json"))
"""

LONG = "an answer with ünïcode — and of more than one piece"
STEPS: dict[str, Json] = {
    "plain": {"text": LONG},
    "length": {"text": "x", "finish": "length"},
    "calls": {
        "text": "I look.",
        "calls": [{"name": "read_file", "args": {"path": LONG}}, {"name": "x", "args": ""}],
        "usage": {"input": 20, "output": 5, "cached": 7},
    },
    "no usage": {"text": "x", "usage": None},
    "400": {"status": 400, "message": "too long"},
    "401": {"status": 401, "message": "Incorrect API key"},
    "429": {"status": 429, "message": "slow down", "headers": {"retry-after": "3"}},
    "500": {"status": 500},
    "501": {"status": 501},
    "cut in the middle": {"text": LONG, "close": "middle"},
    "closed before": {"close": "before"},
    "a read that never ends": {"delay": 600},
}
NOBODY = "http://127.0.0.1:1/v1"


def answers(python: str, place: Path) -> tuple[str, list[Json], list[Json]]:
    """Return which litellm was loaded, the result of `call` for every step, and the requests at the server."""
    place.mkdir()
    world = World(place)
    with Loopback(*STEPS.values()) as server:
        calls = [(server.url, 300.0, name == "calls") for name in STEPS][:-1]
        calls += [(server.url, 1.0, False), (NOBODY, 300.0, False)]
        done = subprocess.run(
            [python, "-c", PROBE],
            input=json.dumps(calls),
            env=world.env | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    loaded, given = json.loads(done.stdout)
    asked = [{"path": r.path, "key": r.headers["authorization"], **r.body} for r in server.requests]
    return loaded, given, asked


def test_the_stand_in_asks_and_answers_like_the_real_one(tmp_path: Path) -> None:
    quick = standin_python(tmp_path / "quick")
    loaded, given, asked = answers(quick, tmp_path / "a")
    real_loaded, real_given, real_asked = answers(sys.executable, tmp_path / "b")
    assert str(tmp_path) in loaded
    assert str(tmp_path) not in real_loaded
    names = [*STEPS, "nobody"]
    assert dict(zip(names, given, strict=True)) == dict(zip(names, real_given, strict=True))
    assert asked == real_asked
    assert len(asked) == len(STEPS)


def test_a_step_is_paid_once_through_it(tmp_path: Path) -> None:
    world = World.made(tmp_path / "w")
    world.python = standin_python(tmp_path / "quick")
    with paid_server() as server:
        world.paid_by(server.url, LITELLM).create()
        assert world.started("job", "step", "j").wait() == 0
    assert len(server.requests) == 1
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    usage = world.history()[-1]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["source"]) == (10, 10, "provider")
    assert not (world.folder / "inflight").exists()
