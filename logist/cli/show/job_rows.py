"""Reads the rows of all jobs for listings. Has few imports, because `job list` must start quickly."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from logist.cli.show import glance
from logist.cli.show.output import Diagnostic, EncodedRows, decode_texts, make_warnings
from logist.core.machine.job_row import RUNNING, add_unmet, build_job_cells, build_job_row
from logist.core.machine.predecessors import Unmet
from logist.errors import Damaged, LogistError
from logist.formats import UPGRADE
from logist.jobs.base.predecessors import examine_predecessor, find_unmet
from logist.quick_tuple import NamedTuple
from logist.store.job_index import BATCH, IndexUnusable, JobFilter, JobIndex, JobOrder, LevelPlace
from logist.store.listing import REBUILD, Glance, list_job_ids, read_glances

DEEPEST = 10
"""Levels of parent jobs to follow. Logist creates at most 5; files from another tool may have more, or a loop."""

Row = dict[str, Any]


class JobListing(NamedTuple):
    """The jobs that a listing shows."""

    rows: list[Row] | EncodedRows
    """Sorted by rank, then by age, each child below its parent, if that is shown."""
    is_empty: bool
    problems: tuple[Diagnostic, ...]
    """For each job that can't be read."""
    waits: list[tuple[str, str]]
    """The ids of the jobs that wait for their provider, and what they wait for."""

    iter_cells: Callable[[], Iterable[tuple[str, ...]]]
    """Yields the cells of the rows, without colors."""

    def iter_rows(self) -> Iterator[Row]:
        """Yield the rows; only once."""
        return self.rows.decode() if isinstance(self.rows, EncodedRows) else iter(self.rows)


def read_listing(
    folder: str,
    wanted: JobFilter,
    order: JobOrder = JobOrder(),  # noqa: B008 - it has no state
    limit: int | None = None,
    *,
    refresh: bool = False,
) -> JobListing:
    """Return the jobs that pass a filter, at most `limit` of them: with the index, if there are many jobs.

    Changes without Logist are noticed if all jobs are wanted, or with `refresh`.
    """
    with suppress(IndexUnusable):
        if (index := JobIndex.open_for_many(folder)) is not None:
            return _read_indexed_listing(index, folder, wanted, order, limit, refresh=refresh)
    rows, problems, waits = read_job_rows(folder)
    rows = [row for row in rows if _is_shown(folder, row, wanted)]
    rows = _sort_by(rows, order)[:limit]
    shown_waits = [(row["id"], waits[row["id"]]) for row in rows if row["id"] in waits]
    return JobListing(rows, not rows, problems, shown_waits, lambda: map(_list_cells, rows))


def _read_indexed_listing(
    index: JobIndex, folder: str, wanted: JobFilter, order: JobOrder, limit: int | None, *, refresh: bool
) -> JobListing:
    is_refreshed = refresh or (wanted.is_empty and limit is None) or not index.is_complete()
    if is_refreshed:
        index.refresh(with_texts=refresh and wanted.text is not None)
    found = _find_jobs(index, folder, wanted, order, limit)
    if not is_refreshed and index.refresh_some(each for each in found.ids if each not in found.unsettled):
        found = _find_jobs(index, folder, wanted, order, limit)
    unsettled, rows, problems, waits, ids = found
    texts = _iter_texts(_HeldRows(index, folder, unsettled).read, _encode_row, folder, ids, rows)
    cells = _iter_texts(index.read_cells, lambda row: json.dumps(_list_cells(row)), folder, ids, rows)
    shown_waits = [(each, waits[each]) for each in (ids if waits else ()) if each in waits and each in rows]
    return JobListing(EncodedRows(texts), not ids, problems, shown_waits, lambda: decode_texts(cells))


class _FoundJobs(NamedTuple):
    """The jobs that a listing shows, and what was read from the files of those that are not settled."""

    unsettled: set[str]
    rows: dict[str, Row]
    """Those of the jobs that are not settled, and pass the filter."""
    problems: tuple[Diagnostic, ...]
    waits: dict[str, str]
    ids: list[str]
    """All jobs, in order."""


def _find_jobs(
    index: JobIndex, folder: str, wanted: JobFilter, order: JobOrder, limit: int | None
) -> _FoundJobs:
    if order.has_levels:
        unsettled, top, children = index.list_places(wanted, limit)
        settled = [*top, *children]
    else:
        unsettled, values = index.list_sorted(wanted, order, limit)
    existing = sorted(each for each in unsettled if os.path.isdir(f"{folder}/{each}"))
    read, problems, waits = read_job_rows(folder, existing)
    rows = {row["id"]: row for row in read if _is_shown(folder, row, wanted)}
    if order.has_levels:
        places = [(row["rank"], row["created_at"], row["id"], row["parent"]) for row in rows.values()]
        if limit is not None:
            settled += _list_missing_parents(index, wanted, [*settled, *places])
            settled = list({place[2]: place for place in settled}.values())
        if unsettled:
            settled = [each for each in settled if each[2] not in unsettled]
        ids = _sort_places([*settled, *places])[:limit]
    else:
        values = [each for each in values if each[2] not in unsettled]
        ids = order.sort([*values, *(_build_value(order, row) for row in rows.values())])[:limit]
    return _FoundJobs(unsettled, rows, problems, waits, ids)


def _list_missing_parents(index: JobIndex, wanted: JobFilter, places: list[LevelPlace]) -> list[LevelPlace]:
    """Return the places of the jobs above these that are not among them: without those, child jobs would be sorted as if
    they had no parent.
    """
    above = {parent for *_, parent in places if parent is not None} - {place[2] for place in places}
    return index.list_above(above, wanted) if above else []


class _HeldRows:
    """Reads rows from the index, with what the jobs wait for: that follows from the states of other jobs."""

    def __init__(self, index: JobIndex, folder: str, unsettled: Collection[str]) -> None:
        self._index, self._folder, self._unsettled = index, folder, unsettled
        self._has_some = index.has_predecessors()
        self._examined: dict[str, Unmet | None] = {}

    def read(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the rows of some jobs as JSON, by id."""
        texts = self._index.read_rows(ids)
        after = self._index.read_after(ids) if self._has_some else {}
        self._examine({each for due in after.values() for each in due})
        for job_id, due in after.items():
            unmet = [found for each in due if (found := self._examined[each]) is not None]
            if unmet and job_id in texts:
                texts[job_id] = _encode_row(add_unmet(json.loads(texts[job_id]), due, unmet))
        return texts

    def _examine(self, ids: set[str]) -> None:
        new = sorted(ids - self._examined.keys())
        settled = self._index.read_unmet([each for each in new if each not in self._unsettled])
        for job_id in new:
            is_indexed = job_id in settled
            self._examined[job_id] = (
                settled[job_id] if is_indexed else examine_predecessor(self._folder, job_id)
            )


def _is_shown(folder: str, row: Row, wanted: JobFilter) -> bool:
    if not wanted.matches(row):
        return False
    return wanted.text is None or wanted.text in _read_searched_text(folder, row)


def _read_searched_text(folder: str, row: Row) -> str:
    from logist.store.task_text import build_searched_text, join_task, read_task

    place = f"{folder}/{row['id']}"
    task = read_task(place)
    if task is None:
        from pathlib import Path

        from logist import documents

        try:
            task = join_task(documents.read_document(Path(place, "job.yaml")).data)
        except LogistError:  # the id and the title are known all the same
            task = ""
    return build_searched_text(row["id"], row["title"], task)


def _sort_by(rows: list[Row], order: JobOrder) -> list[Row]:
    if order.has_levels:
        return sort_rows(rows)
    by_id = {row["id"]: row for row in rows}
    return [by_id[job_id] for job_id in order.sort([_build_value(order, row) for row in rows])]


def _build_value(order: JobOrder, row: Row) -> tuple[int | str, str, str]:
    return order.get_value(row), row["created_at"], row["id"]


def _list_cells(row: Row) -> tuple[str, ...]:
    return (row["id"], row["status"], "", "", "") if row["status"] == glance.UNKNOWN else build_job_cells(row)


def _sort_places(places: list[LevelPlace]) -> list[str]:
    """Return the ids in the order of `sort_rows`."""
    if all(place[3] is None for place in places):
        places.sort(key=itemgetter(0, 1, 2))
        return [place[2] for place in places]
    names = ("rank", "created_at", "id", "parent")
    return [row["id"] for row in sort_rows([dict(zip(names, place, strict=True)) for place in places])]


def _iter_texts(
    read: Callable[[Sequence[str]], dict[str, str]],
    encode: Callable[[Row], str],
    folder: str,
    ids: list[str],
    rows: dict[str, Row],
) -> Iterator[str]:
    """Yield what `read` returns for `ids` from the index, and `encode` for `rows`, which were read from their files.

    Jobs that were deleted meanwhile are left out.
    """
    for begin in range(0, len(ids), BATCH):
        part = ids[begin : begin + BATCH]
        indexed = [job_id for job_id in part if job_id not in rows]
        try:
            texts = read(indexed)
        except IndexUnusable:  # another command has found it damaged
            existing = [each for each in indexed if os.path.isdir(f"{folder}/{each}")]
            texts = {row["id"]: encode(row) for row in read_job_rows(folder, existing)[0]}
        for job_id in part:
            if job_id in rows:
                yield encode(rows[job_id])
            elif job_id in texts:
                yield texts[job_id]


def _encode_row(row: Row) -> str:
    return json.dumps(row, separators=(",", ":"))


def read_job_rows(
    folder: str, ids: list[str] | None = None
) -> tuple[list[Row], tuple[Diagnostic, ...], dict[str, str]]:
    """Return the row of every job, or of those with these ids, from their files.

    Also a problem for each job that can't be read, and what jobs wait for their provider.
    """
    rows: list[Row] = []
    waits: dict[str, str] = {}
    problems: list[Diagnostic] = []
    for seen in read_glances(folder, ids):
        problem = seen.problem
        if seen.state is not None:
            try:
                is_running = seen.asked and _is_held(folder, seen)
                wait = glance.read_provider_wait(f"{folder}/{seen.id}", seen.state)
                unmet = () if is_running else find_unmet(folder, seen.state)
                row = build_job_row(
                    seen.id, seen.state, running=is_running, wait=wait and wait.to_json(), unmet=unmet
                )
                rows.append(_read_row_from_history(folder, seen, row, problems) if seen.behind else row)
                if wait and not is_running and not seen.behind:
                    waits[seen.id] = f"waits for {wait.describe()}"
                continue
            except (KeyError, TypeError):
                problem = "invalid state.json"
            except Damaged as error:
                problem = error.message
        # `doctor --fix` can do nothing for a job of a newer Logist; `doctor` explains it.
        rows.append(glance.build_unknown_row(seen.id, "logist doctor" if seen.is_newer else REBUILD))
        problems.append(
            _warn_unreadable(folder, seen.id, problem or "", UPGRADE if seen.is_newer else REBUILD)
        )
    return rows, tuple(problems), waits


def _read_row_from_history(folder: str, seen: Glance, row: Row, problems: list[Diagnostic]) -> Row:
    """Return the row according to the history, which is newer than state.json; `row` itself if the history can't
    be read.
    """
    from logist.cli.rebuilt_state import rebuild_state

    try:
        state, notes = rebuild_state(folder, seen.id)
    except LogistError as error:
        problems.append(_warn_unreadable(folder, seen.id, error.message, error.fix))
        return row
    problems += [
        each._replace(target=f"{folder}/{seen.id}") for each in make_warnings(notes, "state_rebuilt")
    ]
    asked = seen.asked and state["status"] in RUNNING
    is_running = asked and _is_held(folder, seen)
    return build_job_row(seen.id, state, running=is_running, unmet=find_unmet(folder, state))


def _warn_unreadable(folder: str, job_id: str, problem: str, fix: str | None = REBUILD) -> Diagnostic:
    return Diagnostic("warning", "unreadable", problem, f"{folder}/{job_id}", fix)


def _is_held(folder: str, seen: Glance) -> bool:
    """Return whether a command or courier is working on a job that has an exchange in flight."""
    from pathlib import Path

    from logist.store import JobDir

    return JobDir(Path(folder, seen.id), seen.id).find_lock_holder() is not None


def count_jobs(folder: str) -> int:
    """Return the number of jobs, with the index if there is one: it may not know what was changed without Logist."""
    with suppress(IndexUnusable):
        if (index := JobIndex.open(folder)) is not None and index.is_complete():
            return index.count_jobs()
    return len(list_job_ids(folder))


def note_no_jobs(folder: str) -> tuple[Diagnostic, ...]:
    """Return the note that there are no jobs to show."""
    return (Diagnostic("info", "no_jobs", "no jobs found", folder, 'logist job create --prompt "..."'),)


def sort_rows(rows: list[Row]) -> list[Row]:
    """Return the rows by rank, then by age, each child below its parent."""
    by_id = {row["id"]: row for row in rows}
    return sorted(rows, key=lambda row: _build_sort_key(row, by_id))


def _build_sort_key(row: Row, by_id: dict[str, Row]) -> tuple[tuple[int, str, str], ...]:
    """Return the sort key that puts a job below its parent, if that is listed; `by_id` has the listed jobs."""
    above: Row | None = row
    places: list[tuple[int, str, str]] = []
    while above is not None and len(places) <= DEEPEST:
        places.append((above["rank"], above["created_at"], above["id"]))
        above = by_id.get(above["parent"] or "")
    return tuple(reversed(places))
