"""Count in the text of a file the words of a task: as words of their own, as parts of names, and in definitions.

Text is searched for stems as bytes, which is many times faster than splitting it into words. Only where a stem
occurs is the word around it looked at, so that `log` is found in `logging` and `isLogged`, but not in `catalog`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from logist.core.relevance.words import Keyword, split_lowercase, stem_word
from logist.lazy_patterns import compile_on_use

MANY = 10
"""So many occurrences in a file are not counted for a person."""

_WORD = compile_on_use(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_UPPER = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LETTERS = _UPPER | frozenset(b"abcdefghijklmnopqrstuvwxyz")

# All repetitions are bounded, so that no line takes long.
_MODIFIERS = (
    rb"(?:export|default|pub(?:\([a-z]{1,20}\))?|public|private|protected|internal|static|final|abstract|async|unsafe"
    rb"|const|declare|inline|override|open|sealed|data|suspend)"
)
_KINDS = (
    rb"(?:class|def|func|fn|fun|struct|enum|interface|type|trait|impl|module|function\*?|macro_rules!|mod|const|let|var"
    rb"|val|static|object|record|sub|proc|defp|defmodule|union|namespace)"
)
_RECEIVER = rb"(?:\([^)\n]{0,100}\)[ \t]{1,4})?(?:self\.)?"
_KEYWORD_FORM = rb"(?:%b[ \t]{1,4}){0,6}%b[ \t]{1,4}%b([A-Za-z_$][\w$]{0,100})" % (
    _MODIFIERS,
    _KINDS,
    _RECEIVER,
)
_TYPED_FORM = (  # a method of Java, C# and the like: modifiers, a type, a name, a parenthesis
    rb"(?:(?:public|private|protected|internal|static|final|synchronized|abstract|default|override|virtual)[ \t]{1,4}){1,6}"
    rb"[\w<>\[\],.?]{1,100}(?: [\w<>\[\],.?]{1,100}){0,4}?[ \t]{1,4}(\w{1,100})[ \t]{0,4}\("
)
# Most lines are no definitions, and should be left quickly: the search begins at line breaks, so a text needs one before
# it; the spaces are never tried again with fewer of them; and the first letter is looked at before all the words.
_DEFINITION = compile_on_use(rb"\n[ \t]{0,60}+(?=[ac-fil-pr-v])(?:%b|%b)" % (_KEYWORD_FORM, _TYPED_FORM))


def is_found_as_component(keyword: Keyword) -> bool:
    """Whether a keyword only occurs as one of the components that `split_components` returns."""
    return not keyword.code and keyword.needle.isascii() and keyword.needle.isalpha()


def split_components(word: bytes) -> list[bytes]:
    """Return the components of a name of code in lowercase, without letters that are not ASCII: `rate` and `limiter` of
    `RateLimiter`.
    """
    if word.islower() and word.isalpha():
        return [word]
    return [component.lower() for component in _WORD.findall(word)]


def make_finder(keyword: Keyword) -> Callable[[bytes, bytes], Iterator[int]]:
    """Return a function that yields where a keyword occurs in a text; it takes the text, and the same text in lowercase.

    An occurrence never contains a space or a line break, and depends only on the letters next to it.
    """
    needle = keyword.needle.encode("utf-8", "surrogatepass")
    if keyword.code:
        joined = needle.replace(b"_", b"")
        return lambda data, low: chain(_find_all(low, needle), _find_all(low, joined))
    if (
        not keyword.needle.isascii()
    ):  # a language without ASCII letters may have no spaces between words either
        return lambda data, low: _find_all(low, needle)
    known: dict[bytes, bool] = {}

    def is_form(word: bytes) -> bool:
        same = known.get(word)
        if same is None:
            same = known[word] = stem_word(word.decode("ascii").lower()) == keyword.needle
        return same

    def find(data: bytes, low: bytes) -> Iterator[int]:
        for place in _find_all(low, needle, 1):  # in `attributesTest`, the first `test` overlaps the word
            if _begins_word(data, place):
                match = _WORD.match(data, place)
                if match is not None and is_form(match[0]):
                    yield place

    return find


def _find_all(low: bytes, needle: bytes, step: int = 0) -> Iterator[int]:
    place = low.find(needle)
    while place >= 0:
        yield place
        place = low.find(needle, place + (step or len(needle)))


def _begins_word(data: bytes, place: int) -> bool:
    """Whether a word begins here: after something that is no letter, or with a capital as in `isValid`, `HTTPServer`."""
    if not place or data[place - 1] not in _LETTERS:
        return True
    if data[place] not in _UPPER:
        return False
    after = place + 1
    return data[place - 1] not in _UPPER or (after < len(data) and data[after] in _LETTERS - _UPPER)


class CodeNames:
    """Finds keywords in names of code: as one of its words, or as all of them together.

    One object should serve many files, because the same names occur again and again.
    """

    def __init__(self, keywords: Sequence[Keyword]) -> None:
        self.keywords = keywords
        self._known: dict[str, frozenset[int]] = {}
        self._numbers = {keyword.needle.replace("_", ""): number for number, keyword in enumerate(keywords)}
        self._may_match = re.compile("|".join(map(re.escape, self._numbers))).search

    def find_keywords(self, name: str) -> frozenset[int]:
        """Return the numbers of the keywords in a name, each once."""
        numbers = self._known.get(name)
        if numbers is None:
            numbers = self._known[name] = self._find_new(name)
        return numbers

    def _find_new(self, name: str) -> frozenset[int]:
        # A word begins with its stem. To split the name takes longer than this, and to compute the stems even longer.
        letters = name.lower().replace("_", "")
        if letters.isascii() and letters.isalpha() and self._may_match(letters) is None:
            return frozenset()
        words = split_lowercase(name)
        joined = "".join(words)
        if self._may_match(joined) is None:
            return frozenset()
        numbers = map(self._numbers.get, (*map(stem_word, words), joined))
        return frozenset(number for number in numbers if number is not None)


def count_definitions(data: bytes, names: CodeNames) -> list[int]:
    """Return for each keyword how many definitions (classes, functions, types, ...) have it in their name."""
    counts = [0] * len(names.keywords)
    for (one, other), times in Counter(_DEFINITION.findall(b"\n" + data)).items():
        for number in names.find_keywords((one or other).decode("ascii", "replace")):
            counts[number] += times
    return counts


def find_definitions(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield where the line of each definition starts, where its name ends, and the name."""
    for match in _DEFINITION.finditer(b"\n" + data):
        number = 1 if match[1] else 2
        yield match.start(), match.end(number) - 1, match[number].decode("ascii", "replace")
