"""What is left when a program is killed, of Logist and of others, in the same way: what is paid twice, what can't be read any more,
which changes of several processes are lost, and whether the exit code and a cost limit tell the truth.

The model is a server on 127.0.0.1 that counts the calls. Every program runs with an empty environment, a home of its own and a
dummy key. benchmarks/peers_install.py installs the others.

Run: python benchmarks/peers_killed.py [--only calls saves writers exits limits] [--peers langgraph ...] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from peers_install import Installed, add_options, install_peers
from peers_tables import Table, describe_run, print_tables
from peers_ways import (
    LOGIST,
    LOGIST_AT_ONCE,
    LONGEST,
    PFLOW,
    PFLOW_SHELL,
    PRICES,
    WAYS,
    Stage,
    Way,
    find_reason,
)

from logist.agents.sandbox import processes
from tests.endpoint import ASIDE, Endpoint

Json = dict[str, Any]
Cells = tuple[str, ...]

PATIENCE = 240.0
"""Seconds after which a program is taken for hung."""
BREATH = 0.3
"""Seconds between a call's arrival at the model and the blow."""
HANGS = 6.0
"""Seconds that the call takes in which a program is killed."""
ANSWERS = 30.0
"""Seconds that the call takes in which a program gets a signal."""
CALLED = ("tool_result", "function_call_output", '"role": "tool"', "the second call")
"""What only the second of two calls has in its request."""
LIMITED = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""What a request calls its limit of output."""
CAPS = (0.01, 0.60)
"""Dollars that the work may cost where limits are tested."""


class Ended(NamedTuple):
    """How a program ended."""

    code: int | None
    """None if it hung."""
    out: str
    err: str
    seconds: float

    @property
    def shown(self) -> str:
        """The exit code as a shell shows it."""
        if self.code is None:
            return f"still runs after {self.seconds:g} s"
        return str(self.code if self.code >= 0 else 128 - self.code)

    @property
    def reason(self) -> str:
        """The last line that says something."""
        return find_reason(f"{self.out}\n{self.err}")


def start(stage: Stage, argv: Sequence[str], **more: Any) -> subprocess.Popen[str]:
    """Start a program in the directory of a test, as the leader of a session of its own."""
    return subprocess.Popen(
        argv,
        cwd=stage.folder,
        env=stage.environment,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
    )


def finish(process: subprocess.Popen[str], patience: float = PATIENCE) -> Ended:
    """Wait for a program; one that hangs is killed."""
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        kill_session(process)
        out, err = process.communicate()
        return Ended(None, out, err, patience)
    return Ended(process.returncode, out, err, time.monotonic() - began)


def run(stage: Stage, argv: Sequence[str], patience: float = PATIENCE) -> Ended:
    """Run a program to its end."""
    return finish(start(stage, argv), patience)


def kill_session(process: subprocess.Popen[str]) -> None:
    """Kill a program and what it started in its session; what left the session survives."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def kill_all() -> None:
    """Kill everything that the benchmark has started, as when the machine fails; orphans are its children too."""
    table = processes.read_table()
    processes.signal_all(processes.find_descendants(table, [os.getpid()]) - {os.getpid()}, signal.SIGKILL)


def find_call(body: Json) -> int:
    """Whether a request is the first or the second of two calls."""
    text = json.dumps(body)
    return 2 if any(mark in text for mark in CALLED) else 1


class Model(Endpoint):
    """The model: it answers the first and the second of two calls, and like a real one, it never writes more than it may.

    `delay`: seconds before it answers the second call for the first time.
    """

    def __init__(self, first: Json, second: Json, delay: float = 0.0) -> None:
        super().__init__(first, second)
        self.delay = delay
        self.calls: Counter[int] = Counter()
        """How often each of the two was paid; requests aside, such as for a title, don't count."""

    def take(self, request: Json) -> tuple[int, Json]:
        body = request["body"]
        with self.arrived:
            self.requests.append(request)
            if not (body.get("tools") or " call" in json.dumps(body)):
                return len(self.requests), ASIDE
            which = find_call(body)
            self.calls[which] += 1
            self.arrived.notify_all()
            step = limit_output(self.steps[which - 1], body)
            if which == 2 and self.calls[2] == 1 and self.delay:
                step = {**step, "delay": self.delay}
            return len(self.requests), step

    def has_call(self, which: int, seconds: float) -> bool:
        """Wait until the call `which` has come."""
        with self.arrived:
            return self.arrived.wait_for(lambda: self.calls[which] > 0, seconds)

    @property
    def spent(self) -> float:
        """Dollars for all answers."""
        return sum(read * PRICES[0] + written * PRICES[1] for read, _, written in self.answered) / 1e6


def limit_output(step: Json, body: Json) -> Json:
    """An answer with no more tokens than the request allows."""
    allowed = min((body[name] for name in LIMITED if body.get(name)), default=None)
    if "usage" not in step or allowed is None:
        return step
    return {**step, "usage": {**step["usage"], "output": min(step["usage"]["output"], allowed)}}


@contextmanager
def staged(
    way: Way,
    peer: Installed | None,
    first: Json | None = None,
    second: Json | None = None,
    delay: float = 0.0,
) -> Iterator[tuple[Stage, Model]]:
    """A directory in which a program is prepared, and its model."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        Model(first or way.first, second or first or way.second, delay) as model,
    ):
        folder = Path(name) / "work"
        folder.mkdir()
        model.workspace = str(folder)
        stage = Stage(folder, model.base, peer)
        stage.environment.update(way.environment(stage))
        way.prepare(stage)
        yield stage, model


# Killed in a paid call.


def kill_in_calls(way: Way, peer: Installed | None, *, whole: bool) -> Cells:
    """Kill a program in the second of two calls, and let it continue: how often is each paid, and is it done?"""
    assert way.run
    with staged(way, peer, delay=HANGS) as (stage, model):
        process = start(stage, way.run(stage))
        if not model.has_call(2, PATIENCE):
            kill_session(process)
            return "", "", "", f"no second call: {finish(process).reason}"
        time.sleep(BREATH)
        kill_all() if whole else kill_session(process)
        finish(process)
        if way.resume is None:
            return (
                f"{model.calls[1]} + 1",
                f"{model.calls[2]} + 1",
                "-",
                "can't continue",
            )
        done = run(stage, way.resume(stage))
        end = way.tell_end(done.code, f"{done.out}\n{done.err}")
        return str(model.calls[1]), str(model.calls[2]), done.shown, end


def make_calls_table(chosen: Chosen) -> Table:
    """Paid calls, and whether the next command continues."""
    rows: list[Cells] = []
    for title, way, peer in chosen.having("run"):
        rows.append((title, *kill_in_calls(way, peer, whole=False)))
        if way is LOGIST:
            rows.append((f"{title}, and its courier", *kill_in_calls(way, peer, whole=True)))
        if way is PFLOW:
            rows.append((f"{title}, calls in shell steps", *kill_in_calls(PFLOW_SHELL, peer, whole=False)))
    return Table(
        "calls",
        "Killed in the second of two paid calls",
        "kill -9 while the second call is at the model; then the command that continues, once. Most programs promise at least once: "
        "what was cut off is done again. Logist makes calls in a process of its own, the courier, which survives the command. If "
        "the courier is killed too, nobody can know whether the call was charged, so a person decides. A program that can't "
        "continue pays for everything again in a new run.",
        ("", "call 1 paid", "call 2 paid", "exit code", "the next command"),
        rows,
    )


# Killed while it saves.


def kill_saving(way: Way, peer: Installed | None, chance: random.Random) -> tuple[int, int | None, str]:
    """Kill a program that saves again and again: how many saves it reported, how many are there, or why none is."""
    assert way.save
    assert way.read
    with staged(way, peer, {"text": "saved"}) as (stage, _):
        process = start(stage, way.save(stage))
        assert process.stdout
        first = process.stdout.readline()
        time.sleep(chance.uniform(0.05, 0.5))
        kill_all()
        ended = finish(process)
        saved = [
            int(line)
            for line in [first, *ended.out.splitlines(True)]
            if line.strip().isdigit() and line.endswith("\n")
        ]
        if not saved:
            raise RuntimeError(f"{way.save(stage)} saved nothing: {ended.reason}")
        done = run(stage, way.read(stage))
        kept = read_kept(done)
        return saved[-1], kept, "" if kept is not None else done.reason


def read_kept(done: Ended) -> int | None:
    """The number that a probe tells; None if it failed."""
    told = re.findall(r"^kept (\d+)$", done.out, re.M)
    return int(told[-1]) if done.code == 0 and told else None


def make_saves_table(chosen: Chosen) -> Table:
    """Whether what was saved can be read after a kill."""
    rows: list[Cells] = []
    for title, way, peer in chosen.having("save"):
        chance = random.Random(1)
        tries = [kill_saving(way, peer, chance) for _ in range(chosen.kills)]
        failed = [reason for _, kept, reason in tries if kept is None]
        lost = sum(kept is not None and kept < saved for saved, kept, _ in tries)
        saves = statistics.median(saved for saved, _, _ in tries)
        reasons = "; ".join(f"{count} times: {reason}" for reason, count in Counter(failed).most_common(2))
        rows.append((title, str(len(tries)), str(len(failed)), str(lost), f"{saves:g}", reasons))
    return Table(
        "saves",
        "Killed while it saves",
        "A program saves 1 kB again and again, as fast as it can, and is killed with kill -9 after 0.05 to 0.5 seconds. Then what it "
        "saved is opened, and continued with one more save. This is a stress test: an agent waits for its model between two saves. "
        "Saves differ in what they do: Logist, LangGraph and DBOS ask the disk to keep each one, the others don't. A kill loses "
        "nothing that a program gave to the system, so this says nothing about a power failure.",
        ("", "kills", "can't be continued", "reported saves lost", "saves before a kill", "why"),
        rows,
    )


# Several processes change one store.


def write_at_once(way: Way, peer: Installed | None, count: int) -> tuple[int, int]:
    """So many processes make one change each: how many reported success, and how many changes are there."""
    assert way.add
    assert way.count
    with staged(way, peer, {"text": "added"}) as (stage, _):
        argvs = [way.add(stage, number) for number in range(1, count + 1)]
        with ThreadPoolExecutor(count) as pool:
            ended = list(pool.map(lambda argv: run(stage, argv), argvs))
        found = way.count(stage)
        kept = found if isinstance(found, int) else read_kept(run(stage, found)) or 0
        return sum(done.code == 0 for done in ended), kept


def count_changes(way: Way, peer: Installed | None, chosen: Chosen) -> Cells:
    """The changes of all rounds: made, refused, kept, and lost."""
    rounds = [write_at_once(way, peer, chosen.writers) for _ in range(chosen.rounds)]
    made = chosen.writers * chosen.rounds
    refused = made - sum(reported for reported, _ in rounds)
    lost = sum(max(0, reported - kept) for reported, kept in rounds)
    return way.change, str(made), str(refused), str(sum(kept for _, kept in rounds)), str(lost)


def make_writers_table(chosen: Chosen) -> Table:
    """Changes that several processes make at the same time."""
    rows: list[Cells] = []
    for title, way, peer in chosen.having("add"):
        if way is LOGIST:
            rows.append((f"{title}, with --wait", *count_changes(way, peer, chosen)))
            rows.append((f"{title}, without --wait", *count_changes(LOGIST_AT_ONCE, peer, chosen)))
        else:
            rows.append((title, *count_changes(way, peer, chosen)))
    return Table(
        "writers",
        "Several processes change one store",
        f"{chosen.writers} processes make one change each at the same time, {chosen.rounds} times; none is tried again. A change that was "
        "refused with an error is not lost: its program knows. One that was reported as made and is not there is lost.",
        ("", "the change", "made", "refused", "kept", "lost"),
        rows,
    )


# Exit codes.


def signal_in_call(way: Way, peer: Installed | None, number: signal.Signals) -> str:
    """The exit code of a program that gets a signal while it waits for its model, as from a terminal."""
    assert way.ask
    with staged(way, peer, {**way.second, "delay": ANSWERS}) as (stage, model):
        process = start(stage, way.ask(stage))
        if not model.has_call(1, PATIENCE):
            kill_session(process)
            return f"no call: {finish(process).reason}"
        time.sleep(1.0)  # some set their handlers late
        os.killpg(process.pid, number)
        ended = finish(process, 2 * ANSWERS)
        late = ended.code is not None and ended.seconds > ANSWERS / 2
        return f"{ended.shown} after {ended.seconds:.0f} s" if late else ended.shown


def fail_call(way: Way, peer: Installed | None) -> tuple[str, str]:
    """The exit code if the provider refuses the key, with the seconds and requests that it took."""
    assert way.ask
    with staged(way, peer, {"status": 401, "message": "invalid api key"}) as (stage, model):
        began = time.monotonic()
        done = run(stage, way.ask(stage))
        return done.shown, f"{time.monotonic() - began:.0f} s, {len(model.requests)}"


def answer_badly(way: Way, peer: Installed | None) -> str:
    """The exit code if the model answers with prose where JSON was asked for."""
    if way.strict is None:
        return "-"
    with staged(way, peer, {"text": "hello"}) as (stage, _):
        return run(stage, way.strict(stage)).shown


def make_exits_table(chosen: Chosen) -> Table:
    """Exit codes of what did not succeed."""
    rows: list[Cells] = []
    for title, way, peer in chosen.programs():
        stopped = [signal_in_call(way, peer, number) for number in (signal.SIGINT, signal.SIGTERM)]
        rows.append((title, *stopped, *fail_call(way, peer), answer_badly(way, peer)))
    return Table(
        "exits",
        "Exit codes of what did not succeed",
        "Ctrl-C and SIGTERM while the model is asked; a provider that refuses the key with 401, with the seconds until the program ended, "
        "and its requests; and the answer `hello` where a schema asks for JSON (real providers often enforce the schema, this model "
        "doesn't). A shell expects 130 and 143, and a script anything but 0 for the others.",
        ("", "Ctrl-C", "SIGTERM", "401", "after, requests", "not the JSON asked for"),
        rows,
    )


# A cost limit.


def exceed_limit(way: Way, peer: Installed | None, cap: float) -> Cells:
    """How often a program calls its model, what it spends, and how it ends, with a limit in dollars."""
    assert way.capped
    usage = {"input": 1_000, "output": LONGEST}
    with staged(way, peer, {**way.first, "usage": usage}, {**way.second, "usage": usage}) as (stage, model):
        done = run(stage, way.capped(stage, cap))
        return str(model.calls.total()), f"${model.spent:.3f}", done.shown


def make_limits_table(chosen: Chosen) -> Table:
    """What is spent beyond a cost limit."""
    each = (1_000 * PRICES[0] + LONGEST * PRICES[1]) / 1e6
    rows: list[Cells] = []
    for title, way, peer in chosen.having("capped"):
        rows.append((title, *(cell for cap in CAPS for cell in exceed_limit(way, peer, cap))))
    heads = [(f"calls, limit ${cap:.2f}", "spent", "exit code") for cap in CAPS]
    return Table(
        "limits",
        "A cost limit",
        f"The work needs two calls, and each costs ${each:.3f}: one is more than the first limit, two are more than the second. Logist "
        "makes a call only if its highest possible cost is within the limit, so it also refuses calls that would have cost less. The "
        "others add up what was spent, and stop afterwards. Programs without a cost limit are left out.",
        ("", *(head for group in heads for head in group)),
        rows,
    )


class Chosen(NamedTuple):
    """The programs to test, and how often."""

    peers: Mapping[str, Installed | None]
    """By the name in `WAYS`; None for Logist itself."""
    kills: int = 20
    rounds: int = 3
    writers: int = 8

    def all(self) -> Iterator[tuple[str, Way, Installed | None]]:
        for name, peer in self.peers.items():
            if name in WAYS:
                yield peer.title if peer else "Logist", WAYS[name], peer

    def having(self, test: str) -> Iterator[tuple[str, Way, Installed | None]]:
        """Those that can do what a test needs."""
        for title, way, peer in self.all():
            if getattr(way, test):
                print(f"{test}: {title}", file=sys.stderr, flush=True)
                yield title, way, peer

    def programs(self) -> Iterator[tuple[str, Way, Installed | None]]:
        """Those with a command line, of which an exit code says something."""
        return self.having("ask")


TABLES: dict[str, Callable[[Chosen], Table]] = {
    "calls": make_calls_table,
    "saves": make_saves_table,
    "writers": make_writers_table,
    "exits": make_exits_table,
    "limits": make_limits_table,
}


def kill_tables(
    peers: Mapping[str, Installed], *, only: Sequence[str] = tuple(TABLES), quick: bool = False
) -> list[Table]:
    """Run the tests with Logist and these peers. `only`: the names of the tables; `quick`: fewer kills."""
    processes.become_subreaper()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell script starts programs in its background so, and those that the benchmark starts would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = Chosen({"logist": None, **peers}, *((3, 1, 4) if quick else ()))
    return [make(chosen) for name, make in TABLES.items() if name in only]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES), metavar="TABLE")
    parser.add_argument(
        "--quick", action="store_true", help="3 kills instead of 20, and one round of 4 writers"
    )
    options = parser.parse_args()
    found = install_peers([name for name in options.peers if name in WAYS], options.place)
    peers = {name: peer for name, peer in found.items() if isinstance(peer, Installed)}
    missing = {name: str(peer) for name, peer in found.items() if not isinstance(peer, Installed)}
    tables = kill_tables(peers, only=options.only, quick=options.quick)
    print_tables(tables, describe_run({peer.title: peer.versions for peer in peers.values()}, missing))


if __name__ == "__main__":
    main()
