"""Where an agent works: the workspace, and a private directory that goes with the ask."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from logist.agents.protocol import Work
from logist.agents.sandbox import Confinement
from logist.store import JobDir
from logist.workspace import beneath, removal

RUN = "run"
"""Beneath `inflight/`, so it goes when the ask is recorded."""
ARCHIVE = "program.json"
"""What an agent program has left, as it was read."""


@dataclass(frozen=True)
class Place:
    """The directories of one ask, by the names that they have now."""

    workspace: Path
    scratch: Path
    environment: dict[str, str]
    """The allow-list environment of the courier."""

    @classmethod
    def of(cls, job: JobDir, environment: dict[str, str]) -> Place:
        """That of a job; the private directory is made where it is missing."""
        top = Path(os.path.realpath(job.path))
        scratch = top / job.inflight.name / RUN
        (scratch / "home").mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(top / job.workspace.name, scratch, environment)

    def clear_home(self) -> None:
        """Removes what was left in HOME, however deep it is: what remains goes with the ask."""
        removal.remove(self.home)

    def read(self, name: str, most: int) -> bytes | None:
        """The end of a file in HOME, `most` bytes of it, never through a link. None if there is no such file."""
        parts = [os.fsencode(part) for part in name.split("/")]
        try:
            with beneath.root(self.home) as top, beneath.regular(top, parts) as descriptor:
                size = os.fstat(descriptor).st_size
                os.lseek(descriptor, max(0, size - most), os.SEEK_SET)
                return b"".join(beneath.exactly(descriptor, min(size, most)))
        except OSError:
            return None

    @property
    def home(self) -> Path:
        """HOME of what runs here."""
        return self.scratch / "home"

    def confinement(self, work: Work, more: dict[str, str] | None = None) -> Confinement:
        """What a command of this ask may reach and use; `more` variables beside the few that all get."""
        rules = work.sandbox
        return Confinement(
            workspace=self.workspace,
            writable=work.permissions.changes_files or work.permissions.can_execute_commands,
            home=self.home,
            environment=self._variables(work, more or {}),
            network=work.network,
            readable=tuple(Path(name) for name in rules.readable),
            mode=rules.mode,
            memory_bytes=rules.memory_bytes,
            processes=rules.processes,
            file_bytes=rules.file_bytes,
            output_bytes=rules.output_bytes,
        )

    def _variables(self, work: Work, more: dict[str, str]) -> dict[str, str]:
        kept = ("PATH", "LANG", "LC_ALL", "TZ", *(("SSL_CERT_FILE",) if work.network else ()))
        given = {name: self.environment[name] for name in kept if name in self.environment}
        given |= proxies(self.environment) if work.network else {}
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            **given,
            "HOME": str(self.home),
            "TMPDIR": "/tmp",  # noqa: S108  the sandbox's own
            "TERM": "dumb",
            "GIT_CEILING_DIRECTORIES": str(self.workspace.parent),
            "LOGIST_RUN_ID": work.marker,
            **more,
        }


_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
PROXIES = tuple(spelled for name in _PROXIES for spelled in (name, name.lower()))


def proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """The ways through proxies, for those who may use the network; none is said as well.

    A program that reads a `.env` of the workspace takes from there only what it was not told, and would send
    its key through whatever proxy that names.
    """
    return {name: environment.get(name, "") for name in PROXIES}
