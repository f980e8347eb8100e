"""Decides where pytest looks for conftest.py before it collects: not in fixtures, whose code must not run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from logist.store import HISTORY

CONFTEST = "conftest.py"


def find_anchors(arguments: Sequence[str]) -> Iterator[str]:
    """The paths for pytest to start from instead of the absolute `arguments`; nothing if no fixture is involved.

    Pytest loads the conftest.py of each named directory, of those above, and of those below with a name like
    `test...`. Naming a conftest.py itself has the same effect, without the last ones.
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
        yield os.devnull  # without any, pytest would look in the current directory


def _is_fixture(folder: Path) -> bool:
    return (folder / HISTORY).is_file()


def _find_nearest_conftest(folder: Path) -> str | None:
    """The conftest.py in a folder, or above it."""
    candidates = (each / CONFTEST for each in (folder, *folder.parents))
    return next((str(path) for path in candidates if path.is_file()), None)
