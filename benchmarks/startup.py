"""What starting costs: CPU of every kind of command on a job with 10 interactions, beside `python -c pass` and other tools.

Run: python benchmarks/startup.py [--jobs 100] [--runs 30]

Children count too: `job diff` runs git several times.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import LOGIST, clean_environment, cpu_ms, table

READING, CHANGING, DOCTOR = 6.0, 10.0, 15.0
"""How many times the start of Python a command may take."""
ANSWER = json.dumps(
    {"action": "COMPLETED", "evidence_files": ["a.txt"], "summary_for_supervisor": "The file is there."}
)
SMALL = "small"
"""A project with only the real job, for commands that read more of each job: `doctor` of all, `inbox --json` of those
that wait for approval."""
PEERS = ("git", "doit", "pre-commit", "dvc", "llm")
"""Other tools for the command line, if they are installed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_jobs(place, options.jobs)
        base = cpu_ms([sys.executable, "-c", "pass"], place, options.runs)
        rows: list[list[object]] = [["command", "CPU ms", "times python", "at most", ""]]
        for name, argv in beside():
            took = cpu_ms(argv, place, options.runs)
            rows.append([name, took, took / base, "", ""])
        for name, argv, limit in commands():
            where = place / SMALL if argv[-1] == "doctor" or "inbox" in argv else place
            took = cpu_ms(argv, where, options.runs if limit == READING else max(3, options.runs // 3))
            rows.append([name, took, took / base, f"{limit:g}", "yes" if took / base <= limit else "NO"])
        for number in range(max(3, options.runs // 3)):
            for name, argv in changes(number):
                took = cpu_ms(argv, place, 1)
                known = next((row for row in rows if row[0] == name), None)
                if known is None:
                    known = [name, took, 0.0, f"{CHANGING:g}", ""]
                    rows.append(known)
                known[1] = min(took, float(str(known[1])))
                known[2] = float(str(known[1])) / base
                known[4] = "yes" if float(str(known[2])) <= CHANGING else "NO"
        table(rows)


def beside() -> Iterator[tuple[str, list[str]]]:
    """What is measured for comparison, by name."""
    yield "python -c pass", [sys.executable, "-c", "pass"]
    yield "click alone", [sys.executable, "-c", "import click"]
    for name in PEERS:
        if program := shutil.which(name):
            yield f"{name} --version", [program, "--version"]


def commands() -> Iterator[tuple[str, list[str], float]]:
    """The commands that change nothing, each with its limit."""
    reading = (
        *("--version", "--help", "completion bash", "job list", "inbox --json", "config show", "role list"),
        *("job status job-0", "job show job-0", "job history job-0", "job verify job-0"),
        "job diff job-0 --stat",
    )
    for words in reading:
        yield f"logist {words}", [*LOGIST, *words.split()], READING
    for words in ("job preview job-0", "job replay job-0"):
        yield f"logist {words}", [*LOGIST, *words.split()], CHANGING
    yield "logist doctor", [*LOGIST, "doctor"], DOCTOR


def changes(number: int) -> Iterator[tuple[str, list[str]]]:
    """The commands that change a job; each is measured once a round, on a new job."""
    job = f"new-{number}"
    create = ["job", "create", "--id", job, "--prompt", "A task", "--no-repo"]
    yield "logist job create --no-repo", [*LOGIST, *create]
    yield "logist inbox note", [*LOGIST, "inbox", "note", job, "Look at the file"]
    for _ in ("doer", "reviewer"):
        yield "logist job poststep", [*LOGIST, "job", "poststep", job, "--response-string", ANSWER]
    yield "logist job approve", [*LOGIST, "job", "approve", job]


def make_jobs(place: Path, count: int) -> None:
    """A project with one real job, and copies of its state and history under other ids."""
    for folder in (place, place / SMALL):
        folder.mkdir(exist_ok=True)
        make_job(folder)
    jobs = place / ".logist" / "jobs"
    copied = {name: (jobs / "job-0" / name).read_bytes() for name in ("state.json", "jobHistory.json")}
    interactions = len(json.loads(copied["jobHistory.json"])["interactions"])
    if interactions != 10:
        raise SystemExit(f"the job has {interactions} interactions, expected 10")
    for number in range(1, count):
        folder = jobs / f"job-{number}"
        folder.mkdir()
        for name, data in copied.items():
            (folder / name).write_bytes(data)


def make_job(place: Path) -> None:
    """A project with a job that waits for approval after 10 interactions."""
    run(place, "init")
    run(place, "job", "create", "--id", "job-0", "--prompt", "A task", "--no-repo")
    workspace = place / ".logist" / "jobs" / "job-0" / "workspace"
    for number in range(9):
        (workspace / "a.txt").write_text(f"{number}\n", "utf-8")
        if number in (2, 4):  # doer and reviewer
            run(place, "job", "poststep", "job-0", "--response-string", ANSWER)
        else:
            run(place, "inbox", "note", "job-0", "Go on")


def run(place: Path, *words: str) -> None:
    environment = clean_environment(place)
    done = subprocess.run([*LOGIST, *words], cwd=place, env=environment, check=False, capture_output=True)
    if done.returncode not in (0, 11):  # 11: the job waits for approval
        raise SystemExit(done.stderr.decode())


if __name__ == "__main__":
    main()
