"""Settings of agents at work: tools, and the sandbox of the programs they run."""

from __future__ import annotations

from typing import Annotated, Literal

from logist.core.model import Frozen
from logist.quick_model import Field, StringConstraints

Name = Annotated[str, StringConstraints(min_length=1)]
Count = Annotated[int, Field(ge=1)]


class ToolRules(Frozen):
    """The tools of a model that works in a workspace."""

    max_turns: Count = 60
    """Answers of the model in one step; it can't call tools in the last one."""
    max_unknown_calls: Count = 5
    """Calls of unknown tools in a row after which the job is STUCK."""
    max_result_chars: Count = 30_000
    """Maximum characters of a tool result; the rest is cut, with a note."""
    command_seconds: Annotated[float, Field(gt=0)] = 600
    """Maximum seconds of one command."""
    require_approval: tuple[Name, ...] = ()
    """Tools that a steward must allow for each step, with `job resubmit --allow NAME`."""
    disabled: tuple[Name, ...] = ()
    """Tools that are disabled for all roles."""


class SandboxRules(Frozen):
    """The limits of commands and agent programs."""

    mode: Literal["auto", "required", "off"] = "auto"
    """`auto`: the best that works on this machine, with a warning if none does."""
    memory_bytes: Count = 8 << 30
    """The memory of all processes together."""
    processes: Count = 512
    """How many processes at the same time."""
    file_bytes: Count = 2 << 30
    """The size of a file that they write."""
    output_bytes: Count = 16 << 20
    """How much of what they print is kept."""
    readable: tuple[Name, ...] = ()
    """More paths that they may read, absolute."""
