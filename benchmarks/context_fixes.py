"""How good the list of relevant files is: past bug fixes of public repositories, ten files for each.

The subject of a fix is the task, the parent of its commit is the workspace, the source files it changed are the
right ones. benchmarks/context_fixes.json has the ids of the commits; texts and repositories of others are not here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import log
from pathlib import Path

from measure import table

from logist.config.settings import ContextRules
from logist.core.prompt.budget import BYTES_PER_TOKEN
from logist.core.prompt.shown_files import FileText, Relevant
from logist.core.relevance import Task
from logist.workspace import Workspace

FIXES = Path(__file__).with_name("context_fixes.json")
REPORTS = Path(__file__).with_name("context_reports.json")
"""For 20 of the fixes, a bug report in our words: the symptoms, without names of files and symbols."""
TUNING = Path(__file__).with_name("context_tuning.json")
"""150 fixes of each tuned repository, to choose weights with: 20 would be too few to tell a gain from chance."""
TUNED = ("fastify/fastify", "pallets/click")
"""The weights were chosen with fixes of these two; the others are held out."""
FILES = 10

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True)
class Fix:
    """A commit that fixed a bug, and the source files it changed."""

    repo: str
    commit: str
    parent: str
    files: tuple[str, ...]
    report: str | None = None
    """The task; None: the subject of the commit."""


@dataclass
class Scores:
    """For each fix: is any right file listed, recall, reciprocal rank of the first right file, precision."""

    rows: list[tuple[float, float, float, float]] = field(default_factory=list)

    def add(self, listed: Sequence[str], right: Sequence[str]) -> None:
        ranks = [rank for rank, path in enumerate(listed[:FILES], 1) if path in right]
        self.rows.append(
            (
                float(bool(ranks)),
                len(ranks) / len(right),
                1 / ranks[0] if ranks else 0.0,
                len(ranks) / max(1, len(listed[:FILES])),
            )
        )

    def average(self) -> list[float]:
        return [sum(column) / len(self.rows) for column in zip(*self.rows, strict=True)]


class Clone:
    """A repository of others, and a work tree that is moved from commit to commit."""

    def __init__(self, git_dir: Path, folder: Path) -> None:
        self.git_dir = git_dir
        self.root = folder / "workspace"
        self.root.mkdir()
        self._index = folder / "index"

    def git(self, *arguments: str, codes: Sequence[int] = (0,)) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_INDEX_FILE": str(self._index),
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        named = [
            "git",
            "-c",
            "safe.directory=*",
            "-c",
            "core.hooksPath=/dev/null",
            f"--git-dir={self.git_dir}",
            f"--work-tree={self.root}",
        ]
        done = subprocess.run(
            [*named, *arguments], capture_output=True, env=environment, cwd=self.root, check=False
        )
        if done.returncode not in codes:
            raise SystemExit(
                f"git {arguments[0]} in {self.git_dir}: {done.stderr.decode('utf-8', 'replace')}"
            )
        return done.stdout.decode("utf-8", "surrogateescape")

    def check_out(self, commit: str) -> None:
        self.git("read-tree", "--reset", "-u", commit)

    def read_subject(self, commit: str) -> str:
        return self.git("log", "-1", "--format=%s", commit).strip()


Lister = Callable[[Clone, Fix, str], list[str]]


def find_relevant(clone: Clone, fix: Fix, subject: str, limit: int, tokens: int) -> list[Relevant]:
    """Logist's own list, by the code that builds a prompt, with at most so many files and tokens of their texts."""
    rules = ContextRules()
    workspace = Workspace(clone.root, clone.git_dir)
    return workspace.find_relevant(
        workspace.survey_files(rules.excluded_paths, fix.parent),
        Task(subject),
        limit=limit,
        max_file_bytes=rules.max_file_bytes,
        max_total_bytes=tokens * BYTES_PER_TOKEN,
        redact=str,
        source=str(clone.git_dir),
        first=fix.parent,
    )


def list_relevant(clone: Clone, fix: Fix, subject: str) -> list[str]:
    return [
        one.file.path
        for one in find_relevant(clone, fix, subject, FILES, ContextRules().relevant_files_tokens)
    ]


def list_by_bm25(clone: Clone, fix: Fix, subject: str) -> list[str]:
    """25 lines of BM25 over names and texts, for comparison."""
    wanted = {word.lower() for word in _WORD.findall(subject)}
    counts: dict[str, Counter[str]] = {}
    lengths: dict[str, int] = {}
    for path in clone.git("ls-files", "-z").split("\0")[:-1]:
        file = clone.root / path
        if file.is_symlink() or not file.is_file() or file.stat().st_size > 2_000_000:
            continue
        data = file.read_bytes()
        if b"\0" not in data[:8_192]:
            words = [word.lower() for word in _WORD.findall(f"{path} {data.decode('utf-8', 'replace')}")]
            counts[path], lengths[path] = Counter(word for word in words if word in wanted), len(words)
    average = sum(lengths.values()) / len(lengths)
    spread = Counter(word for found in counts.values() for word in found)
    scores = {
        path: sum(
            log(1 + (len(counts) - spread[word] + 0.5) / (spread[word] + 0.5))
            * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * lengths[path] / average))
            for word, count in found.items()
        )
        for path, found in counts.items()
    }  # fmt: skip
    return sorted((path for path in scores if scores[path]), key=lambda path: (-scores[path], path))[:FILES]


def list_by_grep(clone: Clone, fix: Fix, subject: str) -> list[str]:
    """The files with most of the words, by git grep."""
    matches: Counter[str] = Counter()
    for word in sorted({word.lower() for word in _WORD.findall(subject) if len(word) > 2}):
        # With -- : the word could be the name of a revision.
        matches.update(clone.git("grep", "-lIiFz", "-e", word, "--", codes=(0, 1)).split("\0")[:-1])
    return sorted(matches, key=lambda path: (-matches[path], path))[:FILES]


LISTERS: dict[str, Lister] = {"logist": list_relevant, "bm25": list_by_bm25, "git grep": list_by_grep}


def find_git_directory(folder: Path, repo: str) -> Path | None:
    """Find a clone of OWNER/NAME: OWNER+NAME, OWNER+NAME.git, or a folder `repo` in it; bare or not."""
    base = folder / repo.replace("/", "+")
    places = (base / ".git", base / "repo", base.with_name(f"{base.name}.git"), base)
    return next((place for place in places if (place / "HEAD").is_file()), None)


def load_fixes(path: Path = FIXES) -> list[Fix]:
    return [
        Fix(one["repo"], one["commit"], one["parent"], tuple(one["files"]))
        for one in json.loads(path.read_text("utf-8"))
    ]


def load_reports(path: Path = REPORTS) -> list[Fix]:
    """Load the fixes with a bug report as their task."""
    reports = {one["commit"]: one["report"] for one in json.loads(path.read_text("utf-8"))}
    return [replace(fix, report=reports[fix.commit]) for fix in load_fixes() if fix.commit in reports]


def check_out_fixes(folder: Path, fixes: Sequence[Fix]) -> Iterator[tuple[Clone, Fix]]:
    """Yield each fix with a work tree of the commit before it; those of a repository that is not in the folder are left out."""
    for repo in dict.fromkeys(fix.repo for fix in fixes):
        git_dir = find_git_directory(folder, repo)
        if git_dir is None:
            print(f"{repo}: no clone in {folder}, left out")
            continue
        with tempfile.TemporaryDirectory() as temporary:
            clone = Clone(git_dir, Path(temporary))
            for fix in (fix for fix in fixes if fix.repo == repo):
                clone.check_out(fix.parent)
                yield clone, fix


def evaluate(folder: Path, fixes: Sequence[Fix], names: Sequence[str], *, misses: bool = False) -> None:
    """Print a table: each repository, then the tuned and the held-out ones together."""
    scores: dict[tuple[str, str], Scores] = defaultdict(Scores)
    for clone, fix in check_out_fixes(folder, fixes):
        subject = fix.report or clone.read_subject(fix.commit)
        for name in names:
            listed = LISTERS[name](clone, fix, subject)
            group = "tuned" if fix.repo in TUNED else "held out"
            for key in (fix.repo, f"{group}, together"):
                scores[key, name].add(listed, fix.files)
            if misses and not set(listed) & set(fix.files):
                print(f"{name} missed {fix.commit[:12]} {subject}: {fix.files[0]}; listed {listed[:3]}")
    rows: list[list[object]] = [["repository", "list", "any", "recall", "MRR", "precision"]]
    for (key, name), one in sorted(scores.items(), key=lambda item: item[0][0].endswith("together")):
        rows.append([key, name, *one.average()])
    table(rows)


_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+", re.MULTILINE)
_NUMBERED = re.compile(r"^ *(\d+)(?:  |$)", re.MULTILINE)
PRICE = 3.0
"""US dollars for a million tokens of input: a common price of a large model."""


@dataclass
class BudgetScores:
    """What a budget shows of the right files: for each fix, shares of its right files, and the tokens of all texts."""

    listed: list[float] = field(default_factory=list)
    shown: list[float] = field(default_factory=list)
    """Files of which the text has all lines that the fix changed."""
    touched: list[float] = field(default_factory=list)
    """Files of which the text has any of these lines."""
    tokens: list[float] = field(default_factory=list)

    def add(self, found: Sequence[Relevant], places: dict[str, list[set[int]]]) -> None:
        files = {one.file.path: one.file for one in found}
        right = [(files[path], hunks) for path, hunks in places.items() if path in files]
        lines = [(_list_shown_lines(file), hunks) for file, hunks in right]
        self.listed.append(len(right) / len(places))
        self.shown.append(
            sum(shown is None or all(hunk <= shown for hunk in hunks) for shown, hunks in lines) / len(places)
        )
        self.touched.append(
            sum(shown is None or any(hunk & shown for hunk in hunks) for shown, hunks in lines) / len(places)
        )
        self.tokens.append(sum(len((one.file.text or "").encode()) for one in found) / BYTES_PER_TOKEN)

    def average(self) -> list[object]:
        listed, shown, touched, tokens = (
            sum(column) / len(self.tokens) for column in (self.listed, self.shown, self.touched, self.tokens)
        )
        return [
            listed,
            shown,
            touched,
            f"{tokens:,.0f}",
            f"{max(self.tokens):,.0f}",
            f"${tokens * PRICE / 1e6:.3f}",
        ]


def _list_shown_lines(file: FileText) -> set[int] | None:
    """The numbers of the lines that a prompt shows; None: all. Parts of a file have a note, and numbers before their lines."""
    if file.text is None:
        return set()
    return {int(number) for number in _NUMBERED.findall(file.text)} if file.note else None


def list_hunks(patch: str) -> list[tuple[int, int]]:
    """The first line of each hunk of a patch without context, and how many lines it has, by the numbers before it."""
    return [(int(start), int(count or 1)) for start, count in _HUNK.findall(patch)]


def list_changed_places(clone: Clone, fix: Fix) -> dict[str, list[set[int]]]:
    """The lines that a fix changed in each right file, by the numbers before it; of an insertion the line above."""
    changed = {}
    for path in fix.files:
        patch = clone.git("diff", "-U0", "--no-ext-diff", fix.parent, fix.commit, "--", path)
        changed[path] = [
            set(range(start, start + count)) if count else {max(1, start)}
            for start, count in list_hunks(patch)
        ]
    return changed


def compare_budgets(folder: Path, fixes: Sequence[Fix], limits: Sequence[int], tokens: Sequence[int]) -> None:
    """Print what each budget of files and tokens shows of the right files, and what it costs."""
    scores: dict[tuple[int, int], BudgetScores] = defaultdict(BudgetScores)
    for clone, fix in check_out_fixes(folder, fixes):
        subject, places = fix.report or clone.read_subject(fix.commit), list_changed_places(clone, fix)
        for limit in limits:
            for most in tokens:
                scores[limit, most].add(find_relevant(clone, fix, subject, limit, most), places)
    head: list[object] = ["files", "budget", "listed", "all lines", "any line", "tokens", "at most", "price"]
    table([head, *([str(limit), f"{most:,}", *one.average()] for (limit, most), one in scores.items())])
