"""The costs page: what it adds up, its periods, and what it says of jobs that can't be read."""

from __future__ import annotations

import itertools
import os
import re
from datetime import date, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest

from logist.web import served_project
from logist.web.examples.making import complete, review
from logist.web.examples.project import ExampleProject, create_example_project
from logist.web.pages.costs import MOST_COLUMNS, list_spans
from tests.web.reader import Reader

TODAY = date(2026, 5, 31)


@pytest.fixture
def example(tmp_path: Path) -> ExampleProject:
    return create_example_project(tmp_path, os.environ)


def make(example: ExampleProject, job_id: str, days_ago: float, cents: float, model: str = "m") -> None:
    job = example.start_job(job_id, 24 * days_ago + 1)
    answers = complete("Done.", cost_cents=cents), review("PASS", "Good.", cost_cents=1)
    job.create("x", *answers, model=model, repo=False, approval="none")
    job.job.run()


def test_costs_are_added_up_by_day_model_and_role(example: ExampleProject, tmp_path: Path) -> None:
    make(example, "new", 1, 40, "large")
    make(example, "old", 20, 7, "small")
    make(example, "older", 60, 5, "small")
    reader = Reader(example, tmp_path / "serve")
    text = reader.read_text("/costs")
    assert "Costs of shop" in text
    assert "$0.49 for 4 runs of agents; 2 jobs ended" in text
    assert "$0.41 for 2 runs of agents; 1 job ended" in reader.read_text("/costs?days=7")
    assert "$0.55 for 6 runs of agents; 3 jobs ended" in reader.read_text("/costs?days=all")
    assert "Model Cost Runs large $0.41 2 small $0.08 2" in text
    assert "Role Cost Runs Worker $0.47 2 Supervisor $0.02 2" in text
    assert "Model Runs completed retry stuck unanswered large 2 2 0 0 0 small 2 2 0 0 0" in text
    day = (example.began - timedelta(days=1)).astimezone().date()
    assert re.search(f"Day Cost Runs ({day}|{day - timedelta(days=1)}) \\$0.41 2 ", text)
    page = reader.read("/costs")
    assert " style=" not in page
    drawings = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    assert len(drawings) == 6
    ids = [each.get("id") for drawing in drawings for each in ElementTree.fromstring(drawing).iter()]
    named = [each for each in ids if each]
    assert len(named) == len(set(named)) == 12


def test_a_model_with_a_hostile_name_is_text(example: ExampleProject, tmp_path: Path) -> None:
    make(example, "a", 1, 2, "</svg><script>alert(1)</script>\u202e")
    page = Reader(example, tmp_path / "serve").read("/costs")
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_jobs_that_cannot_be_read_are_named(example: ExampleProject, tmp_path: Path) -> None:
    make(example, "good", 1, 2)
    make(example, "bad", 1, 2)
    history = example.open().open_job("bad").history_file
    history.write_text(history.read_text()[:-200])
    reader = Reader(example, tmp_path / "serve")
    text = reader.read_text("/costs")
    assert "1 job could not be read, and is not counted bad :" in text
    assert "$0.03 for 2 runs" in text


def test_a_new_run_is_seen_at_once(
    example: ExampleProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_project, "FRESH_SECONDS", -1)
    reader = Reader(example, tmp_path / "serve")
    assert "No agent has worked yet in this period." in reader.read_text("/costs")
    make(example, "a", 1, 2)
    assert "$0.03 for 2 runs" in reader.read_text("/costs")


@pytest.mark.parametrize(
    ("days", "columns", "length"),
    [
        (1, 1, 1),
        (7, 7, 1),
        (90, 90, 1),
        (MOST_COLUMNS, MOST_COLUMNS, 1),
        (93, 14, 7),
        (700, 25, 28),
        (5000, 14, 364),
    ],
)
def test_a_column_is_longer_for_a_longer_period(days: int, columns: int, length: int) -> None:
    spans = list_spans(TODAY - timedelta(days=days - 1), TODAY)
    assert len(spans) == columns
    assert {(end - start).days + 1 for start, end in spans} == {length}
    assert spans[-1][1] == TODAY
    assert spans[0][0] <= TODAY - timedelta(days=days - 1) <= spans[0][1]
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert start == end + timedelta(days=1)
