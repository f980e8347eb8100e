"""A problem with a workflow and its position; all problems of a workflow are reported together."""

from __future__ import annotations

from typing import Literal

from logist.quick_dataclass import dataclass


@dataclass(frozen=True)
class WorkflowProblem:
    """One problem. A workflow with an error can't be used; a warning is only reported."""

    severity: Literal["error", "warning"]
    code: str
    """A stable code for programs, such as `no_branch`, `unknown_field`."""
    message: str
    path: str = ""
    """The field, such as `steps[2].agentRole`, or the step, such as `@C`."""
    line: int | None = None
    """The line in the workflow file, counted from 1."""
    column: int | None = None
    fix: str = ""

    @property
    def full_message(self) -> str:
        """The message, with the name of the field if the message does not contain it."""
        if not self.path or any(f"`{self.path}{end}" in self.message for end in "`.["):
            return self.message
        return f"{self.path}: {self.message}"
