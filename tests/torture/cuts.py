"""Real power cuts: the kernel shuts down a file system in a file, so no more writes reach it; then it is mounted again.

`python -m tests.torture.cuts PLACE [VARIANT,...]` works on the job there without end and prints what it has recorded.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from logist.core.model import Kind, Status
from logist.jobs import step_job
from logist.jobs.steward import steward_decisions
from logist.jobs.turn.next_request import Choice
from tests.support import ROOT
from tests.torture import judging, lab, mutants, scenarios
from tests.torture.lab import JOB, World
from tests.torture.recording import Entry, entries
from tests.torture.suite import Run, Skip
from tests.torture.tracer import Call, kill_before, trace

KINDS = ("ext4", "xfs", "btrfs")
SIZE = 512 << 20
"""The size of the sparse image; xfs needs at least 300 MB."""

_SHUTDOWN = 0x8004587D
"""_IOR('X', 125, __u32): EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN and the same number elsewhere."""
_NO_LOG_FLUSH = 2
_PATIENCE = 60


class CannotMount(Exception):
    """A system program failed; the text says why."""


class Mounted:
    """A new file system, mounted on a separate directory."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.image = folder / "image"
        self.place = folder / "mounted"

    def make(self) -> None:
        """Raises Skip if the kernel or a container does not allow it."""
        self.place.mkdir()
        with self.image.open("wb") as image:
            image.truncate(SIZE)
        try:
            _must(f"mkfs.{self.kind}", "-q", str(self.image))
            self.mount()
        except CannotMount as error:
            raise Skip(str(error)) from error

    def mount(self) -> None:
        _must("mount", "-o", "loop", "-t", self.kind, str(self.image), str(self.place))

    def unmount(self) -> None:
        """Unmount completely: while another namespace still has it mounted, the next mount would be the same
        file system, still shut down.
        """
        deadline = time.monotonic() + _PATIENCE
        while not self._unmounted():  # a process that was killed a moment ago still has it open
            assert time.monotonic() < deadline, f"{self.place} is busy {_PATIENCE} s after the cut"
            time.sleep(0.02)
        while self._attached():
            assert time.monotonic() < deadline, f"{self.image} is still in use {_PATIENCE} s after umount"
            time.sleep(0.02)

    def _unmounted(self) -> bool:
        done = subprocess.run(["umount", str(self.place)], capture_output=True, text=True, check=False)
        if done.returncode and "busy" not in done.stderr:
            raise CannotMount(f"umount {self.place} fails: {done.stderr.strip()}")
        return done.returncode == 0

    def is_mounted(self) -> bool:
        """Read from the kernel's list of mounts, because a disk that was cut can't answer."""
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
        return any(line.split()[4] == str(self.place) for line in lines)

    def _attached(self) -> bool:
        devices = Path("/sys/block").glob("loop*/loop/backing_file")
        return any(_text(device) == str(self.image) for device in devices)

    def cut(self) -> None:
        """Cut the power: from now on nothing reaches the disk, not even the journal. Raises Skip if that is
        impossible.
        """
        with _directory(self.place) as descriptor:
            try:
                fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
            except OSError as error:
                raise Skip(f"{self.kind} can't be shut down here: {error.strerror}") from error

    def sync(self) -> None:
        """Sync this file system only."""
        with _directory(self.place) as descriptor:
            ctypes.CDLL(None, use_errno=True).syncfs(descriptor)

    def again(self) -> None:
        """Mount again after a cut, to see what the disk kept."""
        self.unmount()
        self.mount()


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""  # the device was released a moment ago


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _must(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMount(f"{' '.join(argv[:4])} fails: {done.stderr.strip()}")


@contextmanager
def mounted(kind: str) -> Iterator[Mounted]:
    """A new file system, always removed afterwards. Raises Skip if that is impossible."""
    if os.geteuid() != 0:
        raise Skip("only root can mount")
    if shutil.which(f"mkfs.{kind}") is None:
        raise Skip(f"mkfs.{kind} is not installed")
    folder = Path(tempfile.mkdtemp(prefix="logist-cut-"))
    disk = Mounted(kind, folder)
    try:
        disk.make()
        yield disk
    finally:
        if disk.is_mounted():
            disk.unmount()
        shutil.rmtree(folder)


class Cut(NamedTuple):
    """When the power fails: before one call of a command, after the command, or anywhere in a process that
    runs without end.
    """

    command: tuple[str, ...]
    """The command to run; () for the process that runs without end."""
    variants: tuple[str, ...]
    at: int | None
    """The number of the call; None: after the command."""
    seconds: float = 0.0
    """For the process that runs without end: seconds from its first output."""

    def __str__(self) -> str:
        what = " ".join(self.command[:2]) or "many commands"
        moment = "afterwards" if self.at is None else f"before call {self.at}"
        return f"{what} {'in place ' * bool(self.variants)}{moment if self.command else f'after {self.seconds:g} s'}"


COMMANDS = (
    ((*scenarios.CREATE, "Do it.", "--no-repo"), ()),
    (scenarios.STEP, ()),
    (scenarios.SUSPEND, ("in_place",)),
)


class Cutter:
    """Cuts the power of one file system repeatedly."""

    def __init__(self, disk: Mounted, template: Path) -> None:
        """`template`: a world with a job, and one without, to be copied for each cut."""
        self.disk, self.template = disk, template

    def cuts(self, chance: Random, most: int) -> list[Cut]:
        """Yield at most this many moments: a quarter each for creating, stepping, appending in place, and
        random ones.
        """
        few = max(1, most // 4)
        chosen = []
        for command, variants in COMMANDS:
            calls = self._calls(command, variants) if few > 1 else []
            some = chance.sample(calls, min(few - 1, len(calls)))
            chosen += [Cut(command, variants, n) for n in sorted(some)] + [Cut(command, variants, None)]
        while len(chosen) < most:
            chosen.append(Cut((), chance.choice(((), ("in_place",))), None, round(chance.random(), 3)))
        return chosen

    def _calls(self, command: Sequence[str], variants: Sequence[str]) -> list[int]:
        """Return the calls of a command that change the disk, from a recorded run."""
        world = self._world("dry", command)
        done = trace(_argv(world, command, variants), cwd=world.place, env=_env(world))
        return [call.index for call in done.calls if _changes(call, world.place)]

    def _world(self, name: str, command: Sequence[str]) -> World:
        shutil.rmtree(self.disk.place / name, ignore_errors=True)
        source = "empty" if command[:2] == scenarios.CREATE[:2] else "job"
        world = World(self.template / source).copied(self.disk.place / name)
        self.disk.sync()
        return world

    def problems(self, cut: Cut) -> list[str]:
        """Return the problems after one cut."""
        world = self._world("cut", cut.command)
        told = self._run(world, cut)
        self.disk.again()
        found = list(_wrong(world, told))
        shutil.rmtree(world.place)
        return found

    def _run(self, world: World, cut: Cut) -> list[Entry]:
        """Work until the cut; return what was acknowledged before it."""
        if not cut.command:
            return self._go_on(world, cut)
        before = _recorded(world)
        act = None if cut.at is None else kill_before(cut.at, "all")
        trace(_argv(world, cut.command, cut.variants), cwd=world.place, env=_env(world), act=act)
        told = _recorded(world) if cut.at is None else before
        self.disk.cut()
        return told

    def _go_on(self, world: World, cut: Cut) -> list[Entry]:
        argv = [world.python, "-m", "tests.torture.cuts", str(world.place), ",".join(cut.variants)]
        process = subprocess.Popen(
            argv, cwd=ROOT, env=_env(world), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        try:
            lines = process.stdout.readline()
            assert lines, "the process that goes on did not begin"
            time.sleep(cut.seconds)
            os.set_blocking(process.stdout.fileno(), False)
            lines += process.stdout.read() or b""
            self.disk.cut()
        finally:
            process.kill()
            process.communicate()
        whole = lines[: lines.rfind(b"\n") + 1].splitlines()
        return _recorded(World(self.template / "job")) + [(e[0], e[1]) for e in map(json.loads, whole)]


def _argv(world: World, command: Sequence[str], variants: Sequence[str]) -> list[str]:
    module = ["tests.torture.mutants", ",".join(variants)] if variants else ["logist"]
    return [world.python, "-m", *module, *command]


def _env(world: World) -> dict[str, str]:
    return world.env | {"PYTHONPATH": str(ROOT)}


def _changes(call: Call, place: Path) -> bool:
    return any(path.startswith(f"{place}/") for path in call.paths) and call.name not in ("execve", "flock")


def _recorded(world: World) -> list[Entry]:
    history = world.folder / "jobHistory.json"
    return list(entries(history.read_bytes())) if history.exists() else []


def _wrong(world: World, told: Sequence[Entry]) -> Iterator[str]:
    """Yield the problems of the job after the cut, and after the next commands."""
    if not world.folder.is_dir():
        yield from ["the job is gone"] * bool(told)
        world.create()
    yield from judging.unreadable(world)
    yield from judging.bad_checkpoints(world)
    for command in (scenarios.STEP, scenarios.SUSPEND):
        ran = world.run(*command)
        if ran.code not in lab.WAITING:
            yield f"{' '.join(command)} ends with {ran.code}: {ran.err.strip()}"
    yield from lab.broken(world)
    yield from judging.lost(world.history(), told)


def templates(place: Path) -> None:
    """A world without a job, and one with a job after one step."""
    answers = [{"text": lab.command(), "files": {"table.txt": f"{n}\n"}} for n in range(2000)]
    scenarios.answering(World.made(place / "empty"), *answers)
    world = (
        World(place / "empty").copied(place / "job").create("--prompt", scenarios.LONG, "--approval", "end")
    )
    for command in (scenarios.STEP, scenarios.STEP, ("job", "reject", JOB, "--note", "Once more.")):
        assert world.run(*command).code in lab.WAITING


def cut_power(run: Run, kind: str, most: int) -> None:
    """Make some cuts on one kind of file system. Raises Skip if that is impossible."""
    with mounted(kind) as disk:
        templates(run.scratch / kind)
        cutter = Cutter(disk, run.scratch / kind)
        for cut in cutter.cuts(run.random(kind), most):
            run.check(cutter.problems(cut), f"{kind}, {cut}")


def main() -> None:
    """The process that runs without end: steps, reviews, refusals; each is printed when it is recorded."""
    with mutants.applied([name for name in sys.argv[2].split(",") if name]):
        world = World(Path(sys.argv[1]))
        os.environ.update(world.env)
        project = world.project()
        for turn in itertools.count():
            status = world.state()["status"]
            if status == Status.SUSPENDED:
                result = steward_decisions.record_decision(project, JOB, Kind.RESUME)
            elif status == Status.APPROVAL_REQUIRED:
                result = steward_decisions.record_decision(project, JOB, Kind.REJECT, note="Once more.")
            elif turn % 3:
                result = steward_decisions.record_decision(project, JOB, Kind.SUSPEND)
            else:
                result = step_job.do_step(project, JOB, Choice())
            for entry in result.entries:
                print(json.dumps([entry.sequence, entry.checksum]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
