"""What jobs cost by day: local days, each history read once, and nothing counted twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from logist.core.history.statistics import StatisticsTable
from logist.core.history.statistics_words import RunEnding
from logist.core.model import JsonObject, Kind
from logist.jobs.archive.daily_statistics import BY, DailyStatistics, DailyTotals, find_local_day
from logist.jobs.archive.job_fork import fork_job
from logist.jobs.archive.recorded_jobs import Archive
from logist.jobs.steward.steward_decisions import record_decision, rerun_job
from logist.store import list_jobs
from tests.jobs.bench import Bench, answer
from tests.jobs.conftest import MakeBench

COST = {"cost_cents": 3, "input_tokens": 10, "output_tokens": 2}


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


def archives(b: Bench) -> list[Archive]:
    return [Archive.from_job(b.project.open_job(job_id)) for job_id in list_jobs(b.project.jobs_dir)]


def gather(b: Bench) -> DailyTotals:
    return DailyStatistics().gather(archives(b), {})


def sum_cost(totals: DailyTotals) -> int:
    return sum(tally.used.microcents for tally in totals.runs.values())


def test_the_numbers_are_those_of_the_statistics(bench: MakeBench) -> None:
    b = bench([answer(usage=COST), answer(usage=COST)])
    b.create("j", approval="none")
    b.run("j")
    totals, table = gather(b), StatisticsTable(BY)
    for archive in archives(b):
        table.add_history(archive.name, archive.read_entries())
    assert totals.runs == table.groups
    assert sum_cost(totals) == 6_000_000
    [status] = [status for _, status in totals.ended]
    assert status == "SUCCESS"


def test_days_are_local(zone: pytest.MonkeyPatch) -> None:
    for name, day in (("Pacific/Auckland", "2026-01-02"), ("America/New_York", "2026-01-01")):
        zone.setenv("TZ", name)
        time.tzset()
        assert find_local_day("2026-01-01T20:00:00Z") == day
    for nonsense in ("", "yesterday", "9999-99-99T00:00:00Z"):
        assert find_local_day(nonsense) is None
    assert find_local_day(5) is None


def test_a_history_is_read_again_only_if_it_has_changed(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench([answer(usage=COST)])
    for name in ("a", "b"):
        b.create(name, review=False, approval="none")
    b.run("a")
    read: list[str] = []
    entries = Archive.read_entries

    def read_entries(archive: Archive) -> Iterator[JsonObject]:
        read.append(archive.name)
        return entries(archive)

    monkeypatch.setattr(Archive, "read_entries", read_entries)
    statistics = DailyStatistics()
    first = statistics.gather(archives(b), {"a": 1, "b": 1})
    assert sorted(read) == ["a", "b"]
    assert statistics.gather(archives(b), {"a": 1, "b": 1}) == first
    assert sorted(read) == ["a", "b"]
    b.run("b")
    second = statistics.gather(archives(b), {"a": 1, "b": 2})
    assert sorted(read) == ["a", "b", "b"]
    assert second == gather(b)
    assert sum_cost(second) == 2 * sum_cost(first)
    only = statistics.gather(archives(b)[:1], {"a": 1})
    assert sum_cost(only) == sum_cost(first)  # the other one is forgotten


def test_a_job_counts_as_ended_on_the_last_day_that_it_ended(bench: MakeBench) -> None:
    b = bench([answer()])
    b.create("j", review=False, approval="none")
    b.run("j")
    assert [status for _, status in gather(b).ended] == ["SUCCESS"]
    record_decision(b.project, "j", Kind.NOTE, note="Well done")
    assert [status for _, status in gather(b).ended] == ["SUCCESS"]
    rerun_job(b.project, "j")
    assert not gather(b).ended
    record_decision(b.project, "j", Kind.CANCEL)
    assert list(gather(b).ended.values()) == [1]
    assert [status for _, status in gather(b).ended] == ["CANCELED"]


def test_the_work_of_a_fork_is_not_counted_twice(bench: MakeBench) -> None:
    b = bench([answer(usage=COST)])
    b.create("j", review=False, approval="none")
    b.run("j")
    before = gather(b)
    fork_job(b.project, "j", None, new_id="k")
    after = gather(b)
    assert (sum_cost(after), sum(after.ended.values())) == (sum_cost(before), 1)


def test_a_damaged_history_is_named_and_counts_nothing(bench: MakeBench) -> None:
    b = bench([answer(usage=COST), answer(usage=COST)])
    for name in ("good", "bad"):
        b.create(name, review=False, approval="none")
        b.run(name)
    history: Path = b.project.open_job("bad").history_file
    text = history.read_text()
    history.write_text(text[: len(text) // 2])
    (history.parent / "damaged-on-purpose").touch()
    totals = gather(b)
    assert list(totals.left_out) == ["bad"]
    assert sum_cost(totals) == 3_000_000
    assert {ending for tally in totals.runs.values() for ending, n in tally.ended.items() if n} == {
        RunEnding.COMPLETED
    }
