"""A problem with a workflow, and its place; all problems of a workflow are reported at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class WorkflowProblem:
    """One problem: an error stops a workflow from being used, a warning does not."""

    severity: Literal["error", "warning"]
    code: str
    """A word for programs, as `no_branch`, `unknown_field`."""
    message: str
    path: str = ""
    """The field, as `steps[2].agentRole`, or the step, as `@C`."""
    line: int | None = None
    """From 1, in the file the workflow was read from."""
    column: int | None = None
    fix: str = ""

    @property
    def full_message(self) -> str:
        """The message, with the name of the field if the message does not contain it."""
        if not self.path or any(f"`{self.path}{end}" in self.message for end in "`.["):
            return self.message
        return f"{self.path}: {self.message}"
