"""The directories that a checkpoint leaves out unless a config says otherwise."""

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
"""Directories a tool can make again. `target` and `build` are not here: they may as well be somebody's work."""
VOLATILE_CACHES = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
"""Those that every run of a program changes: not part of what a setup makes."""
