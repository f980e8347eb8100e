"""Tests which sandbox works on this machine, once per process."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from logist.agents.sandbox import bubblewrap, filters, landlock, launcher
from logist.agents.sandbox.confinement import Means
from logist.errors import Refused


def require_linux() -> None:
    """Refuse to run commands and programs on other systems: ending all their processes needs system calls of
    Linux.
    """
    if sys.platform != "linux":
        raise Refused(
            "agent programs and the commands of agents and checks run only on Linux",
            fix="use Linux, or roles with `can_execute_commands: false` and no checks",
        )


@cache
def detect_sandbox(path: str = os.defpath) -> Means:
    """Return the best sandbox that works. Bubblewrap is searched in
    `path` and in the system's directories.
    """
    if sys.platform != "linux":
        return Means("none", ("the sandbox works only on Linux",))
    try:
        with tempfile.TemporaryDirectory(prefix="logist-trial-") as place:
            return _try_sandboxes(path, Path(place))
    except OSError as error:
        return Means("none", (f"can't test the sandbox without a temporary directory: {error}",))


def _try_sandboxes(path: str, place: Path) -> Means:
    program = bubblewrap.find_bubblewrap(path)
    details = []
    if program is None:
        details.append("bubblewrap: not installed")
    else:
        problem = _try_in_directory(place / "bubblewrap", lambda own: bubblewrap.try_bubblewrap(program, own))
        if problem is None:
            return Means("bubblewrap", (f"bubblewrap: {program} works", *_list_remarks(program)), program)
        details.append(f"bubblewrap: {program} doesn't work on this machine: {problem}")
    problem = _try_in_directory(place / "landlock", landlock.try_landlock)
    if problem is not None:
        return Means("none", (*details, f"landlock: {problem}"))
    version = launcher.read_landlock_version()
    gaps = landlock.list_gaps(version, filtered=filters.is_supported())
    return Means("landlock", (*details, f"landlock: version {version} works", *gaps))


def _try_in_directory(place: Path, attempt: Callable[[Path], str | None]) -> str | None:
    place.mkdir()
    return attempt(place)


def _list_remarks(program: str) -> tuple[str, ...]:
    """Return what this machine's bubblewrap or kernel does not prevent."""
    remarks = []
    if "--disable-userns" not in bubblewrap.read_optional_flags(program):
        remarks.append("bubblewrap is older than 0.8: programs can create user namespaces")
    if not filters.is_supported():
        remarks.append("no system call filter for this processor")
    if launcher.read_landlock_version() < launcher.SCOPES_SINCE:
        remarks.append("programs with network access can use abstract sockets of this machine")
    return tuple(remarks)
