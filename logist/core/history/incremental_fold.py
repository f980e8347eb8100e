"""The fold of a history an interaction at a time, with the states that a restep goes back to and no others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from logist.core.history import fold
from logist.core.model import Interaction, JsonObject, Kind, State


@dataclass
class Folding:
    """Where a job stands after what was taken so far; `targets` are the interactions that a restep goes back before."""

    targets: Collection[int]
    state: State | None = None
    _kept: dict[int, State] = field(default_factory=dict)

    def back(self, entry: Interaction) -> State | None:
        """The state that the next interaction goes back to; None where it is no restep, or nobody kept it."""
        if self.state is not None and entry.sequence in self.targets:
            self._kept[entry.sequence] = self.state
        return self._kept.get(fold.restep_target(entry)) if entry.kind is Kind.RESTEP else None

    def take(self, entry: Interaction) -> State:
        """The state after the next interaction."""
        self.state = fold.apply(self.state, entry, self.back(entry))
        return self.state


def restep_to(entry: JsonObject) -> Iterator[int]:
    """The interaction that one goes back before, if it is a restep: a target, told without reading it whole."""
    command = entry.get("command")
    to = command.get("to") if isinstance(command, dict) else None
    if entry.get("kind") == Kind.RESTEP and isinstance(to, int):
        yield to
