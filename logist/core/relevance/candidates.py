"""The files that a search chooses from, as columns: to make an object for each file takes longer than the search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, compress

from logist.core.relevance.kinds import FileKind
from logist.quick_dataclass import dataclass


@dataclass
class Candidates:
    """Files, directory by directory. What is about one file has the same place in each column, which is its number."""

    paths: Sequence[str]
    names: Sequence[str]
    """The last part of each path."""
    low_names: Sequence[str]
    """The names in lowercase."""
    kinds: Sequence[FileKind]
    """Many files share one object."""
    sizes: Sequence[int]
    rows: Sequence[int]
    """The places of the files in the table of all files of the workspace."""
    directories: Sequence[str]
    ends: Sequence[int]
    """For each directory, where the files in it end in the other columns; they begin where those before end."""

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each path."""
        return dict(zip(self.paths, range(len(self.paths)), strict=True))

    def iter_directories(self) -> Iterator[tuple[str, int, int]]:
        """Yield each directory (with a `/` at the end, unless it is the top), and where the files in it begin and end."""
        start = 0
        for directory, end in zip(self.directories, self.ends, strict=True):
            if end > start:
                yield f"{directory}/" if directory else "", start, end
            start = end

    def keep(self, chosen: Iterable[bool]) -> Candidates:
        """Return some of the files; `chosen` says for each whether it is one of them."""
        mask = list(chosen)
        if all(mask):
            return self
        before = [*accumulate(mask, initial=0)]
        return Candidates(
            [*compress(self.paths, mask)],
            [*compress(self.names, mask)],
            [*compress(self.low_names, mask)],
            [*compress(self.kinds, mask)],
            [*compress(self.sizes, mask)],
            [*compress(self.rows, mask)],
            self.directories,
            list(map(before.__getitem__, self.ends)),
        )


def lower_names(names: Sequence[str]) -> list[str]:
    """Return names in lowercase, all at once."""
    return "/".join(names).lower().split("/") if names else []
