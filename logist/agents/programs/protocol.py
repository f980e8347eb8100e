"""The interface of an agent program: how to start it, and what its output means.

`invocation` and `read` are pure, so archived output can be read again, also in tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol

from logist.core.model import Model, TransportError
from logist.quick_dataclass import dataclass

Profile = Literal["read", "edit", "full"]
"""What the program's own permission mode allows: only read, also change files, also run commands."""

How = Literal["exited", "killed", "stopped", "timeout", "idle", "limit"]
"""How a process ended: by itself, by a signal from elsewhere, or by Logist: because it was stopped, at the deadline,
without output for too long, or above its limit of memory, processes or output."""


@dataclass(frozen=True)
class Run:
    """One run of a program."""

    prompt: str
    workspace: Path
    """Its working directory, by the path that it sees."""
    home: Path
    """A new private directory for HOME and the configuration that it needs."""
    model: Model
    api_key: str | None
    profile: Profile
    deadline_seconds: float
    name: str
    """The name of the job, for programs that name their sessions."""
    role: str
    allowance_microcents: int | None = None
    """The cost limit, for programs that have such an option; None means no limit."""
    path: str = "/usr/bin:/bin"
    """The PATH that it gets."""
    proxies: Mapping[str, str] = field(default_factory=dict)
    """The proxy variables that it gets."""


@dataclass(frozen=True)
class Invocation:
    """How to start a program."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """The complete environment: the caller adds only PATH, HOME, TMPDIR, LANG and a marker."""
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files to write before the start, by path relative to `home`."""
    results: tuple[str, ...] = ()
    """Files to keep for `read`, by path relative to `home`; missing ones are left out."""


@dataclass(frozen=True)
class Finished:
    """The output of a program that has ended; redacted, as it is archived."""

    status: int | None
    """Its exit status; None if a signal ended it."""
    how: How
    stdout: str
    stderr: str
    files: Mapping[str, str] = field(default_factory=dict)
    """The content of the files in `results`."""
    signal: int | None = None
    cut: bool = False
    """Whether output was too long and only a part was kept."""


@dataclass(frozen=True)
class Spent:
    """Tokens that a program reported, in a uniform way."""

    uncached: int = 0
    cached: int = 0
    output: int = 0
    scope: Literal["run", "session", "last"] = "run"
    """What it counts: this run, all runs of its session, or only the last call of this run."""
    cache_write: int = 0
    """The part of `uncached` that the provider stored in its cache."""


@dataclass(frozen=True)
class Result:
    """The meaning of a program's output."""

    text: str = ""
    """The final message, without control sequences."""
    error: TransportError | None = None
    spent: Spent | None = None
    """None if the program did not report it."""
    reported_microcents: int | None = None
    """The cost that the program itself reported."""
    session: str | None = None
    denials: tuple[str, ...] = ()
    """What its own permission mode refused, one line each."""
    finish: str | None = None
    """Like `Reply.finish`: `length` for an answer that was cut at the output limit."""
    warnings: tuple[str, ...] = ()


class Program(Protocol):
    """One agent program; other packages add one with an entry point in the group `logist.agents`."""

    name: str
    executable: str
    """The name that is searched in PATH."""
    metered: bool
    """Whether it reports its usage; a program that doesn't must be allowed in the config."""

    def invocation(self, run: Run) -> Invocation:
        """Return how to start it.

        Raises InvalidFile for a run that it can't do (for example, it doesn't support the model or endpoint).
        """
        ...

    def read(self, finished: Finished) -> Result:
        """Return the meaning of its output; never raises because of what a program wrote."""
        ...
