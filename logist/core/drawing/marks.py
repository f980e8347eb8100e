"""What a drawing shows about a running job: the state of each step and of its children."""

from __future__ import annotations

from typing import Literal

from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

Standing = Literal["done", "running", "waiting", "stuck", "failed", "skipped", "next"]


@dataclass(frozen=True)
class DrawnChild:
    """A job that a foreach or a subflow started."""

    name: str
    state: Standing
    text: str = ""
    item: str = ""
    """What names its item; empty if nothing does."""


@dataclass(frozen=True)
class Mark:
    """The state of a step; a step without a mark was not reached."""

    state: Standing
    text: str = ""
    """A short note, such as `attempt 2 of 3`."""
    count: tuple[int, int] | None = None
    """The number of children that are done, and of all children; None: count `children`."""
    children: tuple[DrawnChild, ...] = ()

    def count_children(self) -> tuple[int, int] | None:
        """Return the number of children that are done, and of all children; None without children."""
        if self.count is not None or not self.children:
            return self.count
        return sum(child.state == "done" for child in self.children), len(self.children)


class LineSegment(NamedTuple):
    """A piece of a line. `style` says what it is: `line`, `id`, `name`, `kind`, `condition`, `reference`,
    `text`, or the state of a step (`done`, `running`, ...).
    """

    text: str
    style: str = ""


Line = tuple[LineSegment, ...]
