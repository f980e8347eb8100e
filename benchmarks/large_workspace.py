"""What a step costs in a large workspace: with nothing changed, with a file that a person changed before it, and with
one that the agent writes; beside `git status` on the same tree.

Run: python benchmarks/large_workspace.py [--files 0 100 1000 20000 50000] [--runs 7] [--profile]

CPU time of this process and its children. The four are measured in turn, and the least of each counts. A step scans
the workspace before the agent, and again after an agent that could change files.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from measure import clean_environment, cpu, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.jobs.bench import Bench, answer, command

LIMIT = 2.0
"""A step with nothing changed takes at most this many times `git status` in a large workspace."""
LARGE = 20_000
"""From this number of files on, the work for each file is nearly all of a step."""
IN_ONE = 25
"""Files in one directory."""


def write_files(root: Path, count: int) -> None:
    """Write a tree like that of a large project: three levels of directories, sizes from 0 to 4 kB."""
    for number in range(count):
        group = number // IN_ONE
        folder = root / f"package_{group // 400}" / f"part_{group // 20 % 20:02}" / f"module_{group % 20:02}"
        if number % IN_ONE == 0:
            folder.mkdir(parents=True)
        (folder / f"source_file_{number}.py").write_bytes(b"%d\n" % number * (number % 700))


def prepare_job(place: Path, count: int, runs: int) -> Bench:
    """Return a job with so many files in its workspace, and answers for `measure`: only every third writes a file."""
    again = command("RETRY", summary="Again.")
    answers = [answer(again), answer(again)]
    for number in range(runs):
        answers += [answer(again), answer(again), answer(again, files={"by_agent.txt": f"{number}\n"})]
    bench = Bench(place, [*answers, answer(again), answer(again)])
    bench.create(limits={"max_attempts": 10**9, "max_allowed_iterations": 10**9})
    write_files(bench.folder() / "workspace", count)
    for _ in range(2):
        bench.step()
    return bench


def prepare_git(root: Path, git_dir: Path) -> list[str]:
    """Make a repository with the same tree, whose index is fresh; return the command `git status` for it."""
    git = ["git", f"--git-dir={git_dir}", f"--work-tree={root}"]
    for arguments in (["init", "--quiet"], ["add", "--all"], ["status", "--porcelain"]):
        run([*git, *arguments], git_dir.parent)
    return [*git, "status", "--porcelain"]


def run(argv: list[str], home: Path) -> None:
    subprocess.run(argv, cwd=home, env=clean_environment(home), check=True, stdout=subprocess.DEVNULL)


def took(work: Callable[[], object]) -> float:
    """CPU milliseconds."""
    began = cpu()
    work()
    return (cpu() - began) * 1000


def measure(count: int, runs: int, *, profile: bool) -> list[object]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bench = prepare_job(place / "project", count, runs)
        root = bench.folder() / "workspace"
        (place / "home").mkdir()
        status = prepare_git(root, place / "home" / "git")
        spent: list[tuple[float, ...]] = []
        for number in range(runs):
            beside = took(lambda: run(status, place / "home"))
            same = took(bench.step)
            (root / "changed.txt").write_text(f"{number}\n")
            by_person = took(bench.step)
            spent.append((beside, same, by_person, took(bench.step)))
        if profile:
            profiler = cProfile.Profile()
            profiler.runcall(bench.step)
            pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
        beside, same, *others = (min(column) for column in zip(*spent, strict=True))
    judged = "-" if count < LARGE else "yes" if same <= LIMIT * beside else "NO"
    return [str(count), beside, same, same / beside, *others, judged]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[0, 100, 1000, 20_000, 50_000])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument(
        "--profile", action="store_true", help="also print where a step with nothing changed spends it"
    )
    options = parser.parse_args()
    head = [
        "files",
        "git status ms",
        "nothing changed ms",
        "times",
        "changed by a person ms",
        "by the agent ms",
    ]
    rows: list[list[object]] = [[*head, f"at most {LIMIT:g} times"]]
    rows += [measure(count, options.runs, profile=options.profile) for count in options.files]
    table(rows)


if __name__ == "__main__":
    main()
