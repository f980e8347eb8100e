"""What `job list` costs over many jobs, beside just reading their state files in Python.

Run: python benchmarks/listing.py [--jobs 10000 100000] [--runs 3]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from measure import LOGIST, cpu_ms, table
from startup import make_jobs

READ = """
import json, os, sys
for name in os.listdir(sys.argv[1]):
    with open(os.path.join(sys.argv[1], name, "state.json"), "rb") as file:
        json.loads(file.read())
"""
LIMIT = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    rows: list[list[object]] = [
        ["jobs", "reading ms", "job list ms", "times", "ms a job", f"at most {LIMIT:g}"]
    ]
    for count in options.jobs:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            make_jobs(place, count)
            jobs = str(place / ".logist" / "jobs")
            read = cpu_ms([sys.executable, "-c", READ, jobs], place, options.runs)
            listed = cpu_ms([*LOGIST, "job", "list"], place, options.runs)
            judged = "yes" if listed / read <= LIMIT else "NO"
            rows.append([str(count), read, listed, listed / read, listed / count, judged])
    table(rows)


if __name__ == "__main__":
    main()
