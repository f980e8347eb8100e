"""Where in its file each part of a workflow is, so that every problem can name its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal

from logist.core.model import Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow import spelling
from logist.quick_dataclass import dataclass

Place = tuple[str, int | None]
"""A path, as in `steps[2].agentRole` or `@C`, and its line from 1."""


@dataclass(frozen=True)
class Places:
    """The path of every step, the place of every edge, and the line of every field path."""

    paths: Mapping[str, str] = field(default_factory=dict)
    """By step id."""
    lines: Mapping[str, int] = field(default_factory=dict)
    edges: tuple[Place, ...] = ()
    """In the order of the workflow's edges."""

    def locate_step(self, step_id: str, name: str = "") -> Place:
        """Return where the step is or, if its field of that name was written, where the field is."""
        path = self.paths.get(step_id, f"@{step_id}")
        for written in spelling.list_spellings(name) if name else ():
            if line := self.lines.get(f"{path}.{written}"):
                return f"{path}.{written}", line
        return (f"{path}.{name}" if name else path), self.lines.get(path)

    def locate_edge(self, number: int) -> Place:
        """Return where the edge of that index is."""
        return self.edges[number] if number < len(self.edges) else ("", None)


@dataclass(frozen=True)
class Read:
    """One workflow of a file, and its problems.

    With errors, the workflow lacks the faulty parts or is None, and is only used to find more errors.
    """

    name: str
    workflow: Workflow | None
    problems: tuple[WorkflowProblem, ...] = ()
    places: Places = field(default_factory=Places)

    @property
    def is_broken(self) -> bool:
        """Whether the workflow can't be used."""
        return self.workflow is None or any(problem.severity == "error" for problem in self.problems)


def make_problem(
    severity: Literal["error", "warning"], code: str, message: str, place: Place, fix: str = ""
) -> WorkflowProblem:
    """Return a problem at a place."""
    return WorkflowProblem(severity, code, message, path=place[0], line=place[1], fix=fix)


def suggest_name(word: str, known: Iterable[str]) -> str:
    """Return advice for an unknown name: similar names, the list of all if it is short, or an empty string."""
    names = sorted(set(known))
    folded = {name.casefold(): name for name in reversed(names)}
    close = difflib.get_close_matches(word.casefold(), folded, n=2, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(f'`{folded[name]}`' for name in close)}?"
    return f"known: {', '.join(names)}" if 0 < len(names) <= 20 else ""
