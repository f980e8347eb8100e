"""Decides where pytest looks for conftest.py before it collects: not in fixtures, because their code must not run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from logist.store import HISTORY

CONFTEST = "conftest.py"


def find_anchors(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the paths where pytest starts instead of the absolute `arguments`; nothing if no fixture is involved.

    For each directory argument, pytest loads the conftest.py of the directory, of its parents, and of direct
    subdirectories with a name like `test...`. For a conftest.py as an argument, it skips the subdirectories.
    """
    anchors: list[str | None] = []
    has_fixture = False
    for argument in arguments:
        path = Path(os.path.abspath(argument.split("::")[0]))
        place = path.parent if path.name == HISTORY else path
        if _is_fixture(place):
            has_fixture = True
            anchors.append(_find_nearest_conftest(place.parent))
            continue
        places = [place, *sorted(place.glob("test*/"))] if place.is_dir() else []
        others = [each for each in places if not _is_fixture(each)]
        has_fixture = has_fixture or len(others) < len(places)
        anchors += map(_find_nearest_conftest, others) if len(others) < len(places) else [argument]
    if has_fixture:
        yield from filter(None, anchors)
        yield os.devnull  # without arguments, pytest would look in the current directory


def _is_fixture(folder: Path) -> bool:
    return (folder / HISTORY).is_file()


def _find_nearest_conftest(folder: Path) -> str | None:
    """Return the conftest.py in a folder or in its nearest parent."""
    candidates = (each / CONFTEST for each in (folder, *folder.parents))
    return next((str(path) for path in candidates if path.is_file()), None)
