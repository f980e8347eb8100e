"""Where pytest looks for conftest.py before it collects: not in fixtures, whose code nobody asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from logist.store import HISTORY

CONFTEST = "conftest.py"


def anchors_of(arguments: Sequence[str]) -> Iterator[str]:
    """What pytest is to start from instead of `arguments`, which are absolute; nothing where no fixture is in its way.

    It loads the conftest.py of each directory that is named, of those above, and of those below that are called
    `test...`. A conftest.py that is named itself brings the same without the last ones.
    """
    anchors: list[str | None] = []
    is_met = False
    for argument in arguments:
        path = Path(os.path.abspath(argument.split("::")[0]))
        place = path.parent if path.name == HISTORY else path
        if _is_fixture(place):
            is_met = True
            anchors.append(_nearest(place.parent))
            continue
        places = [place, *sorted(place.glob("test*/"))] if place.is_dir() else []
        others = [each for each in places if not _is_fixture(each)]
        is_met = is_met or len(others) < len(places)
        anchors += map(_nearest, others) if len(others) < len(places) else [argument]
    if is_met:
        yield from filter(None, anchors)
        yield os.devnull  # without any, pytest would look in the current directory


def _is_fixture(folder: Path) -> bool:
    return (folder / HISTORY).is_file()


def _nearest(folder: Path) -> str | None:
    """The conftest.py in a folder, or above it."""
    found = (each / CONFTEST for each in (folder, *folder.parents))
    return next((str(path) for path in found if path.is_file()), None)
