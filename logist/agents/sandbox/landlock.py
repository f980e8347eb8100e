"""Landlock, used if bubblewrap is missing: the kernel restricts access to files and ports.

Builds the launcher's plan. Landlock hides nothing and creates no namespaces: see GAPS.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from logist.agents.sandbox import filters, launcher, trial, view
from logist.agents.sandbox.bubblewrap import create_memory_file
from logist.agents.sandbox.confinement import MARKER, Confinement, Kind

GAPS = (
    "programs can see the names, sizes and times of all files, and when they are used",
    "programs can change the modes, owners, times and attributes of your files outside the workspace",
    "programs can see other processes and their command lines in /proc",
    "an agent program without network can connect to the port of its gate on every machine",
    "a program that leaves its process group and changes its environment may keep running if Logist is killed",
)
"""What no version of Landlock with our filter prevents."""
GAPS_BEFORE = {
    2: "programs can't move files from one directory to another",
    3: "programs can empty your files with truncate(2)",
    4: "only the system call filter blocks the network, but not TCP connections of agent programs; without the filter,"
    " nothing does",
    5: "programs can use every ioctl on device files that they can open",
    6: "programs can send signals to your other processes and, without the filter, use abstract sockets",
}
"""What versions of Landlock before this number don't prevent either. Number 2 is an exception: what version 1 prevents
although programs need it."""
GAPS_UNFILTERED = (
    "no system call filter for this processor: programs can use UDP and unix sockets",
    "no system call filter for this processor: programs can change priorities and limits of your other processes",
    "no system call filter for this processor: programs can use shared memory, semaphores and message queues",
)
"""What the filter prevents on supported processors."""

_DEVICES = ("null", "zero", "full", "random", "urandom")
_LAUNCHER = launcher.__file__
_TRIAL = 'touch "$0/workspace/in" "$0/home/in" && ! touch "$0/outside/out" && ! ls "$0/outside"'


def list_gaps(version: int, *, filtered: bool) -> tuple[str, ...]:
    """Return what this version of Landlock does not prevent."""
    later = tuple(text for since, text in GAPS_BEFORE.items() if version < since)
    return (*GAPS, *later, *(() if filtered else GAPS_UNFILTERED))


def build_rules(confinement: Confinement, executable: str) -> list[tuple[str, int]]:
    """Return the access rights by path."""
    workspace, home = map(str, view.make_absolute(confinement))
    rights = [(path, launcher.READ) for path in (*view.SYSTEM, *view.LINKED)]
    rights += [(path, launcher.READ) for path in view.list_settings(network=confinement.network)]
    rights += [(path, launcher.READ) for path in view.list_program_places(executable, confinement)]
    rights.append(("/proc", launcher.READ & ~launcher.EXECUTE))
    rights += [(f"/dev/{name}", launcher.DEVICE) for name in _DEVICES]
    rights += [(path, launcher.WRITE) for path in (home, *map(str, confinement.shared))]
    rights.append((workspace, launcher.WRITE if confinement.writable else launcher.READ))
    return rights


def build_plan(
    kind: Kind,
    confinement: Confinement,
    argv: Sequence[str],
    executable: str,
    *,
    limits: Mapping[str, int],
    parent: int,
    version: int,
) -> dict[str, object]:
    """Return the launcher's plan for a program that runs under Landlock or unconfined."""
    confined = kind == "landlock"
    gate = None if confinement.network else confinement.gate
    filtered = (
        filters.build_filter(boxed=False, network=confinement.network, gate=gate is not None)
        if confined
        else None
    )
    return {
        "parent": parent,
        "limits": dict(limits),
        "cwd": str(view.make_absolute(confinement)[0]),
        "confined": confined,
        "version": version if confined else 0,
        "rules": build_rules(confinement, executable) if confined else [],
        "files": True,
        "tcp": not confinement.network,
        "port": gate.port if gate else 0,
        "filter": filtered.hex() if filtered else "",
        "environment": dict(confinement.environment),
        "executable": executable,
        "argv": list(argv),
    }


def build_scope_plan(argv: Sequence[str], *, marker: str, parent: int, version: int) -> dict[str, object]:
    """Return the launcher's plan for bubblewrap with the machine's network: block abstract sockets."""
    return {
        "parent": parent,
        "limits": {},
        "cwd": "/",
        "confined": True,
        "version": version,
        "rules": [],
        "files": False,
        "tcp": False,
        "port": 0,
        "filter": "",
        "environment": {MARKER: marker},
        "executable": argv[0],
        "argv": list(argv),
    }


def build_launcher_command(content: Mapping[str, object], report: int) -> tuple[list[str], list[int]]:
    """Return the argv of the launcher, and the descriptors to pass on."""
    number = create_memory_file("plan", json.dumps(content).encode())
    return [sys.executable, "-I", "-S", _LAUNCHER, str(number), str(report)], [number, report]


def try_landlock(place: Path) -> str | None:
    """Test, in new directories below `place`, whether Landlock blocks access to a file outside.

    Returns None if it does, else the reason.
    """
    version = launcher.read_landlock_version()
    if not version:
        return "not supported by this kernel, or disabled"
    workspace, home, outside = place / "workspace", place / "home", place / "outside"
    for path in (workspace, home, outside):
        path.mkdir()
    confinement = Confinement(workspace, True, home, {"PATH": os.defpath})
    argv = ["/bin/sh", "-c", _TRIAL, str(place)]
    content = build_plan(
        "landlock", confinement, argv, "/bin/sh", limits={}, parent=os.getpid(), version=version
    )
    reading, writing = os.pipe()
    start, passed = build_launcher_command(content, writing)
    problem = trial.try_command(start, passed, closing=[reading])
    return (
        "a program could write a file outside the workspace"
        if problem is None and (outside / "out").exists()
        else problem
    )
