"""The interface of an agent program: how to start it, and what its output means.

`invocation` and `read` are pure, so archived output can be read again, and every capture is a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from logist.core.model import Model, TransportError

Profile = Literal["read", "edit", "full"]
"""What the program's own permission mode shall allow: look only, change files of the workspace, run commands too."""

How = Literal["exited", "killed", "stopped", "timeout", "idle", "limit"]
"""How a process ended: by itself, by a signal that was not ours, by us because we were told to, at the
deadline, for lack of output, or for too much memory, too many processes or too much output."""


@dataclass(frozen=True)
class Run:
    """What a program has to do."""

    prompt: str
    workspace: Path
    """Its working directory, as it sees it."""
    home: Path
    """A private directory, new and empty: HOME, and whatever configuration it needs."""
    model: Model
    api_key: str | None
    profile: Profile
    deadline_seconds: float
    name: str
    """The job, for a program that names its sessions."""
    role: str
    allowance_microcents: int | None = None
    """What it may spend, for a program that can be told; None is without a limit."""
    path: str = "/usr/bin:/bin"
    """PATH, as it will have it."""
    proxies: Mapping[str, str] = field(default_factory=dict)
    """The ways through proxies that it will be told, as variables; of those that are not here, none."""


@dataclass(frozen=True)
class Invocation:
    """How to start a program."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """Complete: the caller adds PATH, HOME, TMPDIR, LANG and a marker, and nothing else."""
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """To write before, by path relative to `home`."""
    results: tuple[str, ...] = ()
    """Files to keep for `read`, by path relative to `home`; those missing are left out."""


@dataclass(frozen=True)
class Finished:
    """The output of a program that has ended; redacted, as it is archived."""

    status: int | None
    """Its exit status; None if a signal ended it."""
    how: How
    stdout: str
    stderr: str
    files: Mapping[str, str] = field(default_factory=dict)
    """The `results`."""
    signal: int | None = None
    cut: bool = False
    """Output was longer than what is kept."""


@dataclass(frozen=True)
class Spent:
    """Tokens as a program reported them, normalised."""

    uncached: int = 0
    cached: int = 0
    output: int = 0
    scope: Literal["run", "session", "last"] = "run"
    """What it counts: this run, all runs of its session, or only the last call of this run."""


@dataclass(frozen=True)
class Result:
    """The meaning of a program's output."""

    text: str = ""
    """The final message, without control sequences."""
    error: TransportError | None = None
    spent: Spent | None = None
    """None: it did not say."""
    reported_microcents: int | None = None
    """Its own figure of what it has cost."""
    session: str | None = None
    denials: tuple[str, ...] = ()
    """What its own permission mode refused, in a line each."""
    finish: str | None = None
    """As `Reply.finish`: `length` for an answer that was cut at the output limit."""
    warnings: tuple[str, ...] = ()


class Program(Protocol):
    """One agent program; a third party's entry point in the group `logist.agents` names such an object."""

    name: str
    executable: str
    """What is looked for in PATH."""
    metered: bool
    """Whether it tells what it used; one that does not has to be allowed by the config."""

    def invocation(self, run: Run) -> Invocation:
        """Return how to start it.

        Raises InvalidFile for a run it can't do (a model or an endpoint it can't reach).
        """
        ...

    def read(self, finished: Finished) -> Result:
        """Return the meaning of its output; never raises for what a program wrote."""
        ...
