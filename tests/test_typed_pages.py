"""The tutorial and the examples of the gallery, each typed line by line into one shell: it shows what the page shows."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.endpoint import Endpoint
from tests.support import ROOT
from tests.test_guide import shows
from tests.torture import agent_bench
from tests.wire import Json

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


@pytest.mark.deep
def test_the_real_claude_code_shows_what_its_stand_in_shows(tmp_path: Path) -> None:
    if not list((ROOT / ".venv-agents").glob(f"{agent_bench.BUNDLED}/claude")):
        pytest.skip("scripts/test --deep installs Claude Code in .venv-agents")
    place = agent_bench.installed("claude")
    page = list(read_commands((ROOT / "docs" / "example-shell-loop.md").read_text("utf-8")))
    # Without the loop, which would run it outside of the sandbox.
    stand_in = next(index for index, typed in enumerate(page) if typed.command.startswith("mkdir -p"))
    rest = next(index for index, typed in enumerate(page) if typed.command == "mkdir .logist")
    trusting = next(index for index, typed in enumerate(page) if typed.command.startswith("logist trust"))
    cheat, fix = "s/17)/12)  # was 17/", "s/sum(price /sum(price * count /"
    steps: list[Json] = [
        {"calls": [{"shell": f"sed -i '{cheat}' test_cart.py"}]},
        _finish("All tests pass now."),
        _finish("The tests pass.", output={"verdict": "PASS"}),
        {"calls": [{"shell": f"sed -i 's/12)  # was 17/17)/' test_cart.py && sed -i '{fix}' cart.py"}]},
        _finish("Multiplied by the count, and restored the test."),
        _finish("The tests pass.", output={"verdict": "PASS"}),
    ]
    with Endpoint(*steps) as endpoint:
        address = {
            "base_url": f"{endpoint.base}/v1",
            "api_key_env": "ANTHROPIC_API_KEY",
            "protocol": "anthropic",
        }
        readable = json.dumps([str(root) for root in place.roots])
        commands = [
            *page[:stand_in],
            *page[rest:trusting],
            Typed(
                f"logist config set --user providers.anthropic {shlex.quote(json.dumps(address))}", ["..."]
            ),
            Typed(f"logist config set --user sandbox.readable {shlex.quote(readable)}", ["..."]),
            Typed(f"export PATH=$PATH:{shlex.quote(place.path)}", []),
            *page[trusting:],
        ]
        for typed, seen in zip(commands, type_commands(commands, tmp_path), strict=True):
            assert shows(typed.shown, [line.rstrip() for line in seen]), (typed.command, seen)
        assert endpoint.taken == len(steps)
        assert all(request["path"].endswith("/messages") for request in endpoint.requests)


def _finish(summary: str, **more: object) -> Json:
    """A last answer with the exit command."""
    command = {
        "action": "COMPLETED",
        "evidence_files": ["cart.py"],
        "summary_for_supervisor": summary,
        **more,
    }
    return {"text": json.dumps(command)}
