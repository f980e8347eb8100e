"""Which sandbox works on this machine: found by trying, once in a process."""

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
    """Refuse to run commands and programs elsewhere: ending all their processes takes calls that only Linux has."""
    if sys.platform != "linux":
        raise Refused(
            "the commands of agents and checks, and agent programs, run on Linux only",
            fix="use Linux, or roles with `can_execute_commands: false` and no checks",
        )


@cache
def means(path: str = os.defpath) -> Means:
    """The best that works here; `path` is where bubblewrap is looked for, beside the system's places."""
    if sys.platform != "linux":
        return Means("none", ("the sandbox works on Linux only",))
    try:
        with tempfile.TemporaryDirectory(prefix="logist-trial-") as place:
            return _tried(path, Path(place))
    except OSError as error:
        return Means("none", (f"nothing can be tried without a temporary directory: {error}",))


def _tried(path: str, place: Path) -> Means:
    program = bubblewrap.look_for(path)
    details = []
    if program is None:
        details.append("bubblewrap: not installed")
    else:
        why = _in_its_own(place / "bubblewrap", lambda own: bubblewrap.why_not(program, own))
        if why is None:
            return Means("bubblewrap", (f"bubblewrap: {program} works", *_remarks(program)), program)
        details.append(f"bubblewrap: {program} does not work here: {why}")
    why = _in_its_own(place / "landlock", landlock.why_not)
    if why is not None:
        return Means("none", (*details, f"landlock: {why}"))
    version = launcher.abi()
    gaps = landlock.gaps(version, filtered=filters.supported())
    return Means("landlock", (*details, f"landlock: version {version} works", *gaps))


def _in_its_own(place: Path, attempt: Callable[[Path], str | None]) -> str | None:
    place.mkdir()
    return attempt(place)


def _remarks(program: str) -> tuple[str, ...]:
    """What this machine's bubblewrap or kernel leaves open."""
    found = []
    if "--disable-userns" not in bubblewrap.options(program):
        found.append("bubblewrap is older than 0.8: programs can make user namespaces of their own")
    if not filters.supported():
        found.append("no filter of system calls for this processor")
    if launcher.abi() < launcher.SCOPES_SINCE:
        found.append("programs that may use the network can reach abstract sockets of this machine")
    return tuple(found)
