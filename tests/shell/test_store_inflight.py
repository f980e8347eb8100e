"""inflight/: each step of a paid call on disk, and gone when it is concluded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from logist.errors import Damaged
from logist.store import Exchange, JobDir
from tests import support

pytestmark = pytest.mark.disk


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    with JobDir.create_job(tmp_path, "job") as job:
        pass
    return job


def test_an_exchange_is_told_as_far_as_it_came(job: JobDir) -> None:
    assert job.read_exchanges() == []
    job.begin_exchange(1, {"prompt": "ü"})
    assert job.read_exchanges() == [Exchange(1, {"prompt": "ü"}, False, None)]
    job.mark_sent(1)
    job.mark_sent(1)
    assert job.read_exchanges() == [Exchange(1, {"prompt": "ü"}, True, None)]
    job.save_response(1, {"text": "answer"})
    assert job.read_exchanges() == [Exchange(1, {"prompt": "ü"}, True, {"text": "answer"})]


def test_exchanges_come_in_the_order_of_their_numbers(job: JobDir) -> None:
    for k in (10, 2, 1):
        job.begin_exchange(k, {"k": k})
    assert [exchange.k for exchange in job.read_exchanges()] == [1, 2, 10]


OPENED = """
import sys
from pathlib import Path
from logist.store import inflight
folder = Path(sys.argv[1])
sys.addaudithook(lambda event, args: print(args[0]) if event == "open" else None)
inflight.begin_exchange(folder, int(sys.argv[2]), {})
"""


@pytest.mark.parametrize(("k", "opened"), [(1, True), (2, False)])
def test_the_first_request_makes_a_directory_durable_that_was_there_too(
    job: JobDir, k: int, opened: bool
) -> None:
    job.inflight.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(job.inflight), str(k)],
        env=support.process_environment() | {"PYTHONPATH": str(support.ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (str(job.path) in done.stdout.splitlines()) is opened


def test_what_is_no_exchange_is_passed_over(job: JobDir) -> None:
    job.begin_exchange(1, {})
    for name in (".1.response.abc.new", "01.request", "x.sent", "1.toolbox", "2.response~"):
        (job.inflight / name).write_bytes(b"half")
    assert job.read_exchanges() == [Exchange(1, {}, False, None)]


def test_a_sent_mark_without_a_request_is_told(job: JobDir) -> None:
    job.begin_exchange(1, {})
    job.mark_sent(2)
    assert job.read_exchanges()[1] == Exchange(2, None, True, None)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff"])
def test_a_record_that_does_not_read_is_damage(job: JobDir, data: bytes) -> None:
    job.begin_exchange(1, {})
    (job.inflight / "1.response").write_bytes(data)
    with pytest.raises(Damaged) as caught:
        job.read_exchanges()
    assert caught.value.where == str(job.inflight / "1.response")


def test_the_end_removes_everything_and_what_a_crash_left_of_an_earlier_end(job: JobDir) -> None:
    before = support.tree(job.path)
    job.begin_exchange(1, {})
    job.inflight.rename(job.path / ".inflight-done")
    assert job.read_exchanges() == []
    job.begin_exchange(1, {})
    job.mark_sent(1)
    job.end_exchanges()
    assert support.tree(job.path) == before
    (job.path / ".inflight-done").mkdir()
    job.end_exchanges()
    assert support.tree(job.path) == before


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"sequence":"1","kept":"x"}', b'{"sequence":9,"kept":"--x"}', b"\xff"],
)
def test_a_restore_that_does_not_read_is_damage(job: JobDir, content: bytes) -> None:
    job.restoring.write_bytes(content)
    with pytest.raises(Damaged, match="record of a restore") as caught:
        job.find_unfinished_restore(lambda sequence: False)
    assert caught.value.where == str(job.restoring)
    assert "move it away: mv " in (caught.value.fix or "")


def test_a_restore_is_unfinished_until_its_interaction_is_there(job: JobDir) -> None:
    job.begin_restore(3, "a" * 40)
    assert job.find_unfinished_restore(lambda sequence: sequence != 3) == "a" * 40
    assert job.find_unfinished_restore(lambda sequence: sequence == 3) is None
