"""A world for hostile commands, with things to steal and to damage, and a check of what each attempt did.

As a program, `python -m tests.torture.hostile_stage KIND NAME...` tries the attempts as whoever runs it, and writes
one JSON line for each: the tests start it with a key in its environment, and as another user.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from logist.agents import sandbox
from logist.agents.sandbox import Confinement, Means, ProgramEnd, running
from tests.torture.hostile_commands import ATTEMPTS, Attempt

KEY = "LOGIST_STAGE_API_KEY"
"""The environment variable of this program that no attempt may see."""
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
SHARED = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/usr/lib", "/usr/local/bin", "/etc", "/opt", "/")
DEFAULTS = {
    "memory_bytes": 512 << 20,
    "processes": 64,
    "file_bytes": 64 << 20,
    "output_bytes": 1 << 20,
}


_IPC_PRIVATE, _IPC_CREAT, _IPC_RMID = 0, 0o1000, 0
SHORT = "/tmp"
"""The path of a unix socket can have 107 characters, so the stage is in a directory with a short path."""


class Listener:
    """Sockets of this machine; `heard` is what reached them."""

    def __init__(self, path: Path, abstract: str) -> None:
        self.heard: list[str] = []
        self.tcp, self.udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.named, self.abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self.tcp.bind(("127.0.0.1", 0))
        self.udp.bind(("127.0.0.1", 0))
        self.named.bind(str(path))
        self.abstract.bind(f"\0{abstract}")
        for each in (self.tcp, self.named, self.abstract):
            each.listen()
        for name, each in vars(self).items():
            if isinstance(each, socket.socket):
                threading.Thread(target=self._listen, args=(name, each), daemon=True).start()

    def _listen(self, name: str, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                if server is self.udp:
                    server.recvfrom(100)
                else:
                    server.accept()[0].close()
                self.heard.append(name)

    def close(self) -> None:
        """Close the sockets."""
        for each in (self.tcp, self.udp, self.named, self.abstract):
            each.close()


class Shared:
    """A segment of shared memory and two message queues of this machine."""

    def __init__(self, name: str) -> None:
        self._libc, self._librt = ctypes.CDLL(None), ctypes.CDLL("librt.so.1")
        self.queue_name = f"/{name}"
        self.segment = self._libc.shmget(_IPC_PRIVATE, 4096, _IPC_CREAT | 0o600)
        self.queue = self._libc.msgget(_IPC_PRIVATE, _IPC_CREAT | 0o600)
        self._open = self._librt.mq_open(self.queue_name.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)

    def close(self) -> None:
        """Remove what still exists."""
        self._libc.shmctl(self.segment, _IPC_RMID, None)
        self._libc.msgctl(self.queue, _IPC_RMID, None)
        self._librt.mq_unlink(self.queue_name.encode())
        if self._open >= 0:
            os.close(self._open)


@dataclass
class Stage:
    """One world, for one attempt after another."""

    place: Path
    canary: str
    name: str
    nap: str
    victim: subprocess.Popen[bytes]
    listener: Listener
    shared: Shared

    @property
    def outside(self) -> Path:
        return self.place / "outside"

    @property
    def workspace(self) -> Path:
        return self.place / "workspace"

    def environment(self) -> dict[str, str]:
        """Return the environment of a script."""
        return {
            "PATH": PATH,
            "HOME": str(self.place / "private"),
            "LC_ALL": "C",
            "OUTSIDE": str(self.outside),
            "JOB": str(self.place / "job"),
            "USERHOME": str(self.place / "user"),
            "VICTIM": str(self.victim.pid),
            "LOGIST": str(os.getpid()),
            "TCP": str(self.listener.tcp.getsockname()[1]),
            "UDP": str(self.listener.udp.getsockname()[1]),
            "SOCK": str(self.outside / "socket"),
            "ABSTRACT": self.name,
            "NAME": self.name,
            "NAP": self.nap,
            "SEGMENT": str(self.shared.segment),
            "QUEUE": str(self.shared.queue),
            "MQUEUE": self.shared.queue_name,
        }


@contextmanager
def stage(place: Path) -> Iterator[Stage]:
    """Create everything that an attempt may look for, below `place`; it is removed afterwards."""
    canary = os.environ.get(KEY) or secrets.token_hex(8)
    name, nap = f"logist-{secrets.token_hex(6)}", f"9{secrets.randbelow(10**8):08}"
    files = {
        "outside/secret": canary,
        f"outside/named-{canary}": "",
        "user/.ssh/id_key": canary,
        "user/.netrc": canary,
        "user/.bashrc": "# mine",
        "job/state.json": canary,
        "job/jobHistory.json": canary,
        "job/lock": "",
        "job/inflight/1.request": canary,
        "job/git/hooks/post-commit": "# mine",
        "workspace/README": "hello",
        "private/.keep": "",
    }
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, "utf-8")
    listener, shared = Listener(place / "outside" / "socket", name), Shared(name)
    with (place / "outside" / "secret").open("rb") as secret:
        victim = subprocess.Popen(
            ["sleep", "1000"],
            stdin=secret,
            cwd=place / "outside",
            env={"KEY": canary},
            start_new_session=True,
        )
    try:
        yield Stage(place, canary, name, nap, victim, listener, shared)
    finally:
        victim.kill()
        victim.wait()
        listener.close()
        shared.close()


def attempt_in(stage: Stage, attempt: Attempt, kind: str) -> tuple[ProgramEnd, list[str]]:
    """Run one attempt; return what it achieved."""
    for path in (stage.workspace, stage.place / "private"):
        shutil.rmtree(path)
        path.mkdir()
    (stage.workspace / "README").write_text("hello", "utf-8")
    before, stage.listener.heard = _snapshot(stage), []
    out, err = stage.place / "stdout", stage.place / "stderr"
    limits: dict[str, Any] = {**DEFAULTS, **attempt.limits}
    confinement = Confinement(
        stage.workspace,
        attempt.writable,
        stage.place / "private",
        stage.environment(),
        mode="off" if kind == "none" else "required",
        **limits,
    )
    with by(kind):
        ended = sandbox.run_program(
            ["/bin/sh", "-c", attempt.script],
            confinement,
            stdin=b"",
            stdout=out,
            stderr=err,
            deadline_seconds=attempt.deadline,
            idle_seconds=attempt.idle,
            marker=stage.name,
            stop=lambda: False,
        )
    problems = [*_gained(stage, out, err), *_spoiled(stage, before)]
    said = err.read_text("utf-8", "replace")[-300:]
    # The system may refuse another process before the watch counts them: then the program ends by itself.
    refused = attempt.how == "limit" and ended.how == "exited" and "Cannot fork" in said
    if ended.how != attempt.how and not refused:
        problems.append(f"it ended as {ended.how}, not as {attempt.how}: {said}")
    return ended, problems


@contextmanager
def by(kind: str) -> Iterator[None]:
    """Return a sandbox of this kind, also if the machine has a better one."""
    found = sandbox.detect_sandbox()
    if kind == "landlock":
        found = Means("landlock")
    with mock.patch.object(running, "detect_sandbox", return_value=found):
        yield


def _gained(stage: Stage, out: Path, err: Path) -> Iterator[str]:
    told = out.read_bytes() + err.read_bytes()
    if re.search(rb"\bOUT\b", told):
        yield f"it says that it got out: {told[-300:]!r}"
    places = [stage.workspace, stage.place / "private"]
    kept = [path for place in places for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    if stage.canary.encode() in told + b"".join(
        path.read_bytes() for path in kept if path.stat().st_size < 1 << 24
    ):
        yield "it read the canary"
    if stage.listener.heard:
        yield f"it reached {stage.listener.heard}"


def _spoiled(stage: Stage, before: dict[str, Any]) -> Iterator[str]:
    after = _snapshot(stage)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if changed:
        yield f"it changed {changed}"
    with open(f"/proc/{stage.victim.pid}/stat", "rb") as file:
        if file.read().rpartition(b") ")[2][:1] not in b"SR":
            yield "it stopped another process"
    for place in SHARED:
        for path in Path(place).glob(f"{stage.name}*"):
            path.unlink()
            yield f"it wrote {path}"
    if left := list(_sleepers(stage.nap)):
        yield f"it left {left}"


def _snapshot(stage: Stage) -> dict[str, Any]:
    """Everything that an attempt may not change: contents, modes, owners, times, links, attributes."""
    found: dict[str, Any] = {}
    ours = {stage.workspace, stage.place / "private", stage.place / "stdout", stage.place / "stderr"}
    for top in ("outside", "user", "job"):
        for path in (stage.place / top, *(stage.place / top).rglob("*")):
            look = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(look.st_mode) else b""
            found[str(path)] = (
                *(look.st_mode, look.st_uid, look.st_gid, look.st_nlink, look.st_mtime_ns),
                os.listxattr(path, follow_symlinks=False),
                content,
            )
    found["workspace"] = (stage.workspace.is_symlink(), stage.place.stat().st_mode)
    found["names"] = sorted(path.name for path in stage.place.iterdir() if path not in ours)
    return found


def _sleepers(nap: str) -> Iterator[int]:
    for name in os.listdir("/proc"):
        with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
            if name.isdigit() and nap.encode() in file.read():
                yield int(name)


def main(kind: str, names: list[str]) -> None:
    """Run the named attempts, each in a separate world, and write what they achieved."""
    for attempt in ATTEMPTS:
        if attempt.name in names:
            with (
                tempfile.TemporaryDirectory(prefix="hostile-", dir=SHORT) as place,
                stage(Path(place)) as world,
            ):
                ended, problems = attempt_in(world, attempt, kind)
            line = {
                "name": attempt.name,
                "problems": problems,
                "sandbox": ended.sandbox,
                "seconds": ended.seconds,
            }
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
