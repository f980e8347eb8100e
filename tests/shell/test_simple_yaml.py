"""Simple YAML that is read without a YAML library has the values that the library reads."""

from __future__ import annotations

import random

import pytest

from logist.core.text.simple_yaml import parse_simple_yaml, parse_with_lines
from logist.documents import dump_yaml, parse_document
from logist.documents.reading import parse_any_yaml
from logist.errors import InvalidFile

READ = {
    "": {},
    "# only a comment\n\n": {},
    "id: a\nprompt: Do it, then (maybe) that!\n": {"id": "a", "prompt": "Do it, then (maybe) that!"},
    "a: 1\nb: -2.5\nc: true\nd: null\ne:\nf:\ng: 010\nh: no\ni: 0x1F\nj: 1e3\n": {
        "a": 1,
        "b": -2.5,
        "c": True,
        "d": None,
        "e": None,
        "f": None,
        "g": 10,
        "h": "no",
        "i": 31,
        "j": 1000.0,
    },
    "a: \"x\\n\"  # comment\nb: 'it''s'\nc: x # comment\n": {"a": "x\n", "b": "it's", "c": "x"},
    "limits:\n  # comment\n  cost_threshold: 5\n\nmodel: openai/gpt-5\n": {
        "limits": {"cost_threshold": 5},
        "model": "openai/gpt-5",
    },
    "tags:\n- a\n- 'b c'\nfiles:\n  - src/a.py\n  - 3\n": {"tags": ["a", "b c"], "files": ["src/a.py", 3]},
    'a: [pytest, -q, "x y", 1]\nb: []\n': {"a": ["pytest", "-q", "x y", 1], "b": []},
    "a: |\n  one\n\n    two: 2\n  # three\nb: |-\n  end\n": {
        "a": "one\n\n  two: 2\n# three\n",
        "b": "end",
    },
    "a: >-\n  one\n  two\nb: >\n  - x\n  # y\n\n\nc: 1\n": {"a": "one two", "b": "- x # y\n", "c": 1},
    "endpoint: http://127.0.0.1:8000/v1\ntitle: Größe: klein\n": None,
    "endpoint: http://127.0.0.1:8000/v1\ntitle: Größe\n": {
        "endpoint": "http://127.0.0.1:8000/v1",
        "title": "Größe",
    },
}
LEFT = [
    *(
        "a: x\n  y\n",
        "a: &x 1\n",
        "a: *x\n",
        "a: !t x\n",
        "a: >\n  x\n\n  y\n",
        "a: {b: 1}\n",
        "- a\n",
        "a\n",
    ),
    *("a: >\n  x\n    y\n", "a: >+\n  x\n", "a: >\n  x \n  y\n", "a: >\n  x"),
    *("a: 1\na: 2\n", "true: 1\n", "a: .inf\n", "a:\tx\n", "---\na: 1\n", '{"a": 1}', "'a': 1\n"),
    *('a: "\\u00e9"\n', "a: x: y\n", "a: |+\n  x\n", "a: |2\n  x\n", "a: |\n  x", "a:\n  - b: 1\n", "? a\n"),
    *("\ufeffa: 1\n", "a: x\u2028\n", "a: x\r\n", "  a: 1\nb: 2\n", "a: %x\n", "a: @x\n", "a: 'x\n", "a:b\n"),
    f"a: {'1' * 2000}\n",
]
"""Texts that a YAML library must read, because they are wrong or not simple."""

KEYS = ("a", "b", "key", "c-d", "true", "null", "x_1")
VALUES = (
    *("⚡", "🧭 x", "½", "x ⚡", "é: ü"),
    *(
        "",
        "x",
        "1",
        '"q"',
        "'s'",
        "|",
        "|-",
        ">",
        ">-",
        "[a, b]",
        "[]",
        "a b c",
        "a: b",
        "x #y",
        "x#y",
        "true",
        "- z",
    ),
    *("a, b", "{}", '"a" b', "-x", "\\", "a\\n", "1 2", "http://x/y", "x:", "a:b:c", "a ]", ".", "..a", "/x"),
    *("./x y", ".5", "é", "Do it: now", "ends ", '"', "5 %", 'a"b', "it's", "(x)", "x  y", "1.", "[a,b] # c"),
    *(
        '[1, -q, "a b", .5]',
        '"é\\"x" # c',
        "1_000",
        "2001-01-01",
        "12:30",
        "0o7",
        "+1",
        "%",
        "&a",
        "*a",
        "|2",
    ),
)
TOKENS = (
    *(
        *KEYS,
        *VALUES,
        ": ",
        ":",
        " ",
        "  ",
        "\n",
        "\n",
        "\n",
        "- ",
        "#",
        " #",
        "\t",
        "\r",
        "\ufeff",
        "\u2028",
    ),
    *("---", "...", "? ", "<<:", "\x85", "²", "!t", "`", "'", '"'),
)


def make_text(chance: random.Random) -> str:
    """A text that may be YAML: lines of keys and values, or signs in any order."""
    if chance.random() < 0.3:
        return "".join(chance.choices(TOKENS, k=chance.randint(1, 14)))
    lines, indent = [], 0
    for _ in range(chance.randint(1, 6)):
        indent = max(0, indent + chance.choice([0, 0, 0, 2, -2, 1, 4]))
        value = chance.choice(VALUES)
        begin = chance.choices([f"{chance.choice(KEYS)}:", "-", "", "#"], [13, 4, 2, 1])[0]
        lines.append(f"{' ' * indent}{begin} {value}" if value or chance.random() < 0.5 else f"{begin}")
    return "\n".join(lines) + chance.choice(["", "\n", "\n\n"])


@pytest.mark.parametrize(("text", "values"), READ.items(), ids=repr)
def test_what_is_simple_is_read(text: str, values: object) -> None:
    assert parse_simple_yaml(text) == values
    if values is not None:
        by_library = parse_any_yaml(text, "a.yaml")
        assert repr(by_library.data) == repr(values)
        assert parse_with_lines(text) == (values, by_library.lines)
        assert parse_document(text, "a.yaml") == by_library


@pytest.mark.parametrize("text", LEFT, ids=lambda text: repr(text[:30]))
def test_the_rest_is_left_to_a_library(text: str) -> None:
    assert parse_simple_yaml(text) is None


def test_what_logist_writes_is_simple() -> None:
    data = {
        "id": "a",
        "prompt": "Do\nthis\n\n  x: y\n",
        "title": "a: b",
        "tags": ["x", "y z"],
        "limits": {"cost_threshold": 5},
        "acceptance_criteria": ["a # b"],
        "repo": False,
    }
    assert parse_simple_yaml(dump_yaml(data)) == data


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_read_differently(seed: int) -> None:
    chance = random.Random(seed)
    read = 0
    for _ in range(3000):
        text = make_text(chance)
        parsed = parse_with_lines(text)
        if parsed is not None:
            read += 1
            try:
                by_library = parse_any_yaml(text, "a.yaml")
                expected = repr((by_library.data, dict(sorted(by_library.lines.items()))))
            except InvalidFile as error:
                expected = error.message
            assert repr((parsed[0], dict(sorted(parsed[1].items())))) == expected, text
    assert read > 100
