"""Batches of new jobs: all of them are there or none, whatever is killed and whenever."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.cli.show import job_rows
from logist.errors import Refused, StorageError, UsageError
from logist.store import JobDir, Position, hidden_folders, job_index, jobdir, list_jobs
from logist.store.job_index import JobFilter, JobIndex
from logist.store.listing import BATCHES, UNPUBLISHED
from tests.support import examples

IDS = ("b1", "b2", "b3")
STATE: dict[str, object] = {
    "status": "PENDING",
    "awaiting": None,
    "stuck": None,
    "agent_role": "Worker",
    "badge": "",
    "color": None,
    "usage": {"cumulative_cost": 0, "cumulative_cost_microcents": 0},
    "rank": 0,
    "tags": [],
    "title": "t",
    "created_at": "2026-01-02T03:04:05Z",
    "updated_at": "2026-01-02T03:04:05Z",
}
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod")
"""The audit events of calls that change a directory; `open` is one if the file is opened for writing."""


def fill(job: JobDir) -> None:
    position = job.append_entries(Position(0, None, 0), [{"text": "one"}]).position
    job.write_state({**STATE, "head": position._asdict()})


def create(jobs: Path, ids: tuple[str, ...] = IDS) -> None:
    with JobDir.create_batch(jobs) as add_job:
        for job_id in ids:
            fill(add_job(job_id))


def run_and_kill(work: Callable[[], None], at: int = 0, removing: str = "/") -> bool:
    """Do the work in another process that is killed before its change number `at`, or before it removes a file of that
    name; True if it came so far.
    """
    child = os.fork()
    if child == 0:
        count = 0

        def look(event: str, args: tuple[object, ...]) -> None:
            nonlocal count
            writes = (
                event == "open" and isinstance(args[2], int) and bool(args[2] & (os.O_WRONLY | os.O_RDWR))
            )
            if event in CHANGES or writes:
                count += 1
                if count == at or (event == "os.remove" and os.path.basename(str(args[0])) == removing):
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(look)
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def seen(jobs: Path) -> set[str]:
    """The jobs that every way of looking finds: listing, opening, and the index if there is one."""
    ids = set(list_jobs(jobs))
    opened = set()
    for job_id in ("old", "next", *IDS):
        with suppress(UsageError):
            opened.add(JobDir.open(jobs, job_id).id)
    assert opened == ids
    rows = job_rows.read_listing(str(jobs), JobFilter(frozenset({"PENDING", "?"}))).iter_rows()
    assert {row["id"] for row in rows} == ids
    return ids


@contextmanager
def jobs_folder(*, indexed: bool = False) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    try:
        jobs = folder / "jobs"
        with JobDir.create_job(jobs, "old") as job:
            fill(job)
        if indexed:
            JobIndex.make(str(jobs)).refresh()
        yield jobs
    finally:
        shutil.rmtree(folder)


def require_clean(jobs: Path) -> None:
    jobdir.remove_abandoned(jobs)
    left = {path.name for path in jobs.iterdir() if path.name.startswith(".")}
    assert left <= {job_index.FOLDER}


def test_the_jobs_of_a_batch_appear_at_its_end(tmp_path: Path) -> None:
    with JobDir.create_batch(tmp_path / "jobs") as add_job:
        for job_id in IDS:
            fill(add_job(job_id))
        assert list(list_jobs(tmp_path / "jobs")) == []
    assert list(list_jobs(tmp_path / "jobs")) == list(IDS)
    assert [path.name for path in (tmp_path / "jobs").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("indexed", [False, True])
def test_a_batch_that_is_killed_at_any_change_leaves_all_jobs_or_none(indexed: bool) -> None:
    results = []
    for at in range(1, 1000):
        with jobs_folder(indexed=indexed) as jobs:
            was_killed = run_and_kill(lambda: create(jobs), at)
            found = seen(jobs)
            assert found in ({"old"}, {"old", *IDS})
            require_clean(jobs)
            assert seen(jobs) == found
            results.append(len(found))
        if not was_killed:
            break
    assert results == sorted(results), "once they are there, they stay"
    assert len(results) > 40
    assert set(results) == {1, 4}


@settings(max_examples=examples(40), deadline=None)
@given(at=st.integers(30, 70), then=st.integers(1, 15), indexed=st.booleans())
def test_a_killed_clean_up_is_finished_by_the_next_one(at: int, then: int, indexed: bool) -> None:
    with jobs_folder(indexed=indexed) as jobs:
        run_and_kill(lambda: create(jobs), at)
        found = seen(jobs)
        run_and_kill(lambda: jobdir.remove_abandoned(jobs), then)
        assert seen(jobs) == found
        create(jobs, ("next",))
        assert seen(jobs) - {"next"} == found
        require_clean(jobs)


def test_an_id_that_another_command_takes_meanwhile_undoes_the_batch(tmp_path: Path) -> None:
    def create_both() -> None:
        with JobDir.create_batch(tmp_path) as add_job:
            for job_id in IDS:
                fill(add_job(job_id))
            with JobDir.create_job(tmp_path, "b2") as other:
                fill(other)
                (other.path / "mine").touch()

    with pytest.raises(Refused, match="job 'b2' already exists; no job was created"):
        create_both()
    assert list(list_jobs(tmp_path)) == ["b2"]
    assert (tmp_path / "b2" / "mine").exists()
    require_clean(tmp_path)


@pytest.mark.parametrize("indexed", [False, True])
def test_who_lists_the_jobs_meanwhile_sees_all_of_them_or_none(indexed: bool) -> None:
    with jobs_folder(indexed=indexed) as jobs:
        ids = tuple(f"n{number}" for number in range(200))
        child = os.fork()
        if child == 0:
            try:
                create(jobs, ids)
            finally:
                os._exit(0)
        counts, listed = set(), set()
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            counts.add(len(list(list_jobs(jobs))))
            rows = job_rows.read_listing(str(jobs), JobFilter(frozenset({"PENDING"}))).iter_rows()
            listed.add(len(list(rows)))
        assert counts <= {1, 201}
        assert listed <= {1, 201}
        assert len(list(list_jobs(jobs))) == 201


def leave_unpublished(jobs: Path) -> Path:
    """A batch whose command was killed when all jobs were in their places; returns its directory."""

    assert run_and_kill(lambda: create(jobs), removing=UNPUBLISHED)
    (folder,) = (jobs / BATCHES).iterdir()
    assert all((jobs / job_id).is_dir() for job_id in IDS)
    return folder


def test_jobs_that_were_worked_on_are_kept_although_the_list_came_back(tmp_path: Path) -> None:
    # As after a power cut that lost the removal of the list, but not what another command did with a job.
    leave_unpublished(tmp_path)
    job = JobDir(tmp_path / "b2", "b2")
    loaded = job.load()
    position = job.append_entries(loaded.position, [{"text": "paid"}]).position
    job.write_state({**STATE, "head": position._asdict()})
    require_clean(tmp_path)
    assert list(list_jobs(tmp_path)) == list(IDS)


def test_a_list_of_a_stranger_deletes_no_jobs(tmp_path: Path) -> None:
    with JobDir.create_job(tmp_path, "old") as job:
        fill(job)
    folder = tmp_path / BATCHES / "000000000000"
    folder.mkdir(parents=True)
    (folder / UNPUBLISHED).write_text('{"old": 1, "../x": 2}')
    require_clean(tmp_path)
    assert list(list_jobs(tmp_path)) == ["old"]


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_stranger_can_not_lead_a_batch_elsewhere(tmp_path: Path, kind: str) -> None:
    jobs, elsewhere = tmp_path / "jobs", tmp_path / "elsewhere"
    jobs.mkdir()
    (elsewhere / "000000000000").mkdir(parents=True)
    if kind == "link":
        (jobs / BATCHES).symlink_to(elsewhere)
    else:
        (jobs / BATCHES).touch()
    with pytest.raises(StorageError, match="not a directory of Logist"):
        create(jobs)
    assert [path.name for path in elsewhere.iterdir()] == ["000000000000"]


def test_a_list_without_a_living_command_is_not_shown_and_a_living_one_is_left_alone(tmp_path: Path) -> None:
    with JobDir.create_batch(tmp_path) as add_job:
        fill(add_job("b1"))
        (folder,) = (tmp_path / BATCHES).iterdir()
        assert hidden_folders.list_abandoned(tmp_path / BATCHES) == []
        jobdir.remove_abandoned(tmp_path)
        assert (folder / "b1").is_dir()
    assert list(list_jobs(tmp_path)) == ["b1"]
    left = leave_unpublished(tmp_path / "other")
    assert hidden_folders.list_abandoned(tmp_path / "other" / BATCHES) == [left]
