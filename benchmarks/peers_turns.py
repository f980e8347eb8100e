"""Tables about one turn: a step, an appended record, a replayed turn, a model call; what peers.py prints.

The programs in peer_programs/ do the work, each in the Python of its peer.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import calls
import clients
import replay
from measure import clean_environment
from peers_install import Installed
from peers_tables import Table, format_ratio

PROGRAMS = Path(__file__).resolve().parent / "peer_programs"
LIMIT = 600.0
"""Seconds that one program may take."""
FLUSHES = "fsync,fdatasync,sync,syncfs,msync,sync_file_range"
FLUSHED_TURNS = 10


class Failed(Exception):
    """A program of a peer has not done its work; the message says why."""


@dataclass(frozen=True)
class Lab:
    """Where everything is measured, and with what."""

    peers: Mapping[str, Installed]
    scratch: Path
    """On the disk: what is durable has to wait for it."""
    model: str
    """The address of a model that answers at once, with `/v1`."""
    quick: bool = False

    @property
    def runs(self) -> int:
        """How many turns are measured."""
        return 5 if self.quick else 30

    @property
    def sizes(self) -> tuple[int, int]:
        """How many turns there were before."""
        return (10, 100) if self.quick else (10, 1000)

    @contextmanager
    def make_folder(self) -> Iterator[Path]:
        """A new directory, which is removed at the end."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            yield Path(name)


@dataclass(frozen=True)
class Way:
    """One program, or one way to use it, in a table about turns."""

    title: str
    peer: str
    """Empty for what this Python runs."""
    program: str
    what: str
    keeps: str
    """What is on the disk after a turn, and what it is made to survive."""


@dataclass(frozen=True)
class Turn:
    """What one turn costs."""

    cpu_ms: float
    ms: float
    flushes: float | None
    """None if they could not be counted."""
    kilobytes: float


STEPS = (
    Way("a call alone, in Python", "", "raw_turns.py", "step", "nothing"),
    Way("Logist, `logist run`", "", "logist_turns.py", "run", "intent, request, answer, cost, verdict"),
    Way("Logist, `Job.step` in Python", "", "logist_turns.py", "step", "the same"),
    Way("LangGraph, SqliteSaver", "langgraph", "langgraph_turns.py", "step", "checkpoints, with the answer"),
    Way("DBOS, SQLite", "dbos", "dbos_turns.py", "step", "workflow and step, with the answer"),
    Way(
        *("pydantic-graph, file", "pydantic-graph", "pydantic_graph_turns.py", "step"),
        "a snapshot; nothing is flushed",
    ),
    Way("mini-swe-agent", "mini", "mini_turns.py", "step", "the trajectory; nothing is flushed"),
)
APPENDS = (
    Way("a line of JSON and an fsync", "", "raw_turns.py", "append", "the record"),
    Way("a row in SQLite (WAL, full)", "", "raw_turns.py", "append-sqlite", "the record"),
    Way("Logist, `Job.add_note`", "", "logist_turns.py", "append", "the record, chained, and the state"),
    *(
        Way(way.title, way.peer, way.program, "append", way.keeps.replace("answer", "record"))
        for way in STEPS[3:]
    ),
    Way("VCR.py", "vcrpy", "vcr_turns.py", "append", "the cassette; nothing is flushed"),
)
REPLAYS = (
    Way(
        *("Logist, `Job.replay`", "", "logist_turns.py", "replay"),
        "judges each recorded answer by today's rules, and compares each prompt with today's",
    ),
    Way(
        *("Temporal, Replayer", "temporal", "temporal_turns.py", "replay"),
        "runs today's code over the history; finds another order of commands; without a server",
    ),
    Way(
        *("Temporal, Replayer with its sandbox", "temporal", "temporal_turns.py", "replay-sandboxed"),
        "the same; also keeps the code from what is not deterministic",
    ),
    Way(
        *("DBOS, fork after the last step", "dbos", "dbos_turns.py", "replay"),
        "copies the recorded results and runs today's code over them, durably",
    ),
    Way("VCR.py", "vcrpy", "vcr_turns.py", "replay", "answers requests whose bodies are the same"),
    Way(
        *("LangGraph, `get_state_history`", "langgraph", "langgraph_turns.py", "replay"),
        "only reads: runs nothing again and judges nothing",
    ),
)


def table_steps(lab: Lab) -> Table:
    """One turn with one model call."""
    note = (
        "One turn: the model on 127.0.0.1 is called once over HTTP, and the answer is kept. Logist calls it with its own client in a process that "
        "survives the command, the others with http.client in their own process. CPU of all processes, without their start. "
        "With so many turns before it, of the same size. Only those with flushes keep a turn when the power fails."
    )
    return build_turn_table(lab, "step", "A step", note, STEPS, "Logist, `logist run`")


def table_appends(lab: Lab) -> Table:
    """One more record."""
    note = (
        "One record of 10 KB more, after so many earlier turns, and it is on the disk when the call returns, where there are "
        "flushes. LangGraph, DBOS and pydantic-graph take a turn whose result it is, which is their way to record something."
    )
    return build_turn_table(lab, "append", "An appended record", note, APPENDS, "Logist, `Job.add_note`")


def build_turn_table(lab: Lab, name: str, title: str, note: str, ways: Sequence[Way], own: str) -> Table:
    """A table of turns at both sizes; ratios are to the row `own`."""
    small, large = lab.sizes
    head = (
        *("", f"CPU ms after {small:,} turns", f"after {large:,}", "times Logist", f"ms after {small:,}"),
        *(f"after {large:,}", "times Logist", "flushes", f"KB the files grow after {large:,}", "on the disk"),
    )
    turns: dict[str, tuple[Turn, Turn] | str] = {}
    for way in choose_ways(lab, ways):
        say(f"{name}: {way.title}")
        try:
            turns[way.title] = (measure_turn(lab, way, small), measure_turn(lab, way, large))
        except Failed as reason:
            turns[way.title] = f"failed: {reason}"
    base = turns.get(own)
    ratio_to = base[1] if isinstance(base, tuple) else None
    rows = []
    for way in choose_ways(lab, ways):
        turn = turns[way.title]
        if isinstance(turn, str):
            rows.append((way.title, *[""] * 8, turn))
            continue
        first, then = turn
        rows.append(
            (
                *(way.title, show(first.cpu_ms), show(then.cpu_ms)),
                format_ratio(then.cpu_ms, ratio_to and ratio_to.cpu_ms),
                *(show(first.ms), show(then.ms), format_ratio(then.ms, ratio_to and ratio_to.ms)),
                *("not counted" if then.flushes is None else f"{then.flushes:.0f}", show(then.kilobytes)),
                way.keeps,
            )
        )
    return Table(name, title, note, head, rows)


def table_replays(lab: Lab) -> Table:
    """Recorded turns again, without a model."""
    size = lab.sizes[1]
    note = (
        f"{size:,} recorded turns once more, without a model and in one process, without its start. What is done for a turn differs: see the last column. "
        "DBOS looks for queued work once a second, so its time is mostly waiting."
    )
    rows, own = [], None
    for way in choose_ways(lab, REPLAYS):
        say(f"replay: {way.title}")
        try:
            turn = run_turns(lab, way, size, 2, count_flushes=False)
        except Failed as reason:
            rows.append((way.title, "", "", "", f"failed: {reason}"))
            continue
        own = own or turn.cpu_ms
        each = turn.cpu_ms / size
        rows.append((way.title, f"{each:.3f}", show(turn.ms), format_ratio(turn.cpu_ms, own), way.keeps))
    head = ("", "CPU ms a turn", "ms of all", "CPU, times Logist", "what it does for a turn")
    return Table("replay", "Replay", note, head, rows)


CALLS = (
    Way("standard library", "", "call_turns.py", "standard", "one protocol, and no help"),
    Way("Logist, built-in client", "", "call_turns.py", "logist", "two protocols, for all that speak them"),
    Way("httpx alone", "vcrpy", "call_turns.py", "httpx", "one protocol; keeps its connection open"),
    Way(
        "openai SDK",
        "openai",
        "call_turns.py",
        "openai",
        "OpenAI's whole interface, typed; keeps its connection open",
    ),
    Way("litellm", "litellm", "call_turns.py", "litellm", "more than a hundred providers, with costs"),
)


def table_calls(lab: Lab) -> Table:
    """Clients of a model, beside the standard library."""
    rows: list[tuple[str, ...]] = []
    base: Turn | None = None
    with clients.serve() as url:
        for way in choose_ways(lab, CALLS):
            say(f"call: {way.title}")
            python = lab.peers[way.peer].python if way.peer else sys.executable
            argv = [python, "-W", "ignore", str(PROGRAMS / way.program), way.what, "0"]
            try:
                with lab.make_folder() as folder:
                    run_program([*argv, "0", url], folder)
                    loading = min(
                        replay.cost([*argv, "0", url], folder).cpu for _ in range(1 if lab.quick else 3)
                    )
                    result = json.loads(run_program([*argv, str(10 * lab.runs), url], folder))
            except Failed as reason:
                rows.append((way.title, *[""] * 5, f"failed: {reason}"))
                continue
            turn = Turn(result["cpu_ms"], result["ms"], None, 0.0)
            base = base or turn
            costs = show(loading * 1000), show(turn.cpu_ms), format_ratio(turn.cpu_ms, base.cpu_ms)
            rows.append((way.title, *costs, show(turn.ms), format_ratio(turn.ms, base.ms), way.keeps))
    note = (
        "One streamed call of 12 words to a server on 127.0.0.1 that answers at once, without TLS, in a running process. What Logist records of a "
        "call is not part of it, but of a step. The server's CPU is not counted."
    )
    head = (
        *("", "CPU ms of its start", "CPU ms of a call", "times the standard library", "ms of a call"),
        *("times the standard library", "what it knows"),
    )
    return Table("call", "A model call", note, head, rows)


def choose_ways(lab: Lab, ways: Sequence[Way]) -> list[Way]:
    """Those whose peer is installed and wanted."""
    return [way for way in ways if not way.peer or way.peer in lab.peers]


def measure_turn(lab: Lab, way: Way, size: int) -> Turn:
    """What a turn costs after `size` others."""
    if way.what == "run":
        return measure_logist_run(lab, size)
    return run_turns(lab, way, size, lab.runs, count_flushes=True)


def run_turns(lab: Lab, way: Way, size: int, runs: int, *, count_flushes: bool) -> Turn:
    """The program of a peer: it prepares, then turns are measured, then their flushes are counted."""
    python = lab.peers[way.peer].python if way.peer else sys.executable

    def argv(count: int) -> list[str]:
        program = str(PROGRAMS / way.program)
        return [python, "-W", "ignore", program, way.what, str(size), str(count), lab.model]

    with lab.make_folder() as folder:
        run_program(argv(0), folder)
        before = measure_size(folder)
        result = json.loads(run_program(argv(runs), folder).strip().splitlines()[-1])
        kilobytes = (measure_size(folder) - before) / (runs + 1) / 1000
        flushes = count_flushed(argv, folder, FLUSHED_TURNS, FLUSHED_TURNS + 1) if count_flushes else None
    return Turn(result["cpu_ms"], result["ms"], flushes, kilobytes)


def measure_logist_run(lab: Lab, size: int) -> Turn:
    """`logist run`, as a process: what it takes more than one with a single turn. The processes of its calls count too."""
    environment_key = {"BENCHMARK_KEY": "dummy-key", "LOGIST_STEWARD": "benchmark"}
    with lab.make_folder() as place:
        folder = place / "project"
        folder.mkdir()
        python = calls.watched_python(place / "python", place / "fsyncs")

        def allow(turns: int) -> None:
            program = str(PROGRAMS / "logist_turns.py")
            run_program([sys.executable, program, "allow", str(size), str(turns), lab.model], folder)

        def run(turns: int, *before: str) -> calls.Spent:
            allow(turns)
            environment = clean_environment(folder) | environment_key
            logist = [python, "-m", "logist", "run", "--parallel", "1"]
            argv = ["sh", "-c", '"$@" || [ $? = 7 ]', "sh", *before, *logist]  # 7: at the limit of iterations
            try:
                return calls.measured(argv, folder, environment)[0]
            except SystemExit as reason:
                raise Failed(str(reason)[-200:]) from None

        allow(0)
        run(2)  # the first run of a project loads what the next ones find
        idle = run(1)  # with the start of the process that makes the calls
        before = measure_size(folder)
        spent = run(lab.runs + 1)
        kilobytes = (measure_size(folder) - before) / (lab.runs + 1) / 1000
        flushes = count_flushed_runs(run, place / "calls")
    cpu_ms = (spent.cpu - idle.cpu) * 1000 / lab.runs
    return Turn(cpu_ms, (spent.seconds - idle.seconds) * 1000 / lab.runs, flushes, kilobytes)


def count_flushed_runs(run: Callable[..., object], counts: Path) -> float | None:
    """Flushes of a turn of `logist run`."""
    if not shutil.which("strace"):
        return None
    numbers = []
    for turns in (1, 1 + FLUSHED_TURNS):
        run(turns, *trace_flushes(counts))
        numbers.append(read_count(counts))
    return (numbers[1] - numbers[0]) / FLUSHED_TURNS


def count_flushed(argv: Callable[[int], list[str]], folder: Path, runs: int, turns: int) -> float | None:
    """Flushes of a turn: of a process that takes some, without those of a process that takes none."""
    if not shutil.which("strace"):
        return None
    with tempfile.TemporaryDirectory() as name:
        counts, numbers = Path(name) / "calls", []
        for count in (0, runs):
            run_program([*trace_flushes(counts), *argv(count)], folder)
            numbers.append(read_count(counts))
    return (numbers[1] - numbers[0]) / turns


def trace_flushes(counts: Path) -> list[str]:
    """The beginning of a command whose flushes are counted."""
    return ["strace", "-f", "-c", "-U", "calls", "-e", f"trace={FLUSHES}", "-o", str(counts)]


def read_count(counts: Path) -> int:
    """The sum of the calls that strace has counted; it is the last number, if any were made."""
    numbers = [int(word) for word in counts.read_text().split() if word.isdigit()]
    return numbers[-1] if numbers else 0


def run_program(argv: Sequence[str], folder: Path) -> str:
    """What a program of a peer prints. Raises Failed."""
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env=clean_environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"it took longer than {LIMIT:g} seconds") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise Failed(f"exit code {done.returncode}: {lines[-1][:160]}")
    return done.stdout


def measure_size(folder: Path) -> int:
    """Bytes of all files in a directory."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def show(value: float) -> str:
    """Three digits at most after the point, for a cell."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def say(text: str) -> None:
    """What is measured now."""
    print(f"  {text}", file=sys.stderr, flush=True)
