"""Removes leftovers of a killed git from a repository: locks and incomplete
packs. The caller holds the job's lock.
"""

from __future__ import annotations

import os
from pathlib import Path

NAMES = (".lock", ".keep")
PREFIXES = ("fast_import_crash_", "tmp_")


def remove_leftovers(git_dir: Path) -> None:
    """Remove them; the two-letter directories of loose objects are never locked and not searched."""
    (git_dir / "refs" / "logist" / "incoming").unlink(missing_ok=True)
    for place, directories, files in os.walk(git_dir):
        directories[:] = [name for name in directories if len(name) != 2]
        for name in files:
            if name.endswith(NAMES) or name.startswith(PREFIXES):
                Path(place, name).unlink(missing_ok=True)
