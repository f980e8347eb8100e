"""Takes secrets out of text before it is sent or written: known values, and what is plainly a key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

REDACTED = "[redacted]"
MIN_SECRET = 8
"""Shorter values are ordinary words too often."""

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _key(prefix: str, body: str) -> re.Pattern[str]:
    """A key that does not start in the middle of a word; `prefix` has a fixed length.

    The prefix comes first, which lets the search skip ahead. In JSON and in addresses a key may follow an
    escape such as `\\n`, `\\u003d` or `%3D`, whose letters are no word.
    """
    starts = (rf"(?<![A-Za-z0-9_-]{prefix})", rf"(?<=\\[bfnrt]{prefix})")
    escapes = (rf"(?<=\\u[0-9A-Fa-f]{{4}}{prefix})", rf"(?<=%[0-9A-Fa-f]{{2}}{prefix})")
    return re.compile(f"{prefix}(?:{'|'.join(starts + escapes)}){body}")


# Bodies are possessive (`++`): what was read is never read again, so every search is linear.
_BASE64_LINES = r"(?:(?:\s|\\[nr])++[A-Za-z0-9+/]{16,}+=*+)"
_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # OpenAI (sk-, sk-proj-), Anthropic (sk-ant-) and others: a long run with a digit, not hyphened words.
    ("sk-", _key("sk-", r"(?=[A-Za-z_-]*+[0-9])(?=[A-Za-z0-9_-]*?[A-Za-z0-9]{16})[A-Za-z0-9_-]{20,}+")),
    ("xai-", _key("xai-", r"[A-Za-z0-9]{20,}+")),
    ("AIza", _key("AIza", r"[A-Za-z0-9_-]{35,}+")),
    ("gh", _key("gh[opsur]_", r"[A-Za-z0-9]{36,}+")),
    ("github_pat_", _key("github_pat_", r"[A-Za-z0-9_]{22,}+")),
    ("AKIA", _key("AKIA", r"[A-Z0-9]{16}+(?![A-Za-z0-9])")),
    ("ASIA", _key("ASIA", r"[A-Z0-9]{16}+(?![A-Za-z0-9])")),
    ("xox", _key("xox[a-z]-", r"[A-Za-z0-9-]{10,}+")),
    ("eyJ", _key("eyJ", r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+")),
    (
        "PRIVATE KEY",
        re.compile(
            rf"-----BEGIN [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"
            rf"(?:(?:[^-]|-(?!----))*+{_END}|{_BASE64_LINES}++)"
        ),
    ),
)


def redact(text: str, secrets: Sequence[str]) -> tuple[str, int]:
    """`text` with each secret replaced by `[redacted]`, and how many places that were.

    `secrets` are known values; those under 8 characters are passed over. Each is found as it is, as JSON
    writes it and as an address does. Secrets that overlap are one place.
    """
    places = sorted([*_known(text, secrets), *_keys(text)])
    pieces: list[str] = []
    count = position = 0
    for start, end in places:
        if start >= position:
            pieces += (text[position:start], REDACTED)
            count += 1
        position = max(position, end)
    return "".join([*pieces, text[position:]]), count


def _known(text: str, secrets: Iterable[str]) -> Iterator[tuple[int, int]]:
    forms = {form for secret in secrets if len(secret) >= MIN_SECRET for form in _forms(secret)}
    for form in forms:
        start = text.find(form)
        while start >= 0:
            yield start, start + len(form)
            start = text.find(form, start + len(form))


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    encoded = secret.encode("utf-8", "surrogatepass")
    for pattern in ("%{:02X}", "%{:02x}"):
        escaped = "".join(chr(byte) if byte in _UNRESERVED else pattern.format(byte) for byte in encoded)
        yield escaped
        yield escaped.replace("%20", "+")


def _keys(text: str) -> Iterator[tuple[int, int]]:
    for hint, pattern in _PATTERNS:
        if hint in text:
            yield from (match.span() for match in pattern.finditer(text))
