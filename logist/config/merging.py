"""Merges settings as plain JSON. Doesn't import the models."""

from __future__ import annotations

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


def list_leaf_paths(data: dict[str, Any], path: str = "") -> list[str]:
    """Return the path of every field that contains no other fields."""
    paths: list[str] = []
    for key, value in data.items():
        field = f"{path}.{key}" if path else key
        paths += list_leaf_paths(value, field) if isinstance(value, dict) and value else [field]
    return paths
