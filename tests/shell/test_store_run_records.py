"""The file of a run's record: what a full disk refuses is written later, and nothing is written twice."""

from __future__ import annotations

import os
from pathlib import Path

from logist.store.run_records import (
    Event,
    JobRest,
    JobStart,
    RunEnd,
    RunRecorder,
    RunStart,
    list_run_ids,
    parse_event,
    read_record,
    sum_up_jobs,
    sum_up_run,
)
from tests.cli.test_gc import small_disk
from tests.torture.disk_mounts import Filler

AT = "2026-01-02T03:04:05Z"
START = RunStart("one", AT, ("--for", "8h"), 7, "1.0")


def test_what_a_full_disk_refused_is_written_once_there_is_space(tmp_path: Path) -> None:
    warnings: list[str] = []
    with small_disk(tmp_path) as disk:
        recorder, filler = RunRecorder(str(disk / "runs"), START, warnings.append), Filler(disk / "filler")
        recorder.write(JobStart("a", AT))
        written = Path(recorder.path).read_bytes()
        filler.fill()
        long = JobRest("a", AT, "STUCK", 3, 1, 500, 2.0, "x" * 10_000)
        recorder.write(long)
        recorder.write(JobStart("b", AT))
        assert Path(recorder.path).read_bytes() == written, "half a line was left"
        filler.remove()
        recorder.write(JobRest("b", AT, "SUCCESS", 0, 2, 700, 3.0))
        record = read_record(str(disk / "runs"), "one")
    assert record.unreadable == 0
    assert [type(event) for event in record.events] == [RunStart, JobStart, JobRest, JobStart, JobRest]
    assert record.events[2] == long
    assert len(warnings) == 1
    assert warnings[0].startswith(f"can't write the record of this run: {recorder.path}: No space left")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    recorder = RunRecorder(str(tmp_path / "runs"), START, lambda text: None)
    written: list[Event] = [
        *(JobStart("a", AT), JobRest("a", AT, "PENDING", 6, 1, 5, 1.5, "openai", "logist job step --job a")),
        *(JobStart("a", AT), JobRest("a", AT, "SUCCESS", 0, 2, 7, 2.5)),
        RunEnd("2026-01-02T05:04:05Z", "time", 7, 1, 3, 12, 7200.0),
    ]
    for event in written:
        recorder.write(event)
    assert read_record(str(tmp_path / "runs"), "one").is_running is False
    recorder.close()
    record = read_record(str(tmp_path / "runs"), "one")
    assert (list(record.events), record.begun, record.ended) == ([START, *written], START, written[-1])
    [job] = sum_up_jobs(record.events)
    assert (job.interactions, job.cost_microcents, job.seconds, job.rested) == (3, 12, 4.0, written[3])
    short = read_record(str(tmp_path / "runs"), "one", with_jobs=False)
    assert list(short.events) == [START, written[-1]]
    assert sum_up_run(short, 0.0) == (1, 12, 7200.0)


def test_a_run_reads_back_what_it_has_recorded(tmp_path: Path) -> None:
    """Also if the record was removed meanwhile, or can't be written."""
    events: list[Event] = [JobStart(f"j{number}", AT) for number in range(3_000)]
    recorder = RunRecorder(str(tmp_path / "runs"), START, lambda text: None)
    for event in events:
        recorder.write(event)
    Path(recorder.path).unlink()
    recorder.write(JobRest("j1", AT, "SUCCESS"))
    assert list(recorder.iter_events()) == [START, *events, JobRest("j1", AT, "SUCCESS")]
    recorder.close()
    (tmp_path / "file").touch()
    unwritable = RunRecorder(str(tmp_path / "file" / "runs"), START, lambda text: None)
    unwritable.write(events[0])
    assert list(unwritable.iter_events()) == [START, events[0]]


def test_each_line_is_in_the_file_at_once(tmp_path: Path) -> None:
    """So a killed run loses at most the line that it was writing."""
    recorder = RunRecorder(str(tmp_path / "runs"), START, lambda text: None)
    assert not (tmp_path / "runs").exists()
    recorder.write(JobStart("a", AT))
    record = read_record(str(tmp_path / "runs"), "one")
    assert list(record.events) == [START, JobStart("a", AT)]
    assert (record.is_running, record.was_killed) == (True, False)
    recorder.close()
    assert read_record(str(tmp_path / "runs"), "one").was_killed


def test_a_run_lasts_until_now_or_until_what_it_recorded_last(tmp_path: Path) -> None:
    recorder = RunRecorder(str(tmp_path / "runs"), START, lambda text: None)
    recorder.write(JobStart("a", "2026-01-02T04:04:05Z"))
    began = 1_767_323_045.0
    assert sum_up_run(read_record(str(tmp_path / "runs"), "one"), began + 9000).seconds == 9000
    recorder.close()
    assert sum_up_run(read_record(str(tmp_path / "runs"), "one"), began + 9000).seconds == 3600


def test_a_line_of_another_version_or_of_a_stranger() -> None:
    assert parse_event(b'{"event":"job_begun","job":"a","new":[1]}') == JobStart("a")
    for line in (
        *(
            b"",
            b"7",
            b"{}",
            b'{"event":"later"}',
            b'{"event":["job_begun"]}',
            b'{"event":"job_begun","job":null}',
        ),
        *(b'{"event":"job_rested","exit_code":true}', b'{"event":"job_rested","seconds":1e999}'),
        *(b'{"event":"job_rested","cost_microcents":-1}', b'{"event":"run_begun","arguments":"x"}'),
        b"[" * 100_000,
    ):
        assert parse_event(line) is None, line[:40]


def test_only_records_are_listed(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", ".gitignore", "x y.jsonl", "c.json", ".jsonl"):
        (tmp_path / name).touch()
    os.symlink(tmp_path, tmp_path / "link")
    assert list_run_ids(str(tmp_path)) == ["b", "a"]
    assert list_run_ids(str(tmp_path / "link")) == []
    assert list_run_ids(str(tmp_path / "none")) == []
