"""What starting costs: CPU of the quick commands, beside `python -c pass` and click alone.

Run: python benchmarks/startup.py [--jobs 100] [--runs 30]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import LOGIST, clean_environment, cpu_ms, table

LIMIT = 6.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_jobs(place, options.jobs)
        base = cpu_ms([sys.executable, "-c", "pass"], place, options.runs)
        rows: list[list[object]] = [["command", "CPU ms", "times python", f"at most {LIMIT:g}"]]
        for name, argv in commands().items():
            took = cpu_ms(argv, place, options.runs)
            judged = (
                "" if name in ("python -c pass", "click alone") else "yes" if took / base <= LIMIT else "NO"
            )
            rows.append([name, took, took / base, judged])
        table(rows)


def commands() -> dict[str, list[str]]:
    """What is measured, by name."""
    python = sys.executable
    return {
        "python -c pass": [python, "-c", "pass"],
        "click alone": [python, "-c", "import click"],
        "logist --version": [*LOGIST, "--version"],
        "logist --help": [*LOGIST, "--help"],
        "logist job list": [*LOGIST, "job", "list"],
        "logist job status": [*LOGIST, "job", "status", "job-0"],
        "logist completion bash": [*LOGIST, "completion", "bash"],
    }


def make_jobs(place: Path, count: int, ended: int = 0) -> None:
    """A project with real jobs, and copies of their states and histories under other ids; the first `ended` are canceled."""
    environment = clean_environment(place)

    def run(*words: str) -> None:
        subprocess.run([*LOGIST, *words], cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)

    run("init")
    jobs = place / ".logist" / "jobs"
    copied: dict[str, bytes] = {}
    for number in range(count):
        folder = jobs / f"job-{number}"
        if number in (0, ended):
            run("job", "create", "--id", folder.name, "--prompt", "A task", "--no-repo")
            if number < ended:
                run("job", "cancel", folder.name, "--yes")
            copied = {name: (folder / name).read_bytes() for name in ("state.json", "jobHistory.json")}
            continue
        folder.mkdir()
        for name, data in copied.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
