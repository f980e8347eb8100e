"""The rules of the house that import-linter and ruff cannot say: who prints, who reads the environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import ROOT

PRINTING = ("print", "click.echo", "click.secho", "sys.stdout", "sys.stderr")
ASKING = ("fileno", "isatty")
"""What may be asked of a stream by those who do not write to it."""
ENVIRONMENT = ("os.environ", "os.environb", "os.getenv", "os.putenv", "os.unsetenv")


class Module(NamedTuple):
    """One module of the package, parsed once for all rules."""

    docstring: str | None
    names: list[tuple[str, int]]


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    """Every module of the package by its name."""
    paths = sorted((ROOT / "logist").rglob("*.py"))
    return {get_module_name(path): read_module(path.read_text("utf-8")) for path in paths}


def read_module(source: str) -> Module:
    tree = ast.parse(source)
    return Module(ast.get_docstring(tree), list(iterate_used_names(tree)))


def get_module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def dotted(node: ast.AST) -> str:
    """`a.b` for the expression a.b, "" for what is no plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def iterate_used_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name used in a module, with its line; `from os import environ` counts as os.environ."""
    nodes = list(ast.walk(tree))
    asked = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in ASKING}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Name | ast.Attribute) and id(node) not in asked:
            yield dotted(node), node.lineno


def find_uses(modules: dict[str, Module], forbidden: tuple[str, ...], allowed: set[str]) -> list[str]:
    return [
        f"{name}:{line} uses {word}"
        for name, module in modules.items()
        if name not in allowed
        for word, line in module.names
        if word in forbidden
    ]


def test_only_render_prints(modules: dict[str, Module]) -> None:
    # On Windows, `logist.__main__` says that Logist does not run there, before it imports anything.
    assert find_uses(modules, PRINTING, {"logist.cli.show.render", "logist.__main__"}) == []


def test_only_config_reads_the_environment(modules: dict[str, Module]) -> None:
    # litellm takes some of its settings from the environment alone: its agent sets them, in the courier.
    assert (
        find_uses(
            modules,
            ENVIRONMENT,
            {"logist.config.environment", "logist.agents.clients.litellm"},
        )
        == []
    )


def test_every_module_says_what_it_owns(modules: dict[str, Module]) -> None:
    assert [name for name, module in modules.items() if not module.docstring] == []


def test_the_rules_see_what_they_forbid() -> None:
    lines = ("from os import getenv", "os.environ['A']", "print(1)", "click.echo('')", "sys.stdout.write('')")
    modules = {"m": read_module("\n".join(lines))}
    uses = find_uses(modules, PRINTING + ENVIRONMENT, set())
    assert sorted(uses) == [
        "m:1 uses os.getenv",
        "m:2 uses os.environ",
        "m:3 uses print",
        "m:4 uses click.echo",
        "m:5 uses sys.stdout",
    ]
    assert find_uses(modules, PRINTING + ENVIRONMENT, {"m"}) == []
    assert find_uses({"m": read_module("sys.stdout.isatty()")}, PRINTING, set()) == []


def find_class_names(source: str) -> list[str]:
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "logist").rglob("*.py")):
        for name in find_class_names(path.read_text("utf-8")):
            places.setdefault(name, []).append(get_module_name(path))
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
