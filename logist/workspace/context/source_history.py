"""The past of a workspace: the commits of the user's repository up to the one that the job began with.

Only the names of changed files are used, and of a commit's message only which words of the task its subject
contains: messages may hold secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from logist.core.relevance.past_commits import SimilarCommit, Vote, count_votes, find_similar_commits
from logist.core.relevance.words import Keyword
from logist.errors import StorageError
from logist.quick_dataclass import dataclass
from logist.workspace.git import GIT_PATH, Git

MAX_COMMITS = 2_000
MAX_SUBJECT_BYTES = 2_000_000
MAX_NAME_BYTES = 2_000_000
"""Maximum bytes of the names of changed files."""


@dataclass(frozen=True)
class SourceHistory:
    """The history of the source of a job: the repository, and the commit that the job began with."""

    repository: Path
    commit: str
    git_path: str = GIT_PATH

    def count_votes(self, keywords: Sequence[Keyword]) -> dict[str, Vote]:
        """Return the votes of the past commits that are like the task, by path.

        Without the repository, the commit or its ancestors (a shallow or partial clone) there are fewer votes, or none.
        """
        marker = self.repository / ".git"
        git = Git(marker if marker.exists() else self.repository, self.git_path)
        if not git.git_dir.exists():
            return {}
        try:
            # rev-list and diff-tree run no programs, and no setting of the repository changes their output.
            listed, _ = git.read_beginning(
                MAX_SUBJECT_BYTES,
                "rev-list",
                "--no-merges",
                f"--max-count={MAX_COMMITS}",
                "--encoding=UTF-8",
                "--format=%s",
                "--end-of-options",
                self.commit,
                "--",
            )
            ids, subjects = _parse_commits(listed)
            similar = find_similar_commits(subjects, keywords)
            if not similar:
                return {}
            names, complete = git.read_beginning(
                MAX_NAME_BYTES,
                "diff-tree",
                "-r",
                "--root",
                "-z",
                "--name-only",
                "--no-renames",
                "--stdin",
                data="".join(f"{ids[commit.number]}\n" for commit in similar).encode("ascii"),
            )
        except StorageError:
            return {}
        return count_votes(
            _parse_changes(names, {ids[commit.number]: commit for commit in similar}, complete)
        )


def _parse_commits(listed: bytes) -> tuple[list[str], list[str]]:
    """Return the ids and the subjects, from pairs of lines; a pair that was cut is left out."""
    lines = listed.decode("utf-8", "replace").split("\n")[:-1]
    ids = [line.removeprefix("commit ") for line in lines[::2]]
    subjects = lines[1::2]
    return ids[: len(subjects)], subjects


def _parse_changes(
    names: bytes, commits: dict[str, SimilarCommit], complete: bool
) -> Iterator[tuple[SimilarCommit, Sequence[str]]]:
    """Yield each commit with the paths that it changed, from its id followed by the paths.

    If the names are not complete, the last commit may lack some, so it is left out.
    """
    current: SimilarCommit | None = None
    paths: list[str] = []
    for raw in names.split(b"\0")[:-1]:
        name = os.fsdecode(raw)
        following = commits.get(name)
        if following is None:
            paths.append(name)
            continue
        if current is not None:
            yield current, paths
        current, paths = following, []
    if current is not None and complete:
        yield current, paths
