"""A small program with a test suite of its own, in a real repository: what whole tasks are about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import support

SUITE = (sys.executable, "-B", "-m", "unittest", "-q")
"""The command that says whether the program works. No bytecode: two edits in one second would share it."""

CART = "shop/cart.py"
EDGE = "tests/test_edge.py"
EDGE_TEST = """\
import unittest

from shop.cart import total


class EdgeTest(unittest.TestCase):
    def test_a_hundred_has_no_discount_yet(self):
        self.assertEqual(total([100]), 100)
"""
_TESTS = """\
import unittest

from shop.cart import total


class CartTest(unittest.TestCase):
    def test_a_small_cart(self):
        self.assertEqual(total([1, 2]), 3)

    def test_a_large_cart(self):
        self.assertEqual(total([100, 100]), 180)
"""


def cart(condition: str, before: str = "pass") -> str:
    """The program: a discount under this condition, and a line that is run when it is loaded."""
    return (
        f"import os, time\n{before}\n\n\ndef total(prices):\n    amount = sum(prices)\n"
        f"    return amount - amount / 10 if {condition} else amount\n"
    )


BROKEN = cart("amount >= 100")
MENDED = cart("amount > 100")


def make(path: Path) -> Path:
    """The repository, with one commit; its tests pass, and do not see the bug at 100."""
    (path / "shop").mkdir(parents=True)
    (path / "tests").mkdir()
    (path / "shop" / "__init__.py").touch()
    (path / "tests" / "__init__.py").touch()
    (path / CART).write_text(BROKEN, "utf-8")
    (path / "tests" / "test_cart.py").write_text(_TESTS, "utf-8")
    support.git(path, "init", "--quiet", "--initial-branch", "main")
    commit(path, "shop")
    return path


def commit(path: Path, message: str) -> None:
    """All that is there, as a commit."""
    support.git(path, "add", "--all")
    support.git(path, "commit", "--quiet", "--message", message)


def works(path: Path) -> bool:
    """Whether the tests of the repository pass as it stands."""
    return subprocess.run(SUITE, cwd=path, capture_output=True, check=False).returncode == 0


def subjects(path: Path) -> list[str]:
    """The first lines of its commits, the latest first."""
    return support.git(path, "log", "--format=%s").splitlines()
