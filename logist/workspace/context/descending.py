"""Opens many directories of a workspace in turn: common parents are opened once."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from logist.workspace.files import safe_open


class Descent:
    """Opens directories below an open one, component by component, never through a link.

    At most one path is open at a time; it is closed at the end of the block.
    """

    def __init__(self, top: int) -> None:
        self._top = top
        self._way: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_below(0)

    def open_path(self, path: str) -> int:
        """Return the directory of this path ("" for the top), open until the next one is requested.

        Raises OSError.
        """
        parts = path.split("/") if path else []
        shared = 0
        for (name, _), part in zip(self._way, parts, strict=False):
            if name != part:
                break
            shared += 1
        self._close_below(shared)
        for part in parts[shared:]:
            above = self._way[-1][1] if self._way else self._top
            self._way.append((part, safe_open.open_directory(above, os.fsencode(part))))
        return self._way[-1][1] if self._way else self._top

    def _close_below(self, depth: int) -> None:
        while len(self._way) > depth:
            os.close(self._way.pop()[1])
