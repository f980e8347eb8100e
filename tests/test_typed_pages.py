"""The tutorial and the examples of the gallery, each typed line by line into one shell: it shows what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import ROOT
from tests.test_guide import shows

PLACE = "/home/ada"
ADA = {"NAME": "Ada", "EMAIL": "ada@example.com"}
FIRST, CONTINUED = "    $ ", "    "
MARK = "-- the command has ended --"


class Typed(NamedTuple):
    """A command of the page, with its here-document, and the lines that the page shows for it."""

    command: str
    shown: list[str]


def read_commands(text: str) -> Iterator[Typed]:
    """Yield the commands of all blocks, in order."""
    lines = iter(text.splitlines())
    typed: Typed | None = None
    for line in lines:
        if line.startswith(FIRST):
            if typed:
                yield typed
            command = line.removeprefix(FIRST)
            if "<<'END'" in command:
                for part in lines:
                    command += f"\n{part.removeprefix(CONTINUED)}"
                    if part == f"{CONTINUED}END":
                        break
            typed = Typed(command, [])
        elif typed and line.startswith(CONTINUED):
            typed.shown.append(line.removeprefix(CONTINUED))
        elif typed:
            yield typed
            typed = None
    if typed:
        yield typed


def type_commands(commands: list[Typed], place: Path) -> Iterator[list[str]]:
    """Type each command into the same shell, with nothing of this machine's settings; yield the lines that it shows."""
    home = place / "home"
    home.mkdir()
    variables = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in ADA.items()},
    }
    script = "".join(
        f"{'echo $code' if typed.command == 'echo $?' else typed.command}\ncode=$?; echo '{MARK}'\n"
        for typed in commands
    )
    done = subprocess.run(
        ["bash", "--norc"],
        input=script,
        cwd=place,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    *shown, rest = done.stdout.replace(str(place), PLACE).split(f"{MARK}\n")
    assert (len(shown), rest) == (len(commands), ""), done.stdout
    for text in shown:
        yield text.splitlines()


PAGES = [ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs").glob("example-*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_shows_what_its_commands_show(page: Path, tmp_path: Path) -> None:
    commands = list(read_commands(page.read_text("utf-8")))
    for typed, seen in zip(commands, type_commands(commands, tmp_path), strict=True):
        # Trailing blanks of a test runner's output, which the page doesn't have.
        assert shows(typed.shown, [line.rstrip() for line in seen]), (typed.command, seen)
    assert len(commands) >= 8


def test_every_example_is_in_the_gallery() -> None:
    gallery = (ROOT / "docs" / "gallery.md").read_text("utf-8")
    assert re.findall(r"\]\((example-[\w-]+\.md)\)", gallery) == [page.name for page in PAGES[1:]]
