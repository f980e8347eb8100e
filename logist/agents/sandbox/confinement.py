"""What a program may access and use, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    import socket

Mode = Literal["auto", "required", "off"]
Kind = Literal["bubblewrap", "landlock", "none"]

MARKER = "LOGIST_RUN_ID"
"""The environment variable that marks the processes of a run, so that leftover ones can be found."""


@dataclass(frozen=True)
class GateAccess:
    """The spend gate, as a program without network reaches it: at 127.0.0.1 and this port."""

    port: int
    listen_on: Callable[[socket.socket], None]
    """Called before the program starts, if it has its own 127.0.0.1: the gate accepts connections on this socket
    too, and closes it."""


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
    """The complete environment of the program."""
    network: bool = False
    gate: GateAccess | None = None
    """What it can reach without `network`; with it, it reaches the same address anyway."""
    readable: tuple[Path, ...] = ()
    """More paths that it may read, such as the installation of a program."""
    shared: tuple[Path, ...] = ()
    """More paths that it may write to."""
    mode: Mode = "auto"
    memory_bytes: int = 8 << 30
    processes: int = 512
    file_bytes: int = 2 << 30
    output_bytes: int = 16 << 20
    """Limit for standard output and standard error together; above it, the program is ended."""
    tail_bytes: int | None = None
    """If set, replaces `output_bytes`: output is unlimited, and only this many bytes from the end of each are kept."""


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended."""

    status: int | None
    signal: int | None
    how: Literal["exited", "killed", "stopped", "timeout", "idle", "limit"]
    reason: str = ""
    """For `limit`: which limit, in words."""
    seconds: float = 0.0
    output_cut: bool = False
    strays: int = 0
    """The number of leftover processes that were ended after the program."""
    sandbox: Kind = "none"


@dataclass(frozen=True)
class Means:
    """The sandboxes that this machine supports."""

    kind: Kind
    """The best sandbox that works on this machine."""
    details: tuple[str, ...] = ()
    """The results of the tests, one line each, for `doctor` and for warnings."""
    program: str = ""
    """The path of bubblewrap, if it works."""
