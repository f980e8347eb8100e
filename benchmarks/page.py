"""What the page of `logist serve` costs with many jobs: time of the server for each page, looks for changes, and memory.

Run: python benchmarks/page.py [--jobs 1000 10000] [--runs 7]

A project's jobs are copies of one state and history; one of ten waits for a person. The page may take 100 ms with 1,000
jobs, the list of 10,000 jobs a second, and the server 150 MB.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

from measure import LOGIST, clean_environment, table

MOST_MS = {1000: 100, 10_000: 1000}
MOST_MEGABYTES = 150
LINK = re.compile(rb"(http://127\.0\.0\.1:\d+)/enter\?key=(\S+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    rows = []
    for count in options.jobs:
        with tempfile.TemporaryDirectory() as folder:
            make_jobs(Path(folder), count)
            rows += measure_page(Path(folder), count, options.runs)
    table([("jobs", "what", "CPU ms", "wall ms", "limit"), *rows])


def make_jobs(place: Path, count: int) -> None:
    (place / ".logist" / "jobs").mkdir(parents=True)
    (place / "w.yaml").write_text("name: W\nsteps:\n- {id: look, execution: manual, prompt: Look.}\n")
    run(place, "job", "create", "--no-repo", "--id", "waits", "--workflow", "w.yaml")
    run(place, "job", "create", "--no-repo", "--id", "pending", "--prompt", "Do it.")
    jobs = place / ".logist" / "jobs"
    for number in range(count - 2):
        source = jobs / ("waits" if number % 10 == 0 else "pending")
        target = jobs / f"job-{number:06}"
        target.mkdir(mode=0o700)
        for name in ("state.json", "jobHistory.json", "job.yaml"):
            shutil.copyfile(source / name, target / name)


def run(place: Path, *words: str) -> None:
    subprocess.run(
        [*LOGIST, *words], cwd=place, env=clean_environment(place), check=True, capture_output=True
    )


def measure_page(place: Path, count: int, runs: int) -> list[tuple[str, ...]]:
    command = [*LOGIST, "serve", "--port", "0"]
    server = subprocess.Popen(
        command, cwd=place, env=clean_environment(place), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    try:
        assert server.stdout is not None
        found = next(filter(None, map(LINK.search, server.stdout)))
        time.sleep(2)  # a person takes longer to open the link
        address, key = found[1].decode(), found[2].decode()
        browser = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )
        body = urllib.parse.urlencode({"key": key}).encode()
        started = read_cpu(server.pid), time.perf_counter()
        request = urllib.request.Request(f"{address}/enter", body, {"Origin": address})
        with browser.open(request, timeout=300) as entered:  # leads to the inbox
            base = entered.geturl().rstrip("/")
            entered.read()
        rows = [format_row(count, "inbox, first time", started, server.pid, 1, "")]
        for what, path in (("inbox", "/"), ("list of jobs", "/jobs"), ("a job", "/jobs/waits")):
            times = []
            for _ in range(runs):
                time.sleep(0.4)  # so that the server looks for changes again
                started = read_cpu(server.pid), time.perf_counter()
                with browser.open(base + path, timeout=300) as answered:
                    answered.read()
                times.append((read_cpu(server.pid) - started[0], time.perf_counter() - started[1]))
            cpu, wall = (statistics.median(each) * 1000 for each in zip(*times, strict=True))
            rows.append((str(count), what, f"{cpu:.0f}", f"{wall:.0f}", str(MOST_MS.get(count, ""))))
        before = read_cpu(server.pid)
        with browser.open(f"{base}/events", timeout=300) as stream:
            stream.readline()
            time.sleep(5)
        share = (read_cpu(server.pid) - before) / 5
        rows.append((str(count), "an open page, CPU ms for each second", f"{share * 1000:.0f}", "", ""))
        rows.append((str(count), "memory, MB", f"{read_memory(server.pid):.0f}", "", str(MOST_MEGABYTES)))
        return rows
    finally:
        server.terminate()
        server.wait(60)


def format_row(
    count: int, what: str, started: tuple[float, float], pid: int, runs: int, limit: str
) -> tuple[str, ...]:
    cpu, wall = read_cpu(pid) - started[0], time.perf_counter() - started[1]
    return str(count), what, f"{cpu / runs * 1000:.0f}", f"{wall / runs * 1000:.0f}", limit


def read_cpu(pid: int) -> float:
    """Return the CPU seconds that a process has used, in all its threads."""
    return (
        sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    )


def read_memory(pid: int) -> float:
    """Return the most memory that a process has used, in MB."""
    (line,) = (
        each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
