"""The words of many texts, each with the texts that contain it, to count keywords without reading the texts again.

A word is a run of letters and underscores, as it is written: `RateLimiter` and `rate_limiter` are two words. Occurrences
of a keyword lie within such runs, so counting in the table gives the same numbers as counting in the texts, and the
table need not know anything about stems.

Most keywords are single words of prose, which are found as one component of such a word: `limiter` in both of the above.
So the table also has the words with each component: to search all words for it takes ten times as long.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, islice
from typing import Protocol

from logist.core.relevance.occurrences import is_found_as_component, make_finder, split_components
from logist.core.relevance.words import Keyword, stem_word
from logist.quick_tuple import NamedTuple

MOST_WORDS = 20_000
"""Different words of one text that are counted, from its beginning; a text with more is data."""
MOST_COUNT = 255
"""A word counts at most so often in one text."""
_FULL_BYTES = 128_000_000
_FULL_WORDS = 500_000
_FULL_TEXTS = 1 << 16

_MANY_POSTINGS = 1 << 15
_MANY_LISTS = 1_000
"""To add up so many takes milliseconds, so this is done once for each component, not for each search."""
_SHIFT = 16
"""A posting is the number of a text, followed by the count in this number of bits."""
_MOST_SUM = (1 << _SHIFT) - 1
_TEXT = memoryview(array("I", [1])).cast("B").cast("H")[0]
_COUNT = 1 - _TEXT
"""The places of the halves of a posting in memory, which depend on the processor."""
_LETTERS = bytes(
    byte if byte in b"_" or byte >= 0x80 or chr(byte).isalpha() else ord(" ") for byte in range(256)
)
_END = b"\n"


class Postings(Protocol):
    """The postings of a table: in memory, or in a file of which only what is needed is read."""

    def __getitem__(self, place: slice, /) -> memoryview: ...


class TextCounts:
    """Which texts contain something, and how often, as two long lists: a dictionary of them takes longer to make."""

    def __init__(self, texts: Sequence[int] = (), counts: Sequence[int] = ()) -> None:
        """`texts`: their numbers, in ascending order."""
        self.texts, self.counts = texts, counts

    @classmethod
    def from_totals(cls, totals: Mapping[int, int]) -> TextCounts:
        """Return the counts in a dictionary, by the numbers of the texts."""
        texts = sorted(totals)
        return cls(texts, list(map(totals.__getitem__, texts)))

    def __len__(self) -> int:
        return len(self.texts)

    def get_count(self, text: int) -> int:
        """Return how often a text contains it."""
        place = bisect_left(self.texts, text)
        return self.counts[place] if place < len(self.texts) and self.texts[place] == text else 0

    def iter_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the texts with their counts."""
        return zip(_copy_to_list(self.texts), _copy_to_list(self.counts), strict=True)

    def find_missing(self, texts: set[int]) -> set[int]:
        """Return those of some texts that don't contain it."""
        if len(texts) * _SEARCH_EFFORT < len(self):
            return {text for text in texts if not self.get_count(text)}
        return texts.difference(_copy_to_list(self.texts))

    def drop(self, others: Collection[int]) -> TextCounts:
        """Return the same without some texts."""
        if len(others) < _FEW_OTHERS:
            texts, counts = [*_copy_to_list(self.texts)], [*_copy_to_list(self.counts)]
            for other in others:
                place = bisect_left(texts, other)
                if place < len(texts) and texts[place] == other:
                    del texts[place], counts[place]
            return TextCounts(texts, counts)
        return TextCounts.from_totals(
            {text: count for text, count in self.iter_pairs() if text not in others}
        )

    def append(self, column: TextCounts, first: int) -> TextCounts:
        """Return these, followed by those of other texts, whose numbers begin at `first`."""
        texts = [first + text for text in _copy_to_list(column.texts)]
        return TextCounts(
            [*_copy_to_list(self.texts), *texts], [*_copy_to_list(self.counts), *_copy_to_list(column.counts)]
        )


_FEW_OTHERS = 100
_SEARCH_EFFORT = 16
"""To look for one text takes as long as to look at so many of all texts in turn."""


def _copy_to_list(numbers: Sequence[int]) -> Sequence[int]:
    return numbers.tolist() if isinstance(numbers, memoryview) else numbers  # several times faster to iterate


class WordTable(NamedTuple):
    """A finished table. Texts have the numbers in which they were added.

    All columns of numbers are views of memory, so that those of a file need not be copied.
    """

    words: bytes
    """All different words, separated by line breaks."""
    starts: memoryview
    """For each word, where it starts in `words`."""
    ends: memoryview
    """For each list of postings, where it ends; it starts where the one before ends. The first ones belong to the words."""
    components: bytes
    """All different components of words, in lowercase and sorted, each before a line break."""
    component_starts: memoryview
    """For each component, where it starts in `components`."""
    component_ends: memoryview
    """For each component, where its numbers in `containing` end; they start where those of the one before end."""
    containing: memoryview
    """For each component, the numbers of the lists of the words that contain it, as often as they contain it; or one
    number of a list that has their sum.
    """
    postings: Postings

    def pack_postings(self) -> bytes:
        """Return all postings as they are in memory."""
        return bytes(self.postings[0 : self.ends[-1] if self.ends else 0])

    def count_keywords(self, keywords: Sequence[Keyword]) -> list[TextCounts]:
        """Return for each keyword the texts that contain it."""
        low = self.words.lower()
        return [
            self._sum_postings(
                self._find_components(keyword)
                if is_found_as_component(keyword)
                else self._find_words(keyword, low)
            )
            for keyword in keywords
        ]

    def _find_components(self, keyword: Keyword) -> list[int]:
        """Return the lists of the components that are forms of a keyword: all begin with its stem."""
        lists: list[int] = []
        needle = keyword.needle.encode("ascii")
        first = bisect_left(range(len(self.component_starts)), needle, key=self._get_component)
        for number in range(first, len(self.component_starts)):
            component = self._get_component(number)
            if not component.startswith(needle):
                break
            if stem_word(component.decode("ascii")) == keyword.needle:
                lists += self.containing[_get_range(self.component_ends, number)]
        return lists

    def _get_component(self, number: int) -> bytes:
        start = self.component_starts[number]
        return self.components[start : self.components.index(_END, start)]

    def _find_words(self, keyword: Keyword, low: bytes) -> list[int]:
        """Return the lists of the words that contain a keyword, as often as they contain it."""
        return [bisect_right(self.starts, place) - 1 for place in make_finder(keyword)(self.words, low)]

    def _sum_postings(self, lists: Sequence[int]) -> TextCounts:
        """Return which texts contain something, from the numbers of its lists of postings."""
        places = sorted((_get_range(self.ends, number) for number in lists), key=_measure_range)
        if not places:
            return TextCounts()
        *others, longest = [self.postings[place].cast("B").cast("H") for place in places]
        if not others:  # most components of words have one list, and the texts are in order
            return TextCounts(longest[_TEXT::2], longest[_COUNT::2])
        totals = dict(zip(_take(longest, _TEXT), _take(longest, _COUNT), strict=True))
        texts = chain.from_iterable(_take(halves, _TEXT) for halves in others)
        counts = chain.from_iterable(_take(halves, _COUNT) for halves in others)
        for text, count in zip(texts, counts, strict=True):
            totals[text] = totals.get(text, 0) + count
        return TextCounts.from_totals(totals)


def _get_range(ends: memoryview, number: int) -> slice:
    return slice(ends[number - 1] if number else 0, ends[number])


def _measure_range(place: slice) -> int:
    return int(place.stop) - int(place.start)


def _take(halves: memoryview, half: int) -> list[int]:
    """Return the numbers of texts or the counts in some postings."""
    return halves[half::2].tolist()


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
        lists: list[Sequence[int]] = list(self._postings.values())
        components = sorted(_list_containing_words(self._postings).items())
        for _, containing in components:
            parts = [lists[number] for number in containing]
            if len(parts) >= _MANY_LISTS or (len(parts) > 1 and sum(map(len, parts)) >= _MANY_POSTINGS):
                containing[:] = [len(lists)]
                lists.append(_add_postings(parts))
        return WordTable(
            _END.join(self._postings),
            _view(_list_starts(self._postings)),
            _view(accumulate(map(len, lists))),
            b"".join(component + _END for component, _ in components),
            _view(_list_starts([component for component, _ in components])),
            _view(accumulate(len(containing) for _, containing in components)),
            _view(chain.from_iterable(containing for _, containing in components)),
            _view(chain.from_iterable(lists)),
        )


def _list_starts(words: Collection[bytes]) -> Iterable[int]:
    """Return where each word starts if they are separated by one byte."""
    return islice(accumulate((len(word) + 1 for word in words), initial=0), len(words))


def _view(numbers: Iterable[int]) -> memoryview:
    return memoryview(array("I", numbers))


def _list_containing_words(words: Iterable[bytes]) -> dict[bytes, list[int]]:
    """Return for each component the numbers of the words that contain it, as often as they contain it."""
    containing: dict[bytes, list[int]] = defaultdict(list)
    for number, word in enumerate(words):
        for component in split_components(word):
            containing[component].append(number)
    return containing


def _add_postings(lists: Iterable[Iterable[int]]) -> array[int]:
    """Return one posting for each text, with the sum of its counts."""
    totals: dict[int, int] = {}
    for posting in chain.from_iterable(lists):
        text = posting >> _SHIFT
        totals[text] = totals.get(text, 0) + (posting & _MOST_SUM)
    return array("I", ((text << _SHIFT) + min(count, _MOST_SUM) for text, count in sorted(totals.items())))
