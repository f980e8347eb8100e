"""Writes cut at every byte: what a killed process or a lost page leaves of an append or of a state."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from logist.errors import Damaged
from logist.store import REPLACE_BELOW, JobDir, LoadedJob, Position
from logist.store.entries import CLOSING
from tests.torture.lab import JOB
from tests.torture.suite import Case, Run

Json = dict[str, Any]

SMALL = {"kind": "spec", "reason": "a"}
LARGE = {"kind": "ask", "text": "line\\n" * 300, "more": [{"path": f"src/{n}.py"} for n in range(60)]}
FOREIGN = {"kind": "ask", "text": "ü€😀\u2028\u2029\u0085" * 150 + ']}\n,{"sequence":2,'}
TAILS = (b"", b"]", b"]}", b",", b',{"sequence":3,', b'{"torn"', b"]}\n" + b"\0" * 40)
"""What may follow the last entry instead of the closing bytes: a part of these, or an incomplete append."""


class Shape(NamedTuple):
    """A history, and an append to it that is cut."""

    name: str
    acknowledged: Sequence[Json]
    entries: Sequence[Json]
    tail: bytes = CLOSING
    in_place: bool = True

    @property
    def replace_below(self) -> int:
        return 0 if self.in_place else REPLACE_BELOW


SHAPES = (
    Shape("the first entry", [], [SMALL]),
    Shape("a small entry", [SMALL], [SMALL]),
    Shape("a large entry", [SMALL, SMALL], [LARGE]),
    Shape("multi-byte text", [SMALL, FOREIGN], [FOREIGN]),
    *(Shape(f"over the torn tail {tail!r}", [SMALL, SMALL], [SMALL], tail) for tail in TAILS),
    Shape("by rename: the first entry", [], [SMALL], in_place=False),
    Shape("by rename: a large entry", [SMALL, SMALL], [LARGE], in_place=False),
    Shape("by rename: several entries", [SMALL, SMALL], [SMALL, FOREIGN, SMALL], in_place=False),
    Shape("by rename: over a torn tail", [SMALL, LARGE], [SMALL], b',{"sequence":3,"ki', in_place=False),
)


@dataclass
class Disk:
    """A job directory that is put into one state after the other."""

    job: JobDir

    @classmethod
    def made(cls, jobs: Path) -> Disk:
        with JobDir.create_job(jobs, JOB) as job:
            pass
        return cls(job)

    def put(self, history: bytes, state: bytes | None, temporary: bytes | None = None, of: str = "") -> None:
        """Write only these files; `temporary` is a half-written file that should become `of`."""
        for path in (*self.job.logs.iterdir(), *self.job.path.glob(".*.new")):
            path.unlink()
        self.job.history_file.write_bytes(history)
        if state is None:
            self.job.state_file.unlink(missing_ok=True)
        else:
            self.job.state_file.write_bytes(state)
        if temporary is not None:
            (self.job.path / f".{of}.0123456789ab.new").write_bytes(temporary)

    def append(self, entries: Sequence[Json], replace_below: int) -> LoadedJob:
        """Append as a step does; then restore the job."""
        with self.job.hold_lock(command="append", since=""):
            loaded = self.job.load()
            if entries:
                done = self.job.append_entries(
                    loaded.position, list(entries), loaded.torn, replace_below=replace_below
                )
                self.job.write_state(_state(done.position))
        return loaded

    def both(self) -> tuple[bytes, bytes | None]:
        """History and state, as bytes."""
        state = self.job.state_file
        return self.job.history_file.read_bytes(), state.read_bytes() if state.exists() else None


def _state(position: Position) -> Json:
    sequence, digest, offset = position
    return {"version": 1, "head": {"sequence": sequence, "hash": digest, "offset": offset}}


class Made(NamedTuple):
    """A shape on disk: before the append, and after it."""

    before: bytes
    state_before: bytes | None
    after: bytes
    state_after: bytes
    end: int
    """Byte after the acknowledged entries: where the append begins."""
    acknowledged: list[str]
    """Checksums."""
    promised: list[str]
    """Checksums of all entries, those of the append too."""


def _made(disk: Disk, shape: Shape) -> Made:
    disk.put(_empty(disk), None)
    for entry in shape.acknowledged:
        disk.append([entry], REPLACE_BELOW)
    history, state = disk.both()
    end = len(history) - len(CLOSING)
    before = history[:end] + shape.tail
    acknowledged = _checksums(history)
    disk.put(before, state)
    disk.append(shape.entries, shape.replace_below)
    after, state_after = disk.both()
    assert after.startswith(history[:end])
    assert state_after is not None
    return Made(before, state, after, state_after, end, acknowledged, _checksums(after))


def _empty(disk: Disk) -> bytes:
    first_line = disk.job.history_file.read_bytes().split(b"\n", 1)[0]
    return first_line + b"\n" + CLOSING


def _checksums(history: bytes) -> list[str]:
    return [entry["checksum"] for entry in json.loads(history)["interactions"]]


def in_place(run: Run) -> None:
    """An append in place keeps only its first bytes, over the old content; or only its last bytes, after
    zeros.
    """
    disk = Disk.made(run.scratch / "jobs")
    for shape in SHAPES:
        if shape.in_place:
            made = _made(disk, shape)
            # An end that is not the closing is removed before anything is written.
            old = made.before if shape.tail == CLOSING else made.before[: made.end]
            for kept in run.some(range(made.end, len(made.after) + 1), 40):
                disk.put(made.after[:kept] + old[kept:], made.state_before)
                run.check(_wrong(disk, shape, made), f"{shape.name}, its first {kept - made.end} bytes")
                disk.put(old[:kept].ljust(kept, b"\0") + made.after[kept:], made.state_before)
                run.check(
                    _wrong(disk, shape, made), f"{shape.name}, without its first {kept - made.end} bytes"
                )


def temporary(run: Run) -> None:
    """A new file that was never renamed contains any part of its text: the job is unchanged."""
    disk = Disk.made(run.scratch / "jobs")
    for shape in SHAPES:
        if not shape.in_place:
            made = _made(disk, shape)
            for kept in run.some(range(len(made.after) + 1), 60):
                disk.put(made.before, made.state_before, made.after[:kept], "jobHistory.json")
                run.check(_wrong(disk, shape, made), f"{shape.name}, {kept} bytes of the new file")


def renamed(run: Run) -> None:
    """A renamed file that lost its end, or ends with zeros, which fsync prevents: it is never accepted as
    complete.
    """
    disk = Disk.made(run.scratch / "jobs")
    for shape in SHAPES:
        if not shape.in_place:
            made = _made(disk, shape)
            for kept in run.some(range(len(made.after)), 60):
                for filled in (b"", b"\0" * (len(made.after) - kept)):
                    disk.put(made.after[:kept] + filled, made.state_before)
                    where = f"{shape.name}, renamed with {kept} bytes" + (" and zeros" if filled else "")
                    run.check(_cut_below(disk, shape, made, kept), where)


def _cut_below(disk: Disk, shape: Shape, made: Made, kept: int) -> list[str]:
    """Before the end of the acknowledged entries it is damage and is not changed; after it, it is an
    incomplete append.
    """
    if kept >= made.end - 1 or not made.acknowledged:  # the last newline is not part of an entry
        return _wrong(disk, shape, made, may_be_damaged=kept < made.end)
    return _must_refuse(disk)


def _must_refuse(disk: Disk) -> list[str]:
    before = disk.both()
    try:
        disk.append([SMALL], REPLACE_BELOW)
    except Damaged:
        return [] if disk.both() == before else ["it was called damaged, and was changed"]
    return ["it was taken for whole"]


def states(run: Run) -> None:
    """A state that was not renamed has no effect; one that was renamed unfinished is damage, and is reported
    so.
    """
    disk = Disk.made(run.scratch / "jobs")
    for shape in SHAPES[1], SHAPES[3], SHAPES[-2]:
        made = _made(disk, shape)
        for kept in run.some(range(len(made.state_after) + 1), 60):
            part = made.state_after[:kept]
            disk.put(made.after, made.state_before, part, "state.json")
            run.check(_wrong(disk, shape, made), f"{shape.name}, {kept} bytes of a new state")
            disk.put(made.after, part)
            whole = part.rstrip() == made.state_after.rstrip()
            problems = _wrong(disk, shape, made) if whole else _must_refuse(disk)
            run.check(problems, f"{shape.name}, a state of {kept} bytes")


def _wrong(disk: Disk, shape: Shape, made: Made, *, may_be_damaged: bool = False) -> list[str]:
    """Yield the problems of the state on disk, and of continuing from it."""
    history = disk.job.history_file.read_bytes()
    try:
        found = [entry["checksum"] for entry in disk.job.read_entries()]
        loaded = disk.append([SMALL], shape.replace_below)
    except Damaged as error:
        return [] if may_be_damaged else [f"it is called damaged: {error}"]
    return (
        list(_missing(made, found))
        + list(_not_kept(disk, made, history, loaded, found))
        + _after(disk, found)
    )


def _missing(made: Made, found: list[str]) -> Iterator[str]:
    if found[: len(made.acknowledged)] != made.acknowledged:
        yield "an acknowledged entry is gone"
    if found != made.promised[: len(found)]:
        yield "an entry was invented"


def _not_kept(disk: Disk, made: Made, history: bytes, loaded: LoadedJob, found: list[str]) -> Iterator[str]:
    """Check that all bytes of the incomplete append are in logs/."""
    end = _end_of(history, len(found))
    rest = history[end:]
    torn = b"" if rest.strip() in (b"", b"]", b"]}") else rest
    if loaded.torn != torn:
        yield f"the torn tail is {len(torn)} bytes, and was taken for {len(loaded.torn)}"
    kept = [path.read_bytes() for path in disk.job.logs.iterdir()]
    if torn and torn not in kept:
        yield "the torn bytes were not kept"


def _end_of(history: bytes, entries: int) -> int:
    """Return the position after this many entries; the last one may lack its newline."""
    end = 0
    for _ in range(entries + 1):
        line = history.find(b"\n", end)
        end = line + 1 if line >= 0 else len(history)
    return end


def _after(disk: Disk, found: list[str]) -> list[str]:
    """Check after the next append: valid JSON, verified, one more entry, and no half-written files."""
    history, _ = disk.both()
    problems = [problem.message for problem in disk.job.verify()]
    try:
        now = _checksums(history)
    except ValueError as error:
        return [*problems, f"not valid JSON: {error}"]
    problems += [] if now[:-1] == found and len(now) == len(found) + 1 else ["the next entry is not there"]
    problems += [f"{path.name} is left" for path in disk.job.path.glob(".*.new")]
    return problems


CASES = (
    Case("in-place", "disk states", 15_000, in_place),
    Case("temporary", "disk states", 10_000, temporary),
    Case("renamed", "disk states", 20_000, renamed),
    Case("state", "disk states", 1_000, states),
)
