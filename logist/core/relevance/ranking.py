"""Rank files, best first, by the words of a task in their texts, names and definitions, and by past commits.

The base is BM25: a word that few files contain counts more, and several occurrences count a little more than one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from heapq import nlargest, nsmallest
from itertools import compress, repeat
from math import log, prod, sqrt
from operator import add, mul, not_

from logist.core.relevance.kinds import FileKind, name_subject
from logist.core.relevance.occurrences import MANY
from logist.core.relevance.past_commits import Vote
from logist.core.relevance.ranking_report import (
    ROUNDING,
    Factor,
    RankedWord,
    RankingReport,
    WordPoints,
    round_score,
)
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
    """Finds keywords in file names; computed once for each word, each name and each directory."""

    def __init__(self, keywords: Sequence[Keyword]) -> None:
        self.keywords = keywords
        self._words: dict[str, Hits] = {}
        self._names: dict[str, Hits] = {}
        self._parts: dict[str, Hits] = {}
        self._directories: dict[str, Hits] = {"": {}}
        self._codes = [
            (number, each.needle.replace("_", ""), _compile_spellings(each))
            for number, each in enumerate(keywords)
            if each.code
        ]
        self._code_numbers = {number for number, _, _ in self._codes}
        self._stems = re.compile(
            "|".join(re.escape(each.needle) for each in keywords if not each.code)
        ).search
        self._abbreviations = {
            each.needle[:end]
            for each in keywords
            if not each.code
            for end in range(SHORTEST_BEGINNING, len(each.needle))
        }
        # A name that matches a keyword contains its beginning; most names contain none and can be skipped quickly.
        begun = {each.needle.partition("_")[0][:SHORTEST_BEGINNING] for each in keywords}
        self._beginning = re.compile("|".join(map(re.escape, sorted(begun)))).search

    def find_hits(self, path: str) -> tuple[Hits, Hits]:
        """Return the hits of a file's own name, and those of the directories above it."""
        return self.find_own_hits(name_briefly(path)), self.find_directory_hits(path[: path.rfind("/") + 1])

    def find_own_hits(self, name: str) -> Hits:
        """Return the hits of a name from `name_briefly`."""
        hits = self._names.get(name)
        if hits is None:
            hits, words = self._find_name_hits(name)
            hits = self._names[name] = self._reduce_hits(hits, words)
        return hits

    def find_candidates(self, names: Sequence[str], low_names: Sequence[str]) -> list[int]:
        """Return the numbers of the names in which a keyword could be; `low_names`: the same names in lowercase."""
        begins = self._beginning
        return [
            number
            for number, (name, low) in enumerate(zip(names, low_names, strict=True))
            if begins(low) or not name.isascii()
        ]

    def _reduce_hits(self, hits: Hits, words: int) -> Hits:
        """Return less for a name with other words: `context_menu_of_editors` is hardly about a context."""
        if not hits:
            return hits
        plain = len(hits.keys() - self._code_numbers)
        share = sqrt(min(1.0, max(1, plain) / max(1, words)))
        return {number: much * share for number, much in hits.items()}

    def find_directory_hits(self, directory: str) -> Hits:
        """Return the hits of a directory and those above it; its path ends with `/`."""
        hits = self._directories.get(directory)
        if hits is None:
            cut = directory.rfind("/", 0, -1) + 1
            hits = self.find_directory_hits(directory[:cut])
            name = directory[cut:-1].rstrip(_DIGITS)
            own = self._parts.get(name)
            if own is None:
                own, _ = self._find_name_hits(name)
                self._parts[name] = own
            if own:
                hits = {
                    number: max(hits.get(number, 0.0), own.get(number, 0.0)) for number in {**hits, **own}
                }
            self._directories[directory] = hits
        return hits

    def _find_name_hits(self, text: str) -> tuple[Hits, int]:
        """Return the hits, and the number of words in the name if there are any."""
        best: Hits = {}
        low = text.lower() if text.isascii() else None
        if low is not None and self._beginning(low) is None:
            return best, 0
        known, words = self._words, split_name(text)
        for word in words:
            hits = known.get(word)
            if hits is None:
                low_word = word.lower()
                may_match = low_word in self._abbreviations or self._stems(low_word) is not None
                hits = known[word] = dict(self._match_word(low_word)) if may_match else {}
            if hits:
                for number, much in hits.items():
                    if much > best.get(number, 0.0):
                        best[number] = much
        joined = low.replace("_", "").replace("-", "") if low is not None else None
        for number, letters, spelled in self._codes:
            if (joined is None or letters in joined or not letters.isascii()) and spelled(text):
                best[number] = 1.0
        return best, len(words)

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


_DIGITS = "0123456789"


def name_briefly(path: str) -> str:
    """Return the name of a file without its last ending and the digits before it, in which no keyword can be: many
    files are only numbered, and have the same hits.
    """
    name = path.rpartition("/")[2]
    return (name.rpartition(".")[0] or name).rstrip(_DIGITS)


def lower_names(names: Sequence[str]) -> list[str]:
    """Return names in lowercase, all at once."""
    return "/".join(names).lower().split("/") if names else []


@dataclass
class Texts:
    """Which keywords the files contain. Files with the same content share a number."""

    columns: list[dict[int, int]]
    """For each keyword, how often a content has it, by the number of the content; 0 is left out."""
    sizes: list[int] = field(default_factory=list)
    """Of each content, in bytes."""
    contents: dict[str, int] = field(default_factory=dict)
    """By path, the number of the content."""

    def count_in(self, path: str) -> dict[int, int]:
        """Return how often a file contains each keyword, by their numbers; 0 is left out."""
        number = self.contents.get(path, -1)
        return {keyword: column[number] for keyword, column in enumerate(self.columns) if number in column}


_NO_HITS: Hits = {}
_NO_VOTES: Mapping[str, Vote] = {}
_NOTHING_ELSE = Focus()


def _find_no_definitions(paths: list[str]) -> Mapping[str, Sequence[int]]:
    return {}


def rank_files(
    keywords: Sequence[Keyword],
    names: Names,
    texts: Texts,
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
    worth = _Worth(keywords, names, texts, votes, searched)
    places = tuple(f"{directory}/" for directory in directories)
    paths = list(files)
    file_names = [path[path.rfind("/") + 1 :] for path in paths]
    low_names = lower_names(file_names)
    all_scores = worth.score_files(paths, file_names, low_names)
    scores = dict(zip(paths, all_scores, strict=True))
    # Many files share a kind, which is one object: to find it by its id is quicker than to hash its fields.
    kind_ids = list(map(id, files.values()))
    kinds = dict(zip(kind_ids, files.values(), strict=True))
    factors = {number: _weigh_kind(kind, focus) for number, kind in kinds.items()}
    sources = {number for number, kind in kinds.items() if _is_source(kind)}
    is_source = [number in sources for number in kind_ids]
    speakers = _find_speakers(scores, paths, file_names, low_names, is_source)

    def weigh_files(paths: Iterable[str]) -> dict[str, float]:
        return add_for_surroundings({path: scores[path] * factors[id(files[path])] for path in paths})

    def add_for_surroundings(weighed: dict[str, float]) -> dict[str, float]:
        for path in speakers.keys() & weighed.keys():
            weighed[path] += BELONGING * scores[speakers[path]]
        if places:
            weighed |= {
                path: score * IN_NAMED_DIRECTORY for path, score in weighed.items() if path.startswith(places)
            }
        return weighed

    # To look for definitions takes long, so this is done only in files that could come first.
    # A definition only adds to the score, so no other file gets before those.
    by_kind = map(mul, all_scores, map(factors.__getitem__, kind_ids))
    weighed = add_for_surroundings(dict(zip(paths, by_kind, strict=True)))
    weighed = _leave_out_unscored(weighed, scores, speakers)
    likely = [path for _, path in _choose_best_files(weighed, max(most, _WITH_DEFINITIONS))]
    definitions = find_definitions(likely)
    for path, counts in definitions.items():
        if scores[path]:
            scores[path] += worth.score_definitions(counts)
    best = _choose_best_files(weigh_files(likely), most)
    if report is not None:
        weighed |= weigh_files({*likely, *speakers})
        report.exact_scores = weighed
        report.floor = LEAST * round_score(max(weighed.values(), default=0.0))
        report.words = worth.list_words()
        report.list_factors = lambda path: _list_factors(files[path], focus, in_place=path.startswith(places))

        def list_points(path: str) -> list[WordPoints]:
            points, speaker = worth.list_points(path, definitions.get(path, ())), speakers.get(path)
            if speaker is not None:  # its share is not weighed by the kind of the file
                share = BELONGING * scores[speaker] / factors[id(files[path])]
                points.append(WordPoints("a test or page about it", speaker, share))
            return points

        report.list_points = list_points
    return [
        RankedFile(path, -score, worth.explain_score(path, definitions.get(path, ()), speakers.get(path)))
        for score, path in best
        if score <= LEAST * best[0][0]
    ]


def _leave_out_unscored(
    weighed: dict[str, float], scores: Mapping[str, float], speakers: Mapping[str, str]
) -> dict[str, float]:
    """Return the files that have a score or a speaker; often, these are all."""
    if all(scores.values()):
        return weighed
    return {path: score for path, score in weighed.items() if scores[path] or path in speakers}


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


def _choose_best_files(weighed: Mapping[str, float], most: int) -> list[tuple[float, str]]:
    """Return negated scores with their files, best first."""
    # Only what can be among the best is rounded and compared by path, too.
    least = min(nlargest(most, weighed.values()), default=0.0) - ROUNDING
    return nsmallest(most, [(-round_score(score), path) for path, score in weighed.items() if score >= least])


_WITH_DEFINITIONS = 100


def _weigh_kind(kind: FileKind, focus: Focus) -> float:
    """Return how likely a task with this focus changes files of this kind."""
    return prod(factor.value for factor in _list_factors(kind, focus, in_place=False))


def _find_speakers(
    scores: Mapping[str, float],
    paths: Sequence[str],
    file_names: Sequence[str],
    low_names: Sequence[str],
    is_source: Sequence[bool],
) -> dict[str, str]:
    """Return for sources the best of the tests and pages that are named after the same thing.

    `file_names`: of the files; `low_names`: the same in lowercase; `is_source`: for each of them.
    """
    about: dict[str, str] = {}
    beside = {path: scores[path] for path in compress(paths, map(not_, is_source)) if scores[path]}
    least = min(nlargest(_MOST_SPEAKERS, beside.values()), default=0.0)
    best = ((score, path) for path, score in beside.items() if score >= least)
    for _, path in nlargest(_MOST_SPEAKERS, best):
        about.setdefault(name_subject(path), path)
    about.pop("", None)
    short = tuple({subject for subject in about if len(subject) < SHORTEST_BEGINNING})
    begun = {subject[:SHORTEST_BEGINNING] for subject in about}
    subjects: dict[str, str] = {}
    sources: dict[str, list[str]] = {}
    for path, name, low in compress(zip(paths, file_names, low_names, strict=True), is_source):
        if low[:SHORTEST_BEGINNING] in begun or (short and low.startswith(short)):
            brief = name.partition(".")[0].rstrip(_DIGITS)  # many files are only numbered
            subject = subjects.get(brief)
            if subject is None:
                subject = subjects[brief] = name_subject(brief)
            if subject in about:
                sources.setdefault(subject, []).append(path)
    return {
        path: about[subject]
        for subject, same in sources.items()
        if len(same) <= MOST_BELONGING
        for path in same
    }


_MOST_SPEAKERS = 100
"""Only so many tests and pages are looked at, the best ones."""


def _is_source(kind: FileKind) -> bool:
    return kind.worth == 1.0 and not kind.test and not kind.example


class _Worth:
    """Scores files by the weights of the keywords: the fewer files contain one, the more it counts."""

    def __init__(
        self,
        keywords: Sequence[Keyword],
        names: Names,
        texts: Texts,
        votes: Mapping[str, Vote],
        searched: int,
    ) -> None:
        self._keywords, self._names, self._texts, self._votes = keywords, names, texts, votes
        further = _count_further(texts.contents.values())
        self._containing = containing = [
            len(column) + sum(further[number] for number in column.keys() & further.keys())
            for column in texts.columns
        ]
        self._weights = [
            keyword.weight * _compute_rarity(count, searched)
            for keyword, count in zip(keywords, containing, strict=True)
        ]
        self._whole = sum(
            weight for keyword, weight in zip(keywords, self._weights, strict=True) if not keyword.compound
        )
        # Each file that has a keyword counts, those with the same content, too.
        having = set[int]().union(*texts.columns)
        size = sum(map(texts.sizes.__getitem__, having))
        size += sum(number * texts.sizes[content] for content, number in further.items() if content in having)
        files = len(having) + sum(number for content, number in further.items() if content in having)
        average = max(1.0, size / max(1, files))
        self._dampings = [SATURATION * (1 - LENGTH + LENGTH * size / average) for size in texts.sizes]

    def score_files(
        self, paths: Sequence[str], file_names: Sequence[str], low_names: Sequence[str]
    ) -> list[float]:
        """Return the scores of files without their definitions; 0 if neither the name of a file nor its text contains a
        keyword, and no past commit votes for it.

        `file_names`: of the files, in the same order; `low_names`: the same in lowercase.
        """
        of_names, own_hits = self._score_names(file_names, low_names)
        of_texts = [*self._score_texts(), 0.0]
        contents = map(self._texts.contents.get, paths, repeat(-1))  # the last one is for no content
        scores = list(map(add, of_names, map(of_texts.__getitem__, contents)))
        if self._votes:
            for number, path in enumerate(paths):
                if path in self._votes:
                    scores[number] += PAST * self._votes[path].strength * self._whole
        self._add_directories(scores, paths, file_names, own_hits)
        return scores

    def _add_directories(
        self,
        scores: list[float],
        paths: Sequence[str],
        file_names: Sequence[str],
        own_hits: Mapping[int, Hits],
    ) -> None:
        """Add the points of the directories to the scores of files that have any."""
        of_directories: dict[str, list[tuple[int, float]]] = {}
        directory, above = "", list[tuple[int, float]]()
        for number, (path, name, score) in enumerate(zip(paths, file_names, scores, strict=True)):
            if not score:
                continue
            end = len(path) - len(name)
            if end != len(directory) or not path.startswith(
                directory
            ):  # mostly, it is that of the file before
                directory = path[:end]
                if directory not in of_directories:
                    of_directories[directory] = self._score_directory(directory)
                above = of_directories[directory]
            if above:
                own = own_hits.get(number, _NO_HITS)
                for keyword, points in above:
                    if keyword not in own:
                        scores[number] += points

    def _score_names(
        self, file_names: Sequence[str], low_names: Sequence[str]
    ) -> tuple[list[float], dict[int, Hits]]:
        """Return the scores of all names, and the hits of those that have any, by their numbers."""
        weights, names = self._weights, self._names
        scores = [0.0] * len(file_names)
        own_hits: dict[int, Hits] = {}
        by_name: dict[str, tuple[float, Hits]] = {}
        for number in names.find_candidates(file_names, low_names):
            name = name_briefly(file_names[number])
            known = by_name.get(name)
            if known is None:
                hits = names.find_own_hits(name)
                score = NAME * sum(much * weights[keyword] for keyword, much in hits.items())
                known = by_name[name] = score, hits
            if known[1]:
                scores[number], own_hits[number] = known
        return scores, own_hits

    def _score_directory(self, path: str) -> list[tuple[int, float]]:
        """Return the points of each keyword in a directory and those above it."""
        hits = self._names.find_directory_hits(path)
        return [(keyword, NAME * DIRECTORY * much * self._weights[keyword]) for keyword, much in hits.items()]

    def _score_texts(self) -> list[float]:
        """Return the sum of `_score_text` for each content; adding keyword by keyword is quicker than file by file."""
        scores, dampings = [0.0] * len(self._dampings), self._dampings
        for weight, column in zip(self._weights, self._texts.columns, strict=True):
            most = weight * (SATURATION + 1)
            for content, count in column.items():
                scores[content] += most * count / (count + dampings[content])
        return scores

    def score_definitions(self, counts: Sequence[int]) -> float:
        """Return what definitions with keywords in their names add, from their numbers."""
        return DEFINITION * sum(
            self._weights[number] * count / (count + 1) for number, count in enumerate(counts)
        )

    def _score_text(self, path: str) -> Hits:
        """Return BM25 by keyword."""
        damping = self._dampings[self._texts.contents.get(path, 0)] if self._dampings else 0.0
        return {
            number: self._weights[number] * (SATURATION + 1) * count / (count + damping)
            for number, count in self._texts.count_in(path).items()
        }

    def list_words(self) -> list[RankedWord]:
        """Return the words of the task with their weights, the heaviest first."""
        words = zip(self._keywords, self._weights, self._containing, strict=True)
        ranked = [RankedWord(keyword.word, weight, files) for keyword, weight, files in words]
        return sorted(ranked, key=lambda word: (-word.weight, word.word))

    def list_points(self, path: str, definitions: Sequence[int]) -> list[WordPoints]:
        """Return the points whose sum `score_files` and `score_definitions` return."""
        own, above = self._names.find_hits(path)
        counts, vote = self._texts.count_in(path), self._votes.get(path)
        words, weights = self._keywords, self._weights
        points = [WordPoints("name", words[n].word, NAME * much * weights[n]) for n, much in own.items()]
        points += [
            WordPoints("definitions", words[n].word, DEFINITION * weights[n] * count / (count + 1), count)
            for n, count in enumerate(definitions)
            if count
        ]
        points += [
            WordPoints("text", words[n].word, value, counts[n]) for n, value in self._score_text(path).items()
        ]
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
        own, counts = self._names.find_hits(path)[0], self._texts.count_in(path)
        if own:
            reasons.append(
                f"name contains {self._join_best({n: much * self._weights[n] for n, much in own.items()}, 2)}"
            )
        defined = {n: self._weights[n] for n, count in enumerate(definitions) if count}
        if defined:
            reasons.append(f"defines {self._join_best(defined, 2)}")
        if counts:
            best = _choose_best(self._score_text(path), 3)
            reasons.append(
                f"contains {', '.join(f'{self._keywords[n].word}{_format_times(counts[n])}' for n in best)}"
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


def _count_further(contents: Collection[int]) -> dict[int, int]:
    """Return the contents that several files have, each with the number of files after the first."""
    if len(frozenset(contents)) == len(contents):  # to count takes much longer
        return {}
    return {content: number - 1 for content, number in Counter(contents).items() if number > 1}


def _compute_rarity(count: int, total: int) -> float:
    return log(1 + (max(0, total - count) + 0.5) / (count + 0.5))


def _choose_best(scores: Hits, most: int) -> list[int]:
    return sorted(scores, key=lambda number: (-scores[number], number))[:most]


def _format_times(count: int) -> str:
    return "" if count == 1 else f" {count} times" if count < MANY else " many times"
