"""What gathering the context of a prompt costs on a large repository: CPU of Logist and its children.

Run: python benchmarks/context.py [--files 1000 20000 50000] [--runs 3] [--git] [--command] [--real DIR]

The first preview makes the word index. Before each further one, a file is edited, and the index is used. --real copies
files from DIR (such as checkouts of several repositories) until there are enough, instead of making them up.

These figures are without the start of Python and Logist. --command also measures `logist job preview` in processes of
their own: on these files after an edit, and, as the time to start, on a repository with one file.

How good the list of files is, on past bug fixes of public repositories (see context_fixes.py):

    python benchmarks/context.py --repos DIR [--misses] [--reports]

What a budget for their texts shows of the right files, and what it costs:

    python benchmarks/context.py --repos DIR --budgets [5000 20000 ...] [--limits 5 10]

DIR has clones with their history, bare or not, named OWNER+NAME or OWNER+NAME.git. They are only read.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from measure import LOGIST, measure_child, table, took

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import context_fixes

from logist.config.settings import ContextRules
from logist.core.relevance import Task
from logist.workspace import Workspace

BUDGETS = (5_000, 10_000, 15_000, 20_000, 30_000, 50_000)
TRACKED = "tracked.txt"
EDITED = "edited.py"

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


ROLE = """\
name: reader
description: Reads
instructions: Read.
llm_model: anthropic/claude-sonnet-4-5
context_requirements: [repo_structure, relevant_files]
"""


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
    (root / "build" / TRACKED).write_text("Matched by .gitignore\n")
    return total


def _text(chance: random.Random, size: int) -> bytes:
    lines: list[str] = []
    while size > 0:
        words = [chance.choice(WORDS) for _ in range(6)]
        lines.append("    def {}_{}(self, {}): return self.{}.{}({})\n".format(*words))
        size -= len(lines[-1])
    return "".join(lines).encode()


def copy_repository(source: Path, root: Path, count: int) -> int:
    """Copy real files, as often as needed, each copy with another content; return how many bytes."""
    files = sorted(path for path in source.rglob("*") if path.is_file() and not path.is_symlink())
    total = 0
    for number in range(count):
        copy, file = number // len(files), files[number % len(files)]
        data = file.read_bytes()
        if copy and b"\0" not in data:
            data = b"# copy %d\n%b" % (copy, data)
        place = root / f"copy{copy}" / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        total += len(data)
    return total


def commit_files(source: Path) -> None:
    """Commit these files, and one to be edited."""
    (source / EDITED).write_text("# session\n")
    git = ["git", "-C", source]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "-c", "core.autocrlf=false", "add", "--force", "."], check=True)
    identity = ["-c", "user.name=L", "-c", "user.email=l@localhost"]
    subprocess.run([*git, *identity, "commit", "-q", "-m", "x"], check=True)


def prepare_job(root: Path, source: Path) -> None:
    """Make the workspace of a new job from these files, and a file that git ignores."""
    commit_files(source)
    (root / "first").write_text(open_workspace(root).populate(source))
    (root / "workspace" / "build").mkdir(exist_ok=True)
    (root / "workspace" / "build" / "made.txt").write_text("Matched by .gitignore\n")


def open_workspace(root: Path) -> Workspace:
    return Workspace(root / "workspace", root / "git", words=root / "words")


def gather(root: Path) -> None:
    """What a step does for a role that wants the structure and the relevant files, with the default settings."""
    rules = ContextRules()
    workspace = open_workspace(root)
    survey = workspace.survey_files(rules.excluded_paths, (root / "first").read_text())
    workspace.describe_structure(survey)
    workspace.describe_unsearched(survey)
    found = workspace.find_relevant(
        survey,
        TASK,
        limit=rules.relevant_files_limit,
        max_file_bytes=rules.max_file_bytes,
        max_total_bytes=rules.max_total_bytes,
        redact=str,
    )
    assert len(found) == rules.relevant_files_limit


def gather_first(root: Path) -> None:
    shutil.rmtree(root / "words", ignore_errors=True)
    gather(root)


def gather_after_edit(root: Path) -> None:
    with open(root / "workspace" / EDITED, "a") as file:
        file.write("# session\n")
    gather(root)


def measure_command(source: Path, runs: int) -> float:
    """Return the CPU seconds of `logist job preview` after an edit, in a new process."""
    task = TASK.title + ": " + TASK.prompt
    subprocess.run([*LOGIST, "init"], cwd=source, check=True, capture_output=True)
    (source / ".logist" / "roles" / "reader.yaml").write_text(ROLE)
    create = [*LOGIST, "job", "create", "--role", "reader", "--prompt", task]
    subprocess.run(create, cwd=source, check=True, capture_output=True)
    (job,) = (path.name for path in (source / ".logist" / "jobs").iterdir() if not path.name.startswith("."))
    preview = [*LOGIST, "job", "preview", job]
    measure_child(preview, source, 1)  # makes the index
    spent = []
    for _ in range(runs):
        with open(source / ".logist" / "jobs" / job / "workspace" / EDITED, "a") as file:
            file.write("# session\n")
        spent.append(measure_child(preview, source, 1)[0] / 1000)
    return min(spent)


def measure_folder(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0


def ask_git(source: Path, *arguments: str) -> None:
    """The same questions to git, for comparison: not how Logist does it."""
    subprocess.run(["git", "-C", source, *arguments], stdout=subprocess.DEVNULL, check=False)


def measure_start(runs: int) -> float:
    """Return what `measure_command` does for a repository with one file."""
    with tempfile.TemporaryDirectory() as folder:
        commit_files(Path(folder))
        return measure_command(Path(folder), runs)


def measure(count: int, runs: int, real: Path | None, *, with_git: bool, command: bool) -> list[object]:
    """Return a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        source = root / "source"
        source.mkdir()
        size = copy_repository(real, source, count) if real else make_repository(source, count)
        prepare_job(root, source)
        first = (root / "first").read_text()
        walked = took(runs, partial(open_workspace(root).survey_files, ("node_modules", "dist"), first))
        gathered = [took(runs, partial(each, root)) for each in (gather_first, gather_after_edit)]
        row = [str(count), size / 1e6, walked, *gathered, measure_folder(root / "words") / 1e6]
        if with_git:
            row.append(took(1, partial(ask_git, source, "ls-files", "-o", "--exclude-standard")))
            row.append(took(1, partial(ask_git, source, "grep", "-ciF", *FIVE)))
        if command:
            row += [measure_command(source, runs), measure_start(runs)]
        return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 20_000, 50_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--real", type=Path, metavar="DIR", help="copy files from DIR, instead of making them up"
    )
    parser.add_argument("--command", action="store_true", help="measure `logist job preview`, too")
    parser.add_argument("--git", action="store_true", help="ask git as well")
    parser.add_argument("--repos", type=Path, metavar="DIR", help="evaluate the list on the clones in DIR")
    parser.add_argument(
        "--misses", action="store_true", help="with --repos: print the fixes without a right file"
    )
    parser.add_argument(
        "--tuning",
        action="store_true",
        help="with --repos: the list by Logist for the 300 fixes that its weights are chosen with",
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
        if options.tuning:
            fixes = context_fixes.load_fixes(context_fixes.TUNING)
            context_fixes.evaluate(options.repos, fixes, ["logist"], misses=options.misses)
            return
        fixes = context_fixes.load_reports() if options.reports else context_fixes.load_fixes()
        if options.budgets is not None:
            context_fixes.compare_budgets(options.repos, fixes, options.limits, options.budgets or BUDGETS)
            return
        context_fixes.evaluate(options.repos, fixes, [*context_fixes.LISTERS], misses=options.misses)
        return
    head = ["files", "MB", "walk s", "first s", "after an edit s", "index MB"]
    head += ["git ls-files s", "git grep s"] if options.git else []
    head += ["job preview s", "of it the start s"] if options.command else []
    rows: list[list[object]] = [[*head]]
    rows += [
        measure(count, options.runs, options.real, with_git=options.git, command=options.command)
        for count in options.files
    ]
    table(rows)


if __name__ == "__main__":
    main()
