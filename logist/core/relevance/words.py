"""Find the words of a task for which files are searched, and their weights."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from logist.core.relevance.task import Task
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

MAX_KEYWORDS = 24
MAX_COMPOUNDS = 16
MAX_TEXT = 20_000
"""The number of characters of a text that are searched for words."""
SHORTEST = 2
LONGEST_WHOLE = 3
_TITLE = 3.0
"""The weight of a word in the title of a task."""
LONGEST = 100
"""The maximum length of a word, in characters; longer ones are data."""

_SAYING_NOTHING = """\
a add added adding adds after all also an and any are as at be been before bug but by can cannot could did do does doesn
doing don during for from had has have how if in into is isn issue it its just look make made makes making more most must need
needs never no not now of off on only onto or our please see shall should so such sure than that the their them then there
these they this those through to too until up upon use used uses using very via was we were what when where whether which
while who why will with within without won work worked working works would you your
fix fixed fixes fixing fixe feat chore www http https com org net"""
STOP_WORDS = frozenset(_SAYING_NOTHING.split())
"""Words that say nothing about a place in the code. The list is short, because a word that many files contain counts
little anyway, and `default`, `option`, `error` or `value` are what many tasks are about."""

_SAYING_LITTLE = """\
about above accept acceptance according across actual add added adding adds after again against ago all allow
allowed allows along already also although always among and another any anything are aren around asked avoid
back bad based because become been before behavior behaviour behind being below best better between bit both
break breaks bring broken bug but call called calls can cannot case cases cause certain change changed changes
clean clear com come comes complete consider contain contains correct correctly could couldn create created
creates criteria current currently default define describe description did different does doesn doing don done
down due during each easy either else end ends enough ensure especially etc even ever every everything example
exist existing exists expect expected explain far feature few file files final find first fix fixed fixes fixing
follow following for form found from full fully further get gets getting give given gives goes going good got
great had handle handled handles happen happens hard has have having help hence her here high him his how
however http https idea implement implementation implemented implements important improve include included
includes including info input inside instead into invalid issue issues its itself just keep kind know large last
later least leave left less let like line lines list little long longer look looks low made main make makes
making many may maybe mean means might missing more most move much must name named names need needed needs net
never new next nice non none nor not note nothing now number off often old once one ones only onto open option
order org other others otherwise our out output over own part parts pass passed passes per perform place please
point possible prefer prevent previous problem project proper properly provide provided provides put quite
rather read real really reason recent refactor related remain remove removed removes removing replace require
required requirement requirements requires respectively result results return returned returns right run running
runs safe same say says second see seem seems set several shall should shouldn show shows simple simply since
single small some something soon sort specific start starts state step steps still stop such support supported
sure take takes task tasks tell than that the their them then there therefore these they thing things this those
though three through throughout thus time times to today together too true turn twice two type under unless
until update updated updates upon use used useful user's uses using usual usually valid value values various
verify very via want wants was way ways well were what when where whether which while who whole whose why will
wish with within without won work worked working works would write writes wrong www yes yet you your"""
_GENERAL = frozenset(_SAYING_LITTLE.split())
"""Common English words, and typical words of tasks: they count less, and if a task has too many words, the others are
preferred."""

_TOKEN = compile_on_use(r"[^\W\d_](?:[\w]|(?<=\w)-(?=\w))*")
_HUMPS = compile_on_use(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LOW = compile_on_use(r"[a-z]+")
_LATIN = compile_on_use(r"[A-Za-z]+")
_BETWEEN = frozenset((" ", "-"))
_LETTERS = compile_on_use(r"[^\W\d_]+")
_PLURAL = compile_on_use(r"[A-Z]{2,}s")
_QUOTED = compile_on_use(r"`([^`\n]{1,200})`")
_FILE_ENDING = compile_on_use(
    r"(?<=\w)\.(?:c|cc|cpp|cs|css|go|h|html|java|js|json|jsx|kt|md|mjs|php|py|rb|rs|sh|toml|ts|tsx|yaml|yml)\b"
)
_LINK = compile_on_use(r"\bhttps?://\S+")
_ENDINGS = (
    (("ies", 3), ("s", 3)),
    (("ization", 4), ("ation", 4), ("ing", 4), ("ion", 5), ("ment", 4), ("er", 4)),
    (("ied", 4), ("ated", 4), ("ate", 4), ("es", 4), ("ed", 4), ("ly", 4), ("e", 4), ("y", 4)),
)
"""One ending of each group is removed, if at least this many letters are left."""
_PARTICLE = compile_on_use(
    r"\b((?:back|call|check|clean|drop|log|look|opt|roll|set|shut|sign|start|tear|time)(?:s|ed|(?:[gnpt]?ing))?)"
    r"[ -](back|down|in|off|out|up)\b"
)
_ABOUT_TESTS = frozenset(("test", "tests", "testing", "tested"))
_ABOUT_PROSE = frozenset(
    ("docs", "documentation", "readme", "typo", "typos", "changelog", "tutorial", "guide")
)
_WORDS_OF_EXAMPLES = (
    "example examples sample samples demo demos playground benchmark benchmarks fixture fixtures"
)
_ABOUT_EXAMPLES = frozenset(_WORDS_OF_EXAMPLES.split())
_ABOUT_DECLARATIONS = frozenset(
    ("type", "types", "typing", "typings", "typed", "typescript", "ts", "annotation", "annotations")
)
_KINDS = (_ABOUT_TESTS, _ABOUT_PROSE, _ABOUT_EXAMPLES, _ABOUT_DECLARATIONS)


@dataclass(frozen=True)
class Keyword:
    """A word, the stem that all its forms share, and its weight."""

    word: str
    needle: str
    """The lowercase stem that is searched for; a name of several words has `_` between them."""
    weight: float
    whole: bool = False
    """It is found only as a separate word of a file name, because it is short and would be inside many words."""
    code: bool = False
    """It is a name of several words, such as `rate_limiter` or `HttpClient`; it is also found in longer names."""
    compound: bool = False
    """It is two neighbouring words of the title, which the task may not mean as one name."""


def find_keywords(task: Task, most: int = MAX_KEYWORDS) -> list[Keyword]:
    """Return the words of a task by weight, highest first; equal ones in order of appearance."""
    weights: dict[str, float] = {}
    shown: dict[str, str] = {}
    for text, worth in _weigh_texts(task):
        seen: set[str] = set()
        for word, factor in _weigh_words(text):
            needle = stem_word(word)
            if needle in seen:
                continue
            seen.add(needle)
            shown.setdefault(needle, word)
            weights[needle] = weights.get(needle, 0.0) + worth * factor
    ranked = sorted(weights, key=lambda needle: -weights[needle])
    compounds = [each for each in _find_compounds(task.title[:MAX_TEXT]) if each.needle not in weights]
    if len(ranked) > most:
        telling = [needle for needle in ranked if shown[needle] not in _GENERAL][:most]
        kept = {*telling, *[needle for needle in ranked if shown[needle] in _GENERAL][: most - len(telling)]}
        ranked = [needle for needle in ranked if needle in kept]
    single = [
        Keyword(shown[needle], needle, weights[needle], len(needle) <= LONGEST_WHOLE, _is_code(shown[needle]))
        for needle in ranked
    ]
    return [*single, *compounds[:MAX_COMPOUNDS]]


class Focus(NamedTuple):
    """The kinds of files that a task is about, besides the sources."""

    tests: bool = False
    prose: bool = False
    examples: bool = False
    declarations: bool = False


def find_focus(task: Task) -> Focus:
    """Return what the task is about, by its title: nearly every task asks for tests, so other texts don't say this."""
    words = {token.lower() for token in _TOKEN.findall(task.title[:MAX_TEXT])}
    return Focus(*(not words.isdisjoint(kind) for kind in _KINDS))


def _weigh_texts(task: Task) -> Iterator[tuple[str, float]]:
    """Yield the texts of a task, and the weight of a word in each."""
    yield task.title[:MAX_TEXT], _TITLE
    yield " ".join(task.tags)[:MAX_TEXT], 2.0
    for text, worth in ((task.step, 1.5), (task.prompt, 1.5), (task.description, 1.5)):
        yield text[:MAX_TEXT], worth
    yield "\n".join(task.criteria)[:MAX_TEXT], 1.0


def _weigh_words(text: str) -> Iterator[tuple[str, float]]:
    """Yield every word in order, with a factor: names from code and their parts count more."""
    plain = _FILE_ENDING.sub(" ", _LINK.sub(" ", text))
    quoted = {token for quote in _QUOTED.findall(plain) for token in _TOKEN.findall(quote)}
    for token in _TOKEN.findall(plain):
        if len(token) > LONGEST:
            continue
        token = token[:-1] if _PLURAL.fullmatch(token) else token
        parts = [part for part in split_name(token) if _is_significant(part.lower())]
        code = token in quoted or _is_code(token)
        if _is_code(token):
            yield token, 2.0
        for part in parts:
            low = part.lower()
            # Nearly every task asks for tests, so the word helps little to find files.
            yield low, 0.4 if low in _ABOUT_TESTS else (1.25 if code else 1.0) * _weigh_general(low)
    for verb in _find_phrasal_verbs(plain):
        yield verb, 1.0


def _weigh_general(low: str) -> float:
    return 0.6 if low in _GENERAL else 1.0


def _find_phrasal_verbs(text: str) -> Iterator[str]:
    """Yield phrases such as `logging in` as in names: `log_in`, which also finds `login`."""
    for verb, particle in _PARTICLE.findall(text.lower()):
        yield f"{_undouble_consonant(stem_word(verb))}_{particle}"


def _find_compounds(title: str) -> Iterator[Keyword]:
    """Yield neighbouring words of a title as one name: `content type` also means `contentType` and `content_type`.

    The last word is a stem, because a name of several words is found in longer names, so in `contentTypes` too.
    """
    plain = _LINK.sub(" ", title)
    seen: set[str] = set()
    for one, next_one in pairwise(_LATIN.finditer(plain)):
        if plain[one.end() : next_one.start()] not in _BETWEEN or len(one[0]) + len(next_one[0]) > LONGEST:
            continue
        first, second = one[0].lower(), next_one[0].lower()
        needle = f"{first}_{stem_word(second)}"
        if _is_significant(first) and _is_significant(second) and needle not in seen:
            seen.add(needle)
            yield Keyword(f"{first} {second}", needle, _TITLE, code=True, compound=True)


def _is_code(token: str) -> bool:
    """Whether the token is a name of several words, such as `rate_limiter`, `HttpClient` or `httpClient`."""
    humped = not (token.islower() or token.isupper())
    return ("_" in token or humped) and "-" not in token and len(split_name(token)) > 1


def _is_significant(word: str) -> bool:
    return len(word) >= SHORTEST and word not in STOP_WORDS


@lru_cache(maxsize=16_384)
def stem_word(word: str) -> str:
    """Return the stem of a word: `parsing`, `parser` and `parse` give `pars`.

    A name of several words gives the words with `_` between them.
    """
    if _is_code(word):
        return "_".join(split_name(word)).lower()
    low = word.lower()
    for endings in _ENDINGS:
        for ending, least in endings:
            if (
                low.endswith(ending)
                and len(low) - len(ending) >= least
                and not low.endswith(("ss", "us", "is"))
            ):
                low = low.removesuffix(ending)
                break
    return _undouble_consonant(low)


def _undouble_consonant(low: str) -> str:
    """Remove a doubled consonant: `logg` (from `logging`) becomes `log`, `runn` becomes `run`; `call` stays."""
    doubled = len(low) > 3 and low[-1] == low[-2] and low[-1] in "bdgmnprt"
    return low[:-1] if doubled else low


def stem_title(title: str) -> frozenset[str]:
    """Return the stems of the words of a title."""
    return frozenset(stem_word(word) for word, _ in _weigh_words(title[:1_000]))


def split_name(name: str) -> list[str]:
    """Return the words of a name, unchanged."""
    if not name.isascii():
        return _LETTERS.findall(name)
    if not name.islower():
        return _HUMPS.findall(name)
    words = name.split("_")  # most names have nothing else between their words
    return words if all(map(str.isalpha, words)) else _LOW.findall(name)


def split_lowercase(name: str) -> list[str]:
    """Return the words of a name in lowercase."""
    return split_name(name) if name.islower() else [part.lower() for part in split_name(name)]
