"""A workspace with tools on it, for the tests of tools."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from logist.agents.sandbox import Confinement, ProgramEnd
from logist.agents.tools import Context, ToolOutcome, run_tool
from logist.config.working import ToolRules
from logist.core.model import EVERYTHING, Call, Permissions
from logist.core.secrets.redact import redact

SECRET = "hunter2-hunter2-hunter2"


@dataclass
class FakeSandbox:
    """Stands in for the sandbox: writes what it is told to, and keeps what it was asked."""

    stdout: bytes = b""
    stderr: bytes = b""
    ended: ProgramEnd = field(
        default_factory=lambda: ProgramEnd(status=0, signal=None, how="exited", seconds=1.25)
    )
    asked: list[tuple[tuple[str, ...], dict[str, Any]]] = field(default_factory=list)

    def run(self, argv: tuple[str, ...], confinement: Confinement, **given: Any) -> ProgramEnd:
        self.asked.append((argv, {"confinement": confinement, **given}))
        given["stdout"].write_bytes(self.stdout)
        given["stderr"].write_bytes(self.stderr)
        return self.ended


@dataclass
class Bench:
    """Calls tools on a workspace; `context` says what they may."""

    context: Context
    sandbox: FakeSandbox

    @property
    def root(self) -> Path:
        return self.context.workspace

    def call(self, name: str, **arguments: Any) -> ToolOutcome:
        return self.raw(name, json.dumps(arguments))

    def raw(self, name: str, arguments: str) -> ToolOutcome:
        return run_tool(Call(id="1", name=name, arguments=arguments), self.context)

    def done(self, name: str, **arguments: Any) -> str:
        """The content of a call that succeeds."""
        outcome = self.call(name, **arguments)
        assert not outcome.error, outcome.content
        assert outcome.refusal is None
        return outcome.content

    def fails(self, name: str, **arguments: Any) -> str:
        """What a call says that is at fault, and no refusal."""
        outcome = self.call(name, **arguments)
        assert outcome.error, outcome.content
        assert outcome.refusal is None
        return outcome.content

    def with_(self, **changes: Any) -> Bench:
        """The same workspace for somebody else, or by other rules."""
        return Bench(replace(self.context, **changes), self.sandbox)

    def ruled(self, **rules: Any) -> Bench:
        return self.with_(rules=ToolRules(**rules))


def bench(
    folder: Path, permissions: Permissions = EVERYTHING, stop: Callable[[], bool] = lambda: False
) -> Bench:
    """A bench in `folder`, with an empty workspace if there is none yet."""
    workspace, scratch = folder / "workspace", folder / "scratch"
    workspace.mkdir(parents=True, exist_ok=True)
    scratch.mkdir(exist_ok=True)
    sandbox = FakeSandbox()
    confinement = Confinement(workspace=workspace, writable=True, home=folder / "home", environment={})
    context = Context(
        workspace=workspace,
        role="Worker",
        permissions=permissions,
        rules=ToolRules(),
        approved=frozenset(),
        confine=lambda: confinement,
        deadline=time.monotonic() + 300,
        stop=stop,
        scratch=scratch,
        marker="marker",
        redact=lambda text: redact(text, (SECRET,)),
        run=sandbox.run,
    )
    return Bench(context, sandbox)
