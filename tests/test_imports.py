"""The rules of the house that import-linter and ruff cannot say: who prints, who reads the environment, how long."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

LONGEST = 350
MODULES = sorted((ROOT / "logist").rglob("*.py"))

PRINTING = ("print", "click.echo", "click.secho", "sys.stdout", "sys.stderr")
ASKING = ("fileno", "isatty")
"""What may be asked of a stream by those who do not write to it."""
ENVIRONMENT = ("os.environ", "os.environb", "os.getenv", "os.putenv", "os.unsetenv")


def name(module: Path) -> str:
    return ".".join(module.relative_to(ROOT).with_suffix("").parts)


def dotted(node: ast.AST) -> str:
    """`a.b` for the expression a.b, "" for what is no plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def used(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name used in a module, with its line; `from os import environ` counts as os.environ."""
    nodes = list(ast.walk(tree))
    asked = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in ASKING}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Name | ast.Attribute) and id(node) not in asked:
            yield dotted(node), node.lineno


def uses(module: Path, forbidden: tuple[str, ...]) -> list[str]:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return [f"{name(module)}:{line} uses {word}" for word, line in used(tree) if word in forbidden]


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_only_render_prints(module: Path) -> None:
    if name(module) != "logist.cli.render":
        assert uses(module, PRINTING) == []


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_only_config_reads_the_environment(module: Path) -> None:
    # litellm takes some of its settings from the environment alone: its agent sets them, in the courier.
    if name(module) not in ("logist.config.environment", "logist.agents.litellm"):
        assert uses(module, ENVIRONMENT) == []


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_a_module_owns_one_thing(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    assert ast.get_docstring(ast.parse(text)), "its first line says what it owns"


def test_the_rules_see_what_they_forbid() -> None:
    lines = ("from os import getenv", "os.environ['A']", "print(1)", "click.echo('')", "sys.stdout.write('')")
    seen = {word for word, _ in used(ast.parse("\n".join(lines)))}
    assert {"os.getenv", "os.environ", "print", "click.echo", "sys.stdout"} <= seen
    assert "sys.stdout" not in {word for word, _ in used(ast.parse("sys.stdout.isatty()"))}
