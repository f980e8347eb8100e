"""Rank files, best first, by the words of a task in their texts, names and definitions, and by past commits.

The base is BM25: a word that few files contain counts more, and several occurrences count a little more than one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from heapq import nlargest, nsmallest
from itertools import compress, repeat
from math import log, prod, sqrt
from operator import add, mul, not_

from logist.core.relevance.candidates import Candidates
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
from logist.core.relevance.word_table import TextCounts
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
        # One search for all of them; a spelling with other letters may be found in any name.
        ascii_letters = {letters if letters.isascii() else "" for _, letters, _ in self._codes}
        self._code_letters = re.compile("|".join(map(re.escape, sorted(ascii_letters)))).search
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
        may_have_code = joined is None or self._code_letters(joined) is not None
        for number, letters, spelled in self._codes if may_have_code else ():
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


@dataclass
class Texts:
    """Which keywords the files contain. Files with the same content share a number."""

    columns: list[TextCounts]
    """For each keyword, the numbers of the contents that have it, and how often."""
    sizes: list[int] = field(default_factory=list)
    """Of each content, in bytes."""
    contents: list[int] = field(default_factory=list)
    """For each file, the number of the content; -1 if it was not searched."""

    def count_in(self, file: int) -> dict[int, int]:
        """Return how often a file contains each keyword, by their numbers; 0 is left out."""
        number = self.contents[file]
        counts = {keyword: column.get_count(number) for keyword, column in enumerate(self.columns)}
        return {keyword: count for keyword, count in counts.items() if count}


_NO_HITS: Hits = {}
_NO_VOTES: Mapping[str, Vote] = {}
_NOTHING_ELSE = Focus()


def _find_no_definitions(numbers: list[int]) -> Mapping[int, Sequence[int]]:
    return {}


def rank_files(
    keywords: Sequence[Keyword],
    names: Names,
    texts: Texts,
    *,
    files: Candidates,
    searched: int,
    most: int,
    find_definitions: Callable[[list[int]], Mapping[int, Sequence[int]]] = _find_no_definitions,
    votes: Mapping[str, Vote] = _NO_VOTES,
    directories: Sequence[str] = (),
    focus: Focus = _NOTHING_ELSE,
    report: RankingReport | None = None,
) -> list[RankedFile]:
    """Return at most `most` files that contain a keyword, best first.

    `searched`: how many of the files were read; `find_definitions`: takes numbers of files, and returns for each how often
    each keyword is in the name of something that the file defines; `votes`: those of past commits; `directories`: those
    that the task mentions; `focus`: the kinds of files that the task is about; `report`: is filled with all scores, and how
    they came about.
    """
    worth = _Worth(keywords, names, texts, votes, searched)
    scores, paths = worth.score_files(files), files.paths
    weights = _Weights(files, scores, focus, directories)
    # To look for definitions takes long, so this is done only in files that could come first.
    # A definition only adds to the score, so no other file gets before those.
    weighed = weights.weigh_all()
    likely = _choose_best_files(weighed, paths, max(most, _WITH_DEFINITIONS), range(len(paths)))
    definitions = find_definitions(likely)
    for number, counts in definitions.items():
        if scores[number]:
            scores[number] += worth.score_definitions(counts)
    for number in (*likely, *weights.speakers):
        weighed[number] = weights.weigh_file(number)
    best = _choose_best_files(weighed, paths, most, likely)
    if report is not None:
        report.exact_scores = {path: score for path, score in zip(paths, weighed, strict=True) if score}
        report.floor = LEAST * round_score(max(weighed, default=0.0))
        report.words = worth.list_words()
        report.list_factors = lambda path: weights.list_factors(files.numbers[path])

        def list_points(path: str) -> list[WordPoints]:
            number = files.numbers[path]
            points = worth.list_points(files, number, definitions.get(number, ()))
            return points + weights.list_speaker_points(number)

        report.list_points = list_points
    least = LEAST * round_score(weighed[best[0]]) if best else 0.0
    return [
        RankedFile(
            paths[number],
            score,
            worth.explain_score(files, number, definitions.get(number, ()), weights.speakers.get(number)),
        )
        for number in best
        if (score := round_score(weighed[number])) >= least
    ]


class _Weights:
    """Weighs the scores of files by their kinds and places, and adds what tests and pages say about them."""

    def __init__(
        self, files: Candidates, scores: Sequence[float], focus: Focus, directories: Sequence[str]
    ) -> None:
        """`scores`: of the files; they may still change."""
        self._files, self._scores, self._focus = files, scores, focus
        # Many files share a kind, which is one object: to find it by its id is quicker than to hash its fields.
        self._kind_ids = list(map(id, files.kinds))
        kinds = dict(zip(self._kind_ids, files.kinds, strict=True))
        self._factors = {number: _weigh_kind(kind, focus) for number, kind in kinds.items()}
        sources = {number for number, kind in kinds.items() if _is_source(kind)}
        self.speakers = _find_speakers(files, scores, [*map(sources.__contains__, self._kind_ids)])
        places = tuple(f"{directory}/" for directory in directories)
        self._in_places = {
            number
            for directory, start, end in (files.iter_directories() if places else ())
            if directory.startswith(places)
            for number in range(start, end)
        }

    def weigh_all(self) -> list[float]:
        """Return `weigh_file` of all files."""
        weighed = list(map(mul, self._scores, map(self._factors.__getitem__, self._kind_ids)))
        for number in self.speakers.keys() | self._in_places:
            weighed[number] = self.weigh_file(number)
        return weighed

    def weigh_file(self, number: int) -> float:
        weighed, speaker = (
            self._scores[number] * self._factors[self._kind_ids[number]],
            self.speakers.get(number),
        )
        if speaker is not None:
            weighed += BELONGING * self._scores[speaker]
        return weighed * IN_NAMED_DIRECTORY if number in self._in_places else weighed

    def list_factors(self, number: int) -> list[Factor]:
        """Return by what the points of a file are multiplied, with reasons for people."""
        return _list_factors(self._files.kinds[number], self._focus, in_place=number in self._in_places)

    def list_speaker_points(self, number: int) -> list[WordPoints]:
        """Return the points that a file gets from a test or a page, so that multiplied they are what is added."""
        speaker = self.speakers.get(number)
        if speaker is None:
            return []
        # Its share is not weighed by the kind of the file.
        share = BELONGING * self._scores[speaker] / self._factors[self._kind_ids[number]]
        return [WordPoints("a test or page about it", self._files.paths[speaker], share)]


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


def _choose_best_files(
    weighed: Sequence[float], paths: Sequence[str], most: int, among: Sequence[int]
) -> list[int]:
    """Return the numbers of the best of some files, best first, without those that have no score."""
    # Only what can be among the best is rounded and compared by path, too.
    least = min(nlargest(most, map(weighed.__getitem__, among)), default=0.0) - ROUNDING
    best = nsmallest(
        most,
        [
            (-round_score(weighed[number]), paths[number], number)
            for number in among
            if weighed[number] >= least and weighed[number]
        ],
    )
    return [number for *_, number in best]


_WITH_DEFINITIONS = 100


def _weigh_kind(kind: FileKind, focus: Focus) -> float:
    """Return how likely a task with this focus changes files of this kind."""
    return prod(factor.value for factor in _list_factors(kind, focus, in_place=False))


def _find_speakers(files: Candidates, scores: Sequence[float], is_source: Sequence[bool]) -> dict[int, int]:
    """Return for sources the best of the tests and pages that are named after the same thing; all by their numbers.

    `is_source`: for each file.
    """
    about: dict[str, int] = {}
    beside = [*compress(range(len(scores)), map(not_, is_source))]
    least = min(nlargest(_MOST_SPEAKERS, map(scores.__getitem__, beside)), default=0.0)
    best = [
        (scores[number], files.paths[number], number)
        for number in beside
        if scores[number] >= least and scores[number]
    ]
    for _, path, number in nlargest(_MOST_SPEAKERS, best):
        about.setdefault(name_subject(path), number)
    about.pop("", None)
    short = tuple({subject for subject in about if len(subject) < SHORTEST_BEGINNING})
    begun = {subject[:SHORTEST_BEGINNING] for subject in about}
    subjects: dict[str, str] = {}
    sources: dict[str, list[int]] = {}
    for number, low in compress(enumerate(files.low_names), is_source):
        if low[:SHORTEST_BEGINNING] in begun or (short and low.startswith(short)):
            brief = files.names[number].partition(".")[0].rstrip(_DIGITS)  # many files are only numbered
            subject = subjects.get(brief)
            if subject is None:
                subject = subjects[brief] = name_subject(brief)
            if subject in about:
                sources.setdefault(subject, []).append(number)
    return {
        number: about[subject]
        for subject, same in sources.items()
        if len(same) <= MOST_BELONGING
        for number in same
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
        further = _count_further([content for content in texts.contents if content >= 0])
        self._containing = containing = [
            len(column) + (sum(map(further.get, column.texts, repeat(0))) if further else 0)
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
        without = _find_contents_without_keywords(texts)
        size = sum(texts.sizes) - sum(map(texts.sizes.__getitem__, without))
        files = len(texts.sizes) - len(without)
        for content, number in further.items():
            if content not in without:
                size += number * texts.sizes[content]
                files += number
        average = max(1.0, size / max(1, files))
        self._dampings = [SATURATION * (1 - LENGTH + LENGTH * size / average) for size in texts.sizes]

    def score_files(self, files: Candidates) -> list[float]:
        """Return the scores of files without their definitions; 0 if neither the name of a file nor its text contains a
        keyword, and no past commit votes for it.
        """
        of_names, own_hits = self._score_names(files)
        of_texts = [*self._score_texts(), 0.0]  # the last one is for no content
        scores = list(map(add, of_names, map(of_texts.__getitem__, self._texts.contents)))
        if self._votes:
            for number, path in enumerate(files.paths):
                if path in self._votes:
                    scores[number] += PAST * self._votes[path].strength * self._whole
        self._add_directories(scores, files, own_hits)
        return scores

    def _add_directories(self, scores: list[float], files: Candidates, own_hits: Mapping[int, Hits]) -> None:
        """Add the points of the directories to the scores of files that have any."""
        for directory, start, end in files.iter_directories():
            above = self._score_directory(directory)
            if not above:
                continue
            for number in range(start, end):
                if scores[number]:
                    own = own_hits.get(number, _NO_HITS)
                    for keyword, points in above:
                        if keyword not in own:
                            scores[number] += points

    def _score_names(self, files: Candidates) -> tuple[list[float], dict[int, Hits]]:
        """Return the scores of all names, and the hits of those that have any, by their numbers."""
        weights, names = self._weights, self._names
        scores = [0.0] * len(files.names)
        own_hits: dict[int, Hits] = {}
        by_name: dict[str, tuple[float, Hits]] = {}
        for number in names.find_candidates(files.names, files.low_names):
            name = name_briefly(files.names[number])
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
            for content, count in column.iter_pairs():
                scores[content] += most * count / (count + dampings[content])
        return scores

    def score_definitions(self, counts: Sequence[int]) -> float:
        """Return what definitions with keywords in their names add, from their numbers."""
        return DEFINITION * sum(
            self._weights[number] * count / (count + 1) for number, count in enumerate(counts)
        )

    def _score_text(self, file: int, counts: Mapping[int, int]) -> Hits:
        """Return BM25 by keyword, from how often a file contains each."""
        damping = self._dampings[self._texts.contents[file]] if self._dampings else 0.0
        return {
            number: self._weights[number] * (SATURATION + 1) * count / (count + damping)
            for number, count in counts.items()
        }

    def list_words(self) -> list[RankedWord]:
        """Return the words of the task with their weights, the heaviest first."""
        words = zip(self._keywords, self._weights, self._containing, strict=True)
        ranked = [RankedWord(keyword.word, weight, files) for keyword, weight, files in words]
        return sorted(ranked, key=lambda word: (-word.weight, word.word))

    def list_points(self, files: Candidates, file: int, definitions: Sequence[int]) -> list[WordPoints]:
        """Return the points whose sum `score_files` and `score_definitions` return."""
        path = files.paths[file]
        own, above = self._names.find_hits(path)
        counts, vote = self._texts.count_in(file), self._votes.get(path)
        words, weights = self._keywords, self._weights
        points = [WordPoints("name", words[n].word, NAME * much * weights[n]) for n, much in own.items()]
        points += [
            WordPoints("definitions", words[n].word, DEFINITION * weights[n] * count / (count + 1), count)
            for n, count in enumerate(definitions)
            if count
        ]
        points += [
            WordPoints("text", words[n].word, value, counts[n])
            for n, value in self._score_text(file, counts).items()
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

    def explain_score(
        self, files: Candidates, file: int, definitions: Sequence[int], speaker: int | None
    ) -> str:
        """Return the words that count most, and the test or page that speaks for the file, as text for people."""
        reasons: list[str] = []
        path = files.paths[file]
        own, counts = self._names.find_hits(path)[0], self._texts.count_in(file)
        if own:
            reasons.append(
                f"name contains {self._join_best({n: much * self._weights[n] for n, much in own.items()}, 2)}"
            )
        defined = {n: self._weights[n] for n, count in enumerate(definitions) if count}
        if defined:
            reasons.append(f"defines {self._join_best(defined, 2)}")
        if counts:
            best = _choose_best(self._score_text(file, counts), 3)
            reasons.append(
                f"contains {', '.join(f'{self._keywords[n].word}{_format_times(counts[n])}' for n in best)}"
            )
        vote = self._votes.get(path)
        if vote is not None:
            about = self._join_best({n: self._weights[n] for n in vote.keywords}, 2)
            reasons.append(f"changed by past commits about {about}")
        if speaker is not None:
            reasons.append(f"{files.paths[speaker]} is named after it")
        return "; ".join(reasons)

    def _join_best(self, scores: Hits, most: int) -> str:
        return ", ".join(self._keywords[number].word for number in _choose_best(scores, most))


def _find_contents_without_keywords(texts: Texts) -> set[int]:
    """Return the contents that have no keyword."""
    without = set(range(len(texts.sizes)))
    for column in sorted(texts.columns, key=len, reverse=True):
        without = column.find_missing(without)
    return without


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
