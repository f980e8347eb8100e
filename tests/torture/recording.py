"""Recordings of real runs of Logist, call by call, as the disk saw them, with what was promised at each call."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from logist.store.entries import verify_line
from tests.support import ROOT
from tests.torture.filesystem import Disk, Tree
from tests.torture.lab import JOB, WAITING, World
from tests.torture.shelf import read
from tests.torture.tracer import Call, trace

HISTORY = f".logist/jobs/{JOB}/jobHistory.json"
REQUEST = f".logist/jobs/{JOB}/inflight/1.request"
ANSWERED = b"answered\n"
"""What a courier that runs inside a command prints when it has written its answer."""

Entry = tuple[int, str]
"""Sequence and checksum of an interaction."""

_OPENS = ("open", "openat", "openat2", "creat")
_RENAMES = ("rename", "renameat", "renameat2")
_APPENDS = ("write", "writev")
_SYNCS = ("fsync", "fdatasync")
_IGNORED = (
    "chmod",
    "fchmod",
    "fchmodat",
    "flock",
    "utimensat",
    "execve",
    "chown",
    "fchown",
    "sync_file_range",
)
_PACK = b"PACK"
_SEGMENT = re.compile(rb'"segment":(\d+)')


@dataclass(frozen=True)
class Promise:
    """The promises that must be kept if the power fails now."""

    acknowledged: tuple[Entry, ...] = ()
    """Interactions that a command has acknowledged."""
    known: frozenset[Entry] = frozenset()
    """All interactions that were written; a reader may never see others."""
    sent: int = 0
    """The sequence of an ask that was sent; 0 for none."""
    answered: bool = False
    """Whether that ask has its answer, and the courier has reported it."""


@dataclass(frozen=True)
class Part:
    """One command, or an action of a person between two commands."""

    label: str
    calls: tuple[Call, ...] = ()
    succeeded: bool = True
    edited: Tree | None = None


@dataclass
class Recording:
    """Commands one after the other, from a disk on which everything was durable."""

    name: str
    place: Path
    base: Tree
    promise: Promise = Promise()
    variants: tuple[str, ...] = ()
    """The variants of Logist that made this recording; see `mutants`."""
    parts: list[Part] = field(default_factory=list)
    stale: dict[str, bytes] = field(default_factory=dict)
    """The old bytes on the disk where a file of this name grows."""

    def __len__(self) -> int:
        return sum(len(part.calls) for part in self.parts)


class Recorder:
    """Runs commands in a world and keeps what they did to the disk."""

    def __init__(
        self, name: str, world: World, variants: Sequence[str] = (), promise: Promise | None = None
    ) -> None:
        self.world = world
        base = read(world.place)
        self.recording = Recording(name, world.place, base, promise or Promise(), tuple(variants))
        self.disk = Disk(self.recording.base)

    def run(self, *args: str, stdin: str = "") -> bytes:
        """Run and record `logist ARGS`; return its output. The model must then know everything on the disk."""
        self._notice_edits()
        env = self.world.env | {"PYTHONPATH": str(ROOT)}
        changed = ["-m", "tests.torture.mutants", ",".join(self.recording.variants)]
        module = changed if self.recording.variants else ["-m", "logist"]
        argv = [self.world.python, *module, *args]
        done = trace(argv, cwd=self.world.place, env=env, data=True, stdin=stdin.encode())
        label = " ".join(args[:2])
        self.recording.parts.append(Part(label, tuple(done.calls), done.code in WAITING))
        for call in done.calls:
            see(self.disk, call, self.world.place)
        unseen = {path for path, _ in self.disk.tree().items() ^ read(self.world.place).items()}
        assert not unseen, f"{label}: the recording misses what happened to {sorted(unseen)}"
        assert done.code in WAITING, f"{label} ended with {done.code}: {done.err.decode()}"
        return done.out

    def _notice_edits(self) -> None:
        now = read(self.world.place)
        if self.disk.tree() != now:
            self.recording.parts.append(Part("an edit", edited=now))
            self.disk.adopt(now)


def points(recording: Recording) -> Iterator[tuple[str, Disk, Promise]]:
    """Yield every moment at which the power can fail: its position, the disk (updated), and the promises."""
    disk = Disk(recording.base, recording.stale)
    place, promise = recording.place, recording.promise
    for part in recording.parts:
        if part.edited is not None:
            disk.adopt(part.edited)
        sender, last = _sender(part.calls)
        for call in part.calls:
            if sender is not None and call.index == last + 1 and promise.sent:
                promise = replace(promise, answered=True)
            see(disk, call, place)
            promise = _promised(promise, disk, call, place)
            yield f"{recording.name}: {part.label}, after {call}", disk, promise
        if part.succeeded:
            promise = _acknowledged(promise, disk)


def _sender(calls: Sequence[Call]) -> tuple[int | None, int]:
    """Return the courier, if it is a separate process, and its last call."""
    senders = [call.process for call in calls if _leaves(call) and call.process]
    return (senders[0], max(c.index for c in calls if c.process == senders[0])) if senders else (None, 0)


def _leaves(call: Call) -> bool:
    """Whether this call sends bytes to a model."""
    return call.name in ("sendto", "sendmsg", "write") and call.paths[0].startswith("socket:")


def _promised(promise: Promise, disk: Disk, call: Call, place: Path) -> Promise:
    if call.paths and call.paths[-1].endswith("/jobHistory.json"):
        node = disk.find(_inside(call.paths[-1], place) or "")
        if node is not None and isinstance(node.content, bytes):
            promise = replace(promise, known=promise.known | set(entries(node.content)))
    if _leaves(call):
        request = disk.find(REQUEST)
        assert request is not None, "bytes left before the request was on disk"
        assert isinstance(request.content, bytes)
        promise = replace(promise, sent=json.loads(request.content)["sequence"], answered=False)
    if call.paths == ("memfd:stdout",):
        if call.data == ANSWERED:
            return replace(promise, answered=True)
        return _acknowledged(promise, disk)
    return promise


def _acknowledged(promise: Promise, disk: Disk) -> Promise:
    live = _content(disk, HISTORY)
    number = int(_SEGMENT.search(live.partition(b"\n")[0] or b'"segment":1')[1])  # type: ignore[index]
    closed = [_content(disk, HISTORY.replace(".json", f".{n}.json.gz")) for n in range(1, number)]
    told = [entry for each in (*map(gzip.decompress, closed), live) for entry in entries(each)]
    return replace(promise, acknowledged=tuple(told))


def _content(disk: Disk, path: str) -> bytes:
    node = disk.find(path)
    content = node.content if node is not None else b""
    assert isinstance(content, bytes)
    return content


def entries(history: bytes) -> Iterator[Entry]:
    """Return the complete lines of a history, with commas at the start or the end."""
    for line in history.split(b"\n")[1:]:
        bare = line.removeprefix(b",").removesuffix(b",")
        checksum = verify_line(bare)
        if checksum:
            yield json.loads(bare)["sequence"], checksum


def _inside(path: str, place: Path) -> str | None:
    top = f"{place}/"
    return path.removeprefix(top) if path.startswith(top) else None


def see(disk: Disk, call: Call, place: Path) -> None:
    """Apply a call to the disk. Raises AssertionError for a call that this model does not know."""
    if call.name in ("sync", "syncfs") and not call.result:
        disk.sync_all()
        return
    paths = [_inside(path, place) for path in call.paths]
    if (call.result or 0) < 0 or not any(paths) or call.name in _IGNORED:
        return
    known = [path for path in paths if path is not None]
    assert len(known) == len(paths), f"{call} leaves the directory that is recorded"
    path = known[-1]
    if call.name in _OPENS:
        _open(disk, path, call.detail.get("flags", os.O_CREAT | os.O_TRUNC))
    elif call.name in _APPENDS or call.name == "pwrite64":
        _write(disk, path, call)
    elif call.name == "sendfile":
        _copy(disk, known[0], known[1], call.result or 0)
    elif call.name == "copy_file_range":
        _copy(disk, known[1], known[0], call.result or 0)
    elif call.name in ("truncate", "ftruncate"):
        disk.resize(path, call.detail["size"])
    elif call.name in _SYNCS:
        disk.sync(path)
    else:
        _rename(disk, known, call)


def _open(disk: Disk, path: str, flags: int) -> None:
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        return
    if disk.find(path) is None:
        disk.make(path, b"")
    elif flags & os.O_TRUNC:
        disk.resize(path, 0)


def _write(disk: Disk, path: str, call: Call) -> None:
    node = disk.find(path)
    if node is None:  # it no longer has a name
        return
    assert call.data is not None
    assert isinstance(node.content, bytes)
    data = call.data[: call.result]
    offset = call.detail.get("offset", len(node.content))
    # Seeks are not traced: git returns to the first bytes of a pack when it knows the number of objects.
    if call.name in _APPENDS and node.content.startswith(_PACK) and data.startswith(_PACK):
        offset = 0
    disk.write(path, offset, data)


def _copy(disk: Disk, to: str, path: str, count: int) -> None:
    """Append the next `count` bytes of one file to another; both are read from the start."""
    have, source = disk.find(to), disk.find(path)
    assert have is not None
    assert source is not None
    assert isinstance(have.content, bytes)
    assert isinstance(source.content, bytes)
    end = len(have.content)
    disk.write(to, end, source.content[end : end + count])


def _rename(disk: Disk, paths: list[str], call: Call) -> None:
    if call.name in _RENAMES:
        assert not call.detail.get("flags"), call
        disk.rename(*paths)
    elif call.name in ("link", "linkat"):
        disk.link(*paths)
    elif call.name in ("symlink", "symlinkat"):
        disk.make(paths[-1], os.fsdecode(call.data or b""))
    elif call.name in ("mkdir", "mkdirat"):
        disk.make(paths[-1], None)
    elif call.name in ("unlink", "unlinkat", "rmdir"):
        disk.remove(paths[-1])
    else:
        raise AssertionError(f"the model does not know {call}")
