"""Merges settings as plain JSON. Doesn't import the models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def merge_settings(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge `over` into `base`: mappings key by key, everything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        below = base.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            result[key] = merge_settings(below, value)
        elif not (isinstance(below, dict) and value is None):  # `limits:` with only comments under it
            result[key] = value
    return result


def iter_leaves(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of every field that contains no other fields."""
    for key, value in data.items():
        field = f"{path}.{key}" if path else key
        if isinstance(value, dict) and value:
            yield from iter_leaves(value, field)
        else:
            yield field, value


def list_leaf_paths(data: Mapping[str, Any]) -> list[str]:
    """Return the path of every field that contains no other fields."""
    return [field for field, _ in iter_leaves(data)]
