"""Which ready jobs a run selects: the same from the index of many jobs as from their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logist.jobs.job_queue import list_left_jobs, run_queue
from logist.jobs.run_selection import RunSelection
from logist.store import job_index
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


def test_no_more_jobs_are_begun_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_index, "LEAST_JOBS", 1)
    b = Bench(tmp_path, [answer(), answer()])
    for number in range(5):
        b.create(f"j{number}", rank=number, approval="none")
    selection = RunSelection(most_jobs=2)
    ended = run_queue(b.project, 4, lambda _: None, selection=selection)
    assert sorted(each.job_id for each in ended) == ["j0", "j1"]
    assert (selection.is_full, list_left_jobs(b.project, selection)) == (True, ["j2", "j3", "j4"])
