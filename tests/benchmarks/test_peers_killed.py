"""The kill tests of the comparison: what they conclude, and Logist's own row, measured as that of the others."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.support import ROOT

MEASURE = """
import json, sys
sys.path.insert(0, sys.argv.pop(1))
from peers_killed import kill_tables
print(json.dumps([table._asdict() for table in kill_tables({}, only=sys.argv[1:], quick=True)]))
"""
"""In a process of its own: the benchmark kills all its descendants."""


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("peers_killed")


def measure(place: Path, *names: str) -> dict[str, list[list[str]]]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(ROOT / "benchmarks"), *names],
        cwd=place,
        env=support.process_environment(),
        capture_output=True,
        text=True,
        timeout=support.CRASHED,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tables = {table["name"]: table for table in json.loads(done.stdout)}
    assert all(len(row) == len(table["head"]) for table in tables.values() for row in table["rows"])
    return {name: table["rows"] for name, table in tables.items()}


@pytest.mark.deep
@pytest.mark.disk
def test_logist_pays_no_call_twice_and_continues(tmp_path: Path) -> None:
    assert measure(tmp_path, "calls")["calls"] == [
        ["Logist", "1", "1", "0", "continues"],
        ["Logist, and its courier", "1", "1", "3", "asks a person, who decides"],
    ]


@pytest.mark.deep
@pytest.mark.disk
def test_logist_loses_no_save_and_no_change(tmp_path: Path) -> None:
    rows = measure(tmp_path, "saves", "writers")
    ((_, kills, failed, lost, _, reasons),) = rows["saves"]
    assert (kills, failed, lost, reasons) == ("3", "0", "0", "")
    waiting, at_once = rows["writers"]
    assert waiting == ["Logist, with --wait", "a note for one job", "4", "0", "4", "0"]
    _, _, made, refused, kept, gone = at_once
    assert (made, gone) == ("4", "0")
    assert int(refused) + int(kept) == 4


@pytest.mark.deep
def test_exit_codes_of_logist_tell_the_truth_and_no_limit_is_passed(tmp_path: Path) -> None:
    rows = measure(tmp_path, "exits", "limits")
    ((_, interrupted, terminated, refused, after, prose),) = rows["exits"]
    assert (interrupted, terminated, refused, prose) == ("130", "143", "6", "3")
    assert after.endswith(", 1")
    assert rows["limits"] == [["Logist", "0", "$0.000", "7", "1", "$0.505", "7"]]


@pytest.mark.parametrize(
    ("code", "shown"), [(0, "0"), (1, "1"), (-2, "130"), (-15, "143"), (None, "still runs after 30 s")]
)
def test_an_exit_code_is_that_of_a_shell(killed: Any, code: int | None, shown: str) -> None:
    assert killed.Ended(code, "", "", 30.0).shown == shown


@pytest.mark.parametrize(
    ("body", "which"),
    [
        ({"messages": [{"role": "user", "content": "the first call"}]}, 1),
        ({"messages": [{"role": "user", "content": "the second call"}]}, 2),
        ({"messages": [{"role": "user", "content": "x"}, {"role": "tool", "content": "done"}]}, 2),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "done"}]}]}, 2),
        ({"input": [{"type": "function_call_output", "output": "done"}]}, 2),
    ],
)
def test_the_second_call_is_known_by_what_the_first_one_gave(killed: Any, body: Any, which: int) -> None:
    assert killed.find_call(body) == which


def test_the_model_counts_calls_and_nothing_aside(killed: Any) -> None:
    model = killed.Model({"text": "one"}, {"text": "two"}, delay=6.0)

    def take(content: str) -> Any:
        return model.take({"path": "", "headers": {}, "body": {"messages": [{"content": content}]}})[1]

    assert take("Write a title.") == {"text": "ok"}
    assert [take(f"the {which} call") for which in ("first", "second", "second")] == [
        {"text": "one"},
        {"text": "two", "delay": 6.0},
        {"text": "two"},
    ]
    assert model.calls == {1: 1, 2: 2}
    assert model.has_call(2, 0.0)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_the_model_writes_no_more_than_it_may(killed: Any, name: str) -> None:
    step = {"text": "long", "usage": {"input": 10, "output": 500}}
    assert killed.limit_output(step, {name: 100})["usage"] == {"input": 10, "output": 100}
    assert killed.limit_output(step, {name: 900}) == step
    assert killed.limit_output(step, {}) == step


def test_what_was_kept_counts_only_from_a_probe_that_succeeded(killed: Any) -> None:
    assert killed.read_kept(killed.Ended(0, "1\n2\nkept 2\n", "", 1.0)) == 2
    assert killed.read_kept(killed.Ended(1, "kept 2\n", "Error: no", 1.0)) is None
    assert killed.read_kept(killed.Ended(0, "nothing\n", "", 1.0)) is None


def test_the_reason_is_the_last_line_that_says_something(killed: Any) -> None:
    ended = killed.Ended(1, "working\n", "╭─ Error ─╮\n│ no such run │\n╰────╯\n\n", 1.0)
    assert ended.reason == "no such run"
    assert killed.Ended(1, "", "", 1.0).reason == "no message"


def test_each_way_is_a_peer_and_its_probe_exists(killed: Any) -> None:
    peers = importlib.import_module("peers_install").PEERS
    assert set(killed.WAYS) - {"logist"} <= set(peers)
    probes = {path.name for path in (ROOT / "benchmarks" / "peers_probes").glob("probe_*.py")}
    assert len(probes) == 7
