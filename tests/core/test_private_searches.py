"""The fast searches for private values find the same as the plain patterns that they replace."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.core.secrets import secrets_table, spellings
from logist.core.secrets.secrets_table import find_by_pattern
from logist.core.share import private_values
from logist.core.share.private_values import NameSearch, Private, find_addresses, find_emails

ESCAPE = r"(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})"
LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
EMAIL = re.compile(
    rf"(?:(?<![\w.+%\\-])|{ESCAPE})(?P<local>\w[\w.+-]{{0,63}}+)(?:@|%40)(?P<host>(?:{LABEL}\.){{1,8}})[A-Za-z]{{2,24}}(?![\w-])"
)
IPV4 = re.compile(rf"(?:(?<![\w.])|{ESCAPE})(?:[0-9]{{1,3}}\.){{3}}[0-9]{{1,3}}(?!\w|\.[0-9])")
IPV6 = re.compile(rf"(?:(?<![\w:.])|{ESCAPE})[23fF][0-9A-Fa-f]{{3}}:[0-9A-Fa-f:]{{1,35}}+(?!\w)")
DISCORD = re.compile(
    r"(?<![A-Za-z0-9_.-])(?:[MNO][A-Za-z0-9]{3}){6}[A-Za-z0-9]{0,2}+\.[A-Za-z0-9_-]{6}+\.[A-Za-z0-9_-]{27,38}+"
    r"(?![A-Za-z0-9_-])"
)
GITLAB = re.compile(
    r"(?<![A-Za-z0-9_-])gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas)-(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_.-]{20,}+"
)


def made_of(*pieces: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=14).map("".join)


@given(made_of("ada", "@", "%40", "example", ".", "org", "\\n", "%3D", "-", " ", "ä", "x" * 70, "+", "_"))
def test_emails(text: str) -> None:
    assert [each.span() for each in find_emails(text)] == [each.span() for each in EMAIL.finditer(text)]


@given(
    made_of("10", ".", "0", "255", "999", ":", "2001", "fe80", "db8", "\\t", "%0A", "x", " ", "1.2.3.4", "٣")
)
def test_addresses(text: str) -> None:
    for fast, plain in ((private_values._IPV4, IPV4), (private_values._IPV6, IPV6)):
        assert [each.span() for each in fast.finditer(text)] == [each.span() for each in plain.finditer(text)]
    for part, plain in ((private_values._IPV4_PART, IPV4), (private_values._IPV6_PART, IPV6)):
        assert part.search(text) or not plain.search(text)


@given(
    made_of(
        "\\",
        "\\\\",
        "u00",
        "u0041",
        "x7",
        "x41",
        "/",
        "b",
        "f",
        "r",
        "n",
        "\\n",
        "ab",
        "ufeff",
        "dbff",
        "u",
        "\0",
    ),
    st.sampled_from([(), ("ab" * 4,), ("abfabxab",)]),
)
def test_escapes_that_may_hide_a_secret(text: str, secrets: tuple[str, ...]) -> None:
    visible = spellings._UNSEEN_ESCAPE.sub("", text)
    longest = [max(spellings._UNSAFE.split(secret), key=len) for secret in secrets]
    expected = "\\" in text and (
        bool(spellings._ODD_ESCAPE.search(text) or spellings._SPLIT_WORD.search(text))
        or any(part in text or part in visible for part in longest)
    )
    assert spellings._needs_decoding(text, secrets) == expected


@given(
    made_of(
        "/home/ada",
        "~bo/",
        "C:\\Users\\eve",
        "ada",
        "@",
        "%40",
        "example.org",
        '"',
        "\\",
        "\\u0040",
        "\n",
        " ",
    ),
    st.sampled_from([[], [re.compile("a.a")]]),
)
def test_texts_are_searched_if_something_may_be_in_them(text: str, patterns: list[re.Pattern[str]]) -> None:
    line = json.dumps({"text": text}, ensure_ascii=False)
    whole, quick = Private({}, patterns), Private({}, patterns)
    for private in (whole, quick):
        private.line(line)
    whole.text(text)
    if quick.needs_texts(line):
        quick.text(text)
    assert list(quick.values()) == list(whole.values())


def test_an_address_is_found() -> None:
    assert list(find_addresses("at 10.1.2.3, 2001:db8::1 and 127.0.0.1")) == [(3, 11), (13, 24)]


@given(made_of("ada", "Ada", "ADA", "ſ", "s", "S", "\\n", "%0A", " ", "_", "-", "é", "K"))
def test_names(text: str) -> None:
    for names in (["ada", "s"], ["ſ"], ["k"], []):
        either = "|".join(map(re.escape, sorted(names, key=lambda name: (-len(name), name))))
        plain = re.compile(rf"(?:(?<![^\W_])|{ESCAPE})(?:{either})(?![^\W_])", re.IGNORECASE)
        expected = [each.span() for each in plain.finditer(text)] if names else []
        assert [each.span() for each in NameSearch(names).find(text)] == expected


@given(made_of("Mabc" * 6, "Mabc", ".", "abcdef", "x" * 30, "-", " ", "glpat-", "gl", "1" * 20, "_", "\\n"))
def test_tokens_with_another_beginning(text: str) -> None:
    for kind, plain in (("Discord token", DISCORD), ("GitLab token", GITLAB)):
        found = [(each.start, each.end) for each in find_by_pattern(text) if each.kind == kind]
        assert found == [each.span() for each in plain.finditer(text)]


WORDS = made_of(
    *(
        '"',
        '\\"',
        "sk-",
        "Key",
        "=",
        ":",
        "'",
        " ",
        "\n",
        "\\n",
        "ſ",
        "\u0130",
        "\u212aey=",
        "hunt3r-and-m0re",
    ),
    *(
        "secret",
        "SECRET_",
        "access",
        "token",
        "api_",
        "npm_",
        "pass",
        "word",
        "earer",
        "B",
        "A1b2C3d4E5f6G7h8I9j0" * 2,
    ),
    *("Mabc" * 6, ".", "abcdef", "x" * 30),
)


def search_all(text: str) -> list[tuple[int, int, str]]:
    """What the table finds if every pattern reads the complete text."""
    lower = secrets_table._to_lower(text)
    return [
        (*found.span("secret" if found.re.groups else 0), sort.kind)
        for sort in secrets_table.SORTS
        for found in sort.pattern.finditer(lower if sort.any_case else text)
        if sort.plausible(text[slice(*found.span("secret" if found.re.groups else 0))])
    ]


@given(st.lists(WORDS, max_size=6), st.sampled_from([0, 40, 1_000_000]), st.sampled_from([20, 500_000]))
def test_pieces_of_earlier_texts_hide_nothing(texts: list[str], kept: int, longest: int) -> None:
    """The same is found, whatever was searched before, and however much of that is still known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets_table, "MOST_KEPT", kept)
        patch.setattr(secrets_table, "LONGEST_SPLIT", longest)
        for text in (*texts, *texts):
            assert list(secrets_table._search_table(text)) == search_all(text)


def test_letters_that_change_their_length_hide_no_hint_of_another_piece() -> None:
    """Texts with such letters are searched without those that become ASCII letters."""
    secret = "api_\u212aey=hunt3r-and-m0re"  # the sign for Kelvin, which is k in lowercase
    list(find_by_pattern(f'\u0130"{secret}'))
    assert [match.kind for match in find_by_pattern(secret)] == ["password or key value"]


def test_no_hint_contains_a_quote() -> None:
    """Texts are divided at quotes, and each piece is searched for hints by itself."""
    for sort in secrets_table.SORTS:
        assert '"' not in sort.hint + sort.part


def test_a_long_piece_is_searched_for_hints_once() -> None:
    prompt = "Write the token of the day. " * 300
    list(find_by_pattern(f'{{"prompt":"{prompt}","attempt":1}}'))
    searched: list[str] = []
    add = secrets_table._piece_hints.add

    def note_and_add(pieces: Sequence[str]) -> set[str]:
        searched.extend(pieces)
        return add(pieces)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets_table._piece_hints, "add", note_and_add)
        list(find_by_pattern(f'{{"prompt":"{prompt}","attempt":2}}'))
    assert searched == [":2}"]


def test_few_pieces_are_kept() -> None:
    """The memory of an export doesn't depend on how long a history is."""
    for number in range(50):
        list(find_by_pattern(f"{number} is a number. " * 4_000))
    assert sum(map(len, secrets_table._piece_hints)) <= secrets_table.MOST_KEPT


def test_few_short_pieces_are_kept() -> None:
    """A run of very many jobs meets the name of each, and its memory doesn't depend on how many there are."""
    for number in range(20_000):
        list(find_by_pattern(f'"job-{number}"' + "x" * secrets_table.SHORT_TEXT))
    assert len(secrets_table._piece_hints) <= secrets_table.MOST_KEPT / secrets_table.PIECE_COST
