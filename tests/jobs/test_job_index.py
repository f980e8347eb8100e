"""The index of jobs: whatever happens, it answers what reading all files answers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist import systems
from logist.cli.show import job_rows
from logist.core.machine import advice, waiting
from logist.core.machine.job_row import build_job_cells, build_job_row
from logist.core.model import Kind
from logist.errors import LogistError
from logist.jobs import job_queue
from logist.jobs.run_selection import RunSelection
from logist.jobs.steward import job_deletion, job_edits
from logist.jobs.steward.inbox import list_inbox
from logist.jobs.steward.steward_decisions import record_decision
from logist.store import job_index
from logist.store.job_index import JobFilter, JobIndex, JobOrder
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
    JobFilter(changed_since="2026-01-02T03:04:15Z"),
    JobFilter(text="c--"),
    JobFilter(frozenset({"PENDING"}), changed_since="2026-01-02T03:04:09Z", text="do it"),
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


VIEWS = (
    *((wanted, JobOrder(), None) for wanted in FILTERS),
    *((wanted, JobOrder(), most) for wanted in FILTERS[-1:] for most in (1, 2)),
    (JobFilter(tag="x"), JobOrder("rank", is_reversed=True), 3),
    (JobFilter(text="o it"), JobOrder("created"), None),
    (JobFilter(), JobOrder("updated", is_reversed=True), 1),
    (JobFilter(frozenset({"PENDING", "STUCK"})), JobOrder("cost", is_reversed=True), 2),
    (JobFilter(), JobOrder("id"), None),
)
"""What listings show: a filter, an order, and how many."""


def list_jobs(
    b: Bench,
    wanted: JobFilter,
    order: JobOrder = JobOrder(),  # noqa: B008 - it has no state
    limit: int | None = None,
    *,
    refresh: bool = False,
) -> tuple[list[Row], list[str]]:
    listing = job_rows.read_listing(str(b.project.jobs_dir), wanted, order, limit, refresh=refresh)
    rows = list(listing.iter_rows())
    again = job_rows.read_listing(str(b.project.jobs_dir), wanted, order, limit, refresh=refresh)
    assert [row["id"] for row in rows] == [cells[0] for cells in again.iter_cells()]
    return rows, [str(problem) for problem in listing.problems]


def list_ready(b: Bench) -> list[str]:
    """The jobs in the order in which a run would begin them."""
    ready = job_queue.ReadyJobs(b.project, (), lambda job_id: True)
    begun: list[str] = []
    while (job_id := ready.take(begun, is_idle=True)) is not None:
        begun.append(job_id)
    ready.release_all()
    return begun


def require_index_answers(b: Bench, *, refresh: bool = False) -> None:
    """Compare all answers with those of the files. `refresh`: something was changed without Logist."""
    held = None if refresh else job_queue.find_held_up_jobs(b.project)
    for wanted, order, limit in VIEWS:
        indexed = list_jobs(b, wanted, order, limit, refresh=refresh)
        with without_index(b):
            assert indexed == list_jobs(b, wanted, order, limit)
    indexed_queue = list_ready(b), job_queue.find_held_up_jobs(b.project)
    with without_index(b):
        assert indexed_queue == (list_ready(b), job_queue.find_held_up_jobs(b.project))
    assert held in (None, indexed_queue[1])
    inbox = list_inbox(str(b.project.jobs_dir), 0.0)
    with without_index(b):
        assert inbox == list_inbox(str(b.project.jobs_dir), 0.0)


def make_index(b: Bench) -> JobIndex:
    b.project.jobs_dir.mkdir(exist_ok=True)
    index = JobIndex.make(str(b.project.jobs_dir))
    index.refresh()
    return index


# What happens to jobs


def create(b: Bench, job_id: str) -> None:
    b.create(job_id, rank=len(job_id) % 3, tags=["x"] if job_id != "b" else [], review=False, approval="none")


def decide(kind: Kind) -> Callable[[Bench, str], object]:
    return lambda b, job_id: record_decision(b.project, job_id, kind)


def follow(b: Bench, job_id: str) -> None:
    """Let a job wait for the next one, and for one that the next but one waits for."""
    position = IDS.index(job_id)
    after = [IDS[(position + step) % len(IDS)] for step in (1, 3)]
    job_edits.configure_job(
        b.project, job_id, {("after",): [each for each in after if b.folder(each).is_dir()]}
    )


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


BY_LOGIST: dict[str, Callable[[Bench, str], object]] = {
    "create": create,
    "step": lambda b, job_id: b.step(job_id),
    "follow": follow,
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
    "follow outside": lambda b, job_id: edit_state(b, job_id, {"after": ["a", "c", "gone", 3, "a"]}),
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


def run_killed(act: Callable[[], object], event: int) -> bool:
    """Do something in another process, which is killed at one of the files of jobs that it opens, renames, or removes.

    Returns False if it ended before.
    """
    pid = os.fork()
    if pid:
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    left = event

    def count(name: str, args: tuple[object, ...]) -> None:
        nonlocal left
        if name in EVENTS and args and "/jobs" in str(args[0]) and "/git" not in str(args[0]):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    with suppress(BaseException):
        act()
    os._exit(0)


EVENTS = (
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.listdir",
    "os.chmod",
    "sqlite3.connect",
)
STEPS = st.tuples(
    st.sampled_from([*BY_LOGIST, *OUTSIDE]),
    st.sampled_from(IDS),
    st.one_of(st.none(), st.none(), st.integers(0, 40)),
)


@settings(max_examples=examples(60), deadline=None)
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
                    BY_LOGIST[name](b, job_id)
            else:
                run_killed(partial(BY_LOGIST[name], b, job_id), event)
            require_index_answers(b, refresh=name in OUTSIDE)
            assert (b.project.jobs_dir / job_index.FOLDER).is_dir()


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("name", ["create", "step", "follow", "rank", "delete", "wait", "call"])
def test_a_command_that_is_killed_leaves_no_old_answer(tmp_path: Path, name: str) -> None:
    """Killed at each file that it touches, one after the other."""
    event, was_killed = 0, True
    while was_killed:
        b = Bench(tmp_path / str(event), [answer()])
        create(b, "a")
        create(b, "b")
        make_index(b)
        job_id = "new" if name == "create" else "a"
        if name == "delete":
            record_decision(b.project, "a", Kind.CANCEL)
        was_killed = run_killed(partial(BY_LOGIST[name], b, job_id), event)
        require_index_answers(b)
        event += 1
    assert event > 3


@pytest.fixture
def b(tmp_path: Path) -> Bench:
    """A project with an index of two jobs."""
    b = Bench(tmp_path / "project", [answer(), answer("no JSON here")])
    create(b, "a")
    create(b, "b")
    make_index(b)
    return b


def list_status(b: Bench, *statuses: str) -> list[str]:
    return [row["id"] for row in list_jobs(b, JobFilter(frozenset(statuses)))[0]]


def get_database(b: Bench) -> Path:
    return b.project.jobs_dir / job_index.FOLDER / "jobs.sqlite"


def test_a_filter_finds_a_job_whose_agent_works(b: Bench) -> None:
    job = b.project.open_job("a")
    with job.hold_lock(command="test", since="now"):
        job.begin_exchange(1, {"ask": "nothing"})
        assert list_status(b, "RUNNING") == ["a"]
        assert list_status(b, "PENDING") == ["b"]
    assert list_status(b, "PENDING") == ["a", "b"]
    with job.hold_lock(command="test", since="now"):
        job.end_exchanges()


def test_a_filter_finds_a_job_whose_agent_continues_after_its_paid_turns(b: Bench) -> None:
    job = b.project.open_job("a")
    with job.hold_lock(command="test", since="now"):
        job.put_back_exchanges([({"ask": "nothing"}, {"text": ""}, {})])
        assert list_status(b, "RUNNING") == ["a"]
        job.end_exchanges()


def test_few_jobs_have_none(tmp_path: Path) -> None:
    b = Bench(tmp_path, [answer()])
    create(b, "a")
    b.step("a")
    list_jobs(b, JobFilter())
    assert list_ready(b) == []
    assert not (b.project.jobs_dir / job_index.FOLDER).exists()


def test_many_jobs_have_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_index, "LEAST_JOBS", 2)
    b = Bench(tmp_path)
    create(b, "a")
    create(b, "b")
    assert list_status(b, "PENDING") == ["a", "b"]
    assert get_database(b).exists()
    require = JobIndex.open(str(b.project.jobs_dir))
    assert require is not None
    assert require.is_complete()


def test_the_text_of_a_task_is_found_as_it_is_now(b: Bench) -> None:
    def find(text: str, *, refresh: bool = False) -> list[str]:
        return [row["id"] for row in list_jobs(b, JobFilter(text=text), refresh=refresh)[0]]

    assert find("do it") == ["a", "b"]
    job_edits.configure_job(b.project, "a", {("prompt",): "Größe\n" + "x" * 60_000 + "ENDE"})
    job_edits.configure_job(b.project, "b", {("description",): "Something Else"})
    assert [find("grösse"), find("ende"), find("something"), find("do it")] == [["a"], ["a"], ["b"], ["b"]]
    (b.project.jobs_dir / "b" / "job.yaml").write_text('prompt: "by \\x68and"\n')
    assert find("by hand") == []
    assert find("by hand", refresh=True) == ["b"]
    assert find("by hand") == ["b"], "read from the file, because it is no simple YAML"
    (b.project.jobs_dir / "b" / "job.yaml").unlink()
    assert find("b", refresh=True) == ["b"], "its id"


def test_a_text_that_was_removed_from_a_job_is_not_left_in_the_index(b: Bench) -> None:
    for prompt, is_there in (("the hidden-word " * 300, True), ("Do it.", False)):
        job_edits.configure_job(b.project, "a", {("prompt",): prompt})
        list_jobs(b, JobFilter())
        assert (b"hidden-word" in get_database(b).read_bytes()) == is_there


class Level(NamedTuple):
    """What decides where a listing shows a job."""

    parent: int
    """The number of its parent; that of no job, or of the job itself, is possible too."""
    rank: int
    status: str
    tag: str | None
    is_settled: bool


LEVELS = st.builds(
    Level,
    st.integers(0, 12),
    st.integers(0, 2),
    st.sampled_from(["PENDING", "SUCCESS"]),
    st.sampled_from(["x", None]),
    st.sampled_from([True, True, True, False]),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(LEVELS, min_size=1, max_size=10), st.sampled_from([1, 3, 5_000]), st.sampled_from([1, 2_000]))
def test_the_first_jobs_of_a_listing_are_those_of_the_complete_one(
    levels: list[Level], looked_at: int, rare: int
) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_index, "LOOKED_AT", looked_at)
        patch.setattr(job_index, "RARE", rare)
        b = Bench(Path(place), [])
        create(b, "a")
        state = json.loads((b.folder("a") / "state.json").read_bytes())
        for number, level in enumerate(levels):
            folder = b.folder(f"j{number}")
            folder.mkdir()
            (folder / "jobHistory.json").write_bytes((b.folder("a") / "jobHistory.json").read_bytes())
            # A job above has a lower number, or is itself, or doesn't exist: others would be above each other.
            parent = level.parent if level.parent <= number else None if level.parent < len(levels) else 99
            fields = {"rank": level.rank, "status": level.status, "tags": [level.tag] if level.tag else []}
            fields["parent"] = None if parent is None else f"j{parent}"
            (folder / "state.json").write_text(json.dumps({**state, **fields}))
        make_index(b)
        for number, level in enumerate(levels):
            if not level.is_settled:
                job_index.mark_change(str(b.project.jobs_dir), f"j{number}")
        for wanted in (
            *FILTERS[:5],
            JobFilter(frozenset({"PENDING"})),
            JobFilter(frozenset({"PENDING"}), "x"),
        ):
            for order in (JobOrder(), JobOrder("rank", is_reversed=True), JobOrder("id")):
                complete = list_jobs(b, wanted, order)[0]
                for most in (1, 2, 4):
                    assert list_jobs(b, wanted, order, most)[0] == complete[:most]


def test_the_first_jobs_are_found_without_looking_at_all(b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the newest half passes a filter, and if three of four are child jobs."""
    monkeypatch.setattr(job_index, "LOOKED_AT", 200)
    monkeypatch.setattr(job_index, "RARE", 200)
    index = JobIndex.open(str(b.project.jobs_dir))
    assert index is not None
    fill_index(index, 2_000)
    few = {name: count_work(index, *view) for name, view in FIRST_OF_MANY.items()}
    fill_index(index, 20_000)
    many = {name: count_work(index, *view) for name, view in FIRST_OF_MANY.items()}
    assert all(many[name] < 1.5 * few[name] for name in few), (few, many)


FIRST_OF_MANY = {
    "no filter": (JobFilter(), JobOrder()),
    "status of half of all": (JobFilter(frozenset({"PENDING"})), JobOrder()),
    "tag of all": (JobFilter(tag="x"), JobOrder()),
    "rare tag and status of half of all": (JobFilter(frozenset({"PENDING"}), tag="rare"), JobOrder()),
    "text of all": (JobFilter(text="do it"), JobOrder()),
    "change of all": (JobFilter(changed_since="2026-01-01"), JobOrder()),
    "all filters": (
        JobFilter(frozenset({"PENDING"}), "x", changed_since="2026-01-01", text="do it"),
        JobOrder(),
    ),
    "status, the latest": (JobFilter(frozenset({"PENDING"})), JobOrder("updated", is_reversed=True)),
    "tag, the most expensive": (JobFilter(tag="x"), JobOrder("cost", is_reversed=True)),
}
FILL = (
    """
    WITH RECURSIVE numbers (number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < :count)
    INSERT OR REPLACE INTO jobs
    SELECT printf('m%06d', number), stamp, settled, iif(number < :count / 2, 'SUCCESS', 'PENDING'), 0, created_at,
        iif(number % 4, printf('m%06d', number - number % 4), NULL), assignee, may_run, has_work_due, is_over, children,
        updated_at, number, after, has_succeeded, is_held
    FROM numbers, jobs WHERE jobs.id = 'a'
    """,
    "INSERT OR REPLACE INTO tags SELECT 'x', id, status, rank, created_at, may_run, is_held FROM jobs",
    "INSERT OR REPLACE INTO tags SELECT 'rare', id, status, rank, created_at, may_run, is_held FROM jobs WHERE id < 'm'",
    "INSERT OR REPLACE INTO texts SELECT id, 'do it' FROM jobs",
)
"""Each fourth job has three child jobs; the first half has ended."""


def fill_index(index: JobIndex, count: int) -> None:
    """Let an index have so many jobs."""
    for query in FILL:
        index._database.execute(query, {"count": count} if ":count" in query else {})


def count_work(index: JobIndex, wanted: JobFilter, order: JobOrder) -> int:
    """How often SQLite has done twenty instructions for the first jobs of a listing."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    index._database.set_progress_handler(count, 20)
    try:
        if order.has_levels:
            found = index.list_places(wanted, 20)
            assert len(found.top) + len(found.children) >= (2 if wanted.tag == "rare" else 20)
        else:
            assert len(index.list_sorted(wanted, order, 20)[1]) == 20
    finally:
        index._database.set_progress_handler(None, 0)
    return counted


def test_only_what_changed_is_read_again(b: Bench) -> None:
    with open_files() as opened:
        list_jobs(b, JobFilter())
    assert [path for path in opened if path.endswith("state.json")] == []
    edit_state(b, "a", {"title": "other"})
    with open_files() as opened:
        rows, _ = list_jobs(b, JobFilter())
    assert [row["title"] for row in rows] == ["other", "Do it."]
    assert [path.split("/")[-2:] for path in opened if path.endswith("state.json")] == [["a", "state.json"]]


_watchers: list[list[str]] = []


@contextmanager
def open_files() -> Iterator[list[str]]:
    """The paths that this process opens inside the block."""
    if not _watchers:  # a hook can't be removed
        _watchers.append([])
        sys.addaudithook(lambda name, args: _watchers[-1].append(str(args[0])) if name == "open" else None)
    opened: list[str] = []
    _watchers.append(opened)
    try:
        yield opened
    finally:
        _watchers[1:] = []
        _watchers[0].clear()


def test_a_change_without_logist_is_noticed_by_a_list_of_all_jobs(b: Bench) -> None:
    edit_state(b, "a", {"status": "STUCK", "stuck": {"kind": "agent", "reason": "r"}})
    assert list_status(b, "STUCK") == []
    assert [row["status"] for row in list_jobs(b, JobFilter())[0]] == ["STUCK", "PENDING"]
    assert list_status(b, "STUCK") == ["a"]


def test_what_a_filter_shows_still_exists(b: Bench) -> None:
    shutil.rmtree(b.folder("a"))
    edit_state(b, "b", {"status": "SUCCESS"})
    assert list_status(b, "PENDING") == []
    assert list_status(b, "SUCCESS") == ["b"]


@pytest.mark.parametrize("damage", [b"", b"not a database", None])
def test_a_damaged_index_is_made_again(
    b: Bench, damage: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = get_database(b).read_bytes()
    get_database(b).write_bytes(data[:5000] + bytes(len(data) - 5000) if damage is None else damage)
    b.step("a")
    assert list_status(b, "SUCCESS") == ["a"]
    monkeypatch.setattr(job_index, "LEAST_JOBS", 1)
    require_answers_twice(b)


def require_answers_twice(b: Bench) -> None:
    """Ask as long as it takes to notice the damage, and to make a new index."""
    for _ in range(3):
        assert [row["status"] for row in list_jobs(b, JobFilter())[0]] == ["SUCCESS", "PENDING"]
    index = JobIndex.open(str(b.project.jobs_dir))
    assert index is not None
    assert index.list_ids(JobFilter(frozenset({"SUCCESS"}))) == ["a"]


def test_a_locked_index_stops_nothing(b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_index, "_PATIENCE_SECONDS", 0.01)
    job_index._writer.clear()
    other = sqlite3.connect(get_database(b), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    b.step("a")
    assert list_status(b, "SUCCESS") == ["a"], "read from the files"
    other.execute("ROLLBACK")
    other.close()
    assert list_status(b, "SUCCESS") == ["a"], "its marker says that its row is old"
    assert os.listdir(b.project.jobs_dir / job_index.FOLDER / "changing") != []
    list_jobs(b, JobFilter())
    assert os.listdir(b.project.jobs_dir / job_index.FOLDER / "changing") == []
    assert list_status(b, "SUCCESS") == ["a"]


def test_a_process_that_is_forked_during_a_write_neither_waits_for_it_nor_undoes_it(
    b: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b.step("a")
    monkeypatch.setattr(job_index, "_PATIENCE_SECONDS", 0.01)
    database = job_index._writer[0]._database
    with job_index._writing:
        database.execute("PRAGMA cache_size = 1")  # the transaction is on the disk before its end
        database.execute("BEGIN IMMEDIATE")
        database.executemany(
            "INSERT INTO tags (tag, id) VALUES (?, 'a')", [(f"{n}" * 100,) for n in range(2_000)]
        )
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            with suppress(BaseException):
                b.step("b")
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        database.execute("COMMIT")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert len(database.execute("SELECT * FROM tags WHERE id = 'a'").fetchall()) >= 2_000
    assert list_status(b, "PENDING") == []


@pytest.mark.parametrize("change", ["copy", "restart"])
def test_a_copy_or_a_new_start_of_the_machine_makes_a_new_one(
    b: Bench, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_index, "LEAST_JOBS", 1)
    edit_state(b, "a", {"status": "SUCCESS"})
    if change == "copy":
        shutil.copytree(b.project.home, tmp_path / "copy", symlinks=True)
        b.change(home=tmp_path / "copy", jobs_dir=tmp_path / "copy" / "jobs")
    else:
        (tmp_path / "boot").write_text("another\n", "ascii")
        monkeypatch.setattr(systems, "_BOOT_ID", str(tmp_path / "boot"))
    assert list_status(b, "SUCCESS") == ["a"]


def test_what_a_disk_without_space_cannot_mark_removes_the_index(b: Bench) -> None:
    changing = b.project.jobs_dir / job_index.FOLDER / "changing"
    changing.rmdir()
    changing.symlink_to("/proc/self/status/none")
    b.step("a")
    assert list_status(b, "SUCCESS") == ["a"]


def test_a_link_in_the_place_of_the_index_is_not_followed(b: Bench, tmp_path: Path) -> None:
    own = b.project.jobs_dir / job_index.FOLDER
    own.rename(tmp_path / "elsewhere")
    own.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "mine").write_bytes(b"")
    edit_state(b, "a", {"status": "SUCCESS"})
    assert list_status(b, "SUCCESS") == ["a"]
    job_edits.set_rank(b.project, "b", 5)
    assert {"mine", "jobs.sqlite"} <= set(os.listdir(tmp_path / "elsewhere"))
    assert sorted(os.listdir(b.project.jobs_dir)) == ["a", "b"]


def test_a_file_in_the_place_of_the_index_is_removed(b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_index, "LEAST_JOBS", 1)
    job_index.discard(str(b.project.jobs_dir))
    (b.project.jobs_dir / job_index.FOLDER).write_bytes(b"")
    assert list_status(b, "PENDING") == ["a", "b"]
    assert sorted(os.listdir(b.project.jobs_dir)) == [job_index.FOLDER, "a", "b"]


@pytest.mark.parametrize("replacement", ["link", "file"])
def test_a_link_or_a_file_in_the_place_of_a_job_is_no_job(b: Bench, tmp_path: Path, replacement: str) -> None:
    b.folder("a").rename(tmp_path / "a")
    if replacement == "link":
        b.folder("a").symlink_to(tmp_path / "a")
    else:
        b.folder("a").write_bytes(b"")
    assert [row["id"] for row in list_jobs(b, JobFilter())[0]] == ["b"]
    require_index_answers(b, refresh=True)


@pytest.mark.parametrize("part", ["jobs.sqlite", "changing"])
def test_an_index_without_one_of_its_parts_is_made_again(
    b: Bench, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_index, "LEAST_JOBS", 1)
    own = b.project.jobs_dir / job_index.FOLDER
    remove = shutil.rmtree if (own / part).is_dir() else os.unlink
    remove(own / part)
    b.step("a")
    require_answers_twice(b)
    remove(own / part)
    require_answers_twice(b)
    assert os.listdir(own / "changing") == []


def test_a_python_without_sqlite_reads_the_files(b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_index, "LEAST_JOBS", 1)
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    job_index._writer.clear()
    for job_id in "ab":  # with an index of another Python, and without any
        b.step(job_id)
        assert job_id in [row["id"] for row in list_jobs(b, JobFilter())[0] if row["status"] != "PENDING"]
        job_index.discard(str(b.project.jobs_dir))


def test_listing_the_jobs_of_another_user_removes_no_index(b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_index, "LEAST_JOBS", 1)
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(b.project.jobs_dir).st_uid + 1)
    (b.project.jobs_dir / job_index.FOLDER / "identity").write_text("unreadable for this user", "ascii")
    assert list_status(b, "PENDING") == ["a", "b"]
    assert get_database(b).exists()


def test_whatever_happens_to_the_index_the_lock_is_released(
    b: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise MemoryError

    job = b.project.open_job("a")
    monkeypatch.setattr(job_index, "record_change", fail)
    with pytest.raises(MemoryError), job.hold_lock(command="test", since="now"):
        job.begin_exchange(1, {"ask": "nothing"})
    assert job.find_lock_holder() is None


def test_a_job_that_is_changed_while_the_index_is_made_is_read_from_its_files(b: Bench) -> None:
    job_index.discard(str(b.project.jobs_dir))
    job = b.project.open_job("a")
    with job.hold_lock(command="test", since="now"):
        make_index(b)
        edit_state(b, "a", {"status": "SUCCESS"})
        assert list_status(b, "SUCCESS") == ["a"]
    list_jobs(b, JobFilter())
    assert os.listdir(b.project.jobs_dir / job_index.FOLDER / "changing") == []


def test_a_run_notices_what_appears_and_what_others_change(b: Bench) -> None:
    copied: list[Path] = []

    def copy_job(result: object) -> None:
        if not copied:
            copied.append(shutil.copytree(b.folder("b"), b.folder("copied"), symlinks=True))
            job_edits.set_rank(b.project, "copied", 0)

    ended = list(job_queue.run_queue(b.project, 1, copy_job))
    assert {each.job_id for each in ended} == {"a", "b", "copied"}


def test_choosing_a_job_reads_no_ended_job(b: Bench) -> None:
    b.step("a")
    ready = job_queue.ReadyJobs(b.project, (), lambda job_id: True)
    with open_files() as opened:
        assert ready.take((), is_idle=True) == "b"
    ready.release_all()
    assert [path for path in opened if "/a/" in path] == []
    assert [path for path in opened if path.endswith("/b/state.json")] != []


def test_each_child_job_outside_a_selection_costs_two_look_ups(
    b: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its own place and tags, not of those of the jobs above it, which it has in common with others."""
    index = JobIndex.open(str(b.project.jobs_dir))
    assert index is not None
    index._database.execute("UPDATE jobs SET children = '[]' WHERE id = 'a'")
    selects: list[str] = []
    select = JobIndex._select

    def note_and_select(index: JobIndex, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        selects.append(query)
        return select(index, query, values)

    monkeypatch.setattr(JobIndex, "_select", note_and_select)
    counts = []
    for children in (20, 60):
        index._database.execute(
            """
            WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < ?)
            INSERT OR REPLACE INTO jobs SELECT 'a--' || number, stamp, settled, status, rank, created_at, 'a', assignee,
                may_run, has_work_due, is_over, NULL, updated_at, cost, after, has_succeeded, is_held
            FROM numbers, jobs WHERE jobs.id = 'a'
            """,
            [children],
        )
        ready = job_queue.ReadyJobs(b.project, (), lambda job_id: True, selection=RunSelection(tag="none"))
        ready._has_begun = True  # so these rows without jobs stay
        selects.clear()
        assert ready.take((), is_idle=False) is None
        counts.append(len(selects))
    assert counts[1] - counts[0] == 2 * 40, counts


DIGEST = "e44fc65700f2afec"
"""Of the rows below. If it changes, raise `job_index.FORMAT` too: rows of an index that exists would stay as they are."""


def test_a_changed_row_needs_another_format() -> None:
    state: Row = {
        **dict.fromkeys(("awaiting", "stuck", "color", "source", "parent", "merge", "last", "reason"), None),
        "agent_role": "Worker",
        "badge": "",
        "usage": USAGE,
        "rank": 1,
        "tags": ["x"],
        "title": "T",
        "created_at": "2026-01-02",
        "updated_at": "2026-01-03",
        "limits": {},
        "step": "s",
    }
    stuck = [{"stuck": {"kind": kind, "reason": "r"}, "status": "STUCK"} for kind in waiting.STUCK_KINDS]
    others: list[Row] = [
        {"status": "SUCCESS", "source": "/s"},
        {"status": "SUCCESS", "source": "/s", "merge": "merged"},
        {"status": "APPROVAL_REQUIRED", "awaiting": "manual", "doers": {"s": {"role": "eve"}}},
        {"status": "PENDING", "reason": "because"},
    ]
    changed: list[Row] = [
        *stuck,
        *others,
        *({"status": status} for status in advice.STATUSES if status != "STUCK"),
    ]
    rows = [build_job_row("j", state | each) for each in changed]
    shown = json.dumps([[row, build_job_cells(row)] for row in rows])
    assert hashlib.sha256(shown.encode()).hexdigest()[:16] == DIGEST, job_index.FORMAT


USAGE = {"cumulative_cost": 12, "cumulative_cost_microcents": 345}
