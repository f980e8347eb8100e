"""What a drawing shows of a running job: the state of each step, and of each of its children."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Standing = Literal["done", "running", "waiting", "stuck", "failed", "skipped", "next"]


@dataclass(frozen=True)
class DrawnChild:
    """A job that a foreach or a subflow started."""

    name: str
    state: Standing
    text: str = ""


@dataclass(frozen=True)
class Mark:
    """The state of a step; a step without a mark was not reached."""

    state: Standing
    text: str = ""
    """A few words beside it, as `attempt 2 of 3`."""
    count: tuple[int, int] | None = None
    """How many of its children are done, and how many there are; None: as `children` say."""
    children: tuple[DrawnChild, ...] = ()

    def count_children(self) -> tuple[int, int] | None:
        """Return how many children are done, and how many there are; None without children."""
        if self.count is not None or not self.children:
            return self.count
        return sum(child.state == "done" for child in self.children), len(self.children)


class LineSegment(NamedTuple):
    """A piece of a line. `style` says what it is, not how it looks: `line`, `id`, `name`, `kind`,
    `condition`, `reference`, `text`, or the state of a step (`done`, `running`, ...).
    """

    text: str
    style: str = ""


Line = tuple[LineSegment, ...]
