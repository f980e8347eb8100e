"""Tables about whole commands: their start, one turn as a command, listings; what peers.py prints."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import startup
from measure import clean_environment
from peers_install import Installed
from peers_tables import Table, format_ratio
from peers_turns import PROGRAMS, Failed, Lab, run_program, say, show

from logist.agents.programs.finding import PRESETS
from logist.agents.programs.protocol import Run
from logist.core.model import Model
from tests.endpoint import Endpoint
from tests.jobs.bench import command as build_answer

LOGIST = str(Path(sys.executable).parent / "logist")
TIMEOUT = 300.0
KEY = "dummy-key-for-benchmarks"
QUIET = {
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
"""What keeps Claude Code from asking other hosts."""


@dataclass(frozen=True)
class Command:
    """A command as a user types it."""

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    codes: tuple[int, ...] = (0,)
    """Exit codes of a command that has done its work."""


@dataclass(frozen=True)
class Cost:
    """What a command costs: the least CPU, and the median of the time, of some runs."""

    cpu_ms: float
    ms: float


def measure_command(command: Command, runs: int) -> Cost:
    """Run a command some times, and once before that. Raises Failed."""
    run_once(command)
    spent = [run_once(command) for _ in range(runs)]
    return Cost(min(cost.cpu_ms for cost in spent), statistics.median(cost.ms for cost in spent))


def run_once(command: Command) -> Cost:
    """One process, with all that it waits for."""
    environment = clean_environment(command.folder) | QUIET | dict(command.environment)
    output = command.folder / ".output-of-benchmark"
    began = time.perf_counter()
    with open(output, "wb") as out:
        process = subprocess.Popen(
            command.argv,
            cwd=command.folder,
            env=environment,
            stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        if process.stdin:
            process.stdin.write(command.stdin)
            process.stdin.close()
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.perf_counter() - began > TIMEOUT:
                process.kill()
                process.wait()
                raise Failed(f"it took longer than {TIMEOUT:g} seconds")
            time.sleep(0.001)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in command.codes:
        text = output.read_text("utf-8", "replace").strip().splitlines() or ["no message"]
        raise Failed(f"exit code {process.returncode}: {text[-1][:120]}")
    return Cost((usage.ru_utime + usage.ru_stime) * 1000, seconds * 1000)


@dataclass(frozen=True)
class Start:
    """How a program is started to do nothing, or nearly nothing."""

    title: str
    peer: str
    words: str = ""
    """Of its version."""
    listing: str = ""
    """Of a command that shows something short, and asks no model."""
    imports: str = ""
    """What a program that uses it as a library imports."""


STARTS = (
    Start("Logist", "", "--version", "job list", "import logist; logist.Project"),
    Start("doit", "doit", "--version", "list"),
    Start("mini-swe-agent", "mini", "--help", "", "import minisweagent.agents.default"),
    Start("DBOS", "dbos", "version", "workflow list -s sqlite:///dbos.sqlite", "import dbos"),
    Start("pflow", "pflow", "--version", "resume list"),
    Start("llm", "llm", "--version", "logs list -n 3", "import llm"),
    Start("Inspect", "inspect", "--version", "list logs", "import inspect_ai"),
    Start("spec-kit", "spec-kit", "version"),
    Start("Aider", "aider", "--version"),
    Start("task-master", "task-master", "--version", "list"),
    Start("Claude Code", "claude", "--version", "mcp list"),
    Start("Codex", "codex", "--version", "mcp list"),
    Start("LangGraph", "langgraph", "", "", "import langgraph.graph, langgraph.checkpoint.sqlite"),
    Start("pydantic-graph", "pydantic-graph", "", "", "import pydantic_graph"),
    Start("Temporal's Python SDK", "temporal", "", "", "import temporalio.worker, temporalio.workflow"),
    Start("litellm", "litellm", "", "", "import litellm"),
    Start("openai SDK", "openai", "", "", "import openai"),
)


def table_starts(lab: Lab) -> Table:
    """Commands that do nearly nothing."""
    note = (
        "CPU ms of a command, the least of several runs. `list` stands for a command that shows something short: "
        "jobs, tasks, workflows, logs or servers, at most 100 of them. Claude Code and Codex are programs for a terminal that a user starts once for many turns; Codex is compiled."
    )
    head = (
        "",
        "`--version` or `--help`",
        "times Logist",
        "`list`",
        "times Logist",
        "import",
        "times Logist",
        "which `list`",
    )
    rows: list[tuple[str, ...]] = []
    own: list[float | None] = []
    with lab.make_folder() as folder:
        (folder / "logist").mkdir()
        startup.make_jobs(folder / "logist", 100)
        python = Command([sys.executable, "-c", "pass"], folder)
        bare = measure_command(python, 3 * lab.runs // 5)
        for start in STARTS:
            if start.peer and start.peer not in lab.peers:
                continue
            say(f"startup: {start.title}")
            costs, note_text = measure_start(lab, start, folder)
            own = own or costs
            cells = []
            for cost, base in zip(costs, own, strict=True):
                cells += [show(cost) if cost else "", format_ratio(cost, base)]
            rows.append((start.title, *cells, note_text))
        rows.insert(0, ("`python -c pass`", show(bare.cpu_ms), format_ratio(bare.cpu_ms, own[0]), *[""] * 5))
    return Table("startup", "Start-up", note, head, rows)


def measure_start(lab: Lab, start: Start, place: Path) -> tuple[list[float | None], str]:
    """CPU ms of the version, of the listing and of the import, each if there is one; and what the listing is."""
    peer = lab.peers.get(start.peer)
    program = peer.command if peer else LOGIST
    python = peer.python if peer else sys.executable
    folder = place / (start.peer or "logist")
    folder.mkdir(exist_ok=True)
    if start.peer == "doit":
        write_doit_tasks(folder, 3)
    if start.peer == "task-master":
        write_task_master_tasks(folder, 3)
    if start.peer == "llm":
        list_llm(lab, peer, folder, 3)
    if start.peer == "dbos" and peer:
        run_program([peer.python, str(PROGRAMS / "dbos_turns.py"), "step", "3", "0", lab.model], folder)
    commands = [
        [program, *start.words.split()] if start.words else [],
        [program, *start.listing.split()] if start.listing else [],
        [python, "-W", "ignore", "-c", start.imports] if start.imports else [],
    ]
    costs: list[float | None] = []
    failures = []
    for argv in commands:
        try:
            slow = 2 if lab.quick else 5
            costs.append(measure_command(Command(argv, folder), slow).cpu_ms if argv else None)
        except Failed as reason:
            costs.append(None)
            failures.append(str(reason))
    listing = f"`{Path(program).name} {start.listing}`" if start.listing else ""
    return costs, "; ".join([*([listing] if listing else []), *failures])


@dataclass(frozen=True)
class Turn:
    """One turn as a command of a program."""

    title: str
    peer: str
    prepare: Callable[[Lab, Installed | None, Path, str], Command]
    """From the peer, a directory and the address of a model."""
    keeps: str


def prepare_logist(lab: Lab, peer: Installed | None, folder: Path, url: str) -> Command:
    """A job whose next attempt is due."""
    program = str(PROGRAMS / "logist_turns.py")
    run_program([sys.executable, program, "prepare", "2", "0", url], folder)
    return Command(
        [LOGIST, "job", "step", "j"], folder, {"BENCHMARK_KEY": KEY, "LOGIST_STEWARD": "benchmark"}
    )


def prepare_library(program: str) -> Callable[[Lab, Installed | None, Path, str], Command]:
    """A program that imports a library and takes one turn."""

    def prepare(lab: Lab, peer: Installed | None, folder: Path, url: str) -> Command:
        assert peer is not None
        argv = [peer.python, "-W", "ignore", str(PROGRAMS / program), "step", "2"]
        run_program([*argv, "0", url], folder)
        return Command([*argv, "1", url], folder)

    return prepare


def prepare_agent(name: str) -> Callable[[Lab, Installed | None, Path, str], Command]:
    """An agent program, started as Logist starts it."""

    def prepare(lab: Lab, peer: Installed | None, folder: Path, url: str) -> Command:
        assert peer is not None
        home, workspace = folder / "home", folder / "workspace"
        home.mkdir()
        workspace.mkdir()
        model = Model(
            name="m", provider_model="openai/scripted", endpoint=url, input_price=2.0, output_price=10.0
        )
        run = Run(
            prompt="Say that it is done.",
            workspace=workspace,
            home=home,
            model=model,
            api_key=KEY,
            profile="full",
            deadline_seconds=120.0,
            name="j",
            role="Worker",
        )
        invocation = PRESETS[name].invocation(run)
        for path, data in invocation.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_bytes(data)
        environment = {"HOME": str(home), **invocation.environment}
        return Command([peer.command, *invocation.argv[1:]], workspace, environment, invocation.stdin)

    return prepare


def prepare_llm(lab: Lab, peer: Installed | None, folder: Path, url: str) -> Command:
    """llm with its log, which Logist turns off."""
    assert peer is not None
    settings = folder / ".config" / "io.datasette.llm"
    settings.mkdir(parents=True)
    models = [{"model_id": "m", "model_name": "m", "api_base": url}]
    (settings / "extra-openai-models.yaml").write_text(json.dumps(models), "utf-8")
    return Command([peer.command, "-m", "m", "Say that it is done."], folder, {"OPENAI_API_KEY": KEY})


def prepare_inspect(lab: Lab, peer: Installed | None, folder: Path, url: str) -> Command:
    """An evaluation of one sample without a scorer."""
    assert peer is not None
    (folder / "say.py").write_text(
        "from inspect_ai import Task, task\nfrom inspect_ai.dataset import Sample\nfrom inspect_ai.solver import generate\n"
        "@task\ndef say():\n    return Task(dataset=[Sample(input='Say that it is done.')], solver=[generate()])\n"
    )
    argv = [peer.command, "eval", "say.py", "--model", "openai/m", "--display", "none"]
    return Command(argv, folder, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url})


def prepare_pflow(lab: Lab, peer: Installed | None, folder: Path, url: str) -> Command:
    """A workflow with one node that asks a model."""
    assert peer is not None
    (folder / "say.pflow.md").write_text(
        "# Say\n\nSays it.\n\n## Steps\n\n### say\n\nAsks.\n\n- type: llm\n- prompt: Say that it is done.\n- model: openai/m\n"
    )
    argv = [peer.command, "--no-cache", "./say.pflow.md"]
    return Command(argv, folder, {"OPENAI_API_KEY": KEY, "OPENAI_API_BASE": url})


TURNS = (
    Turn("Logist, `logist job step`", "", prepare_logist, "history, state, answer, cost: flushed"),
    Turn(
        "LangGraph, a program of 30 lines",
        "langgraph",
        prepare_library("langgraph_turns.py"),
        "checkpoints: flushed",
    ),
    Turn(
        "DBOS, a program of 30 lines", "dbos", prepare_library("dbos_turns.py"), "workflow and step: flushed"
    ),
    Turn(
        "pydantic-graph, a program of 30 lines",
        "pydantic-graph",
        prepare_library("pydantic_graph_turns.py"),
        "a snapshot",
    ),
    Turn("pflow, one `llm` node", "pflow", prepare_pflow, "a trace"),
    Turn("llm", "llm", prepare_llm, "a row of its log: flushed"),
    Turn("Inspect, one sample", "inspect", prepare_inspect, "a log of the evaluation"),
    Turn("mini-swe-agent, one command", "mini", prepare_agent("mini"), "a trajectory"),
    Turn("Aider", "aider", prepare_agent("aider"), "a history of the chat"),
    Turn("Claude Code, `claude -p`", "claude", prepare_agent("claude"), "a session"),
    Turn("Codex, `codex exec`", "codex", prepare_agent("codex"), "a session"),
)


def table_commands(lab: Lab) -> Table:
    """A whole command with one model call."""
    note = (
        "A new process that takes one turn with a model on 127.0.0.1 that answers at once, and keeps what it keeps. CPU: the least, time: the median of some runs. "
        "What the programs do differs: Claude Code, Codex, Aider and mini-swe-agent are agents with tools, and start what these need; Inspect loads what "
        "evaluations need. `logist run` starts once for all of its jobs, and then takes a turn as in the table of steps."
    )
    runs = 1 if lab.quick else 5
    answer = build_answer("RETRY", summary="Again. " * 30)
    usage = {"input": 10, "output": 10}
    submit = {"calls": [{"shell": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}], "usage": usage}
    rows: list[tuple[str, ...]] = []
    own = None
    for turn in TURNS:
        peer = lab.peers.get(turn.peer)
        if turn.peer and not peer:
            continue
        say(f"command: {turn.title}")
        with (
            lab.make_folder() as folder,
            Endpoint(submit if turn.peer == "mini" else {"text": answer, "usage": usage}) as endpoint,
        ):
            try:
                cost = measure_command(turn.prepare(lab, peer, folder, endpoint.url), runs)
            except Failed as reason:
                rows.append((turn.title, *[""] * 4, f"failed: {reason}"))
                continue
        own = own or cost
        ratios = format_ratio(cost.cpu_ms, own.cpu_ms), format_ratio(cost.ms, own.ms)
        rows.append((turn.title, show(cost.cpu_ms), ratios[0], show(cost.ms), ratios[1], turn.keeps))
    head = ("", "CPU ms", "times Logist", "ms", "times Logist", "on the disk after it")
    return Table("command", "One turn as a command", note, head, rows)


@dataclass(frozen=True)
class Listing:
    """A listing of many things of a program."""

    title: str
    peer: str
    prepare: Callable[[Lab, Installed | None, Path, int], Command]
    shows: str


def list_logist(*words: str) -> Callable[[Lab, Installed | None, Path, int], Command]:
    def prepare(lab: Lab, peer: Installed | None, folder: Path, count: int) -> Command:
        startup.make_jobs(folder, count)
        return Command([LOGIST, "job", "list", *words], folder)

    return prepare


def copy_rows(base: Path, tables: Mapping[str, Sequence[str]], count: int) -> None:
    """Copy the rows of tables so many times; `{number}` is put behind the values of these columns."""
    with sqlite3.connect(base) as connection:
        for table, keys in tables.items():
            names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            values = ", ".join(f"\"{name}\" || '-' || ?" if name in keys else f'"{name}"' for name in names)
            columns = ", ".join(f'"{name}"' for name in names)
            connection.execute(f'CREATE TEMP TABLE kept AS SELECT * FROM "{table}"')
            statement = f'INSERT INTO "{table}" ({columns}) SELECT {values} FROM kept'
            connection.executemany(statement, ([number] * len(keys) for number in range(count - 1)))
            connection.execute("DROP TABLE kept")
    connection.close()


def list_dbos(lab: Lab, peer: Installed | None, folder: Path, count: int) -> Command:
    assert peer is not None
    run_program([peer.python, str(PROGRAMS / "dbos_turns.py"), "step", "1", "0", lab.model], folder)
    tables = {name: ["workflow_uuid"] for name in ("workflow_status", "workflow_input", "workflow_output")}
    copy_rows(folder / "dbos.sqlite", tables, count)
    return Command([peer.command, "workflow", "list", "-s", "sqlite:///dbos.sqlite", "-l", "20"], folder)


def list_langgraph(lab: Lab, peer: Installed | None, folder: Path, count: int) -> Command:
    assert peer is not None
    run_program(
        [peer.python, "-W", "ignore", str(PROGRAMS / "langgraph_turns.py"), "step", "1", "0", lab.model],
        folder,
    )
    copy_rows(folder / "thread.sqlite", {"checkpoints": ["thread_id"], "writes": ["thread_id"]}, count)
    return Command([peer.python, "-W", "ignore", str(PROGRAMS / "langgraph_list.py")], folder)


def list_llm(lab: Lab, peer: Installed | None, folder: Path, count: int) -> Command:
    command = prepare_llm(lab, peer, folder, lab.model)
    run_once(command)
    base = folder / ".config" / "io.datasette.llm" / "logs.db"
    copy_rows(base, {"threads": ["id"], "turns": ["id", "thread_id"]}, count)
    return Command([command.argv[0], "logs", "list", "-n", "20", "-s"], folder)


def list_inspect(lab: Lab, peer: Installed | None, folder: Path, count: int) -> Command:
    command = prepare_inspect(lab, peer, folder, lab.model)
    run_once(command)
    (log,) = (folder / "logs").iterdir()
    _, _, rest = log.name.partition("T")
    for number in range(1, count):
        shutil.copy(log, log.with_name(f"20{number // 365 % 100:02}-01-{number % 28 + 1:02}T{number}-{rest}"))
    return Command([command.argv[0], "list", "logs"], folder)


def write_doit_tasks(folder: Path, count: int) -> None:
    (folder / "dodo.py").write_text(
        f"def task_t():\n    for number in range({count}):\n"
        "        yield {'name': str(number), 'actions': ['true'], 'doc': 'A task'}\n"
    )


def list_doit(lab: Lab, peer: Installed | None, folder: Path, count: int) -> Command:
    assert peer is not None
    write_doit_tasks(folder, count)
    return Command([peer.command, "list", "--all"], folder)


def write_task_master_tasks(folder: Path, count: int) -> None:
    more = {"description": "d", "status": "pending", "dependencies": [], "priority": "medium", "details": ""}
    tasks = [
        {"id": number, "title": f"Task {number}", **more, "subtasks": []} for number in range(1, count + 1)
    ]
    metadata = {"created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z", "description": "d"}
    file = folder / ".taskmaster" / "tasks" / "tasks.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"master": {"tasks": tasks, "metadata": metadata}}))


def list_task_master(lab: Lab, peer: Installed | None, folder: Path, count: int) -> Command:
    assert peer is not None
    write_task_master_tasks(folder, count)
    return Command([peer.command, "list"], folder)


LISTINGS = (
    Listing("Logist, `job list`", "", list_logist(), "all"),
    Listing("Logist, `job list --limit 20`", "", list_logist("--limit", "20"), "20"),
    Listing("DBOS, `workflow list -l 20`", "dbos", list_dbos, "20"),
    Listing("llm, `logs list -n 20 -s`", "llm", list_llm, "20"),
    Listing("LangGraph, a program that calls `list`", "langgraph", list_langgraph, "all"),
    Listing("doit, `list --all`", "doit", list_doit, "all"),
    Listing("Inspect, `list logs`", "inspect", list_inspect, "all"),
    Listing("task-master, `list`", "task-master", list_task_master, "all"),
)


def table_listings(lab: Lab) -> Table:
    """Listings of many jobs, tasks or threads."""
    sizes = (100, 1000) if lab.quick else (1000, 10_000)
    note = (
        "A command that lists jobs, workflows, conversations, threads, tasks or logs, of which there are so many. CPU: the least of some runs after a first one, which may make an index. "
        "What is shown of each differs: doit keeps no state of tasks that never ran, and Inspect lists only names of files."
    )
    rows: list[tuple[str, ...]] = []
    own: list[float] = []
    for listing in LISTINGS:
        peer = lab.peers.get(listing.peer)
        if listing.peer and not peer:
            continue
        say(f"listing: {listing.title}")
        costs = []
        try:
            for size in sizes:
                with lab.make_folder() as folder:
                    costs.append(
                        measure_command(
                            listing.prepare(lab, peer, folder, size), 1 if lab.quick else 3
                        ).cpu_ms
                    )
        except Failed as reason:
            rows.append((listing.title, *[""] * 4, f"failed: {reason}"))
            continue
        own = own or costs
        cells = [
            cell
            for cost, base in zip(costs, own, strict=True)
            for cell in (show(cost), format_ratio(cost, base))
        ]
        rows.append((listing.title, *cells, listing.shows))
    head = ("", f"CPU ms at {sizes[0]:,}", "times Logist", f"at {sizes[1]:,}", "times Logist", "shows")
    return Table("listing", "A listing", note, head, rows)
