"""Rank files, best first: those that a task mentions, then those whose names or contents contain its words.

The weight of a word depends on its position in the task, and on how few files contain it. Several occurrences in
a file count a little more than one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from math import log

from logist.core.relevance.kinds import FileKind
from logist.core.relevance.words import Keyword, split_name
from logist.quick_dataclass import dataclass

NAME = 3.0
"""The weight of a word in the name of a file, compared to one in its content."""
DIRECTORY = 0.3
"""The weight of a word in the directories above a file, compared to one in its name."""
ABBREVIATED = 0.7
"""The weight of a name that contains only the beginning of a word: `auth` for `authentication`."""
IN_NAMED_DIRECTORY = 1.6
"""The factor for files in a directory that the task mentions."""
TEST = 0.75
"""The factor for tests if the task doesn't mention tests."""
LEAST = 0.25
"""Files below this share of the best score are left out, because they are not worth their tokens."""
SHORTEST_BEGINNING = 3
SEVERAL = 0.15
"""What each further word adds to the score, as a fraction."""
SATURATED = 1.5
TYPICAL = 6_000
"""The size of a typical file in bytes; in longer files a word counts less."""


@dataclass(frozen=True)
class RankedFile:
    """A relevant file, its score and the reason."""

    path: str
    score: float
    reason: str


Hits = dict[int, float]
"""By number of the keyword: how well it matches, from 0 to 1."""


class Names:
    """Finds keywords in file names; computed once for each word and each directory."""

    def __init__(self, keywords: Sequence[Keyword]) -> None:
        self.keywords = keywords
        self._words: dict[str, Hits] = {}
        self._directories: dict[str, Hits] = {"": {}}
        self._codes = [
            (number, _compile_spellings(each)) for number, each in enumerate(keywords) if each.code
        ]
        # A name that matches a keyword contains its beginning; most names contain none and can be skipped quickly.
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
    """Return a search for a name of several words, in the spellings `rate_limiter`, `rate-limiter`, `RateLimiter`."""
    return re.compile("[_-]?".join(map(re.escape, keyword.needle.split("_"))), re.IGNORECASE).search


@dataclass(frozen=True)
class Text:
    """The number of occurrences of each keyword in a file, and the size of the file."""

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
    """Return at most `most` files that contain a keyword, best first.

    `files`: all candidates; `searched`: how many of them were read; `directories`: those that the task mentions.
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
    """The weights of the keywords: the fewer names or texts contain one, the more it counts."""

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
        """Return the score of a file; 0 if neither its name nor its text contains a keyword."""
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
        # A file with several of the words is better than a file with one of them many times.
        return score * (1.0 + SEVERAL * min(len(numbers_present) - 1, 4))

    def explain_score(self, own: Hits, text: Text | None) -> str:
        """Return the words that count most, as text for people."""
        reasons: list[str] = []
        if own:
            best = _choose_best({number: much * self._names[number] for number, much in own.items()}, 2)
            reasons.append(f"name contains {', '.join(self._keywords[number].word for number in best)}")
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
