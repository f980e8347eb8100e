"""What a process that runs a module of this package needs in its environment."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path


def with_path(environment: dict[str, str]) -> dict[str, str]:
    """The environment, with this package importable when it runs from a checkout."""
    root = str(Path(__file__).resolve().parents[2])
    if root in sysconfig.get_paths().values():
        return environment
    path = [entry for entry in (environment.get("PYTHONPATH"), root) if entry]
    return environment | {"PYTHONPATH": os.pathsep.join(path)}
