"""Writes new YAML files: simple values without a YAML library, which takes as long to load as a short command takes altogether."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from logist.documents import editing

_FEW = 50
"""More fields may be so large that they are written as JSON."""
_LONGEST_KEY = 100
_AMBIGUOUS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that are not text in some version of YAML, in lower case."""


def dump_yaml(data: Mapping[str, object]) -> str:
    """Return the values as a new YAML text, in block style.

    Texts of several lines are written as literal blocks. Very large data is written as JSON, which is valid
    YAML and much faster to write and read.
    """
    if len(data) <= _FEW and all(map(_is_simple, data, data.values())):
        return "".join(f"{key}: {_write_simple(value)}\n" for key, value in data.items()) or "{}\n"
    return editing.dump_any_yaml(data)


def _is_simple(key: str, value: object) -> bool:
    """Whether a field is one line with nothing that YAML quotes or reads in another way."""
    is_text = type(value) is str and _is_plain(value)
    return (
        len(key) <= _LONGEST_KEY
        and " " not in key
        and _is_plain(key)
        and (is_text or type(value) in (bool, int))
    )


def _write_simple(value: object) -> str:
    return str(value).lower() if type(value) is bool else str(value)


def _is_plain(text: str) -> bool:
    return _compile_plain().fullmatch(text) is not None and text.lower() not in _AMBIGUOUS


@cache
def _compile_plain() -> re.Pattern[str]:
    """Letters first, then the signs of ordinary text that mean nothing in YAML; at most 1000 characters."""
    return re.compile(r"[A-Za-z](?:[A-Za-z0-9 _.,;()/+-]{0,998}[A-Za-z0-9_.,;()/+-])?")
