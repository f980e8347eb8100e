"""How much work `logist run --on dask:N` gets done beside `--parallel N`, for agent programs that use CPU.

Each job is one agent program that uses some seconds of CPU: no repository, no review, no model. The ideal is that N programs
always work. A run of one job before shows what starting costs. Needs N idle cores, and nothing else at work on the machine.

Run: python benchmarks/cluster.py [--jobs 20] [--parallel 2] [--seconds 3] [--place DIRECTORY]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import LOGIST, clean_environment, table

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = """
import json, time
while time.process_time() < {seconds}:
    pass
print(json.dumps({{"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."}}))
"""


@contextmanager
def make_project(place: Path | None, jobs: int, seconds: float) -> Iterator[Path]:
    """A project with jobs that wait for the program."""
    with tempfile.TemporaryDirectory(prefix="logist-cluster-", dir=place) as name:
        folder = Path(name)
        program = folder / "burn.py"
        program.write_text(PROGRAM.format(seconds=seconds), "utf-8")
        run(folder, "init")
        described = {"argv": [sys.executable, str(program), "{endpoint}"], "output": "text", "metered": False}
        config = {
            "agents": {"burn": described},
            "models": {
                "any": {"provider_model": "openai/any", "endpoint": "http://127.0.0.1:9/v1", "price": "free"}
            },
            "model": "any",
            "sandbox": {"mode": "off"},
            "review": {"enabled": False},
        }
        (folder / ".logist" / "config.yaml").write_text(json.dumps(config), "utf-8")
        run(folder, "trust", "--yes")
        for number in range(jobs):
            run(
                folder,
                "job",
                "create",
                "--id",
                f"job-{number}",
                "--no-repo",
                "--approval",
                "none",
                "--prompt",
                "Use CPU.",
            )
        yield folder


def run(folder: Path, *arguments: str) -> None:
    """Run a command of Logist, which has to succeed."""
    environment = clean_environment(folder) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*LOGIST, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"logist {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")


def measure_run(place: Path | None, jobs: int, seconds: float, *options: str) -> float:
    """Run all jobs of a new project. Returns the seconds that it took."""
    with make_project(place, jobs, seconds) as folder:
        began = time.perf_counter()
        run(folder, "run", "--agent", "burn", *options)
        return time.perf_counter() - began


def main() -> None:
    """Measure both ways and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--place", type=Path)
    asked = parser.parse_args()
    ways = {
        f"--parallel {asked.parallel}": ("--parallel", str(asked.parallel)),
        f"--on dask:{asked.parallel}": ("--on", f"dask:{asked.parallel}"),
    }
    rows: list[tuple[object, ...]] = [("run", "one job, s", "all jobs, s", "jobs/s", "share of the ideal")]
    ideal = asked.jobs * asked.seconds / asked.parallel
    for name, options in ways.items():
        one = measure_run(asked.place, 1, asked.seconds, *options)
        wall = measure_run(asked.place, asked.jobs, asked.seconds, *options)
        rows.append((name, one, wall, asked.jobs / wall, ideal / wall))
    table(rows)


if __name__ == "__main__":
    main()
