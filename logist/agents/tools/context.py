"""The input and the outcome of a tool."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from logist.agents import sandbox
from logist.agents.sandbox import Confinement, ProgramEnd
from logist.config.working import ToolRules
from logist.core.model import Permission, Permissions, Refusal, ToolServer
from logist.core.text.cache_patterns import DEFAULT_CACHES
from logist.quick_dataclass import dataclass

RESERVED = 400
"""Characters of a result that are reserved for its first line and the note about a cut."""


class ToolError(Exception):
    """The error that the model gets instead of a result, so that it can correct
    itself. Never leaves this package.
    """


class LackingError(Exception):
    """The call turned out to need a permission that the role lacks. Never leaves this package."""

    def __init__(self, missing: tuple[Permission, ...]) -> None:
        super().__init__(", ".join(missing))
        self.missing = missing


@dataclass(frozen=True)
class Context:
    """The workspace, role and rules that tools work with."""

    workspace: Path
    role: str
    permissions: Permissions
    rules: ToolRules
    approved: frozenset[str]
    """Tools that a steward has allowed for this step."""
    confine: Callable[[], Confinement]
    """Returns what a command may access; called for each command."""
    deadline: float
    """When the step must have ended, as `time.monotonic`."""
    stop: Callable[[], bool]
    """Returns True if a person has asked to stop."""
    scratch: Path
    """A private directory outside of the workspace, for the output of commands."""
    marker: str
    """The marker of the processes of this job."""
    redact: Callable[[str], tuple[str, int]]
    mcp_servers: Mapping[str, ToolServer] = field(default_factory=dict)
    confine_server: Callable[[], Confinement] | None = None
    """Returns what an MCP server may access; None: what a command may access."""
    caches: frozenset[str] = frozenset(DEFAULT_CACHES)
    """Directories that are listed but not entered."""
    run: Callable[..., ProgramEnd] = sandbox.run_program

    @property
    def room(self) -> int:
        """Characters that the body of a result may have."""
        limit = self.rules.max_result_chars
        return max(limit - RESERVED, limit // 2, 1)

    def require_time_left(self) -> None:
        """Raise ToolError if the time is up or a person has asked to stop; called
        regularly during long work.
        """
        if self.stop():
            raise ToolError("stopped by a person")
        if time.monotonic() >= self.deadline:
            raise ToolError("timed out: the time limit of this step is reached")


@dataclass(frozen=True)
class ToolOutcome:
    """The outcome of a call: the text for the model, or a refusal."""

    content: str
    refusal: Refusal | None = None
    """Set if the role may not make this call; see core.permissions.permissions."""
    error: bool = False
    """The call was invalid or failed; the model may try again."""
    redactions: int = 0


Arguments = dict[str, Any]
"""Arguments that match the tool's schema, without null values."""
