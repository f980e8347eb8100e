"""Patterns as in .gitignore: each row says what git says, which was asked."""

from __future__ import annotations

import time

import pytest

from logist.core.text.patterns import NameGate, Patterns, compile_exclusions, parse_patterns

MATCHES = [
    ("build", ["build", "src/build", "build/x", "a/build/b"], ["builds", "rebuild", "build.py"]),
    ("build/", ["build/x", "a/build/x"], ["build", "a/build"]),
    ("/build", ["build", "build/x"], ["src/build"]),
    ("src/gen", ["src/gen", "src/gen/x"], ["a/src/gen", "src/generated"]),
    ("*.log", [".log", "a.log", "x/y/a.log"], ["a.logs", "log"]),
    ("*.py[co]", ["a.pyc", "x/a.pyo"], ["a.py", "a.pyx"]),
    ("a?c", ["abc", "a-c"], ["ac", "abbc"]),
    ("doc/*.txt", ["doc/a.txt"], ["doc/x/a.txt", "a.txt"]),
    ("**/logs", ["logs", "a/logs", "a/b/logs/x"], ["logs2"]),
    ("a/**/b", ["a/b", "a/x/b", "a/x/y/b/z"], ["a/xb", "x/a/b"]),
    ("abc/**", ["abc/x", "abc/x/y"], ["abc", "x/abc/y"]),
    ("**", ["a", "a/b"], []),
    ("[!a]b", ["cb"], ["ab", "b"]),
    ("[a-c]x", ["ax", "cx"], ["dx"]),
    ("[]-]x", ["]x", "-x"], ["ax"]),
    ("[[:digit:]]x", ["1x"], ["ax"]),
    ("[a", [], ["[a", "a"]),
    (r"\#x", ["#x"], ["x"]),
    (r"\!x", ["!x"], ["x"]),
    (r"a\*", ["a*"], ["ab"]),
    (r"x\ ", ["x "], ["x"]),
    ("x  ", ["x"], ["x  "]),
    ("x\r", ["x"], ["x\r"]),
    ("# x", [], ["x", "# x"]),
    ("*\n!keep.txt", ["a"], ["keep.txt"]),
    ("*\n!keep/", ["keep/x"], ["keep/"]),
    ("!x\nx", ["x"], []),
    ("x\n!x", [], ["x"]),
    ("x/\n!x/y", ["x/y"], []),
    ("foo*bar*baz", ["foobarbaz", "foo1bar2baz"], ["foobar", "foobaz"]),
]


@pytest.mark.parametrize(("text", "ignored", "kept"), MATCHES)
def test_a_path_is_ignored_as_git_ignores_it(text: str, ignored: list[str], kept: list[str]) -> None:
    patterns = Patterns(parse_patterns(text))

    def covers(path: str) -> bool:
        return patterns.is_ignored(path.removesuffix("/"), directory=path.endswith("/"))

    assert [path for path in ignored if not covers(path)] == []
    assert [path for path in kept if covers(path)] == []


@pytest.mark.parametrize(("text", "ignored"), [(text, ignored) for text, ignored, _ in MATCHES])
def test_the_gate_lets_nothing_pass_that_could_match(text: str, ignored: list[str]) -> None:
    patterns = Patterns(parse_patterns(text))
    gate = NameGate([patterns])
    for path in ignored:
        parts = path.split("/")
        hit = [
            end
            for end in range(1, len(parts) + 1)
            if patterns.match_path("/".join(parts[:end]), end < len(parts))
        ]
        assert all(gate.can_match(parts[end - 1]) for end in hit)
        assert set(parts) >= gate.find_suspects(parts) >= {parts[end - 1] for end in hit}


def test_a_pattern_for_all_of_a_directory_suspects_no_name_elsewhere() -> None:
    patterns = Patterns(parse_patterns("/bin/*\ndocs/**/*.html\n/*.tmp\na/*/b*"))
    names = ["x", "index.html", "b.tmp"]
    assert NameGate([patterns]).find_suspects(names) == set(names)
    assert NameGate([patterns], led=False).find_suspects(names) == {"b.tmp"}
    assert [each.lead for each in patterns.of_paths] == ["bin/", "docs/", "", "a/"]


@pytest.mark.parametrize(
    "text",
    [
        "*a" * 400 + "b",
        "**/a/" * 180 + "b",
        "[a-z]*" * 150 + "9",
        "?" * 900,
        "a" * 999,
        "*" * 999 + "b",
        "(a+)+" * 100,
    ],
)
def test_no_pattern_takes_long(text: str) -> None:
    began = time.process_time()
    patterns = Patterns(parse_patterns(text))
    for path in ("a" * 255, "a/" * 900 + "a"):
        patterns.is_ignored(path)
    assert time.process_time() - began < 2


def test_lines_that_are_too_long_or_too_many_are_passed_over() -> None:
    assert parse_patterns("x" * 1_001) == []
    assert [pattern.text for pattern in parse_patterns("a\nb\nc", most=2)] == ["a", "b"]


def test_excluded_paths_are_patterns_and_caches_are_names_of_directories() -> None:
    hidden = compile_exclusions(["dist", "docs/old", "*.gen.ts"], ["node_modules", "we[i]rd*"])
    shown = ["a.ts", "docs/new", "node_modules.md", "weird"]
    assert not any(hidden.is_ignored(path) for path in shown)
    paths = ["dist", "a/dist/b", "docs/old/x", "x.gen.ts", "node_modules/x", "we[i]rd*/x"]
    assert all(hidden.is_ignored(path) for path in paths)
