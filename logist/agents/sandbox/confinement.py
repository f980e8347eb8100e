"""What a program may access and use, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Mode = Literal["auto", "required", "off"]
Kind = Literal["bubblewrap", "landlock", "none"]

MARKER = "LOGIST_RUN_ID"
"""The variable by which whatever a run left is found again."""


@dataclass(frozen=True)
class Confinement:
    """What a program may access and use."""

    workspace: Path
    """Its working directory."""
    writable: bool
    """Whether it may change the workspace; it always may write to `home` and to a temporary directory."""
    home: Path
    """A private directory, outside of the workspace."""
    environment: Mapping[str, str]
    """Complete; scrubbed before anything of the program starts."""
    network: bool = False
    readable: tuple[Path, ...] = ()
    """Further places it may read: where a program is installed."""
    shared: tuple[Path, ...] = ()
    """Further places it may write to."""
    mode: Mode = "auto"
    memory_bytes: int = 8 << 30
    processes: int = 512
    file_bytes: int = 2 << 30
    output_bytes: int = 16 << 20
    """Of standard output and standard error together; more ends the program."""
    tail_bytes: int | None = None
    """Instead: it may write as much as it likes, and of each of the two only so much of the end is kept."""


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended."""

    status: int | None
    signal: int | None
    how: Literal["exited", "killed", "stopped", "timeout", "idle", "limit"]
    reason: str = ""
    """Of `limit`: which, in words."""
    seconds: float = 0.0
    output_cut: bool = False
    strays: int = 0
    """Processes that it left behind, and that were ended after it."""
    sandbox: Kind = "none"


@dataclass(frozen=True)
class Means:
    """The sandboxes that this machine supports."""

    kind: Kind
    """The best that works here."""
    details: tuple[str, ...] = ()
    """What was tried and found, in a line each, for `doctor` and for warnings."""
    program: str = ""
    """The path of bubblewrap, where that works."""
