"""Choose the files that determine what a package manager installs: lock files, or manifests if there are none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from logist.core.text.patterns import compile_exclusions

ECOSYSTEMS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        (
            "uv.lock",
            "poetry.lock",
            "pdm.lock",
            "Pipfile.lock",
            "pylock*.toml",
            "conda-lock.yml",
        ),
        ("pyproject.toml", "setup.py", "setup.cfg", "Pipfile", "environment.yml"),
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
REQUIREMENTS = ("requirements*.txt", "requirements/**/*.txt", "constraints*.txt")
"""Files for pip. They don't replace a manifest, because many projects use them only for their docs."""
VERSIONS = (".python-version", ".nvmrc", ".node-version", ".tool-versions", "rust-toolchain*")
"""Files that set the version of a language."""


def choose_lock_files(paths: Iterable[str], patterns: Sequence[str] = ()) -> list[str]:
    """Return the `paths` that determine what is installed, sorted; with `patterns`, exactly those that match one."""
    known = sorted(paths)
    if patterns:
        return _match_paths(known, patterns)
    chosen = set(_match_paths(known, (*VERSIONS, *REQUIREMENTS)))
    for locks, manifests in ECOSYSTEMS:
        locked = _match_paths(known, locks)
        chosen.update(locked)
        folders = {_get_folder(path) for path in locked}
        chosen.update(
            path for path in _match_paths(known, manifests) if not _is_below(_get_folder(path), folders)
        )
    return sorted(chosen)


def _get_folder(path: str) -> str:
    return path.rpartition("/")[0]


def _is_below(folder: str, folders: Collection[str]) -> bool:
    """Whether the folder is in one of `folders`: a lock file also applies to the packages below it."""
    return any(folder == each or not each or folder.startswith(f"{each}/") for each in folders)


def _match_paths(paths: Iterable[str], patterns: Sequence[str]) -> list[str]:
    rules = compile_exclusions(patterns)
    return [path for path in paths if rules.is_ignored(path)]
