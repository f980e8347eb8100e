"""Rank files, best first, by the words of a task in their texts, names and definitions, and by past commits.

The base is BM25: a word that few files contain counts more, and several occurrences count a little more than one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import nsmallest
from math import log

from logist.core.relevance.kinds import FileKind
from logist.core.relevance.occurrences import MANY
from logist.core.relevance.past_commits import Vote
from logist.core.relevance.ranking_report import Factor, RankedWord, RankingReport, WordPoints
from logist.core.relevance.words import Keyword, split_name
from logist.quick_dataclass import dataclass

SATURATION = 1.6
"""BM25's k1: how much further occurrences of a word in a file count."""
LENGTH = 0.75
"""BM25's b: how much less a word counts in longer files, from 0 to 1."""
NAME = 3.0
"""The weight of a word in the name of a file, compared to one occurrence in its text."""
DEFINITION = 3.0
"""The weight of a word in the names of what a file defines."""
PAST = 2.0
"""The weight of a vote of past commits, compared to all words of the task in one text."""
DIRECTORY = 0.3
"""The weight of a word in the directories above a file, compared to one in its name."""
ABBREVIATED = 0.7
"""The weight of a name that contains only the beginning of a word: `auth` for `authentication`."""
IN_NAMED_DIRECTORY = 1.6
"""The factor for files in a directory that the task mentions."""
TEST = 0.3
"""The factor for tests if the task is not about tests."""
LEAST = 0.1
"""Files below this share of the best score are left out, because they are not worth their tokens."""
SHORTEST_BEGINNING = 3


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
        dot = path.rfind(".")
        return self._find_name_hits(path[cut:dot] if dot > cut else path[cut:]), self._find_directory_hits(
            path[:cut]
        )

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
    """Which keywords a file contains and how often, by their numbers, and the size of the file."""

    counts: Mapping[int, int]
    size: int


_NO_DEFINITIONS: Mapping[str, Sequence[int]] = {}
_NO_VOTES: Mapping[str, Vote] = {}


def rank_files(
    keywords: Sequence[Keyword],
    names: Mapping[str, tuple[Hits, Hits]],
    texts: Mapping[str, Text],
    *,
    files: Mapping[str, FileKind],
    searched: int,
    most: int,
    definitions: Mapping[str, Sequence[int]] = _NO_DEFINITIONS,
    votes: Mapping[str, Vote] = _NO_VOTES,
    directories: Sequence[str] = (),
    tests_wanted: bool = False,
    prose_wanted: bool = False,
    among: Collection[str] | None = None,
    report: RankingReport | None = None,
) -> list[RankedFile]:
    """Return at most `most` files that contain a keyword, best first; of all files, or only `among` these.

    `files`: all candidates; `searched`: how many of them were read; `definitions`: how often each keyword is in the
    name of something that the file defines; `votes`: those of past commits; `directories`: those that the task mentions;
    `report`: is filled with the scores, and how they came about.
    """
    worth = _Worth(keywords, names, texts, definitions, votes, searched)
    places = tuple(f"{directory}/" for directory in directories)
    ranked: list[tuple[float, str]] = []
    candidates = names.keys() | texts.keys() | (votes.keys() & files.keys()) if among is None else among
    for path in candidates:
        score = worth.score_file(path)
        if score:
            kind = files[path]
            score *= 1.0 if prose_wanted and kind.prose else kind.worth
            score *= 1.0 if tests_wanted or not kind.test else TEST
            score *= IN_NAMED_DIRECTORY if path.startswith(places) else 1.0
            ranked.append((-round(score, 6), path))
    if report is not None:
        report.scores |= {path: -score for score, path in ranked}
        report.words = worth.list_words()
        report.list_points = worth.list_points
        report.list_factors = lambda path: _list_factors(
            path, files[path], places, tests_wanted, prose_wanted
        )
        report.floor = LEAST * max(report.scores.values(), default=0.0)
    best = nsmallest(most, ranked)
    return [
        RankedFile(path, -score, worth.explain_score(path))
        for score, path in best
        if score <= LEAST * best[0][0]
    ]


def _list_factors(
    path: str, kind: FileKind, places: tuple[str, ...], tests_wanted: bool, prose_wanted: bool
) -> list[Factor]:
    """Return by what the points of a file are multiplied: the same as `rank_files` does, for people."""
    factors = []
    if kind.worth != 1 and not (prose_wanted and kind.prose):
        factors.append(Factor(kind.worth, "vendored, generated, or not code"))
    if kind.test and not tests_wanted:
        factors.append(Factor(TEST, "a test, and the task is not about tests"))
    if path.startswith(places):
        factors.append(Factor(IN_NAMED_DIRECTORY, "in a directory that the task names"))
    return factors


_NONE: tuple[Hits, Hits] = ({}, {})


class _Worth:
    """The weights of the keywords: the fewer files contain one, the more it counts."""

    def __init__(
        self,
        keywords: Sequence[Keyword],
        names: Mapping[str, tuple[Hits, Hits]],
        texts: Mapping[str, Text],
        definitions: Mapping[str, Sequence[int]],
        votes: Mapping[str, Vote],
        searched: int,
    ) -> None:
        self._keywords, self._names, self._texts, self._definitions = keywords, names, texts, definitions
        self._votes = votes
        self._containing = containing = [0] * len(keywords)
        for text in texts.values():
            for number in text.counts:
                containing[number] += 1
        self._weights = [
            keyword.weight * _compute_rarity(count, searched)
            for keyword, count in zip(keywords, containing, strict=True)
        ]
        self._whole = sum(self._weights)
        self._average = max(1.0, sum(text.size for text in texts.values()) / max(1, len(texts)))

    def score_file(self, path: str) -> float:
        """Return the score of a file; 0 if neither its name nor its text contains a keyword, and no past commit votes for it."""
        own, above = self._names.get(path, _NONE)
        weights = self._weights
        score = NAME * sum(much * weights[number] for number, much in own.items())
        text = self._texts.get(path)
        if text is not None:
            score += sum(self._score_text(text).values())
        vote = self._votes.get(path)
        if vote is not None:
            score += PAST * vote.strength * self._whole
        if not score:
            return 0.0
        for number, count in enumerate(self._definitions.get(path, ())):
            if count:
                score += DEFINITION * weights[number] * count / (count + 1)
        for number, much in above.items():
            if number not in own:
                score += NAME * DIRECTORY * much * weights[number]
        return score

    def _score_text(self, text: Text) -> Hits:
        """Return BM25 by keyword."""
        damping = SATURATION * (1 - LENGTH + LENGTH * text.size / self._average)
        return {
            number: self._weights[number] * (SATURATION + 1) * count / (count + damping)
            for number, count in text.counts.items()
        }

    def list_words(self) -> list[RankedWord]:
        """Return the words of the task with their weights, the heaviest first."""
        words = zip(self._keywords, self._weights, self._containing, strict=True)
        ranked = [RankedWord(keyword.word, weight, files) for keyword, weight, files in words]
        return sorted(ranked, key=lambda word: (-word.weight, word.word))

    def list_points(self, path: str) -> list[WordPoints]:
        """Return the points of which `score_file` is the sum."""
        own, above = self._names.get(path, _NONE)
        text, vote = self._texts.get(path), self._votes.get(path)
        words, weights = self._keywords, self._weights
        points = [WordPoints("name", words[n].word, NAME * much * weights[n]) for n, much in own.items()]
        points += [
            WordPoints("definitions", words[n].word, DEFINITION * weights[n] * count / (count + 1), count)
            for n, count in enumerate(self._definitions.get(path, ()))
            if count
        ]
        if text is not None:
            found = self._score_text(text).items()
            points += [WordPoints("text", words[n].word, value, text.counts[n]) for n, value in found]
        if vote is not None:
            about = ", ".join(words[n].word for n in vote.keywords)
            points.append(WordPoints("past commits", about, PAST * vote.strength * self._whole))
        points += [
            WordPoints("directory", words[n].word, NAME * DIRECTORY * much * weights[n])
            for n, much in above.items()
            if n not in own
        ]
        return points

    def explain_score(self, path: str) -> str:
        """Return the words that count most, as text for people."""
        reasons: list[str] = []
        own, text = self._names.get(path, _NONE)[0], self._texts.get(path)
        if own:
            reasons.append(
                f"name contains {self._join_best({n: much * self._weights[n] for n, much in own.items()}, 2)}"
            )
        defined = {n: self._weights[n] for n, count in enumerate(self._definitions.get(path, ())) if count}
        if defined:
            reasons.append(f"defines {self._join_best(defined, 2)}")
        if text is not None:
            best = _choose_best(self._score_text(text), 3)
            reasons.append(
                f"contains {', '.join(f'{self._keywords[n].word}{_format_times(text.counts[n])}' for n in best)}"
            )
        vote = self._votes.get(path)
        if vote is not None:
            about = self._join_best({n: self._weights[n] for n in vote.keywords}, 2)
            reasons.append(f"changed by past commits about {about}")
        return "; ".join(reasons)

    def _join_best(self, scores: Hits, most: int) -> str:
        return ", ".join(self._keywords[number].word for number in _choose_best(scores, most))


def _compute_rarity(count: int, total: int) -> float:
    return log(1 + (max(0, total - count) + 0.5) / (count + 0.5))


def _choose_best(scores: Hits, most: int) -> list[int]:
    return sorted(scores, key=lambda number: (-scores[number], number))[:most]


def _format_times(count: int) -> str:
    return "" if count == 1 else f" {count} times" if count < MANY else " many times"
