"""What a checkpoint leaves out unless a config says otherwise."""

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
