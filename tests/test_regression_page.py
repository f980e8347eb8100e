"""The page on regression tests says what is true: its commands run, in its order, and show what it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator

import pytest

from logist.core.history.statistics_words import BY, RunEnding
from tests.support import ROOT, Ran, RunLogist
from tests.test_guide import shows

TEXT = (ROOT / "docs" / "regression-testing.md").read_text("utf-8")
PLACE = "/home/ada/tour"
SECONDS = re.compile(r"\b\d+\.\ds\b")
END = "END"
SAID = {0: "", 3: "STUCK", 11: "APPROVAL_REQUIRED"}
"""What a command says that ends so; any other code is shown on the page."""
OTHER_PLUGINS = ("syrupy", "hypothesispytest", "anyio", "xdist", "cacheprovider")
"""Those of the run around it would only cost time."""


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command of the page, a here-document with its lines, and the lines that it shows."""
    command, shown, inside = "", list[str](), False
    for line in TEXT.splitlines():
        text = line[4:]
        if inside:
            command, inside = f"{command}\n{text}", text != END
        elif line.startswith("    $ "):
            if command:
                yield command, _stripped(shown)
            command, shown, inside = text[2:], [], f"<<'{END}'" in text
        elif line.startswith("    ") or not line:
            shown.append(text)
        elif command:
            yield command, _stripped(shown)
            command = ""
    yield command, _stripped(shown)


def _stripped(lines: list[str]) -> list[str]:
    """Without the blank lines at the end, which belong to the page."""
    return "\n".join(lines).rstrip("\n").splitlines()


class Shell:
    """Runs the commands: Logist and pytest in this process, all else in a shell."""

    def __init__(self, pytester: pytest.Pytester, cli: RunLogist, variables: pytest.MonkeyPatch) -> None:
        self.place = pytester.path
        self.ran: list[str] = []
        """The names of the programs."""
        self._pytester, self._cli, self._variables = pytester, cli, variables

    def run(self, command: str) -> Ran:
        """What a command wrote and how it ended; `a | b` and `a > file` of Logist too."""
        name = command.split()[0]
        self.ran.append(name)
        if name == "export":
            self._variables.setenv(*command.removeprefix("export ").split("=", 1))
            return Ran(0, "", "")
        if name == "pytest":
            return self._pytest(shlex.split(command)[1:])
        if name != "logist":
            shell = ["bash", "-c", command]
            done = subprocess.run(shell, cwd=self.place, capture_output=True, text=True, check=False)
            return Ran(done.returncode, done.stdout, done.stderr)
        command, _, file = command.partition(" > ")
        ran = Ran(0, "", "")
        for part in command.split(" | "):
            ran = self._cli(*shlex.split(part)[1:], stdin=ran.out, cwd=self.place)
        if file:
            (self.place / file).write_text(ran.out, "utf-8")
            ran = ran._replace(out="")
        return ran

    def _pytest(self, arguments: list[str]) -> Ran:
        off = [f"-pno:{name}" for name in OTHER_PLUGINS]
        result = self._pytester.runpytest_inprocess(*off, *arguments)
        return Ran(int(result.ret), "\n".join(result.outlines), "\n".join(result.errlines))


def test_the_commands_do_what_the_page_says(
    pytester: pytest.Pytester, cli: RunLogist, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, done = Shell(pytester, cli, monkeypatch), Ran(0, "", "")
    found = list(commands())
    for (command, expected), (following, _) in zip(found, [*found[1:], ("", [])], strict=True):
        if command == "echo $?":
            assert expected == [str(done.code)]
            continue
        done = shell.run(command)
        seen = (done.out + done.err).replace(str(shell.place), PLACE).splitlines()
        # How long a step took is in its history, and depends on what else the machine does.
        expected, seen = (
            [SECONDS.sub("<seconds>", line.rstrip()) for line in each] for each in (expected, seen)
        )
        assert not expected or shows(expected, seen), (command, seen)
        assert following == "echo $?" or SAID.get(done.code, "\0") in done.out, (command, seen)
    assert shell.ran.count("logist") > 20
    assert shell.ran.count("pytest") == 3
    for file in ("replay.xml", "stats.csv", "whatif.json"):
        assert (shell.place / file).stat().st_size > 50


def test_the_workflow_runs_what_the_page_runs() -> None:
    steps = re.findall(r"- run: ((?:logist|pytest) .*)", TEXT)
    assert len(steps) == 2
    assert set(steps) <= {command for command, _ in commands()}


def test_what_runs_are_counted_by_is_explained() -> None:
    section = TEXT.split("## 8. Count")[1].split("\n## ")[0]
    assert [by for by in BY if not re.search(rf"\b{by}\b", section)] == []
    assert [ended for ended in RunEnding if f"`{ended}`" not in section] == []
