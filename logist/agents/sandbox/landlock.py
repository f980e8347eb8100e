"""Landlock, used where bubblewrap is missing: the kernel takes away rights on files and ports.

Builds the launcher's plan. Its gaps are known (GAPS): it hides nothing, and it makes no namespaces.
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
    "names, sizes and times of files everywhere can be seen, and their use watched",
    "modes, owners, times and attributes of the user's own files elsewhere can be changed",
    "other processes and their command lines can be seen in /proc",
    "a program that leaves its group and changes its environment may outlive Logist when that is killed",
)
"""What Landlock with our filter does not refuse, whatever its version."""
GAPS_BEFORE = {
    2: "nothing can be moved from one directory to another",
    3: "files that the user owns can be emptied by truncate(2)",
    4: "only the filter keeps programs from the network; where there is none, nothing does",
    5: "device files that can be opened take every ioctl",
    6: "signals reach other processes of the user, and, where there is no filter, so do abstract sockets",
}
"""What versions before this one do not refuse either (or, for the first, refuse too much)."""
GAPS_UNFILTERED = (
    "no filter for this processor: UDP and unix sockets can be used",
    "no filter for this processor: priorities and limits of the user's other processes can be changed",
    "no filter for this processor: shared memory, semaphores and message queues of the machine can be used",
)
"""What the filter refuses, on the processors that it is made for."""

_DEVICES = ("null", "zero", "full", "random", "urandom")
_LAUNCHER = launcher.__file__
_TRIAL = 'touch "$0/workspace/in" "$0/home/in" && ! touch "$0/outside/out" && ! ls "$0/outside"'


def list_gaps(version: int, *, filtered: bool) -> tuple[str, ...]:
    """Return what this version of Landlock does not prevent."""
    later = tuple(text for since, text in GAPS_BEFORE.items() if version < since)
    return (*GAPS, *later, *(() if filtered else GAPS_UNFILTERED))


def build_rules(confinement: Confinement, executable: str) -> list[tuple[str, int]]:
    """Return the rights by path."""
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
    filtered = filters.build_filter(boxed=False, network=confinement.network) if confined else None
    return {
        "parent": parent,
        "limits": dict(limits),
        "cwd": str(view.make_absolute(confinement)[0]),
        "confined": confined,
        "version": version if confined else 0,
        "rules": build_rules(confinement, executable) if confined else [],
        "files": True,
        "tcp": not confinement.network,
        "filter": filtered.hex() if filtered else "",
        "environment": dict(confinement.environment),
        "executable": executable,
        "argv": list(argv),
    }


def build_scope_plan(argv: Sequence[str], *, marker: str, parent: int, version: int) -> dict[str, object]:
    """Return the launcher's plan for bubblewrap with the machine's network: keep it from abstract sockets."""
    return {
        "parent": parent,
        "limits": {},
        "cwd": "/",
        "confined": True,
        "version": version,
        "rules": [],
        "files": False,
        "tcp": False,
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
    """Try for real, in new directories below `place`, whether a file outside is out of reach.

    Returns None if so, else the reason.
    """
    version = launcher.read_landlock_version()
    if not version:
        return "this kernel has no Landlock, or it is switched off"
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
    return "a file outside could be written" if problem is None and (outside / "out").exists() else problem
