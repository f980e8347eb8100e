"""Past commits whose subjects are like the task vote for the files that they changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log

from logist.core.relevance.words import Keyword, stem_title
from logist.quick_dataclass import dataclass

MOST_SIMILAR = 200
"""Only so many commits vote, the most similar ones."""
LARGE = 20
"""A commit that changed more files than this says nothing about one of them."""
SHARED = 10
"""A commit that changed so many files gives each half of its vote."""
FURTHER = 2 / 3
"""How much each further vote for a file counts, compared to the one before it."""


@dataclass(frozen=True)
class SimilarCommit:
    """A commit that has words of the task in its subject."""

    number: int
    """Its position in the history, 0 for the newest."""
    similarity: float
    """How much of the task its subject covers: 1 for all words, more if it has compounds too; rare words count more."""
    keywords: tuple[int, ...]
    """The numbers of the keywords in its subject."""


@dataclass(frozen=True)
class Vote:
    """What the similar commits that changed a file say about it."""

    strength: float
    keywords: tuple[int, ...]
    """The keywords in the subject of the most similar one."""


def find_similar_commits(subjects: Sequence[str], keywords: Sequence[Keyword]) -> list[SimilarCommit]:
    """Return the commits with subjects like the task, the most similar first; of equal ones, the newest first."""
    matches = [_match_subject(subject, keywords) for subject in subjects]
    containing = [0] * len(keywords)
    for numbers in matches:
        for number in numbers:
            containing[number] += 1
    weights = [
        keyword.weight * log(1 + (len(subjects) - count + 0.5) / (count + 0.5))
        for keyword, count in zip(keywords, containing, strict=True)
    ]
    # The words of a compound count anyway, so a subject that lacks it still covers the task.
    whole = (
        sum(weight for keyword, weight in zip(keywords, weights, strict=True) if not keyword.compound) or 1.0
    )
    similar = [
        SimilarCommit(place, sum(weights[number] for number in numbers) / whole, numbers)
        for place, numbers in enumerate(matches)
        if numbers
    ]
    return sorted(similar, key=lambda commit: (-commit.similarity, commit.number))[:MOST_SIMILAR]


def _match_subject(subject: str, keywords: Sequence[Keyword]) -> tuple[int, ...]:
    low = subject.lower()
    possible = [
        number
        for number, keyword in enumerate(keywords)
        if (keyword.needle.replace("_", "") if keyword.code else keyword.needle) in low
        or keyword.needle in low
        or (keyword.compound and keyword.word in low)
    ]
    if not possible:
        return ()
    stems = stem_title(subject)
    return tuple(
        number for number in possible if keywords[number].compound or keywords[number].needle in stems
    )


def count_votes(commits: Iterable[tuple[SimilarCommit, Sequence[str]]]) -> dict[str, Vote]:
    """Return the votes for each path together, from similar commits with the paths that they changed.

    The strongest vote counts fully, and each further one less, so that a file that changes often doesn't always win.
    """
    by_path: dict[str, list[Vote]] = {}
    for commit, paths in commits:
        if len(paths) > LARGE:
            continue
        vote = Vote(commit.similarity / (1 + len(paths) / SHARED), commit.keywords)
        for path in paths:
            by_path.setdefault(path, []).append(vote)
    return {path: _add_votes(votes) for path, votes in by_path.items()}


def _add_votes(votes: list[Vote]) -> Vote:
    votes.sort(key=lambda vote: -vote.strength)
    strength = sum(vote.strength * FURTHER**place for place, vote in enumerate(votes))
    return Vote(strength, votes[0].keywords)
