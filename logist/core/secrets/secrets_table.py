"""Recognizes secrets by their format: a table of patterns, one for each kind of key.

Every search is linear: repetitions are possessive (`++`, no backtracking), atomic (`(?>...)`) or bounded. What would be expensive in
a pattern is checked by `plausible` after a match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache

from logist.lazy_patterns import compile_on_use
from logist.quick_tuple import NamedTuple

SHORT_TEXT = 4_000
"""Characters of a text whose matches are kept for the next search."""
LONGEST_SPLIT = 500_000
"""Characters of a text that is searched piece by piece; the pieces of a longer one would need too much memory."""
MOST_KEPT = 1_000_000
"""Characters of pieces whose hints are kept, with PIECE_COST for each."""
PIECE_COST = 120
"""Bytes that a piece takes beside its characters: many are short, such as the name of each job."""


class Sort(NamedTuple):
    """A kind of secret, with the pattern that finds it."""

    kind: str
    """The name for people: `GitHub token`."""
    hint: str
    """A text without this is not searched."""
    expression: str
    """The group `secret` is removed; without such a group, the complete match."""
    plausible: Callable[[str], bool] = lambda secret: True
    any_case: bool = False
    """The pattern is for lowercase text; each match begins with the hint, and has `=` or `:` soon after it."""
    part: str = ""
    """An expression for a part of each match, for a pattern that begins with frequent characters. It begins with the hint,
    so that a text without such a part is searched much faster."""

    def is_likely(self, text: str, lower: str) -> bool:
        """Whether a text, with its `lower()`, contains what each text with such a secret does."""
        if self.hint not in (lower if self.any_case else text):
            return False
        return not self.part or _compile(self.part).search(text) is not None

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression; compiling all of them takes longer than most commands."""
        return _compile(self.expression)


@cache
def _compile(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


class Match(NamedTuple):
    """A secret in a text: `text[start:end]`."""

    start: int
    end: int
    kind: str


def _key_pattern(prefix: str, body: str) -> str:
    """Build the pattern of a key that does not start in the middle of a word; `prefix` has a fixed length.

    The prefix comes first, so that the search can skip ahead. In JSON and in URLs a key may follow an escape
    (a backslash with a letter or code, or `%3D`), whose letters are not part of a word.
    """
    starts = (rf"(?<![A-Za-z0-9_-]{prefix})", rf"(?<=\\[bfnrt]{prefix})")
    escapes = (rf"(?<=\\u[0-9A-Fa-f]{{4}}{prefix})", rf"(?<=%[0-9A-Fa-f]{{2}}{prefix})")
    return f"{prefix}(?:{'|'.join(starts + escapes)}){body}"


_PLACEHOLDERS = frozenset(
    [
        "password",
        "passwort",
        "passwd",
        "passphrase",
        "pass",
        "pw",
        "pwd",
        "secret",
        "token",
        "changeme",
        "change_me",
        "default",
        "disabled",
        "enabled",
        "required",
        "optional",
        "undefined",
        "redacted",
        "example",
        "hidden",
        "unknown",
        "username",
        "user",
        "none",
        "null",
        "true",
        "false",
    ]
)
_PLACEHOLDER = compile_on_use(
    r"(?i)(?:your|my|some|the|an?|insert|enter|put|replace|example|sample|dummy|fake|test|placeholder)[-_.]|"
    r".*(?:example|placeholder|changeme|your[-_]|[-_]here\Z|\[redacted)|[x*.•#0_-]+\Z"
)


def is_placeholder(value: str) -> bool:
    """Whether a value is only a placeholder for a secret: an ordinary word, `YOUR_KEY`, `xxxx`, a variable."""
    return (
        value.lower() in _PLACEHOLDERS
        or _PLACEHOLDER.match(value[:256]) is not None
        or value[0] in "$%{<["
        or len(set(value)) < 3
    )


def _is_password(value: str) -> bool:
    return not is_placeholder(value)


_WORD = r"(?:[A-Za-z]+[0-9]{0,2}_+)*(?:[A-Za-z]+[0-9]{0,2}|[0-9]{1,2})"
_IDENTIFIER = compile_on_use(rf"{_WORD}(?:(?:\.|::|->){_WORD})*\Z")
_LOCATION = compile_on_use(r"[a-z][a-z0-9+.-]*://|[~.]{0,2}/")


def _is_value(value: str) -> bool:
    """Whether the text after `password=` is a value, and not the name of a variable, a path or a placeholder."""
    letters = any(c.isalpha() for c in value)
    others = any(not c.isalpha() for c in value)
    if not (letters and others) or is_placeholder(value) or _LOCATION.match(value):
        return False
    return not _IDENTIFIER.match(value[:256])


def _is_token(value: str) -> bool:
    return any(c.isdigit() for c in value) and not is_placeholder(value)


_QUOTE = r"(?:\\{0,3}[\"'])"
_SET = rf"{_QUOTE}?[ \t]{{0,3}}(?:=>|:=|[:=])[ \t]{{0,3}}{_QUOTE}?"
_SIGN_REACH = 20
"""A value is assigned within this many characters after a hint: `secret` and `_access_key` (11), a quote with three
backslashes (4), three blanks and the sign.
"""
_VALUE = r"(?P<secret>[^\s\"'`\\<>{}()\[\],;&|]{8,}+)"


def _after_words(*words: str) -> str:
    """Build a pattern that matches directly after one of these words, optionally followed by `_` or `-`."""
    return "(?:" + "|".join(f"(?<={word})|(?<={word}[_-])" for word in words) + ")"


_NAMES = {
    "passw": r"passw(?:or)?[dt]",
    "passphrase": "passphrase",
    "pwd": "pwd",
    "pass": r"(?<=[a-z][_-])pass",
    "key": _after_words("api", "secret", "access", "account", "private", "signing", "encryption") + "key",
    "secret": "secret",
    "token": rf"(?:(?<![a-z])|{_after_words('access', 'auth', 'refresh', 'session', 'bearer', 'bot', 'api')})token",
}
"""Patterns for the names of variables that hold a secret, by a word that is in all of their spellings."""

_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")

# A private key may be cut off before its end.
_BASE64_LINES = r"(?:(?>(?:\s|\\[nr])+)[A-Za-z0-9+/]{16,}+=*+)"
_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

SORTS: tuple[Sort, ...] = (
    # OpenAI (sk-, sk-proj-), Anthropic (sk-ant-) and others: a long run with a digit, not hyphenated words.
    Sort(
        "API key (sk-)",
        "sk-",
        _key_pattern("sk-", r"(?=[A-Za-z_-]*+[0-9])(?=[A-Za-z0-9_-]*?[A-Za-z0-9]{16})[A-Za-z0-9_-]{20,}+"),
    ),
    Sort("xAI key", "xai-", _key_pattern("xai-", r"[A-Za-z0-9]{20,}+")),
    Sort("Google API key", "AIza", _key_pattern("AIza", r"[A-Za-z0-9_-]{35,}+")),
    Sort("Google OAuth token", "ya29.", _key_pattern(r"ya29\.", r"[A-Za-z0-9_-]{30,}+")),
    Sort("Google client secret", "GOCSPX-", _key_pattern("GOCSPX-", r"[A-Za-z0-9_-]{20,}+")),
    *(  # one hint each: "gh" and "gl" are in most texts, and compiling a pattern takes longer than all of these searches
        Sort("GitHub token", prefix, _key_pattern(prefix, r"[A-Za-z0-9]{36,}+"))
        for prefix in ("gho_", "ghp_", "ghs_", "ghu_", "ghr_")
    ),
    Sort("GitHub fine-grained token", "github_pat_", _key_pattern("github_pat_", r"[A-Za-z0-9_]{22,}+")),
    *(
        Sort(
            "GitLab token",
            f"gl{use}-",
            rf"gl(?<![A-Za-z0-9_-]gl){use}-(?=[A-Za-z_-]{{0,64}}[0-9])[A-Za-z0-9_.-]{{20,}}+",
        )
        for use in ("pat", "dt", "rt", "cbt", "ptt", "ft", "soat", "agent", "imt", "oas")
    ),
    Sort("AWS key id", "AKIA", _key_pattern("AKIA", r"[A-Z0-9]{16}+(?![A-Za-z0-9])")),
    Sort("AWS key id", "ASIA", _key_pattern("ASIA", r"[A-Z0-9]{16}+(?![A-Za-z0-9])")),
    Sort(
        "AWS secret key",
        "secret",
        (
            rf"secret(?:[_-]?access)?(?:[_-]?key)?{_SET}"
            r"(?P<secret>[A-Za-z0-9/+]{40}+)(?![A-Za-z0-9/+=])"
        ),
        any_case=True,
    ),
    Sort("Slack token", "xox", _key_pattern("xox[a-z]-", r"[A-Za-z0-9-]{10,}+")),
    Sort("Slack token", "xoxe.", _key_pattern(r"xoxe\.xox[bp]-", r"[A-Za-z0-9-]{10,}+")),
    Sort("Slack app token", "xapp-", _key_pattern("xapp-", r"[0-9]-[A-Za-z0-9-]{10,}+")),
    Sort(
        "Slack webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9_/]{20,}+)",
    ),
    Sort(
        "Azure key",
        "Key=",
        r"(?:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{32,}+={0,2}+)",
    ),
    Sort(
        "Azure shared access signature",
        "sig=",
        r"[?&;]sig=(?P<secret>(?>(?:[A-Za-z0-9+/_-]|%[0-9A-Fa-f]{2}){32,})={0,2}+)",
    ),
    Sort("Stripe key", "_live_", _key_pattern("[prs]k_live_", r"[A-Za-z0-9]{16,}+")),
    Sort("Stripe key", "_test_", _key_pattern("[prs]k_test_", r"[A-Za-z0-9]{16,}+")),
    Sort("Stripe webhook secret", "whsec_", _key_pattern("whsec_", r"[A-Za-z0-9+/]{24,}+={0,2}+")),
    Sort("Twilio key", "SK", _key_pattern("SK", r"[0-9a-f]{32}+(?![A-Za-z0-9])")),
    Sort("SendGrid key", "SG.", _key_pattern(r"SG\.", r"[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{32,}+")),
    Sort("npm token", "npm_", _key_pattern("npm_", r"[A-Za-z0-9]{36,}+")),
    Sort("PyPI token", "pypi-", _key_pattern("pypi-", r"(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{50,}+")),
    Sort("Hugging Face token", "hf_", _key_pattern("hf_", r"[A-Za-z0-9]{30,}+")),
    Sort(
        "Telegram bot token",
        ":AA",
        r"(?<![0-9])[0-9]{8,10}+:AA[A-Za-z0-9_-]{33}+(?![A-Za-z0-9_-])",
    ),
    Sort(
        "Discord token",
        ".",
        (
            r"[MNO](?<![A-Za-z0-9_.-][MNO])[A-Za-z0-9]{3}(?:[MNO][A-Za-z0-9]{3}){5}[A-Za-z0-9]{0,2}+\.[A-Za-z0-9_-]{6}+\.[A-Za-z0-9_-]{27,38}+"
            r"(?![A-Za-z0-9_-])"
        ),
        part=r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}",
    ),
    Sort(
        "Discord webhook",
        "/api/webhooks/",
        r"/api/webhooks/[0-9]{15,22}+/(?P<secret>[A-Za-z0-9_-]{50,}+)",
    ),
    Sort(
        "JSON Web Token",
        "eyJ",
        _key_pattern("eyJ", r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+"),
    ),
    Sort(
        "private key",
        "PRIVATE KEY",
        (
            rf"-----BEGIN [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"
            rf"(?:(?>(?:[^-]++|-(?!----))*){_END}|(?>{_BASE64_LINES}+))"
        ),
    ),
    Sort(
        "password in a URL",
        "://",
        r"://[^\s/?#@:\"'<>\\]*+:(?P<secret>[^\s/?#@\"'<>\\]++)@(?=[A-Za-z0-9\[])",
        _is_password,
    ),
    Sort(
        "authorization header",
        "authorization",
        rf"authorization{_SET}(?:[a-z]{{1,16}}[ \t]{{1,3}})?(?P<secret>[A-Za-z0-9._~+/=-]{{8,}}+)",
        _is_token,
        any_case=True,
    ),
    Sort(
        "bearer token",
        "earer",
        r"(?<![A-Za-z])[Bb]earer[ \t]{1,3}(?P<secret>[A-Za-z0-9._~+/=-]{20,}+)",
        _is_token,
    ),
    *(
        Sort("password or key value", word, name + _SET + _VALUE, _is_value, any_case=True)
        for word, name in _NAMES.items()
    ),
)


def compile_patterns() -> None:
    """Compile all patterns now, so that the processes that this one forks don't have to."""
    for sort in SORTS:
        _compile(sort.expression)


def find_by_pattern(text: str) -> Iterable[Match]:
    """Return every secret that the table recognizes; they may overlap."""
    return _find_in_short_text(text) if len(text) <= SHORT_TEXT else _search_table(text)


# The same roles, contracts and names are in the prompts of all jobs of a run.
@lru_cache(maxsize=512)
def _find_in_short_text(text: str) -> tuple[Match, ...]:
    return tuple(_search_table(text))


def _search_table(text: str) -> Iterator[Match]:
    hints = _list_hints(text)
    lower = ""
    for sort in SORTS:
        if sort.hint not in hints:
            continue
        if sort.any_case:
            lower = lower or _to_lower(text)
        for match in _find_stepwise(sort, lower) if sort.any_case else sort.pattern.finditer(text):
            start, end = match.span("secret" if match.re.groups else 0)
            if sort.plausible(text[start:end]):
                yield Match(start, end, sort.kind)


class _PieceHints(dict[str, frozenset[str]]):
    """The hints in the pieces of earlier texts. A piece is the text between two quotes, which are in no hint.

    The prompts of a job are mostly the same, and looking up their pieces is ten times faster than searching them for
    all hints.
    """

    def __init__(self) -> None:
        self._size = 0

    def add(self, pieces: Sequence[str]) -> set[str]:
        """Keep the hints of each of these pieces; return those of all of them."""
        text = '"'.join(pieces)
        size = len(text) + PIECE_COST * len(pieces)
        self._size += size
        if self._size > MOST_KEPT:
            self.clear()
            self._size = size
        lower = text.lower()
        lower_pieces = lower.split('"')
        # Complete before it is kept: other threads read what is kept.
        own: dict[str, frozenset[str]] = dict.fromkeys(pieces, frozenset())
        # All pieces are searched as one text first: each search has a fixed cost, and most hints are in none of them.
        sorts = [sort for sort in SORTS if sort.is_likely(text, lower)]
        for sort in sorts:
            hint, hint_only = sort.hint, frozenset((sort.hint,))
            searched = lower_pieces if sort.any_case else pieces
            for piece, searched_piece in zip(pieces, searched, strict=True):
                if hint in searched_piece and sort.is_likely(piece, searched_piece):
                    own[piece] = _unite(own[piece], hint_only)
        self.update(own)
        return {sort.hint for sort in sorts}


@lru_cache(maxsize=256)
def _unite(hints: frozenset[str], more: frozenset[str]) -> frozenset[str]:
    """Return the same object for the same hints: a set takes more memory than most pieces."""
    return hints | more


_piece_hints = _PieceHints()


def _list_hints(text: str) -> set[str]:
    """Return the hints of the sorts that may be in a text."""
    if len(text) > LONGEST_SPLIT:
        lower = text.lower()
        return {sort.hint for sort in SORTS if sort.is_likely(text, lower)}
    hints: set[str] = set()
    unseen: list[str] = []
    for piece in text.split('"'):
        known = _piece_hints.get(piece)
        if known is None:
            unseen.append(piece)
        elif known:
            hints |= known
    return hints | _piece_hints.add(unseen) if unseen else hints


def _find_stepwise(sort: Sort, lower: str) -> Iterator[re.Match[str]]:
    """Like finditer, but much faster if each match begins with the hint. Compiles nothing for words without a value."""
    hint, find = sort.hint, lower.find
    position = find(hint)
    while position >= 0:
        beginning = lower[position : position + len(hint) + _SIGN_REACH]
        match = sort.pattern.match(lower, position) if "=" in beginning or ":" in beginning else None
        if match:
            yield match
        position = find(hint, match.end() if match else position + len(hint))


def _to_lower(text: str) -> str:
    """Convert to lowercase without changing the number of characters, so that positions stay the same."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_LOWER)
