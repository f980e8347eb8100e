"""The scores of files and how they came about, for people who ask why a file is in a prompt or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from functools import cached_property

from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple


class RankedWord(NamedTuple):
    """A word of the task, and how much it counts here."""

    word: str
    weight: float
    """Higher if the task has the word in its title, and if fewer files contain it."""
    files: int
    """The number of files whose texts contain it."""


class WordPoints(NamedTuple):
    """What a file gets for a word in one place."""

    place: str
    """`name`, `definitions`, `text`, `past commits` or `directory`."""
    word: str
    points: float
    times: int = 0
    """How often the word is there; 0 if that doesn't count."""


class Factor(NamedTuple):
    """By what the points of a file are multiplied."""

    value: float
    why: str


SCORE_DIGITS = 6
"""Scores are rounded to so many decimal places, so that equal ones are equal in whatever order they were added up."""
ROUNDING = 1e-5
"""More than rounding changes a score."""


def round_score(score: float) -> float:
    return round(score, SCORE_DIGITS)


@dataclass
class RankingReport:
    """The scores of all files, filled by `rank_files`; the two functions are called only for files with a score."""

    exact_scores: Mapping[str, float] = field(default_factory=dict)
    """Before rounding, which takes long for many files: `scores` has what is compared and shown."""
    words: list[RankedWord] = field(default_factory=list)
    floor: float = 0.0
    """Files with a lower score are left out."""
    list_points: Callable[[str], list[WordPoints]] = lambda _: []
    list_factors: Callable[[str], list[Factor]] = lambda _: []

    @cached_property
    def scores(self) -> dict[str, float]:
        """The rounded scores."""
        return {path: round_score(score) for path, score in self.exact_scores.items()}

    def get_score(self, path: str) -> float:
        """Return the rounded score of a file; 0 if it has none."""
        return round_score(self.exact_scores.get(path, 0.0))

    def count_from_floor(self, left_out: Collection[str]) -> int:
        """Return how many files, without these, don't have a score below the floor."""
        likely = self.floor - ROUNDING
        near = [path for path, score in self.exact_scores.items() if score >= likely]
        return sum(self.get_score(path) >= self.floor for path in near if path not in left_out)
