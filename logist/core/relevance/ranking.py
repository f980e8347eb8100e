"""Rank files, best first, by the words of a task in their texts, names and definitions, and by past commits.

The base is BM25: a word that few files contain counts more, and several occurrences count a little more than one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest, nsmallest
from math import log, prod, sqrt

from logist.core.relevance.kinds import FileKind, name_subject
from logist.core.relevance.occurrences import MANY
from logist.core.relevance.past_commits import Vote
from logist.core.relevance.ranking_report import Factor, RankedWord, RankingReport, WordPoints
from logist.core.relevance.words import Focus, Keyword, split_name
from logist.quick_dataclass import dataclass

SATURATION = 1.6
"""BM25's k1: how much further occurrences of a word in a file count."""
LENGTH = 0.75
"""BM25's b: how much less a word counts in longer files, from 0 to 1."""
NAME = 3.5
"""The weight of a word that is the name of a file, compared to one occurrence in its text."""
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
EXAMPLE = 0.4
"""The factor for examples, benchmarks and data of tests if the task is not about them."""
DECLARATION = 1.5
"""The factor for files that only declare types if the task is about types: it hardly ever names them."""
BELONGING = 0.1
"""How much of the score of a test or a page goes to the source that it is named after."""
MOST_BELONGING = 2
"""If more sources have this name, it says too little."""
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
        name = path[cut:dot] if dot > cut else path[cut:]
        return self._reduce_hits(self._find_name_hits(name), name), self._find_directory_hits(path[:cut])

    def _reduce_hits(self, hits: Hits, name: str) -> Hits:
        """Return less for a name with other words: `context_menu_of_editors` is hardly about a context."""
        if not hits:
            return hits
        words = max(1, len(split_name(name)))
        share = sqrt(min(1.0, max(1, sum(not self.keywords[number].code for number in hits)) / words))
        return {number: much * share for number, much in hits.items()}

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


_NO_VOTES: Mapping[str, Vote] = {}
_NOTHING_ELSE = Focus()


def _find_no_definitions(paths: list[str]) -> Mapping[str, Sequence[int]]:
    return {}


def rank_files(
    keywords: Sequence[Keyword],
    names: Mapping[str, tuple[Hits, Hits]],
    texts: Mapping[str, Text],
    *,
    files: Mapping[str, FileKind],
    searched: int,
    most: int,
    find_definitions: Callable[[list[str]], Mapping[str, Sequence[int]]] = _find_no_definitions,
    votes: Mapping[str, Vote] = _NO_VOTES,
    directories: Sequence[str] = (),
    focus: Focus = _NOTHING_ELSE,
    report: RankingReport | None = None,
) -> list[RankedFile]:
    """Return at most `most` files that contain a keyword, best first.

    `files`: all candidates; `searched`: how many of them were read; `find_definitions`: takes paths, and returns for each
    how often each keyword is in the name of something that the file defines; `votes`: those of past commits;
    `directories`: those that the task mentions; `focus`: the kinds of files that the task is about; `report`: is filled with all
    scores, and how they came about.
    """
    kind_weights = {kind: _weigh_kind(kind, focus) for kind in {*files.values()}}
    worth = _Worth(keywords, names, texts, votes, searched)
    places = tuple(f"{directory}/" for directory in directories)
    scores = {
        path: score
        for path in names.keys() | texts.keys() | (votes.keys() & files.keys())
        if (score := worth.score_file(path))
    }
    speakers = _find_speakers(scores, files)

    def choose_best(paths: Iterable[str], most: int) -> list[tuple[float, str]]:
        ranked: list[tuple[float, str]] = []
        for path in paths:
            score = scores.get(path, 0.0) * kind_weights[files[path]]
            speaker = speakers.get(path)
            if speaker is not None:
                score += BELONGING * scores[speaker]
            score *= IN_NAMED_DIRECTORY if path.startswith(places) else 1.0
            ranked.append((-round(score, 6), path))
        return nsmallest(most, ranked)

    # To look for definitions takes long, so this is done only in files that could come first.
    # A definition only adds to the score, so no other file gets before those.
    likely = [path for _, path in choose_best(scores.keys() | speakers.keys(), max(most, _WITH_DEFINITIONS))]
    definitions = find_definitions(likely)
    for path, counts in definitions.items():
        if path in scores:
            scores[path] += worth.score_definitions(counts)
    best = choose_best(likely, most)
    if report is not None:
        report.scores = {
            path: -score for score, path in choose_best(scores.keys() | speakers.keys(), len(files))
        }
        report.floor = LEAST * max(report.scores.values(), default=0.0)
        report.words = worth.list_words()
        report.list_factors = lambda path: _list_factors(files[path], focus, in_place=path.startswith(places))

        def list_points(path: str) -> list[WordPoints]:
            points, speaker = worth.list_points(path, definitions.get(path, ())), speakers.get(path)
            if speaker is not None:  # its share is not weighed by the kind of the file
                share = BELONGING * scores[speaker] / kind_weights[files[path]]
                points.append(WordPoints("a test or page about it", speaker, share))
            return points

        report.list_points = list_points
    return [
        RankedFile(path, -score, worth.explain_score(path, definitions.get(path, ()), speakers.get(path)))
        for score, path in best
        if score <= LEAST * best[0][0]
    ]


def _list_factors(kind: FileKind, focus: Focus, *, in_place: bool) -> list[Factor]:
    """Return by what the points of a file are multiplied, with reasons for people.

    `in_place`: it is in a directory that the task names.
    """
    factors = []
    if kind.worth != 1 and not (focus.prose and kind.prose):
        factors.append(Factor(kind.worth, "vendored, generated, or not code"))
    if kind.test and not focus.tests:
        factors.append(Factor(TEST, "a test, and the task is not about tests"))
    elif kind.example and not focus.examples:
        factors.append(
            Factor(EXAMPLE, "an example, a benchmark or test data, and the task is not about them")
        )
    if kind.declaration and focus.declarations:
        factors.append(Factor(DECLARATION, "it only declares types, and the task is about types"))
    if in_place:
        factors.append(Factor(IN_NAMED_DIRECTORY, "in a directory that the task names"))
    return factors


_WITH_DEFINITIONS = 100


def _weigh_kind(kind: FileKind, focus: Focus) -> float:
    """Return how likely a task with this focus changes files of this kind."""
    return prod(factor.value for factor in _list_factors(kind, focus, in_place=False))


def _find_speakers(scores: Mapping[str, float], files: Mapping[str, FileKind]) -> dict[str, str]:
    """Return for sources the best of the tests and pages that are named after the same thing."""
    about: dict[str, str] = {}
    others = ((score, path) for path, score in scores.items() if not _is_source(files[path]))
    for _, path in nlargest(_MOST_SPEAKERS, others):
        about.setdefault(name_subject(path), path)
    about.pop("", None)
    beginnings = tuple({subject[:SHORTEST_BEGINNING] for subject in about})
    sources: dict[str, list[str]] = {}
    for path, kind in files.items():
        if path[path.rfind("/") + 1 :].lower().startswith(beginnings) and _is_source(kind):
            sources.setdefault(name_subject(path), []).append(path)
    return {
        path: about[subject]
        for subject, paths in sources.items()
        if subject in about and len(paths) <= MOST_BELONGING
        for path in paths
    }


_MOST_SPEAKERS = 100
"""Only so many tests and pages are looked at, the best ones."""


def _is_source(kind: FileKind) -> bool:
    return kind.worth == 1.0 and not kind.test and not kind.example


_NONE: tuple[Hits, Hits] = ({}, {})


class _Worth:
    """Scores files by the weights of the keywords: the fewer files contain one, the more it counts."""

    def __init__(
        self,
        keywords: Sequence[Keyword],
        names: Mapping[str, tuple[Hits, Hits]],
        texts: Mapping[str, Text],
        votes: Mapping[str, Vote],
        searched: int,
    ) -> None:
        self._keywords, self._names, self._texts, self._votes = keywords, names, texts, votes
        self._containing = containing = [0] * len(keywords)
        for text in texts.values():
            for number in text.counts:
                containing[number] += 1
        self._weights = [
            keyword.weight * _compute_rarity(count, searched)
            for keyword, count in zip(keywords, containing, strict=True)
        ]
        self._whole = sum(
            weight for keyword, weight in zip(keywords, self._weights, strict=True) if not keyword.compound
        )
        self._average = max(1.0, sum(text.size for text in texts.values()) / max(1, len(texts)))

    def score_file(self, path: str) -> float:
        """Return the score of a file without its definitions.

        0 if neither its name nor its text contains a keyword, and no past commit votes for it.
        """
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
        for number, much in above.items():
            if number not in own:
                score += NAME * DIRECTORY * much * weights[number]
        return score

    def score_definitions(self, counts: Sequence[int]) -> float:
        """Return what definitions with keywords in their names add, from their numbers."""
        return DEFINITION * sum(
            self._weights[number] * count / (count + 1) for number, count in enumerate(counts)
        )

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

    def list_points(self, path: str, definitions: Sequence[int]) -> list[WordPoints]:
        """Return the points whose sum `score_file` and `score_definitions` return."""
        own, above = self._names.get(path, _NONE)
        text, vote = self._texts.get(path), self._votes.get(path)
        words, weights = self._keywords, self._weights
        points = [WordPoints("name", words[n].word, NAME * much * weights[n]) for n, much in own.items()]
        points += [
            WordPoints("definitions", words[n].word, DEFINITION * weights[n] * count / (count + 1), count)
            for n, count in enumerate(definitions)
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

    def explain_score(self, path: str, definitions: Sequence[int], speaker: str | None) -> str:
        """Return the words that count most, and the test or page that speaks for the file, as text for people."""
        reasons: list[str] = []
        own, text = self._names.get(path, _NONE)[0], self._texts.get(path)
        if own:
            reasons.append(
                f"name contains {self._join_best({n: much * self._weights[n] for n, much in own.items()}, 2)}"
            )
        defined = {n: self._weights[n] for n, count in enumerate(definitions) if count}
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
        if speaker is not None:
            reasons.append(f"{speaker} is named after it")
        return "; ".join(reasons)

    def _join_best(self, scores: Hits, most: int) -> str:
        return ", ".join(self._keywords[number].word for number in _choose_best(scores, most))


def _compute_rarity(count: int, total: int) -> float:
    return log(1 + (max(0, total - count) + 0.5) / (count + 0.5))


def _choose_best(scores: Hits, most: int) -> list[int]:
    return sorted(scores, key=lambda number: (-scores[number], number))[:most]


def _format_times(count: int) -> str:
    return "" if count == 1 else f" {count} times" if count < MANY else " many times"
