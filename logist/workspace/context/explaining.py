"""Explains why a file of the workspace is among the relevant files of a prompt, or why not.

The same rules as for prompts apply: nothing of a secret, git-ignored or excluded file is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from logist.core.prompt.search_report import SearchReport
from logist.core.relevance import kinds
from logist.core.relevance.ranking_report import Factor, WordPoints
from logist.core.text.patterns import compile_exclusions, find_parent_directories
from logist.quick_dataclass import dataclass
from logist.workspace.context import choosing, walking
from logist.workspace.files import agent_files, safe_open

if TYPE_CHECKING:
    from logist.core.prompt.search_report import Survey

MAX_NAMESAKES = 3


@dataclass(frozen=True)
class FileExplanation:
    """Why a file is listed, or why not."""

    path: str
    is_listed: bool
    why: str
    """For a listed file the reason that the prompt shows, for others what keeps it out."""
    rank: int | None = None
    score: float = 0.0
    points: Sequence[WordPoints] = ()
    factors: Sequence[Factor] = ()


def explain_listed(report: SearchReport) -> Iterator[FileExplanation]:
    """Yield the listed files in the order of the prompt."""
    for rank, each in enumerate(report.chosen, 1):
        yield _explain_score(report, each.file.path, each.reason, rank, is_listed=True)


def explain_file(
    root: Path, report: SearchReport, path: str, caches: Collection[str], excluded: Sequence[str]
) -> FileExplanation:
    """Explain one file; `caches` and `excluded` are what hides files of this workspace."""
    path = path.removeprefix("./").rstrip("/")
    for listed in explain_listed(report):
        if listed.path == path:
            return listed
    why = _find_obstacle(root, report, path, caches, excluded)
    return _explain_score(report, path, why, report.ranks.get(path), is_listed=False)


def _explain_score(
    report: SearchReport, path: str, why: str, rank: int | None, *, is_listed: bool
) -> FileExplanation:
    ranking = report.ranking
    score = ranking.get_score(path)
    points = sorted(ranking.list_points(path), key=lambda each: -each.points) if score else ()
    factors = ranking.list_factors(path) if score else ()
    return FileExplanation(path, is_listed, why, rank, score, points, factors)


def _find_obstacle(
    root: Path, report: SearchReport, path: str, caches: Collection[str], excluded: Sequence[str]
) -> str:
    """Return what keeps a file out of the list."""
    survey = report.survey
    assert survey is not None, "nothing was searched"
    if path in report.known:
        return "in the prompt anyway: a file of the job (files), or evidence of the last answer"
    if path in survey.files:
        return _explain_unlisted(root, report, path, survey.files[path])
    for place in (*find_parent_directories(path), path):
        if place in survey.noted:
            return survey.noted[place] if place == path else f"{place} is {survey.noted[place]}"
    if compile_exclusions((), sorted(caches)).is_ignored(path):
        return "in a cache (workspace.caches)"
    if compile_exclusions(excluded).is_ignored(path):
        return "excluded (context.excluded_paths)"
    if path in survey.directories:
        return "a directory: name a file in it"
    with safe_open.open_root(root) as top:
        if choosing.is_ignored(top, survey, path):
            return "git-ignored"
    return _describe_missing(survey, path)


def _describe_missing(survey: Survey, path: str) -> str:
    if survey.partial:
        return "not found in the part of the workspace that was read: it has too many files"
    name = path.rpartition("/")[2]
    same = [each for each in survey.files if each.rpartition("/")[2] == name][:MAX_NAMESAKES]
    return (
        f"not found in the workspace; did you mean {' or '.join(same)}?"
        if same
        else "not found in the workspace"
    )


def _explain_unlisted(root: Path, report: SearchReport, path: str, size: int) -> str:
    """Return what keeps a file of the workspace out of the list."""
    kind, score, ranking = kinds.classify_file(path), report.ranking.get_score(path), report.ranking
    if not choosing.is_text(path):
        return "its name is not UTF-8"
    if kind.secret:
        return "may contain secrets, by its name: not searched"
    if not kind.worth:
        return "binary, by its name: not searched"
    unsearched = _explain_unsearched(root, report, path, size)
    also = f"; its text was {unsearched}" if unsearched else ""
    if score < ranking.floor and score:
        return f"its score is below {ranking.floor:.2f}, a tenth of the best{also}"
    rank = report.ranks.get(path)
    if rank and rank > report.limit:
        return f"rank {rank}: at most {report.limit} are listed (context.relevant_files_limit){also}"
    if unsearched:
        return unsearched if score else f"{unsearched}; no word in its name"
    note = agent_files.read_file(root, path, walking.MAX_FILE_BYTES).note
    if note:
        return note
    return "no word of the task is in its name or text, and no past commit about it has changed it"


def _explain_unsearched(root: Path, report: SearchReport, path: str, size: int) -> str:
    """Return why the words of a text don't count; "" if they do."""
    if size > walking.MAX_FILE_BYTES:
        return f"not searched: {size:,} bytes, at most {walking.MAX_FILE_BYTES:,} are read"
    if size and path not in report.searched and report.ranking.words:
        return "not searched: likelier files fill the limit of all texts"
    is_unreadable = agent_files.read_file(root, path, 0).note == agent_files.UNREADABLE
    return f"not searched: {agent_files.UNREADABLE}" if is_unreadable else ""
