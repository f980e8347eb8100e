"""What a new job costs, from repositories of several sizes, beside what git and cp need for the same files: CPU, disk and
memory. Then a fork of it, and the child jobs of a foreach. A job is measured three times: the first job from a repository,
one from the same commit as the job before, and one from the next commit.

Run: python benchmarks/creating.py [--files 1000 20000 50000] [--runs 3] [--items 20] [--folder DIR] [--free]

CPU counts user and system time of all processes; the least of several runs, which alternate. Disk counts files that are
not in the repository too. `--free` counts the free space of the file system instead, which sees blocks that files share;
then nothing else may write to it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fanout import WORKFLOW, gave
from measure import clean_environment, table

MOST_TIMES = 1.5
"""How many times the CPU of `git worktree add` a job may cost at 50,000 files."""
MOST_OWN_MS = 30
"""CPU of Logist itself for each child job, without that of git."""
OWN_LOGIST = """
import atexit, os, sys
from logist.__main__ import main
def report():
    times = os.times()
    print("own", times.user + times.system, file=sys.stderr, flush=True)
atexit.register(report)  # main() doesn't return
sys.argv[0] = "logist"
main()
"""


class Cost(NamedTuple):
    """Seconds of CPU, of these the ones of Logist's own process, and the peak memory of one process in MB."""

    cpu: float
    own: float
    memory: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 20_000, 50_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument(
        "--folder", type=Path, help="where to write; the file system decides what is measured"
    )
    parser.add_argument("--free", action="store_true")
    options = parser.parse_args()
    for files in options.files:
        rows: list[list[object]] = [
            ["files", "", "CPU s", "of it Logist s", "times worktree", "disk MB", "memory MB"]
        ]
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            place = Path(folder)
            write_repository(place / "repo", files)
            rows += compare(place, files, options.runs, options.free)
            table(rows)  # at once: a run on a slow disk takes half an hour
            print(flush=True)
    rows = [["files", "items", "CPU s", "own ms a child", f"at most {MOST_OWN_MS}", "disk MB a child"]]
    for files in options.files[:1]:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            rows.append(spawn(Path(folder), files, options.items, options.free))
    table(rows)


def write_repository(repo: Path, files: int) -> None:
    """Create a git repository with so many files of 2.8 KB on average, and its work tree."""
    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz_"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 10))) for _ in range(3000)]
    git(repo.parent, "init", "--quiet", "--initial-branch=main", str(repo))
    with subprocess.Popen(
        ["git", "fast-import", "--quiet"], cwd=repo, env=clean_environment(repo), stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"commit refs/heads/main\ncommitter A <a@localhost> 0 +0000\ndata 1\nx\n")
        for number in range(files):
            text = " ".join(chance.choices(words, k=chance.randint(30, 700))).encode()
            path = f"src/m{number // 1000:02}/p{number // 25 % 40:02}/file{number:05}.py"
            process.stdin.write(f"M 100644 inline {path}\ndata {len(text)}\n".encode() + text + b"\n")
    git(repo, "reset", "--quiet", "--hard")
    # As in a repository in which somebody works: git reads files that are as new as its index again each time, until
    # its index is a second newer.
    time.sleep(1.1)
    git(repo, "status", "--short")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "exclude").write_text(".logist/\n")
    logist(repo, "init")


def compare(place: Path, files: int, runs: int, free: bool) -> list[list[object]]:
    """The rows of one repository."""
    repo, new = place / "repo", place / "new"
    home = clean_environment(place)
    create = ["job", "create", "--id", "new", "--prompt", "Do it."]
    contenders: dict[str, list[str]] = {
        "git worktree add": ["git", "worktree", "add", "--quiet", "--detach", str(new)],
        "git clone --local": ["git", "clone", "--quiet", "--local", str(repo), str(new)],
        "cp -al": ["cp", "-al", str(repo), str(new)],
        "logist job create": create,
        "  the first job": create,
        "  after a commit": create,
        "  without a repository": [*create, "--no-repo"],
        "logist job fork": ["job", "fork", "--job", "origin", "--id", "new"],
    }
    preparations: dict[str, Callable[[Path], None]] = {
        "  the first job": forget_packs,
        "  after a commit": commit_change,
    }
    logist(repo, "job", "create", "--id", "origin", "--prompt", "Do it.")
    costs: dict[str, list[Cost]] = {name: [] for name in contenders}
    disk: dict[str, float] = {}
    for _ in range(runs):
        for name, words in contenders.items():
            job = repo / ".logist" / "jobs" / "new"
            if name in preparations:
                preparations[name](repo)
            # `cp -al` has changed the time of the last change of every file, so git would read all of them each time.
            git(repo, "status", "--short")
            known, before = list_inodes(place), measure_free(place) if free else 0
            is_ours = name.startswith(("logist", " "))
            costs[name].append(logist(repo, *words) if is_ours else run(words, repo, home))
            target = job if is_ours else new
            used = before - measure_free(place) if free else measure_new(target, known)
            disk[name] = used / 1e6
            shutil.rmtree(target)
            git(repo, "worktree", "prune")
    least = {name: min(each) for name, each in costs.items()}
    return [
        [
            str(files),
            name,
            cost.cpu,
            cost.own,
            cost.cpu / least["git worktree add"].cpu,
            disk[name],
            max(each.memory for each in costs[name]),
        ]
        for name, cost in least.items()
    ]


def forget_packs(repo: Path) -> None:
    """Remove what the next job would share with the one before."""
    shutil.rmtree(repo / ".logist" / "jobs" / ".packs")


def commit_change(repo: Path) -> None:
    with open(repo / "src" / "m00" / "p00" / "file00000.py", "a") as file:
        file.write("changed\n")
    git(repo, "-c", "user.name=A", "-c", "user.email=a@localhost", "commit", "--quiet", "--all", "-m", "x")


def spawn(place: Path, files: int, items: int, free: bool) -> list[object]:
    """The row of a foreach: what its child jobs cost beyond the same with a single one."""
    repo = place / "repo"
    write_repository(repo, files)
    (repo / ".logist" / "workflow.json").write_text(json.dumps(WORKFLOW))
    costs = []
    for count in (1, items):
        answers = place / f"answers-{count}.json"
        parts = gave({"parts": list(range(1, count + 1))})
        answers.write_text(json.dumps({"steps": {"plan": [parts]}}))
        job = f"fan{count}"
        few = ("--no-review", "--approval", "none", "--max-allowed-iterations", str(10 * items))
        logist(repo, "job", "create", "--id", job, "--workflow", ".logist/workflow.json", *few)
        logist(repo, "job", "step", job, "--agent", f"scripted:{answers}")
        known, before = list_inodes(place), measure_free(place) if free else 0
        costs.append(logist(repo, "job", "step", job, "--agent", f"scripted:{answers}"))
        used = before - measure_free(place) if free else measure_new(place, known)
    one, all_of_them = costs
    own = (all_of_them.own - one.own) / (items - 1) * 1000
    verdict = "yes" if own <= MOST_OWN_MS else "NO"
    return [str(files), str(items), all_of_them.cpu - one.cpu, own, verdict, used / items / 1e6]


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=place, check=True, env=clean_environment(place))


def logist(place: Path, *words: str) -> Cost:
    return run([sys.executable, "-c", OWN_LOGIST, *words], place, clean_environment(place))


def run(argv: list[str], place: Path, environment: dict[str, str]) -> Cost:
    """Run a command that must succeed; the last line of its errors names its own CPU time, if it is Logist."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv,
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").splitlines()
    if process.returncode != 0:
        raise SystemExit(f"{argv} ended with {process.returncode}: {lines[-5:]}")
    own = next((float(line.split()[1]) for line in lines[-1:] if line.startswith("own ")), None)
    if own is None and OWN_LOGIST in argv:
        raise SystemExit(f"{argv} didn't report its own CPU time")
    return Cost(usage.ru_utime + usage.ru_stime, own or 0.0, usage.ru_maxrss / 1024)


def list_inodes(place: Path) -> set[int]:
    return {entry.lstat().st_ino for entry in place.rglob("*")}


def measure_new(place: Path, known: set[int]) -> int:
    """Bytes on the disk of the files and directories that are not known yet."""
    new = {status.st_ino: status.st_blocks for status in (entry.lstat() for entry in place.rglob("*"))}
    return sum(blocks * 512 for inode, blocks in new.items() if inode not in known)


def measure_free(place: Path) -> int:
    os.sync()
    status = os.statvfs(place)
    return status.f_bavail * status.f_bsize


if __name__ == "__main__":
    main()
