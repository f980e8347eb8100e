"""A pattern that is compiled on use behaves like one that is compiled at once."""

from __future__ import annotations

import re

import pytest

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
