"""The judge of killed commands detects problems: each test does something that must not happen."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.loopback import Received
from tests.torture import disk_faults, kill_judging, kill_paid
from tests.torture import kill_subjects as subjects
from tests.torture.kill_subjects import SUBJECTS, Reference, Subject
from tests.torture.lab import JOB, World, command, paid_server
from tests.torture.tracer import Trace

STEP = SUBJECTS["step of a worker"]
CONFIG = SUBJECTS["config"]


def nothing_happened(subject: Subject, place: Path) -> tuple[Reference, World]:
    """The reference of a command without its calls, and the world after the command."""
    base = subjects.base(place / "base", subject)
    files_before = subjects.files(base)
    before, spec_before = base.history(), (base.folder / "job.yaml").read_bytes()
    ran = base.run(*subject.args)
    after = base.copied(place / "after")
    history = base.history()
    then = base.run(*subject.then)
    state, files, end = base.state(), subjects.files(base), base.history()
    spec = (base.folder / "job.yaml").read_bytes()
    out = ran.out.encode()
    found = Reference(
        [], out, ran.code, before, history, then.code, end, state, files, files_before, spec_before, spec
    )
    return found, after


def ended(reference: Reference, code: int = 0, err: bytes = b"") -> Trace:
    return Trace([], code, reference.out, err)


def test_a_command_that_was_carried_out_is_found_well(tmp_path: Path) -> None:
    for subject in (STEP, CONFIG):
        reference, world = nothing_happened(subject, tmp_path / subject.name)
        assert kill_judging.at_once(subject, reference, world, ended(reference)) == []
        assert [*kill_judging.afterwards(subject, reference, world)] == []


def history_cut(world: World) -> None:
    path = world.folder / "jobHistory.json"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-2], lines[-1]]))
    (world.folder / "state.json").unlink()


def job_gone(world: World) -> None:
    shutil.rmtree(world.folder)


def state_changed(world: World) -> None:
    path = world.folder / "state.json"
    path.write_bytes(path.read_bytes().replace(b"REVIEW", b"PREVIEW"))


def one_more(world: World) -> None:
    world.run("job", "suspend", JOB)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (history_cut, "told of that is not recorded"),
        (job_gone, "the job is gone"),
        (state_changed, "job verify ends with 10"),
        (one_more, "the history holds"),
    ],
)
def test_what_is_wrong_at_once_is_seen(tmp_path: Path, damage: Callable[[World], None], said: str) -> None:
    reference, world = nothing_happened(STEP, tmp_path)
    damage(world)
    problems = kill_judging.at_once(STEP, reference, world, ended(reference))
    assert said in " ".join(problems)


def file_changed(world: World) -> None:
    (world.folder / "workspace" / "run.sh").write_text("back again")


def checkpoint_gone(world: World) -> None:
    for pack in (world.folder / "git" / "objects" / "pack").iterdir():
        pack.unlink()


def left_over(world: World) -> None:
    (world.folder / "logs" / ".x.1234.new").touch()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (file_changed, "the workspace holds"),
        (checkpoint_gone, "git fsck"),
        (left_over, ".x.1234.new is left"),
        (one_more, "the history ends up as"),
    ],
)
def test_what_is_wrong_in_the_end_is_seen(tmp_path: Path, damage: Callable[[World], None], said: str) -> None:
    reference, world = nothing_happened(STEP, tmp_path)
    world.run(*STEP.then)
    damage(world)
    assert said in " ".join(kill_judging.as_if_nothing_had_been(reference, world))


def test_files_that_a_cut_off_restep_has_changed_are_seen(tmp_path: Path) -> None:
    restep = SUBJECTS["restep"]
    base = subjects.base(tmp_path / "base", restep)
    reference, _ = nothing_happened(restep, tmp_path / "undisturbed")
    assert [*kill_judging.afterwards(restep, reference, base.copied(tmp_path / "a"))] == []
    (base.folder / "workspace" / "src" / "app.py").unlink()
    problems = kill_judging.afterwards(restep, reference, base.copied(tmp_path / "b"))
    assert "the workspace holds" in next(problems)


def test_half_a_job_yaml_is_seen(tmp_path: Path) -> None:
    reference, world = nothing_happened(CONFIG, tmp_path)
    (world.folder / "job.yaml").write_bytes(reference.spec[:-9])
    problems = kill_judging.at_once(CONFIG, reference, world, ended(reference))
    assert "job.yaml is neither the old one nor the new one" in problems


def test_a_crash_and_a_silent_failure_are_seen(tmp_path: Path) -> None:
    assert kill_judging.crashed(Trace([], 1, b"", b"Traceback (most recent call last)"))
    assert kill_judging.crashed(Trace([], 1, b"", b""))
    assert kill_judging.crashed(Trace([], -9, b"", b"")) == []


@pytest.mark.parametrize("charges", [0, 2])
def test_more_or_fewer_charges_than_interactions_are_seen(tmp_path: Path, charges: int) -> None:
    paid = kill_paid.prepared(tmp_path / "base")
    with paid_server() as server:
        world = paid.base.copied(tmp_path / "w").paid_by(server.url)
        assert world.run("job", "poststep", JOB, "--response-string", command()).code == 0
        server.requests.extend([Received("", {}, {})] * charges)
        assert [*kill_paid.finished(paid, world, server, kill_paid.ANSWERED)] == [
            f"{charges} charges for one interaction"
        ]


def test_a_doubt_without_a_reason_is_seen() -> None:
    assert [*kill_paid.wrongly_recorded(["recover"], kill_paid.EITHER)] == []
    assert [*kill_paid.wrongly_recorded(["recover"], kill_paid.ANSWERED)]
    assert [*kill_paid.wrongly_recorded(["ask", "ask"], kill_paid.EITHER)]


@pytest.mark.parametrize(
    ("said", "problems"),
    [
        ("error: {place}/x: storage failed (free some space)", 0),
        ("error: x: storage failed (free some space)", 1),
        ("error: {place}/x: storage failed", 1),
        ("", 2),
    ],
)
def test_a_message_without_a_path_or_a_way_out_is_seen(tmp_path: Path, said: str, problems: int) -> None:
    world = World(tmp_path)
    ran = Trace([], 1, b"", said.format(place=tmp_path).encode())
    assert len([*disk_faults.told(ran, world, recorded=False)]) == problems
    assert len([*disk_faults.told(ran._replace(code=0), world, recorded=False)]) == 1
