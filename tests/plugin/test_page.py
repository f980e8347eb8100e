"""docs/pytest.md names all that there is, and its example is what happens."""

from __future__ import annotations

import ast
import inspect
import re

import pytest

from logist import pytest_plugin
from logist.testing import LogistJob
from logist.testing.job import make_job
from tests.plugin.conftest import Run
from tests.support import ROOT

PAGE = (ROOT / "docs" / "pytest.md").read_text("utf-8")


def test_every_option_argument_and_member_is_explained() -> None:
    source = inspect.getsource(pytest_plugin.pytest_addoption)
    told = set(re.findall(r'"(--logist-[a-z]+|logist_[a-z]+)"', source))
    told |= {
        name
        for name, given in inspect.signature(make_job).parameters.items()
        if given.kind is given.KEYWORD_ONLY
    }
    told |= {name for name in vars(LogistJob) if not name.startswith("_")}
    assert len(told) > 15
    assert [name for name in sorted(told) if not re.search(rf"`{name}[`( ]", PAGE)] == []


def test_it_costs_nothing_where_nobody_asks() -> None:
    """It is loaded with every pytest around: all that it imports by itself is pytest's."""
    tree = ast.parse(inspect.getsource(pytest_plugin))
    named = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.name for node in named if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in named if isinstance(node, ast.ImportFrom)}
    assert modules == {"__future__", "os", "pytest", "re", "sys", "typing"}


def test_its_example_passes(pytester: pytest.Pytester, run: Run) -> None:
    section = PAGE.split("## A job in a test")[1].split("\n## ")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ") or not line.strip()]
    pytester.makepyfile("\n".join(lines))
    run().assert_outcomes(passed=1)
