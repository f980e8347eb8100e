"""How the cost of every command grows with what it works on: whole commands at three sizes, and the exponent.

Run: python benchmarks/growth.py [--quick] [--only history "create, files"] [--place DIRECTORY]

What is counted: instructions if the processor counts them for `perf stat`, else CPU time (the least of some runs);
and system calls if there is `strace`. The cost at a tiny size is subtracted. Where git or LangGraph do the same work,
they are beside it. LangGraph is installed in an environment of its own, `.venv-growth`, which needs the network once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from fanout import follow, gave
from measure import LOGIST, clean_environment, cpu_ms, table
from replay import ROOT, make_history
from startup import make_jobs

LIMIT = 1.2
FLAT = 0.1
"""A cost that is higher than at the tiny size by less than this part of it is not growth: two runs may differ as much."""
SHELL = ["sh", "-c"]
DONE = gave("done", **{"changed.txt": "changed\n"})

Sizes = tuple[int, int, int, int]
"""The first one is the tiny size."""
FILES: Sizes = (0, 1_000, 7_000, 50_000)
INTERACTIONS: Sizes = (6, 501, 2_001, 10_001)
STEPS: Sizes = (10, 500, 1_500, 5_000)
PROMPT: Sizes = (1, 25, 80, 250)
FAN: Sizes = (1, 10, 30, 100)


class Case(NamedTuple):
    """A command, and what it works on."""

    name: str
    by: str
    """What there is more of."""
    sizes: Sizes
    prepare: Callable[[Path, int], object]
    """Makes a project of that size in an empty directory."""
    command: list[str]
    """Runs in the project; `{run}` in it is a number that no other run has."""
    is_changing: bool = True
    """Each run begins with a copy of the project."""


class Unit(NamedTuple):
    """What is counted, and how often a command runs for it: the cheapest run counts."""

    name: str
    count: Callable[[Sequence[str], Path], float]
    runs: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of each size")
    parser.add_argument(
        "--only", nargs="+", default=[], help="only the cases with one of these texts in `name, by`"
    )
    parser.add_argument("--runs", type=int, default=2, help="of which the cheapest counts, for CPU time")
    parser.add_argument(
        "--langgraph",
        type=Path,
        default=ROOT / ".venv-growth",
        help="where LangGraph is installed, if it is not",
    )
    parser.add_argument("--place", type=Path, default=None, help="where projects are made for a while")
    options = parser.parse_args()
    units = choose_units(options.runs)
    langgraph = install_langgraph(options.langgraph)
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"counted: {', '.join(unit.name for unit in units)}")
    print(f"beside: {git}{', ' + ', '.join(LANGGRAPH) if langgraph else ''}\n", flush=True)
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory(dir=options.place) as name:
        for number, case in enumerate(list_cases(langgraph)):
            if options.only and not any(text in f"{case.name}, {case.by}" for text in options.only):
                continue
            if options.quick:
                tiny, *others = case.sizes
                case = case._replace(sizes=(tiny, *(max(tiny + 1, size // 10) for size in others)))
            rows += measure(case, units, Path(name) / str(number))
            print(
                f"  {case.name}, {case.by}: {', '.join(str(row[-2]) for row in rows[-len(units) :])}",
                file=sys.stderr,
            )
    head = ["command", "by", "sizes", "counted", "cost", "exponent", f"at most {LIMIT:g}"]
    table([head, *rows])


def choose_units(runs: int) -> list[Unit]:
    """Instructions, or else CPU time; and system calls, if they can be counted."""
    counted = subprocess.run([*PERF, "true"], capture_output=True, text=True, check=False)
    has_counter = counted.returncode == 0 and counted.stderr.split(",")[0].isdigit()
    first = (
        Unit("million instructions", count_instructions, 1)
        if has_counter
        else Unit("CPU ms", count_cpu, runs)
    )
    return [first, *([Unit("system calls", count_calls, 1)] if shutil.which("strace") else [])]


PERF = ["perf", "stat", "-x,", "-e", "instructions:u", "--"] if shutil.which("perf") else ["false"]


def count_instructions(command: Sequence[str], place: Path) -> float:
    ran = subprocess.run(
        [*PERF, *command], cwd=place, env=clean_environment(place), capture_output=True, text=True, check=True
    )
    return float(ran.stderr.strip().splitlines()[-1].split(",")[0]) / 1e6


def count_cpu(command: Sequence[str], place: Path) -> float:
    return cpu_ms(command, place, 1)


def count_calls(command: Sequence[str], place: Path) -> float:
    counts = place.parent / "calls"
    cpu_ms(["strace", "-f", "-c", "-U", "calls", "-o", str(counts), *command], place, 1)
    return (
        sum(float(line) for line in counts.read_text().split() if line.isdigit()) / 2
    )  # the last one is the sum


def measure(case: Case, units: Sequence[Unit], place: Path) -> list[list[object]]:
    """Measure a case at all its sizes, and return a row for each unit."""
    costs: dict[str, list[float]] = {unit.name: [] for unit in units}
    for size in case.sizes:
        project = place / str(size)
        project.mkdir(parents=True)
        case.prepare(project, size)
        numbers = itertools.count()
        for unit in units:
            costs[unit.name].append(
                min(run_once(case, unit, project, next(numbers)) for _ in range(unit.runs))
            )
        shutil.rmtree(project)
    sizes = " ".join(f"{size:,}" for size in case.sizes)
    return [[case.name, case.by, sizes, *judge(unit.name, case.sizes, costs[unit.name])] for unit in units]


def run_once(case: Case, unit: Unit, project: Path, number: int) -> float:
    command = [word.replace("{run}", f"r{number}") for word in case.command]
    if not case.is_changing:
        return unit.count(command, project)
    with tempfile.TemporaryDirectory(dir=project.parent) as folder:
        copy = shutil.copytree(project, Path(folder) / project.name, symlinks=True)
        return unit.count(command, copy)


def judge(unit: str, sizes: Sizes, costs: Sequence[float]) -> list[object]:
    exponent = fit_exponent(sizes, costs)
    shown = "flat" if exponent is None else f"{exponent:.2f}"
    good = exponent is None or exponent <= LIMIT
    return [unit, " ".join(f"{cost:,.0f}" for cost in costs), shown, "yes" if good else "NO"]


def fit_exponent(sizes: Sizes, costs: Sequence[float]) -> float | None:
    """The exponent with which the cost above that at the tiny size grows with the size above it.

    None if it hardly grows: less than two sizes cost more by what two runs may differ, or larger ones don't cost more
    than smaller ones.
    """
    pairs = zip(sizes[1:], costs[1:], strict=True)
    above = [(size - sizes[0], cost - costs[0]) for size, cost in pairs if cost - costs[0] > FLAT * costs[0]]
    if len(above) < 2:
        return None
    points = [(math.log(size), math.log(cost)) for size, cost in above]
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return slope if slope > FLAT else None


def list_cases(langgraph: str | None) -> Iterator[Case]:
    """Every command that works on something that grows, and what others need for the same work.

    `langgraph` is a Python that has it, if any.
    """
    yield from list_own_cases()
    if langgraph:
        yield from list_langgraph_cases(langgraph)


def list_own_cases() -> Iterator[Case]:
    step = [*LOGIST, "job", "step", "j", "--agent", "scripted:answers.json"]
    yield Case(
        "job create", "files", FILES, make_repository, [*LOGIST, "job", "create", "Do it.", "--id", "j"]
    )
    yield Case("git worktree add", "files", FILES, make_repository, ["git", "worktree", "add", "-q", "w"])
    yield Case("job step", "files", FILES, make_job_with_files, step)
    commit = "echo changed > changed.txt && git add -A && git commit -qm changed"
    yield Case("git add and commit", "files", FILES, make_repository, [*SHELL, commit])
    yield Case("job step", "interactions", INTERACTIONS, make_history, step)
    yield Case("job show", "interactions", INTERACTIONS, make_history, [*LOGIST, "job", "show", "j"], False)
    for options in ((), ("--json",)):
        command = [*LOGIST, "job", "history", "j", *options]
        yield Case(
            f"job history {' '.join(options)}", "interactions", INTERACTIONS, make_history, command, False
        )
    yield Case("git log -p", "interactions", INTERACTIONS, make_commits, ["git", "log", "-p"], False)
    yield Case(
        "job verify", "interactions", INTERACTIONS, make_history, [*LOGIST, "job", "verify", "j"], False
    )
    yield Case(
        "git fsck", "interactions", INTERACTIONS, make_commits, ["git", "fsck", "--no-progress"], False
    )
    yield Case(
        "job replay", "interactions", INTERACTIONS, make_history, [*LOGIST, "job", "replay", "j"], False
    )
    for options in ((), ("--redact",)):
        command = [*LOGIST, "job", "export", "j", "--fixture", "../exported-{run}", *options]
        name = f"job export {' '.join(options)}"
        yield Case(name, "interactions", (6, 501, 1_501, 4_001), make_history, command)
    yield Case("job list", "jobs", (1, 1_000, 10_000, 50_000), make_jobs, [*LOGIST, "job", "list"], False)
    run = [*LOGIST, "run", "--agent", "scripted:answers.json"]
    yield Case("run", "ready jobs", (1, 10, 30, 100), make_ready_jobs, run)
    yield Case("run, after:", "jobs in a chain", (1, 10, 30, 100), make_chain_of_jobs, run)
    fan_out = [*LOGIST, "job", "step", "fan", "--agent", "scripted:answers.json"]
    yield Case("job step, fan-out", "items", FAN, make_fan, fan_out)
    for words in (["workflow", "validate", "w.json"], ["workflow", "next", "w.json"]):
        yield Case(" ".join(words[:2]), "steps", STEPS, make_workflow, [*LOGIST, *words], False)
    create = [*LOGIST, "job", "create", "--id", "j", "--no-repo"]
    yield Case("job create", "steps", STEPS, make_workflow, [*create, "--workflow", "w.json"])
    yield Case("job step", "steps", STEPS, make_workflow_job, step)
    yield Case("job create", "prompt KB", PROMPT, make_prompt, [*create, "--file", "prompt.md"])
    yield Case("job step", "prompt KB", PROMPT, make_prompt_job, step)


def run_logist(place: Path, *words: str) -> None:
    """A command that ends well."""
    subprocess.run(
        [*LOGIST, *words],
        cwd=place,
        env=clean_environment(place),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def run_git(place: Path, *words: str, stdin: str | None = None) -> None:
    subprocess.run(
        ["git", *words], cwd=place, env=clean_environment(place), check=True, input=stdin, text=True
    )


def begin_project(place: Path, config: str = "") -> None:
    """A project whose agents answer from a file."""
    run_logist(place, "init")
    (place / ".logist" / "config.yaml").write_text(f"review: {{enabled: false}}\napproval: none\n{config}")
    (place / "answers.json").write_text(json.dumps({"answers": [DONE] * 10}))


def make_repository(place: Path, files: int) -> None:
    """A git repository with so many files of a kilobyte, in which Logist can begin."""
    for number in range(files):
        path = place / f"d{number // 100}" / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n" * 200)
    (place / ".gitignore").write_text(".logist/\nanswers.json\n")
    run_git(place, "init", "-q")
    for name, value in (("user.name", "b"), ("user.email", "b@localhost"), ("gc.auto", "0")):
        run_git(place, "config", name, value)
    run_git(place, "add", ".")
    run_git(place, "commit", "-qm", "begun")
    begin_project(place)


def make_job_with_files(place: Path, files: int) -> None:
    make_repository(place, files)
    run_logist(place, "job", "create", "Do it.", "--id", "j")
    shutil.rmtree(place / ".git")  # the job has its own


def make_commits(place: Path, commits: int) -> None:
    """A git repository with so many commits of one file."""
    run_git(place, "init", "-q")
    lines = []
    for number in range(commits):
        text = f"{number}\n" * 200
        lines.append(f"commit refs/heads/main\ncommitter b <b@localhost> {number} +0000\ndata 4\nmore\n")
        lines.append(f"M 644 inline a.txt\ndata {len(text)}\n{text}\n")
    run_git(place, "fast-import", "--quiet", stdin="".join(lines))
    run_git(place, "checkout", "-q", "main")


def make_ready_jobs(place: Path, count: int) -> None:
    begin_project(place)
    for number in range(count):
        run_logist(place, "job", "create", "Do it.", "--id", f"j{number}", "--no-repo")


def make_chain_of_jobs(place: Path, count: int) -> None:
    """Ready jobs, each of which waits for the one before."""
    begin_project(place)
    for number in range(count):
        before = ["--after", f"j{number - 1}"] if number else []
        run_logist(place, "job", "create", "Do it.", "--id", f"j{number}", "--no-repo", *before)


def make_fan(place: Path, items: int) -> None:
    """A job whose next step is to give away so many items."""
    run_git(place, "init", "-q")
    follow(place, items, 0)
    run_logist(place, "job", "step", "fan", "--agent", "scripted:answers.json")


def make_workflow(place: Path, steps: int) -> None:
    begin_project(place, "workflow: {max_steps: 10000}\nlimits: {max_allowed_iterations: 100000}\n")
    listed = [{"id": f"s{number}", "prompt": f"Do part {number}."} for number in range(steps)]
    (place / "w.json").write_text(json.dumps({"name": "Long", "steps": listed}))


def make_workflow_job(place: Path, steps: int) -> None:
    make_workflow(place, steps)
    run_logist(place, "job", "create", "--id", "j", "--no-repo", "--workflow", "w.json")


def make_prompt(place: Path, kilobytes: int) -> None:
    begin_project(place, "context: {budget_tokens: 1000000}\n")
    (place / "prompt.md").write_text("Say all of it once more, word by word. " * (kilobytes * 1000 // 39))


def make_prompt_job(place: Path, kilobytes: int) -> None:
    make_prompt(place, kilobytes)
    run_logist(place, "job", "create", "--id", "j", "--no-repo", "--file", "prompt.md")


LANGGRAPH = ("langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2")
GRAPH = """
import sys
from operator import add
from typing import Annotated, TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

class State(TypedDict):
    messages: Annotated[list, add]

what, size = sys.argv[1], int(sys.argv[2])
TEXT = "done " * (1000 if what != "prompt" else 200 * size)
graph = StateGraph(State)
steps = [f"s{number}" for number in range(size if what == "steps" else 1)]
for step in steps:
    graph.add_node(step, lambda state: {"messages": [TEXT]})
for before, after in zip([START, *steps], [*steps, END]):
    if what == "fan" and before == START:
        graph.add_conditional_edges(START, lambda state: [Send("s0", state) for _ in range(size)], ["s0"])
    else:
        graph.add_edge(before, after)
thread = {"configurable": {"thread_id": "j"}}
with SqliteSaver.from_conn_string("thread.sqlite") as saver:
    app = graph.compile(checkpointer=saver, interrupt_after=steps[:1] if what == "steps" else None)
    if what == "begin":
        app.invoke({"messages": [TEXT] * size}, thread)
    elif what == "begin history":
        for _ in range(size):
            app.invoke({"messages": ["go on"]}, thread)
    elif what == "history":
        for snapshot in app.get_state_history(thread):
            print(snapshot)
    else:
        app.invoke({"messages": [TEXT if what == "prompt" else "go on"]}, thread)
"""
"""Graphs that do what a job does: one answer in a thread that keeps all of its messages, in a database like the history."""


def list_langgraph_cases(python: str) -> Iterator[Case]:
    """LangGraph beside the commands that do the same work."""

    def run(*words: str) -> list[str]:
        return [python, "-c", GRAPH, *words]

    def begin(what: str, place: Path, size: int) -> None:
        subprocess.run(run(what, str(size)), cwd=place, env=clean_environment(place), check=True)

    def write_size(place: Path, size: int) -> None:
        (place / "size").write_text(str(size))

    def run_with_size(what: str) -> list[str]:
        return [*SHELL, f'exec "$0" -c "$1" {what} "$(cat size)"', python, GRAPH]

    begun, long = partial(begin, "begin"), partial(begin, "begin history")
    yield Case("LangGraph invoke", "interactions", INTERACTIONS, begun, run("go on", "1"))
    # Each checkpoint has all messages so far, so ten thousand of them would be 250 GB.
    yield Case(
        "LangGraph get_state_history", "interactions", (6, 51, 151, 401), long, run("history", "1"), False
    )
    yield Case("LangGraph invoke, Send", "items", FAN, write_size, run_with_size("fan"))
    yield Case("LangGraph compile, invoke", "steps", STEPS, write_size, run_with_size("steps"))
    yield Case("LangGraph invoke", "prompt KB", PROMPT, write_size, run_with_size("prompt"))


def install_langgraph(place: Path) -> str | None:
    """Install LangGraph, unless it is there; return its Python, or None, and say so, if it can't be installed."""
    python = str(place / "bin" / "python")
    wanted = "\n".join(LANGGRAPH)
    stamp = place / "installed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *LANGGRAPH]
    print(f"installing {' and '.join(LANGGRAPH)} in {place}", file=sys.stderr, flush=True)
    for command in ([sys.executable, "-m", "venv", str(place)], pip):
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
            print(f"LangGraph is not installed, so its rows are missing. To install it: {' '.join(pip)}\n")
            return None
    stamp.write_text(wanted)
    return python


if __name__ == "__main__":
    main()
