"""What gathering the context of a prompt costs on a large repository: CPU of Logist and its children.

Run: python benchmarks/context.py [--files 1000 10000 50000] [--runs 3] [--git]

How good the list of files is, on past bug fixes of public repositories (see context_fixes.py):

    python benchmarks/context.py --repos DIR [--misses] [--reports]

What a budget for their texts shows of the right files, and what it costs:

    python benchmarks/context.py --repos DIR --budgets [5000 20000 ...] [--limits 5 10]

DIR has clones with their history, bare or not, named OWNER+NAME or OWNER+NAME.git. They are only read.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from measure import table, took

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import context_fixes

from logist.config.settings import ContextRules
from logist.core.relevance import Task
from logist.workspace import Workspace

LIMIT = 2.0
BUDGETS = (5_000, 10_000, 15_000, 20_000, 30_000, 50_000)
TRACKED = "tracked.txt"

FIVE = ("-e", "payment", "-e", "retr", "-e", "sess", "-e", "invoic", "-e", "charg")
"""Half of what Logist looks for, for git grep."""

_VOCABULARY = """\
user order invoice payment session token cache parser limit rate client server config router handler queue worker index
search query report export import audit login password email template render layout widget button table column filter
sort page cursor stream buffer socket thread lock retry backoff schema model field form input output event signal hook
plugin module loader build release version metric trace span logger level format"""
WORDS = _VOCABULARY.split()
ENDINGS = (*["py"] * 5, *["ts"] * 3, *["go"] * 3, "md", "json", "yaml", "css", "html", "png")
IGNORED = (
    "node_modules/\n*.log\n/build\n*.py[co]\n__pycache__/\n.env\ndist/\n*.egg-info/\n.cache\ncoverage*\n"
)

TASK = Task(
    "Payments are charged twice when the retry of a session times out",
    "`InvoiceQueue` retries with backoff; rate_limiter has to honour the token of the session cache. See README.md.",
    criteria=("Exports keep their audit log", "All tests pass"),
)
"""Words that are in most of the files, and some names: the worst that is ordinary."""


def make_repository(root: Path, count: int) -> int:
    """Files of ordinary sizes in nested directories, the same each time; how many bytes."""
    chance = random.Random(7)
    made = total = folders = 0
    while made < count:
        above = chance.choice(["src", "lib", "packages", "tests", "services"])
        folder = root.joinpath(
            above, chance.choice(WORDS), chance.choice(WORDS), f"{chance.choice(WORDS)}{folders}"
        )
        folder.mkdir(parents=True, exist_ok=True)
        folders += 1
        for number in range(min(chance.randint(3, 12), count - made)):
            data = _text(chance, int(chance.lognormvariate(8.0, 0.9)))
            name = f"{chance.choice(WORDS)}_{chance.choice(WORDS)}{number}.{chance.choice(ENDINGS)}"
            (folder / name).write_bytes(data)
            made, total = made + 1, total + len(data)
    (root / ".gitignore").write_text(IGNORED)
    (root / "README.md").write_text("# Large\n")
    (root / "build").mkdir()
    for name in ("made.txt", TRACKED):
        (root / "build" / name).write_text("Matched by .gitignore\n")
    return total


def first_checkpoint(root: Path) -> str:
    """The job's repository with a commit of the names of all files but one, so that git has to be asked of both."""
    repository = root.parent / "git"
    subprocess.run(["git", "init", "-q", "--bare", repository], check=True)
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    told = [f"M 100644 :1 {path}" for path in paths if path != "build/made.txt"]
    start = (
        "blob\nmark :1\ndata 1\n.\ncommit refs/heads/checkpoints\ncommitter L <l@localhost> 0 +0000\ndata 0\n"
    )
    orders = "\n".join([start, *told, ""]).encode()
    named = ["git", f"--git-dir={repository}"]
    subprocess.run([*named, "fast-import", "--quiet"], input=orders, check=True)
    return subprocess.check_output([*named, "rev-parse", "refs/heads/checkpoints"], text=True).strip()


def _text(chance: random.Random, size: int) -> bytes:
    lines: list[str] = []
    while size > 0:
        words = [chance.choice(WORDS) for _ in range(6)]
        lines.append("    def {}_{}(self, {}): return self.{}.{}({})\n".format(*words))
        size -= len(lines[-1])
    return "".join(lines).encode()


def gather(root: Path, first: str) -> None:
    """What a step does for a role that wants the structure and the relevant files, with the default settings."""
    rules = ContextRules()
    workspace = Workspace(root, root.parent / "git")
    survey = workspace.survey_files(rules.excluded_paths, first)
    workspace.describe_structure(survey)
    found = workspace.find_relevant(
        survey,
        TASK,
        limit=rules.relevant_files_limit,
        max_file_bytes=rules.max_file_bytes,
        max_total_bytes=rules.max_total_bytes,
        redact=str,
    )
    assert len(found) == rules.relevant_files_limit
    assert f"build/{TRACKED}" in survey.files


def git(root: Path, *arguments: str) -> None:
    """The same questions to git, for comparison: not how Logist does it."""
    named = [f"--git-dir={root.parent / 'plain'}", f"--work-tree={root}"]
    subprocess.run(["git", *named, *arguments], stdout=subprocess.DEVNULL, check=False, cwd=root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 10_000, 50_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--git", action="store_true", help="ask git as well")
    parser.add_argument("--repos", type=Path, metavar="DIR", help="evaluate the list on the clones in DIR")
    parser.add_argument(
        "--misses", action="store_true", help="with --repos: print the fixes without a right file"
    )
    parser.add_argument(
        "--reports",
        action="store_true",
        help="with --repos: 20 bug reports as the tasks, instead of subjects of commits",
    )
    parser.add_argument(
        "--budgets",
        type=int,
        nargs="*",
        metavar="TOKENS",
        help="with --repos: compare these values of context.relevant_files_tokens",
    )
    parser.add_argument(
        "--limits",
        type=int,
        nargs="+",
        default=[context_fixes.FILES],
        metavar="N",
        help="with --budgets: compare these values of context.relevant_files_limit, too",
    )
    options = parser.parse_args()
    if options.repos:
        fixes = context_fixes.load_reports() if options.reports else context_fixes.load_fixes()
        if options.budgets is not None:
            context_fixes.compare_budgets(options.repos, fixes, options.limits, options.budgets or BUDGETS)
            return
        context_fixes.evaluate(options.repos, fixes, [*context_fixes.LISTERS], misses=options.misses)
        return
    head = ["files", "MB", "walk s", "structure and files s", f"at most {LIMIT:g}"]
    rows: list[list[object]] = [[*head, *(["git ls-files s", "git grep s"] if options.git else [])]]
    for count in options.files:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "workspace"
            root.mkdir()
            size = make_repository(root, count) / 1e6
            first = first_checkpoint(root)
            workspace = Workspace(root, root.parent / "git")
            walked = took(options.runs, partial(workspace.survey_files, ("node_modules", "dist"), first))
            gathered = took(options.runs, partial(gather, root, first))
            judged = "yes" if gathered <= LIMIT else "NO"
            row: list[object] = [str(count), size, walked, gathered, judged]
            if options.git:
                git(root, "init", "-q")
                row.append(took(1, lambda root=root: git(root, "ls-files", "-o", "--exclude-standard")))
                row.append(took(1, lambda root=root: git(root, "grep", "--untracked", "-ciF", *FIVE)))
            rows.append(row)
    table(rows)


if __name__ == "__main__":
    main()
