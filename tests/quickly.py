"""Logist whose couriers find the stand-in for litellm, which loads at once; test_standin compares the two."""

from __future__ import annotations

import sys

from logist.cli import main as product
from logist.config.environment import Environment
from tests import support

STAND_IN = {"PYTHONPATH": str(support.ROOT / "tests" / "torture" / "standin")}

_START = f"import sys; sys.path.insert(0, {str(support.ROOT)!r}); from tests import quickly; quickly.main()"


class Quick(Environment):
    """An environment that says where the stand-in is."""

    def build_child_environment(self) -> dict[str, str]:
        return super().build_child_environment() | STAND_IN


def command() -> list[str]:
    """Logist as a program, as `support.logist_command` starts the real one."""
    return [sys.executable, "-c", _START]


def main() -> None:
    """The program: all but the environment of its couriers is the product's own."""
    ordinary = Environment.build_child_environment
    Environment.build_child_environment = lambda self: ordinary(self) | STAND_IN  # type: ignore[method-assign]
    sys.argv[0] = "logist"
    product()
