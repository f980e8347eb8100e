"""The index of jobs: whatever happens, it answers what reading all files answers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from logist.cli.show import job_rows
from logist.core.model import Kind
from logist.errors import LogistError
from logist.jobs import job_queue
from logist.jobs.steward import job_deletion, job_edits
from logist.jobs.steward.steward_decisions import record_decision
from logist.store import job_index
from logist.store.job_index import JobFilter, JobIndex
from logist.store.provider_wait import ProviderWait
from tests.jobs.bench import Bench, answer
from tests.support import examples

Row = dict[str, Any]
IDS = ("a", "b", "c--1", "c")
FILTERS = (
    JobFilter(frozenset({"STUCK"})),
    JobFilter(frozenset({"PENDING", "RUNNING", "?"})),
    JobFilter(frozenset({"SUCCESS", "CANCELED"}), tag="x"),
    JobFilter(tag="x"),
    JobFilter(tag="x", assignee="eve"),
    JobFilter(),
)
"""The last one compares all jobs with their files; the others don't."""


@contextmanager
def without_index(b: Bench) -> Iterator[None]:
    """Inside the block, there is no index; afterwards it is the same again."""
    own, aside = b.project.jobs_dir / job_index.FOLDER, b.project.jobs_dir / ".aside"
    if own.exists():
        own.rename(aside)
    try:
        yield
    finally:
        assert not own.exists(), "few jobs need none"
        if aside.exists():
            aside.rename(own)


def list_jobs(b: Bench, wanted: JobFilter, *, refresh: bool = False) -> tuple[list[Row], list[str]]:
    listing = job_rows.read_listing(str(b.project.jobs_dir), wanted, refresh=refresh)
    rows = list(listing.iter_rows())
    again = job_rows.read_listing(str(b.project.jobs_dir), wanted, refresh=refresh)
    assert [row["id"] for row in rows] == [cells[0] for cells in again.iter_cells()]
    return rows, [str(problem) for problem in listing.problems]


def list_ready(b: Bench) -> list[str]:
    """The jobs in the order in which a run would begin them."""
    ready = job_queue.ReadyJobs(b.project, (), lambda job_id: True)
    begun: list[str] = []
    while (job_id := ready.take(begun, is_idle=True)) is not None:
        begun.append(job_id)
    return begun


def require_index_answers(b: Bench, *, refresh: bool = False) -> None:
    """Compare all answers with those of the files. `refresh`: something was changed without Logist."""
    held = None if refresh else job_queue.find_held_up_jobs(b.project)
    for wanted in FILTERS:
        indexed = list_jobs(b, wanted, refresh=refresh)
        with without_index(b):
            assert indexed == list_jobs(b, wanted)
    indexed_queue = list_ready(b), job_queue.find_held_up_jobs(b.project)
    with without_index(b):
        assert indexed_queue == (list_ready(b), job_queue.find_held_up_jobs(b.project))
    assert held in (None, indexed_queue[1])


def make_index(b: Bench) -> JobIndex:
    b.project.jobs_dir.mkdir(exist_ok=True)
    index = JobIndex.make(str(b.project.jobs_dir))
    index.refresh()
    return index


# What happens to jobs


def create(b: Bench, job_id: str) -> None:
    b.create(job_id, rank=len(job_id) % 3, tags=["x"] if job_id != "b" else [], review=False, approval="none")


def decide(kind: Kind) -> Callable[[Bench, str], None]:
    return lambda b, job_id: record_decision(b.project, job_id, kind) and None


def wait_for_provider(b: Bench, job_id: str) -> None:
    job = b.project.open_job(job_id)
    with job.hold_lock(command="test", since="now"):
        revision = int((job.read_state() or {})["revision"])
        job.write_wait(
            ProviderWait("p", revision, pause=3600.0, began=1.0, began_monotonic=1.0, gave_up=True)
        )


def begin_call(b: Bench, job_id: str) -> None:
    job = b.project.open_job(job_id)
    with job.hold_lock(command="test", since="now"):
        job.begin_exchange(1, {"ask": "nothing"})


LOGIST: dict[str, Callable[[Bench, str], object]] = {
    "create": create,
    "step": lambda b, job_id: b.step(job_id),
    "rank": lambda b, job_id: job_edits.set_rank(b.project, job_id, 7),
    "cancel": decide(Kind.CANCEL),
    "suspend": decide(Kind.SUSPEND),
    "resume": decide(Kind.RESUME),
    "rerun": decide(Kind.RERUN),
    "delete": lambda b, job_id: job_deletion.delete_job(b.project, job_id, force=True),
    "wait": wait_for_provider,
    "call": begin_call,
}


def edit_state(b: Bench, job_id: str, changes: Row) -> None:
    file = b.folder(job_id) / "state.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | changes), "utf-8")


def append_to_history(b: Bench, job_id: str) -> None:
    with (b.folder(job_id) / "jobHistory.json").open("ab") as file:
        file.write(b",{")


OUTSIDE: dict[str, Callable[[Bench, str], object]] = {
    "edit": lambda b, job_id: edit_state(b, job_id, {"status": "STUCK", "tags": ["x", 3]}),
    "invalid": lambda b, job_id: edit_state(b, job_id, {"rank": 1 << 70, "tags": ["\ud800"]}),
    "parent": lambda b, job_id: edit_state(b, job_id, {"parent": "c", "title": "\x00\n"}),
    "halt": lambda b, job_id: edit_state(b, job_id, {"status": "HALTED_COST", "children": ["c--1"]}),
    "gather": lambda b, job_id: edit_state(b, job_id, {"status": "WAITING", "children": ["c--1", "gone"]}),
    "merge": lambda b, job_id: edit_state(b, job_id, {"status": "SUCCESS", "merge": "due"}),
    "damage": lambda b, job_id: (b.folder(job_id) / "state.json").write_bytes(b"{"),
    "forget": lambda b, job_id: (b.folder(job_id) / "state.json").unlink(),
    "append": append_to_history,
    "copy": lambda b, job_id: shutil.copytree(b.folder(job_id), b.folder(f"{job_id}-copy"), symlinks=True),
    "move": lambda b, job_id: b.folder(job_id).rename(b.folder("moved")),
    "remove": lambda b, job_id: shutil.rmtree(b.folder(job_id)),
    "end wait": lambda b, job_id: (b.folder(job_id) / "provider-wait.json").unlink(),
}


def run_killed(act: Callable[[], object], event: int) -> None:
    """Do something in another process, which is killed at one of the files that it opens, renames, or removes."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    left = event

    def count(name: str, args: object) -> None:
        nonlocal left
        if name in (
            "open",
            "os.rename",
            "os.remove",
            "os.mkdir",
            "os.rmdir",
            "os.listdir",
            "sqlite3.connect",
        ):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    with suppress(BaseException):
        act()
    os._exit(0)


STEPS = st.tuples(
    st.sampled_from([*LOGIST, *OUTSIDE]),
    st.sampled_from(IDS),
    st.one_of(st.none(), st.none(), st.integers(0, 60)),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=10))
def test_it_answers_what_the_files_say(steps: list[tuple[str, str, int | None]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        b = Bench(Path(place), [answer(), answer("no JSON here")])
        for job_id in IDS[1:]:
            create(b, job_id)
        make_index(b)
        for name, job_id, event in steps:
            if name in OUTSIDE:
                with suppress(OSError, ValueError):
                    OUTSIDE[name](b, job_id)
            elif event is None:
                with suppress(LogistError):
                    LOGIST[name](b, job_id)
            else:
                run_killed(lambda name=name, job_id=job_id: LOGIST[name](b, job_id), event)  # type: ignore[misc]
            require_index_answers(b, refresh=name in OUTSIDE)
            assert (b.project.jobs_dir / job_index.FOLDER).is_dir()
