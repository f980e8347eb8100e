"""A workspace and a home in which tests run programs under each kind of sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from logist.agents import sandbox
from logist.agents.sandbox import Confinement, Kind, Means, ProgramEnd, launcher, processes, running

PATH = "/usr/local/bin:/usr/bin:/bin"
KINDS: tuple[Kind, ...] = ("bubblewrap", "landlock", "none")
CONFINING: tuple[Kind, ...] = ("bubblewrap", "landlock")
MINE = f"mine-{os.getpid()}"
"""Other tests of this machine sweep by their own marker."""


@dataclass
class Bench:
    """A workspace and a home, and programs that run there under one kind of sandbox."""

    place: Path
    kind: Kind
    ended: ProgramEnd | None = None

    @property
    def workspace(self) -> Path:
        return self.place / "here" / "workspace"

    @property
    def home(self) -> Path:
        return self.place / "private" / "home"

    def __call__(
        self,
        script: str | list[str],
        *,
        stdin: bytes = b"",
        deadline: float = 60.0,
        idle: float | None = None,
        marker: str = MINE,
        stop: Callable[[], bool] = lambda: False,
        environment: dict[str, str] | None = None,
        **confinement: Any,
    ) -> tuple[str, str]:
        argv = ["sh", "-c", script] if isinstance(script, str) else script
        values = {"PATH": PATH, "HOME": str(self.home), **(environment or {})}
        self.ended = sandbox.run_program(
            argv,
            Confinement(self.workspace, confinement.pop("writable", True), self.home, values, **confinement),
            stdin=stdin,
            stdout=self.place / "out",
            stderr=self.place / "err",
            deadline_seconds=deadline,
            idle_seconds=idle,
            marker=marker,
            stop=stop,
        )
        assert self.ended.sandbox == self.kind
        return (self.place / "out").read_text("utf-8"), (self.place / "err").read_text("utf-8")

    @property
    def end(self) -> tuple[int | None, int | None, str]:
        assert self.ended is not None
        return self.ended.status, self.ended.signal, self.ended.how


def open_bench(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    found = sandbox.detect_sandbox()
    if kind == "bubblewrap" and found.kind != "bubblewrap":
        pytest.skip("; ".join(found.details))
    if kind == "landlock" and not launcher.read_landlock_version():
        pytest.skip("no Landlock in this kernel")
    if kind != "bubblewrap":
        monkeypatch.setattr(running, "detect_sandbox", lambda: Means(kind))
    made = Bench(tmp_path, kind)
    made.workspace.mkdir(parents=True)
    made.home.mkdir(parents=True)
    (tmp_path / "here" / "beside").write_text("private", "utf-8")
    before = set(processes.list_children(os.getpid()))  # other tests of this process leave some behind
    yield made
    assert sandbox.end_leftover_processes(MINE) == 0
    mine = filter(None, map(processes.read_process, set(processes.list_children(os.getpid())) - before))
    assert [process for process in mine if not process.is_alive] == []


every = pytest.mark.parametrize("bench", KINDS, indirect=True)
confining = pytest.mark.parametrize("bench", CONFINING, indirect=True)
