"""The files that decide what a package manager installs: lock files, and where a project has none, its manifests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logist.core.patterns import excluding

ECOSYSTEMS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        (
            "uv.lock",
            "poetry.lock",
            "pdm.lock",
            "Pipfile.lock",
            "pylock*.toml",
            "requirements*.txt",
            "requirements/**/*.txt",
            "constraints*.txt",
            "conda-lock.yml",
            "environment.yml",
        ),
        ("pyproject.toml", "setup.py", "setup.cfg", "Pipfile"),
    ),
    (
        (
            "package-lock.json",
            "npm-shrinkwrap.json",
            "yarn.lock",
            "pnpm-lock.yaml",
            "bun.lock",
            "bun.lockb",
        ),
        ("package.json",),
    ),
    (("Cargo.lock",), ("Cargo.toml",)),
    (("go.sum",), ("go.mod",)),
    (("Gemfile.lock",), ("Gemfile",)),
    (("composer.lock",), ("composer.json",)),
)
"""Lock files and manifests of each ecosystem."""
VERSIONS = (".python-version", ".nvmrc", ".node-version", ".tool-versions", "rust-toolchain*")
"""Files that choose the version of a language."""


def choose_lock_files(paths: Iterable[str], patterns: Sequence[str] = ()) -> list[str]:
    """Those of `paths` that decide what is installed, sorted; with `patterns`, exactly those that match one."""
    known = sorted(paths)
    if patterns:
        return _matching(known, patterns)
    chosen = set(_matching(known, VERSIONS))
    for locks, manifests in ECOSYSTEMS:
        chosen.update(_matching(known, locks) or _matching(known, manifests))
    return sorted(chosen)


def _matching(paths: Iterable[str], patterns: Sequence[str]) -> list[str]:
    rules = excluding(patterns)
    return [path for path in paths if rules.covers(path)]
