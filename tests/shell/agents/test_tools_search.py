"""search: literals, expressions that would hang, and what is passed over."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from logist.agents.tools import searching
from tests.shell.agents.tool_bench import SECRET, Bench


@pytest.fixture
def filled(tools: Bench) -> Bench:
    files = {
        "README.md": "Alpha beta\ngamma\n",
        "src/app.py": "def alpha():\n    return 'beta'\n",
        "src/deep/more.py": "alpha = 1\r\nALPHA = 2\r\nalpha = 3",
        "src/ü.txt": "straße alpha 🦊\n",
        "node_modules/x.js": "alpha",
        ".git/config": "alpha",
        "src/.git/config": "alpha nested",
        "binary": "alpha\0",
        "empty": "",
    }
    for path, content in files.items():
        place = tools.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode())
    (tools.root / "large").write_bytes(b"alpha\n" + b"x" * (8 << 20))
    return tools


ALPHA = [
    "src/.git/config:1: alpha nested",
    "src/app.py:1: def alpha():",
    "src/deep/more.py:1: alpha = 1",
    "src/deep/more.py:3: alpha = 3",
    "src/ü.txt:1: straße alpha 🦊",
]


def lines(content: str) -> list[str]:
    return [line for line in content.split("\n") if not line.startswith("[")]


@pytest.mark.parametrize("regex", [False, True])
def test_lines_are_found_with_their_place(filled: Bench, regex: bool) -> None:
    content = filled.done("search", pattern="alpha", regex=regex)
    assert lines(content) == ALPHA
    assert content.startswith("[5 lines; 8 files searched]\n")
    assert content.endswith("\n[skipped: 1 binary, 1 over 8 MB]")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"pattern": "ALPHA", "ignore_case": True, "path": "README.md"}, ["README.md:1: Alpha beta"]),
        (
            {"pattern": "A.PHA", "regex": True, "ignore_case": True, "glob": "*.md"},
            ["README.md:1: Alpha beta"],
        ),
        ({"pattern": "STRASSE", "ignore_case": True}, []),
        ({"pattern": "STRAßE", "ignore_case": True}, ["src/ü.txt:1: straße alpha 🦊"]),
        ({"pattern": "alpha", "path": "src/deep"}, ALPHA[2:4]),
        ({"pattern": "alpha", "path": "./src//deep/more.py"}, ALPHA[2:4]),
        ({"pattern": "alpha", "glob": "*.py"}, ALPHA[1:4]),
        ({"pattern": "alpha", "glob": "src/*.py"}, ALPHA[1:2]),
        ({"pattern": "alpha", "glob": "src/**/*.py"}, ALPHA[1:4]),
        ({"pattern": "alpha", "glob": "**/more.*"}, ALPHA[2:4]),
        ({"pattern": "alpha", "glob": "deep/*", "path": "src"}, ALPHA[2:4]),
        ({"pattern": "alpha", "glob": "nothing/*"}, []),
        (
            {"pattern": "a.*a$", "regex": True, "glob": "README.md"},
            ["README.md:1: Alpha beta", "README.md:2: gamma"],
        ),
        ({"pattern": "= 1$", "regex": True}, ["src/deep/more.py:1: alpha = 1"]),
        ({"pattern": "a.c", "regex": False}, []),
        ({"pattern": "🦊"}, ["src/ü.txt:1: straße alpha 🦊"]),
        ({"pattern": "", "glob": "*.py"}, ["src/app.py  31 bytes", "src/deep/more.py  31 bytes"]),
        ({"pattern": "alpha", "path": "node_modules"}, ["node_modules/x.js:1: alpha"]),
    ],
)
def test_a_search_can_be_narrowed(filled: Bench, given: dict[str, object], found: list[str]) -> None:
    assert lines(filled.done("search", **given)) == found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pattern": "(", "regex": True}, "is not a valid Python regular expression: missing )"),
        ({"pattern": "a{4294967296}", "regex": True}, "is not a valid Python regular expression"),
        ({"pattern": "a\nb"}, "line break"),
        ({"pattern": "a" * 1001}, "the limit is 1,000"),
        ({"pattern": "a", "path": "gone"}, "gone not found"),
        ({"pattern": "a", "path": "link"}, "link is a symbolic link"),
        ({"pattern": "a", "path": ".git"}, "git's own directory"),
    ],
)
def test_what_cannot_be_searched_is_told(filled: Bench, given: dict[str, object], words: str) -> None:
    (filled.root / "link").symlink_to("src")
    assert words in filled.fails("search", **given)


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", "(a*)*b", "a*a*a*a*a*a*a*a*b", r"(.*)(.*)(.*)(.*)\1\2\3\4x"]
)
def test_an_expression_that_hangs_is_ended(
    tools: Bench, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    (tools.root / "a").write_text("found aab\n" + "a" * 5000 + "!\n")
    monkeypatch.setattr(searching, "SECONDS", 0.5)
    started = time.monotonic()
    content = tools.call("search", pattern=pattern, regex=True).content
    assert time.monotonic() - started < 30
    assert "the regular expression took too long in a" in content


def test_a_person_can_stop_an_expression(tools: Bench) -> None:
    (tools.root / "a").write_text("a" * 5000 + "!\n")
    late = tools.with_(deadline=time.monotonic() + 1)
    assert "the time limit of this step is reached" in late.fails("search", pattern="(a+)+$", regex=True)
    assert _children() == []


@pytest.mark.deep
def test_an_expression_that_takes_memory_is_ended(tools: Bench) -> None:
    (tools.root / "a").write_text("a" * (7 << 20))
    content = tools.call("search", pattern="((((a)|b)|c)|d)*?e", regex=True).content
    assert content
    assert _children() == []


def _children() -> list[str]:
    mine = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in mine if "matching.py" in Path(f"/proc/{pid}/cmdline").read_text()]


def test_a_literal_is_found_in_time_that_grows_with_the_text(tools: Bench) -> None:
    (tools.root / "a").write_text("a" * (8 << 20))
    for ignore_case in (False, True):
        started = time.process_time()
        content = tools.done("search", pattern="a" * 499 + "b" + "a" * 500, ignore_case=ignore_case)
        assert content.startswith("[0 lines")
        assert time.process_time() - started < 5


@pytest.mark.parametrize("regex", [False, True])
def test_a_long_line_is_cut_around_what_was_found(tools: Bench, regex: bool) -> None:
    (tools.root / "a").write_text("x" * 100_000 + "needle" + "y" * 100_000 + "\nneedle\n")
    long, short = lines(tools.done("search", pattern="needle", regex=regex))
    assert long == "a:1: ..." + "x" * 80 + "needle" + "y" * 154 + "..."
    assert short == "a:2: needle"


def test_too_many_lines_are_cut_and_told(tools: Bench) -> None:
    (tools.root / "a").write_text("needle\n" * 100_000)
    content = tools.done("search", pattern="needle")
    assert len(lines(content)) == 1000
    assert "cut: too many results" in content
    content = tools.ruled(max_result_chars=2000).done("search", pattern="needle")
    assert len(content) <= 2000
    assert content.endswith("[... cut: too many results; use a narrower pattern, path or glob]")


def test_no_half_of_a_secret_is_found(tools: Bench) -> None:
    (tools.root / "a").write_text("x" * 300 + SECRET + "y" * 300 + "\nplain hunter\n")
    for pattern in ("x" + SECRET[:4], SECRET[8:16], SECRET[-4:] + "y", "r2-h"):
        outcome = tools.call("search", pattern=pattern)
        assert "hunter2" not in outcome.content
        assert "2-h" not in outcome.content
        assert "[redacted]" in outcome.content
        assert outcome.redactions >= 1
    for column in range(330):
        (tools.root / "a").write_text("x" * column + "!" + "z" * (150 - column % 150) + SECRET + "y" * 300)
        assert not any(piece in tools.call("search", pattern="!").content for piece in ("hunter2", "unter2-"))


def test_the_first_line_of_files_by_glob(tools: Bench) -> None:
    for path, glob, wanted in [
        ("a/b/c.py", "a/**/c.py", True),
        ("a/c.py", "a/**/c.py", True),
        ("c.py", "**/c.py", True),
        ("a/b/c.py", "**", True),
        ("a/b/c.py", "a/*/c.py", True),
        ("a/b/d/c.py", "a/*/c.py", False),
        ("a/b/c.py", "a/**", True),
        ("b/c.py", "a/**", False),
        ("a/b/c.py", "**/b/**/*.py", True),
        ("a/" * 200 + "c.py", "**/" * 200 + "d.py", False),
        ("a/b", "[/b", False),
    ]:
        assert searching.matches_glob(glob, path) is wanted, (path, glob)
