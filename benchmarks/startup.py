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


def make_jobs(place: Path, count: int) -> None:
    """A project with one real job, and copies of its state and history under other ids."""
    environment = clean_environment(place)
    for words in (["init"], ["job", "create", "--id", "job-0", "--prompt", "A task", "--no-repo"]):
        subprocess.run([*LOGIST, *words], cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)
    jobs = place / ".logist" / "jobs"
    copied = {name: (jobs / "job-0" / name).read_bytes() for name in ("state.json", "jobHistory.json")}
    for number in range(1, count):
        folder = jobs / f"job-{number}"
        folder.mkdir()
        for name, data in copied.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
