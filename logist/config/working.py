"""Settings of agents at work: tools, and the sandbox of the programs they run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from logist.core.model import Frozen

Name = Annotated[str, StringConstraints(min_length=1)]
Count = Annotated[int, Field(ge=1)]


class ToolRules(Frozen):
    """The tools of a model that works in a workspace."""

    max_turns: Count = 60
    """Answers of the model in one step; in the last one it can call no tool."""
    max_unknown_calls: Count = 5
    """Calls in a row of tools that do not exist, after which the job is STUCK."""
    max_result_chars: Count = 30_000
    """Of what a tool gives back; the rest is cut, and the cut is told."""
    command_seconds: Annotated[float, Field(gt=0)] = 600
    """How long one command may take."""
    require_approval: tuple[Name, ...] = ()
    """Tools that a steward has to allow for each step: `job resubmit --allow NAME`."""
    disabled: tuple[Name, ...] = ()
    """Tools that nobody gets."""


class SandboxRules(Frozen):
    """The limits of commands and agent programs."""

    mode: Literal["auto", "required", "off"] = "auto"
    """`auto`: the best that this machine has, with a warning where that is nothing."""
    memory_bytes: Count = 8 << 30
    processes: Count = 512
    file_bytes: Count = 2 << 30
    output_bytes: Count = 16 << 20
    readable: tuple[Name, ...] = ()
    """Further places that they may read, as absolute paths."""
