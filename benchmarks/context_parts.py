"""How good the parts of large files are: do they contain the places that past bug fixes changed?

Run: python benchmarks/context_parts.py DIR [--room 3000 6000 12000 20000]

DIR has clones as for `context.py --repos`. The task is the subject of the fix. A changed place counts if most of its
lines are in the parts. For comparison: the same number of bytes from the top of the file.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import context_fixes

from logist.core.relevance import Task
from logist.core.relevance.file_parts import Matches, show_file
from logist.core.relevance.words import find_keywords

SMALLEST = 8_000
"""Bytes; smaller files are not measured."""
_SHOWN = re.compile(r"^ *(\d+)(?:  |$)", re.MULTILINE)


@dataclass(frozen=True)
class ChangedFile:
    """A file before its fix, and the lines that the fix changed."""

    subject: str
    text: str
    places: Sequence[range]


def read_files(folder: Path, fixes: Sequence[context_fixes.Fix]) -> Iterator[ChangedFile]:
    """Yield the large files that the fixes changed."""
    for fix in fixes:
        git_dir = context_fixes.find_git_directory(folder, fix.repo)
        if git_dir is None:
            continue

        def read_git(*arguments: str, git_dir: Path = git_dir) -> str:
            command = ["git", "-c", "safe.directory=*", f"--git-dir={git_dir}", *arguments]
            return subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "replace")

        subject = read_git("log", "-1", "--format=%s", fix.commit).strip()
        for path in fix.files:
            text = read_git("show", f"{fix.parent}:{path}")
            hunks = context_fixes.list_hunks(read_git("diff", "-U0", fix.parent, fix.commit, "--", path))
            places = [range(first, first + max(1, count)) for first, count in hunks]
            if len(text.encode()) >= SMALLEST and places:
                yield ChangedFile(subject, text, places)


def rate_places(places: Sequence[range], lines: Collection[int]) -> tuple[float, bool]:
    """Return the share of the places of which most lines are shown, and whether any is."""
    shown = [sum(line in lines for line in place) > len(place) / 2 for place in places]
    return sum(shown) / len(shown), any(shown)


def measure_room(files: Sequence[ChangedFile], room: int) -> list[str]:
    """Return a row of the table."""
    parts, tops, sizes = [], [], []
    seconds = 0.0
    large = [file for file in files if len(file.text.encode()) > room]
    for file in large:
        start = time.process_time()
        shown = show_file(file.text, Matches(find_keywords(Task(file.subject))), room).text
        seconds += time.process_time() - start
        sizes.append(len(shown.encode()))
        parts.append(rate_places(file.places, {int(number) for number in _SHOWN.findall(shown)}))
        tops.append(rate_places(file.places, range(file.text.encode()[:room].count(b"\n") + 1)))
    rates = [sum(column) / len(large) for rows in (parts, tops) for column in zip(*rows, strict=True)]
    total = sum(len(file.text) for file in large)
    return [
        f"{room:,}", str(len(large)), *(f"{rate:.2f}" for rate in rates), f"{sum(sizes) // len(large):,}", f"{seconds * 1e8 / total:.0f}"
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--room", type=int, nargs="+", default=[3_000, 6_000, 12_000, 20_000])
    given = parser.parse_args()
    files = [*read_files(given.folder, context_fixes.load_fixes())]
    head = ["room", "files", "places", "any", "places, top", "any, top", "bytes", "ms per 100 kB"]
    table([head, *(measure_room(files, room) for room in given.room)])


if __name__ == "__main__":
    main()
