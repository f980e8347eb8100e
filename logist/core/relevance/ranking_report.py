"""The scores of files and how they came about, for people who ask why a file is in a prompt or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

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


@dataclass
class RankingReport:
    """The scores of all files, filled by `rank_files`; the two functions are called only for files with a score."""

    scores: dict[str, float] = field(default_factory=dict)
    words: list[RankedWord] = field(default_factory=list)
    floor: float = 0.0
    """Files with a lower score are left out."""
    list_points: Callable[[str], list[WordPoints]] = lambda _: []
    list_factors: Callable[[str], list[Factor]] = lambda _: []
