"""The recipe of docs/merging.md that opens a pull request: run as it is written, with git and a bare repository; only the
forge is a stand-in, which records how it is called.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import support
from tests.support import git

COMMAND = json.dumps({"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."})
REVIEW = json.dumps({**json.loads(COMMAND), "output": {"verdict": "PASS"}})
JOB = "fix-login"


def read_recipe() -> list[list[str]]:
    """The commands of each block of the section."""
    page = (support.ROOT / "docs" / "merging.md").read_text("utf-8")
    section = page.split("## Open a pull request")[1].split("\n## ")[0]
    blocks: list[list[str]] = [[]]
    for line in section.splitlines():
        if line.startswith("    "):
            blocks[-1].append(line[4:])
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


class Place:
    """A clone with a job that has succeeded, the bare repository that it pushes to, and the programs of the recipe."""

    def __init__(self, place: Path) -> None:
        self.bin = place / "bin"
        self.bin.mkdir()
        self.calls = place / "calls"
        self._program("logist", shlex.join(support.logist_command()) + ' "$@"')
        recorder = f"import json, sys; json.dump(sys.argv[1:], open({str(self.calls)!r}, 'w'))"
        self._program("gh", shlex.join([sys.executable, "-c", recorder]) + ' "$@"')
        support.make_repository(place / "first")
        self.forge = place / "forge.git"
        git(place, "clone", "--quiet", "--bare", "first", "forge.git")
        git(place, "clone", "--quiet", "forge.git", "repo")
        self.repo = place / "repo"
        for name, value in (("user.name", "Grace"), ("user.email", "grace@example.org")):
            git(self.repo, "config", name, value)
        work = [
            {"text": COMMAND, "files": {"login.py": "def login(): ...\n"}},
            {"text": REVIEW},
            {"text": COMMAND, "files": {"login.py": "def login(): return True\n"}},
            {"text": REVIEW},
        ]
        script = place / "answers.json"
        script.write_text(json.dumps({"answers": work}))
        self.env = {"LOGIST_AGENT": f"scripted:{script}", "LOGIST_STEWARD": "ada"}
        self.run("logist init", "echo /.logist >> .git/info/exclude")
        self.run(f'logist job create --id {JOB} --title "Fix the login" --prompt "Fix the login."')
        self.run(f"logist job run {JOB} || test $? = 11", f"logist job approve {JOB}")

    def _program(self, name: str, command: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\nexec {command}\n")
        path.chmod(0o755)

    def run(self, *commands: str) -> str:
        """Run commands as in a shell; all must succeed."""
        environment = support.process_environment() | self.env
        environment["PATH"] = f"{self.bin}:{environment['PATH']}"
        script = "\n".join(["set -e", *commands])
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.repo,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def push(self, name: str) -> None:
        """Somebody else pushes a commit to the target branch."""
        other = self.repo.with_name("other")
        shutil.rmtree(other, ignore_errors=True)
        git(self.repo.parent, "clone", "--quiet", "forge.git", "other")
        (other / name).write_text(f"{name}\n")
        git(other, "add", name)
        git(other, "commit", "--quiet", "--message", name)
        git(other, "push", "--quiet")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("way", ["merge", "squash", "rebase"])
def test_a_branch_becomes_a_pull_request_is_reworked_and_merged(place: Place, way: str) -> None:
    opened, reworked, recorded = read_recipe()
    place.run(*opened)
    arguments = json.loads(place.calls.read_text())
    assert arguments == [
        *("pr", "create", "--head", f"logist/{JOB}"),
        *("--title", "Fix the login", "--body", f"Logist-Job: {JOB}"),
    ]
    first = git(place.forge, "rev-parse", f"logist/{JOB}")
    assert git(place.forge, "show", f"logist/{JOB}:login.py") == "def login(): ...\n"

    place.push("theirs.txt")
    place.run("git pull --quiet")
    steps = [line.replace("--to N", "--to 4") for line in reworked]
    steps = [f"{line} || test $? = 11" if "job run" in line else line for line in steps]
    place.run(*steps)
    place.run(*opened[:2])
    assert git(place.forge, "rev-parse", f"logist/{JOB}") != first
    assert git(place.forge, "log", "--format=%s", "-2", f"logist/{JOB}") == "Fix the login\ntheirs.txt\n"
    assert git(place.forge, "show", f"logist/{JOB}:login.py") == "def login(): return True\n"

    place.push("later.txt")
    other = place.repo.with_name("other")
    git(other, "fetch", "--quiet")
    if way == "merge":
        git(other, "merge", "--quiet", "--no-edit", f"origin/logist/{JOB}")
    elif way == "squash":
        git(other, "merge", "--quiet", "--squash", f"origin/logist/{JOB}")
        git(other, "commit", "--quiet", "--message", "Fix the login (#1)")
    else:
        git(other, "cherry-pick", f"origin/logist/{JOB}")
    git(other, "push", "--quiet")
    head = git(other, "rev-parse", "HEAD")
    assert "already contains the work" in place.run(*recorded)
    assert git(place.repo, "rev-parse", "HEAD") == head
    state = json.loads((place.repo / ".logist" / "jobs" / JOB / "state.json").read_text())
    assert state["merge"] == "merged"
    place.run(f"logist job verify {JOB}", f"logist job replay {JOB}")


def test_commits_of_a_person_on_the_branch_stay(place: Place) -> None:
    opened, reworked, _ = read_recipe()
    place.run(*opened)
    place.run(f"git checkout --quiet logist/{JOB}", "echo x > mine.txt", "git add mine.txt")
    place.run("git commit --quiet -m mine", "git checkout --quiet main")
    steps = [line.replace("--to N", "--to 4") for line in reworked]
    steps = [f"{line} || test $? = 11" if "job run" in line else line for line in steps]
    place.run(*steps)
    mine = git(place.repo, "rev-parse", f"logist/{JOB}")
    place.run(f"! {opened[0]}")
    assert git(place.repo, "rev-parse", f"logist/{JOB}") == mine
