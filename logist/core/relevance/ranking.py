"""Rank files, best first: those a task names, then those whose names or texts have its words.

A word counts by where it is in the task, and by how few files have it; often in a file counts more than once,
but never much more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import log

from logist.core.relevance.kinds import FileKind
from logist.core.relevance.words import Keyword, split_name

NAME = 3.0
"""What a word in the name of a file counts, beside one in its text."""
DIRECTORY = 0.3
"""One in the directories above it, beside one in its name."""
ABBREVIATED = 0.7
"""Of a name that has only the beginning of a word: `auth` for `authentication`."""
IN_NAMED_DIRECTORY = 1.6
"""A file of a directory that the task names counts so many times what it else would."""
TEST = 0.75
"""What a test counts where the task says nothing of tests."""
LEAST = 0.25
"""Of what the best file that was found counts: what is below that is not worth its tokens."""
SHORTEST_BEGINNING = 3
SEVERAL = 0.15
"""What each further word adds, in parts of what a file counts."""
SATURATED = 1.5
TYPICAL = 6_000
"""Bytes of a file in which a word counts as it is; in longer ones it counts less."""


@dataclass(frozen=True)
class RankedFile:
    """A file that matters: how much, and why."""

    path: str
    score: float
    reason: str


Hits = dict[int, float]
"""By number of the keyword: how well it is there, from 0 to 1."""


class Names:
    """Which keywords the names of files have: computed once for each word and each directory."""

    def __init__(self, keywords: Sequence[Keyword]) -> None:
        self.keywords = keywords
        self._words: dict[str, Hits] = {}
        self._directories: dict[str, Hits] = {"": {}}
        self._codes = [
            (number, _compile_spellings(each)) for number, each in enumerate(keywords) if each.code
        ]
        # Whatever a name has of a keyword, it has its beginning: most names have none, and are done with.
        begun = {each.needle.partition("_")[0][:SHORTEST_BEGINNING] for each in keywords}
        self._beginning = re.compile("|".join(map(re.escape, sorted(begun)))).search

    def find_hits(self, path: str) -> tuple[Hits, Hits]:
        """Return the hits of a file's own name, and those of the directories above it."""
        cut = path.rfind("/") + 1
        return self._find_name_hits(path[cut:]), self._find_directory_hits(path[:cut])

    def _find_directory_hits(self, directory: str) -> Hits:
        """Return the hits of a directory and those above it; its path ends with `/`."""
        hits = self._directories.get(directory)
        if hits is None:
            cut = directory.rfind("/", 0, -1) + 1
            hits = self._find_directory_hits(directory[:cut])
            own = self._find_name_hits(directory[cut:])
            if own:
                hits = {
                    number: max(hits.get(number, 0.0), own.get(number, 0.0)) for number in {**hits, **own}
                }
            self._directories[directory] = hits
        return hits

    def _find_name_hits(self, text: str) -> Hits:
        best: Hits = {}
        if text.isascii() and self._beginning(text.lower()) is None:
            return best
        known = self._words
        for word in split_name(text):
            hits = known.get(word)
            if hits is None:
                hits = known[word] = dict(self._match_word(word.lower()))
            if hits:
                for number, much in hits.items():
                    if much > best.get(number, 0.0):
                        best[number] = much
        for number, spelled in self._codes:
            if spelled(text):
                best[number] = 1.0
        return best

    def _match_word(self, word: str) -> Iterator[tuple[int, float]]:
        for number, keyword in enumerate(self.keywords):
            if keyword.code:
                continue
            if word == keyword.needle if keyword.whole else keyword.needle in word:
                yield number, 1.0
            elif len(word) >= SHORTEST_BEGINNING and keyword.needle.startswith(word):
                yield number, ABBREVIATED


def _compile_spellings(keyword: Keyword) -> Callable[[str], re.Match[str] | None]:
    """Return a search for a name of several words as files are called:
    `rate_limiter`, `rate-limiter`, `RateLimiter`.
    """
    return re.compile("[_-]?".join(map(re.escape, keyword.needle.split("_"))), re.IGNORECASE).search


@dataclass(frozen=True)
class Text:
    """How often each keyword is in a file, by its number, and how long the file is."""

    counts: Sequence[int]
    size: int


def rank_files(
    keywords: Sequence[Keyword],
    names: Mapping[str, tuple[Hits, Hits]],
    texts: Mapping[str, Text],
    *,
    files: Mapping[str, FileKind],
    searched: int,
    most: int,
    directories: Sequence[str] = (),
    tests_wanted: bool = False,
) -> list[RankedFile]:
    """Return at most `most` files that have a keyword, the best first.

    `files`: all that could be found; `searched`: how many of them were looked into; `directories`: those that
    the task names.
    """
    worth = _Worth(keywords, names, texts, len(files), searched)
    places = tuple(f"{directory}/" for directory in directories)
    ranked: list[tuple[float, str]] = []
    for path in names.keys() | texts.keys():
        score = worth.score_file(names.get(path, _NONE), texts.get(path))
        if score:
            kind = files[path]
            score *= kind.worth * (1.0 if tests_wanted or not kind.test else TEST)
            score *= IN_NAMED_DIRECTORY if path.startswith(places) else 1.0
            ranked.append((-round(score, 6), path))
    best = nsmallest(most, ranked)
    return [
        RankedFile(path, -score, worth.explain_score(names.get(path, _NONE)[0], texts.get(path)))
        for score, path in best
        if score <= LEAST * best[0][0]
    ]


_NONE: tuple[Hits, Hits] = ({}, {})


class _Worth:
    """What the keywords are worth: the fewer names, or texts, have one, the more it counts there."""

    def __init__(
        self,
        keywords: Sequence[Keyword],
        names: Mapping[str, tuple[Hits, Hits]],
        texts: Mapping[str, Text],
        total: int,
        searched: int,
    ) -> None:
        of_names, of_texts = [0] * len(keywords), [0] * len(keywords)
        for own, _ in names.values():
            for number in own:
                of_names[number] += 1
        for text in texts.values():
            for number, count in enumerate(text.counts):
                of_texts[number] += bool(count)
        self._keywords = keywords
        self._names = [
            NAME * keyword.weight * _compute_rarity(count, total)
            for keyword, count in zip(keywords, of_names, strict=True)
        ]
        self._texts = [
            (SATURATED + 1) * keyword.weight * _compute_rarity(count, searched)
            for keyword, count in zip(keywords, of_texts, strict=True)
        ]

    def score_file(self, hits: tuple[Hits, Hits], text: Text | None) -> float:
        """Return what a file is worth; 0 if neither its name nor its text has any of the words."""
        own, above = hits
        score, numbers_present = 0.0, set(own)
        for number, much in own.items():
            score += much * self._names[number]
        if text is not None:
            length = _compute_length_factor(text)
            for number, count in enumerate(text.counts):
                if count:
                    score += self._texts[number] * count / (count + length)
                    numbers_present.add(number)
        if not numbers_present:
            return 0.0
        for number, much in above.items():
            if number not in own:
                score += much * self._names[number] * DIRECTORY
        # A file that has several of the words is more than one that has one of them often.
        return score * (1.0 + SEVERAL * min(len(numbers_present) - 1, 4))

    def explain_score(self, own: Hits, text: Text | None) -> str:
        """Return the words that count most, in a form for people."""
        reasons: list[str] = []
        if own:
            best = _choose_best({number: much * self._names[number] for number, much in own.items()}, 2)
            reasons.append(f"its name has {', '.join(self._keywords[number].word for number in best)}")
        if text is not None:
            length = _compute_length_factor(text)
            counts = {number: count for number, count in enumerate(text.counts) if count}
            best = _choose_best(
                {n: self._texts[n] * count / (count + length) for n, count in counts.items()}, 3
            )
            reasons.append(
                f"contains {', '.join(f'{self._keywords[n].word}{_format_times(counts[n])}' for n in best)}"
            )
        return "; ".join(reasons)


def _compute_length_factor(text: Text) -> float:
    return SATURATED * (0.5 + 0.5 * min(text.size / TYPICAL, 8.0))


def _compute_rarity(count: int, total: int) -> float:
    return log(1 + (max(0, total - count) + 0.5) / (count + 0.5))


def _choose_best(scores: Hits, most: int) -> list[int]:
    return sorted(scores, key=lambda number: (-scores[number], number))[:most]


def _format_times(count: int) -> str:
    return "" if count == 1 else f" {count} times"
