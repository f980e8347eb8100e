"""Which files decide what is installed."""

from __future__ import annotations

from logist.core.text.lock_files import choose_lock_files


def test_a_lock_file_decides_and_a_manifest_only_where_there_is_none() -> None:
    locked = ["uv.lock", "pyproject.toml", "web/package-lock.json", "web/package.json"]
    assert choose_lock_files(locked) == ["uv.lock", "web/package-lock.json"]
    assert choose_lock_files(["pyproject.toml", "yarn.lock"]) == ["pyproject.toml", "yarn.lock"]
    assert choose_lock_files(["go.mod", "Cargo.toml", "Gemfile", "README.md"]) == [
        "Cargo.toml",
        "Gemfile",
        "go.mod",
    ]


def test_a_lock_file_is_for_its_directory_and_those_in_it() -> None:
    """A lock file of the docs says nothing about the project."""
    paths = ["docs/requirements.txt", "docs/package-lock.json", "docs/package.json", "package.json"]
    assert choose_lock_files([*paths, "pyproject.toml"]) == [
        "docs/package-lock.json",
        "docs/requirements.txt",
        "package.json",
        "pyproject.toml",
    ]
    assert choose_lock_files(["package-lock.json", "packages/a/package.json"]) == ["package-lock.json"]


def test_requirements_and_versions_of_languages() -> None:
    paths = ["requirements.txt", "requirements-dev.txt", "requirements/ci/x.txt", "docs/x.txt", ".nvmrc"]
    assert choose_lock_files(paths) == [
        ".nvmrc",
        "requirements-dev.txt",
        "requirements.txt",
        "requirements/ci/x.txt",
    ]


def test_patterns_of_a_config_take_their_place() -> None:
    paths = ["uv.lock", "deps/a.lock", "deps/b.txt"]
    assert choose_lock_files(paths, ["deps/"]) == ["deps/a.lock", "deps/b.txt"]
    assert choose_lock_files(paths, ["*.lock", "!uv.lock"]) == ["deps/a.lock"]
