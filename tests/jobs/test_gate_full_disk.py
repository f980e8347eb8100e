"""A disk that is full while a program makes requests through the gate: nothing is sent that is not recorded."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from logist.core.model import Kind, Status
from logist.core.money.budgets import Cost
from logist.errors import StorageError
from logist.jobs.base import job_reader
from tests.jobs.bench import Bench
from tests.jobs.test_gate import COST, SAYS, gated, sums, total, workspace
from tests.jobs.test_paid import paid, waiting_for
from tests.loopback import Loopback
from tests.torture.disk_mounts import Filler, mounted
from tests.torture.suite import Skip

ASKS_ON = """
ask()
note("asked", True)
while pathlib.Path(sys.argv[0]).with_name("has-space").exists():
    time.sleep(0.01)
for _ in range(3):
    try:
        ask("word " * WORDS)
    except OSError:
        pass
sys.exit("no space")
"""


@pytest.mark.disk
@pytest.mark.parametrize("words", [1, 20_000])
def test_nothing_is_sent_that_a_full_disk_does_not_record(tmp_path: Path, words: int) -> None:
    """A short record may find room in the last block of the log, a long one finds none."""
    try:
        with mounted("tmpfs", tmp_path) as place, Loopback(SAYS) as server:
            b = made_at(place / "project", server, words)
            step_until_full(b, Filler(place / "filler"))
            sent = [each for each in b.project.open_job("j").read_exchanges().gate if each.sent]
            assert len(server.requests) == len(sent)
            assert len(sent) == 1 or words == 1
            require_that_it_goes_on(b, server)
    except Skip as skip:
        pytest.skip(str(skip))


def made_at(place: Path, server: Loopback, words: int) -> Bench:
    body = ASKS_ON.replace("WORDS", str(words))
    b = gated(paid(Bench(place, []), server.url, review={"enabled": False}, min_free_bytes=0), body)
    b.create()
    return b


def step_until_full(b: Bench, filler: Filler) -> None:
    """Do a step, and fill the disk once the program has its first answer; free it after the step."""
    has_space = b.project.home.parent / "has-space"
    has_space.touch()

    def fill() -> None:
        waiting_for((workspace(b) / "asked").exists)
        filler.fill()
        has_space.unlink()

    thread = threading.Thread(target=fill)
    thread.start()
    with pytest.raises(StorageError, match=r"No space left on device|Out of diskspace") as caught:
        b.step()
    thread.join()
    assert os.statvfs(filler.path).f_bavail == 0
    assert "space" in str(caught.value.fix)
    assert "run the command again" in str(caught.value.fix)
    filler.remove()


def require_that_it_goes_on(b: Bench, server: Loopback) -> None:
    """The next command records what was paid, and sends nothing again; the step after it works."""
    seen = len(server.requests)
    b.step()
    assert len(server.requests) == seen
    entry = b.history()[-1]
    assert entry.usage.calls == seen
    if seen == 1:
        assert (entry.kind, b.state().status, total(b)) == (Kind.ASK, Status.PENDING, COST)
    assert total(b) == sums(b).get_total().microcents >= COST
    if b.state().status is Status.PENDING:
        b.step()
        assert len(server.requests) == seen + 4
        assert sums(b).reserved == Cost(0, 0, 0)
    assert job_reader.verify_job(b.project, b.project.open_job("j")).problems == ()
