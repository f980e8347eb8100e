"""A child process that runs a module of this package: its environment, and whether it has ended."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from functools import cache
from pathlib import Path

COURIER = "logist.agents.courier"
"""The module that a courier process runs. Other versions of Logist recognize a courier by this name, so keep it."""


def add_package_path(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment, with this package importable when it runs from a checkout."""
    root = _find_checkout()
    if root is None:
        return environment
    path = [entry for entry in (environment.get("PYTHONPATH"), root) if entry]
    return environment | {"PYTHONPATH": os.pathsep.join(path)}


@cache
def _find_checkout() -> str | None:
    """Return the directory of this package; None if it is installed, and so importable anyway."""
    root = str(Path(__file__).resolve().parents[2])
    return None if root in sysconfig.get_paths().values() else root


def has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process ends within this number of seconds."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
