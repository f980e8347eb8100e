"""The directories that checkpoints leave out by default."""

from __future__ import annotations

DEFAULT_CACHES = (
    "node_modules",
    ".venv",
    "__pycache__",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
)
"""Directories that a tool can create again. Without `target` and `build`, which may contain real work."""
VOLATILE_CACHES = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
"""Directories that every run of a program changes; they are not part of a setup's result."""
