"""What one dispatcher carries: a simulation of 1 to 1,000 workers that fail, with costs that were measured on this machine.

Run: python benchmarks/scale_simulation.py [--workers 1 3 10 30 100 300 1000] [--agent-seconds 60] [--seed 1]
    [--files 1000] [--place DIRECTORY] [--costs FILE | --fsync-ms 5 ...] [--reality]

First it measures what a step costs the dispatcher (`scale_costs.py`), or reads it from a file that `--save` has written.
With the same costs and seed it always prints the same.

A worker does one step after another, and never waits for a job. The dispatcher prepares a step (plans it, writes the
request, reserves money, packs what the worker lacks), sends it, and records what comes back. Whatever steps compete for is a
`Station`: they wait in the order of arrival. The time of each use is drawn from an exponential distribution, the time of an agent from a
log-normal one. A worker fails only while it has a task, because a failure between two tasks costs nothing.

Not simulated: restarts of the dispatcher, decisions about jobs in doubt (they leave the queue), and other programs that use its disk.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

WORKERS = (1, 3, 10, 30, 100, 300, 1000)
PIECE = 1.0
"""Megabytes that are sent at once; then it is another transfer's turn, as with several connections."""
WITHOUT_KNEE = 0.9
"""Up to the knee, each worker does this share of the steps that it would do as the only one."""


class Costs(NamedTuple):
    """What one step costs the dispatcher."""

    python_ms: float = 12.0
    """CPU of its Python process, in which one thread computes at a time. Without the ledger."""
    waiting_ms: float = 0.5
    """CPU of it for each second that an agent works: it looks for Ctrl-C, progress, and changed budgets."""
    other_ms: float = 20.0
    """CPU of the processes that it starts for a step: git."""
    fsyncs: float = 16.0
    """How many times it waits for the disk. Without the ledger."""
    fsync_ms: float = 5.0
    """How long it waits if no other thread does."""
    fsyncs_at_once: float = 1.0
    """How many that wait at the same time the disk serves in this time: a file system writes several in one commit."""
    booking_ms: float = 0.8
    """CPU of a reservation or a settlement, in the Python process and with the lock of the ledger; one fsync follows."""
    bookings: float = 2.0
    pack_ms: float = 200.0
    """CPU to pack a workspace for a worker that has nothing of it, in another process."""
    pack_mb: float = 5.0
    task_mb: float = 0.05
    """What is sent for each step besides that, and about as much comes back."""


class Scenario(NamedTuple):
    """The machines, and what happens to them."""

    workers: int = 1
    agent_seconds: float = 60.0
    """How long an agent works on a step, on average."""
    spread: float = 1.0
    """The standard deviation of its logarithm; 0: always the same."""
    cores: int = 2
    """Of the dispatcher."""
    background: float = 0.0
    """How many threads of other programs compute all the time on these."""
    megabytes_per_second: float = 125.0
    """In each direction: 1 Gbit/s."""
    latency_ms: float = 1.0
    days_between_failures: float = 1.0
    """Of one worker, while it works; 0: it never fails."""
    survivals: float = 0.5
    """The share of failures that the agent survives, because only the worker's process or the network has failed: its result
    is collected from the same machine. After the others, the step is in doubt."""
    lost_after: float = 120.0
    """Seconds after which a lost worker's step is in doubt."""
    replaced_after: float = 300.0
    """Seconds until another machine takes its place, which has no workspaces yet."""
    steps_per_pack: int = 50
    """One step in so many is of a job from a commit that the worker has nothing of."""
    allowance_dollars: float = 1.0
    """What is reserved for a step; it stays reserved if the step is in doubt."""


class Result(NamedTuple):
    """What was done after all workers had started."""

    steps_per_second: float
    working: float
    """The share of their time in which workers had an agent at work."""
    used: dict[str, float]
    """The share of its capacity at which each station was used."""
    doubts: int
    steps: int
    started_after: float
    """Seconds until the last worker had its first task."""


Process = Generator["float | Station", None, None]
"""Yields seconds to wait, or a station to wait for a place in."""


class Station:
    """Serves so many processes at the same time; the others wait in the order of arrival."""

    def __init__(self, places: int = 1) -> None:
        self.places = self.free = places
        self.waiting: deque[Process] = deque()
        self.seconds = 0.0
        """How long its places were used."""


class Simulation:
    """One dispatcher and its workers over time."""

    def __init__(self, costs: Costs, scenario: Scenario, seed: int) -> None:
        self.costs, self.scenario, self.random = costs, scenario, random.Random(seed)
        self.now = 0.0
        self.events: list[tuple[float, int, Process]] = []
        self.number = 0
        """Of the last event, so that those at the same moment happen in a fixed order."""
        self.python, self.ledger = Station(), Station()
        self.processors = Station(scenario.cores)
        self.computing = 0
        self.disk = Station(max(1, round(costs.fsyncs_at_once)))
        self.network_out, self.network_in = Station(), Station()
        self.done = self.doubts = self.started = 0
        self.worked = 0.0

    def run(self, steps: int) -> Result:
        """Let all workers start, wait until they are no longer in step with each other, and then count so many steps."""
        for _ in range(self.scenario.workers):
            self.schedule(0.0, self.work())
        while self.started < self.scenario.workers:
            self.advance()
        started_after, stations = self.now, self.stations()
        while self.now < started_after + 3 * self.scenario.agent_seconds:
            self.advance()
        began, self.done, self.doubts, self.worked = self.now, 0, 0, 0.0
        for station in stations.values():
            station.seconds = 0.0
        while self.done + self.doubts < steps:
            self.advance()
        seconds = self.now - began
        return Result(
            self.done / seconds,
            self.worked / seconds / self.scenario.workers,
            {name: each.seconds / seconds / each.places for name, each in stations.items()},
            self.doubts,
            self.done + self.doubts,
            started_after,
        )

    def stations(self) -> dict[str, Station]:
        return {
            "Python": self.python,
            "all CPU": self.processors,
            "fsyncs": self.disk,
            "ledger": self.ledger,
            "network out": self.network_out,
            "network in": self.network_in,
        }

    def schedule(self, seconds: float, process: Process) -> None:
        self.number += 1
        heapq.heappush(self.events, (self.now + seconds, self.number, process))

    def advance(self) -> None:
        """Continue the process whose time has come first, until it waits again."""
        self.now, _, process = heapq.heappop(self.events)
        for wanted in process:
            if not isinstance(wanted, Station):
                self.schedule(wanted, process)
                return
            if not wanted.free:
                wanted.waiting.append(process)
                return
            wanted.free -= 1

    def leave(self, station: Station) -> None:
        if station.waiting:
            self.schedule(0.0, station.waiting.popleft())  # which has the place from now on
        else:
            station.free += 1

    def use(self, station: Station, seconds: float) -> Process:
        """Wait for a place, and use it."""
        yield station
        yield seconds
        station.seconds += seconds
        self.leave(station)

    def compute(self, mean_ms: float, turn: Station | None = None) -> Process:
        """Use CPU. All who compute share the cores, as far as it can be known when this begins. `turn`: only one may."""
        if not mean_ms:
            return
        if turn is not None:
            yield turn
        self.computing += 1
        cpu = self.draw(mean_ms / 1000)
        seconds = cpu * max(1.0, (self.computing + self.scenario.background) / self.scenario.cores)
        yield seconds
        self.computing -= 1
        self.processors.seconds += cpu
        if turn is not None:
            turn.seconds += seconds
            self.leave(turn)

    def draw(self, mean: float) -> float:
        return self.random.expovariate(1 / mean) if mean else 0.0

    def work(self) -> Process:
        """One worker, and those that take its place after failures."""
        has_started, is_new = False, True
        while True:
            yield from self.prepare(
                sends_pack=is_new or self.random.random() < 1 / self.scenario.steps_per_pack
            )
            is_new = False
            self.started += not has_started
            has_started = True
            agent, failure = self.draw_agent_seconds(), self.draw_failure()
            is_lost = failure < agent and self.random.random() >= self.scenario.survivals
            if is_lost:
                yield failure + self.scenario.lost_after
                yield from self.record(failure + self.scenario.lost_after, is_answered=False)
                self.doubts += 1
                yield max(0.0, self.scenario.replaced_after - self.scenario.lost_after)
                is_new = True
            else:
                yield agent
                self.worked += agent
                yield from self.record(agent, is_answered=True)
                self.done += 1

    def prepare(self, *, sends_pack: bool) -> Process:
        """Choose and plan a step, reserve its money, write the request durably, and send it."""
        costs = self.costs
        yield from self.compute(costs.python_ms / 2, self.python)
        yield from self.compute(costs.other_ms / 2)
        yield from self.book()
        yield from self.flush(costs.fsyncs / 2)
        if sends_pack:
            yield from self.compute(costs.pack_ms)
        yield from self.send(self.network_out, costs.task_mb + (costs.pack_mb if sends_pack else 0.0))

    def record(self, waited: float, *, is_answered: bool) -> Process:
        """Receive an answer and record it; or record that there is none, and leave its money reserved.

        `waited`: seconds since the task was sent. What looking for its end has cost is counted now.
        """
        costs = self.costs
        if is_answered:
            yield from self.send(self.network_in, costs.task_mb)
            yield from self.compute(costs.other_ms / 2)
            yield from self.book()
        yield from self.compute(costs.python_ms / 2 + costs.waiting_ms * waited, self.python)
        yield from self.flush(costs.fsyncs / 2)

    def book(self) -> Process:
        """Reserve or settle: one process at a time, over the fsync."""
        if not self.costs.bookings:
            return
        yield self.ledger
        began = self.now
        yield from self.compute(self.costs.bookings / 2 * self.costs.booking_ms, self.python)
        yield from self.flush(self.costs.bookings / 2)
        self.ledger.seconds += self.now - began
        self.leave(self.ledger)

    def flush(self, count: float) -> Process:
        """Wait for the disk so many times, one after the other; on average, if it is not a whole number."""
        whole, rest = divmod(count, 1)
        for _ in range(int(whole) + (self.random.random() < rest)):
            yield from self.use(self.disk, self.draw(self.costs.fsync_ms / 1000))

    def send(self, direction: Station, megabytes: float) -> Process:
        yield self.scenario.latency_ms / 1000
        while megabytes > 0:
            yield from self.use(direction, min(PIECE, megabytes) / self.scenario.megabytes_per_second)
            megabytes -= PIECE

    def draw_agent_seconds(self) -> float:
        mean, spread = self.scenario.agent_seconds, self.scenario.spread
        return self.random.lognormvariate(math.log(mean) - spread**2 / 2, spread) if mean else 0.0

    def draw_failure(self) -> float:
        """Seconds of work until a worker fails; a failure after the end of its step changes nothing."""
        days = self.scenario.days_between_failures
        return self.draw(days * 86_400) if days else math.inf


def compute_limits(costs: Costs, scenario: Scenario) -> dict[str, float]:
    """Return how many steps a second each station could serve at most, if it never waited for another one."""
    flushes = (costs.fsyncs + costs.bookings) * costs.fsync_ms / max(1, round(costs.fsyncs_at_once))
    packs = 1 / scenario.steps_per_pack
    python = costs.python_ms + costs.bookings * costs.booking_ms + costs.waiting_ms * scenario.agent_seconds
    seconds = {
        "Python": python / 1000,
        "all CPU": (python + costs.other_ms + costs.pack_ms * packs) / scenario.cores / 1000,
        "fsyncs": flushes / 1000,
        "ledger": costs.bookings * (costs.booking_ms + costs.fsync_ms) / 1000,
        "network out": (costs.task_mb + costs.pack_mb * packs) / scenario.megabytes_per_second,
        "network in": costs.task_mb / scenario.megabytes_per_second,
    }
    return {name: 1 / each if each else math.inf for name, each in seconds.items()}


def describe_row(scenario: Scenario, result: Result) -> list[str]:
    used = result.used
    doubts = 1000 * result.doubts / result.steps
    return [
        f"{scenario.workers:,}",
        f"{result.steps_per_second * 3600:,.0f}",
        f"{result.working:.0%}",
        *(f"{used[name]:.0%}" for name in ("Python", "all CPU", "fsyncs", "ledger")),
        f"{max(used['network out'], used['network in']):.0%}",
        f"{result.started_after:,.0f}",
        f"{doubts:.2f}",
        f"{doubts * scenario.allowance_dollars:.2f}",
    ]


HEAD = ["workers", "steps/h", "at work", "Python", "all CPU", "fsyncs", "ledger", "network", "start s"]
HEAD += ["doubts/1,000 steps", "$ in doubt/1,000 steps"]


def compute_knee(costs: Costs, scenario: Scenario) -> float:
    """Return the number of workers that would keep the scarcest station busy all the time if no task ever waited.

    This is the bound of every closed queueing network: the seconds of one step alone, over those at the scarcest station.
    """
    packs = 1 / scenario.steps_per_pack
    alone = scenario.agent_seconds * (1 + costs.waiting_ms / 1000) + 2 * scenario.latency_ms / 1000
    alone += (
        costs.python_ms + costs.other_ms + costs.bookings * costs.booking_ms + packs * costs.pack_ms
    ) / 1000
    alone += (costs.fsyncs + costs.bookings) * costs.fsync_ms / 1000
    alone += (2 * costs.task_mb + packs * costs.pack_mb) / scenario.megabytes_per_second
    return alone * min(compute_limits(costs, scenario).values())


def describe_knee(costs: Costs, scenario: Scenario, results: dict[int, Result]) -> str:
    """Say up to how many workers the work grows with them, and what prevents more."""
    limits = compute_limits(costs, scenario)
    scarcest = min(limits, key=lambda name: limits[name])
    least = min(results)
    alone = results[least].steps_per_second / least
    good = max(n for n, each in results.items() if each.steps_per_second >= WITHOUT_KNEE * alone * n)
    return (
        f"knee: the table grows with the workers up to {good:,}; by the closed form, up to "
        f"{compute_knee(costs, scenario):,.0f}; the limit is {scarcest}, {limits[scarcest]:.1f} steps/s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate one dispatcher with many workers.")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--steps", type=int, default=50_000, help="of each row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--costs", type=Path, help="a file of --save; nothing is measured then")
    parser.add_argument("--save", type=Path, help="write the costs to this file")
    parser.add_argument("--files", type=int, default=1000, help="of the workspace that is measured")
    parser.add_argument("--runs", type=int, default=15, help="of each measurement")
    parser.add_argument("--place", type=Path, help="a directory on the disk to measure")
    parser.add_argument("--reality", action="store_true", help="compare with real runs on this machine")
    for title, kind in (("costs, instead of the measured ones", Costs), ("conditions", Scenario)):
        group = parser.add_argument_group(f"{title} (explained in the class {kind.__name__})")
        for name, default in kind._field_defaults.items():
            if name != "workers":
                words = "" if kind is Costs else f"default: {default}"
                group.add_argument(f"--{name.replace('_', '-')}", type=type(default), help=words, metavar="N")
    options = parser.parse_args()
    if min(options.workers) < 1:
        parser.error("--workers: at least 1")
    if options.costs:
        costs = Costs(**json.loads(options.costs.read_text("utf-8")))
    else:
        import scale_costs

        if options.reality:
            return scale_costs.compare_with_reality(options.place, options.seed)
        costs = scale_costs.measure(options.place, options.files, options.runs)
    costs = costs._replace(**select_given(options, Costs))
    if options.save:
        options.save.write_text(json.dumps(costs._asdict(), indent=2) + "\n", "utf-8")
    scenario = Scenario(**select_given(options, Scenario))
    print_page(costs, scenario, options.workers, options.steps, options.seed)
    return 0


def select_given(options: argparse.Namespace, kind: type[Costs | Scenario]) -> dict[str, float]:
    """Return the options that are fields of this class, if they were given."""
    given = {name: getattr(options, name) for name in kind._fields if name != "workers"}
    return {name: value for name, value in given.items() if value is not None}


def print_page(costs: Costs, scenario: Scenario, workers: list[int], steps: int, seed: int) -> None:
    from measure import table

    print("costs of a step:", ", ".join(f"{name} {value:.3g}" for name, value in costs._asdict().items()))
    print(
        "scenario:",
        ", ".join(f"{name} {value:g}" for name, value in scenario._asdict().items() if name != "workers"),
        "\n",
    )
    rows, results = [HEAD], {}
    for count in workers:
        scenario = scenario._replace(workers=count)
        results[count] = Simulation(costs, scenario, seed).run(steps)
        rows.append(describe_row(scenario, results[count]))
    table(rows)
    limits = compute_limits(costs, scenario)
    print(
        "\nat most, steps/s:", ", ".join(f"{name} {each:,.0f}" for name, each in limits.items() if each < 1e6)
    )
    print(describe_knee(costs, scenario, results))


if __name__ == "__main__":
    raise SystemExit(main())
