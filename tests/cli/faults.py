"""Faults to put into a real project: each function makes one, or returns what makes it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from logist.cli.checkup.surroundings import surroundings
from logist.config.environment import Environment
from logist.core.model import JobSpec, Reply, Usage
from logist.core.money.budgets import BookedCall, Cost
from logist.core.step.step import StepPlan
from logist.jobs.base.create import create_job
from logist.jobs.base.project import Clock, ProjectContext
from logist.jobs.base.session import open_session
from logist.jobs.turn import agent_calls
from logist.jobs.turn.next_request import Choice, preview_request
from logist.store import JobDir
from logist.store.ledger import Ledger
from logist.store.settled_state import compute_checksum
from tests import support
from tests.cli.desk import Desk, command

Json = dict[str, Any]
Inject = Callable[[Desk], None]

STATE, HISTORY, SPEC = "state.json", "jobHistory.json", "job.yaml"

OLD = 1_600_000_000
"""A time long ago: what has this age was left behind."""


def spoiled(name: str, old: bytes, new: bytes) -> Inject:
    """Bytes of a file replaced, once."""

    def inject(desk: Desk) -> None:
        file = desk.job() / name
        data = file.read_bytes()
        assert old in data
        file.write_bytes(data.replace(old, new, 1))

    return inject


def written(name: str, data: bytes) -> Inject:
    """A file of j1 with this content."""
    return lambda desk: put(desk.job() / name, data)


def put(path: Path, data: bytes = b"", mode: int = 0o600) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def removed(*names: str) -> Inject:
    """Files and directories of j1 that are gone."""

    def inject(desk: Desk) -> None:
        for path in (desk.job() / name for name in names):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return inject


def linked(name: str) -> Inject:
    """The thing moved elsewhere, and a link to it in its place."""

    def inject(desk: Desk) -> None:
        path = desk.job() / name
        target = path.rename(desk.place / f"elsewhere-{name}")
        path.symlink_to(target)

    return inject


def as_directory(name: str) -> Inject:
    def inject(desk: Desk) -> None:
        path = desk.job() / name
        path.unlink()
        path.mkdir(mode=0o700)
        put(path / "a.txt", b"a")

    return inject


def as_file(name: str) -> Inject:
    def inject(desk: Desk) -> None:
        shutil.rmtree(desk.job() / name)
        put(desk.job() / name, b"a")

    return inject


def both(*injections: Inject) -> Inject:
    def inject(desk: Desk) -> None:
        for each in injections:
            each(desk)

    return inject


def append(data: bytes, cut: int = 0) -> Inject:
    """The end of the history cut by so many bytes, and these put there."""

    def inject(desk: Desk) -> None:
        file = desk.job() / "jobHistory.json"
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) - cut] + data)

    return inject


def restate(change: Json) -> Inject:
    """Fields of state.json changed, and its checksum made to fit: only the history knows better."""

    def inject(desk: Desk) -> None:
        file = desk.job() / "state.json"
        state = json.loads(file.read_bytes()) | change
        state["checksum"] = compute_checksum(state)
        file.write_text(json.dumps(state, ensure_ascii=False, indent=1) + "\n", "utf-8")

    return inject


def earlier(source: str, target: str) -> Inject:
    return lambda desk: put(desk.job() / target, (desk.place / source).read_bytes())


def without_line(number: int) -> Inject:
    def inject(desk: Desk) -> None:
        file = desk.job() / "jobHistory.json"
        lines = file.read_bytes().split(b"\n")
        file.write_bytes(b"\n".join(lines[:number] + lines[number + 1 :]))

    return inject


def of_another_job(desk: Desk) -> None:
    put(desk.job() / "jobHistory.json", (desk.job("j2") / "jobHistory.json").read_bytes())


def packs(desk: Desk) -> list[Path]:
    return sorted((desk.job() / "git" / "objects" / "pack").glob("*.pack"))


def no_pack(desk: Desk) -> None:
    for pack in packs(desk):
        pack.unlink()


def cut_pack(desk: Desk) -> None:
    pack = packs(desk)[0]
    pack.chmod(0o600)
    os.truncate(pack, pack.stat().st_size - 7)


def spoiled_pack(desk: Desk) -> None:
    pack = packs(desk)[0]
    pack.chmod(0o600)
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)


def stale_git(desk: Desk) -> None:
    for name in ("HEAD.lock", "refs/heads/checkpoints.lock", "objects/pack/tmp_pack_x1"):
        put(desk.job() / "git" / name)


def open_to_all(desk: Desk) -> None:
    desk.job().chmod(0o755)
    (desk.job() / "state.json").chmod(0o644)
    (desk.job() / "logs").chmod(0o770)


def half_written(desk: Desk) -> None:
    put(desk.job() / ".state.json.0123456789ab.new", b"{")
    put(desk.job() / "logs" / ".torn-4.txt.0123456789ab.new", b"x")


def half_written_at_home(desk: Desk) -> None:
    path = desk.home / ".current_job.0123456789ab.new"
    put(path, b"j")
    os.utime(path, (OLD, OLD))


def spent(job: str) -> Inject:
    """A call of this job is reserved in the ledger."""

    def put_call(desk: Desk) -> None:
        call = BookedCall(f"{job}/0123456789abcdef/1", job, "2026-01-02")
        assert Ledger(desk.home / "ledger").reserve(call, Cost(5, 6, 1), [], "2026-01-02T03:04:05Z") is None

    return put_call


def damaged_ledger(desk: Desk) -> None:
    spent("j1")(desk)
    file = desk.home / "ledger" / "ledger.json"
    file.write_bytes(file.read_bytes().replace(b'"tokens":6', b'"tokens":7'))


def newer_ledger(desk: Desk) -> None:
    spent("j1")(desk)
    file = desk.home / "ledger" / "ledger.json"
    file.write_bytes(file.read_bytes().replace(b'"version":1', b'"version":9', 1))
    (desk.home / "ledger" / "totals.json").unlink()


def in_the_making(desk: Desk) -> None:
    folder = desk.jobs / ".new-x-0123456789ab"
    put(folder / "jobHistory.json", b"{")
    os.utime(folder, (OLD, OLD))


def just_in_the_making(desk: Desk) -> None:
    in_the_making(desk)
    os.utime(desk.jobs / ".new-x-0123456789ab")


def project(desk: Desk) -> ProjectContext:
    """The project, for what no command does."""
    before = Path.cwd()
    os.chdir(desk.place)
    try:
        found = surroundings(Environment(dict(os.environ) | desk.env), None)
    finally:
        os.chdir(before)
    return replace(found, agent=desk.env["LOGIST_AGENT"], say=lambda text: None)


def asked(*, sent: bool = False, answered: bool = False, sequence: int | None = None) -> Inject:
    """j2 as a stepper leaves it that is killed when so much has happened."""
    return lambda desk: _asked(desk, sent, answered, sequence)


def _asked(desk: Desk, sent: bool, answered: bool, sequence: int | None) -> None:
    here = project(desk)
    with open_session(here, "j2", "job step") as session:
        spec, _ = session.detect_spec_change()
        kept = here.open_workspace(session.job).create_checkpoint("before")
        _, plan = preview_request(here, "j2", Choice())
        assert isinstance(plan, StepPlan)
        envelope = agent_calls.build_ask(session, spec, plan, kept.commit).data()
        if sequence:  # as an older Logist wrote it, which told a recorded one by its number
            envelope.update(sequence=sequence, after=None)
        session.job.begin_exchange(1, envelope)
        if sent:
            session.job.mark_sent(1)
        if answered:
            reply = Reply(text=command(), usage=Usage(cost_cents=3, source="provider"))
            session.job.save_response(1, reply.model_dump(mode="json"))


def restoring(sequence: int) -> Inject:
    def inject(desk: Desk) -> None:
        kept = desk.state()["checkpoint"]
        JobDir.open(desk.jobs, "j1").begin_restore(sequence, kept)

    return inject


def restored(desk: Desk) -> None:
    """A restep that was killed after it was recorded."""
    assert desk("job", "restep", "j1", "--to", "3").code == 0
    restoring(4)(desk)


def orphan(desk: Desk) -> None:
    desk.create("gone--2-1")


def copied_job(desk: Desk) -> None:
    shutil.copytree(desk.job("j1"), desk.job("j9"), symlinks=True)
    spec = desk.job("j9") / "job.yaml"
    assert b"id: j1" in spec.read_bytes()


def made_tomorrow(desk: Desk) -> None:
    """By a machine whose clock is wrong."""
    later = Clock(now=lambda: datetime(2199, 1, 1, tzinfo=UTC), monotonic=lambda: 0.0)
    create_job(replace(project(desk), clock=later), "j3", JobSpec(prompt="Do it.", repo=False))


def in_a_repository(desk: Desk) -> None:
    support.git(desk.place, "init", "--quiet")
    (desk.home / ".gitignore").unlink()


def link_among_jobs(desk: Desk) -> None:
    (desk.jobs / "j7").symlink_to(desk.job("j1"))


def not_a_directory(desk: Desk) -> None:
    shutil.rmtree(desk.jobs)
    put(desk.jobs)


def role(text: str) -> Inject:
    def inject(desk: Desk) -> None:
        put(desk.home / "roles" / "Poet.yaml", text.encode())

    return inject


def of_another_user(desk: Desk) -> None:
    if os.geteuid():
        pytest.skip("only root can give files away")
    os.chown(desk.job() / "state.json", 12345, -1)


def closed(desk: Desk) -> None:
    if not os.geteuid():
        pytest.skip("nothing is closed to root")
    desk.job().chmod(0o500)


def selected(data: bytes) -> Inject:
    """What `logist job select` wrote."""
    return lambda desk: put(desk.home / "current_job", data)


a_bit_of_the_state = spoiled(STATE, b'"step": "', b'"step": "b')
a_bit_of_the_history = spoiled(
    HISTORY, b'"summary_for_supervisor":"Done."', b'"summary_for_supervisor":"Gone."'
)
