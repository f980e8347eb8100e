"""The directories an agent works in: the workspace, and a private directory that is removed with the ask."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from logist.agents.protocol import AgentWork, CodePaths
from logist.agents.sandbox import Confinement, GateAccess
from logist.quick_dataclass import dataclass
from logist.store import JobDir
from logist.workspace.files import removal, safe_open

RUN = "run"
"""In `inflight/`, so it is removed when the ask is recorded."""
ARCHIVE = "program.json"
"""The output of an agent program, as it was read."""


@dataclass(frozen=True)
class Workplace:
    """The directories of one ask, by their current paths."""

    workspace: Path
    scratch: Path
    environment: dict[str, str]
    """The allow-list environment of the courier."""

    @classmethod
    def for_job(cls, job: JobDir, environment: dict[str, str], *, is_private: bool = True) -> Workplace:
        """Return the workplace of a job.

        `is_private`: the private directory is created if it is missing; who runs no programs needs none.
        """
        top = Path(os.path.realpath(job.path))
        scratch = top / job.inflight.name / RUN
        if is_private:
            for each in (scratch, scratch / "home"):  # one by one: the mode is not that of new parents
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(top / job.workspace.name, scratch, environment)

    def clear_home(self) -> None:
        """Remove everything in HOME, at any depth; what can't be removed now is removed with the ask."""
        removal.remove_directory(self.home)

    def read_tail(self, name: str, most: int) -> bytes | None:
        """Return the end of a file in HOME, at most `most` bytes, never through a link.

        None if there is no such file.
        """
        parts = [os.fsencode(part) for part in name.split("/")]
        try:
            with (
                safe_open.open_root(self.home) as top,
                safe_open.open_regular_below(top, parts) as descriptor,
            ):
                size = os.fstat(descriptor).st_size
                os.lseek(descriptor, max(0, size - most), os.SEEK_SET)
                return b"".join(safe_open.read_exactly(descriptor, min(size, most)))
        except OSError:
            return None

    @property
    def home(self) -> Path:
        """HOME of the programs that run here."""
        return self.scratch / "home"

    def confine_command(self, work: AgentWork) -> Confinement:
        """Return what a command of this ask may access and use; its Python imports from the workspace
        first.
        """
        path = os.pathsep.join(self._python_path(work.code))
        return self._build_confinement(work, {**self._code_variables(work.code), "PYTHONPATH": path})

    def confine_server(self, work: AgentWork) -> Confinement:
        """Return the same for an MCP server.

        It is found in the PATH of the machine, and PYTHONPATH is not set: an agent could change a server that is in
        the workspace.
        """
        return self._build_confinement(work, {})

    def confine_agent(
        self, work: AgentWork, more: Mapping[str, str], gate: GateAccess | None = None
    ) -> Confinement:
        """Return the same for an agent program, with `more` variables and the gate that it reaches its model by.

        PYTHONPATH is not set: a program that is written in Python and has a key would load modules of the
        workspace instead of its own.
        """
        proxies = read_gate_proxies(self.environment, network=work.network) if gate else {}
        variables = {**self._code_variables(work.code), **proxies, **more}
        return replace(self._build_confinement(work, variables), gate=gate)

    def confine_setup(self, work: AgentWork, more: Mapping[str, str], shared: Sequence[Path]) -> Confinement:
        """Return the same for a command that prepares the workspace: it may also
        write to the `shared` places.
        """
        confinement = self._build_confinement(work, {**self._code_variables(work.code), **more})
        return replace(confinement, shared=tuple(shared))

    def _build_confinement(self, work: AgentWork, more: Mapping[str, str]) -> Confinement:
        rules = work.sandbox
        return Confinement(
            workspace=self.workspace,
            writable=work.permissions.changes_files or work.permissions.can_execute_commands,
            home=self.home,
            environment=self._build_variables(work, more),
            network=work.network,
            readable=tuple(Path(name) for name in (*rules.readable, *work.code.readable)),
            mode=rules.mode,
            memory_bytes=rules.memory_bytes,
            processes=rules.processes,
            file_bytes=rules.file_bytes,
            output_bytes=rules.output_bytes,
        )

    def _build_variables(self, work: AgentWork, more: Mapping[str, str]) -> dict[str, str]:
        kept = ("LANG", "LC_ALL", "TZ", *(("SSL_CERT_FILE",) if work.network else ()))
        inherited = {name: self.environment[name] for name in kept if name in self.environment}
        inherited |= read_proxies(self.environment) if work.network else {}
        return {
            "PATH": self.path,
            **inherited,
            "HOME": str(self.home),
            "TERM": "dumb",
            "GIT_CEILING_DIRECTORIES": str(self.workspace.parent),
            "LOGIST_RUN_ID": work.marker,
            **more,
        }

    @property
    def path(self) -> str:
        """PATH without the directories of a workspace: Logist searches the programs that it starts itself here."""
        return self.environment.get("PATH", "/usr/local/bin:/usr/bin:/bin")

    def _code_variables(self, code: CodePaths) -> dict[str, str]:
        programs = [str(self.workspace / name) for name in code.programs]
        variables = {"PATH": os.pathsep.join([*programs, self.path])}
        if code.virtual_env:
            variables["VIRTUAL_ENV"] = str(self.workspace / code.virtual_env)
        if not (self.workspace / "go.work").is_file():
            # Go searches parent directories for a go.work too, and the user's checkout may have one there.
            variables["GOWORK"] = "off"
        return variables

    def _python_path(self, code: CodePaths) -> list[str]:
        src = self.workspace / "src"
        names = [*(["src"] if src.is_dir() and not src.is_symlink() else []), ".", *code.python_path]
        return [str(self.workspace / name) for name in names]


_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
PROXIES = tuple(spelled for name in _PROXIES for spelled in (name, name.lower()))
_GATE_HOST = "127.0.0.1"


def read_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the proxy variables for programs with network access; unset ones are set to "".

    Otherwise a program that reads a `.env` file in the workspace could take a proxy from that file and send its
    key through it.
    """
    return {name: environment.get(name, "") for name in PROXIES}


def read_gate_proxies(environment: Mapping[str, str], *, network: bool) -> dict[str, str]:
    """Return the proxy variables for an agent program with a gate, which it must reach without a proxy."""
    proxies = read_proxies(environment if network else {})
    for name in ("NO_PROXY", "no_proxy"):
        proxies[name] = ",".join(filter(None, (proxies[name], _GATE_HOST)))
    return proxies
