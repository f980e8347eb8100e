"""What `logist doctor` says about the machine: Python, git, litellm, the sandbox, agent programs."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from logist.agents import sandbox
from logist.agents.litellm import INSTALL as INSTALL_LITELLM
from logist.agents.programs.finding import PRESETS
from logist.config.environment import Environment
from logist.jobs.doctor.finding import Finding, invalid, warning

OLDEST_PYTHON = (3, 11)
OLDEST_GIT = (2, 39)
INSTALL_SANDBOX = "apt install bubblewrap"


def look(environment: Environment) -> Iterator[Finding]:
    """One finding each."""
    yield _python()
    yield _git(environment)
    yield _litellm()
    yield of_sandbox(sandbox.means())
    yield of_programs(environment.child().get("PATH", os.defpath))


def of_programs(path: str) -> Finding:
    """Which of the agent programs that Logist knows can be found."""
    there = [name for name, program in PRESETS.items() if shutil.which(program.executable, path=path)]
    return Finding(
        "agents", "ok", ", ".join(there) or "no agent program is installed: models work without one"
    )


def _python() -> Finding:
    found = platform.python_version()
    if sys.version_info[:2] < OLDEST_PYTHON:
        return invalid("python", f"{found} is too old", "install Python 3.11 or newer")
    return Finding("python", "ok", found)


def _git(environment: Environment) -> Finding:
    try:
        done = subprocess.run(
            ["git", "--version"],
            env=environment.child(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        return invalid("git", f"git can't be run: {error}", "install git 2.39 or newer")
    version = re.search(r"(\d+)\.(\d+)[.\d]*", done.stdout)
    if version and (int(version[1]), int(version[2])) < OLDEST_GIT:
        return warning(
            "git", f"{version[0]} is older than what Logist is tested with", "install git 2.39 or newer"
        )
    return Finding("git", "ok", version[0] if version else done.stdout.strip())


def _litellm() -> Finding:
    if importlib.util.find_spec("litellm"):
        return Finding("litellm", "ok", "installed")
    message = "not installed: no model can be asked; archived and given answers work"
    return warning("litellm", message, INSTALL_LITELLM)


def of_sandbox(found: sandbox.Means) -> Finding:
    """What commands and agent programs are confined by here, and what that leaves open."""
    told = "; ".join(found.details)
    if found.kind == "bubblewrap":
        return Finding("sandbox", "ok", told)
    if found.kind == "landlock":
        return warning("sandbox", f"Landlock only, which holds less back: {told}", INSTALL_SANDBOX)
    return warning(
        "sandbox", f"none works: agents' commands reach all that you reach: {told}", INSTALL_SANDBOX
    )
