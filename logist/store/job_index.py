"""An index of many jobs: listings and `logist run` find a few of them without reading every state.json.

It is only a cache, in `.index` of the jobs directory; deleting it is harmless. There is none for few jobs: reading
their files is as quick. What it answers is right because of these rules:

- A row has the stamp of the files that it was made from, see `_read_stamp`.
- Before a command changes a job, it creates a marker in `.index/changing`. Afterwards it writes the row, and then
  removes the marker. A marked job is read from its files. So if the command is killed in between, or can't write the
  row, the old row is not used.
- Changes that were made without Logist are found by comparing the stamps of all jobs with their files: `refresh`.
- A job whose files say more than its row, for example because an agent works on it, is "unsettled": it is also read
  from its files.
- Nothing is flushed. After a crash of the machine, or in a copy, the index is built again, see `_build_identity`.

Any failure is an IndexUnusable, and its handler reads the files instead.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from logist import systems
from logist.core.machine import predecessors
from logist.core.machine.job_row import RUNNING, build_job_cells, build_job_row
from logist.core.machine.predecessors import Unmet
from logist.core.model.words import Status
from logist.core.money import amounts
from logist.core.text.ids import is_job_id
from logist.errors import StorageError
from logist.formats import INDEX
from logist.lazy_patterns import compile_on_use
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.store import INDEX_FOLDER
from logist.store.listing import Glance, list_job_ids, list_unpublished, read_glances
from logist.store.provider_wait import ProviderWait, read_wait

if TYPE_CHECKING:
    import sqlite3

FOLDER = INDEX_FOLDER
LEAST_JOBS = 1_000
"""An index is made for so many jobs. To read fewer takes no longer than to load SQLite and compare stamps."""
FORMAT = INDEX.version
"""Higher if the tables, or what `build_job_row` returns for a state, are different."""
BATCH = 500
"""Jobs in one transaction, or one query. Other commands wait for a transaction, so it takes only milliseconds."""

RARE = 2_000
"""Filters that fewer jobs pass are looked up before others are tested."""
LOOKED_AT = 5_000
"""So many jobs are looked at in the order of a listing before all that pass its filter are looked for."""

_CHANGING = "changing"
_DATABASE = "jobs.sqlite"
_IDENTITY = "identity"
_PATIENCE_SECONDS = 2.0
_ABANDONED_SECONDS = 600.0
"""After this time, the marker of a job that was never created is removed."""
_MOST_RANK = 1 << 63
_LONGEST_TASK = 50_000
"""Characters. A longer task is not in the index, but searched in its file."""
_PLACE = "rank, created_at, id, parent"
_ENDED = ("SUCCESS", "FAILED", "CANCELED")
_LOCKED = compile_on_use(r"FLOCK .*:([0-9]+) 0 EOF")
_UNFINISHED = compile_on_use(r"\.new-(.+)-[0-9a-f]{12}")
"""The directory of a job that is being created or deleted."""
_STAMP = struct.Struct("=5q")
_NO_STAMP = b""
"""Of a job without readable files, which is always unsettled."""

_TABLES = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, stamp BLOB NOT NULL, settled INTEGER NOT NULL,
    status TEXT NOT NULL, rank INTEGER NOT NULL, created_at TEXT NOT NULL, parent TEXT, assignee TEXT,
    may_run INTEGER NOT NULL, has_work_due INTEGER NOT NULL, is_over INTEGER NOT NULL, children TEXT,
    updated_at TEXT NOT NULL, cost INTEGER NOT NULL, after TEXT, has_succeeded INTEGER NOT NULL,
    is_held INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE predecessors (predecessor TEXT, id TEXT, PRIMARY KEY (predecessor, id)) WITHOUT ROWID;
CREATE TABLE texts (id TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;
CREATE TABLE rows (id TEXT PRIMARY KEY, row TEXT NOT NULL, cells TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE tags (
    tag TEXT, id TEXT, status TEXT, rank INTEGER, created_at TEXT, may_run INTEGER, is_held INTEGER,
    PRIMARY KEY (tag, id)
) WITHOUT ROWID;
CREATE INDEX by_place ON jobs (rank, created_at, id);
CREATE INDEX by_status ON jobs (status, rank, created_at, id);
CREATE INDEX by_parent ON jobs (parent) WHERE parent IS NOT NULL;
CREATE INDEX by_age ON jobs (created_at, id);
CREATE INDEX by_change ON jobs (updated_at, created_at, id);
CREATE INDEX by_cost ON jobs (cost, created_at, id);
CREATE INDEX by_assignee ON jobs (assignee) WHERE assignee IS NOT NULL;
CREATE INDEX ready ON jobs (rank, created_at, id) WHERE may_run AND NOT is_held;
CREATE INDEX ready_statuses ON jobs (status, rank, created_at, id) WHERE may_run AND NOT is_held;
CREATE INDEX ready_families ON jobs (rank, created_at, id)
    WHERE may_run AND NOT is_held AND (parent IS NOT NULL OR children IS NOT NULL);
CREATE INDEX ready_tags ON tags (tag, status, rank, created_at, id) WHERE may_run AND NOT is_held;
CREATE INDEX predecessors_of ON predecessors (id);
CREATE INDEX unread_texts ON texts (id) WHERE text IS NULL;
CREATE INDEX unsettled ON jobs (id) WHERE NOT settled;
CREATE INDEX tags_of ON tags (id);
CREATE TRIGGER hold_tags AFTER UPDATE OF is_held ON jobs WHEN old.is_held <> new.is_held BEGIN
    UPDATE tags SET is_held = new.is_held WHERE id = new.id;
END;
"""
_TAG_JOB = """
INSERT INTO tags SELECT ?, id, status, rank, created_at, may_run AND settled, is_held FROM jobs WHERE id = ?
"""
"""Tags have copies of what a run looks for: else it would read all ready jobs to find those with a rare tag."""
_COLUMNS = 17
_INSERT = f"INSERT OR REPLACE INTO jobs VALUES ({', '.join('?' * _COLUMNS)})"  # noqa: S608 - only question marks
_HOLD_JOBS = """
UPDATE jobs SET is_held = NOT has_work_due AND EXISTS (
    SELECT 1 FROM predecessors AS due LEFT JOIN jobs AS above ON above.id = due.predecessor
    WHERE due.id = jobs.id AND NOT coalesce(above.has_succeeded, 0)
) WHERE id """
"""Whether jobs wait for predecessors, from what the index has about those; what is in flight is recorded all the same."""
_HOLD_JOB = f"{_HOLD_JOBS} = ?"
_HOLD_SUCCESSORS = f"{_HOLD_JOBS} IN (SELECT id FROM predecessors WHERE predecessor = ?)"  # noqa: S608 - nothing from outside

Row = dict[str, Any]
LevelPlace = tuple[int, str, str, str | None]
"""Rank, time of creation, id and parent of a job."""
Place = tuple[int, str, str]
"""Rank, time of creation and id of a job: the order of listings and of the queue."""


class IndexUnusable(Exception):
    """The index can't be used now; the files of the jobs say everything."""


class JobBrief(NamedTuple):
    """What the queue needs to know about a job."""

    status: str
    rank: int
    created_at: str
    parent: str | None
    children: list[str]
    """The jobs that it waits for."""
    is_over: bool
    """True if the job has ended, or has no attempts left: its parent continues."""
    has_work_due: bool
    """True if a merge is due, or an answer may be in flight, whatever the status is."""
    wait: ProviderWait | None = None
    """The wait for a provider that is not available."""
    after: Sequence[str] = ()
    """The predecessors that must have succeeded before it begins; none if it has begun."""
    has_succeeded: bool = False
    """True if the jobs after it may begin."""


class JobFilter(NamedTuple):
    """Which jobs a listing shows; all, if nothing is given."""

    statuses: frozenset[str] = frozenset()
    tag: str | None = None
    assignee: str | None = None
    changed_since: str | None = None
    """A time as in `updated_at`."""
    text: str | None = None
    """What the text of `build_searched_text` contains."""

    @property
    def is_empty(self) -> bool:
        return self == JobFilter()

    def matches(self, row: Row) -> bool:
        """Return whether a row of a listing is shown, as far as the row says it: it has not the text of the task."""
        return (
            (not self.statuses or row["status"] in self.statuses)
            and (self.tag is None or self.tag in row["tags"])
            and (self.assignee is None or row["assignee"] == self.assignee)
            and (self.changed_since is None or row["updated_at"] >= self.changed_since)
        )

    def list_conditions(self, table: str = "jobs") -> dict[str, tuple[str, list[str]]]:
        """Return the condition of SQL for each filter, in a form that SQLite uses to look jobs up, and its parameters."""
        return {name: (lookup, values) for name, (lookup, _, values) in self._list_forms(table).items()}

    def build_condition(
        self, table: str = "jobs", looked_up: Collection[str] | None = None
    ) -> tuple[str, list[str]]:
        """Return the same as a condition of SQL, and its parameters.

        `looked_up`: the filters by which jobs are looked up; the others are tested for each of these. All, if it is None.
        """
        conditions, values = [f"{table}.settled"], list[str]()
        for name, (lookup, test, own_values) in self._list_forms(table).items():
            conditions.append(lookup if looked_up is None or name in looked_up else test)
            values += own_values
        return " AND ".join(conditions), values

    def _list_forms(self, table: str) -> dict[str, tuple[str, str, list[str]]]:
        """Return two forms of the condition of each filter: to look jobs up, and to test some; and the parameters."""
        forms: dict[str, tuple[str, str, list[str]]] = {}

        def add(name: str, condition: str, *values: str) -> None:
            # Of a value with a plus, SQLite can't look up the column.
            forms[name] = f"{table}.{condition}", f"+{table}.{condition}", [*values]

        def add_subquery(name: str, condition: str, value: str) -> None:
            listed = f"{table}.id IN (SELECT id FROM {name} WHERE {condition})"  # noqa: S608
            tested = f"EXISTS (SELECT 1 FROM {name} WHERE {name}.id = {table}.id AND {condition})"  # noqa: S608
            forms[name] = listed, tested, [value]

        if self.statuses:
            add("status", f"status IN ({', '.join('?' * len(self.statuses))})", *sorted(self.statuses))
        if self.tag is not None:
            add_subquery("tags", "tag = ?", self.tag)
        if self.assignee is not None:
            add("assignee", "assignee = ?", self.assignee)
        if self.changed_since is not None:
            add("updated_at", "updated_at >= ?", self.changed_since)
        if self.text is not None:
            add_subquery("texts", "instr(text, ?)", self.text)
        return forms


class JobOrder(NamedTuple):
    """The order of a listing. Only by rank, upwards, child jobs are below their parents."""

    key: str = "rank"
    """`rank`, `created`, `updated`, `cost` or `id`."""
    is_reversed: bool = False

    @property
    def has_levels(self) -> bool:
        """Whether child jobs are below their parents."""
        return self == JobOrder()

    def get_value(self, row: Row) -> int | str:
        """Return what a row is sorted by."""
        if self.key == "cost":
            return amounts.join_cents(row["cost_cents"] or 0, row["cost_microcents"] or 0)
        value: int | str = row[{"created": "created_at", "updated": "updated_at"}.get(self.key, self.key)]
        return value

    def sort(self, places: list[tuple[int | str, str, str]]) -> list[str]:
        """Return the ids of jobs, each with its value, its time of creation and its id, in order."""
        return [place[2] for place in sorted(places, reverse=self.is_reversed)]

    def build_clause(self, *, is_after_search: bool = False) -> tuple[str, str]:
        """Return the column of SQL, and the same order as a clause.

        `is_after_search`: jobs are sorted after they were found. Without that, SQLite would rather read all jobs in order.
        """
        column = {"created": "created_at", "updated": "updated_at"}.get(self.key, self.key)
        way = " DESC" if self.is_reversed else ""
        columns = dict.fromkeys(
            (column, "created_at", "id")
        )  # without repetition, so that SQLite uses an index
        plus = "+" if is_after_search else ""  # of a value, not of a column that has an index
        return column, f"ORDER BY {', '.join(f'{plus}{each}{way}' for each in columns)}"


class PlacedJobs(NamedTuple):
    """The jobs of a listing, without what it shows of them."""

    unsettled: set[str]
    """Jobs that have to be read from their files; some may not exist."""
    top: list[LevelPlace]
    """Rank, time of creation, id, and no parent, of the settled jobs, sorted."""
    children: list[LevelPlace]
    """The same of those with a parent, in no order."""


class _Entry(NamedTuple):
    """What the index has about a job."""

    stamp: bytes
    job: tuple[object, ...]
    shown: tuple[str, str] | None
    """Its row and its cells, as JSON."""
    tags: tuple[str, ...]
    text: str | None = None
    """Its text for `JobFilter.text`; None if it has to be read from its files."""
    after: Sequence[str] = ()
    has_succeeded: bool = False
    """As in JobBrief, like `after`."""


# What commands do that change a job


def mark_change(jobs_dir: str, job_id: str) -> None:
    """Say that a job is about to change, or was changed: until `record_change`, it is read from its files.

    The caller holds the lock of the job, or is about to give a new job its name.
    """
    marker = f"{jobs_dir}/{FOLDER}/{_CHANGING}/{job_id}.{os.urandom(6).hex()}"
    try:
        os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except (FileNotFoundError, NotADirectoryError):
        pass  # there is no index
    except OSError:
        discard(jobs_dir)  # nobody would know that the row is old


def record_change(jobs_dir: str, job_id: str) -> None:
    """Write the row of a job that was changed, created or deleted; if that fails, its marker stays."""
    record_changes(jobs_dir, [job_id])


def record_changes(jobs_dir: str, ids: Sequence[str]) -> None:
    """Write the rows of many jobs; if that fails, their markers stay."""
    folder = f"{jobs_dir}/{FOLDER}/{_CHANGING}"
    with suppress(IndexUnusable, OSError), _writing:
        if not os.access(folder, os.F_OK):
            return
        _get_writer(jobs_dir).update(ids)
        # All of them: only the holder of the lock may change a job, so no other command needs one of them.
        changed = frozenset(ids)
        for name in os.listdir(folder):
            if name.rpartition(".")[0] in changed:
                os.unlink(f"{folder}/{name}")


_writing = threading.Lock()
_writer: list[JobIndex] = []
"""The index that this process wrote to last. Opening it for each change would take longer than the change."""
_inherited: list[JobIndex] = []


def _forget_inherited() -> None:
    """In a forked process: nobody would release the lock, and closing the database would undo what the other one writes."""
    global _writing  # noqa: PLW0603 - a lock can't be reset
    _writing = threading.Lock()
    _inherited.extend(_writer)
    _writer.clear()


os.register_at_fork(after_in_child=_forget_inherited)


def _get_writer(jobs_dir: str) -> JobIndex:
    if _writer and _writer[0].is_open_for(jobs_dir):
        return _writer[0]
    _writer.clear()
    index = JobIndex.open(jobs_dir)
    if index is None:
        discard(jobs_dir)
        raise IndexUnusable("made elsewhere, or before the machine started again")
    _writer.append(index)
    return index


def discard(jobs_dir: str) -> None:
    """Remove the index, at once; the next listing of all jobs makes a new one."""
    # A killed command leaves this name behind, and `jobdir.remove_abandoned` removes it.
    aside = f"{jobs_dir}/.new-index-{os.urandom(6).hex()}"
    try:
        os.rename(f"{jobs_dir}/{FOLDER}", aside)
    except OSError:
        with suppress(OSError):
            os.unlink(f"{jobs_dir}/{FOLDER}/{_IDENTITY}")
    else:
        _remove(aside)


def _remove(folder: str) -> None:
    from pathlib import Path  # noqa: PLC0415 - importing it takes longer than most of this module

    from logist.store import files  # noqa: PLC0415

    with suppress(StorageError, OSError):
        if os.path.isdir(folder) and not os.path.islink(folder):
            files.remove_tree(Path(folder))
        else:  # not Logist's: what a link leads to must stay
            os.unlink(folder)


# The index


class JobIndex:
    """The open index of a jobs directory. Every method may raise IndexUnusable."""

    def __init__(self, jobs_dir: str, database: sqlite3.Connection) -> None:
        self._database = database
        self.jobs_dir = jobs_dir
        self._file = os.stat(_join_database(jobs_dir))

    @classmethod
    def open(cls, jobs_dir: str) -> JobIndex | None:
        """Open the index; None if there is none that is complete, and was made here and since the machine has started."""
        folder = f"{jobs_dir}/{FOLDER}"
        try:
            if read_regular(f"{folder}/{_IDENTITY}", 1_000) != _build_identity(jobs_dir, folder):
                return None
            os.stat(f"{folder}/{_CHANGING}/.")
            os.stat(_join_database(jobs_dir))
        except OSError:
            return None
        with _convert_errors(jobs_dir):
            return cls(jobs_dir, _connect(_join_database(jobs_dir)))

    @classmethod
    def make(cls, jobs_dir: str) -> JobIndex:
        """Make a new, empty index in place of any other, and open it; `refresh` fills it."""
        from pathlib import Path  # noqa: PLC0415 - rarely needed

        from logist.store.filesystem import describe_problem  # noqa: PLC0415

        new = f"{jobs_dir}/.new-index-{os.urandom(6).hex()}"
        with _convert_errors(jobs_dir):
            # Another user's index could not be written, or not be marked, by the owner of the jobs.
            if os.stat(jobs_dir).st_uid != os.geteuid() or describe_problem(Path(jobs_dir)):
                raise IndexUnusable("the jobs belong to another user, or are on a network file system")
            discard(jobs_dir)
            os.mkdir(new, 0o700)
            try:
                os.mkdir(f"{new}/{_CHANGING}", 0o700)
                with closing(_connect(f"{new}/{_DATABASE}", mode="rwc")) as database:
                    database.executescript(_TABLES)
                with open(f"{new}/{_IDENTITY}", "xb") as file:
                    file.write(_build_identity(jobs_dir, new))
                os.rename(new, f"{jobs_dir}/{FOLDER}")
            except BaseException:
                _remove(new)
                raise
        _mark_locked_jobs(jobs_dir)
        index = cls.open(jobs_dir)
        if index is None:
            raise IndexUnusable("replaced meanwhile")
        return index

    @classmethod
    def open_for_many(cls, jobs_dir: str, least: int | None = None) -> JobIndex | None:
        """Open the index, or make it if there are at least so many jobs (LEAST_JOBS); None if there are fewer, and no index."""
        if (index := cls.open(jobs_dir)) is not None:
            return index
        return cls.make(jobs_dir) if len(list_job_ids(jobs_dir)) >= (least or LEAST_JOBS) else None

    def __del__(self) -> None:
        self._database.close()

    def is_open_for(self, jobs_dir: str) -> bool:
        """Return whether this is still the index of a directory, and not one that was replaced meanwhile."""
        if self.jobs_dir != jobs_dir:
            return False
        try:
            return os.path.samestat(os.stat(_join_database(jobs_dir)), self._file)
        except OSError:
            return False

    def is_complete(self) -> bool:
        """Return whether all jobs have been indexed once."""
        return bool(self._select("PRAGMA user_version")[0][0])

    def refresh(self, *, with_texts: bool = False) -> None:
        """Compare all jobs with their files, and index again those that were changed without Logist.

        Reads only files that are not those of the row; `with_texts`, all of them: a row doesn't say which job.yaml it
        was made from.
        """
        with _convert_errors(self.jobs_dir):
            markers = self._list_markers()
            ids = list_job_ids(self.jobs_dir)
            changed = self._find_changed(ids)
            self.update(sorted({*ids, *changed}) if with_texts else list(changed))
            self._settle_markers(markers)
            if not self.is_complete():
                self._database.execute("PRAGMA user_version = 1")

    def refresh_some(self, ids: Iterable[str]) -> bool:
        """The same for some jobs of the index; return whether one was changed."""
        is_changed = False
        with _convert_errors(self.jobs_dir):
            for chunk in _split(ids):
                rows = self._select_some("id, stamp", "jobs", chunk)
                changed = [job_id for job_id, stamp in rows if self._read_stamp(job_id) != stamp]
                self.update(changed)
                is_changed |= bool(changed)
        return is_changed

    def find_unsettled(self) -> set[str]:
        """Return the jobs whose files say more than the index; some may not exist."""
        unpublished = list_unpublished(self.jobs_dir)
        names = (name.rpartition(".")[0] for name in self._list_markers())
        rows = self._select("SELECT id FROM jobs WHERE NOT settled")
        found = {*filter(is_job_id, names), *(job_id for (job_id,) in rows)}
        return found - unpublished - list_unpublished(self.jobs_dir)

    def list_ids(self, wanted: JobFilter) -> list[str]:
        """Return the settled jobs that a filter shows, in no order."""
        condition, values = wanted.build_condition()
        rows = self._select(f"SELECT id FROM jobs WHERE {condition}", values)  # noqa: S608
        return [job_id for (job_id,) in rows]

    def count_jobs(self) -> int:
        """Return the number of jobs, as far as they were indexed."""
        count: int = self._select("SELECT COUNT(*) FROM jobs")[0][0]
        return count

    def count_by_status(self) -> dict[str, int]:
        """Return the number of settled jobs in each status."""
        return dict(self._select("SELECT status, COUNT(*) FROM jobs WHERE settled GROUP BY status"))

    def list_places(self, wanted: JobFilter, limit: int | None = None) -> PlacedJobs:
        """Return where a listing shows the settled jobs that pass a filter, and which jobs are not settled.

        `limit`: how many are shown. Then only those are returned that may be among them, or below a job that isn't settled;
        not those that are, by hand, above each other.
        """
        with self._read_at_once():
            unsettled = self._find_unsettled_for(wanted)
            if limit is None:
                condition, values = wanted.build_condition(looked_up=self._choose_lookups(wanted))
                query = f"SELECT {_PLACE} FROM jobs WHERE {condition}"  # noqa: S608
                clause = JobOrder().build_clause(is_after_search=not wanted.is_empty)[1]
                top = self._select(f"{query} AND parent IS NULL {clause}", values)
                return PlacedJobs(unsettled, top, self._select(f"{query} AND parent IS NOT NULL", values))
            most = limit + len(unsettled)
            top, orphans = self._find_roots(wanted, most)
            roots = [place[2] for place in sorted([*top, *orphans], key=itemgetter(0, 1, 2))[:most]]
            return PlacedJobs(unsettled, top, [*orphans, *self._list_below([*roots, *unsettled], wanted)])

    def _find_roots(self, wanted: JobFilter, most: int) -> tuple[list[LevelPlace], list[LevelPlace]]:
        """Return the first settled jobs that pass a filter and have no parent, and the child jobs up to the last of these
        whose parents don't pass it, or don't exist.
        """
        above, above_values = wanted.build_condition("above", looked_up=())
        is_orphan = (
            "jobs.parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM jobs AS above"  # noqa: S608
            f" WHERE above.id = jobs.parent AND above.id <> jobs.id AND {above})"
        )
        for source in self._iter_sources(wanted, JobOrder()):
            top = source.select(_PLACE, "jobs.parent IS NULL", [], most)
            if len(top) == most:
                last = f"{is_orphan} AND (jobs.rank, jobs.created_at, jobs.id) < (?, ?, ?)"
                return top, source.select(_PLACE, last, [*above_values, *top[-1][:3]], most)
        return top, source.select(_PLACE, is_orphan, above_values, most)

    def _iter_sources(self, wanted: JobFilter, order: JobOrder) -> Iterator[_Source]:
        """Yield where to look for the first jobs that pass a filter: among the first ones in this order, where there are
        mostly enough; then among all.

        SQLite would have to choose between reading all jobs in order, and sorting all that pass, and knows not how many pass.
        """
        yield _Source(self._select, wanted, order, *_build_first_jobs(wanted, order), ())
        yield _Source(self._select, wanted, order, "jobs", [], self._choose_lookups(wanted))

    def _choose_lookups(self, wanted: JobFilter) -> list[str] | None:
        """Return the filters that few jobs pass; None if there are none: then all are as good.

        SQLite would assume that each status and each tag is rare.
        """
        conditions = wanted.list_conditions()
        conditions.pop("texts", None)  # each text would have to be searched
        rare = [
            name
            for name, (condition, values) in conditions.items()
            if self._select(
                f"SELECT COUNT(*) < {RARE} FROM (SELECT 1 FROM jobs WHERE {condition} LIMIT {RARE})",  # noqa: S608
                values,
            )
            == [(1,)]
        ]
        return rare or None

    def _list_below(self, ids: Iterable[str], wanted: JobFilter) -> list[LevelPlace]:
        """Return the settled jobs below these, at all levels, that pass a filter."""
        known, found, above = set[str](), list[LevelPlace](), list(ids)
        while above:
            known.update(above)
            below = self._select_places("jobs INDEXED BY by_parent", "parent", above, wanted)
            found += below
            above = [row[2] for row in below if row[2] not in known]
        return found

    def list_above(self, ids: Iterable[str], wanted: JobFilter) -> list[LevelPlace]:
        """Return those of these jobs that are settled and pass a filter, and so on with their parents."""
        known, found, below = set[str](), list[LevelPlace](), set(ids)
        while below:
            known |= below
            rows = self._select_places("jobs", "id", below, wanted)
            found += rows
            below = {row[3] for row in rows if row[3] is not None} - known
        return found

    def _select_places(
        self, table: str, column: str, ids: Iterable[str], wanted: JobFilter
    ) -> list[LevelPlace]:
        """Return the jobs that pass a filter and have one of these ids in a column."""
        condition, values = wanted.build_condition(looked_up=())
        return [
            row
            for chunk in _split(ids)
            for row in self._select(
                f"SELECT {_PLACE} FROM {table} WHERE {condition}"  # noqa: S608
                f" AND {column} IN ({', '.join('?' * len(chunk))})",
                [*values, *chunk],
            )
        ]

    def list_sorted(
        self, wanted: JobFilter, order: JobOrder, limit: int | None = None
    ) -> tuple[set[str], list[tuple[int | str, str, str]]]:
        """Return the same in another order: the jobs that are not settled, and for each of the others its value, its
        time of creation and its id.
        """
        column, _ = order.build_clause()
        columns = f"{column}, created_at, id"
        with self._read_at_once():
            unsettled = self._find_unsettled_for(wanted)
            if limit is not None:
                most = limit + len(unsettled)
                for source in self._iter_sources(wanted, order):
                    rows = source.select(columns, "TRUE", [], most)
                    if len(rows) == most:
                        break
                return unsettled, rows
            condition, values = wanted.build_condition(looked_up=self._choose_lookups(wanted))
            return unsettled, self._select(f"SELECT {columns} FROM jobs WHERE {condition}", values)  # noqa: S608

    def _find_unsettled_for(self, wanted: JobFilter) -> set[str]:
        """Return the jobs that a filter has to look for in their files."""
        unsettled = self.find_unsettled()
        if wanted.text is None:
            return unsettled
        return unsettled.union(each for (each,) in self._select("SELECT id FROM texts WHERE text IS NULL"))

    @contextmanager
    def _read_at_once(self) -> Iterator[None]:
        """Without this, a job that becomes settled between two queries would be in the result of neither."""
        self._select("BEGIN")
        try:
            yield
        finally:
            self._select("ROLLBACK")

    def iter_ready(self, statuses: frozenset[str] = frozenset(), tag: str | None = None) -> Iterator[Place]:
        """Yield the places of the settled jobs that may be ready to run, in order.

        `statuses`, `tag`: leave out jobs without these. Child jobs, and those that wait for them, are yielded in any case.
        """
        ready, settled = "may_run AND NOT is_held", "may_run AND NOT is_held AND settled"
        if not statuses and tag is None:
            yield from self._iter_pages(settled)
            return
        families = f"{settled} AND (parent IS NOT NULL OR children IS NOT NULL)"
        pages = [self._iter_pages(families)]
        # Each of these is in the order of an index, so that jobs without the status or the tag are not even met.
        for status in sorted(statuses) or map(str, Status):
            if tag is None:
                pages.append(self._iter_pages(f"{settled} AND status = ?", [status]))
            else:
                pages.append(self._iter_pages(f"{ready} AND tag = ? AND status = ?", [tag, status], "tags"))
        last = None
        for place in merge(*pages):
            if place != last:
                yield place
            last = place

    def has_tag(self, job_id: str, tag: str) -> bool:
        """Return whether a settled job has a tag."""
        return bool(self._select("SELECT 1 FROM tags WHERE id = ? AND tag = ?", [job_id, tag]))

    def list_successors(self, job_id: str) -> list[str]:
        """Return the jobs that wait for this one, or for others too, before they begin."""
        return [
            each for (each,) in self._select("SELECT id FROM predecessors WHERE predecessor = ?", [job_id])
        ]

    def list_held_successors(self) -> list[str]:
        """Return the jobs that wait for one that has failed, was canceled, does not exist, or that a person holds back."""
        query = (
            "SELECT DISTINCT due.id FROM predecessors AS due LEFT JOIN jobs AS above ON above.id = due.predecessor"
            " WHERE above.id IS NULL OR above.status IN"
            " ('FAILED', 'CANCELED', 'DRAFT', 'SUSPENDED')"
        )
        return [each for (each,) in self._select(query)]

    def list_unmet_pairs(self) -> list[tuple[str, str]]:
        """Return the jobs that wait for others before they begin: each predecessor that has not succeeded, and the job."""
        query = (
            "SELECT due.predecessor, due.id FROM predecessors AS due"
            " LEFT JOIN jobs AS above ON above.id = due.predecessor WHERE NOT coalesce(above.has_succeeded, 0)"
        )
        return self._select(query)

    def has_predecessors(self) -> bool:
        """Return whether any job has to wait for others before it begins."""
        return bool(self._select("SELECT 1 FROM predecessors LIMIT 1"))

    def read_after(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the predecessors of those jobs that have to wait for some before they begin."""
        rows = self._select_some("id, after", "jobs", ids)
        return {job_id: json.loads(after) for job_id, after in rows if after}

    def read_unmet(self, ids: Sequence[str]) -> dict[str, Unmet | None]:
        """Return for each settled job among these, by id, why the jobs after it must wait; None if it has succeeded."""
        rows = [
            row
            for chunk in _split(ids)
            for row in self._select_some("id, status, has_succeeded, settled", "jobs", chunk)
        ]
        return {
            job_id: None if succeeded else Unmet(job_id, status)
            for job_id, status, succeeded, settled in rows
            if settled
        }

    def read_brief(self, job_id: str) -> JobBrief | None:
        """Return what the queue needs to know about a settled job; None for any other."""
        columns = "status, rank, created_at, parent, children, is_over, has_work_due, after, has_succeeded"
        rows = self._select(f"SELECT {columns} FROM jobs WHERE id = ? AND settled", [job_id])  # noqa: S608
        if not rows:
            return None
        status, rank, created_at, parent, children, is_over, has_work_due, after, has_succeeded = rows[0]
        return JobBrief(
            status,
            rank,
            created_at,
            parent,
            json.loads(children) if children else [],
            bool(is_over),
            bool(has_work_due),
            after=json.loads(after) if after else (),
            has_succeeded=bool(has_succeeded),
        )

    def read_rows(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the rows of some jobs for listings, as JSON, by id."""
        return dict(self._select_some("id, row", "rows", ids))

    def read_cells(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the cells of `build_job_cells` for some jobs, as JSON, by id."""
        return dict(self._select_some("id, cells", "rows", ids))

    def update(self, ids: Sequence[str]) -> None:
        """Read jobs again, and write their rows; those that don't exist any more are removed."""
        with _convert_errors(self.jobs_dir):
            for chunk in _split(ids):
                entries = {job_id: _read_entry(self.jobs_dir, job_id) for job_id in chunk}
                # Afterwards: a job of a batch is in the list before it is in its place.
                for job_id in list_unpublished(self.jobs_dir).intersection(entries):
                    del entries[job_id]
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    for job_id, entry in entries.items():
                        self._write_entry(job_id, entry)
                    self._database.execute("COMMIT")
                except BaseException:
                    with suppress(Exception):
                        self._database.execute("ROLLBACK")
                    raise

    def _write_entry(self, job_id: str, entry: _Entry | None) -> None:
        # Another command may have changed the job since it was read. It writes the row after its change, so if the
        # files are still the same now, inside the transaction, its row comes after this one.
        if entry is None and _is_job(f"{self.jobs_dir}/{job_id}"):
            return
        if entry is not None and self._read_stamp(job_id) != entry.stamp:
            return
        write = self._database.execute
        had_succeeded = write("SELECT has_succeeded FROM jobs WHERE id = ?", [job_id]).fetchone() == (1,)
        write("DELETE FROM tags WHERE id = ?", [job_id])
        write("DELETE FROM predecessors WHERE id = ?", [job_id])
        if entry is None or entry.shown is None:
            write("DELETE FROM rows WHERE id = ?", [job_id])
            write("DELETE FROM texts WHERE id = ?", [job_id])
        if entry is None:
            write("DELETE FROM jobs WHERE id = ?", [job_id])
            if had_succeeded:
                self._hold_successors(job_id)
            return
        write(_INSERT, entry.job)
        if entry.after:
            rows = [(above, job_id) for above in entry.after]
            self._database.executemany("INSERT INTO predecessors VALUES (?, ?)", rows)
            write(_HOLD_JOB, [job_id])
        if had_succeeded != entry.has_succeeded:
            self._hold_successors(job_id)
        if entry.shown is not None:
            write("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", [job_id, *entry.shown])
            write("INSERT OR REPLACE INTO texts VALUES (?, ?)", [job_id, entry.text])
        if entry.tags:
            self._database.executemany(_TAG_JOB, [(tag, job_id) for tag in entry.tags])

    def _hold_successors(self, job_id: str) -> None:
        """Write anew whether the jobs after this one wait: it has succeeded, or no longer has."""
        self._database.execute(_HOLD_SUCCESSORS, [job_id])

    def _read_stamp(self, job_id: str) -> bytes:
        return _read_stamp(f"{self.jobs_dir}/{job_id}")

    def _find_changed(self, ids: Iterable[str]) -> Iterator[str]:
        """Yield the jobs whose rows are missing or old, and the rows without a job."""
        stored = self._iter_stamps()
        row = next(stored, None)
        jobs = os.open(self.jobs_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for job_id in ids:
                while row is not None and row[0] < job_id:
                    yield row[0]
                    row = next(stored, None)
                if row is None or row[0] != job_id:
                    yield job_id
                    continue
                if _read_stamp(job_id, jobs) != row[1]:
                    yield job_id
                row = next(stored, None)
        finally:
            os.close(jobs)
        while row is not None:
            yield row[0]
            row = next(stored, None)

    def _iter_stamps(self) -> Iterator[tuple[str, bytes]]:
        last = ""
        query = "SELECT id, stamp FROM jobs WHERE id > ? ORDER BY id LIMIT ?"
        while rows := self._select(query, [last, BATCH]):
            yield from rows
            last = rows[-1][0]

    def _iter_pages(
        self, condition: str, values: Sequence[object] = (), table: str = "jobs"
    ) -> Iterator[Place]:
        # Page by page, because an open query would keep other commands from writing.
        query = f"SELECT rank, created_at, id FROM {table} WHERE {condition}"  # noqa: S608
        order = "ORDER BY rank, created_at, id LIMIT ?"
        rows = self._select(f"{query} {order}", [*values, BATCH // 5])
        while rows:
            yield from rows
            rows = self._select(
                f"{query} AND (rank, created_at, id) > (?, ?, ?) {order}", [*values, *rows[-1], BATCH]
            )

    def _select(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with _convert_errors(self.jobs_dir):
            return self._database.execute(query, values).fetchall()

    def _select_some(self, columns: str, table: str, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        marks = ", ".join("?" * len(ids))
        return self._select(f"SELECT {columns} FROM {table} WHERE id IN ({marks})", ids)  # noqa: S608

    def _list_markers(self) -> list[str]:
        with _convert_errors(self.jobs_dir):
            return os.listdir(f"{self.jobs_dir}/{FOLDER}/{_CHANGING}")

    def _settle_markers(self, markers: Iterable[str]) -> None:
        """Index the jobs of killed commands again, and remove their markers.

        A command holds the job's lock as long as its marker is there, and markers have unique names. So if nobody
        holds the lock now, no command needs a marker that was listed before.
        """
        unpublished = list_unpublished(self.jobs_dir)
        for name in markers:
            job_id, folder = name.rpartition(".")[0], f"{self.jobs_dir}/{FOLDER}/{_CHANGING}"
            with suppress(FileNotFoundError):
                if not is_job_id(job_id) or not os.path.isdir(f"{self.jobs_dir}/{job_id}"):
                    is_abandoned = os.stat(f"{folder}/{name}").st_mtime < time.time() - _ABANDONED_SECONDS
                else:  # the command that makes a batch holds one lock for all of its jobs
                    is_abandoned = job_id not in unpublished and not _is_locked(f"{self.jobs_dir}/{job_id}")
                if is_abandoned:
                    self.update([job_id])
                    os.unlink(f"{folder}/{name}")


class _Source(NamedTuple):
    """Jobs among which a listing looks for the first ones that pass its filter."""

    run: Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
    wanted: JobFilter
    order: JobOrder
    table: str
    values: Sequence[object]
    """The parameters of `table`."""
    looked_up: Collection[str] | None
    """As in `JobFilter.build_condition`."""

    def select(
        self, columns: str, more: str, more_values: Sequence[object], most: int
    ) -> list[tuple[Any, ...]]:
        """Return the first settled jobs that pass the filter and the condition `more`."""
        condition, values = self.wanted.build_condition(looked_up=self.looked_up)
        clause = self.order.build_clause(is_after_search=True)[1]
        query = f"SELECT {columns} FROM {self.table} WHERE {condition} AND {more} {clause} LIMIT ?"  # noqa: S608
        return self.run(query, [*self.values, *values, *more_values, most])


def _build_first_jobs(wanted: JobFilter, order: JobOrder) -> tuple[str, list[str]]:
    """Return a subquery for the first jobs in an order, with its values; by rank, for the first ones with the wanted status."""
    rest = f"{order.build_clause()[1]} LIMIT {LOOKED_AT}"
    if order.key == "rank" and len(wanted.statuses) == 1:
        return f"(SELECT * FROM jobs WHERE status = ? {rest}) AS jobs", [*wanted.statuses]  # noqa: S608
    return f"(SELECT * FROM jobs {rest}) AS jobs", []  # noqa: S608


def _is_locked(folder: str) -> bool:
    from pathlib import Path  # noqa: PLC0415 - only what a killed or working command has marked needs it

    from logist.store.lock import find_lock_holder  # noqa: PLC0415

    return find_lock_holder(Path(folder)) is not None


def _mark_locked_jobs(jobs_dir: str) -> None:
    """Mark all jobs that commands are changing now: they have looked for an index before there was one."""
    with _convert_errors(jobs_dir):
        if systems.IS_LINUX:
            with open("/proc/locks", encoding="ascii") as locks:
                inodes = {int(inode) for inode in _LOCKED.findall(locks.read())}
            with os.scandir(jobs_dir) as scanned:
                locked = [entry.name for entry in scanned if entry.inode() in inodes]
        else:
            with os.scandir(jobs_dir) as scanned:
                locked = [entry.name for entry in scanned if _is_locked_on_macos(entry)]
    for name in locked:
        unfinished = _UNFINISHED.fullmatch(name)
        mark_change(jobs_dir, unfinished[1] if unfinished else name)


def _is_locked_on_macos(entry: os.DirEntry[str]) -> bool:
    with suppress(FileNotFoundError):
        return entry.is_dir(follow_symlinks=False) and systems.is_locked_on_macos(entry.path)
    return False


@contextmanager
def _convert_errors(jobs_dir: str) -> Iterator[None]:
    try:
        import sqlite3  # noqa: PLC0415 - takes 5 ms, and projects with few jobs don't need it
    except ImportError as error:  # some builds of Python are without it
        raise IndexUnusable(str(error)) from error
    try:
        yield
    except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_BUSY) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            discard(jobs_dir)  # damaged, or without a table, rather than locked, read-only or full
        raise IndexUnusable(str(error)) from error


def _connect(file: str, mode: str = "rw") -> sqlite3.Connection:
    import sqlite3  # noqa: PLC0415
    from urllib.parse import quote  # noqa: PLC0415

    database = sqlite3.connect(
        f"file:{quote(file)}?mode={mode}",
        timeout=_PATIENCE_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    # A killed process leaves a journal, which the next one rolls back. A crash of the machine may leave anything; the
    # index is made again then, so nothing needs to be flushed. No WAL: it creates files even for reading.
    # What is deleted is overwritten: a text may be removed from a job because it contains a secret.
    try:
        database.executescript(
            "PRAGMA synchronous = OFF; PRAGMA journal_mode = TRUNCATE; PRAGMA secure_delete = ON;"
        )
    except BaseException:
        database.close()
        raise
    return database


def _join_database(jobs_dir: str) -> str:
    return f"{jobs_dir}/{FOLDER}/{_DATABASE}"


def _build_identity(jobs_dir: str, folder: str) -> bytes:
    """Return what an index is made for: this directory, not a copy, and the time until the machine starts again."""
    if not (boot := systems.read_boot_id()):
        raise OSError("the id of this start of the machine is unknown")
    jobs, own = os.stat(jobs_dir), os.stat(folder, follow_symlinks=False)
    return f"{FORMAT} {boot} {own.st_dev} {own.st_ino} {jobs.st_ino}\n".encode()


def _read_stamp(folder: str, parent: int | None = None) -> bytes:
    """Return what is different after a change of state.json or of the history; _NO_STAMP if one is missing.

    `parent`: a descriptor of the directory that `folder` is relative to, which is quicker than an absolute path.
    A stamp has the time of the last change of status, because nobody can set that, unlike the time of the last change of content.
    """
    try:
        state = os.stat(f"{folder}/state.json", dir_fd=parent, follow_symlinks=False)
        history = os.stat(f"{folder}/jobHistory.json", dir_fd=parent, follow_symlinks=False)
    except OSError:
        return _NO_STAMP
    return _STAMP.pack(state.st_ino, state.st_size, state.st_ctime_ns, history.st_size, history.st_ctime_ns)


def _is_job(folder: str) -> bool:
    """Return whether this is the directory of a job: a file or a link in its place is none."""
    try:
        return stat.S_ISDIR(os.lstat(folder).st_mode)
    except OSError:
        return False


def _read_entry(jobs_dir: str, job_id: str) -> _Entry | None:
    """Read a job; None if it does not exist."""
    folder = f"{jobs_dir}/{job_id}"
    if not is_job_id(job_id) or not _is_job(folder):
        return None
    stamp = _read_stamp(
        folder
    )  # before the files: if they change meanwhile, the stamp is old, and they are read again
    glance = next(read_glances(jobs_dir, [job_id]))
    try:
        return _build_entry(folder, glance, stamp)
    except (KeyError, TypeError, ValueError, AttributeError):  # a stranger's; UnicodeEncodeError too
        unread = (*(job_id, stamp, 0, "?", 0, "", None, None, 0, 0, 0, None), *("", 0, None, 0, 0))
        return _Entry(stamp, unread, None, ())


def _build_entry(folder: str, glance: Glance, stamp: bytes) -> _Entry:
    state = glance.state
    if state is None:
        raise ValueError(glance.problem)
    row, brief = build_job_row(glance.id, state), build_brief(folder, state)
    if not -_MOST_RANK <= brief.rank < _MOST_RANK:
        raise ValueError("too large for SQLite")
    cost = amounts.join_cents(row["cost_cents"], row["cost_microcents"])
    if not -_MOST_RANK <= cost < _MOST_RANK:
        raise ValueError("too large for SQLite")
    tags = tuple({tag for tag in row["tags"] if isinstance(tag, str)})
    for text in (
        brief.status,
        brief.created_at,
        row["parent"] or "",
        row["assignee"] or "",
        row["updated_at"],
        *tags,
        *brief.after,
    ):
        text.encode()  # SQLite takes no lone surrogates
    has_agent = brief.status in RUNNING and (brief.has_work_due or brief.wait is not None)
    is_settled = bool(stamp) and not glance.behind and not has_agent
    may_run = brief.status in (*RUNNING, "WAITING") or brief.has_work_due
    job = (
        *(glance.id, stamp, is_settled, brief.status, brief.rank, brief.created_at, row["parent"]),
        *(row["assignee"], may_run, brief.has_work_due, brief.is_over),
        *(json.dumps(brief.children) if brief.children else None, row["updated_at"], cost),
        *(json.dumps(brief.after) if brief.after else None, brief.has_succeeded, False),
    )
    shown = json.dumps(row, separators=(",", ":")), json.dumps(build_job_cells(row), separators=(",", ":"))
    return _Entry(stamp, job, shown, tags, _read_text(folder, row), brief.after, brief.has_succeeded)


def _read_text(folder: str, row: Row) -> str | None:
    from logist.store.task_text import build_searched_text, read_task  # noqa: PLC0415 - only who writes an index needs it

    task = read_task(folder)
    if task is None or len(task) > _LONGEST_TASK:
        return None
    text = build_searched_text(row["id"], row["title"], task)
    return text if text.isascii() or _is_unicode(text) else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a half of a surrogate pair
        return False
    return True


def build_brief(folder: str, state: dict[str, Any]) -> JobBrief:
    """Return what the queue needs to know about the job in `folder`. A stranger's state may have any values."""
    status, rank, stuck = str(state.get("status")), state.get("rank"), state.get("stuck")
    has_no_attempts = isinstance(stuck, dict) and stuck.get("kind") == "attempts"
    parent, children = state.get("parent"), state.get("children")
    is_merge_due = status == "SUCCESS" and state.get("merge") == "due"
    return JobBrief(
        status,
        rank if isinstance(rank, int) else 0,
        str(state.get("created_at")),
        parent if isinstance(parent, str) else None,
        [str(child) for child in children] if isinstance(children, list) else [],
        status in _ENDED or has_no_attempts,
        is_merge_due or os.path.lexists(f"{folder}/inflight"),
        read_wait(folder, state.get("revision")) if status in RUNNING else None,
        predecessors.list_due(state),
        predecessors.has_succeeded(state),
    )


def _split(ids: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while chunk := list(islice(rest, BATCH)):
        yield chunk
