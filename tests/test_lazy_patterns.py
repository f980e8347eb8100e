"""A pattern that is compiled on use behaves like one that is compiled at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import logist
from logist.lazy_patterns import compile_on_use


def test_it_behaves_like_one_that_is_compiled_at_once() -> None:
    pattern, compiled = (make("(?P<letter>a)b", re.IGNORECASE) for make in (compile_on_use, re.compile))
    for text in ("AB", "AC", "xaby", ""):
        assert bool(pattern.fullmatch(text)) == bool(compiled.fullmatch(text))
        assert pattern.sub("-", text) == compiled.sub("-", text)
        assert [each.groupdict() for each in pattern.finditer(text)] == [
            each.groupdict() for each in compiled.finditer(text)
        ]
    assert (pattern.groups, pattern.pattern, pattern.flags) == (1, compiled.pattern, compiled.flags)


def test_it_is_compiled_at_its_first_use() -> None:
    pattern = compile_on_use("(")  # invalid, which only compiling finds
    with pytest.raises(re.error):
        pattern.search("")


def test_no_group_is_repeated_possessively() -> None:
    """Python 3.11.0 to 3.11.4 match `(?:...)*+` wrongly if a group matches in part; `(?>(?:...)*)` means the same."""
    repeated = re.compile(r"\)(?:[*+?]|\{[0-9,]+\})\+")
    files = sorted(Path(logist.__file__).parent.rglob("*.py"))
    assert len(files) > 300
    found = [
        f"{file.name}: {line}"
        for file in files
        for line in file.read_text("utf-8").splitlines()
        if repeated.search(line)
    ]
    assert found == []
