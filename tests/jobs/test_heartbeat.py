"""The heartbeat file of a run: its format, its figures, and a disk that doesn't take it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from logist import __version__
from logist.core.model import Status
from logist.jobs.heartbeat import Heartbeat, JobCounts, RunFigures, count_jobs, format_figures
from logist.jobs.job_queue import run_queue
from logist.store.job_index import JobIndex
from tests.jobs.bench import Bench, answer
from tests.jobs.conftest import MakeBench
from tests.support import ROOT

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?\d+(?:\.\d+)?)")


class Family(NamedTuple):
    kind: str
    samples: dict[str, float]


def parse(text: str) -> dict[str, Family]:
    """Read the text format strictly: help, type, then the samples of each family, once, and nothing else."""
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    lines = iter(text[:-1].split("\n"))
    name, helped = "", ""
    for line in lines:
        if line.startswith("# HELP "):
            helped, _, words = line.removeprefix("# HELP ").partition(" ")
            assert re.fullmatch(NAME, helped)
            assert words
            assert "\\" not in words
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name == helped
            assert kind in ("gauge", "counter")
            assert name.endswith("_total") == (kind == "counter")
            assert name not in families
            families[name] = Family(kind, {})
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == name
            assert (sample[2] or "") not in families[name].samples
            families[name].samples[sample[2] or ""] = float(sample[3])
    assert all(family.samples for family in families.values())
    return families


def read_value(path: Path, name: str, labels: str = "") -> float:
    return parse(path.read_text("utf-8"))[f"logist_{name}"].samples[labels]


def test_the_format_is_that_of_prometheus_with_help_and_type() -> None:
    figures = RunFigures(
        1.5, 2.25, errors=3, steps=4, calls=5, microcents=123_456_789, input_tokens=6, output_tokens=7
    )
    counts = JobCounts({"STUCK": 2, "HALTED_COST": 1, "SUCCESS": 10**9, "FUTURE": 1}, 1)
    families = parse(format_figures(figures, counts, 3.0, 42, is_up=True))
    values = {name.removeprefix("logist_"): family.samples for name, family in families.items()}
    assert values["run_info"] == {f'pid="42",version="{__version__}"': 1}
    assert values["heartbeat_timestamp_seconds"] == {"": 3}
    assert values["run_cost_total"] == {'currency="USD"': 1.23456789}
    assert values["run_tokens_total"] == {'direction="input"': 6, 'direction="output"': 7}
    assert values["jobs"] == {
        f'status="{status.value}"': counts.by_status.get(status.value, 0) for status in Status
    }
    assert values["jobs_unreadable"] == {"": 2}
    assert values["jobs_waiting_for_person"] == {"": 3}


def test_it_counts_what_the_run_has_done(bench: MakeBench, tmp_path: Path) -> None:
    used = {"input_tokens": 100, "output_tokens": 10, "cost_cents": 2, "cost_microcents": 5}
    b = bench([answer(usage=used), answer(usage=used)])
    b.create("a")
    b.create("b", review=False, approval="none")
    b.create("c")
    (b.folder("c") / "damaged-on-purpose").touch()
    (b.folder("c") / "state.json").write_bytes(b"{")
    path = tmp_path / "logist.prom"
    heartbeat = Heartbeat(b.project, str(path))
    heartbeat.start()
    assert read_value(path, "run_up") == 1
    heartbeat.begin_round()
    for ended in run_queue(b.project, 1, heartbeat.add_step, on_begin=lambda _: heartbeat.begin_job()):
        heartbeat.add_end(ended)
    heartbeat.end()
    assert read_value(path, "run_up") == 0
    assert read_value(path, "run_calls_total") == 3
    assert read_value(path, "run_cost_total", 'currency="USD"') == pytest.approx(0.06000015)
    assert read_value(path, "run_tokens_total", 'direction="input"') == 300
    assert read_value(path, "run_jobs_running") == 0
    assert read_value(path, "run_errors_total") == 1
    assert read_value(path, "run_last_error_timestamp_seconds") > read_value(
        path, "run_started_timestamp_seconds"
    )
    assert read_value(path, "jobs", 'status="APPROVAL_REQUIRED"') == 1
    assert read_value(path, "jobs", 'status="SUCCESS"') == 1
    assert read_value(path, "jobs_unreadable") == 1
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in tmp_path.iterdir() if "prom" in each.name] == ["logist.prom"]


def test_it_beats_also_if_nothing_changes(bench: MakeBench, tmp_path: Path) -> None:
    path = tmp_path / "logist.prom"
    heartbeat = Heartbeat(bench().project, str(path), seconds=0.02, least=0.01)
    heartbeat.start()
    first = read_value(path, "heartbeat_timestamp_seconds")
    while read_value(path, "heartbeat_timestamp_seconds") == first:
        pass
    heartbeat.end()


def test_a_file_that_can_not_be_written_is_one_warning(bench: MakeBench, tmp_path: Path) -> None:
    said: list[str] = []
    b = bench()
    (tmp_path / "directory").mkdir()
    heartbeat = Heartbeat(replace(b.project, say=said.append), str(tmp_path / "directory"))
    heartbeat.start()
    heartbeat.end()
    assert len(said) == 1
    assert said[0].startswith(f"warning: can't write the heartbeat file {tmp_path}/directory: ")
    assert os.listdir(tmp_path / "directory") == []
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".directory")]


def test_jobs_are_counted_by_the_index_as_by_their_files(bench: MakeBench) -> None:
    b: Bench = bench([answer()])
    for name in "abc":
        b.create(name, review=False)
    b.step("a")
    counted: Any = count_jobs(str(b.project.jobs_dir))
    assert counted == ({"PENDING": 2, "APPROVAL_REQUIRED": 1}, 0)
    JobIndex.make(str(b.project.jobs_dir)).refresh()
    b.step("b")
    assert count_jobs(str(b.project.jobs_dir)) == ({"PENDING": 1, "APPROVAL_REQUIRED": 2}, 0)


def test_every_metric_is_explained() -> None:
    text = (ROOT / "docs" / "operation.md").read_text("utf-8")
    families = parse(format_figures(RunFigures(0.0), JobCounts({}, 0), 0.0, 1, is_up=True))
    assert [name for name in families if f"`{name}`" not in text] == []
