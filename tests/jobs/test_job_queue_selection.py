"""Which ready jobs a run selects: the same from the index of many jobs as from their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Kind
from logist.jobs.job_queue import list_left_jobs, run_queue
from logist.jobs.run_selection import RunSelection
from logist.jobs.steward.steward_decisions import record_decision
from logist.store import job_index
from logist.store.job_index import JobIndex
from tests.jobs.bench import Bench, answer


@pytest.mark.parametrize("least", [1, 1_000], ids=["index", "files"])
@pytest.mark.parametrize(
    ("selected", "jobs"),
    [
        ({}, ["late", "new", "plain", "tagged"]),
        ({"tag": "nightly"}, ["late", "tagged"]),
        ({"statuses": frozenset({"PENDING"})}, ["late", "new", "plain"]),
        ({"statuses": frozenset({"REVIEW_REQUIRED"})}, ["tagged"]),
        ({"tag": "nightly", "statuses": frozenset({"PENDING"})}, ["late"]),
        ({"tag": "none"}, []),
    ],
)
def test_a_run_takes_the_selected_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, selected: dict[str, Any], jobs: list[str], least: int
) -> None:
    monkeypatch.setattr(job_index, "LEAST_JOBS", least)
    b = Bench(tmp_path, [answer(), answer()])
    for job_id, tags in (("plain", []), ("tagged", ["nightly", "x"]), ("late", ["nightly"]), ("new", ["x"])):
        b.create(job_id, tags=tags, approval="none")
    b.step("tagged")
    assert sorted(list_left_jobs(b.project, RunSelection(**selected))) == jobs
    ended = run_queue(b.project, 1, lambda _: None, selection=RunSelection(**selected))
    assert sorted(each.job_id for each in ended) == jobs


def test_a_tagged_job_is_held_back_by_the_index_until_its_predecessors_have_succeeded(tmp_path: Path) -> None:
    b = Bench(tmp_path, [answer()])
    b.create("first", review=False, approval="none")
    b.create("second", tags=["nightly", "x"], after=["first"])
    index = JobIndex.make(str(b.project.jobs_dir))
    index.refresh()
    assert list(index.iter_ready(tag="nightly")) == []
    b.step("first")
    assert [place[2] for place in index.iter_ready(tag="nightly")] == ["second"]
    assert [place[2] for place in index.iter_ready(frozenset({"PENDING"}), "x")] == ["second"]
    assert list(index.iter_ready(frozenset({"REVIEW_REQUIRED"}), "x")) == []
    record_decision(b.project, "first", Kind.RERUN)
    assert list(index.iter_ready(tag="nightly")) == []


@pytest.mark.parametrize("is_held", [0, 1])
@pytest.mark.parametrize(
    ("statuses", "tag"),
    [(["REVIEW_REQUIRED"], None), ([], "none"), (["PENDING"], "none"), (["STUCK"], "all")],
)
def test_a_selection_without_jobs_does_not_read_the_ready_jobs(
    tmp_path: Path, statuses: list[str], tag: str | None, is_held: int
) -> None:
    b = Bench(tmp_path, [answer()])
    b.create("j", tags=["all"])
    index = JobIndex.make(str(b.project.jobs_dir))
    index.refresh()
    columns = [row[1] for row in index._select("PRAGMA table_info(jobs)")]
    copied = ", ".join("'j' || value" if each == "id" else each for each in columns)
    index._database.executescript(
        f"""
        INSERT INTO jobs WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 3000)
        SELECT {copied} FROM jobs, n WHERE id = 'j';
        DELETE FROM tags;
        INSERT INTO tags SELECT 'all', id, status, rank, created_at, may_run, is_held FROM jobs;
        UPDATE jobs SET is_held = {is_held};
        """
    )
    instructions = 0

    def count() -> int:
        nonlocal instructions
        instructions += 100
        return 0

    index._database.set_progress_handler(count, 100)
    assert list(index.iter_ready(frozenset(statuses), tag)) == []
    assert instructions < 3_000, "one for each ready job would be more"


def test_no_more_jobs_are_begun_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_index, "LEAST_JOBS", 1)
    b = Bench(tmp_path, [answer(), answer()])
    for number in range(5):
        b.create(f"j{number}", rank=number, approval="none")
    selection = RunSelection(most_jobs=2)
    ended = run_queue(b.project, 4, lambda _: None, selection=selection)
    assert sorted(each.job_id for each in ended) == ["j0", "j1"]
    assert (selection.is_full, list_left_jobs(b.project, selection)) == (True, ["j2", "j3", "j4"])
