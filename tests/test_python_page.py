"""The page on the Python interface says what is true: its program runs, and its list is the whole interface."""

from __future__ import annotations

import hashlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import logist
from tests.support import ROOT, process_environment

PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXPECTED = re.compile(r"# -> (.+)$", re.MULTILINE)


DOCS_SCRIPT = runpy.run_path(str(ROOT / "scripts" / "docs"))


@pytest.fixture
def output(tmp_path: Path) -> list[str]:
    """What the examples of the page print, run one after the other in one process."""
    program = tmp_path / "program.py"
    program.write_text("\n".join(CODE.findall(PAGE)), "utf-8")
    ran = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env=process_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def test_the_examples_print_what_their_comments_say(output: list[str]) -> None:
    expected = EXPECTED.findall("\n".join(CODE.findall(PAGE)))
    assert len(expected) > 5
    lines = iter(output)
    for text in expected:  # in this order
        assert any(line.startswith(text) for line in lines), (text, output)


def test_the_list_of_the_page_is_the_whole_interface() -> None:
    listed = DOCS_SCRIPT["list_python_interface"]()
    assert PAGE.endswith(listed), "run scripts/docs"


def test_a_change_of_the_interface_has_a_line_in_the_changelog() -> None:
    """The line names the interface by a hash, so that a change needs a line with the new one."""
    listed = DOCS_SCRIPT["list_python_signatures"]()
    digest = hashlib.sha256("\n".join(listed).encode()).hexdigest()[:8]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"(Python interface {digest})" in changelog, (
        f"say in CHANGELOG.md what changed (Python interface {digest})"
    )


def test_type_checkers_see_the_same_names() -> None:
    stub = (ROOT / "logist" / "__init__.pyi").read_text("utf-8")
    named = set(re.findall(r"^from \S+ import (\w+) as \1$", stub, re.MULTILINE))
    assert named | {"__version__"} == set(dir(logist))
    assert all(getattr(logist, name) is not None for name in dir(logist))
    assert (ROOT / "logist" / "py.typed").is_file()


def test_every_public_method_is_annotated_and_explained() -> None:
    for owner in (logist.Project, logist.Job):
        for name, member in vars(owner).items():
            if name.startswith("_"):
                continue
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            assert function.__doc__, name
            assert "return" in function.__annotations__, name
