"""Excerpts of the files that explain a project: what is useful of each, the important ones first, in a fixed size."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.core.relevance.key_files import MAX_BYTES, MOST_FILES, choose_key_files, format_key_files

README = """\
<p align="center">
  <img
    src="logo.svg" />
</p>

<!-- a
comment -->
[![Build](https://ci.example/b.svg)](https://ci.example)
[![npm
version](https://npm.example/v.svg)](https://npm.example)

# Shop

Sells [pears](https://pears.example).

Not apples.

## Install

npm install shop

[link]: https://example.org
"""
PACKAGE = {
    "name": "shop",
    "version": "1.2.3",
    "author": "Ada",
    "files": ["a"],
    "devDependencies": {"vitest": "^1", "eslint": "^9"},
    "scripts": {"zip": "zip -r", "test": "vitest run"},
    "type": "module",
    "engines": {"node": ">=20"},
    "workspaces": ["web", "api"],
}
PYPROJECT = """\
[project]
name = "shop"
authors = [{name = "Ada"}]
classifiers = ["a", "b"]
dependencies = ["flask>=3", "attrs"]
[project.scripts]
shop = "shop.cli:main"
[project.optional-dependencies]
dev = ["pytest"]
[build-system]
build-backend = "hatchling.build"
[tool.ruff.lint]
select = ["E"]
[tool.pytest.ini_options]
addopts = "-q"
"""
CARGO = """\
[package]
name = "shop"
edition.workspace = true
[workspace]
members = ["crates/a", "crates/b"]
[dependencies]
serde = { version = "1" }
"""
WORKFLOW = """\
name: CI
on: push
jobs:
  run:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: make test
      - run: make test
      - name: Lint
        run: |
          # all of them
          echo "x" >> $GITHUB_ENV
          make lint
        env:
          A: b
"""
EXCERPTS = {
    "README.md": (README, "# Shop\n\nSells [pears](https://pears.example).\n\nNot apples."),
    "package.json": (
        json.dumps(PACKAGE),
        (
            "name: shop\nscripts.test: vitest run\nscripts.zip: zip -r\nworkspaces: web, api\nengines.node: >=20\n"
            "devDependencies: vitest, eslint\ntype: module"
        ),
    ),
    "pyproject.toml": (
        PYPROJECT,
        (
            "project.name: shop\nproject.scripts.shop: shop.cli:main\nproject.dependencies: flask>=3, attrs\n"
            "project.optional-dependencies: dev\nbuild-system.build-backend: hatchling.build\ntool: ruff, pytest"
        ),
    ),
    "Cargo.toml": (CARGO, "package.name: shop\nworkspace.members: crates/a, crates/b\ndependencies: serde"),
    "go.mod": (
        "module shop\n\ngo 1.22\n\nrequire (\n\tx.org/a v1.0.0\n\tx.org/b v1.0.0 // indirect\n)\n",
        "module shop\ngo 1.22\n\tx.org/a v1.0.0",
    ),
    "Makefile": (
        "# All\nPY := python\n.PHONY: test\ntest: build\n\t@$(PY) -m pytest\n\tx\nlint :\n\truff .\nall: test\n",
        "test: $(PY) -m pytest\nlint: ruff .\nall",
    ),
    "pom.xml": (
        '<?xml version="1.0"?>\n<!--\n  License\n-->\n<project xmlns="http://m">\n  <artifactId>shop</artifactId>\n</project>\n',
        "  <artifactId>shop</artifactId>\n</project>",
    ),
    "build.gradle": (
        "/*\n * License\n */\nplugins {\n  id 'java' // x\n}\n",
        "plugins {\n  id 'java' // x\n}",
    ),
    "Dockerfile": (
        "# syntax=x\nFROM python:3.11\nCOPY dist/* .\n\nRUN make\n",
        "FROM python:3.11\nCOPY dist/* .\nRUN make",
    ),
    "Gemfile": ("# frozen\n\nsource 'x'\ngem 'rake'\n", "source 'x'\ngem 'rake'"),
    "tsconfig.json": ('{ // comment\n  "strict": true\n}\n', '{ // comment\n  "strict": true\n}'),
    "AGENTS.md": ("# Rules\n\n```\nmake test\n```\n", "# Rules\n\n```\nmake test\n```"),
    "CONTRIBUTING.md": (
        "Thanks!\n\n```bash\nmake test\n# x\n```\n\n```py\nx = 1\n```\n\n$ tox\n",
        "make test\n$ tox",
    ),
    ".github/workflows/ci.yml": (WORKFLOW, "make test\nmake lint"),
}


def excerpt(path: str, text: str) -> str:
    return format_key_files((file, text) for file in choose_key_files([path]))


@pytest.mark.parametrize("path", EXCERPTS)
def test_of_each_key_file_the_useful_lines_are_shown(path: str) -> None:
    text, useful = EXCERPTS[path]
    fence = "````" if "```" in useful else "```"
    assert excerpt(path, text) == f"Excerpts of key files:\n\n{path}:\n{fence}\n{useful}\n{fence}"


def test_the_important_files_come_first_and_others_are_none() -> None:
    paths = [
        "src/README.md", "src/package.json", "main.py", "docs/guide.md", "Dockerfile", ".github/workflows/stale.yml",
        ".github/workflows/test.yml", "Makefile", "package.json", "CLAUDE.md", "Readme.rst", ".github/CONTRIBUTING.md",
        "requirements.txt", "tsconfig.json", ".env", "README.md.pem",
    ]  # fmt: skip
    assert [file.path for file in choose_key_files(paths)] == [
        "Readme.rst", "CLAUDE.md", "package.json", "Makefile", ".github/CONTRIBUTING.md", ".github/workflows/test.yml",
        "tsconfig.json", "Dockerfile",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["package.json", "Cargo.toml"])
@pytest.mark.parametrize("text", ["", "[1]", "{", '"x"', "[" * 50_000, "name = 1\nname = 2"])
def test_a_broken_settings_file_is_no_error(name: str, text: str) -> None:
    assert text[:20].strip() in excerpt(name, text) or text in ("[1]", '"x"')


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Cargo.toml", f"build = 0x{'f' * 5_000}"),
        ("Cargo.toml", f"build = [0x{'f' * 5_000}]"),
        ("Cargo.toml", f"{'.'.join(['a'] * 30_000)} = 1"),
    ],
    ids=["number", "list", "key"],
)
def test_what_takes_too_long_or_cannot_be_written_is_shown_unread(name: str, text: str) -> None:
    assert text[:20] in excerpt(name, text)


def test_no_depth_of_a_settings_file_is_an_error() -> None:
    """Near the limit of recursion, a value can still be read, but not be written."""
    for depth in range(850, 1_000):
        assert "[[" in excerpt("package.json", f'{{"a": {"[" * depth}{"]" * depth}}}')


def test_a_copy_is_shown_once_and_files_without_useful_lines_are_not() -> None:
    files = choose_key_files(["AGENTS.md", "CLAUDE.md", "Makefile", "README.md"])
    shown = format_key_files((file, "" if file.path == "README.md" else "Be kind.\n") for file in files)
    assert shown == "Excerpts of key files:\n\nAGENTS.md:\n```\nBe kind.\n```"
    assert format_key_files([]) == ""


def test_lines_without_words_are_not_shown() -> None:
    text = "Shop\n====\n\n[pears]: https://pears.example\n.. image:: shop.png\nSells pears.\n"
    assert excerpt("README.rst", text).split("```")[1].split() == ["Shop", "Sells", "pears."]


def test_of_deep_settings_the_names_are_shown() -> None:
    text = json.dumps({"compile": {"targets": {"linux": {"arch": "arm", "strip": True}}}})
    assert "\ncompile.targets.linux: arch, strip\n" in excerpt("deno.json", text)


@pytest.mark.parametrize("length", range(4, 24))
def test_the_room_that_is_left_is_filled(length: int) -> None:
    """With the last lines of a file that begins there, up to the last byte."""
    files = choose_key_files(f"{number}.csproj" for number in range(MOST_FILES))
    shown = format_key_files((file, f"<{file.path}/>\n" + f"{'x' * length}\n" * 400) for file in files)
    assert MAX_BYTES - 60 < len(shown.encode()) <= MAX_BYTES


def test_key_files_are_few() -> None:
    assert len(choose_key_files([f"{number}.csproj" for number in range(MOST_FILES + 1)])) == MOST_FILES


def test_escapes_do_not_bring_in_control_characters() -> None:
    shown = excerpt("package.json", r'{"name": "a\u0000b\u001bc\ud800d\nfoo"}')
    assert "name: a\ufffdb\ufffdc\ufffdd foo" in shown


@given(st.lists(st.sampled_from([*EXCERPTS]), unique=True), st.text("<!-/*[]()`# a\n=:{}\"'é", max_size=400))
def test_whatever_the_files_are_the_limit_is_kept(paths: list[str], text: str) -> None:
    shown = format_key_files((file, text * 20) for file in choose_key_files(paths))
    assert len(shown.encode()) <= MAX_BYTES
    assert all(len(line) < 200 for line in shown.split("\n"))


@pytest.mark.parametrize(
    "piece", ["<!--", "/*\n", "[![", "<a ", "[ ", "- run: |\n", "```\n", "a b:", "a=b ", "![](", "/* "]
)
@pytest.mark.parametrize("path", ["README.md", "Makefile", "Dockerfile", ".github/workflows/ci.yml"])
def test_hostile_files_end(path: str, piece: str) -> None:
    assert len(excerpt(path, piece * (65_536 // len(piece)))) < MAX_BYTES
