"""The skill for agents: its commands and examples work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from logist.cli.main import root
from logist.resources import find_resource
from tests.support import RunLogist

SKILL = find_resource("skills", "logist")
PAGES = sorted(SKILL.rglob("*.md"))
_COMMAND = re.compile(r"(?:^\$ |`)(logist [^`\n]+)", re.MULTILINE)
_BLOCK = re.compile(r"^```(mermaid|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_STEWARDS = {"approve", "merge", "trust", "resume", "poststep"}
"""Commands that the skill must not offer in an example."""


def list_commands() -> list[str]:
    return sorted({text for page in PAGES for text in _COMMAND.findall(page.read_text("utf-8"))})


def test_the_skill_is_valid() -> None:
    program = Path(sys.executable).with_name("agentskills")
    ran = subprocess.run(
        [program, "validate", SKILL], env={"LC_ALL": "C.UTF-8"}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("text", list_commands())
def test_each_command_exists_with_its_options(text: str) -> None:
    words = shlex.split(text)[1:]
    command: click.Command = root
    context = click.Context(root)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words.pop(0))
        assert found is not None, text
        command = found
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known


def test_no_example_decides_for_the_steward() -> None:
    for page in PAGES:
        for line in page.read_text("utf-8").splitlines():
            assert not (line.startswith("$ ") and _STEWARDS & set(line.split()))


def test_each_link_leads_to_a_page() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).is_file()


def test_each_role_and_workflow_validates(tmp_path: Path, run_logist: RunLogist) -> None:
    count = 0
    for page in PAGES:
        for kind, text in _BLOCK.findall(page.read_text("utf-8")):
            count += 1
            file = tmp_path / (f"{count}.mmd" if kind == "mermaid" else f"{count}.yaml")
            file.write_text(text)
            ran = run_logist("workflow" if kind == "mermaid" else "role", "validate", str(file), cwd=tmp_path)
            assert ran.code == 0, ran.err + ran.out
    assert count == 3


@pytest.mark.parametrize(
    ("option", "place"), [("--claude", ".claude"), ("--codex", ".agents"), ("--agents", ".agents")]
)
def test_installing_asks_and_replaces(option: str, place: str, tmp_path: Path, run_logist: RunLogist) -> None:
    assert run_logist("skill", "install", option, cwd=tmp_path).code == 8
    assert list(tmp_path.iterdir()) == []
    assert run_logist("skill", "install", option, "--yes", cwd=tmp_path).code == 0
    installed = tmp_path / place / "skills/logist"
    assert {page.relative_to(installed) for page in installed.rglob("*.md")} == {
        page.relative_to(SKILL) for page in PAGES
    }
    assert run_logist("skill", "install", option, cwd=tmp_path).code == 0  # nothing to write
    (installed / "SKILL.md").write_text("mine")
    assert run_logist("skill", "install", option, cwd=tmp_path).code == 8
    assert (installed / "SKILL.md").read_text() == "mine"


def test_installing_follows_no_link(tmp_path: Path, run_logist: RunLogist) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".agents").symlink_to("elsewhere")
    assert run_logist("skill", "install", "--yes", cwd=tmp_path).code == 8
    assert list((tmp_path / "elsewhere").iterdir()) == []
