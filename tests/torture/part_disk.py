"""disk: a disk that is full, over quota, broken or read-only, at every call; and full file systems."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.torture import disk_faults, disk_full, kill_paid, kill_pool, kill_subjects
from tests.torture.disk_faults import Fault
from tests.torture.disk_mounts import mounted
from tests.torture.kill_pool import Tried
from tests.torture.kill_subjects import AGAIN, SUBJECTS, Reference, Subject
from tests.torture.lab import JOB, World, command
from tests.torture.suite import Case, Run
from tests.torture.tracer import Call

SAMPLED = 400
"""A sample of the faults for a command with many hundreds of them, most of them in git."""


def _small_job(world: World) -> None:
    answers = [
        {"text": command(evidence_files=["a/b.txt"]), "files": {"a/b.txt": "hello\n"}},
        {"text": command()},
    ]
    (world.place / "answers.json").write_text(json.dumps({"answers": answers}), "utf-8")
    world.create()


STEP = Subject("step", AGAIN, _small_job)
POSTSTEP = Subject("poststep", ("job", "poststep", JOB, "--response-string", command("RETRY")), _small_job)


def step(run: Run) -> None:
    """A step of a worker that writes a file."""
    _try(run, STEP, 3)


def decisions(run: Run) -> None:
    """A supplied answer, a changed field of job.yaml, a restep."""
    full = (POSTSTEP, SUBJECTS["config"], SUBJECTS["restep"], SUBJECTS["suspend that rotates"])
    for subject in full if run.full else full[:1]:
        _try(run, subject, 2, SAMPLED)


def create(run: Run) -> None:
    """A job is created completely or not at all; a sample of the calls."""
    _try(run, SUBJECTS["create"], 2, SAMPLED)


def paid(run: Run) -> None:
    """A paid step; the courier's disk is the same."""
    subject = kill_paid.prepared(run.scratch / "base")
    faults = _faults(kill_paid.settled_calls(subject, run.scratch / "reference"))
    chosen = run.random("paid").sample(faults, min(240, len(faults))) if run.full else run.some(faults, 2)
    kill_pool.each(run, partial(disk_faults.paid_struck, subject), chosen)


def full(kind: str) -> Callable[[Run], None]:
    """Steps on a real file system without room."""

    def case(run: Run) -> None:
        with mounted(kind, run.scratch) as place:
            world = disk_full.world_on(place)
            disk_full.starve(run, world, 60 if run.full else 1)

    return case


def _try(run: Run, subject: Subject, most: int, sampled: int = 0) -> None:
    base = kill_subjects.base(run.scratch / subject.name / "base", subject)
    reference = kill_subjects.reference(subject, base, run.scratch / subject.name / "reference")
    faults = _faults(reference.calls)
    if sampled and run.full:
        faults = run.random(subject.name).sample(faults, min(sampled, len(faults)))
    kill_pool.each(run, partial(_struck, subject, base, reference), run.some(faults, most))
    run.say(f"  {subject.name}: {len(faults):,} faults, {len(run.failures):,} failed")


def _struck(subject: Subject, base: World, reference: Reference, place: Path, fault: Fault) -> Tried:
    return disk_faults.struck(subject, reference, base, place, fault)


def _faults(calls: Sequence[Call]) -> list[Fault]:
    return [fault for call in calls for fault in disk_faults.of(call)]


CASES = (
    Case("step", "faults", 400, step),
    Case("decisions", "faults", 400, decisions),
    Case("create", "faults", 400, create),
    Case("paid", "faults", 200, paid),
    *(Case(f"full-{kind}", "commands on a full disk", 60, full(kind)) for kind in ("tmpfs", "ext4", "xfs")),
)
