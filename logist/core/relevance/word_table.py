"""The words of many texts, each with the texts that contain it, to count keywords without reading the texts again.

A word is a run of letters and underscores, as it is written: `RateLimiter` and `rate_limiter` are two words. Occurrences
of a keyword lie within such runs, so counting in the table gives the same numbers as counting in the texts, and the
table need not know anything about stems.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, islice

from logist.core.relevance.occurrences import make_finder
from logist.core.relevance.words import Keyword
from logist.quick_tuple import NamedTuple

MOST_WORDS = 20_000
"""Different words of one text that are counted, from its beginning; a text with more is data."""
MOST_COUNT = 255
"""A word counts at most so often in one text."""
_FULL_BYTES = 128_000_000
_FULL_WORDS = 500_000
_FULL_TEXTS = 1 << 16

_SHIFT = 8
"""A posting is the number of a text, followed by the count in this number of bits."""
_LETTERS = bytes(
    byte if byte in b"_" or byte >= 0x80 or chr(byte).isalpha() else ord(" ") for byte in range(256)
)
_END = b"\n"


class WordTable(NamedTuple):
    """A finished table. Texts have the numbers in which they were added."""

    words: bytes
    """All different words, separated by line breaks."""
    starts: array[int]
    """For each word, where it starts in `words`."""
    ends: array[int]
    """For each word, where its postings end; they start where those of the word before end."""
    postings: array[int]

    def count_keywords(self, keywords: Sequence[Keyword]) -> list[dict[int, int]]:
        """Return for each keyword the texts that contain it, and how often."""
        words, low, starts = self.words, self.words.lower(), self.starts
        return [
            self._sum_postings(
                Counter(bisect_right(starts, place) - 1 for place in make_finder(keyword)(words, low))
            )
            for keyword in keywords
        ]

    def _sum_postings(self, numbers: Mapping[int, int]) -> dict[int, int]:
        """Return by text how often it contains some words, from their numbers and how often each is to be counted."""
        ends, postings = self.ends, self.postings
        lists = [
            postings[ends[number - 1] if number else 0 : ends[number]]
            for number, times in numbers.items()
            for _ in range(times)
        ]
        texts = 1 + (max((each[-1] for each in lists), default=0) >> _SHIFT)
        if sum(map(len, lists)) < texts // 2:
            totals: dict[int, int] = {}
            for posting in chain.from_iterable(lists):
                totals[posting >> _SHIFT] = totals.get(posting >> _SHIFT, 0) + (posting & MOST_COUNT)
            return totals
        counts = [0] * texts  # quicker than a dictionary, if most of the texts have the keyword
        for posting in chain.from_iterable(lists):
            counts[posting >> _SHIFT] += posting & MOST_COUNT
        return {text: count for text, count in enumerate(counts) if count}


class WordTableBuilder:
    """Makes a table; it should be finished when it is full, so that its size is bounded."""

    def __init__(self) -> None:
        self.texts = 0
        self.bytes = 0
        self._postings: dict[bytes, array[int]] = defaultdict(partial(array, "I"))

    @property
    def is_full(self) -> bool:
        return self.bytes >= _FULL_BYTES or self.texts >= _FULL_TEXTS or len(self._postings) >= _FULL_WORDS

    def add_text(self, data: bytes) -> None:
        number, postings = self.texts << _SHIFT, self._postings
        counts = Counter(data.translate(_LETTERS).split())
        for word, count in islice(counts.items(), MOST_WORDS):
            postings[word].append(number + (count if count < MOST_COUNT else MOST_COUNT))
        self.texts += 1
        self.bytes += len(data)

    def finish(self) -> WordTable:
        lists = self._postings.values()
        starts = accumulate((len(word) + 1 for word in self._postings), initial=0)
        return WordTable(
            _END.join(self._postings),
            array("I", islice(starts, len(lists))),
            array("I", accumulate(map(len, lists))),
            array("I", chain.from_iterable(lists)),
        )
