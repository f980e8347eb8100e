"""What commands do to the disk, seen by a tracer: those that only look, nothing; a step, no more than it must."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from logist.cli.main import ATTEST, BUDGET, CONFIG, JOB, ROLE, ROOT, RUNS, SKILL, WORKFLOW
from logist.core.money.budgets import BookedCall, Cost
from logist.store.ledger import Ledger
from tests.torture.lab import World, command, paid_server
from tests.torture.suite import Skip
from tests.torture.tracer import Call, Trace, trace

FSYNCS = 10
"""How many a step may cost Logist's own files."""

LOOKS: dict[str, list[list[str]]] = {
    "config show": [[]],
    "completion": [["bash"], ["zsh"]],
    "schema": [[], ["role"]],
    "doctor": [[], ["--deep"]],
    "job config": [["j"]],
    "job diff": [["j"], ["j", "--stat"], ["j", "0..2"], ["j", "--json"]],
    "job history": [["j"], ["j", "--json"], ["j", "--jsonl"], ["j", "--raw", "2"], ["j", "--prompt", "2"]],
    "watch": [[], ["--json"]],
    "job list": [[], ["--json"], ["--stuck"]],
    "job poststep": [["j", "--response-string", command(), "--dry-run"]],
    "job preview": [["j"], ["j", "--json"], ["j", "--why", "--role", "fix", "--file", "x"]],
    "job replay": [["j"]],
    "bisect": [[]],
    "replay": [[], ["--jsonl", "--prompts", "accept"]],
    "job show": [["j"]],
    "job tail": [["j"]],
    "job status": [["j"], ["j", "-v"]],
    "job verify": [["j"]],
    "job du": [[], ["j"]],
    "job open": [["j"]],
    "stats": [[]],
    "blame": [["j.json"]],
    "otel": [[]],
    "sarif": [[]],
    "whatif": [
        ["--permissions", "Worker:read_files"],
        ["--set", "limits.attempts=1"],
        ["--set", "review=off", "--jsonl"],
    ],
    "attest verify": [["j.json"]],
    "inbox": [[], ["--json"], ["--snoozed"]],
    "budget show": [[]],
    "budget history": [["--by", "job"]],
    "budget verify": [[]],
    "runs list": [[], ["--json"]],
    "runs show": [[]],
    "role list": [[]],
    "role show": [["Worker"]],
    "role validate": [[]],
    "workflow list": [[]],
    "workflow show": [["w"]],
    "workflow validate": [[]],
    "workflow lint": [["w"]],
    "workflow migrate": [["w"]],
    "workflow next": [["w"]],
    "workflow export": [["w"]],
}
"""The commands that only look, with each way to call them."""
CHANGES = {
    *(
        "adopt",
        "attest create",
        "init",
        "demo",
        "run",
        "budget set",
        "config set",
        "config unset",
        "skill install",
    ),
    *(
        f"job {name}"
        for name in ("activate", "approve", "cancel", "create", "fail", "rank", "reject", "rerun")
    ),
    *("job export", "job fork", "job import", "job merge", "job update", "job role"),
    "gc",
    *("job pack", "job unpack", "job scrub", "job delete"),
    *("role new", "role set", "role tools"),
    "mcp",
    "serve",
    "trust",
    "workflow import",
    *(f"job {name}" for name in ("restep", "resubmit", "resume", "run", "select", "step", "suspend")),
}
"""The commands that are there to change something."""
WHOLE = [[*name.split(), *args] for name, ways in LOOKS.items() for args in ways]
HALF = [
    ["inbox"],
    ["job", "list"],
    *(["job", name, "half"] for name in ("status", "show", "history", "preview", "verify", "replay")),
    ["job", "poststep", "half", "--response-string", command(), "--dry-run"],
]
"""On a job whose state.json is gone and whose history ends in an append that was cut off."""

DRY = [["gc", "--older-than", "0d", "--dry-run"]]
"""Commands that change something, if they are told not to."""

CREATING = ("open", "openat", "openat2", "creat")
HARMLESS = {"execve", "execveat", "clone", "clone3", "fork", "vfork", "flock", "tgkill", "tkill", "kill"}
WRITING = {"write", "writev", "pwrite64", "sendto", "sendmsg", "sendmmsg", "splice", "vmsplice"}


def touched(ran: Trace) -> list[Call]:
    """The calls that change a file system, or would."""
    return [call for call in ran.calls if call.name not in HARMLESS and not _into_no_file(call)]


def _into_no_file(call: Call) -> bool:
    """Whether it writes to a pipe, a socket, a file that lies in memory alone, or to nothing."""
    nowhere = call.paths and call.paths[0].startswith(("pipe:[", "socket:[", "memfd:", "/dev/null"))
    return bool(nowhere) and call.name in WRITING | set(CREATING)


def traced(world: World, *args: str) -> Trace:
    try:
        return trace(world.argv(*args), cwd=world.place, env=world.env)
    except Skip as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A project with a job that has been stepped, and one in the state a crash leaves."""
    world = World.made(tmp_path_factory.mktemp("read-only") / "w", [command(), command()])
    world.create()
    (world.home / "workflows").mkdir()
    (world.home / "workflows" / "w.mmd").write_text("graph TD\nA[Do it] --> B(See it)\n", "utf-8")
    (world.folder / "workspace" / "a.txt").write_text("a", "utf-8")
    assert world.run("job", "step", "j").code == 0
    assert world.run("attest", "j", "--output", "j.json").code == 0
    shutil.copytree(world.folder, world.jobs / "half", symlinks=True)
    (world.jobs / "half" / "state.json").unlink()
    (world.jobs / "half" / "job.yaml").write_text("prompt: Do it.\n", "utf-8")
    (world.folder / "workspace" / "a.txt").write_text("by hand", "utf-8")
    history = world.jobs / "half" / "jobHistory.json"
    history.write_bytes(history.read_bytes().removesuffix(b"]}\n") + b',{"sequence":3,"ver')
    call = BookedCall("j/0123456789abcdef/1", "j", "2026-01-02")
    assert Ledger(world.home / "ledger").reserve(call, Cost(7, 8, 1), [], "") is None
    return world


@pytest.mark.deep_beyond(2)
@pytest.mark.parametrize(
    "args", [*WHOLE, *HALF, *DRY, ["--help"], ["--version"], ["job", "--help"]], ids=" ".join
)
def test_a_command_that_only_looks_changes_nothing(world: World, args: list[str]) -> None:
    ran = traced(world, *args)
    assert ran.code != 1, ran.err
    assert [str(call) for call in touched(ran) if not _is_a_trial(call, world)] == []


def _is_a_trial(call: Call, world: World) -> bool:
    """Whether it is of what `doctor` tries in a temporary directory of its own."""
    return bool(call.paths) and not any(path.startswith(str(world.place)) for path in call.paths)


def test_every_command_looks_or_changes() -> None:
    groups = [
        name
        for name in ROOT
        if name not in ("attest", "budget", "config", "job", "role", "runs", "skill", "workflow")
    ]
    every = {
        *groups,
        *(f"budget {name}" for name in BUDGET),
        *(f"config {name}" for name in CONFIG),
        *(f"job {name}" for name in JOB),
        *(f"role {name}" for name in ROLE),
        *(f"runs {name}" for name in RUNS),
        *(f"skill {name}" for name in SKILL),
        *(f"attest {name}" for name in ATTEST),
    }
    every |= {f"workflow {name}" for name in WORKFLOW}
    assert set(LOOKS) | CHANGES == every
    assert not set(LOOKS) & CHANGES


@pytest.mark.deep
@pytest.mark.parametrize(
    ("args", "calls"),
    [
        (["job", "rank", "j", "3"], {"openat", "pwrite64", "fsync", "renameat", "fchmod"}),
        (["job", "create", "--id", "new", "--prompt", "x", "--no-repo"], {"mkdir", "chmod", "rename"}),
    ],
    ids=["rank", "create"],
)
def test_one_that_changes_something_is_seen(world: World, args: Sequence[str], calls: set[str]) -> None:
    assert calls <= {call.name for call in touched(traced(world.copied(_fresh(world)), *args))}


def _fresh(world: World) -> Path:
    return world.place.with_name(f"copy-{len(list(world.place.parent.iterdir()))}")


def own_fsyncs(world: World, ran: Trace) -> list[str]:
    """The files and directories of the job that were flushed, without git's."""
    inside, git = f"{world.folder}", f"{world.folder}/git"
    flushed = [call.paths[0] for call in ran.calls if call.name in ("fsync", "fdatasync", "syncfs", "sync")]
    return [path for path in flushed if path.startswith(inside) and not path.startswith(git)]


class TestFsyncs:
    """Counted by the tracer, over all processes and threads of a step."""

    def counted(self, world: World) -> int:
        (world.folder / "workspace" / "b.txt").write_text("b", "utf-8")
        ran = traced(world, "job", "step", "j")
        assert ran.code == 0, ran.err
        return len(own_fsyncs(world, ran))

    def test_of_a_scripted_step(self, tmp_path: Path) -> None:
        world = World.made(tmp_path / "w", [command(), command()]).create()
        assert 4 <= self.counted(world) <= FSYNCS

    @pytest.fixture
    def paid(self, tmp_path: Path) -> Iterator[World]:
        with paid_server() as server:
            world = World.made(tmp_path / "w").paid_by(server.url).create()
            yield world
            assert len(server.requests) == 1

    @pytest.mark.deep
    def test_of_a_paid_step(self, paid: World) -> None:
        assert 7 <= self.counted(paid) <= FSYNCS
