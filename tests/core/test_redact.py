"""Redaction: known values in every spelling, keys by their looks, and nothing else."""

from __future__ import annotations

import base64
import json
import shlex
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.secrets.redact import redact

# Put together here, so that no scanner takes this file for a leak.
LETTERS = "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW"
SECRET = "hunter2-hunter2-he?e~aaa"
KEYS = {
    "openai": "sk-" + LETTERS + "XyZ0",
    "openai project": "sk-" + "proj-" + LETTERS + "_-" + LETTERS,
    "anthropic": "sk-" + "ant-api03-" + LETTERS + "-" + LETTERS + "AA",
    "openrouter": "sk-" + "or-v1-" + "0123456789abcdef" * 4,
    "xai": "xai-" + LETTERS + LETTERS,
    "google": "AIza" + "Sy" + LETTERS + "a",
    "github": "ghp_" + LETTERS + "abcd",
    "github oauth": "gho_" + LETTERS + "abcd",
    "github fine-grained": "github_pat_" + "11ABCDEFG0" + LETTERS + "_" + LETTERS,
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "slack": "xoxb-" + "123456789012-1234567890123-" + LETTERS,
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + LETTERS,
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "pem in JSON": "-----BEGIN PRIVATE KEY-----\\nMIIEvQ\\nIBADAN\\n-----END PRIVATE KEY-----\\n"[:-2],
    "pem cut off": "-----BEGIN OPENSSH PRIVATE KEY-----\n" + LETTERS + LETTERS + "\n" + LETTERS,
    "pgp": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----",
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        'key="{}"',
        "Bearer {} and more",
        '{{"text": "key:\\n{}\\n"}}',
        "?token%3D{}&x",
        "\\u0022{}\\u0022",
        "({}).",
    ],
)
def test_keys_are_known_by_their_looks(kind: str, around: str) -> None:
    text = around.format(KEYS[kind])
    assert redact(text, []) == (around.format("[redacted]"), 1)


@pytest.mark.parametrize(
    "text",
    [
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "task-1234567890abcdefghijklmnop and risk-management-of-1234567890123456789",
        "sk-learn-pipeline-estimators-and-more-words, sk-2024",
        "disk-0123456789abcdefghijABCDEFGHIJ",
        "xai-is-a-company, ghp_short, AKIA, AKIAshort, xoxo-, eyJ.a.b, github_pat_ tokens",
        "-----BEGIN PRIVATE KEY----- is how such a file starts.",
        "-----BEGIN CERTIFICATE-----\nMIIEow\n-----END CERTIFICATE-----",
        "aaaAKIAIOSFODNN7EXAMPLE",
        "",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text, []) == (text, 0)


@pytest.mark.parametrize(
    ("secret", "spelled"),
    [
        ("hunter2-hunter2", "hunter2-hunter2"),
        ('quo"te\\slash', r"quo\"te\\slash"),
        ("pässwörd", "pässwörd"),
        ("pässwörd", r"p\u00e4ssw\u00f6rd"),
        ("pässwörd\n", r"pässwörd\n"),
        ("a b/c+d=e&f", "a%20b%2Fc%2Bd%3De%26f"),
        ("a b/c+d=e&f", "a%20b%2fc%2bd%3de%26f"),
        ("a b/c+d=e&f", "a+b%2Fc%2Bd%3De%26f"),
        ("two\nlines", "two\nlines"),
        ("redacted", "redacted"),
        ("lone\ud800surrogate", "lone\ud800surrogate"),
    ],
)
def test_known_values_in_every_spelling(secret: str, spelled: str) -> None:
    assert redact(f"before {spelled} after", [secret]) == ("before [redacted] after", 1)


B64 = {
    "alone": base64.b64encode(SECRET.encode()).decode(),
    "after one": base64.b64encode(b"x" + SECRET.encode() + b"y").decode(),
    "after two": base64.b64encode(b"ab" + SECRET.encode() + b"cd").decode(),
    "in a header": "Basic " + base64.b64encode(b"user:" + SECRET.encode()).decode(),
    "for addresses": base64.urlsafe_b64encode(b"ab" + SECRET.encode()).decode(),
}


@pytest.mark.parametrize("where", B64)
def test_known_values_in_base64(where: str) -> None:
    text, count = redact(f"<{B64[where]}>", [SECRET])
    assert count == 1
    assert len(text) <= len("<Basic [redacted]>") + 12  # what a neighbour has a part in may stay


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        SECRET.replace("e", r"\u0065"),
        SECRET.replace("e", r"\\u0065"),
        SECRET.replace("-", r"\x2d"),
        "".join(f"%{ord(c):02x}" for c in SECRET),
        SECRET.replace("a", "%61"),
        SECRET[:9] + "\n    " + SECRET[9:],
        SECRET[:9] + "\\\n" + SECRET[9:],
        SECRET[:9] + r"\n" + SECRET[9:],
        SECRET[:4] + "\r\n> " + SECRET[4:9] + "\n> " + SECRET[9:],
    ],
)
def test_known_values_dressed_up(spelled: str) -> None:
    assert redact(f"<{spelled}>", [SECRET]) == ("<[redacted]>", 1)


@pytest.mark.parametrize("secret", ['quo"te\\slash', "pässwörd-99", "one-line\nand-another\n"])
@pytest.mark.parametrize("spell", [str, lambda text: json.dumps(text)[1:-1]], ids=["plain", "JSON"])
def test_values_of_several_lines_and_wrapped_ones(secret: str, spell: Callable[[str], str]) -> None:
    quoted = secret.strip().replace("\n", "\n  > ")
    assert redact(f"<{spell(quoted)}>", [secret]) == ("<[redacted]>", 1)
    assert redact(f"<{spell(quoted[:3] + chr(10) + quoted[3:])}>", [secret]) == ("<[redacted]>", 1)


def test_what_stands_around_an_escaped_value_stays_byte_for_byte() -> None:
    text = r'{"a": "\u0041\/\"x\"", "b": "' + SECRET.replace("e", r"\u0065") + r'", "c": "\u0042"}'
    cleaned, count = redact(text, [SECRET])
    assert (json.loads(cleaned), count) == ({"a": 'A/"x"', "b": "[redacted]", "c": "B"}, 1)
    assert cleaned == r'{"a": "\u0041\/\"x\"", "b": "[redacted]", "c": "\u0042"}'


@pytest.mark.parametrize(
    ("secret", "spelled"),
    [
        ("a<b>&c'd\"e", "a&lt;b&gt;&amp;c'd\"e"),
        ("a<b>&c'd\"e", "a&lt;b&gt;&amp;c&#39;d&#34;e"),
        ("it's-a-secret", "it&apos;s-a-secret"),
        ("it's-a-secret", "it'\\''s-a-secret"),
    ],
)
def test_known_values_in_html_and_shell(secret: str, spelled: str) -> None:
    assert redact(f"({spelled})", [secret]) == ("([redacted])", 1)


SPECIAL = ('quo"te\\slash', "it's-a-secret", "two\nlines \"and\" 'more'", "pässwörd'\"\\", "emoji-😀-word")


def in_shell(value: str) -> str:
    return value.replace("'", "'\\''")


def as_others_write_it(value: str) -> str:
    """JSON as .NET writes it: quotes and what is not ASCII as escapes in capitals."""
    return "".join(
        c if c.isalnum() and c.isascii() else "".join(rf"\u{n:04X}" for n in units(c)) for c in value
    )


def units(character: str) -> list[int]:
    data = character.encode("utf-16-be")
    return [int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2)]


@pytest.mark.parametrize("spell", [str, in_shell, shlex.quote, as_others_write_it])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("secret", SPECIAL)
def test_known_values_in_json_within_json(
    secret: str, depth: int, ascii_only: bool, spell: Callable[[str], str]
) -> None:
    text = f"<{spell(secret)}>"
    for _ in range(depth):
        text = json.dumps({"summary": text}, ensure_ascii=ascii_only)
    cleaned, count = redact(text, [secret])
    assert count == 1
    for _ in range(depth):
        cleaned = json.loads(cleaned)["summary"]
    assert cleaned.replace("'", "") == "<[redacted]>"


UNSEEN = (
    "\u200b",
    "\u00ad",
    "\0",
    "\ufeff",
    "\b",
    "\r",
    "\u2060\u200d",
    "\x1f",
    "\ue000",
    "\u2028",
    "\u200b" * 20,
    "\U000e0041",
    "\U0010fffd",
    "\u034f",
    "\u115f",
    "\u180b",
    "\u3164",
    "\ufe0f",
    "\U000e0100",
)


def split(value: str, by: str) -> str:
    return by.join((value[:7], value[7:9], value[9:]))


@pytest.mark.parametrize("unseen", UNSEEN, ids=ascii)
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("secret", [SECRET, 'quo"te\\slash', KEYS["openai"], KEYS["github"], KEYS["aws"]])
def test_what_nobody_sees_splits_no_secret(secret: str, depth: int, unseen: str) -> None:
    text = f"A\u200bB <{split(secret, unseen)}> C\u200bD"
    for _ in range(depth):
        text = json.dumps([text])
    cleaned, count = redact(text, [SECRET, 'quo"te\\slash'])
    assert count == 1
    for _ in range(depth):
        cleaned = json.loads(cleaned)[0]
    assert cleaned == "A\u200bB <[redacted]> C\u200bD"


def test_ordinary_text_with_what_nobody_sees_is_left_alone() -> None:
    for text in (
        "a family: 👨\u200d👩\u200d👧, می\u200cخواهم",
        "one\r\ntwo\r\n",
        "sk-\u200blearn",
        r"\bword\b x\u200by",
    ):
        assert redact(text, [SECRET]) == (text, 0)


PIECES = st.sampled_from(["%41", r"\u0041", r"\\u0041", "\n", r"\n", "%", "\\", "x", "ä", "\n  > ", '"'])


@settings(deadline=None, database=None)
@given(st.lists(PIECES, max_size=12), st.lists(PIECES, max_size=12))
def test_a_value_is_found_wherever_it_stands(before: list[str], after: list[str]) -> None:
    cleaned, count = redact("".join([*before, SECRET, *after]), [SECRET])
    assert (cleaned, count) == ("".join([*before, "[redacted]", *after]), 1)


def test_each_place_counts() -> None:
    assert redact("secret-one secret-one secret-two", ["secret-one", "secret-two"]) == (
        "[redacted] [redacted] [redacted]",
        3,
    )


def test_the_longest_value_wins_and_overlaps_are_one_place() -> None:
    assert redact("x secret-one-long x", ["secret-one", "secret-one-long"]) == ("x [redacted] x", 1)
    assert redact("x secret-one-long x", ["secret-one-long", "cret-one"]) == ("x [redacted] x", 1)
    assert redact("x abcdefghijkl x", ["abcdefgh", "efghijkl"]) == ("x [redacted] x", 1)


def test_short_values_are_passed_over() -> None:
    assert redact("root 1234567", ["root", "1234567", ""]) == ("root 1234567", 0)


@settings(deadline=None, database=None)
@given(st.text("abc"), st.lists(st.text("xyz", min_size=8, max_size=12), max_size=4))
def test_no_known_value_is_left(text: str, secrets: list[str]) -> None:
    cleaned, count = redact(text.join(["", *secrets, ""]), secrets)
    assert [secret for secret in secrets if secret in cleaned] == []
    assert (count > 0) == bool(secrets)


FLOODS = (
    "sk-",
    "sk-a1-",
    "\\nsk-a1",
    "%3Dsk-a1",
    "eyJ",
    "eyJaaaaaaaaa.",
    "-",
    "xox",
    "AIza",
    "ghp_",
    "github_pat_",
)
ESCAPES = ("\\", r"\b", r"x\u200b", "x\u200b", r"\\u0041", '\\"', "quo\\")
HEADER = "-----BEGIN PRIVATE KEY-----"


@pytest.mark.deep
@pytest.mark.parametrize("part", [*FLOODS, *ESCAPES, HEADER, HEADER + " " + "a" * 20 + "\n", "PRIVATE KEY"])
def test_the_work_is_linear(part: str) -> None:
    text = (part * 4_000_000)[:2_000_000]
    start = time.process_time()
    redact(text, ["a-known-secret", 'quo"te\\slash'])
    assert time.process_time() - start < 20  # a search that is not linear takes hours
